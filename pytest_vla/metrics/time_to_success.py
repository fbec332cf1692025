"""Success by step budget, from the steps at which episodes succeeded, and the time to success.

An episode that succeeded at step t would have succeeded under every budget of at least t steps, as success is decided
at the first step at which the goal holds. An episode says nothing about budgets that are larger than its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

from pytest_vla.metrics.clustered import CONFIDENCE, Interval
from pytest_vla.metrics.selection import is_counted
from pytest_vla.metrics.statistics import difference_interval
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.plan.choices import END
from pytest_vla.records.record import Record

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_POINTS = 40
"""The most budgets at which a curve has a point."""


def budget_of(record: Record) -> int | None:
    """Return the episode's step budget, or None if the record does not have it, such as an imported log's."""
    steps = record.protocol.get("max_steps")
    return steps if type(steps) is int and steps > 0 else None


def has_time(record: Record) -> bool:
    """Whether the record says when the episode succeeded, so that shorter budgets can be judged by it.

    It does not if success was judged at the end only (``--vla-success=end``), or if a log has no steps.
    """
    if budget_of(record) is None or record.protocol.get("success") == END:
        return False
    return record.outcome != "success" or bool(record.success_step)


def largest_budget(records: Iterable[Record]) -> int | None:
    """Return the largest budget about which all successes and failures say something, or None if there is none."""
    budgets = [budget_of(record) for record in records if is_counted(record)]
    return None if not budgets or None in budgets else min(budget for budget in budgets if budget is not None)


def rate_at(budget: int, records: Sequence[Record], name: str = "") -> SuccessRate | None:
    """Return the success rate under a step budget, or None if it was not measured.

    Errors and invalid episodes stay what they are. At the episodes' own budget this is their success rate.

    Args:
        budget: control steps, at least 1.
        records: the episodes of one group, which count once each.
        name: of the rate.
    """
    counted = [record for record in records if is_counted(record)]
    budgets = [budget_of(record) for record in counted]
    if not counted or any(own is None or own < budget for own in budgets):
        return None
    if any(own != budget for own in budgets) and not all(map(has_time, counted)):
        return None
    return success_rate(name, [_within(budget, record) for record in records], unit_of)


def _within(budget: int, record: Record) -> Record:
    if record.outcome != "success" or record.success_step is None or record.success_step <= budget:
        return record
    return replace(record, outcome="failure", success_step=None)


def success_curve(records: Sequence[Record], further: Iterable[int] = ()) -> tuple[tuple[int, SuccessRate], ...]:
    """Return success by step budget, up to the largest measured one.

    Args:
        records: as for `rate_at`.
        further: budgets at which the curve has a point besides the steps at which episodes succeeded.
    """
    most = largest_budget(records)
    if most is None:
        return ()
    steps = sorted({r.success_step for r in records if r.outcome == "success" and r.success_step} | {most})
    every = max(1, -(-len(steps) // MOST_POINTS))
    budgets = {*steps[::-1][::every], *(budget for budget in further if 0 < budget <= most)}
    found = ((budget, rate_at(budget, records)) for budget in sorted(budgets) if budget <= most)
    return tuple((budget, rate) for budget, rate in found if rate is not None)


@dataclass(frozen=True)
class TimeToSuccess:
    """The steps that a group's episodes took to succeed, by the Kaplan-Meier estimate.

    A failure is censored at its step budget: it may have succeeded later. Errors and invalid episodes are left out.

    Attributes:
        episodes: successes and failures.
        successes: how many succeeded.
        quartiles: steps by which a quarter, half and three quarters of all episodes have succeeded; None if so many
            did not.
        interval: 95% interval of the median (the second quartile); an end is None if it is not reached.
        steps: steps at which the estimate changes.
        shares: share of the episodes that have succeeded by then, 0..1.
    """

    episodes: int
    successes: int
    quartiles: tuple[int | None, int | None, int | None]
    interval: tuple[int | None, int | None]
    steps: tuple[int, ...]
    shares: tuple[float, ...]


def time_to_success(records: Sequence[Record]) -> TimeToSuccess | None:
    """Return the time to success of a group, or None if no episode counts or one does not say its time."""
    counted = [record for record in records if is_counted(record)]
    if not counted or not all(map(has_time, counted)):
        return None
    from scipy.stats import ecdf

    successes = sum(record.outcome == "success" for record in counted)
    if not successes:
        return TimeToSuccess(len(counted), 0, (None, None, None), (None, None), (), ())
    found = ecdf(_censored(counted))
    steps, shares = found.cdf.quantiles, found.cdf.probabilities
    # By the log-log transformation, as its interval stays within 0..1 (Kalbfleisch and Prentice 2002, section 1.4). It
    # is undefined where none or all have succeeded, of which scipy warns.
    with catch_warnings():
        simplefilter("ignore", RuntimeWarning)
        ends = found.sf.confidence_interval(CONFIDENCE, method="log-log")
    early, late = 1.0 - ends.low.probabilities, 1.0 - ends.high.probabilities
    changes = tuple(
        (int(step), float(share))
        for step, share, before in zip(steps, shares, [0.0, *shares[:-1]], strict=True)
        if share > before
    )
    return TimeToSuccess(
        len(counted),
        successes,
        (_reached(steps, shares, 0.25), _reached(steps, shares, 0.5), _reached(steps, shares, 0.75)),
        (_reached(steps, early, 0.5), _reached(steps, late, 0.5)),
        tuple(step for step, _ in changes),
        tuple(share for _, share in changes),
    )


def log_rank(first: Sequence[Record], second: Sequence[Record]) -> float | None:
    """Return the two-sided p of the log-rank test that two groups take equally long, or None if it is undefined.

    It takes all episodes as independent, also those that two groups have in common. It is undefined without a success,
    or if a record does not say its time.
    """
    sides = [[record for record in side if is_counted(record)] for side in (first, second)]
    if not all(sides) or not all(has_time(record) for side in sides for record in side):
        return None
    if not any(record.outcome == "success" for side in sides for record in side):
        return None
    from scipy.stats import logrank

    p = float(logrank(_censored(sides[0]), _censored(sides[1])).pvalue)
    return None if isnan(p) else p


def _censored(counted: Sequence[Record]) -> Any:
    from scipy.stats import CensoredData

    done = [float(record.success_step or 0) for record in counted if record.outcome == "success"]
    return CensoredData(
        done, right=[float(budget_of(record) or 0) for record in counted if record.outcome != "success"]
    )


def _reached(steps: "NDArray[np.float64]", shares: "NDArray[np.float64]", share: float) -> int | None:
    """Return the first step at which so many have succeeded, or None; undefined shares are skipped."""
    for step, value in zip(steps, shares, strict=True):
        if isfinite(value) and value >= share - 1e-12:
            return int(step)
    return None


@dataclass(frozen=True)
class RateDifference:
    """The difference of a measured success rate and a published one.

    Attributes:
        value: measured less published, -1..1.
        interval: 95% interval, or None if the measured rate has none.
        is_whole: whether the interval has the published number's own sampling error; it does not if nobody says how
            many episodes that is over.
    """

    value: float
    interval: Interval | None
    is_whole: bool

    @property
    def is_shown(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval is not None and not self.interval[0] <= 0.0 <= self.interval[1]


def rate_difference(measured: SuccessRate, published: float, interval: Interval | None) -> RateDifference | None:
    """Return the difference of a rate and a published number, or None if nothing was counted.

    The interval is made of both rates' own, the measured one's clustered, by `difference_interval`.

    Args:
        measured: the rate, with its interval over these tasks.
        published: 0..1.
        interval: of the published number, Wilson's; None if its episodes are not known.
    """
    if measured.rate is None:
        return None
    value = measured.rate - published
    if measured.interval is None:
        return RateDifference(value, None, interval is not None)
    low, high = difference_interval(measured.rate, measured.interval, published, interval or (published, published))
    return RateDifference(value, (max(low, -1.0), min(high, 1.0)), interval is not None)


WITHIN, BUDGET, DIFFERENT = "within-sampling", "explained-by-budget", "different"
UNMEASURED, UNKNOWN_BUDGET = "budget-not-measured", "budget-unknown"

VERDICTS: Mapping[str, str] = {
    WITHIN: "within sampling",
    BUDGET: "explained by the budget",
    DIFFERENT: "different by more than sampling and the budget explain",
    UNMEASURED: "different by more than sampling; the budget may explain it, and was not measured",
    UNKNOWN_BUDGET: "different by more than sampling; the budget may explain it, and is not known",
}
"""What the verdicts on a run and a published number mean."""


def verdict_of(
    own: RateDifference, there: RateDifference | None, steps: int | None, measured: int | None
) -> str | None:
    """Return what explains the difference of a run and a published number: one of `VERDICTS`, or None if undefined.

    Args:
        own: the difference at the run's own budget.
        there: the difference at the published number's budget; None if the run did not measure it.
        steps: the published number's budget; None if it is not known.
        measured: the run's budget; None if it is not known.
    """
    if own.interval is None or (there is not None and there.interval is None):
        return None
    if there is not None:
        if there.is_shown:
            return DIFFERENT
        return BUDGET if own.is_shown else WITHIN
    if not own.is_shown:
        return WITHIN
    if steps is None or measured is None:
        return UNKNOWN_BUDGET
    # More steps only add successes, and fewer only take them away.
    return UNMEASURED if (own.value < 0) == (steps > measured) else DIFFERENT
