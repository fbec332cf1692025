"""``--vla-min-success``: whether a run passes, by the success rates of each suite."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_vla.records.record import Record

if TYPE_CHECKING:
    from pytest_vla.metrics.success import SuccessRate


def judge(
    records: Sequence[Record], minimum: float, others: int, stopped: bool, by_lower_end: bool = False
) -> tuple[tuple[str, ...], bool]:
    """The verdict over a run: the lines that say it, and whether the run passes.

    Args:
        records: of the suites' own items.
        minimum: the success rate that each suite has to reach: where tasks are varied, its benign episodes by
            themselves, and its varied ones. Probes are in no rate.
        others: how many items failed beside failed episodes: errors, and tests of the user's own.
        stopped: whether the run ended before all its items had run.
        by_lower_end: whether the lower end of each rate's interval has to reach the minimum, and not the rate.
    """
    from pytest_vla.reports.terminal.summary import luck_line, verdict_line
    from pytest_vla.util.text import counted

    found = tuple(_rates(records))
    rates = [rate for rate, _ in found]
    lines = [verdict_line(rate, minimum, by_lower_end) for rate in rates]
    # Once for all that are of as many episodes, which mostly all are.
    lucky = (luck_line(rate.counted, units, minimum, by_lower_end) for rate, units in found)
    lines += dict.fromkeys(filter(None, lucky))
    probes = sum(record.is_probe for record in records)
    if probes:
        lines.append(f"not judged: {counted(probes, 'probe')} (of whether it listens or looks), which are in no rate")
    if not rates:
        lines.append(f"--vla-min-success: no episode of a suite {'was judged' if probes else 'ran'}: failed")
    if others:
        lines.append(f"failed all the same: {others} beside the failed episodes (errors, other tests)")
    if stopped:
        lines.append("failed all the same: the run was stopped before its end")
    reached = bool(rates) and all(rate.reaches(minimum, by_lower_end) for rate in rates)
    return tuple(lines), reached and not others and not stopped


def _rates(records: Sequence[Record]) -> "Iterator[tuple[SuccessRate, int]]":
    """Each with the number of tasks and seeds that it is of."""
    from pytest_vla.metrics.rates import judged_apart
    from pytest_vla.metrics.selection import is_counted
    from pytest_vla.metrics.success import success_rate, unit_of

    for suite in sorted({record.suite for record in records}):
        for group, some in judged_apart([record for record in records if record.suite == suite]).items():
            units = len({unit_of(record) for record in some if is_counted(record)})
            yield success_rate(f"{suite}, {group}" if group else suite, some, unit_of), units
