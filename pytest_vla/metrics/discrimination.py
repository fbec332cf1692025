"""Whether a metric goes with labels of quality, and tells successes from failures: Spearman, Mann-Whitney and A12.

As arXiv 2507.17049 has them in its tables III, V, VI and VII.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from math import comb, sqrt
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.errors import VlaError

CORRELATION_BANDS = ((0.10, "none"), (0.29, "low"), (0.49, "medium"))
"""Up to which |rho| a correlation is called so, as the paper's Table III has it; beyond, it is `STRONG`."""

STRONG = "high"

Sign = Literal["metric", "paper"]
SIGNS: tuple[Sign, ...] = ("metric", "paper")
"""When rho is above 0: ``metric``, where a larger metric goes with a higher quality; ``paper``, where a lower metric
does, as Table III has it: its ranks of quality begin with high."""

EFFECT_BANDS = ((0.147, "n"), (0.33, "s"), (0.474, "m"))
"""Below which 2 |A12 - 0.5| an effect is called so: negligible, small, medium; beyond, it is `LARGE`."""

LARGE = "L"

SIGNIFICANT = 0.05
"""Below this p a correlation is told in a word; where no order of so few episodes has one, nothing is said."""

FEWEST = 3
"""Of fewer in either group nothing is said: the tables print "-"."""

MOST_ORDERS = 8
"""Of so many episodes all orders are tried, 40,320; of more Student's t is near enough."""

MOST_EXACT, MOST_BOTH = 8, 100
"""Of so many in the smaller group, and in both, Mann-Whitney's p is exact, as scipy's is where nothing is tied."""


@dataclass(frozen=True)
class Correlation:
    """Spearman's correlation of quality labels with a metric.

    Attributes:
        rho: -1 to 1.
        p: two-sided: up to `MOST_ORDERS` episodes, the share of all orders of the labels with as large a |rho|; for
            more, by Student's t with n - 2 degrees of freedom.
        n: number of episodes.
        band: one of `CORRELATION_BANDS`, or None if n is too small for any order to have a p below `SIGNIFICANT`.
    """

    rho: float
    p: float
    n: int
    band: str | None


@dataclass(frozen=True)
class Discrimination:
    """A comparison of a metric's values between a group and another group.

    Attributes:
        a12: the probability that a value from the group is above one from the other, ties counting half; 0.5 means no
            difference.
        p: Mann-Whitney's, two-sided: up to `MOST_EXACT` in the smaller group and `MOST_BOTH` in both, the share of all
            splits into groups of these sizes that differ as much, with ties; for more, by the normal approximation.
        category: one of `EFFECT_BANDS`, or None if p is not below `SIGNIFICANT`.
        group: number of values in the group.
        other: number of values in the other group.
    """

    a12: float
    p: float
    category: str | None
    group: int
    other: int


def correlation(labels: ArrayLike, values: ArrayLike, sign: Sign = "metric") -> Correlation | None:
    """Compute Spearman's rank correlation of labels with a metric's episode means.

    Args:
        labels: (n,), a rank of quality for each episode, such as 1 low, 2 medium, 3 high.
        values: (n,), the metric's.
        sign: of rho.

    Returns:
        None if there are fewer than 3, or all are alike.

    Raises:
        VlaError: lengths differ, or a number is not finite.
    """
    ranks, numbers = _numbers(labels, "labels"), _numbers(values, "values")
    if len(ranks) != len(numbers):
        raise VlaError(f"{len(ranks)} labels and {len(numbers)} values: expected as many")
    if len(ranks) < FEWEST or np.ptp(ranks) == 0 or np.ptp(numbers) == 0:
        return None
    from scipy.stats import spearmanr

    rho = float(spearmanr(ranks, numbers).statistic) * (-1.0 if sign == "paper" else 1.0)
    n, band = len(ranks), correlation_band(rho)
    if n > MOST_ORDERS:
        return Correlation(rho, correlation_p(rho, n), n, band)
    p, least = _exact_p(ranks, numbers)
    return Correlation(rho, p, n, band if least < SIGNIFICANT else None)


