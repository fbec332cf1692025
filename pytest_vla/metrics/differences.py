"""Success of varied episodes less that of their benign twins: one estimand, one interval, one p, wherever it is shown.

The estimand is the mean difference over tasks, seeds and what is drawn. A seed is nested in its task, since seed 3 of
one task has nothing in common with seed 3 of another: the unit is a task and a seed. Pairs of one unit share their init
state, and mostly their benign twin, so that they count together. The interval is over these tasks; the one over tasks
like these takes each task as a cluster (`pytest_vla.metrics.clustered` has both words).

Half a unit lost and half a unit won are added (half a pair, where each pair is a unit; as Agresti and Min 2005,
Statistics in Medicine 24, 729-740, and Bonett and Price 2012, Journal of Educational and Behavioral Statistics 37,
479-488, add whole ones), then it is Student's t over units. Its p is that of the same t: below 0.05 where the interval
excludes 0, and nowhere else. Of independent pairs it calls what is no difference one in at most 5% of cases (7%, where
nearly all pairs are discordant), as McNemar's exact test does, and finds more of those that are
(``python benchmarks/intervals.py`` shows both).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, fsum, inf, sqrt

from pytest_vla.metrics.clustered import (
    CONFIDENCE,
    FEWEST_TASKS,
    Interval,
    Unit,
    crossed_spread,
    no_narrower,
    student_quantile,
    sums,
)

POWER = 0.8
"""A difference can be shown where this share of such runs would show it."""

TELLING = 0.1
"""The difference for which it is said how many pairs would show it."""


@dataclass(frozen=True)
class PairedDifference:
    """A mean difference of pairs; -1..1.

    Attributes:
        value: second less first.
        pairs: how many.
        units: how many tasks and seeds they are of.
        interval: over these tasks; None of a single unit.
        tasks_interval: over tasks like these; None of fewer than `FEWEST_TASKS`.
        p: two-sided, that there is none, over these tasks; None of a single unit.
        detectable: the smallest difference, of either sign, that `POWER` of such runs would show at 5%; None of a
            single unit, and where none is so large.
        telling: about how many pairs would show one of `TELLING`; None of a single unit.
    """

    value: float
    pairs: int
    units: int
    interval: Interval | None
    tasks_interval: Interval | None
    p: float | None
    detectable: float | None
    telling: int | None


@dataclass(frozen=True)
class Mean:
    """A mean difference and how each unit pulls on it: what two of them have in common is in the difference of both.

    Attributes:
        value: -1..1.
        pairs: how many.
        influence: of each unit, what it adds to the error.
        shares: of each unit, its weight; they sum to 1.
        alike: the variance of one pair.
    """

    value: float
    pairs: int
    influence: Mapping[Unit, float]
    shares: Mapping[Unit, float]
    alike: float


def mean_difference(differences: Sequence[int], units: Sequence[Unit]) -> Mean:
    """Compute the mean of paired differences.

    Args:
        differences: (n,), each -1, 0 or 1.
        units: (n,), each pair's task and seed.

    Raises:
        ValueError: there is no pair, or lengths differ.
    """
    n = len(differences)
    if not n or n != len(units):
        raise ValueError(f"mean_difference: {n} differences, {len(units)} units: expected as many, at least 1")
    value = sum(differences) / n
    errors, squares = [(each - value) / n for each in differences], sum(each * each for each in differences) / n
    return Mean(value, n, sums(errors, units), sums([1 / n] * n, units), squares - value * value)


def difference_of(mean: Mean, confidence: float = CONFIDENCE, among: int = 1) -> PairedDifference:
    """Return the mean with its intervals, of that confidence, its p and what such a run could show.

    What could be shown is as one of `among` differences of which the others show nothing: the hardest that Holm's
    correction gets.
    """
    units = list(mean.influence)
    tasks = [task for task, _ in units]
    trials = 1.0 / fsum(share * share for share in mean.shares.values())
    errors, shares = list(mean.influence.values()), list(mean.shares.values())
    n = len(units)
    if n == 1:
        return PairedDifference(mean.value, mean.pairs, 1, None, None, None, None, None)
    variance = n / (n - 1) * fsum(error * error for error in errors)
    centre, error = _adjusted(mean.value, variance, trials)
    interval, by_task = _interval(centre, error, n - 1, confidence), None
    if len(set(tasks)) >= FEWEST_TASKS:
        spread = crossed_spread(errors, shares, mean.alike, [tasks])
        assert spread is not None
        strayed = _adjusted(mean.value, spread.variance, trials)
        by_task = no_narrower(_interval(*strayed, spread.freedom, confidence), interval)
    return PairedDifference(
        value=mean.value,
        pairs=mean.pairs,
        units=n,
        interval=interval,
        tasks_interval=by_task,
        p=_two_sided(centre / error, n - 1),
        detectable=_detectable(mean, variance, trials, among),
        telling=_telling(mean, variance, trials, among),
    )


def lead_interval(first: Mean, second: Mean) -> Interval | None:
    """Interval, over these tasks, of one mean less another, of pairs that may share units; None of a single unit."""
    units = list(dict.fromkeys([*first.influence, *second.influence]))
    if len(units) == 1:
        return None
    errors = [first.influence.get(unit, 0.0) - second.influence.get(unit, 0.0) for unit in units]
    variance = len(units) / (len(units) - 1) * fsum(error * error for error in errors)
    added = [_adjusted(each.value, 0.0, 1.0 / fsum(s * s for s in each.shares.values())) for each in (first, second)]
    (one, one_error), (other, other_error) = added
    error = sqrt(variance + one_error**2 + other_error**2)
    fewest = min(len(first.influence), len(second.influence)) - 1
    if not fewest:
        return None
    low, high = _unbounded(one - other, error, fewest)
    return max(low, -2.0), min(high, 2.0)


def _detectable(mean: Mean, variance: float, trials: float, among: int) -> float | None:
    """Return the smallest difference that lies the required number of standard errors from 0."""
    reach, scale = _reach(len(mean.influence) - 1, among), _scale(mean, variance)

    def is_shown(difference: float) -> bool:
        centre, error = _adjusted(difference, scale * _variance_at(mean, difference), trials)
        return centre >= reach * error

    if not is_shown(1.0):
        return None
    low, high = 0.0, 1.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if is_shown(middle) else (middle, high)
    return high


def _telling(mean: Mean, variance: float, trials: float, among: int) -> int:
    """About how many pairs, of more tasks and seeds like these, show a difference of `TELLING`."""
    at = _scale(mean, variance) * _variance_at(mean, TELLING)

    def is_shown(times: float) -> bool:
        centre, error = _adjusted(TELLING, at / times, trials * times)
        return centre >= _reach(max(len(mean.influence) * times - 1, 1.0), among) * error

    low, high = 0.0, 1.0
    while not is_shown(high):
        low, high = high, 2 * high
    while (high - low) * mean.pairs > 0.5:
        middle = (low + high) / 2
        low, high = (low, middle) if is_shown(middle) else (middle, high)
    return ceil(high * mean.pairs)


def _reach(freedom: float = inf, among: int = 1) -> float:
    """Return how many standard errors a difference needs, so that `POWER` of the runs show it as one of several."""
    return student_quantile(freedom, 1 - (1 - CONFIDENCE) / among) + student_quantile(freedom, 2 * POWER - 1)


def _scale(mean: Mean, variance: float) -> float:
    """Return the factor of a pair's variance: between that of independent pairs and that of units."""
    of_units = fsum(share * share for share in mean.shares.values())
    return min(max(variance / mean.alike, 1.0 / mean.pairs), of_units) if mean.alike > 0 else of_units


