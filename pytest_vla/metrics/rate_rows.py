"""The success rates of a run, row by row: of suites, of what is varied in them, of tasks, and of the user's tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pytest_vla.metrics.rates import BENIGN, VariedOutcome, groups_of, is_plain
from pytest_vla.metrics.success import SeededOutcome, SuccessRate, success_rate, unit_of

MAX_TASK_ROWS = 50
"""Beyond this many, tasks are shown with -v only, and levels not at all."""


class VariedTask(VariedOutcome, SeededOutcome, Protocol):
    """An outcome of a task that may be varied, with the task's name and what it began from."""


@dataclass(frozen=True)
class RateRow:
    """A row: of what, how deep below others it stands, and its rate; None: it stands over the rows that follow.

    Rows of probes and of given cases show their counts, and no rate.
    """

    name: str
    rate: SuccessRate | None
    depth: int = 0
    is_probe: bool = False
    is_given: bool = False


def rate_rows(
    records: Sequence[VariedTask], own: Mapping[str, Sequence[VariedTask]], by_task: bool = True
) -> list[RateRow]:
    """A row a suite with a row for each of its tasks, one over all suites, and a row for each own test.

    Where episodes are varied, no rate is over benign and varied ones, nor over two kinds of variation: each has a row
    below its suite's or test's.

    Args:
        records: of the suites' own items.
        own: of the user's tests, by test: they may run a suite's cases again, so no rate is over both.
        by_task: whether tasks have rows.
    """
    by_suite: dict[str, list[VariedTask]] = {}
    for record in sorted(records, key=lambda record: record.suite):
        by_suite.setdefault(record.suite, []).append(record)
    rows = [row for suite, some in by_suite.items() for row in _group_rows(suite, some, by_task)]
    if not all(map(is_plain, records)):
        benign = [record for record in records if is_plain(record)]
        if len({record.suite for record in benign}) > 1:
            rows.append(RateRow(f"all, {BENIGN}", success_rate("all", benign, unit_of)))
    elif len(by_suite) > 1:
        rows.append(RateRow("all", success_rate("all", records, unit_of)))
    return rows + [row for name in sorted(own) for row in _group_rows(name, own[name], False)]


def kind_rows(records: Sequence[VariedTask]) -> list[RateRow]:
    """A row for what is not varied, one for what of it was chosen, and one for each kind of variation."""
    groups = groups_of(records, by_level=False)
    return [RateRow(name, success_rate(name, some, unit_of), 0, *_apart(some)) for name, some in groups.items()]


def _group_rows(title: str, records: Sequence[VariedTask], by_task: bool) -> list[RateRow]:
    """A row over all episodes of a suite or test; if some are varied or chosen, one a group below its name."""
    if all(map(is_plain, records)):
        return [RateRow(title, success_rate(title, records, unit_of)), *(_task_rows(records, 1) if by_task else [])]
    groups = groups_of(records)
    if len(groups) > MAX_TASK_ROWS:
        groups = groups_of(records, by_level=False)
    rows = [RateRow(title, None)]
    for name, some in groups.items():
        rows.append(RateRow(name, success_rate(name, some, unit_of), 1, *_apart(some)))
        rows += _task_rows(some, 2) if by_task else []
    return rows


def _task_rows(records: Sequence[VariedTask], depth: int) -> list[RateRow]:
    """A row for each task of episodes of one group."""
    by_task: dict[str, list[VariedTask]] = {}
    for record in records:
        by_task.setdefault(record.task_key, []).append(record)
    rates = {task: success_rate(task, by_task[task], unit_of) for task in sorted(by_task)}
    return [RateRow(task, rate, depth, *_apart(records)) for task, rate in rates.items()]


def _apart(records: Sequence[VariedTask]) -> tuple[bool, bool]:
    """Whether a group is of probes, and whether it is of given cases."""
    return records[0].is_probe, records[0].is_given
