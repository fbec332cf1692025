"""Procedural textures that repeat without a seam: wood, tiles, stone, cloth, stripes and noise in two colours."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import cv2
import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]


TexturePixels = npt.NDArray[np.uint8]


_Field = npt.NDArray[np.float32]


SIDE = 256


def texture(
    family: str, colours: Sequence[Sequence[int]], repeats: int, seed: int, height: int = SIDE, width: int = SIDE
) -> TexturePixels:
    """Return a procedural texture; equal arguments give equal pixels.

    Args:
        family: one of `FAMILIES`.
        colours: two of red, green and blue, 0 to 255: for the ground and for the pattern.
        repeats: number of repeats of the pattern along each side.
        seed: for all irregularities.
        height, width: pixels; the pattern is made with 256 and stretched.

    Returns:
        (height, width, 3) uint8, RGB.

    Raises:
        KeyError: there is no such family.
    """
    ground, other = (tuple(colour) for colour in colours)
    pattern = _pattern(family, ground, other, seed)
    return stretched(np.tile(pattern, (repeats, repeats, 1)), height, width)


@lru_cache(maxsize=12)
def _pattern(family: str, ground: tuple[int, ...], other: tuple[int, ...], seed: int) -> TexturePixels:
    """One pattern; kept, as every reset of an episode's world asks for it anew."""
    weight = np.clip(_PATTERNS[family](np.random.Generator(np.random.PCG64(seed))), 0, 1)[..., None]
    below, above = np.array((ground, other), dtype=np.float32)
    mixed: TexturePixels = np.rint(below + weight * (above - below)).astype(np.uint8)
    return mixed


def stretched(pixels: TexturePixels, height: int, width: int) -> TexturePixels:
    """Resize pixels (H, W, C)."""
    if pixels.shape[:2] == (height, width):
        return pixels
    shrinks = pixels.shape[0] > height or pixels.shape[1] > width
    method = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(pixels, (width, height), interpolation=method), dtype=np.uint8)


def _grid() -> tuple[_Field, _Field]:
    """Rows and columns of the pattern in [0, 1)."""
    line = (np.arange(SIDE) / SIDE).astype(np.float32)
    return np.repeat(line[:, None], SIDE, axis=1), np.repeat(line[None, :], SIDE, axis=0)


def _smooth(numbers: np.random.Generator, rows: int, columns: int) -> _Field:
    """Smooth noise in [0, 1] with so many cells, powers of two, along the sides; it repeats without a seam."""
    border = 3
    cells = np.pad(numbers.random((rows, columns), dtype=np.float32), border, mode="wrap")
    high, wide = SIDE // rows, SIDE // columns
    large = cv2.resize(cells, None, fx=wide, fy=high, interpolation=cv2.INTER_CUBIC)
    return np.clip(large[border * high : border * high + SIDE, border * wide : border * wide + SIDE], 0, 1)


def _cloudy(numbers: np.random.Generator, coarsest: int, octaves: int) -> _Field:
    """Smooth noise of several scales, in [0, 1]."""
    total, sum_of_weights = np.zeros((SIDE, SIDE), np.float32), 0.0
    for octave in range(octaves):
        cells = coarsest * 2**octave
        total += _smooth(numbers, cells, cells) / 2**octave
        sum_of_weights += 1 / 2**octave
    return total / np.float32(sum_of_weights)


def _wood(numbers: np.random.Generator) -> _Field:
    """Planks, each with its own tone and grain."""
    planks = 4
    row, _ = _grid()
    plank = np.minimum((row * planks).astype(int), planks - 1)
    tones = numbers.uniform(0, 0.35, planks).astype(np.float32)[plank]
    waves = np.sin(2 * np.pi * (9 * row + 1.5 * _smooth(numbers, 8, 2))) * 0.15
    fibres = _smooth(numbers, SIDE, 8) * 0.3
    seams = np.abs(row * planks % 1 - 0.5) > 0.48
    return np.where(seams, np.float32(1), tones + waves + fibres + np.float32(0.1))


def _tiles(numbers: np.random.Generator) -> _Field:
    """Square tiles of slightly different tones, and the joints between them."""
    tiles = 4
    row, column = (line * tiles for line in _grid())
    tones = numbers.uniform(0, 0.3, (tiles, tiles)).astype(np.float32)[row.astype(int), column.astype(int)]
    joint = np.maximum(np.abs(row % 1 - 0.5), np.abs(column % 1 - 0.5)) > 0.46
    return np.where(joint, np.float32(1), tones + 0.15 * _cloudy(numbers, 16, 3))


def _stone(numbers: np.random.Generator) -> _Field:
    """Cloudy stone with veins."""
    clouds = _cloudy(numbers, 4, 5)
    veins = 1 - np.abs(2 * _cloudy(numbers, 4, 4) - 1) * 8
    field: _Field = 0.7 * clouds + 0.6 * np.clip(veins, 0, 1) - 0.1
    return field


def _cloth(numbers: np.random.Generator) -> _Field:
    """Draw a weave of threads that lie alternately on top."""
    threads = 32
    row, column = (line * threads for line in _grid())
    is_over = (row.astype(int) + column.astype(int)) % 2 == 0
    along_row, along_column = np.sin(np.pi * (row % 1)), np.sin(np.pi * (column % 1))
    weave = np.where(is_over, 0.1 + 0.3 * (1 - along_row), 0.9 - 0.3 * (1 - along_column))
    field: _Field = (weave + 0.4 * (_cloudy(numbers, 8, 3) - 0.5)).astype(np.float32)
    return field


def _stripes(numbers: np.random.Generator) -> _Field:
    """Straight stripes of drawn widths and direction."""
    row, column = _grid()
    across = (row, column, (row + column) % 1)[int(numbers.integers(3))]
    edges = np.cumsum(numbers.uniform(0.5, 1.5, 8))
    number = np.searchsorted(edges / edges[-1], across, side="right")
    field: _Field = ((number % 2) * 0.9 + 0.1 * _cloudy(numbers, 16, 2)).astype(np.float32)
    return field


def _noise(numbers: np.random.Generator) -> _Field:
    """Blotches of all sizes."""
    return (_cloudy(numbers, 4, 6) - 0.5) * 2.5 + 0.5


_PATTERNS: Mapping[str, Callable[[np.random.Generator], _Field]] = {
    "wood": _wood,
    "tiles": _tiles,
    "stone": _stone,
    "cloth": _cloth,
    "stripes": _stripes,
    "noise": _noise,
}


FAMILIES = tuple(_PATTERNS)
