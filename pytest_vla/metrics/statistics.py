"""Intervals for rates, and for a median."""

from collections.abc import Sequence
from math import comb, sqrt
from statistics import NormalDist


def wilson_interval(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a binomial proportion, without continuity correction.

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
    """Wilson's interval of a rate that strays as much as one of so many independent trials, no whole number.

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
