"""Intervals of rates over episodes that are not independent, in closed form.

Two estimands, and every interval says of which it is:

- **these tasks**: how the policy does on just these tasks, from other starts. Episodes of one task and init state, such
  as those of several kinds of variation or several draws of the policy, are a cluster; such clusters are independent
  given the task. Where each episode is a cluster by itself this is Wilson's interval. It takes no profit from tasks
  that differ, and so is wider than it has to be where they do.
- **tasks like these**: how it does on further tasks of which these are a sample. Tasks are the clusters. It has all
  that the interval over these tasks has (`no_narrower`).

``python benchmarks/intervals.py`` counts how often each holds simulated truths.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from math import fsum, inf, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, TypeVar

from pytest_vla.metrics.statistics import score_interval, wilson_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


CONFIDENCE = 0.95

FEWEST_TASKS = 5
"""Of fewer tasks nothing is said of tasks like these: with four the interval of a rate is half of all there is."""

THESE_TASKS, TASKS_LIKE_THESE = "these tasks", "tasks like these"
"""Over what an interval generalises."""

Interval = tuple[float, float]
Unit = tuple[str, Hashable]
"""A task and what its episodes start from: `pytest_vla.metrics.success.unit_of`."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Spread:
    """The sampling variance of a mean.

    Attributes:
        variance: the mean's.
        freedom: the variance's degrees of freedom.
    """

    variance: float
    freedom: float


def rate_interval(
    successes: Sequence[float],
    clusters: Sequence[Hashable],
    crossed: Sequence[Hashable] | None = None,
    weights: Sequence[float] | None = None,
    confidence: float = CONFIDENCE,
) -> Interval | None:
    """Compute the interval of a rate, sum(weight * success) / sum(weight), over clustered episodes.

    This is Wilson's score interval with the effective sample size of survey statistics (Korn and Graubard 1998, Survey
    Methodology 24, 193-201): the number of independent episodes with the same variance, never more than there are. The
    quantile is Student's t instead of the normal one, for the effective number of clusters. The variance between
    clusters is that of the linearised ratio, with one more cluster whose episodes are all alike: the variance of a few
    clusters that happen to agree is far too small. If every cluster is one episode and all weights are equal, it is
    Wilson's own.

    Args:
        successes: (n,), each 0 or 1.
        clusters: (n,), each episode's cluster.
        crossed: (n,), clusters of another kind that cross the first, such as seeds under which paraphrases recur; both
            variances are added, and the variance within the pairs of both, which both contain, is subtracted (Cameron,
            Gelbach and Miller 2011, Journal of Business & Economic Statistics 29, 238-249).
        weights: (n,), none below 0, not all 0; None for equal weights.
        confidence: of the two-sided interval, in (0, 1).

    Returns:
        None if there is a single cluster with several episodes: the variance between clusters is then unknown.

    Raises:
        ValueError: there is no episode, lengths differ, or the confidence is out of range.
    """
    n = len(successes)
    if not n or len(clusters) != n or any(other is not None and len(other) != n for other in (crossed, weights)):
        raise ValueError(f"rate_interval: {n} successes and {len(clusters)} clusters: expected as many, at least 1")
    ways = [clusters] if crossed is None else [clusters, crossed]
    if weights is None and all(len(set(way)) == n for way in ways):
        return wilson_interval(round(fsum(successes)), n, confidence)
    weighing = [1.0] * n if weights is None else list(weights)
    total = fsum(weighing)
    rate = fsum(weight * success for weight, success in zip(weighing, successes, strict=True)) / total
    influence = [weight * (success - rate) / total for weight, success in zip(weighing, successes, strict=True)]
    shares = [weight / total for weight in weighing]
    alike = rate * (1.0 - rate)
    spread = crossed_spread(influence, shares, alike, ways)
    if spread is None:
        return None
    if alike < 1e-12 or spread.variance <= 0:
        # Nothing tells how alike they are: each cluster is worth one episode.
        trials = 1.0 / fsum(share * share for share in sums(shares, clusters).values())
        return score_interval(rate, trials, student_quantile(inf, confidence))
    most = 1.0 / fsum(share * share for share in shares)
    return score_interval(rate, min(alike / spread.variance, most), student_quantile(spread.freedom, confidence))


def rate_intervals(
    successes: Sequence[float], units: Sequence[Unit], weights: Sequence[float] | None = None
) -> tuple[Interval | None, Interval | None]:
    """Compute the intervals of a rate over these tasks and over tasks like these, from episodes by task and start.

    Either is None if it cannot be computed: over tasks like these, with fewer than `FEWEST_TASKS`.
    """
    tasks = [task for task, _ in units]
    enough = len(set(tasks)) >= FEWEST_TASKS
    interval = rate_interval(successes, units, weights=weights)
    return interval, no_narrower(rate_interval(successes, tasks, weights=weights), interval) if enough else None


def mean_intervals(values: Sequence[float], units: Sequence[Unit]) -> tuple[Interval | None, Interval | None]:
    """Compute the intervals of a mean over these tasks and over tasks like these, from episodes by task and start.

    Student's t over tasks and starts, and over tasks. Either is None if it cannot be computed: the first for a single
    task and start, the second for fewer than `FEWEST_TASKS`.
    """
    n, tasks = len(values), [task for task, _ in units]
    mean = fsum(values) / n
    influence, shares = [(value - mean) / n for value in values], [1 / n] * n

    def by(way: Sequence[Hashable]) -> Interval | None:
        spread = crossed_spread(influence, shares, 0.0, [way])
        if spread is None:
            return None
        half = student_quantile(spread.freedom) * sqrt(spread.variance)
        return mean - half, mean + half

    interval = by(units)
    return interval, no_narrower(by(tasks), interval) if len(set(tasks)) >= FEWEST_TASKS else None


