"""The inner loops of picture noise that neither numpy nor OpenCV does fast: compiled by numba, kept as machine code.

Results are the same bit for bit on every run: no reordered sums, no threads.
"""

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from pytest_vla.util.machine_code import keep


@numba.njit  # type: ignore[untyped-decorator]
def scramble(picture: NDArray[np.uint8], offsets: NDArray[np.int8], delta: int) -> None:
    """Copies over each pixel one nearby, in place, from the lower right to the upper left, one after the other.

    Args:
        picture: (H, W, 3), written.
        offsets: (iterations, H - 2*delta, W - 2*delta, 2): columns and rows to the other pixel, in [-delta, delta),
            in the order of the loop.
        delta: pixels, the farthest; pixels nearer than that to the edge are left.
    """
    height, width, channels = picture.shape
    for iteration in range(offsets.shape[0]):
        for i in range(offsets.shape[1]):
            row = height - delta - i
            for j in range(offsets.shape[2]):
                column = width - delta - j
                other_column = column + offsets[iteration, i, j, 0]
                other_row = row + offsets[iteration, i, j, 1]
                for channel in range(channels):
                    picture[row, column, channel] = picture[other_row, other_column, channel]


@numba.njit  # type: ignore[untyped-decorator]
def weighted_sum(
    padded: NDArray[np.float32],
    margin: int,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    weights: NDArray[np.float32],
) -> NDArray[np.float32]:
    """The sum of a picture's copies, each moved and weighted.

    Args:
        padded: (H + 2*margin, (W + 2*margin) * 3), the picture with a margin of so many pixels.
        margin: pixels, no less than any of the offsets.
        rows, columns: (n,), where a copy's pixel is read, relative to where it is added.
        weights: (n,), of the copies.

    Returns:
        (H, W * 3).
    """
    height, width = padded.shape[0] - 2 * margin, padded.shape[1] - 6 * margin
    total = np.zeros((height, width), dtype=np.float32)
    for y in range(height):
        out = total[y]
        for number in range(len(weights)):
            weight = weights[number]
            start = 3 * (margin + columns[number])
            line = padded[y + margin + rows[number], start : start + width]
            for x in range(width):
                out[x] += weight * line[x]
    return total


@numba.njit  # type: ignore[untyped-decorator]
def sum_of_enlarged(
    picture: NDArray[np.float32],
    rows: NDArray[np.int64],
    row_weights: NDArray[np.float32],
    columns: NDArray[np.int64],
    column_weights: NDArray[np.float32],
) -> NDArray[np.float32]:
    """The sum of a picture and of copies of it, interpolated linearly at given places.

    Args:
        picture: (H, W * 3).
        rows: (n, 2, H): of each copy and row, the two rows of the picture that it is between; never falling.
        row_weights: (n, 2, H), of these.
        columns: (n, 2, W * 3), as places in a row of the picture.
        column_weights: (n, 2, W * 3).

    Returns:
        (H, W * 3).
    """
    height, width = picture.shape
    total = picture.copy()
    # The two rows that were interpolated last along the columns.
    lines = np.empty((2, width), dtype=np.float32)
    for number in range(rows.shape[0]):
        near, far = columns[number, 0], columns[number, 1]
        near_weights, far_weights = column_weights[number, 0], column_weights[number, 1]
        done = -1
        for y in range(height):
            upper, lower = rows[number, 0, y], rows[number, 1, y]
            for row in range(max(upper, done + 1), lower + 1):
                source, line = picture[row], lines[row % 2]
                for x in range(width):
                    line[x] = near_weights[x] * source[near[x]] + far_weights[x] * source[far[x]]
                done = row
            above, below, out = lines[upper % 2], lines[lower % 2], total[y]
            upper_weight, lower_weight = row_weights[number, 0, y], row_weights[number, 1, y]
            for x in range(width):
                out[x] += upper_weight * above[x] + lower_weight * below[x]
    return total


_ABOUT = "picture noise"
_numbers, _flat, _weights = types.int64[::1], types.float32[:, ::1], types.float32[:, :, ::1]
_places = types.int64[:, :, ::1]
keep(__name__, scramble, [(types.uint8[:, :, ::1], types.int8[:, :, :, ::1], types.int64)], about=_ABOUT)
keep(__name__, weighted_sum, [(_flat, types.int64, _numbers, _numbers, types.float32[::1])], about=_ABOUT)
keep(__name__, sum_of_enlarged, [(_flat, _places, _weights, _places, _weights)], about=_ABOUT)
