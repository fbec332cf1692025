"""Tests and intervals for counts in a 2x2 table: McNemar's exact test, Newcombe's paired interval, chi-square, Holm."""

from collections.abc import Sequence
from math import erfc, sqrt

from pytest_vla.metrics.statistics import wilson_interval


def mcnemar_exact(lost: int, gained: int) -> float:
    """Two-sided p of McNemar's exact test: of so many discordant pairs, each way is as likely as the other.

    Twice the smaller binomial tail, at most 1 (the mid-p variant would count the observed split by half). Exact for any
    number of pairs. Source: McNemar 1947, Psychometrika 12, 153-157; exact conditional form as in Fagerland et al.
    2013, BMC Medical Research Methodology 13:91.

    Args:
        lost: pairs in which only the first succeeded.
        gained: pairs in which only the second did.

    Raises:
        ValueError: a count is negative.
    """
    if lost < 0 or gained < 0:
        raise ValueError(f"mcnemar_exact: {lost} lost and {gained} gained: expected counts")
    n = lost + gained
    # Each binomial coefficient from the one before: thousands of pairs take milliseconds.
    tail, ways = 0, 1
    for k in range(min(lost, gained) + 1):
        tail += ways
        ways = ways * (n - k) // (k + 1)
    return 1.0 if 2 * tail >= 2**n else 2 * tail / 2**n


def paired_interval(both: int, lost: int, gained: int, neither: int, confidence: float = 0.95) -> tuple[float, float]:
    """Newcombe's interval of the difference of two paired proportions, second - first = (gained - lost) / n.

    Wilson's intervals of the two, squared and added, with the correlation of the pairs, which is corrected for
    continuity where it is positive and taken as 0 where a margin is empty. Source: method 10 of Newcombe 1998,
    Statistics in Medicine 17, 2635-2650.

    Args:
        both: pairs in which both succeeded.
        lost: only the first.
        gained: only the second.
        neither: none.
        confidence: of the two-sided interval, in (0, 1).

    Returns:
        Lower and upper bound, in [-1, 1].

    Raises:
        ValueError: there is no pair, a count is negative, or the confidence is out of range.
    """
    n = both + lost + gained + neither
    if n < 1 or min(both, lost, gained, neither) < 0:
        raise ValueError(f"paired_interval: {both}, {lost}, {gained}, {neither} pairs: expected counts, not all 0")
    first, second = (both + lost) / n, (both + gained) / n
    first_low, first_high = wilson_interval(both + lost, n, confidence)
    second_low, second_high = wilson_interval(both + gained, n, confidence)
    margins = (both + lost) * (gained + neither) * (both + gained) * (lost + neither)
    covariance: float = both * neither - lost * gained
    if covariance > 0:
        covariance = max(covariance - n / 2, 0.0)
    phi = covariance / sqrt(margins) if margins else 0.0

    def distance(one: float, other: float) -> float:
        # Rounding may leave a square of 0 a little below it.
        return sqrt(max(one * one - 2 * phi * one * other + other * other, 0.0))

    difference = second - first
    low = difference - distance(second - second_low, first_high - first)
    high = difference + distance(first - first_low, second_high - second)
    return max(low, -1.0), min(high, 1.0)


def chi_square(table: Sequence[Sequence[int]]) -> float | None:
    """Pearson's chi-square of a 2x2 table, without continuity correction; its p is `chi_square_p`.

    Args:
        table: ((a, b), (c, d)), counts.

    Returns:
        None where a row or a column has nothing in it: there is nothing that could depend on the other.

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
    return (a + b + c + d) * (a * d - b * c) ** 2 / margins


def chi_square_p(statistic: float) -> float:
    """How likely a chi-square with 1 degree of freedom is to be as large, or larger."""
    return erfc(sqrt(statistic / 2))


def smallest_expected(table: Sequence[Sequence[int]]) -> float:
    """The smallest count that a 2x2 table would have if rows and columns were independent; below 5 the p is rough."""
    (a, b), (c, d) = table
    n = a + b + c + d
    return min(row * column / n for row in (a + b, c + d) for column in (a + c, b + d)) if n else 0.0


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down adjustment: each p as it counts among all of them, in the same order.

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
