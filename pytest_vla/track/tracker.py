"""What a tracker of experiments is told of a run, and what it has to have: what `TrackerEntry.load` begins."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pytest_vla.metrics.clustered import Interval
from pytest_vla.metrics.extra_metrics import by_origin, further_means
from pytest_vla.metrics.rates import RateRow, rate_rows
from pytest_vla.metrics.safety import cost_summaries
from pytest_vla.metrics.selection import observations
from pytest_vla.plan.costs import cumulative
from pytest_vla.records.record import Record

PROJECT = "pytest-vla"
"""The experiment or project of a run, where the tracker's own settings name none."""


@dataclass(frozen=True)
class TrackedRun:
    """A run that begins, or is gone on with.

    Attributes:
        name: of the run; no other has it.
        folder: of the run; it is made when it is needed.
        texts: what the run is: its policy, suites and options, by name.
        kept: what `Tracker.kept` was when the run began; empty: nobody has tracked it before.
    """

    name: str
    folder: Path
    texts: Mapping[str, str]
    kept: str = ""


@dataclass(frozen=True)
class Point:
    """An episode that has ended.

    Attributes:
        step: 1 for the first episode of the run that ends, and so on; a run that is gone on with counts on.
        numbers: of the episode, and of the run so far; all are finite. A ``/`` parts a name's levels.
        texts: which episode, and how it ended.
    """

    step: int
    numbers: Mapping[str, float]
    texts: Mapping[str, str]


@dataclass(frozen=True)
class Ending:
    """How a run has ended.

    Attributes:
        finished: whether all has run that was planned.
        numbers: of the whole run, as in `Point`.
        texts: the verdict, and where the records are.
        files: that go with the run; they are gone when `Tracker.end` has returned.
    """

    finished: bool
    numbers: Mapping[str, float]
    texts: Mapping[str, str]
    files: tuple[Path, ...] = ()


class Tracker(Protocol):
    """One run in a tracker. Whatever a method raises is told once, and changes nothing of the run."""

    @property
    def kept(self) -> str:
        """What finds the run again, where it is gone on with; such as the tracker's own id of it."""

    @property
    def place(self) -> str:
        """Where people look at it: an address, a command or a folder, without passwords."""

    def about(self, texts: Mapping[str, str]) -> None:
        """Further texts of what the run is, by name: what was known when its first episode had ended."""

    def episode(self, point: Point) -> None:
        """An episode has ended."""

    def end(self, ending: Ending) -> None:
        """The run has ended, for now."""


def without_password(text: str) -> str:
    """A text whose addresses have no names and passwords in them."""
    return re.sub(r"(?<=://)[^/\s@]*@", "", text)


# The numbers and texts that trackers are given: of an episode, of the run so far, and of the whole run.
#
# Rates and means are those of the table that closes a run, by the same functions; shares are 0..1.

_COUNTS = {"success": "successes", "failure": "failures", "error": "errors", "invalid": "invalid"}
_NOT_OF_ALL = ("scene", "stand_ins")
"""Of a record's provenance: what differs from task to task."""


class SoFarRates:
    """Success rates while a run goes on, of the records that count: of all suites, of each, and of each own test.

    As at a run's end, no rate is over benign and varied episodes, nor over a suite's items and a user's tests, and
    probes are in none: ``success_rate`` is of benign episodes, ``success_rate_varied`` of the others.
    """

    def __init__(self) -> None:
        # By item, what counts of it.
        self._counted: dict[str, Record] = {}
        self._counts = dict.fromkeys(_COUNTS.values(), 0)
        # By the rate's name, successes, and successes with failures.
        self._rates: dict[str, list[int]] = {}

    def add(self, record: Record) -> None:
        """A record counts from now on, instead of the one that did of its item."""
        before = self._counted.get(record.node)
        if before is not None:
            self._count(before, -1)
        self._counted[record.node] = record
        self._count(record, 1)

    def numbers(self) -> dict[str, float]:
        """By name: the rates that there are, and ``count/...`` of the episodes by outcome."""
        rates = {name: done / counted for name, (done, counted) in sorted(self._rates.items()) if counted}
        counts = {f"count/{name}": float(number) for name, number in self._counts.items()}
        return rates | counts | {"count/episodes": float(len(self._counted))}

    def _count(self, record: Record, times: int) -> None:
        self._counts[_COUNTS[record.outcome]] += times
        if record.outcome not in ("success", "failure") or record.in_no_rate:
            return
        for name in _rate_names(record):
            found = self._rates.setdefault(name, [0, 0])
            found[0] += times * (record.outcome == "success")
            found[1] += times


