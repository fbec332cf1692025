"""The inner loop of exact dynamic time warping: compiled by numba, kept as machine code."""

import math

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from pytest_vla.util.machine_code import keep


@numba.njit  # type: ignore[untyped-decorator]
def warp(
    paths: NDArray[np.float64], other: NDArray[np.float64], distances: NDArray[np.float64], lengths: NDArray[np.int64]
) -> None:
    """Warp paths (B, n, d) onto another (m, d); fill in their distances (B,) and numbers of matched pairs (B,)."""
    n, m, axes = paths.shape[1], other.shape[0], other.shape[1]
    total = np.full((n + 1, m + 1), np.inf)
    length = np.zeros((n + 1, m + 1), np.int64)
    total[0, 0] = 0.0
    for b in range(len(paths)):
        for i in range(n):
            for j in range(m):
                best, steps = total[i, j], length[i, j]
                if total[i, j + 1] < best:
                    best, steps = total[i, j + 1], length[i, j + 1]
                if total[i + 1, j] < best:
                    best, steps = total[i + 1, j], length[i + 1, j]
                square = 0.0
                for axis in range(axes):
                    square += (paths[b, i, axis] - other[j, axis]) ** 2
                total[i + 1, j + 1] = math.sqrt(square) + best
                length[i + 1, j + 1] = steps + 1
        distances[b], lengths[b] = total[n, m], length[n, m]


keep(
    __name__,
    warp,
    [(types.float64[:, :, ::1], types.float64[:, ::1], types.float64[::1], types.int64[::1])],
    about="the warping of paths",
)
