"""The protocol of an experiment tracker, and the values that it receives; `TrackerEntry.load` starts one."""

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
from pytest_vla.records.counting import OF_SCENE
from pytest_vla.records.record import Record

PROJECT = "pytest-vla"
"""The experiment or project of a run, if the tracker's own settings name none."""


@dataclass(frozen=True)
class TrackedRun:
    """A run that starts or is resumed.

    Attributes:
        name: the run's unique name.
        folder: the run's folder, created on demand.
        texts: descriptions of the run by name: its policy, suites and options.
        kept: the value of `Tracker.kept` when the run first started, or empty if it was not tracked.
    """

    name: str
    folder: Path
    texts: Mapping[str, str]
    kept: str = ""


@dataclass(frozen=True)
class Point:
    """A finished episode.

    Attributes:
        step: 1 for the first finished episode of the run, and so on; a resumed run continues the count.
        numbers: numbers of the episode, and of the run so far; all are finite. A ``/`` separates a name's levels.
        texts: the episode's identity and outcome.
    """

    step: int
    numbers: Mapping[str, float]
    texts: Mapping[str, str]


@dataclass(frozen=True)
class Ending:
    """The end of a run.

    Attributes:
        finished: whether all planned episodes have run.
        numbers: numbers of the whole run, as in `Point`.
        texts: the verdict, and the records' location.
        files: files that belong to the run; they are deleted after `Tracker.end` returns.
    """

    finished: bool
    numbers: Mapping[str, float]
    texts: Mapping[str, str]
    files: tuple[Path, ...] = ()


class Tracker(Protocol):
    """One run in a tracker. An exception of a method is reported once and does not affect the run."""

    @property
    def kept(self) -> str:
        """The tracker's id of the run, by which a resumed run finds it."""

    @property
    def place(self) -> str:
        """The address, command or folder for looking at the run, without passwords."""

    def about(self, texts: Mapping[str, str]) -> None:
        """Add descriptions of the run, by name; called with those that are known after its first episode."""

    def episode(self, point: Point) -> None:
        """Record a finished episode."""

    def end(self, ending: Ending) -> None:
        """Record the end of the run, which may be resumed later."""


def without_password(text: str) -> str:
    """Return a text with user names and passwords removed from its addresses."""
    return re.sub(r"(?<=://)[^/\s@]*@", "", text)


# The numbers and texts for trackers: of an episode, of the run so far, and of the whole run.
#
# Rates and means are those of the table that closes a run, by the same functions; shares are 0..1.

_COUNTS = {"success": "successes", "failure": "failures", "error": "errors", "invalid": "invalid"}


class SoFarRates:
    """Success rates of a run in progress, for all suites, for each suite, and for each own test.

    Only records that count are included. As at a run's end, no rate mixes benign and varied episodes, nor a suite's
    items and a user's tests, and probes are excluded: ``success_rate`` covers benign episodes, ``success_rate_varied``
    varied ones.
    """

    def __init__(self) -> None:
        # By item, what counts of it.
        self._counted: dict[str, Record] = {}
        self._counts = dict.fromkeys(_COUNTS.values(), 0)
        # By the rate's name, successes, and successes with failures.
        self._rates: dict[str, list[int]] = {}

    def add(self, record: Record) -> None:
        """Count a record instead of the item's earlier one."""
        before = self._counted.get(record.node)
        if before is not None:
            self._count(before, -1)
        self._counted[record.node] = record
        self._count(record, 1)

    def numbers(self) -> dict[str, float]:
        """Return the rates that exist, and ``count/...`` of the episodes by outcome, by name."""
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
    """Return one episode's ``success`` (for successes and failures only), steps, wall seconds, cost and metrics."""
    found: dict[str, float | None] = {
        "success": float(record.outcome == "success") if record.outcome in ("success", "failure") else None,
        "steps": float(record.steps),
        "seconds": record.timings.get("wall"),
        "cost": cumulative(record.costs),
    }
    found |= {f"metrics/{name}": value for name, value in record.metrics.items()}
    return {f"episode/{name}": value for name, value in found.items() if value is not None and math.isfinite(value)}


def episode_texts(record: Record) -> dict[str, str]:
    """Return an episode's identity and outcome as texts."""
    texts = {"case": record.case, "outcome": record.outcome, "reason": record.reason, "node": record.node}
    texts |= {"instruction": record.instruction, "digest": record.digest}
    return {f"episode/{name}": text for name, text in texts.items() if text}


def texts_of(record: Record) -> dict[str, str]:
    """Return the texts of a record that apply to the run: the policy's digest, versions, and the suite's protocol."""
    texts = {"policy_digest": record.policy_digest or "not known"}
    texts |= {f"provenance.{name}": text for name, text in record.provenance.items() if name not in OF_SCENE}
    return texts | {f"protocol.{record.suite}.{name}": str(value) for name, value in record.protocol.items()}


def final_numbers(records: Sequence[Record]) -> dict[str, float]:
    """Return the rates, costs and metric means of the whole run, with the ends of their 95% intervals.

    ``final/success_rate/NAME`` and ``/low``, ``/high`` over these tasks, ``/tasks_low``, ``/tasks_high`` over tasks
    like these, with ``/episodes``, ``/errors``, ``/invalid``; NAME is a suite or a test, with ``/`` and the variation
    if some are varied. ``final/cost``, ``final/safe_success`` and ``final/metrics/METRIC`` have the same form.

    Args:
        records: for each item the record that counts.
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
    """Return the number of uncounted episodes by reason as a text, or an empty table if all count."""
    counts: dict[str, int] = {}
    for record in records:
        if record.outcome in ("error", "invalid"):
            counts[str(record.reason)] = counts.get(str(record.reason), 0) + 1
    told = ", ".join(f"{number} {reason}" for reason, number in sorted(counts.items()))
    return {"not_counted": told} if counts else {}
