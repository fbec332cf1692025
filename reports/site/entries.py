"""The runs of a site as ``runs.json`` keeps them after the records are gone: summarised, written, read and checked."""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import CaseResult, case_result
from pytest_vla.gate.comparable import OF_DRAW, OF_SEED, row_of
from pytest_vla.metrics.rates import BENIGN, VARIED
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.plan.manifests import is_suite, load_suite
from pytest_vla.records.checks import (
    is_count,
    is_number,
    is_plain,
    is_run_name,
    is_text,
    list_of,
    or_null,
    parse_json,
    table_of,
)
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.records.store import Store
from pytest_vla.reports.html.gates import GateTold
from pytest_vla.reports.html.media import MediaShown
from pytest_vla.reports.html.page import JudgedRate, counting_by_model, judged_rates
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.runs import status_of, status_text
from pytest_vla.util.documents import read_plain
from pytest_vla.util.files import whole_file
from pytest_vla.util.text import printable, quoted
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


# ``runs.json``: the entries of a site's runs, checked when they are read.

MOST_BYTES = 256 * 1024 * 1024

_MENDING = "take the file of the job before, or delete it: then the index is of the runs that are here"


def read_listing(path: Path) -> dict[str, Entry]:
    """Return the runs of a site by name, the newest first; empty if there is no file.

    Raises:
        VlaError: the file is damaged; names it, the run, what was expected, and what helps.
    """
    try:
        text = read_plain(path, MOST_BYTES).decode()
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError as error:
        raise _broken(path, f"it is no text (byte {error.start})") from error
    except ValueError as error:
        raise _broken(path, str(error)) from error
    except OSError as error:
        raise VlaError(f"cannot read {path}: {error.strerror or error}") from error
    found: dict[str, Entry] = {}
    try:
        for place, table in enumerate(check_head(parse_json(text, unique=True)), 1):
            try:
                check_entry(table)
            except VlaError as error:
                raise VlaError(f"{_whose(table, place)}: {error}") from error
            if table["name"] in found:
                raise VlaError(f"run {table['name']} is there twice")
            found[table["name"]] = _entry(table)
    except VlaError as error:
        raise _broken(path, str(error)) from error
    return newest_first(found.values())


def write_listing(path: Path, entries: Iterable[Entry]) -> None:
    """Write it, whole or not at all, the newest run first. Raises VlaError."""
    with whole_file(path) as stream:
        stream.write(text_of(entries).encode())


def text_of(entries: Iterable[Entry]) -> str:
    """Return the file's text, one line for each run; equal entries give equal bytes."""
    lines = ",\n".join(_json(_table(entry)) for entry in newest_first(entries).values())
    runs = f"[\n{lines}\n]" if lines else "[]"
    made_by = _json(f"pytest-vla {installed('pytest-vla')}")
    return f'{{\n"schema": {SCHEMA},\n"made_by": {made_by},\n"runs": {runs}\n}}\n'


def check_listed(entry: Entry) -> None:
    """Refuse a run that could not be read again: it would cost the site all others. Raises VlaError."""
    check_entry(json.loads(_json(_table(entry))))


def newest_first(entries: Iterable[Entry]) -> dict[str, Entry]:
    """Return the entries by name, the newest first."""
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.order, reverse=True)}


def _table(entry: Entry) -> dict[str, Any]:
    told = {name: value for name, value in asdict(entry).items() if name != "unknown"}
    told["results"] = [
        {name: value for name, value in result.items() if name != "unknown"} | dict(result["unknown"])
        for result in told["results"]
    ]
    return told | dict(entry.unknown)


def _entry(table: Mapping[str, Any]) -> Entry:
    known = {name: table[name] for name in ENTRY}
    verdict = known["verdict"]
    known["verdict"] = None if verdict is None else EntryVerdict(verdict["word"], verdict["passed"], verdict["line"])
    known["results"] = tuple(map(_listing_result, known["results"]))
    return Entry(**known, unknown={name: value for name, value in table.items() if name not in ENTRY})


def _listing_result(table: Mapping[str, Any]) -> Result:
    known = {name: table[name] for name in RESULT}
    rate = {name: known["rate"][name] for name in RATE}
    for name in ("interval", "tasks_interval"):
        rate[name] = None if rate[name] is None else (float(rate[name][0]), float(rate[name][1]))
    known |= {"rate": SuccessRate(**rate), "policies": tuple(known["policies"])}
    return Result(**known, unknown={name: value for name, value in table.items() if name not in RESULT})


def _whose(table: Any, place: int) -> str:
    name = table.get("name") if isinstance(table, dict) else None
    return f"run {printable(name)[:80]}" if isinstance(name, str) else f"run {place} of the list"


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _broken(path: Path, why: str) -> VlaError:
    return VlaError(f"{path}: not the runs of a site: {why}; {_MENDING}")


SCHEMA = 1
"""Of the files that this version writes."""


