"""What the index says of a run, from its records; and the digest by which a page that would be the same is not made."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from functools import cache
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import case_result
from pytest_vla.metrics.rates import BENIGN
from pytest_vla.plan.manifests import is_suite, load_suite
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.records.store import Store
from pytest_vla.reports.html.gates import GateTold
from pytest_vla.reports.html.media import MediaShown
from pytest_vla.reports.html.summary import JudgedRate, counting_by_model, judged_rates
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.runs import status_of, status_text
from pytest_vla.reports.site.entries import Entry, EntryVerdict, Result, conditions_of, selection_of, strata_of
from pytest_vla.versions import installed

PAGES = 1
"""Raised where pages of the same records and version are to be made again."""

NOT_JUDGED = "not judged"

_VERSIONS = ("pytest-vla", "mujoco", "robosuite", "renderer")
_DIGITS = 32


def digest_of(store: Store, run: Run, shown: MediaShown) -> str:
    """Names all that a run's page is made of: its records, its row, what made it, and what it shows.

    Raises:
        VlaError: a record is not there.
    """
    found = hashlib.sha256()
    row = (run.name, run.started, run.ended, status_of(run), run.command, run.model, run.planned, run.picked)
    counts = sorted(map(repr, run.counts)), astuple(run.repeats), run.decided
    options = (PAGES, installed("pytest-vla"), shown.pictures, shown.videos, shown.of_failed)
    found.update(json.dumps([row, counts, dict(run.invocation), options], sort_keys=True).encode())
    dated = store.dated(run.name)
    # Numbers are another store's in a copy; the order is not.
    for line in store.lines([*dated]):
        found.update(b"\0" + line.encode("utf-8", "surrogatepass"))
    return found.hexdigest()[:_DIGITS]


def summarise(run: Run, loaded: Loaded, gates: Sequence[GateTold], made_from: str, data: Path | None = None) -> Entry:
    """A run as the index has it.

    Args:
        run: its row.
        loaded: its records.
        gates: what its gate said; empty: it had none.
        made_from: of `digest_of`.
        data: of ``--vla-data``: a suite may have further tasks there.

    Raises:
        VlaError: a record's id is no case's.
    """
    results = [_result(each, data) for each in judged_rates(counting_by_model(loaded.records))]
    return Entry(
        run.name,
        run.started,
        run.ended,
        status_text(run),
        run.model,
        run.picked,
        run.planned,
        run.done,
        run.decided,
        next(map(_verdict, gates), None),
        dict(_versions(loaded.records)),
        tuple(results),
        made_from,
    )


def _result(judged: JudgedRate, data: Path | None) -> Result:
    cases = [case_result(record) for record in judged.records]
    strata = strata_of(cases)
    tasks = len({task for task, _, _ in strata})
    known = _tasks_of(judged.suite, data) if judged.records[0].of_suite else None
    return Result(
        judged.model,
        tuple(sorted({record.policy_digest for record in judged.records if record.policy_digest is not None})),
        judged.suite,
        judged.group or BENIGN,
        judged.rate,
        tasks,
        # An installed suite of another version may have fewer.
        None if known is None else max(known, tasks),
        len(strata),
        selection_of(strata),
        conditions_of(cases),
    )


@cache
def _tasks_of(suite: str, data: Path | None) -> int | None:
    """How many tasks a suite has; None: it is not installed, or cannot be read."""
    try:
        return len(load_suite(suite, data=data).tasks) if is_suite(suite) else None
    except VlaError:
        return None


def _versions(records: Sequence[Record]) -> Iterator[tuple[str, str]]:
    for name in _VERSIONS:
        told = {str(record.provenance[name]) for record in records if record.provenance.get(name)}
        if told:
            yield name, " and ".join(sorted(told))


def _verdict(gate: GateTold) -> EntryVerdict:
    word = NOT_JUDGED if gate.judgement is None else gate.judgement.verdict
    return EntryVerdict(word, gate.passed, gate.line.removeprefix(f"{gate.run}: "))