def no_narrower(tasks_like_these: Interval | None, these_tasks: Interval | None) -> Interval | None:
    """Extend the first interval by the part of the second beyond it: new tasks are no better known than these.

    Both estimate the same sampling error, and by luck a few tasks may agree better than their episodes do.
    """
    if tasks_like_these is None or these_tasks is None:
        return None
    return min(tasks_like_these[0], these_tasks[0]), max(tasks_like_these[1], these_tasks[1])


def crossed_spread(
    influence: Sequence[float], shares: Sequence[float], alike: float, ways: Sequence[Sequence[Hashable]]
) -> Spread | None:
    """Compute the variance of a sum of influences, by one kind of cluster or two crossed kinds.

    Args:
        influence: (n,), each episode's contribution to the estimate's error; they sum to 0.
        shares: (n,), weights, which sum to 1.
        alike: the variance of one episode: one more cluster of the first kind is added whose episodes are all alike; 0
            for no such cluster.
        ways: one or two kinds of clusters, (n,) each. A kind with a single cluster is skipped.

    Returns:
        None if each kind has a single cluster.
    """
    told = [way for way in ways if len(set(way)) > 1]
    if not told:
        return None
    first = _spread(influence, shares, alike, told[0])
    if len(told) == 1:
        return first
    second = _spread(influence, shares, 0.0, told[1])
    both = _spread(influence, shares, 0.0, list(zip(*told, strict=True)))
    beside = max(second.variance - both.variance, 0.0)
    if not first.variance:
        return Spread(beside, second.freedom if beside else first.freedom)
    # Satterthwaite's, of a sum of two.
    parts = first.variance**2 / first.freedom + beside**2 / second.freedom
    return Spread(first.variance + beside, (first.variance + beside) ** 2 / parts)


def _spread(influence: Sequence[float], shares: Sequence[float], alike: float, way: Sequence[Hashable]) -> Spread:
    """Compute the variance for one kind of cluster: K / (K - 1) sum e^2, or its mean with one more uniform cluster."""
    errors, weights = sums(influence, way), sums(shares, way)
    number = len(errors)
    between = fsum(error * error for error in errors.values())
    if not alike:
        return Spread(number / (number - 1) * between, number - 1)
    # Of clusters that weigh otherwise a few are most of it: as many of one weight as would stray as far.
    weight = fsum(share * share for share in weights.values())
    effective = fsum(weights.values()) ** 2 / weight
    freedom = max(effective - 1, 1.0) if effective < number - 1e-9 else number - 1
    return Spread(between + alike * weight / number, freedom)


def sums(values: Iterable[float], keys: Iterable[Key]) -> dict[Key, float]:
    """Sum the values by key, in the order of the keys' first occurrence."""
    found: dict[Key, list[float]] = {}
    for value, key in zip(values, keys, strict=True):
        found.setdefault(key, []).append(value)
    return {key: fsum(some) for key, some in found.items()}


def student_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return Student's two-sided t quantile; the normal one for infinite `freedom`. Raises ValueError."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence {confidence}: expected a number between 0 and 1")
    if freedom == inf:
        return NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1.0 + confidence) / 2.0))


# Intervals of numbers that are made of several means, such as a ratio: the delta method over clusters of rows.

Numbers = Callable[["NDArray[np.float64]"], "tuple[NDArray[np.float64], NDArray[np.float64]]"]
"""Makes m numbers of k means, and the derivative of each by each, (m,) and (m, k)."""


def linearised_intervals(
    rows: "NDArray[np.float64]",
    clusters: Sequence[Hashable],
    numbers: Numbers,
    added: int = 0,
    confidence: float = CONFIDENCE,
    trials: float | None = None,
) -> list[Interval] | None:
    """Compute intervals for functions of the rows' means, by Student's t with clusters - 1 degrees of freedom.

    Args:
        rows: (n, k).
        clusters: (n,), each row's cluster.
        numbers: the functions of the means.
        added: for rows of 0 and 1, the number of zeros and of ones to add to each column separately (as Agresti and
            Caffo 2000, The American Statistician 54, 280-288, for two rates): rates of 0 and 1 have a variance too.
        confidence: of the two-sided intervals, in (0, 1).
        trials: the number of trials to which `added` is added; None for the effective number of clusters.

    Returns:
        One interval per number, or None for a single cluster.
    """
    import numpy as np

    names = {each: place for place, each in enumerate(dict.fromkeys(clusters))}
    n, count = len(rows), len(names)
    if count == 1:
        return None
    cluster, means = np.array([names[each] for each in clusters]), rows.mean(axis=0)
    errors = np.zeros((count, rows.shape[1]))
    np.add.at(errors, cluster, (rows - means) / n)
    covariance = count / (count - 1) * errors.T @ errors
    if added:
        trials = worth(clusters) if trials is None else trials
        kept = trials / (trials + 2 * added)
        spread = (added / 2 + 2 * added * kept * (means - 0.5) ** 2) / (trials + 2 * added) ** 2
        covariance = kept**2 * covariance + np.diag(spread)
        means = kept * means + (1 - kept) / 2
    values, slopes = numbers(means)
    half = student_quantile(count - 1, confidence) * np.sqrt(np.einsum("mi,ij,mj->m", slopes, covariance, slopes))
    return list(zip((values - half).tolist(), (values + half).tolist(), strict=True))


def worth(clusters: Sequence[Hashable]) -> float:
    """Compute Kish's effective number of clusters: the number of equally large clusters with the same variance."""
    counts = Counter(clusters).values()
    return sum(counts) ** 2 / sum(count * count for count in counts)
