"""The file of a campaign, from which it can be resumed: its start, and a line for each result.

JSON lines. A process that is killed leaves at most an incomplete last line, which is not read.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from random import Random
from typing import IO, Any, TypeVar, get_args

import numpy as np

from pytest_vla.episode.rollout import Conditions
from pytest_vla.errors import VlaError
from pytest_vla.fuzz.amounts import Component, value_at
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.found import Found, Searched
from pytest_vla.fuzz.names import FILE, FOLDER, LAST
from pytest_vla.fuzz.proposals import fuzzed_kinds
from pytest_vla.fuzz.sampler import EVEN, SOURCES, Proposal, TriedProposal
from pytest_vla.fuzz.shares import Counted, Coverage, CoverageTally, DimensionShares, changed, shares_of
from pytest_vla.fuzz.shrink import Boundary, Outcome, Shrunk
from pytest_vla.fuzz.task_search import Job, Result, What
from pytest_vla.fuzz.trial import Trial
from pytest_vla.plan.case import dimension_of
from pytest_vla.plan.task import Task
from pytest_vla.records.checks import is_plain, parse_json
from pytest_vla.util.files import NO_LOCKS, lacks_locks
from pytest_vla.util.text import did_you_mean, quoted
from pytest_vla.vary.chosen import Change
from pytest_vla.vary.registry import kind_named
from pytest_vla.vary.space import complaints
from pytest_vla.versions import installed_versions

SCHEMA = 1

_T = TypeVar("_T")


@dataclass(frozen=True)
class Line:
    """The result of a job.

    Attributes:
        task: id.
        job: that was done.
        result: of it.
        episodes: total number of episodes that the campaign had run by then.
        where: of a line that was read, ``FILE:LINE``.
    """

    task: str
    job: Job
    result: Result
    episodes: int = 0
    where: str = field(default="", compare=False)


class Journal:
    """A campaign's file, written by one process."""

    def __init__(self, file: Path, head: Mapping[str, Any]) -> None:
        """Open the file; a new one begins with `head`.

        Raises:
            VlaError: it cannot be written, or another process writes it.
        """
        import filelock

        self.file = file
        self._lock = filelock.FileLock(file.with_name(f".{file.name}.lock"), fallback_to_soft=False)
        self._stream: IO[bytes] | None = None
        self._has_only_head = False
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(blocking=False)
            if file.exists():
                _cut_torn(file)
            self._stream = file.open("ab")
            is_new = not file.stat().st_size
        except filelock.Timeout:
            raise VlaError(f"{file.parent}: another process runs this search; wait for it, or stop it") from None
        except OSError as error:
            self._lock.release()
            told = error.strerror or error
            if lacks_locks(error):
                told = f"{NO_LOCKS}, which keep two processes from one search. Put the results on a local disk"
            raise VlaError(f"{file}: the search cannot be written: {told}") from error
        if is_new:
            self._write({"schema": SCHEMA, **head})
        self._has_only_head = is_new

    def add(self, line: Line) -> None:
        """Add the result of a job. Raises VlaError if it cannot be written."""
        self._write(_table_of(line))
        self._has_only_head = False

    def discard_unused(self) -> None:
        """Remove the file if this process began it and added nothing: such a search is not there to be resumed."""
        if self._has_only_head:
            self.file.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file."""
        if self._stream is not None:
            self._stream.close()
        self._lock.release()
        if not self.file.exists():
            with suppress(OSError):
                Path(self._lock.lock_file).unlink(missing_ok=True)
                self.file.parent.rmdir()

    def _write(self, table: Mapping[str, Any]) -> None:
        assert self._stream is not None
        try:
            self._stream.write(json.dumps(table, allow_nan=False, ensure_ascii=False).encode() + b"\n")
            # A process that is killed leaves what it has handed to the system.
            self._stream.flush()
        except OSError as error:
            raise VlaError(f"{self.file}: the search cannot be written: {error.strerror or error}") from error


def read_head(file: Path) -> dict[str, Any]:
    """Return the start of a campaign. Raises VlaError if it cannot be read, or is none."""
    for table in _tables(file):
        if table.get("schema") != SCHEMA:
            raise VlaError(f"{file}:1: expected a search with schema {SCHEMA}, found {table.get('schema')!r}")
        return table
    raise VlaError(f"{file}: it is empty; start a new search")


def read_lines(file: Path, tasks: Mapping[str, Task]) -> Iterator[Line]:
    """Yield the results of a campaign's jobs, in order.

    Args:
        file: of the campaign.
        tasks: by their ids.

    Raises:
        VlaError: a line cannot be read; the message has its number.
    """
    for number, table in enumerate(_tables(file), 1):
        if number == 1:
            continue
        try:
            yield replace(_line_of(table, tasks), where=f"{file}:{number}")
        except KeyError as error:
            raise VlaError(f"{file}:{number}: not a line of a search: no {error} is known; start a new one") from error
        except (VlaError, TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            raise VlaError(f"{file}:{number}: not a line of a search: {error}; start a new one") from error


def _cut_torn(file: Path) -> None:
    """Remove an incomplete last line."""
    with file.open("rb+") as stream:
        stream.seek(0, os.SEEK_END)
        end = size = stream.tell()
        while end:
            stream.seek(end - 1)
            if stream.read(1) == b"\n":
                break
            end -= 1
        if end < size:
            stream.truncate(end)


def _tables(file: Path) -> Iterator[dict[str, Any]]:
    try:
        with file.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                if not line.endswith(b"\n"):
                    return
                try:
                    table = parse_json(line)
                    if not isinstance(table, dict) or not is_plain(table):
                        raise VlaError("no table of texts, lists and numbers of 64 bits")
                except (VlaError, ValueError) as error:
                    raise VlaError(f"{file}:{number}: expected a line of JSON: {error}; start a new search") from error
                yield table
    except OSError as error:
        raise VlaError(f"{file}: the search cannot be read: {error.strerror or error}") from error


def _table_of(line: Line) -> dict[str, Any]:
    proposal, result = line.job.proposal, line.result
    table: dict[str, Any] = {
        "task": line.task,
        "what": line.job.what,
        "number": proposal.number,
        "source": proposal.source,
        "seed": proposal.candidate.seed,
        "changes": _changes(proposal.candidate),
        "episodes": line.episodes,
    }
    if isinstance(result, Found):
        return table | {
            "smallest": _changes(result.shrunk.candidate),
            "shrinking": result.shrunk.tried,
            "complete": result.shrunk.complete,
            "boundaries": [
                {
                    "kind": each.kind,
                    "passes": None if each.passes is None else dict(each.passes),
                    "fails": dict(each.fails),
                    "along": None if each.along is None else [each.along.name, *each.along.at],
                }
                for each in result.shrunk.boundaries
            ],
            "failed_run_seeds": result.failed,
            "run_seeds": result.tried,
            "rival": result.rival,
            "twin": list(result.twin),
            "draws": result.draws,
        }
    table |= {"outcome": result.outcome, "why": result.why, "signals": dict(result.signals)}
    if isinstance(result, Trial):
        table |= {"again": list(result.again), "draws": result.draws}
    if isinstance(result, TriedProposal):
        table |= {"literals": [list(each) for each in result.literals], "seconds": result.seconds}
    return table


def _line_of(table: Mapping[str, Any], tasks: Mapping[str, Task]) -> Line:
    """Read a line, checked like all that others may have written. Raises VlaError, and what wrong types raise."""
    task = tasks[table["task"]]
    what, source = _word(table["what"], get_args(What)), _word(table.get("source", EVEN), SOURCES)
    candidate = Candidate(task, _count(table["seed"]), _read_changes(task, table["changes"]))
    proposal = Proposal(_count(table["number"]), source, candidate)
    draws = _typed(table.get("draws", False), bool)
    result: Result
    if what == "failure":
        smallest = candidate.having(_read_changes(task, table["smallest"]))
        boundaries = tuple(_boundary(task, each) for each in table["boundaries"])
        complete, rival = _typed(table["complete"], bool), table["rival"]
        shrunk = Shrunk(smallest, _count(table["shrinking"]), boundaries, complete)
        failed, tried = _of_two([table["failed_run_seeds"], table["run_seeds"]])
        if not failed:
            raise VlaError("a failure fails under no run seed")
        rival = None if rival is None else _word(rival, get_args(Outcome))
        twin = _of_two(table.get("twin"))
        result = Found(candidate, shrunk, failed, tried, proposal.number, source, rival, twin, draws)
    else:
        outcome, why = _word(table["outcome"], get_args(Outcome)), _typed(table["why"], str)
        signals = {name: _amount(value, 1.0 if name == "steps" else inf) for name, value in table["signals"].items()}
        result = Trial(outcome, why, signals=signals, again=_of_two(table.get("again")), draws=draws)
        if what == "scene":
            literals = tuple((_typed(name, str), _typed(held, bool)) for name, held in table["literals"])
            result = TriedProposal(proposal, outcome, why, literals, signals, _amount(table["seconds"], inf))
    return Line(task.id, Job(what, proposal), result, _count(table["episodes"]))


def _word(value: Any, known: Sequence[str]) -> Any:
    if value not in known:
        raise VlaError(f"expected one of {', '.join(known)}, found {quoted(value)}")
    return value


def _typed(value: Any, kind: type[_T]) -> _T:
    if type(value) is not kind:
        raise VlaError(f"expected {kind.__name__}, found {quoted(value)}")
    return value


def _count(value: Any) -> int:
    if _typed(value, int) < 0:
        raise VlaError(f"expected a number from 0, found {value}")
    return int(value)


def _amount(value: Any, most: float) -> float:
    if type(value) not in (int, float) or not 0 <= value <= most:
        raise VlaError(f"expected a number from 0 to {most:g}, found {quoted(value)}")
    return float(value)


def _of_two(table: Any) -> tuple[int, int]:
    """Read a number of failures and of trials, (0, 0) if an earlier version wrote neither."""
    failed, tried = map(_count, table or (0, 0))
    if failed > tried:
        raise VlaError(f"{failed} of {tried} trials cannot fail")
    return failed, tried


def _boundary(task: Task, table: Mapping[str, Any]) -> Boundary:
    kind, passes, fails, along = (table[name] for name in ("kind", "passes", "fails", "along"))
    sides = [None if side is None else _read_change(task, kind, side).params for side in (passes, fails)]
    component = None if along is None else Component(_typed(along[0], str), tuple(map(_count, along[1:])))
    for side in sides if component is not None else ():
        if side is not None and component is not None:
            value_at(side, component)
    assert sides[1] is not None
    return Boundary(kind, sides[0], sides[1], component)


def _changes(candidate: Candidate) -> dict[str, dict[str, Any]]:
    return {change.kind: dict(change.params) for change in candidate.changes}


def _read_changes(task: Task, table: Mapping[str, Mapping[str, Any]]) -> tuple[Change, ...]:
    changes = tuple(_read_change(task, kind, params) for kind, params in table.items())
    if len({dimension_of(change.kind) for change in changes}) < len(changes):
        raise VlaError("two changes are of one dimension")
    return changes


def _read_change(task: Task, kind: str, params: Mapping[str, Any]) -> Change:
    if wrong := complaints(kind_named(kind).space(task), params):
        raise VlaError(f"{kind}: {'; '.join(wrong)}")
    return Change(kind, dict(params))


# Searches that were kept, to be gone on with.

_OF_THE_POLICY, _OF_VERSIONS = "policy_digest", "versions"


def kept_search(results: Path, name: str) -> Path:
    """Return the file of a search.

    Args:
        results: the folder of all runs.
        name: of the search, or `LAST`.

    Raises:
        VlaError: there is none of that name; the message has close matches.
    """
    folder = results / FOLDER
    names = sorted(each.parent.name for each in folder.glob(f"*/{FILE}"))
    if not names:
        raise VlaError(f"--resume: there is no search in {folder}")
    if name != LAST and name not in names:
        raise VlaError(f"--resume={name}: there is no such search in {folder}.{did_you_mean(name, names)}")
    return folder / (names[-1] if name == LAST else name) / FILE


def head_of(options: Mapping[str, Any], conditions: Conditions) -> dict[str, Any]:
    """Return the start of a search's file: `options` as JSON has them, the versions, and the policy's digest."""
    return {
        "options": dict(options),
        _OF_VERSIONS: installed_versions(),
        _OF_THE_POLICY: conditions.policy_digest,
    }


def begun_options(file: Path) -> dict[str, Any]:
    """Return the options that a search began with, as JSON has them. Raises VlaError."""
    options = read_head(file).get("options")
    if not isinstance(options, dict):
        raise VlaError(f"{file}:1: its options are missing; start a new search")
    return options


def check_head(file: Path, head: Mapping[str, Any]) -> None:
    """Raise VlaError if the policy or the installed versions differ from those that a search began with."""
    before = read_head(file)
    for key, what in ((_OF_THE_POLICY, "the policy"), (_OF_VERSIONS, "the set of installed versions")):
        if before.get(key) != head[key]:
            raise VlaError(
                f"--resume={file.parent.name}: {what} changed since the search began (then "
                f"{before.get(key)}, now {head[key]}); start a new search"
            )


# A search told again from its lines: where it was, what matters, what each source gave, and when failures were found.
#
# Lines are read one by one and none is kept, but for even scenes before which another one has no answer yet.


@dataclass(frozen=True)
class ReplayedSearch:
    """The search of a task, replayed from its file.

    Attributes:
        coverage: of all scenes that were tried.
        shares: of those that were drawn evenly.
        sources: the outcomes of each source's scenes.
        seconds: total duration of the scenes, over all workers.
    """

    coverage: Coverage
    shares: DimensionShares
    sources: Mapping[str, CoverageTally]
    seconds: float


@dataclass(frozen=True)
class Retold:
    """A whole campaign, replayed from its file.

    Attributes:
        tasks: by id.
        growth: number of episodes, and of distinct failures known by then, over all tasks; a pair for each failure, and
            for the end.
    """

    tasks: Mapping[str, ReplayedSearch]
    growth: tuple[tuple[int, int], ...]


@dataclass
class _OfTask:
    """The counts of a task's lines."""

    coverage: Coverage
    counted: Counted
    step: int
    sources: dict[str, CoverageTally] = field(default_factory=dict)
    seconds: float = 0.0
    waiting: dict[int, TriedProposal] = field(default_factory=dict)
    next_even: int = 0

    def count(self, tried: TriedProposal) -> None:
        proposal = tried.proposal
        self.coverage.count(proposal.candidate, proposal.source, tried.outcome)
        self.sources.setdefault(proposal.source, CoverageTally()).count(tried.outcome)
        self.seconds += tried.seconds
        if proposal.source == EVEN:
            self.waiting[proposal.number] = tried
            for each in self._answered():
                if each.outcome != "aside":
                    there = changed(each.proposal.candidate, self.coverage.spaces)
                    self.counted.count(there, each.outcome == "fails")

    def _answered(self) -> Iterator[TriedProposal]:
        """Yield even scenes before which all have a result: slow scenes fail more often, and come late."""
        while self.next_even in self.waiting:
            yield self.waiting.pop(self.next_even)
            self.next_even += self.step


