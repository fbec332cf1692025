"""The way of a record from the process that ran the episode to the process that keeps and shows it.

The first process writes the trajectory's file and puts the record as one JSON string into the item's `user_properties`.
The second process, the controller (without xdist the same process), takes it off the reports.
"""

import dataclasses
import hashlib
import itertools
import re
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import cumulative
from pytest_vla.records.checks import is_inside
from pytest_vla.records.counting import COMPLETE, share_conditions
from pytest_vla.records.record import VIDEO_SUFFIX, Record, parse_record, record_line
from pytest_vla.records.trajectory import save_trajectory, trajectory_outcome
from pytest_vla.run.arguments import plain_number
from pytest_vla.util.text import printable

if TYPE_CHECKING:
    from pytest_vla.episode.result import Rollout


# What records of one run have alike, kept once: most of a record's tables are those of all others. Pure.

_TEXTS = ("run", "suite", "task", "worker", "instruction", "outcome", "policy", "policy_digest", "task_level", "group")
_KEYED = ("metrics", "timings")
_TABLES = ("seeds", "provenance")

_MOST = 10_000
"""Tables that are remembered: of a run in which each differs they would be a second copy of all."""


class SharedParts:
    """Equal parts of a run's records as one object, which saves three quarters of their memory."""

    def __init__(self) -> None:
        self._tables: dict[Any, Any] = {}
        self._conditions: dict[Any, Any] = {}

    def of(self, record: Record) -> Record:
        """Return an equal record with shared tables. The tables must not be changed."""
        values: dict[str, Any] = {}
        for name in _TEXTS:
            if type(text := getattr(record, name)) is str:
                values[name] = intern(text)
        for name in _KEYED:
            values[name] = {intern(key): value for key, value in getattr(record, name).items()}
        for name in _TABLES:
            table = getattr(record, name)
            values[name] = self._one_of((name, *table.items()), table)
        values["protocol"] = self._one_of(("protocol", repr(record.protocol)), record.protocol)
        if not record.variation:
            values["variation"] = self._one_of("variation", record.variation)
        record = dataclasses.replace(record, **values)
        if len(self._conditions) < _MOST:
            share_conditions(record, self._conditions)
        return record

    def _one_of(self, key: Any, table: Any) -> Any:
        if len(self._tables) >= _MOST:
            return self._tables.get(key, table)
        return self._tables.setdefault(key, table)


PROPERTY = "vla_record"
"""The name of the user property that carries a record."""


def attach_record(item: pytest.Item, run: Path, rollout: "Rollout") -> "Rollout":
    """Write an episode's trajectory and put its record on the item. Returns the rollout with the file's name.

    Raises:
        OSError: the file cannot be written.
        VlaError: it would lie outside of the run's folder.
    """
    record = rollout.record
    stem = f"{record.suite}/{_file_stem(item, record)}"
    # Names of tasks are looked at where a suite is loaded; a link may lead away all the same.
    if not is_inside(f"{stem}.npz") or not (run / stem).resolve().is_relative_to(run.resolve()):
        raise VlaError(f"{printable(str(run / stem))}.npz lies outside of the run's folder: it is not written")
    name = free_name(run, stem)
    # What an earlier attempt left is not this one's.
    (run / name).with_suffix(VIDEO_SUFFIX).unlink(missing_ok=True)
    if len(rollout.trajectory.qpos):
        save_trajectory(run / name, rollout.trajectory, record.outcome)
        record = dataclasses.replace(record, arrays=name)
    else:
        (run / name).unlink(missing_ok=True)
    others = [(key, value) for key, value in item.user_properties if key != PROPERTY]
    item.user_properties[:] = [*others, (PROPERTY, record_line(record))]
    return dataclasses.replace(rollout, record=record)


class RecordReceiver:
    """The receiving end: takes records off the reports that bring them."""

    def __init__(self) -> None:
        # By node id, the hash of the line that came last.
        self._lines: dict[str, int] = {}
        # By node id, what is shown of it, until the item's last report: reading a line is dear.
        self._shown: dict[str, dict[str, object]] = {}
        self._shared = SharedParts()

    def take(self, report: pytest.TestReport) -> Record | None:
        """Return the record of a report if the report is the first one with it, else None.

        That is the report of the phase in which the episode ran; later ones bring the record again. A few properties
        replace the record on the report, which then goes to JUnit files and the like.
        """
        line = _line_on(report)
        if line is None:
            return None
        node, number, record = report.nodeid, hash(line), None
        is_new = self._lines.get(node) != number
        if is_new or node not in self._shown:
            record = self._shared.of(parse_record(line))
            self._lines[node], self._shown[node] = number, shown_properties(record)
        shown = self._shown[node]
        if report.when == "teardown":
            del self._shown[node]
        others = [(name, value) for name, value in report.user_properties if name != PROPERTY]
        report.user_properties[:] = [*others, *shown.items()]
        return record if is_new else None


def shown_properties(record: Record) -> dict[str, object]:
    """Return an episode's properties for reports, also for JUnit files; unknown ones are left out."""
    cost = cumulative(record.costs)
    found = {
        "case": record.case,
        "suite": record.suite,
        "task": record.task_key,
        "seed": record.seed,
        "variation": record.variation.get("label"),
        "outcome": record.outcome,
        "reason": record.reason,
        "steps": record.steps,
        "cost": None if cost is None else plain_number(cost),
        "digest": record.digest,
        "node": record.node,
        "run": record.run,
    }
    return {f"vla_{name}": value for name, value in found.items() if value is not None}


def carries_record(report: pytest.TestReport) -> bool:
    """Return whether a report brings a record, before it is taken off."""
    return _line_on(report) is not None


def record_on(report: pytest.TestReport) -> Record | None:
    """Return the record that a report brings, before it is taken off, or None if there is none."""
    line = _line_on(report)
    return None if line is None else parse_record(line)


def _line_on(report: pytest.TestReport) -> str | None:
    return next((str(value) for name, value in report.user_properties if name == PROPERTY), None)


def free_name(run: Path, stem: str) -> str:
    """Return the first free name for a trajectory's file in a run's folder: the stem, or the stem with a number.

    A file of a complete episode is kept, since it may count; a file of an error is replaced. Workers need not agree, as
    an item runs on one worker at a time.
    """
    names = (f"{stem}{f'-repeat{number}' if number > 1 else ''}.npz" for number in itertools.count(1))
    return next(name for name in names if trajectory_outcome(run / name) not in COMPLETE)


def _file_stem(item: pytest.Item, record: Record) -> str:
    """Return the stem of an item's files; it differs between repetitions, and between tests on the same case."""
    if record.of_suite:
        decorated = item.name.partition("[")[2].removesuffix("]")
        is_name = item.nodeid != record.node and re.fullmatch(r"[\w.+-]+", decorated)
        return decorated if is_name else record.parameter_id
    return f"{record.parameter_id}-{hashlib.sha256(item.nodeid.encode()).hexdigest()[:12]}"
