"""A run's entry in the index of a site: the values that ``runs.json`` keeps after the records are gone."""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import CaseResult, case_result
from pytest_vla.gate.comparable import OF_DRAW, OF_SEED, row_of
from pytest_vla.metrics.rates import BENIGN
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.plan.manifests import is_suite, load_suite
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.records.store import Store
from pytest_vla.reports.html.gates import GateTold
from pytest_vla.reports.html.media import MediaShown
from pytest_vla.reports.html.summary import JudgedRate, counting_by_model, judged_rates
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.runs import status_of, status_text
from pytest_vla.versions import installed

PAGES = 1
"""Raised if pages of the same records and version are to be made again."""

NOT_JUDGED = "not judged"

_VERSIONS = ("pytest-vla", "mujoco", "robosuite", "renderer")
_PAGE_DIGITS = 32


DRAWN = "*"
"""Marks a condition that seeds draw, which does not distinguish runs."""

SEVERAL = "#"
"""Begins a digest of what tasks have each for themselves."""

_DIGITS = 12

Stratum = tuple[str, str, str]
"""A task's key, a variation's label, and the protocol under which an entry of a list was drawn."""


def strata_of(cases: Sequence[CaseResult]) -> dict[Stratum, list[CaseResult]]:
    """Group the cases by task and variation, in order."""
    found: dict[Stratum, list[CaseResult]] = {}
    for case in cases:
        found.setdefault((case.task_key, case.parts.variation, case.listed), []).append(case)
    return {key: found[key] for key in sorted(found)}


def selection_of(strata: Collection[Stratum]) -> str:
    """Return a digest of the strata: equal for the same tasks and variations, whatever the seeds."""
    return _digest(sorted(strata))


def conditions_of(cases: Sequence[CaseResult]) -> dict[str, str]:
    """Return by name, as texts, the conditions whose difference makes the gate refuse to compare.

    A condition that all cases share is its own text. One that differs between tasks or variations is `SEVERAL` and a
    digest. One that differs between seeds, or may, is `DRAWN`. Only successes and failures count, if there are any.
    """
    strata = strata_of([case for case in cases if case.is_counted] or cases)
    names = {name for some in strata.values() for case in some for name in (*case.shared, *case.own)}
    found = {name: _common(name, strata) for name in sorted(names - OF_SEED) if row_of(name).effect == "refuses"}
    return {name: text for name, text in found.items() if text}


def _common(name: str, strata: Mapping[Stratum, Sequence[CaseResult]]) -> str:
    told: dict[Stratum, str] = {}
    for stratum, cases in strata.items():
        values = {_text(case.condition(name)) for case in cases}
        # Of one seed alone nobody knows what another would draw, as in the gate.
        drawn = name.startswith("world.") or (name in OF_DRAW and stratum[1])
        if len(values) > 1 or (drawn and len({case.seed for case in cases}) == 1):
            return DRAWN
        (told[stratum],) = values
    common = {*told.values()}
    return common.pop() if len(common) == 1 else SEVERAL + _digest([*map(list, told.items())])


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:_DIGITS]


_SHORT = 8
"""Digits of a content's digest, as reports show it."""


@dataclass(frozen=True)
class EntryVerdict:
    """A run's gate verdict.

    Attributes:
        word: the verdict, such as ``no worse``, or ``not judged``.
        passed: whether the run shows what is required.
        line: as the run's page has it, without the run's name.
    """

    word: str
    passed: bool
    line: str


@dataclass(frozen=True)
class Result:
    """Success of one model in one suite, benign or varied.

    Attributes:
        model: its name in the report.
        policies: digests of the policy, in order; several for several versions, empty if not known.
        suite: the suite, or the user's own test.
        group: `BENIGN` or `VARIED` of `pytest_vla.metrics.rates`.
        rate: with the report's intervals.
        tasks: how many.
        of_tasks: how many the suite has, or None if that is not known, as for a user's own test.
        variations: how many pairs of a task and a variation.
        selection: a digest of these pairs: equal if the same was run, whatever the seeds.
        conditions: of `pytest_vla.reports.site.entries.conditions_of`.
        unknown: fields of a later version, as JSON has them.
    """

    model: str
    policies: tuple[str, ...]
    suite: str
    group: str
    rate: SuccessRate
    tasks: int
    of_tasks: int | None
    variations: int
    selection: str
    conditions: Mapping[str, str]
    unknown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def column(self) -> str:
        """The title of its trend and of its column of checkpoints: ``tabletop``, ``tabletop, varied``."""
        return self.suite if self.group == BENIGN else f"{self.suite}, {self.group}"

    @property
    def content(self) -> str:
        """``04061fba``; ``unknown``; ``several``."""
        if len(self.policies) > 1:
            return "several"
        return self.policies[0][:_SHORT] if self.policies else "unknown"

    @property
    def is_whole(self) -> bool:
        """Whether it is of all tasks of its suite."""
        return self.of_tasks is None or self.tasks >= self.of_tasks


@dataclass(frozen=True)
class Entry:
    """A run, as the index has it.

    Attributes:
        name, started, ended, model, picked, planned, done, decided: of `pytest_vla.records.runs.Run`.
        status: of `pytest_vla.reports.runs.status_text`.
        verdict: of its gate, or None if it had none.
        versions: of pytest-vla and of the simulator, by name.
        results: by model, suite and group.
        made_from: of `pytest_vla.reports.site.entries.digest_of`; if it is unchanged, so is the page.
        unknown: fields of a later version, as JSON has them.
    """

    name: str
    started: str
    ended: str | None
    status: str
    model: str
    picked: str | None
    planned: int
    done: int
    decided: int
    verdict: EntryVerdict | None
    versions: Mapping[str, str]
    results: tuple[Result, ...]
    made_from: str
    unknown: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_cut_short(self) -> bool:
        """Whether something of what was planned has no episode."""
        return self.done < self.planned

    @property
    def began(self) -> datetime:
        """The time the run began, UTC."""
        return datetime.fromisoformat(self.started).astimezone(UTC)

    @property
    def order(self) -> tuple[str, str]:
        """The key that sorts runs, the oldest first."""
        return self.started, self.name


def digest_of(store: Store, run: Run, shown: MediaShown) -> str:
    """Return a digest of all that a run's page is made of: records, the run's row, versions, and what is shown.

    Raises:
        VlaError: a record is missing.
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
    return found.hexdigest()[:_PAGE_DIGITS]


def summarise(run: Run, loaded: Loaded, gates: Sequence[GateTold], made_from: str, data: Path | None = None) -> Entry:
    """Return a run as the index has it.

    Args:
        run: its row.
        loaded: its records.
        gates: its gate results, or empty if it had none.
        made_from: of `digest_of`.
        data: of ``--vla-data``, which may add tasks to a suite.

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
    """Return how many tasks a suite has, or None if it is not installed or cannot be read."""
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
