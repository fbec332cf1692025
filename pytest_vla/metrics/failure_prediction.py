"""Does a metric foretell failure? AUROC of what it has been up to a moment of the episode, with clustered intervals.

The area under the receiver operating characteristic is how likely an episode that fails has a larger value than one
that succeeds, ties by half. A moment is a share of the step budget, and episodes that are over by then are in no number
of it: by a share of each episode's own length the length itself would foretell, as failures are the longest.

Tasks differ in how often they fail, and in what a metric is like in them. Over all pairs of a failure and a success
that alone may foretell, or hide what does: a second area is over pairs of one task only.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.entries import MetricEntry
from pytest_vla.errors import VlaError
from pytest_vla.metrics.clustered import (
    FEWEST_TASKS,
    Interval,
    Unit,
    crossed_spread,
    no_narrower,
    student_quantile,
)
from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.statistics import score_interval

MOMENTS = (0.10, 0.25, 0.50)
"""Shares of the step budget."""

FEWEST = 3
"""Of fewer failures or successes nothing is said."""


@dataclass(frozen=True)
class Watched:
    """The data of an episode that failure prediction needs.

    Attributes:
        failed: whether it failed; otherwise it succeeded.
        unit: its task and seed.
        budget: its limit of control steps.
        series: (n,) each, one value per control step, by metric; nan before the metric's first value.
        confidence: (n,), the policy's confidence in its tokens, 0..1, or None if not recorded.
    """

    failed: bool
    unit: Unit
    budget: int
    series: "Mapping[str, NDArray[np.float64]]"
    confidence: "NDArray[np.float64] | None" = None


@dataclass(frozen=True)
class Foretelling:
    """A metric's prediction, at a moment, of which episodes will fail.

    Attributes:
        metric: its name.
        moment: share of the step budget.
        failures: episodes that fail, and are still running.
        successes: episodes that succeed, and are still running.
        over: episodes that had ended by then.
        unknown: episodes that are still running, but for which the metric had no value by then.
        auroc: 1 if all failures have larger values, 0.5 if it predicts nothing, 0 if all failures have smaller values.
            None if there are fewer than `FEWEST` failures or successes.
        within: the same over pairs in one task; None if `auroc` is None, or if no task has both.
        pairs: the number of these pairs.
    """

    metric: str
    moment: float
    failures: int
    successes: int
    over: int
    auroc: GroundingEstimate | None
    within: GroundingEstimate | None = None
    pairs: int = 0
    unknown: int = 0


def foretelling(episodes: Sequence[Watched], moments: Sequence[float] = MOMENTS) -> tuple[Foretelling, ...]:
    """Return each metric's prediction at each moment, for one policy and suite; metrics in their order of occurrence.

    Args:
        episodes: successes and failures.
        moments: shares of the step budget, above 0, at most 1.

    Raises:
        VlaError: a moment is out of range.
    """
    if wrong := [moment for moment in moments if not 0 < moment <= 1]:
        raise VlaError(f"moments {wrong}: expected shares of the step budget, above 0 and at most 1")
    names = dict.fromkeys(name for episode in episodes for name in episode.series)
    return tuple(_at(name, moment, episodes) for name in names for moment in moments)


def value_at(series: ArrayLike, step: int) -> float | None:
    """Compute the mean of a metric's series over its first `step` control steps, or None if it had no value by then."""
    seen = np.asarray(series, dtype=np.float64)[:step]
    seen = seen[np.isfinite(seen)]
    return float(seen.mean()) if seen.size else None


def auroc(values: ArrayLike, failed: ArrayLike) -> float | None:
    """Compute the probability that a failed episode has a larger value than a successful one, ties counting half.

    Args:
        values: (n,), one for each episode.
        failed: (n,), bool.

    Returns:
        None if nothing failed, or everything did.

    Raises:
        VlaError: lengths differ, or a value is not finite.
    """
    of_failures, of_successes = _told_apart(values, failed)
    if not len(of_failures) or not len(of_successes):
        return None
    return float(_above(of_failures, np.sort(of_successes)).mean())


