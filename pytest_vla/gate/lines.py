"""What a gate says of a run, in lines: rates against what was wanted, luck, and the one line with the verdict."""

from collections.abc import Sequence

from pytest_vla.metrics.rates import (
    interval_text,
    left_out_text,
    share_text,
)
from pytest_vla.metrics.success import (
    SuccessRate,
    chance_to_reach,
    episodes_to_reach,
    fewest_to_reach,
)
from pytest_vla.util.text import counted

LUCK = 0.2
"""How much worse the policy is of which it is said how often it passes by luck."""

PASSED, FAILED = "vla: passed", "vla: failed"
"""How `run_line` begins."""


def rate_line(rate: SuccessRate, minimum: float, by_lower_end: bool = False) -> str:
    """A suite's rate against the wanted one: ``libero_goal: 8/10 = 80.0% [49.0%, 94.3%] >= 80%``.

    By the lower end ``..., lower end >= 80%``; intervals are over these tasks.
    """
    wanted = _percent(minimum)
    if not rate.counted:
        return f"{rate.name}: nothing was measured, {wanted} was wanted"
    share, interval = share_text(rate), interval_text(rate)
    if share == wanted and rate.rate is not None:
        # 2/3 is less than the 66.7% that it is rounded to.
        share = _percent(rate.rate)
    sign = ">=" if rate.reaches(minimum, by_lower_end) else "<"
    compared = f"{interval}, lower end" if by_lower_end else interval
    apart = f" ({left_out_text(rate)})" if rate.not_counted else ""
    return f"{rate.name}: {rate.successes}/{rate.counted} = {share} {compared}{apart} {sign} {wanted}"


def verdict_line(minimum: float, against: Sequence[str], by_lower_end: bool = False) -> str:
    """`run_line` of ``--vla-min-success`` alone: ``vla: passed (--vla-min-success=80%)``.

    Args:
        minimum: that was wanted, 0..1.
        against: everything for which it failed; empty: it passed.
        by_lower_end: whether it was wanted of the lower end.
    """
    return run_line([minimum_text(minimum, by_lower_end)], against)


def run_line(asked: Sequence[str], against: Sequence[str]) -> str:
    """The one line that says how a run ended.

    Args:
        asked: the options by which it was judged.
        against: everything for which it failed; empty: it passed.
    """
    by = f"({', '.join(asked)})"
    return f"{FAILED} {by}: {'; '.join(against)}" if against else f"{PASSED} {by}"


def minimum_text(minimum: float, by_lower_end: bool = False) -> str:
    """``--vla-min-success=80%``."""
    return f"--vla-min-success={_percent(minimum)}{':lower' * by_lower_end}"


def luck_line(n: int, units: int, minimum: float, by_lower_end: bool = False) -> str:
    """What so many episodes say against a minimum: how often a policy that is worse by `LUCK` reaches it by luck.

    Empty where nothing was counted, and where any policy reaches it.

    Args:
        n: episodes that count.
        units: of how many tasks and starts they are. Where several share one they may all end alike.
        minimum: of the rate, 0..1.
        by_lower_end: of the lower end of its interval instead.
    """
    if not n or minimum <= 0:
        return ""
    wanted, runs = _percent(minimum), counted(n, "episode")
    if units < n:
        runs += f" from {counted(units, 'start')}"
    if fewest_to_reach(units, minimum, by_lower_end) is None:
        enough = episodes_to_reach(minimum)
        takes = "nor in any number of them" if enough is None else f"it takes {enough}"
        takes += " starts" if units < n and enough is not None else ""
        return f"by luck: the lower end cannot reach {wanted} in {runs}; {takes}"
    worse = max(minimum - LUCK, 0.0)
    chances = sorted(chance_to_reach(each, minimum, worse, by_lower_end) for each in {units, n})
    least, most = (f"{chance:.0%}" if chance >= 0.01 else "less than 1%" for chance in (chances[0], chances[-1]))
    share = most if least == most else f"{least} (if no two episodes have anything in common) to {most}"
    return (
        f"by luck: a policy {100 * (minimum - worse):.6g} points worse, of {worse * 100:.6g}%, passes {share} of such "
        f"runs of {runs}"
    )


def _percent(share: float) -> str:
    return f"{share * 100:.6g}%"