def check_head(table: Any) -> list[Any]:
    """Refuse a file whose runs cannot be read.

    Args:
        table: as JSON has it.

    Returns:
        Its runs, which `check_entry` looks at.

    Raises:
        VlaError: it is no table, or of a later schema, or has no list of runs.
    """
    if not isinstance(table, dict):
        raise VlaError(f"expected a table, found {type(table).__name__}")
    schema = table.get("schema")
    if type(schema) is int and schema > SCHEMA:
        by = printable(table["made_by"])[:60] if isinstance(table.get("made_by"), str) else "a later version"
        raise VlaError(
            f"expected schema {SCHEMA}, found {schema}, of {by}: upgrade pytest-vla (pip install -U pytest-vla)"
        )
    if schema is not True and schema == SCHEMA and isinstance(runs := table.get("runs"), list):
        return runs
    raise VlaError(f"expected schema {SCHEMA} and a list of runs, found schema {quoted(schema)}")


def check_entry(table: Any) -> None:
    """Refuse a run whose fields are not there, not of their types, or contradict each other. Raises VlaError."""
    _check(table, ENTRY)
    if table["verdict"] is not None:
        _within("verdict", lambda: _check(table["verdict"], VERDICT))
    columns = set()
    for place, result in enumerate(table["results"], 1):
        _within(f"results, {place}", lambda result=result: _check_result(result))  # type: ignore[misc]
        columns.add((result["model"], result["suite"], result["group"]))
    if len(columns) < len(table["results"]):
        raise VlaError("results: expected one of each model, suite and group, found two")


def _check_result(table: Any) -> None:
    _check(table, RESULT)
    of_tasks = table["of_tasks"]
    if of_tasks is not None and of_tasks < table["tasks"]:
        raise VlaError(f"of_tasks: expected tasks, {table['tasks']}, or more, found {of_tasks}")
    rate = table["rate"]
    _within("rate", lambda: _check(rate, RATE))
    if rate["successes"] > rate["counted"]:
        raise VlaError(f"rate: successes: expected up to counted, {rate['counted']}, found {rate['successes']}")
    others = sum(rate["errors"].values()) + sum(rate["invalid"].values())
    if rate["counted"] + others != rate["episodes"]:
        raise VlaError(f"rate: episodes: expected {rate['counted'] + others}, as there are, found {rate['episodes']}")
    if rate["interval"] is not None and not rate["counted"]:
        raise VlaError("rate: interval: expected null where nothing is counted")


def _within(place: str, check: Callable[[], None]) -> None:
    try:
        check()
    except VlaError as error:
        raise VlaError(f"{place}: {error}") from error


def _check(table: Any, fields: "Fields") -> None:
    if not isinstance(table, dict):
        raise VlaError(f"expected a table, found {type(table).__name__}")
    if missing := [name for name in fields if name not in table]:
        raise VlaError(f"fields missing: {', '.join(missing)}")
    for name, value in table.items():
        expected, fits = fields.get(name, _FURTHER)
        if not fits(value):
            raise VlaError(f"{printable(name)[:60]}: expected {expected}, found {quoted(value)}")


def _is_time(value: object) -> bool:
    try:
        datetime.fromisoformat(value).astimezone(UTC)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, OSError):
        return False
    return True


def _is_interval(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(is_number(end) and type(end) is not bool for end in value)
        and 0 <= value[0] <= value[1] <= 1
    )


Fields = Mapping[str, tuple[str, Callable[[object], bool]]]

_FURTHER = ("numbers, texts, lists and tables, not too deep", is_plain)
_TEXT = ("a text", is_text)
_TEXT_OR_NULL = ("a text or null", or_null(is_text))
_COUNT = ("an integer from 0", is_count)
_TABLE = ("a table", lambda value: isinstance(value, dict))
_INTERVAL = ("two shares, the lower first, or null", or_null(_is_interval))

ENTRY: Fields = {
    "name": ("the name of a run", is_run_name),
    "started": ("a time, ISO 8601", _is_time),
    "ended": ("a time, ISO 8601, or null", or_null(_is_time)),
    "status": _TEXT,
    "model": _TEXT,
    "picked": _TEXT_OR_NULL,
    **dict.fromkeys(("planned", "done", "decided"), _COUNT),
    "verdict": ("a table or null", or_null(lambda value: isinstance(value, dict))),
    "versions": ("a table of texts", table_of(is_text)),
    "results": ("a list of results", lambda value: isinstance(value, list)),
    "made_from": _TEXT,
}
VERDICT: Fields = {"word": _TEXT, "passed": ("true or false", lambda value: isinstance(value, bool)), "line": _TEXT}
RESULT: Fields = {
    "model": _TEXT,
    "policies": ("a list of texts", list_of(is_text)),
    "suite": _TEXT,
    "group": (f"{BENIGN} or {VARIED}", lambda value: value in (BENIGN, VARIED)),
    "rate": _TABLE,
    "tasks": _COUNT,
    "of_tasks": ("an integer from 0, or null", or_null(is_count)),
    "variations": _COUNT,
    "selection": _TEXT,
    "conditions": ("a table of texts", table_of(is_text)),
}
RATE: Fields = {
    "name": _TEXT,
    **dict.fromkeys(("episodes", "successes", "counted"), _COUNT),
    **dict.fromkeys(("interval", "tasks_interval"), _INTERVAL),
    **dict.fromkeys(("errors", "invalid"), ("a table of integers from 0", table_of(is_count))),
}
