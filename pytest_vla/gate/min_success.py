"""``--vla-min-success``: whether a run passes, by the success rates of each suite."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from pytest_vla.errors import STOPPED
from pytest_vla.metrics.rates import (
    interval_text,
    judged_apart,
    left_out_text,
    share_text,
)
from pytest_vla.metrics.selection import is_counted
from pytest_vla.metrics.success import (
    SuccessRate,
    chance_to_reach,
    episodes_to_reach,
    fewest_to_reach,
    success_rate,
    unit_of,
)
from pytest_vla.records.record import Record
from pytest_vla.util.text import counted

# The lines of a verdict: rates against the minimum, a reference for chance, and the one line with the verdict.

LUCK = 0.2
"""How much worse the policy is whose chance to pass is printed for reference."""

PASSED, FAILED, NOT_SHOWN = "vla: passed", "vla: failed", "vla: not shown"
"""How `run_line` begins."""


def rate_line(rate: SuccessRate, minimum: float, by_lower_end: bool = False) -> str:
    """Return a suite's rate against the minimum: ``libero_goal: 8/10 = 80.0% [49.0%, 94.3%] >= 80%``.

    With `by_lower_end` the line ends with ``..., lower end >= 80%``; intervals are over these tasks.
    """
    wanted = _percent(minimum)
    if not rate.counted:
        return f"{rate.name}: no episode counted, {wanted} required"
    share, interval = share_text(rate), interval_text(rate)
    if share == wanted and rate.rate is not None:
        # 2/3 is less than the 66.7% that it is rounded to.
        share = _percent(rate.rate)
    sign = ">=" if rate.reaches(minimum, by_lower_end) else "<"
    compared = f"{interval}, lower end" if by_lower_end else interval
    apart = f" ({left_out_text(rate)})" if rate.not_counted else ""
    return f"{rate.name}: {rate.successes}/{rate.counted} = {share} {compared}{apart} {sign} {wanted}"


def verdict_line(minimum: float, against: Sequence[str], by_lower_end: bool = False) -> str:
    """Return `run_line` for ``--vla-min-success`` alone: ``vla: passed (--vla-min-success=80%)``.

    Args:
        minimum: the required rate, 0..1.
        against: the reasons for a failure; empty if the run passed.
        by_lower_end: whether the interval's lower end has to reach the minimum.
    """
    return run_line([minimum_text(minimum, by_lower_end)], against)


def run_line(asked: Sequence[str], against: Sequence[str], is_shown: bool = True) -> str:
    """Return the one line with the verdict of a run.

    Args:
        asked: the options by which it was judged.
        against: the reasons for a failure; empty if the run passed.
        is_shown: whether anything was shown; False for an undecided gate, which does not fail the run and is no pass.
    """
    by = f"({', '.join(asked)})"
    return f"{FAILED} {by}: {'; '.join(against)}" if against else f"{PASSED if is_shown else NOT_SHOWN} {by}"


def minimum_text(minimum: float, by_lower_end: bool = False) -> str:
    """Return the option as text: ``--vla-min-success=80%``."""
    return f"--vla-min-success={_percent(minimum)}{':lower' * by_lower_end}"


def luck_line(n: int, units: int, minimum: float, by_lower_end: bool = False) -> str:
    """Return the line that shows how often a policy that is worse by `LUCK` reaches a minimum by chance.

    Empty if no episode counted, and if any policy reaches the minimum.

    Args:
        n: episodes that count.
        units: number of their different tasks and starts. Episodes that share one may all end alike.
        minimum: of the rate, 0..1.
        by_lower_end: whether the minimum applies to the lower end of the rate's interval instead.
    """
    if not n or minimum <= 0:
        return ""
    wanted, runs = _percent(minimum), counted(n, "episode")
    if units < n:
        runs += f" from {counted(units, 'start')}"
    if fewest_to_reach(units, minimum, by_lower_end) is None:
        enough = episodes_to_reach(minimum)
        what = "starts" if units < n else "episodes"
        needs = f"with any number of {what}" if enough is None else f"with {runs}; at least {enough} {what} are needed"
        return f"for reference: the lower end cannot reach {wanted} {needs}"
    worse = max(minimum - LUCK, 0.0)
    chances = sorted(chance_to_reach(each, minimum, worse, by_lower_end) for each in {units, n})
    least, most = (f"{chance:.0%}" if chance >= 0.01 else "less than 1%" for chance in (chances[0], chances[-1]))
    share = most if least == most else f"{least} (if all episodes are independent) to {most}"
    return (
        f"for reference: a policy with a true rate of {worse * 100:.6g}% passes this check {share} of the time ({runs})"
    )


def _percent(share: float) -> str:
    return f"{share * 100:.6g}%"


NO_POLICY = "no episode ran: no policy was given (add --vla-model=POLICY)"


def judge(
    records: Sequence[Record],
    minimum: float,
    others: int,
    stopped: bool,
    by_lower_end: bool = False,
    has_policy: bool = True,
    retried: Collection[str] = (),
    skipped: int = 0,
) -> tuple[tuple[str, ...], bool]:
    """Judge a run: return its lines, the last of which states passed or failed, and whether it passes.

    Args:
        records: of the suites' own items, or, if none was asked for, of tests of the user's own.
        minimum: the success rate that each suite has to reach. If tasks are varied, its benign episodes and its varied
            ones have to reach it separately. Probes are in no rate.
        others: number of items that failed beside failed episodes of suites: errors, and tests of the user's own.
        stopped: whether the run ended before all its items had run.
        by_lower_end: whether the lower end of each rate's interval has to reach the minimum, and not the rate.
        has_policy: whether a policy was given, which the message mentions if no episode ran.
        retried: the node ids of the records that replaced an error of the policy's own: they count as failures.
        skipped: number of planned episodes that were skipped without a record.
    """
    lines, against = weigh(records, minimum, by_lower_end, has_policy, retried, skipped)
    against += against_others(others, stopped, any(not record.of_suite for record in records))
    return (*lines, verdict_line(minimum, against, by_lower_end)), not against


def weigh(
    records: Sequence[Record],
    minimum: float,
    by_lower_end: bool,
    has_policy: bool,
    retried: Collection[str] = (),
    skipped: int = 0,
) -> tuple[list[str], list[str]]:
    """Compare the rates with the minimum: return their lines, and the reasons for a failure. See `judge`."""
    # A policy must not gain by raising where it would fail.
    gained = {record.node for record in records if record.outcome == "success"} & {*retried}
    records = [replace(record, outcome="failure") if record.node in gained else record for record in records]
    found = tuple(_rates(records))
    rates = [rate for rate, _ in found]
    lines = [rate_line(rate, minimum, by_lower_end) for rate in rates]
    # Once for all that are of as many episodes, which mostly all are.
    lucky = (luck_line(rate.counted, units, minimum, by_lower_end) for rate, units in found)
    lines += dict.fromkeys(filter(None, lucky))
    as_failed = {
        "successes by a retry after the policy's own error": len(gained),
        "planned episodes that were skipped": skipped,
        "episodes stopped by --vla-stop-when": sum(rate.invalid.get(STOPPED, 0) for rate in rates),
    }
    if any(as_failed.values()):
        told = ", ".join(f"{what} ({number})" for what, number in as_failed.items() if number)
        lines.append(f"judged as failed: {told}")
    probes = sum(record.is_probe for record in records)
    if probes:
        lines.append(f"not judged: {counted(probes, 'probe')} (language and vision checks), not part of any rate")
    given = sum(record.is_given and not record.is_probe for record in records)
    if given:
        lines.append(f"not judged: {counted(given, 'given case')} (--vla-cases), not part of any rate")
    against = []
    if not has_policy:
        against.append(NO_POLICY)
    elif not rates:
        against.append(f"no episode of a suite {'was judged' if probes or given else 'ran'}")
    if unmeasured := [rate.name for rate in rates if not rate.counted]:
        against.append(f"no episode of {' and '.join(unmeasured)} counted")
    planned = sum(rate.counted for rate in rates) + skipped
    if skipped and planned and sum(rate.successes for rate in rates) / planned < minimum:
        against.append(f"below {_percent(minimum)} of what was planned")
    versions = {record.policy_digest for record in records if is_counted(record)} - {None}
    if len(versions) > 1:
        against.append(f"{len(versions)} versions of the policy in one run")
    if below := [rate.name for rate in rates if rate.counted and not rate.reaches(minimum, by_lower_end)]:
        against.append(f"{' and '.join(below)} below {_percent(minimum)}{' at the lower end' * by_lower_end}")
    return lines, against


def against_others(others: int, stopped: bool, has_own: bool) -> list[str]:
    """Return the reasons for a failure of the run beside its failed episodes.

    Args:
        others: number of items that failed beside them.
        stopped: whether the run ended before all its items had run.
        has_own: whether tests of the user's are among them.
    """
    against = []
    if others and has_own:
        against.append(f"{others} failed by themselves (errors, or your own assertions)")
    elif others:
        against.append(f"{counted(others, 'item')} failed for other reasons (errors, costs, other tests)")
    if stopped:
        against.append("the run was stopped before its end")
    return against


def _rates(records: Sequence[Record]) -> Iterator[tuple[SuccessRate, int]]:
    """Each with the number of tasks and seeds that it is of."""
    for suite in sorted({record.suite for record in records}):
        some_of_it = [record for record in records if record.suite == suite]
        name = suite if all(record.of_suite for record in some_of_it) else f"{suite}, own tests"
        for group, some in judged_apart(some_of_it).items():
            units = len({unit_of(record) for record in some if is_counted(record)})
            yield success_rate(f"{name}, {group}" if group else name, some, unit_of), units
