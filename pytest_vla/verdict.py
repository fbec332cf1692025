"""``--vla-min-success``: whether a run passes, by the success rate of each suite."""

from collections.abc import Sequence

from pytest_vla.records import Record


def judge(records: Sequence[Record], minimum: float, others: int, stopped: bool) -> tuple[tuple[str, ...], bool]:
    """The verdict over a run: the lines that say it, and whether the run passes.

    Args:
        records: of the suites' own items.
        minimum: the success rate that each suite has to reach.
        others: how many items failed beside failed episodes: errors, and tests of the user's own.
        stopped: whether the run ended before all its items had run.
    """
    from pytest_vla.metrics.success import suite_rates
    from pytest_vla.reports.terminal import verdict_line

    rates = suite_rates(records)
    lines = [verdict_line(rate, minimum) for rate in rates]
    if not rates:
        lines.append("--vla-min-success: no episode of a suite ran: failed")
    if others:
        lines.append(f"failed all the same: {others} beside the failed episodes (errors, other tests)")
    if stopped:
        lines.append("failed all the same: the run was stopped before its end")
    return tuple(lines), bool(rates) and all(rate.reaches(minimum) for rate in rates) and not others and not stopped