def retell(
    lines: Iterable[Line], seen: Mapping[str, Searched], tasks: Sequence[Task], dimensions: Sequence[str], guided: bool
) -> Retold:
    """Replay a campaign from its lines.

    Args:
        lines: results of its jobs, in order.
        seen: the state of each search, by the ids of tasks.
        tasks: that were searched.
        dimensions: to which the search was narrowed; empty for all.
        guided: whether other than even scenes were proposed.
    """
    step = len(SOURCES) if guided else 1
    of_tasks: dict[str, _OfTask] = {}
    for task in tasks:
        coverage = Coverage({kind.name: kind.space(task) for kind in fuzzed_kinds(task, dimensions)})
        of_tasks[task.id] = _OfTask(coverage, Counted(coverage.dimensions), step)
    distinct = {name: {found.number for found in each.found} for name, each in seen.items()}
    growth, episodes = [(0, 0)], 0
    for line in lines:
        episodes = line.episodes
        if isinstance(line.result, TriedProposal):
            of_tasks[line.task].count(line.result)
        elif line.job.what == "failure" and line.job.proposal.number in distinct.get(line.task, ()):
            growth.append((episodes, growth[-1][1] + 1))
    growth.append((episodes, growth[-1][1]))
    told = {name: _told(name, each) for name, each in of_tasks.items()}
    return Retold(told, tuple(growth))


def _told(name: str, of: _OfTask) -> ReplayedSearch:
    # Equal searches are told alike.
    generator = np.random.default_rng(Random(name).getrandbits(64))
    return ReplayedSearch(of.coverage, shares_of(of.counted, generator), of.sources, of.seconds)
