"""What a data set says of its values: LeRobot's ``stats.json``, over all of them, exactly.

LeRobot's own are of some of an episode's pictures, and its quantiles are weighted means of the episodes' approximate
ones; these are of every pixel and every row.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUANTILES: Mapping[str, float] = {"q01": 0.01, "q10": 0.1, "q50": 0.5, "q90": 0.9, "q99": 0.99}

Histogram = NDArray[np.int64]
"""(3, 256): of each colour how many pixels have which value."""

Stats = dict[str, Any]
"""``min``, ``max``, ``mean``, ``std``, ``count`` and the quantiles, as JSON has them."""

_VALUES = 256


def stats_of(rows: NDArray[Any]) -> Stats:
    """Of a column's rows (n, k) of numbers or truths, of each of its k: lists of k numbers; ``count``: [n]."""
    values = np.asarray(rows, dtype=np.float64)
    found = {
        "min": values.min(axis=0),
        "max": values.max(axis=0),
        "mean": values.mean(axis=0),
        "std": values.std(axis=0),
    }
    found |= dict(zip(QUANTILES, np.quantile(values, [*QUANTILES.values()], axis=0), strict=True))
    return {name: array.tolist() for name, array in found.items()} | {"count": [len(values)]}


def histogram_of(picture: NDArray[np.uint8]) -> Histogram:
    """Of one picture (H, W, 3)."""
    return np.stack([np.bincount(picture[..., colour].ravel(), minlength=_VALUES) for colour in range(3)])


def picture_stats(histogram: Histogram, count: int) -> Stats:
    """Of pictures, one or more: of each colour, in [0, 1], shaped (3, 1, 1).

    Args:
        histogram: the sum of the pictures'.
        count: how many pictures they are.
    """
    values = np.arange(_VALUES) / (_VALUES - 1)
    pixels = histogram.sum(axis=1)
    mean = histogram @ values / pixels
    squares = (histogram * (values - mean[:, None]) ** 2).sum(axis=1)
    found = {
        "min": np.array([values[np.flatnonzero(each)[0]] for each in histogram]),
        "max": np.array([values[np.flatnonzero(each)[-1]] for each in histogram]),
        "mean": mean,
        "std": np.sqrt(squares / pixels),
    }
    found |= {
        name: np.array([_quantile(each, share) for each in histogram]) / (_VALUES - 1)
        for name, share in QUANTILES.items()
    }
    return {name: array.reshape(3, 1, 1).tolist() for name, array in found.items()} | {"count": [count]}


def _quantile(histogram: NDArray[np.int64], share: float) -> float:
    """Between the two values next to it, as numpy's are."""
    ends = histogram.cumsum()
    place = share * (int(ends[-1]) - 1)
    below, above = np.searchsorted(ends, [int(place), int(np.ceil(place))], side="right")
    return float(below + (above - below) * (place - int(place)))
