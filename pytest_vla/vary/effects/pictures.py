"""What noise does to one picture: pure functions of the picture, of parameters in pixels, and of a generator.

Pictures are (H, W, 3) uint8 of any size; each function gives a new one and leaves its own as it was.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import cv2
import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from pytest_vla.sim.pixel_noise import WHITE, Floats, Picture, as_floats, as_pixels
from pytest_vla.util.machine_code import keep

# The inner loops of picture noise that neither numpy nor OpenCV does fast: compiled by numba, kept as machine code.
# Results are the same bit for bit on every run: no reordered sums, no threads.


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


# scikit-image's gaussian filter ends its kernel here, in standard deviations.
_TRUNCATE = 4.0


def gaussian_blur(picture: Picture, sigma: float) -> Picture:
    """A Gaussian filter as scikit-image has it: 4 sigma wide, the edge repeated, in [0, 1], then truncated.

    Args:
        picture: see above.
        sigma: pixels; 0 leaves the picture as it is.
    """
    kernel = _gaussian_kernel(sigma)
    if len(kernel) == 1:
        return picture.copy()
    blurred = cv2.sepFilter2D(as_floats(picture), -1, kernel, kernel, borderType=cv2.BORDER_REPLICATE)
    return as_pixels(np.asarray(blurred, dtype=np.float32))


def motion_blur(picture: Picture, length: float, angle: float) -> Picture:
    """What a camera sees that moves evenly while its shutter is open, the middle of the move in place; rounded.

    Args:
        picture: see above; its edge is repeated.
        length: pixels of the way, 0 or more.
        angle: degrees of its direction.
    """
    # Four samples a pixel, each shared by the four pixels around it.
    count = 2 * math.ceil(2.0 * length) + 1
    along = np.linspace(-0.5 * length, 0.5 * length, count)
    rows, columns = along * math.sin(math.radians(angle)), along * math.cos(math.radians(angle))
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    down, right = rows - top, columns - left
    shares: dict[tuple[int, int], float] = {}
    for row, row_shares in ((top, 1.0 - down), (top + 1, down)):
        for column, column_shares in ((left, 1.0 - right), (left + 1, right)):
            for key_row, key_column, share in zip(row, column, row_shares * column_shares, strict=True):
                key = (int(key_row), int(key_column))
                shares[key] = shares.get(key, 0.0) + float(share) / count
    kept = {key: share for key, share in shares.items() if share > 0.0}
    return moved_copies(picture, list(kept), list(kept.values()))


def moved_copies(picture: Picture, offsets: Sequence[tuple[int, int]], weights: Sequence[float]) -> Picture:
    """The weighted sum of a picture's copies, rounded.

    Args:
        picture: see above; its edge is repeated.
        offsets: rows and columns from a pixel to the one that it gets.
        weights: one for each offset.
    """
    height, width, _ = picture.shape
    where = np.array(offsets, dtype=np.int64)
    margin = int(np.abs(where).max())
    padded = cv2.copyMakeBorder(picture, margin, margin, margin, margin, cv2.BORDER_REPLICATE).astype(np.float32)
    rows, columns = np.ascontiguousarray(where[:, 0]), np.ascontiguousarray(where[:, 1])
    total = weighted_sum(
        padded.reshape(padded.shape[0], -1), margin, rows, columns, np.array(weights, dtype=np.float32)
    )
    rounded: Picture = np.rint(np.clip(total, 0.0, WHITE)).astype(np.uint8).reshape(height, width, 3)
    return rounded


def zoom_blur(picture: Picture, factors: tuple[float, ...]) -> Picture:
    """The mean of a picture and its enlarged middles, each of the whole size.

    As ImageNet-C's sum of `scipy.ndimage.zoom` of order 1, which joins the corners' middles; heights and widths apart,
    so that a picture need not be square.

    Args:
        picture: see above.
        factors: of the enlarging, 1 or more.
    """
    height, width, _ = picture.shape
    rows, row_weights = _enlarged(height, factors, 1)
    columns, column_weights = _enlarged(width, factors, 3)
    flat = as_floats(picture).reshape(height, width * 3)
    total = sum_of_enlarged(flat, rows, row_weights, columns, column_weights)
    return as_pixels(total / np.float32(len(factors) + 1)).reshape(picture.shape)


def plasma(side: int, decay: float, generator: np.random.Generator) -> Floats:
    """A random field by diamond and square, as ImageNet-C's fog has it, which goes on over its edges.

    Args:
        side: rows and columns, a power of two.
        decay: how much less rough each finer pass is; the amplitude falls by its square.
        generator: gives each pass's numbers in upstream's order.

    Returns:
        (side, side) in [0, 1], both of them reached.
    """
    field = np.zeros((side, side))
    rough, step = 100.0, side

    def rough_mean(total: NDArray[np.float64]) -> NDArray[np.float64]:
        return total / 4.0 + rough * generator.uniform(-rough, rough, total.shape)

    while step >= 2:
        half = step // 2
        corners = field[::step, ::step]
        beside = corners + np.roll(corners, -1, axis=0)
        field[half::step, half::step] = rough_mean(beside + np.roll(beside, -1, axis=1))
        middles = field[half::step, half::step]
        across, down = corners + np.roll(corners, -1, axis=1), corners + np.roll(corners, -1, axis=0)
        field[::step, half::step] = rough_mean(middles + np.roll(middles, 1, axis=0) + across)
        field[half::step, ::step] = rough_mean(middles + np.roll(middles, 1, axis=1) + down)
        step, rough = half, rough / decay
    field -= field.min()
    return (field / max(float(field.max()), np.finfo(float).tiny)).astype(np.float32)


def plasma_side(picture: Picture) -> int:
    """The side of a field for a picture: 256 as published, and the next power of two for a larger one."""
    longest: int = max(picture.shape[:2])
    return max(256, 1 << (longest - 1).bit_length())


def fog(picture: Picture, amount: float, field: Floats) -> Picture:
    """A white field added, and the whole darkened so that the brightest value could stay; truncated.

    Args:
        picture: see above.
        amount: of the field beside the picture's own [0, 1].
        field: in [0, 1], as large as the picture or larger; its upper left is taken.
    """
    height, width, _ = picture.shape
    values = as_floats(picture)
    brightest = float(values.max())
    values += np.float32(amount) * field[:height, :width, None]
    values *= np.float32(brightest / (brightest + amount)) if brightest else np.float32(0.0)
    return as_pixels(values)


def copied_glass(
    picture: Picture, sigma: float, delta: int, iterations: int, generator: np.random.Generator
) -> Picture:
    """ImageNet-C's glass: blurred, its pixels copied over one another, and blurred again.

    Args:
        picture: see above; one of no more than twice `delta` pixels a side is only blurred.
        sigma: pixels, of both blurs.
        delta: pixels, the farthest that a pixel comes from.
        iterations: how often all are copied.
        generator: draws from where.
    """
    height, width, _ = picture.shape
    copied = gaussian_blur(picture, sigma)
    shape = (iterations, max(height - 2 * delta, 0), max(width - 2 * delta, 0), 2)
    scramble(copied, generator.integers(-delta, delta, shape, dtype=np.int8), delta)
    return gaussian_blur(copied, sigma)


def frosted_glass(picture: Picture, spread: float, generator: np.random.Generator) -> Picture:
    """Each pixel taken from a place nearby, and the whole blurred by half as much.

    Args:
        picture: see above; its edge is repeated.
        spread: pixels, the standard deviation of where they come from, along either axis.
        generator: draws from where.
    """
    height, width, _ = picture.shape
    places = generator.standard_normal((2, height, width), dtype=np.float32)
    places *= np.float32(spread)
    places[0] += np.arange(width, dtype=np.float32)
    places[1] += np.arange(height, dtype=np.float32)[:, None]
    taken = cv2.remap(picture, places[0], places[1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return gaussian_blur(np.asarray(taken, dtype=np.uint8), 0.5 * spread)


def salt_and_pepper(picture: Picture, amount: float, generator: np.random.Generator) -> Picture:
    """Values set to 255 with a probability and to 0 with the same one, each channel by itself. As VLA-Arena's.

    Args:
        picture: see above.
        amount: the probability of each of the two, 0 to 0.5.
        generator: draws which.
    """
    drawn = generator.random(picture.shape, dtype=np.float32)
    noisy = picture.copy()
    noisy[drawn < np.float32(amount)] = 255
    noisy[drawn >= np.float32(1.0 - amount)] = 0
    return noisy


def jpeg(picture: Picture, quality: int) -> Picture:
    """Written as JPEG, colours at half the resolution, and read again.

    Args:
        picture: see above.
        quality: libjpeg's, 1 to 100.
    """
    _, data = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
    read = cv2.imdecode(data, cv2.IMREAD_COLOR)
    assert read is not None
    return np.asarray(cv2.cvtColor(read, cv2.COLOR_BGR2RGB), dtype=np.uint8)


@lru_cache(maxsize=32)
def _gaussian_kernel(sigma: float) -> Floats:
    """As `scipy.ndimage.gaussian_filter` weighs."""
    radius = int(_TRUNCATE * sigma + 0.5)
    if not radius:
        return np.ones(1, dtype=np.float32)
    weights = np.exp(-0.5 / sigma**2 * np.arange(-radius, radius + 1) ** 2)
    return np.asarray(weights / weights.sum(), dtype=np.float32)


@lru_cache(maxsize=8)
def _enlarged(side: int, factors: tuple[float, ...], channels: int) -> tuple[NDArray[np.int64], Floats]:
    """Where the pixels of a side's enlarged middles lie, as `sum_of_enlarged` takes it.

    Returns:
        (n, 2, side * channels): the two places that each is between; and their weights.
    """
    places = np.empty((len(factors), 2, side), dtype=np.int64)
    weights = np.empty((len(factors), 2, side))
    for number, factor in enumerate(factors):
        taken = math.ceil(side / factor)
        enlarged = round(taken * factor)
        ratio = (taken - 1) / (enlarged - 1) if enlarged > 1 else 1.0
        at = (np.arange(side) + (enlarged - side) // 2) * ratio
        before = np.minimum(np.floor(at), max(taken - 2, 0)).astype(np.int64)
        first = (side - taken) // 2
        places[number] = first + before, first + np.minimum(before + 1, taken - 1)
        weights[number] = 1.0 - (at - before), at - before
    wide = channels * places[..., None] + np.arange(channels)
    return wide.reshape(len(factors), 2, -1), np.repeat(weights, channels, axis=2).astype(np.float32)