def auroc_intervals(
    values: ArrayLike, failed: ArrayLike, units: Sequence[Unit]
) -> tuple[Interval | None, Interval | None]:
    """Compute the 95% intervals of `auroc` over these tasks and over tasks like these.

    The variance comes from the influences of clusters (Obuchowski 1997, Biometrics 53, 567-578): episodes with one task
    and seed are a cluster, and for tasks like these all episodes in one task. The interval is Wilson's, with the number
    of independent episodes that has the same variance, and Student's t for the number of clusters; it stays within
    0..1.

    Args:
        values: (n,), one for each episode.
        failed: (n,), bool.
        units: (n,), each episode's task and seed.

    Returns:
        Either is None if it cannot be computed: with one cluster, or over tasks like these with fewer than
        `FEWEST_TASKS`.

    Raises:
        VlaError: lengths differ, or a value is not finite.
    """
    area = auroc(values, failed)
    if area is None or len(units) != np.size(values):
        if area is not None:
            raise VlaError(f"{np.size(values)} values of {len(units)} units: expected as many")
        return None, None
    tasks = [task for task, _ in units]
    interval = _interval(area, values, failed, units)
    if len(set(tasks)) < FEWEST_TASKS:
        return interval, None
    return interval, no_narrower(_interval(area, values, failed, tasks), interval)


def auroc_within(
    values: ArrayLike, failed: ArrayLike, units: Sequence[Unit]
) -> tuple[float, Interval | None, int] | None:
    """Compute the probability that a failure has a larger value than a success in the same task, ties counting half.

    Args:
        values: (n,), one for each episode.
        failed: (n,), bool.
        units: (n,), each episode's task and seed.

    Returns:
        The probability over all such pairs, its 95% interval over these tasks as in `auroc_intervals`, and the number
        of pairs; None if no task has both. The interval is None if it cannot be computed.

    Raises:
        VlaError: lengths differ, or a value is not finite.
    """
    _told_apart(values, failed)
    numbers, truths = np.asarray(values, dtype=np.float64), np.asarray(failed, dtype=bool)
    places: dict[Hashable, list[int]] = {}
    for place, (task, _) in enumerate(units):
        places.setdefault(task, []).append(place)
    won, pairs = np.zeros(len(numbers)), np.zeros(len(numbers))
    for here in map(np.array, places.values()):
        of_failures, of_successes = here[truths[here]], here[~truths[here]]
        if len(of_failures) and len(of_successes):
            above = _above(numbers[of_failures], np.sort(numbers[of_successes]))
            won[of_failures], pairs[of_failures] = above * len(of_successes), len(of_successes)
            below = 1.0 - _above(numbers[of_successes], np.sort(numbers[of_failures]))
            won[of_successes], pairs[of_successes] = below * len(of_failures), len(of_failures)
    total = float(pairs[truths].sum())
    if not total:
        return None
    area = float(won[truths].sum()) / total
    told = np.flatnonzero(pairs)
    influence = (won - area * pairs)[told] / total
    interval = _spread_out(area, influence, truths[told], [units[place] for place in told.tolist()])
    return area, interval, round(total)


def values_at(name: str, moment: float, episodes: Sequence[Watched]) -> tuple[list[Watched], list[float], int, int]:
    """Return episodes still running at a moment, a metric's value for each, and the numbers ended and without value.

    Args:
        name: the metric's; episodes without a value of it are in neither list.
        moment: share of the step budget.
        episodes: one policy's, in one suite.
    """
    running, values, over, unknown = [], [], 0, 0
    for episode in episodes:
        series = episode.series.get(name)
        if series is None:
            continue
        step = ceil(moment * episode.budget)
        if len(series) < step or (len(series) == step and not episode.failed):
            over += 1
        elif (value := value_at(series, step)) is not None:
            running.append(episode)
            values.append(value)
        else:
            unknown += 1
    return running, values, over, unknown


