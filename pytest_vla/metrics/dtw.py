"""Dynamic time warping between paths of the end effector: exact, and by the library fastdtw as in LIBERO-Para."""

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POINTS = 50
"""To how many points a path is resampled before it is compared: K of LIBERO-Para (arXiv 2603.28301)."""

FASTDTW_RADIUS = 1


@dataclass(frozen=True)
class Warping:
    """The cheapest warpings of B paths onto one.

    Attributes:
        distances: (B,), m: the sum of the Euclidean distances of the points that are matched.
        lengths: (B,): how many pairs are matched.
    """

    distances: "NDArray[np.float64]"
    lengths: "NDArray[np.int64]"


def resample(path: "NDArray[np.float64]", points: int = POINTS) -> "NDArray[np.float64]":
    """Interpolate the path (n, d) linearly at `points` places evenly spaced in time: (points, d).

    Raises:
        ValueError: the path has no row or is not finite, or `points` is below 2.
    """
    import numpy as np

    rows = np.asarray(path, dtype=np.float64)
    if rows.ndim != 2 or not len(rows) or not np.isfinite(rows).all():
        raise ValueError(f"resample: a path of shape {rows.shape}: expected (n, d), n >= 1, of finite numbers")
    if points < 2:
        raise ValueError(f"resample: {points} points: expected at least 2")
    places = np.linspace(0.0, len(rows) - 1.0, points)
    return np.stack([np.interp(places, np.arange(len(rows)), column) for column in rows.T], axis=1)


def exact_dtw(paths: "NDArray[np.float64]", other: "NDArray[np.float64]") -> Warping:
    """Exact warpings of paths (B, n, d) onto another (m, d), steps by one in either path or in both, unit weights.

    Of warpings of equal cost the one counts that steps in both, then the one in the first path. 50 x 50 points take
    0.01 ms in machine code, and 3 ms where numba is not installed; the results are equal to the bit.

    Raises ValueError where shapes do not fit.
    """
    import numpy as np

    try:
        from pytest_vla.metrics.dtw_kernel import warp
    except ModuleNotFoundError:
        # Reports need no extra; numba is one's.
        warp = _warp

    paths, other = np.asarray(paths, dtype=np.float64), np.asarray(other, dtype=np.float64)
    if paths.ndim != 3 or other.ndim != 2 or paths.shape[2] != other.shape[1] or not paths.shape[1] or not len(other):
        raise ValueError(
            f"exact_dtw: paths {paths.shape} onto {other.shape}: expected (B, n, d) onto (m, d), n, m >= 1"
        )
    distances, lengths = np.empty(len(paths)), np.empty(len(paths), np.int64)
    warp(np.ascontiguousarray(paths), np.ascontiguousarray(other), distances, lengths)
    return Warping(distances, lengths)


def _warp(
    paths: "NDArray[np.float64]",
    other: "NDArray[np.float64]",
    distances: "NDArray[np.float64]",
    lengths: "NDArray[np.int64]",
) -> None:
    """Fill in distances and lengths as `dtw_kernel.warp` does, by the same operations on one diagonal after another."""
    import numpy as np

    n, m = paths.shape[1], other.shape[0]
    squares = np.zeros((len(paths), n, m))
    for axis in range(other.shape[1]):
        squares += (paths[:, :, None, axis] - other[None, None, :, axis]) ** 2
    costs = np.sqrt(squares)
    total = np.full((len(paths), n + 1, m + 1), np.inf)
    length = np.zeros(total.shape, np.int64)
    total[:, 0, 0] = 0.0
    for diagonal in range(n + m - 1):
        i = np.arange(max(0, diagonal - m + 1), min(n, diagonal + 1))
        j = diagonal - i
        best, steps = total[:, i, j], length[:, i, j]
        for row, column in ((i, j + 1), (i + 1, j)):
            nearer = total[:, row, column] < best
            best = np.where(nearer, total[:, row, column], best)
            steps = np.where(nearer, length[:, row, column], steps)
        total[:, i + 1, j + 1], length[:, i + 1, j + 1] = costs[:, i, j] + best, steps + 1
    distances[:], lengths[:] = total[:, n, m], length[:, n, m]


def fast_dtw(paths: "NDArray[np.float64]", other: "NDArray[np.float64]") -> Warping:
    """Warp paths (B, n, d) onto another (m, d) by the fastdtw library with radius 1, as LIBERO-Para does.

    It searches only near the warping of coarser paths: never below the exact distance, and up to a sixth above it on
    irregular paths. Raises VlaError if fastdtw is not installed.
    """
    import numpy as np

    fastdtw = _library()
    # A number as distance is a norm in compiled code; without one the library takes the norm of order 1.
    found = [fastdtw(np.asarray(path, np.float64), np.asarray(other, np.float64), FASTDTW_RADIUS, 2) for path in paths]
    return Warping(np.array([d for d, _ in found], np.float64), np.array([len(pairs) for _, pairs in found], np.int64))


def _library() -> Any:
    try:
        return importlib.import_module("fastdtw").fastdtw
    except ImportError as error:
        raise VlaError(
            "the paper's DTW needs the library fastdtw, which is not installed: pip install 'pytest-vla[language]', or "
            "ask for exact DTW"
        ) from error
