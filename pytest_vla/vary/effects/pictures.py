"""The effects of noise on one picture: pure functions of the picture, of parameters in pixels, and of a generator.

Pictures are (H, W, 3) uint8 in any size; each function returns a new one and leaves its argument unchanged.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import cv2
import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from pytest_vla.sim.pixel_noise import WHITE, Floats, Picture, as_floats, as_pixels, frame_generator, gaussian_noise
from pytest_vla.util.machine_code import keep

# The inner loops of picture noise that neither numpy nor OpenCV does fast: compiled by numba, kept as machine code.
# Results are the same bit for bit on every run: no reordered sums, no threads.


@numba.njit  # type: ignore[untyped-decorator]
def scramble(picture: NDArray[np.uint8], offsets: NDArray[np.int8], delta: int) -> None:
    """Copy a nearby pixel over each pixel, in place and one after the other, from the lower right to the upper left.

    Args:
        picture: (H, W, 3), written.
        offsets: (iterations, H - 2*delta, W - 2*delta, 2): columns and rows to the source pixel, in [-delta, delta), in
            the order of the loop.
        delta: the greatest offset (pixels); pixels nearer than that to the edge are left.
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
    """Compute the weighted sum of a picture's shifted copies.

    Args:
        padded: (H + 2*margin, (W + 2*margin) * 3), the picture with a margin.
        margin: pixels, at least the largest offset.
        rows, columns: (n,), source position of each copy's pixels, relative to the target pixel.
        weights: (n,), one for each copy.

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
    """Compute the sum of a picture and its enlarged copies, interpolated linearly at given places.

    Args:
        picture: (H, W * 3).
        rows: (n, 2, H): for each copy and row, the two rows of the picture that it lies between; never decreasing.
        row_weights: (n, 2, H), the weights of `rows`.
        columns: (n, 2, W * 3), as positions in a row of the picture.
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
    """Blur with a Gaussian filter as scikit-image does: 4 sigma wide, edge repeated, in [0, 1], then truncated.

    Args:
        picture: see the module.
        sigma: pixels; 0 leaves the picture unchanged.
    """
    kernel = _gaussian_kernel(sigma)
    if len(kernel) == 1:
        return picture.copy()
    blurred = cv2.sepFilter2D(as_floats(picture), -1, kernel, kernel, borderType=cv2.BORDER_REPLICATE)
    return as_pixels(np.asarray(blurred, dtype=np.float32))


def motion_blur(picture: Picture, length: float, angle: float) -> Picture:
    """Blur as by a camera that moves evenly while its shutter is open, centred on the middle of the move; rounded.

    Args:
        picture: see the module; its edge is repeated.
        length: the path in pixels, 0 or more.
        angle: the path's direction in degrees.
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
    """Compute the weighted sum of a picture's shifted copies, rounded.

    Args:
        picture: see the module; its edge is repeated.
        offsets: rows and columns from each pixel to its source pixel.
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
    """Compute the mean of a picture and its middle parts, enlarged to the whole size.

    As ImageNet-C's sum over `scipy.ndimage.zoom` with order 1, which aligns the centres of corner pixels; rows and
    columns are handled apart, so that a picture need not be square.

    Args:
        picture: see the module.
        factors: the enlargements, 1 or more.
    """
    height, width, _ = picture.shape
    rows, row_weights = _enlarged(height, factors, 1)
    columns, column_weights = _enlarged(width, factors, 3)
    flat = as_floats(picture).reshape(height, width * 3)
    total = sum_of_enlarged(flat, rows, row_weights, columns, column_weights)
    return as_pixels(total / np.float32(len(factors) + 1)).reshape(picture.shape)


def plasma(side: int, decay: float, generator: np.random.Generator) -> Floats:
    """Return a random field by the diamond-square algorithm, periodic at its edges, as in ImageNet-C's fog.

    Args:
        side: rows and columns, a power of two.
        decay: reduction of roughness per finer pass; the amplitude falls by its square.
        generator: gives each pass's numbers in upstream's order.

    Returns:
        (side, side) in [0, 1], both bounds reached.
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
    """Return the side of a picture's fog field: 256 as published, or the next power of two for a larger picture."""
    longest: int = max(picture.shape[:2])
    return max(256, 1 << (longest - 1).bit_length())


def fog(picture: Picture, amount: float, field: Floats) -> Picture:
    """Add a white field, and darken the sum so that the brightest value is kept; truncated.

    Args:
        picture: see the module.
        amount: weight of the field relative to the picture [0, 1].
        field: in [0, 1], as large as the picture or larger; its upper left is used.
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
    """Apply ImageNet-C's glass: blur, copy pixels over one another, and blur again.

    Args:
        picture: see the module; a picture with sides of at most twice `delta` pixels is only blurred.
        sigma: pixels, for both blurs.
        delta: the greatest offset of a copied pixel.
        iterations: number of passes over all pixels.
        generator: draws the offsets.
    """
    height, width, _ = picture.shape
    copied = gaussian_blur(picture, sigma)
    shape = (iterations, max(height - 2 * delta, 0), max(width - 2 * delta, 0), 2)
    scramble(copied, generator.integers(-delta, delta, shape, dtype=np.int8), delta)
    return gaussian_blur(copied, sigma)


def frosted_glass(picture: Picture, spread: float, generator: np.random.Generator) -> Picture:
    """Take each pixel from a place nearby, and blur the result by half as much.

    Args:
        picture: see the module; its edge is repeated.
        spread: pixels, the standard deviation of the source's offset along each axis.
        generator: draws the offsets.
    """
    height, width, _ = picture.shape
    places = generator.standard_normal((2, height, width), dtype=np.float32)
    places *= np.float32(spread)
    places[0] += np.arange(width, dtype=np.float32)
    places[1] += np.arange(height, dtype=np.float32)[:, None]
    taken = cv2.remap(picture, places[0], places[1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return gaussian_blur(np.asarray(taken, dtype=np.uint8), 0.5 * spread)


def salt_and_pepper(picture: Picture, amount: float, generator: np.random.Generator) -> Picture:
    """Set values to 255 with a probability and to 0 with the same one, each channel independently, as VLA-Arena does.

    Args:
        picture: see the module.
        amount: the probability of each of the two, 0 to 0.5.
        generator: draws the values to set.
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
    """Return the weights that `scipy.ndimage.gaussian_filter` uses."""
    radius = int(_TRUNCATE * sigma + 0.5)
    if not radius:
        return np.ones(1, dtype=np.float32)
    weights = np.exp(-0.5 / sigma**2 * np.arange(-radius, radius + 1) ** 2)
    return np.asarray(weights / weights.sum(), dtype=np.float32)


