"""Bounds for what is no success (costs, PRIDE, steps): sign flips of clusters of pairs, and a bootstrap over them.

Clusters are flipped or drawn whole: units for these tasks, tasks for tasks like these. All take the difference of a
pair as it is, on whatever scale.

- `flip_bounds`: of a mean of differences, weighted or not. Of equal policies, whose differences are symmetric, each
  bound is wrong in at most its alpha, however few episodes cost anything.
- `mean_bounds`: of a mean of differences, weighted or not, studentised. PRIDE's difference is one, weighted by how far
  a paraphrase is from the original.
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

DRAWS = 4000
"""A bound at 5% strays by about a fiftieth of the interval's width between such draws."""

ALL_OF = 12
"""Of so many clusters all subsets are taken, of more some are drawn."""

FEWEST_CLUSTERS = 5
"""Of fewer clusters too few different samples can be drawn."""

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


def mean_bounds(
    differences: Sequence[float],
    clusters: Sequence[Hashable],
    generator: np.random.Generator,
    alpha: float = 0.05,
    draws: int = DRAWS,
    weights: Sequence[float] | None = None,
) -> tuple[float, float] | None:
    """One-sided bounds, each at alpha, of the mean difference of pairs: a bootstrap of Student's t over clusters.

    The mean is a ratio of two sums, of weighted differences and of weights, over clusters that may hold several pairs
    each; its standard error is the linearised ratio's. Samples in which nothing strays count as infinitely far out, on
    the side where their mean lies, and a bound lies no farther from the mean than the largest difference from the
    smallest: where most pairs do not differ, bounds are wide rather than wrong. Source: Efron and Tibshirani 1993, An
    Introduction to the Bootstrap, section 12.5.

    Args:
        differences: (n,), new less baseline.
        clusters: (n,), of each pair its unit, or its task.
        generator: draws the samples.
        alpha: of each bound, in (0, .5).
        draws: how many samples.
        weights: (n,), all above 0; None: all alike.

    Returns:
        None of fewer than `FEWEST_CLUSTERS`, and where no cluster strays: nothing tells how far another would.

    Raises:
        ValueError: there is no pair, lengths differ, or alpha or a weight is out of range.
    """
    _check(len(differences), clusters, alpha)
    index = _numbered(clusters)
    number = int(index.max()) + 1
    if number < FEWEST_CLUSTERS:
        return None
    values = np.asarray(differences, float)
    sums, counts = _sums_and_counts(differences, clusters, weights)
    mean, error = _mean_and_error(np.ones((1, number)), sums, counts)
    if not error[0]:
        return None
    times = generator.multinomial(number, np.full(number, 1 / number), size=draws).astype(float)
    means, errors = _mean_and_error(times, sums, counts)
    away = means - mean[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where(away == 0, 0.0, away / errors)
    low, high = np.quantile(far, [alpha, 1 - alpha], method="nearest")
    spread = float(values.max() - values.min())
    lower = max(float(mean[0] - high * error[0]), float(mean[0]) - spread)
    return lower, min(float(mean[0] - low * error[0]), float(mean[0]) + spread)


def flip_bounds(
    differences: Sequence[float],
    clusters: Sequence[Hashable],
    generator: np.random.Generator,
    alpha: float = 0.05,
    weights: Sequence[float] | None = None,
) -> tuple[float, float]:
    """Return one-sided bounds, each at alpha, of the mean difference of pairs, by flips of the signs of clusters.

    A bound is where the test has a p of alpha. A flip of some clusters outweighs a mean of d if the mean of just these
    clusters is at most d, so the bounds are quantiles of the means of all subsets of clusters. Source: Hartigan 1969,
    Journal of the American Statistical Association 64, 1303-1317.

    Args:
        differences: as `mean_bounds`.
        clusters: likewise.
        generator: draws the subsets of more than `ALL_OF` clusters; of fewer all are taken.
        alpha: of each bound, in (0, .5).
        weights: as `mean_bounds`.

    Returns:
        Infinite where no difference is ruled out, since there are too few clusters.

    Raises:
        ValueError: as `mean_bounds`.
    """
    _check(len(differences), clusters, alpha)
    sums, counts = _sums_and_counts(differences, clusters, weights)
    number = len(sums)
    if number <= ALL_OF:
        subsets = (np.arange(2**number)[:, None] >> np.arange(number) & 1).astype(bool)
    else:
        # The sample itself, which flips none, is one of them.
        subsets = generator.random((max(DRAWS, round(20 / alpha)), number)) < 0.5
        subsets[0] = False
    some = subsets[subsets.any(1)].astype(float)
    means = some @ sums / (some @ counts)
    # Rounding leaves what is 0 a little beside.
    means = np.sort(np.where(np.abs(means) < 1e-12 * np.abs(sums).max(initial=0.0), 0.0, means))
    # As many flips of the sample may be as far out; what flips none always is.
    least = int(alpha * len(subsets) + 1e-9) - (len(subsets) - len(some))
    if least < 0:
        return -np.inf, np.inf
    return float(means[least]), float(means[-1 - least])


def _check(n: int, clusters: Sequence[Hashable], alpha: float) -> None:
    if not n or n != len(clusters):
        raise ValueError(f"{n} differences, {len(clusters)} clusters: expected as many, at least 1")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha {alpha}: expected a number between 0 and .5")


def _sums_and_counts(
    differences: Sequence[float], clusters: Sequence[Hashable], weights: Sequence[float] | None
) -> tuple[Floats, Floats]:
    """Return the weighted sum of differences of each cluster, and its weight."""
    values, index = np.asarray(differences, float), _numbered(clusters)
    weighing = np.ones(len(values)) if weights is None else np.asarray(weights, float)
    if len(weighing) != len(values) or not (weighing > 0).all():
        raise ValueError(f"{len(weighing)} weights of {len(values)} differences: expected as many, each above 0")
    return np.bincount(index, weighing * values).astype(float), np.bincount(index, weighing).astype(float)


def _numbered(clusters: Sequence[Hashable]) -> Indices:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(cluster, len(numbers)) for cluster in clusters], dtype=np.intp)


def _mean_and_error(times: Floats, sums: Floats, counts: Floats) -> tuple[Floats, Floats]:
    """Mean and standard error (samples,) of clusters that are drawn so many times (samples, clusters)."""
    number, pairs = len(sums), times @ counts
    means = times @ sums / pairs
    strays = times @ sums**2 - 2 * means * (times @ (sums * counts)) + means**2 * (times @ counts**2)
    # Rounding leaves what is 0 a little beside.
    strays = np.where(strays < 1e-12 * (times @ sums**2), 0.0, strays)
    return means, np.sqrt(number / (number - 1) * strays) / pairs
