"""Tests for counts in a 2x2 table: chi-square, Holm."""

from collections.abc import Sequence
from math import erfc, sqrt


def chi_square(table: Sequence[Sequence[int]], yates: bool = False) -> float | None:
    """Return Pearson's chi-square of a 2x2 table; its p is `chi_square_p`.

    Args:
        table: ((a, b), (c, d)), counts.
        yates: with Yates' continuity correction (1934, Supplement to the Journal of the Royal Statistical Society 1,
            217-235): each count is half a count nearer to its expected one, and no further. It is the default of
            ``scipy.stats.chi2_contingency`` for such a table.

    Returns:
        None if a row or a column is empty: then neither can depend on the other.

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