@lru_cache(maxsize=8)
def _enlarged(side: int, factors: tuple[float, ...], channels: int) -> tuple[NDArray[np.int64], Floats]:
    """Return the source positions of the pixels of enlarged middle parts along one side, for `sum_of_enlarged`.

    Returns:
        (n, 2, side * channels): the two positions that each pixel lies between; and their weights.
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


# Graded noise over the pictures of an episode, by the names of the `noise` kinds.

Frames = Callable[[Picture, str, int], Picture]
"""The disturbed picture, from a picture, its camera and the control step."""

Begin = Callable[[float, int], Frames]
"""Begins an episode, with a magnitude and a seed."""

ROWS = 256
"""Rows of the picture to which lengths in pixels refer; for another picture they are scaled by its rows."""

# Enough that at the greatest zoom no edge shows apart from the next.
_ZOOMS = 24
_FOG_DECAY = 1.6
# Fog is not dark where it is thin.
_THINNEST_FOG = 0.5


def begin_noise(effect: str, magnitude: float, seed: int) -> Frames:
    """Begin an episode: return its function from a picture, a camera and a step to the disturbed picture.

    Args:
        effect: one of `EFFECTS`.
        magnitude: in the unit given in `EFFECTS`.
        seed: determines, with the camera's name and the step, all that is drawn for a frame.
    """
    return EFFECTS[effect](magnitude, seed)


def _each(change: Callable[[Picture, float, np.random.Generator], Picture]) -> Begin:
    """Return the start of an episode for a change that is independent of other frames."""

    def begin(magnitude: float, seed: int) -> Frames:
        return lambda picture, camera, step: change(picture, magnitude, frame_generator(seed, camera, step))

    return begin


def _motion(picture: Picture, length: float, generator: np.random.Generator) -> Picture:
    return motion_blur(picture, _scaled(length, picture), generator.uniform(0.0, 180.0))


def _gaussian_blur(picture: Picture, sigma: float, generator: np.random.Generator) -> Picture:
    return gaussian_blur(picture, _scaled(sigma, picture))


def _zoom(picture: Picture, largest: float, generator: np.random.Generator) -> Picture:
    return zoom_blur(picture, tuple(np.linspace(1.0, largest, _ZOOMS).tolist()))


def _glass(picture: Picture, spread: float, generator: np.random.Generator) -> Picture:
    return frosted_glass(picture, _scaled(spread, picture), generator)


def _gaussian(picture: Picture, deviation: float, generator: np.random.Generator) -> Picture:
    return gaussian_noise(picture, 0.0, deviation**2, generator)


def _salt_pepper(picture: Picture, share: float, generator: np.random.Generator) -> Picture:
    return salt_and_pepper(picture, share / 2.0, generator)


def _compression(picture: Picture, quality: float, generator: np.random.Generator) -> Picture:
    return jpeg(picture, int(quality))


def _begin_fog(share: float, seed: int) -> Frames:
    """Begin fog that drifts by a column per step; each camera's field is drawn once."""
    fields: dict[tuple[str, int], Floats] = {}

    def change(picture: Picture, camera: str, step: int) -> Picture:
        side = plasma_side(picture)
        if (camera, side) not in fields:
            drawn = plasma(side, _FOG_DECAY, frame_generator(seed, camera, 0))
            fields[camera, side] = np.float32(_THINNEST_FOG) + np.float32(1.0 - _THINNEST_FOG) * drawn
        return fog(picture, share / (1.0 - share), np.roll(fields[camera, side], step, axis=1))

    return change


def _begin_dropped(probability: float, seed: int) -> Frames:
    """Begin dropping frames: the camera and the step decide, and the last frame received replaces a dropped one."""
    given: dict[str, tuple[int, Picture]] = {}

    def change(picture: Picture, camera: str, step: int) -> Picture:
        before = given.get(camera)
        dropped = frame_generator(seed, camera, step).random() < probability
        if before is not None and (dropped or before[0] == step):
            picture = before[1]
        given[camera] = (step, picture.copy())
        return picture.copy()

    return change


EFFECTS: Mapping[str, Begin] = {
    "motion": _each(_motion),
    "gaussian_blur": _each(_gaussian_blur),
    "zoom": _each(_zoom),
    "fog": _begin_fog,
    "glass": _each(_glass),
    "gaussian": _each(_gaussian),
    "salt_pepper": _each(_salt_pepper),
    "compression": _each(_compression),
    "dropped": _begin_dropped,
}
"""By name. Magnitudes: the path's length in pixels; sigma in pixels; the largest factor; fog's share of the light; the
spread in pixels; the standard deviation, of values in [0, 1]; a share of the values; libjpeg's quality; a probability.
"""


def _scaled(length: float, picture: Picture) -> float:
    rows: int = picture.shape[0]
    return length * rows / ROWS