def _at(name: str, moment: float, episodes: Sequence[Watched]) -> Foretelling:
    running, values, over, unknown = values_at(name, moment, episodes)
    failed = [episode.failed for episode in running]
    failures = sum(failed)
    estimate = within = None
    pairs = 0
    if min(failures, len(failed) - failures) >= FEWEST:
        area = auroc(values, failed)
        assert area is not None, "there are both"
        units = [episode.unit for episode in running]
        estimate = GroundingEstimate(area, *auroc_intervals(values, failed, units))
        if (alike := auroc_within(values, failed, units)) is not None:
            within, pairs = GroundingEstimate(alike[0], alike[1], None), alike[2]
    return Foretelling(name, moment, failures, len(failed) - failures, over, estimate, within, pairs, unknown)


def _interval(area: float, values: ArrayLike, failed: ArrayLike, clusters: Sequence[Hashable]) -> Interval | None:
    of_failures, of_successes = _told_apart(values, failed)
    truths = np.asarray(failed, dtype=bool)
    influence = np.empty(len(truths))
    influence[truths] = (_above(of_failures, np.sort(of_successes)) - area) / len(of_failures)
    influence[~truths] = (1.0 - _above(of_successes, np.sort(of_failures)) - area) / len(of_successes)
    return _spread_out(area, influence, truths, clusters)


def _spread_out(
    area: float, influence: NDArray[np.float64], truths: NDArray[np.bool_], clusters: Sequence[Hashable]
) -> Interval | None:
    """Return the interval of an area, by the spread of the episodes' influences."""
    spread = crossed_spread(influence.tolist(), [1.0 / len(truths)] * len(truths), 0.0, [clusters])
    if spread is None:
        return None
    alike = area * (1.0 - area)
    if alike < 1e-12 or spread.variance <= 0:
        # They lie apart, and nothing tells how far another would stray: each cluster of the fewer is worth one.
        fewer = min(
            len({c for c, is_failed in zip(clusters, truths, strict=True) if is_failed == way}) for way in (0, 1)
        )
        return score_interval(area, fewer, student_quantile(inf))
    # Of few clusters that happen to agree, no more than if all were independent.
    most = 4.0 * int(truths.sum()) * int((~truths).sum()) / len(truths)
    return score_interval(area, min(alike / spread.variance, most), student_quantile(spread.freedom))