def correlation_p(rho: float, n: int) -> float:
    """Two-sided p of Spearman's rho over n pairs, by Student's t with n - 2 degrees of freedom.

    Raises:
        VlaError: rho is not in -1..1, or n less than 3.
    """
    if not -1 <= rho <= 1 or n < FEWEST:
        raise VlaError(f"rho {rho} of {n}: expected -1..1, of 3 or more")
    if abs(rho) == 1:
        return 0.0
    from scipy.stats import t

    return float(2 * t.sf(abs(rho) * sqrt((n - 2) / (1 - rho * rho)), n - 2))


def _exact_p(labels: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[float, float]:
    """Two-sided p of Spearman's rho over all orders, and the smallest that any order has."""
    from scipy.stats import rankdata

    x, y = rankdata(labels), rankdata(values)
    x, y = x - x.mean(), y - y.mean()
    sizes = np.abs(x[_orders(len(x))] @ y)
    at_least = [float((sizes >= size - 1e-9).mean()) for size in (abs(float(x @ y)), float(sizes.max()))]
    return at_least[0], at_least[1]


@cache
def _orders(n: int) -> NDArray[np.int_]:
    return np.array(list(permutations(range(n))))


def correlation_band(rho: float) -> str:
    """Return the name for a correlation of this size."""
    return next((name for most, name in CORRELATION_BANDS if abs(rho) <= most), STRONG)


def discrimination(group: ArrayLike, other: ArrayLike) -> Discrimination | None:
    """Compute Mann-Whitney's U and A12 of a metric between two groups, such as good successes and failures.

    A12 = (R - n (n + 1) / 2) / (n m), with R the sum of the group's ranks among both.

    Args:
        group: (n,), the metric's episode means.
        other: (m,), the metric's episode means.

    Returns:
        None if either has fewer than `FEWEST`.

    Raises:
        VlaError: a number is not finite.
    """
    x, y = _numbers(group, "group"), _numbers(other, "other")
    if min(len(x), len(y)) < FEWEST:
        return None
    from scipy.stats import mannwhitneyu

    found = mannwhitneyu(x, y, alternative="two-sided")
    a12 = float(found.statistic) / (len(x) * len(y))
    is_small = min(len(x), len(y)) <= MOST_EXACT and len(x) + len(y) <= MOST_BOTH
    p = _exact_rank_p(x, y) if is_small else float(found.pvalue)
    # All of both are alike.
    p = 1.0 if np.isnan(p) else p
    return Discrimination(a12, p, effect_category(a12) if p < SIGNIFICANT else None, len(x), len(y))


def _exact_rank_p(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    """Compute the share of all choices of the smaller group's size whose rank sum is as far from its expectation."""
    from scipy.stats import rankdata

    small, large = (x, y) if len(x) <= len(y) else (y, x)
    n = len(small)
    # Twice a rank is whole, also of ties.
    doubled = np.round(2 * rankdata(np.concatenate([small, large]))).astype(int)
    # ways[k, s]: so many choices of k episodes have the sum s.
    ways = np.zeros((n + 1, int(np.sort(doubled)[-n:].sum()) + 1))
    ways[0, 0] = 1.0
    for rank in doubled.tolist():
        ways[1:, rank:] += ways[:-1, : ways.shape[1] - rank]
    apart = np.abs(np.arange(ways.shape[1]) - n * doubled.mean())
    far = apart >= abs(int(doubled[:n].sum()) - n * doubled.mean()) - 1e-6
    return min(float(ways[n, far].sum()) / comb(len(doubled), n), 1.0)


def effect_category(a12: float) -> str:
    """Return ``n``, ``s``, ``m`` or ``L``: the size of the effect by 2 |A12 - 0.5|."""
    size = 2 * abs(a12 - 0.5)
    return next((name for below, name in EFFECT_BANDS if size < below), LARGE)


def timings(seconds: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation (ddof 1) of the times of steps, s, as table VIII has them. Raises VlaError."""
    times = _numbers(seconds, "seconds")
    if len(times) < 2:
        raise VlaError(f"{len(times)} times: expected 2 or more")
    return float(times.mean()), float(times.std(ddof=1))


def _numbers(values: ArrayLike, what: str) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not np.isfinite(array).all():
        raise VlaError(f"{what}: expected (n,) finite numbers, got {array.shape}")
    return array