def _variance_at(mean: Mean, difference: float) -> float:
    """Return the variance of a pair for a given difference and the observed number of flips."""
    both_ways = max(mean.alike + mean.value**2 - abs(mean.value), 0.0)
    # With the half pair either way.
    noise = (mean.pairs * both_ways + 1) / (mean.pairs + 1)
    return min(noise + difference, 1.0) - difference**2


def _adjusted(value: float, variance: float, trials: float) -> tuple[float, float]:
    """Mean and standard error with half a pair of -1 and half a pair of 1 more, where there are so many units."""
    kept = trials / (trials + 1)
    added = (1 + kept * value * value) / (trials + 1) ** 2
    return value * kept, sqrt(variance * kept * kept + added)


def _interval(centre: float, error: float, freedom: float, confidence: float) -> Interval:
    low, high = _unbounded(centre, error, freedom, confidence)
    return max(low, -1.0), min(high, 1.0)


def _unbounded(centre: float, error: float, freedom: float, confidence: float = CONFIDENCE) -> Interval:
    half = student_quantile(freedom, confidence) * error
    return centre - half, centre + half


def _two_sided(statistic: float, freedom: float) -> float:
    from scipy.special import stdtr

    return float(min(1.0, 2 * stdtr(freedom, -abs(statistic))))