def _rate_names(record: Record) -> Iterator[str]:
    name = "success_rate_varied" if record.variation else "success_rate"
    if record.of_suite:
        yield name
        yield f"{name}/{record.suite}"
    else:
        yield f"{name}/{record.node.partition('[')[0]}"


def episode_numbers(record: Record) -> dict[str, float]:
    """Of one episode: ``success`` (of successes and failures only), steps, wall seconds, cost, and its metrics."""
    found: dict[str, float | None] = {
        "success": float(record.outcome == "success") if record.outcome in ("success", "failure") else None,
        "steps": float(record.steps),
        "seconds": record.timings.get("wall"),
        "cost": cumulative(record.costs),
    }
    found |= {f"metrics/{name}": value for name, value in record.metrics.items()}
    return {f"episode/{name}": value for name, value in found.items() if value is not None and math.isfinite(value)}


def episode_texts(record: Record) -> dict[str, str]:
    """Which episode it is, and how it ended."""
    texts = {"case": record.case, "outcome": record.outcome, "reason": record.reason, "node": record.node}
    texts |= {"instruction": record.instruction, "digest": record.digest}
    return {f"episode/{name}": text for name, text in texts.items() if text}


def texts_of(record: Record) -> dict[str, str]:
    """What a record says that holds for the run: the policy's digest, versions, and its suite's protocol."""
    texts = {"policy_digest": record.policy_digest or "not known"}
    texts |= {f"provenance.{name}": text for name, text in record.provenance.items() if name not in _NOT_OF_ALL}
    return texts | {f"protocol.{record.suite}.{name}": str(value) for name, value in record.protocol.items()}


def final_numbers(records: Sequence[Record]) -> dict[str, float]:
    """Of the whole run: rates, costs and means of metrics, with the ends of their 95% intervals.

    ``final/success_rate/NAME`` and ``/low``, ``/high`` over these tasks, ``/tasks_low``, ``/tasks_high`` over tasks
    like these, with ``/episodes``, ``/errors``, ``/invalid``; NAME is a suite or a test, with ``/`` and the variation
    where some are varied. Likewise ``final/cost``, ``final/safe_success`` and ``final/metrics/METRIC``.

    Args:
        records: of each item the one that counts.
    """
    records = observations(records)
    suites = [record for record in records if record.of_suite]
    own = {name: some for name, some in by_origin(records).items() if not some[0].of_suite}
    found: dict[str, float] = {}
    above = ""
    for row in rate_rows(suites, own, by_task=False):
        above = row.name if not row.depth else above
        found |= _of_rate(f"final/success_rate/{above}/{row.name}" if row.depth else f"final/success_rate/{above}", row)
    for cost in cost_summaries(records):
        name = f"{cost.name}/{cost.account}" if cost.account else cost.name
        found |= {f"final/cost/{name}": cost.mean, f"final/safe_success/{name}": cost.safe / cost.episodes}
        found |= _ends(f"final/safe_success/{name}", cost.interval)
    for title, some in by_origin(records).items():
        for mean in further_means(some):
            if mean.mean is not None:
                name = "/".join(filter(None, ("final/metrics", mean.name, title, mean.group)))
                found |= {name: mean.mean.value} | _ends(name, mean.mean.interval)
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _of_rate(name: str, row: RateRow) -> dict[str, float]:
    rate = row.rate
    if rate is None:
        return {}
    found = {f"{name}/episodes": float(rate.episodes)}
    found |= {f"{name}/errors": float(sum(rate.errors.values())), f"{name}/invalid": float(sum(rate.invalid.values()))}
    if row.is_probe or row.is_given or rate.rate is None:
        return found
    return {name: rate.rate} | found | _ends(name, rate.interval) | _ends(f"{name}/tasks", rate.tasks_interval, "_")


def _ends(name: str, interval: Interval | None, mark: str = "/") -> dict[str, float]:
    return {} if interval is None else {f"{name}{mark}low": interval[0], f"{name}{mark}high": interval[1]}


def reason_texts(records: Sequence[Record]) -> Mapping[str, str]:
    """Why episodes are in no rate, with how many of each reason; empty: none is."""
    counts: dict[str, int] = {}
    for record in records:
        if record.outcome in ("error", "invalid"):
            counts[str(record.reason)] = counts.get(str(record.reason), 0) + 1
    told = ", ".join(f"{number} {reason}" for reason, number in sorted(counts.items()))
    return {"not_counted": told} if counts else {}