def _told_apart(values: ArrayLike, failed: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    numbers, truths = np.asarray(values, dtype=np.float64), np.asarray(failed, dtype=bool)
    if numbers.ndim != 1 or numbers.shape != truths.shape or not np.isfinite(numbers).all():
        raise VlaError(
            f"values {numbers.shape} and failed {truths.shape}: expected (n,) finite numbers, and as many truths"
        )
    return numbers[truths], numbers[~truths]


def _above(values: NDArray[np.float64], ordered: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute for each value the share of the ordered ones that it exceeds, ties counting half."""
    below = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    return np.asarray(below / (2.0 * len(ordered)))


# Separation of failures from successes by a metric's values: their distributions, and their course over time.

MOMENT = 0.25
"""Share of the step budget up to which an episode's value is the mean of its series."""

BINS = 24
"""Of the values."""

TIMES = 20
"""Equal parts of the step budget."""

_TAIL = 0.01
_WIDE = 3.0
"""Values beyond the middle 98% are drawn in the outermost bins where all of them span so many times as much."""


@dataclass(frozen=True)
class Distribution:
    """The distribution of failures' or successes' values, one per episode.

    Attributes:
        counts: episodes in each bin.
        median: over all of them, or None if there are none.
    """

    counts: tuple[int, ...]
    median: float | None


@dataclass(frozen=True)
class Course:
    """The values of failures or successes over time.

    Attributes:
        quartiles: for each part of the step budget the first, second and third quartile over the episodes still running
            in it, or None if they are fewer than `FEWEST`.
    """

    quartiles: tuple[tuple[float, float, float] | None, ...]


@dataclass(frozen=True)
class Separation:
    """A metric's values by outcome.

    Attributes:
        metric: its name.
        low: lower bound of the first bin.
        high: upper bound of the last bin.
        beyond: episodes whose value is outside of these bounds; they are in the outermost bins.
        failures: those still running at `MOMENT`.
        successes: those still running at `MOMENT`.
        failures_course: their values over time.
        successes_course: their values over time.
    """

    metric: str
    low: float
    high: float
    beyond: int
    failures: Distribution
    successes: Distribution
    failures_course: Course
    successes_course: Course


def separations(episodes: Sequence[Watched]) -> tuple[Separation, ...]:
    """Return each metric's values by outcome, in order of occurrence, without metrics that have no value at `MOMENT`.

    Args:
        episodes: one policy's successes and failures in one suite.
    """
    names = dict.fromkeys(name for episode in episodes for name in episode.series)
    return tuple(filter(None, (_separation(name, episodes) for name in names)))


def _separation(name: str, episodes: Sequence[Watched]) -> Separation | None:
    running, values, *_ = values_at(name, MOMENT, episodes)
    if not values:
        return None
    numbers, failed = np.array(values), np.array([episode.failed for episode in running])
    low, high = _range(numbers)
    failures, successes = (_distribution(numbers[failed == way], low, high) for way in (True, False))
    beyond = int(((numbers < low) | (numbers > high)).sum())
    over_time = (_course([each for each in episodes if each.failed is way], name) for way in (True, False))
    return Separation(name, low, high, beyond, failures, successes, *over_time)


def _range(numbers: NDArray[np.float64]) -> tuple[float, float]:
    low, high = float(numbers.min()), float(numbers.max())
    inner_low, inner_high = (float(each) for each in np.quantile(numbers, (_TAIL, 1 - _TAIL)))
    if high - low > _WIDE * (inner_high - inner_low) > 0:
        low, high = inner_low, inner_high
    # Where all are alike there is a bin round them.
    least = max(abs(low), 1e-6) * 1e-6
    return (low, high) if high - low > least else (low - least, high + least)


def _distribution(numbers: NDArray[np.float64], low: float, high: float) -> Distribution:
    counts, _ = np.histogram(numbers.clip(low, high), BINS, (low, high))
    return Distribution(tuple(counts.tolist()), float(np.median(numbers)) if len(numbers) else None)


def _parts(series: NDArray[np.float64], budget: int) -> NDArray[np.float64]:
    """Return the mean over each part of the step budget, (TIMES,); nan after the end or without a value."""
    numbers = np.asarray(series[:budget], dtype=np.float64)
    known = np.isfinite(numbers)
    ends = np.minimum([ceil(budget * part / TIMES) for part in range(TIMES + 1)], len(numbers))
    sums = np.concatenate([[0.0], np.where(known, numbers, 0.0).cumsum()])[ends]
    number = np.concatenate([[0], known.cumsum()])[ends]
    of = np.diff(number)
    found = np.full(TIMES, np.nan)
    np.divide(np.diff(sums), of, out=found, where=of > 0)
    return found


def _course(episodes: Sequence[Watched], name: str) -> Course:
    parts = [_parts(each.series[name], each.budget) for each in episodes if name in each.series]
    found: list[tuple[float, float, float] | None] = []
    for column in np.array(parts).reshape(-1, TIMES).T:
        known = column[np.isfinite(column)]
        if len(known) < FEWEST:
            found.append(None)
        else:
            low, middle, high = np.quantile(known, (0.25, 0.5, 0.75))
            found.append((float(low), float(middle), float(high)))
    return Course(tuple(found))


# The values of a metric's series, without the padding before its first value.


def without_padding(series: NDArray[Any], entry: MetricEntry, key: str, begin: int = 0) -> NDArray[np.float64]:
    """Replace a series' values by nan before its metric's first value (`MetricEntry.padding`).

    Both the live evaluation during an episode and the report use this function, so that an alarm rings at the same
    step.

    Args:
        series: (n,), for the control steps from `begin` + 1 on.
        entry: the metric's.
        key: names the series within the metric.
        begin: number of control steps before the first one in `series`.
    """
    values = np.array(series, dtype=np.float64)
    values[: max(dict(entry.padding).get(key, 0) - begin, 0)] = np.nan
    return values
