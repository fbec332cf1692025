"""Cluster bootstrap: intervals for numbers that are made of sums over episodes which are not independent."""

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RESAMPLES = 2000
CONFIDENCE = 0.95

Interval = tuple[float, float]
Statistics = Callable[["NDArray[np.float64]"], "NDArray[np.float64]"]
"""Makes numbers (r, m) of r resamples' sums (r, k); nan where a resample has no number."""

_CHUNK = 100

_RECURRING = 2
"""Clusters cross where one of either kind is seen with so many of the other, on the average."""


def cluster_intervals(
    rows: "NDArray[np.float64]",
    clusters: Sequence[Hashable],
    crossed: Sequence[Hashable],
    statistics: Statistics,
    generator: "np.random.Generator",
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> list[Interval | None]:
    """Percentile intervals of statistics of the sums over all rows.

    Two kinds of clusters that cross each other, such as paraphrases and seeds, are drawn with replacement, each by
    itself; a row counts as often as both of its clusters were drawn (the pigeonhole bootstrap: Owen 2007, Annals of
    Applied Statistics 1, 386-411). It takes up what the rows of a cluster have in common, of either kind. Where they
    have nothing in common it is too wide, up to the root of 3; where there are few clusters it is too narrow.

    Where they do not cross, since most clusters of one kind are seen with but one of the other, drawing both would
    count the same chance twice, and leave many resamples empty. Then whole clusters of the first kind are drawn, with
    quantiles a little farther out for their number (Hesterberg 2015, The American Statistician 69, 371-386).

    Args:
        rows: (n, k): what each episode adds to each of k sums.
        clusters: (n,), of each row its cluster of the first kind.
        crossed: (n,), of the second kind. Where there is but one cluster of a kind, only the other is drawn.
        statistics: of the sums.
        generator: draws the resamples.
        confidence: of the two-sided intervals, in (0, 1).
        resamples: how many.

    Returns:
        Of each of the m statistics its interval; None where there is but one cluster of both kinds, or where too many
        resamples have no number.

    Raises:
        ValueError: there is no row, lengths differ, or the confidence is out of range.
    """
    import numpy as np

    if not 0.0 < confidence < 1.0:
        raise ValueError(f"cluster_intervals: confidence {confidence}: expected a number between 0 and 1")
    if not len(rows) or not len(rows) == len(clusters) == len(crossed):
        sizes = f"{len(rows)} rows, {len(clusters)} and {len(crossed)} clusters"
        raise ValueError(f"cluster_intervals: {sizes}: expected as many of each, at least 1")
    first, second = _numbered(clusters), _numbered(crossed)
    shape = (int(first.max()) + 1, int(second.max()) + 1)
    if min(shape) > 1 and len(set(zip(clusters, crossed, strict=True))) < _RECURRING * max(shape):
        second, shape = np.zeros_like(second), (shape[0], 1)
    sums = np.zeros((*shape, rows.shape[1]))
    np.add.at(sums, (first, second), rows)
    count = statistics(sums.sum(axis=(0, 1))[None]).shape[1]
    if shape == (1, 1):
        return [None] * count
    found = np.empty((resamples, count))
    for start in range(0, resamples, _CHUNK):
        size = min(_CHUNK, resamples - start)
        one, other = (_drawn(generator, size, number) for number in shape)
        totals = np.zeros((size, rows.shape[1]))
        for column in range(shape[1]):
            totals += (one @ sums[:, column]) * other[:, column : column + 1]
        found[start : start + size] = statistics(totals)
    tail = (1.0 - confidence) / 2.0
    return [_interval(column, tail, _farther(tail, max(shape)) if min(shape) == 1 else tail) for column in found.T]


def _numbered(clusters: Sequence[Hashable]) -> "NDArray[np.int64]":
    import numpy as np

    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(cluster, len(numbers)) for cluster in clusters])


def _drawn(generator: "np.random.Generator", size: int, number: int) -> "NDArray[np.float64]":
    """How often each of so many clusters was drawn, (size, number)."""
    import numpy as np

    drawn = generator.integers(number, size=(size, number)) + np.arange(size)[:, None] * number
    return np.bincount(drawn.ravel(), minlength=size * number).reshape(size, number).astype(np.float64)


def _farther(tail: float, number: int) -> float:
    """The tail's share that Student's t with so many clusters puts there, where the normal one puts `tail`."""
    from scipy.special import ndtr, stdtrit

    return float(ndtr(math.sqrt(number / (number - 1)) * stdtrit(number - 1, tail)))


def _interval(values: "NDArray[np.float64]", tail: float, cut: float) -> Interval | None:
    """Quantiles at `cut` and 1 - `cut`; None where more of the values than the tail are no number."""
    import numpy as np

    known = values[~np.isnan(values)]
    if len(known) < (1.0 - tail) * len(values):
        return None
    low, high = np.quantile(known, (cut, 1.0 - cut))
    return float(low), float(high)
