"""Small statistics: score intervals, the interval of a median, McNemar's and chi-square tests, Holm's adjustment.

Intervals of success rates, which count starts as clusters, are in `pytest_vla.metrics.clustered`.
"""

from collections.abc import Sequence
from math import comb, erfc, hypot, sqrt
from statistics import NormalDist


def wilson_interval(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Compute Wilson's score interval of a binomial proportion, without continuity correction.

    The two solutions p of (successes/n - p)^2 = z^2 p (1 - p) / n. Source: Wilson 1927, JASA 22, 209-212; method 3 of
    Newcombe 1998, Statistics in Medicine 17, 857-872.

    Args:
        successes: 0..n.
        n: number of trials, at least 1.
        confidence: of the two-sided interval, in (0, 1).

    Returns:
        Lower and upper bound, in [0, 1].

    Raises:
        ValueError: an argument is out of range.
    """
    if n < 1 or not 0 <= successes <= n:
        raise ValueError(f"wilson_interval: {successes} successes of {n}: expected 0 <= successes <= n, n >= 1")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"wilson_interval: confidence {confidence}: expected a number between 0 and 1")
    return score_interval(successes / n, n, NormalDist().inv_cdf((1.0 + confidence) / 2.0))


def score_interval(rate: float, trials: float, quantile: float) -> tuple[float, float]:
    """Compute Wilson's interval of a rate with an effective number of trials, which need not be whole.

    Args:
        rate: 0..1.
        trials: above 0.
        quantile: of the two-sided interval, in standard errors.

    Returns:
        Lower and upper bound, in [0, 1].
    """
    centre = rate + quantile * quantile / (2 * trials)
    half = quantile * sqrt(rate * (1.0 - rate) / trials + quantile * quantile / (4 * trials * trials))
    scale = 1.0 + quantile * quantile / trials
    # At the ends the bound is exactly 0 or 1; rounding would leave it 1e-17 beside.
    low = 0.0 if rate <= 0.0 else (centre - half) / scale
    high = 1.0 if rate >= 1.0 else (centre + half) / scale
    return low, high


def difference_interval(
    one: float, interval: tuple[float, float], other: float, other_interval: tuple[float, float]
) -> tuple[float, float]:
    """Return the interval of the difference of two independent rates, from the intervals of both.

    Newcombe's hybrid score interval (1998, Statistics in Medicine 17, 873-890, method 10), with any intervals in place
    of Wilson's. All are in one unit, such as shares or percent.

    Args:
        one: a rate.
        interval: of it.
        other: the rate that is subtracted.
        other_interval: of that.
    """
    (low, high), (least, most) = interval, other_interval
    value = one - other
    return value - hypot(one - low, most - other), value + hypot(high - one, other - least)


def median_interval(values: Sequence[float], confidence: float = 0.95) -> tuple[float, float] | None:
    """Interval of a median by order statistics, whatever the values' distribution: the sign test's.

    Source: Thompson 1936, Annals of Mathematical Statistics 7, 122-128. Returns None where so few values have none:
    fewer than 6 at 95%.
    """
    ordered, n = sorted(values), len(values)
    outside, place = 2.0 ** (1 - n), 0
    if outside > 1.0 - confidence:
        return None
    while outside + comb(n, place + 1) * 2.0 ** (1 - n) <= 1.0 - confidence:
        place += 1
        outside += comb(n, place) * 2.0 ** (1 - n)
    return ordered[place], ordered[n - 1 - place]


# Tests for counts in a 2x2 table: chi-square, Holm.


def chi_square(table: Sequence[Sequence[int]], yates: bool = False) -> float | None:
    """Return Pearson's chi-square of a 2x2 table; its p is `chi_square_p`.

    Args:
        table: ((a, b), (c, d)), counts.
        yates: with Yates' continuity correction (1934, Supplement to the Journal of the Royal Statistical Society 1,
            217-235): each count moves half a count towards its expected one, and no further. It is the default of
            ``scipy.stats.chi2_contingency`` for such a table.

    Returns:
        None if a row or a column is empty, because then neither can depend on the other.

    Raises:
        ValueError: a count is negative.
    """
    (a, b), (c, d) = table
    if min(a, b, c, d) < 0:
        raise ValueError(f"chi_square: {a}, {b}, {c}, {d}: expected counts")
    margins = (a + b) * (c + d) * (a + c) * (b + d)
    if not margins:
        return None
    # In whole numbers up to here: the quotient is rounded once.
    n, excess = a + b + c + d, 2 * abs(a * d - b * c)
    return n * max(excess - n * yates, 0) ** 2 / (4 * margins)


def chi_square_p(statistic: float) -> float:
    """Compute the probability that a chi-square with 1 degree of freedom is at least as large."""
    return erfc(sqrt(statistic / 2))


def smallest_expected(table: Sequence[Sequence[int]]) -> float:
    """Compute the smallest expected count in a 2x2 table under independence; below 5 the p is rough."""
    (a, b), (c, d) = table
    n = a + b + c + d
    return min(row * column / n for row in (a + b, c + d) for column in (a + c, b + d)) if n else 0.0


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Adjust p-values by Holm's step-down method, in the same order.

    The k-th smallest of m (k from 0) is multiplied by m - k; none falls below a smaller one's, none exceeds 1. Source:
    Holm 1979, Scandinavian Journal of Statistics 6, 65-70.

    Raises:
        ValueError: a p is not within 0..1.
    """
    if any(not 0.0 <= p <= 1.0 for p in p_values):
        raise ValueError(f"holm: {[p for p in p_values if not 0.0 <= p <= 1.0]}: expected numbers within 0..1")
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return tuple(adjusted)
