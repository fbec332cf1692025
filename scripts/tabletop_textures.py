"""Procedural textures of tabletop's things, (H, W, 3) uint8 each: wood, tiles, plaster, brushed metal, glaze, print."""

import itertools
import struct
import zlib
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

Picture = npt.NDArray[np.uint8]
Array = npt.NDArray[np.float64]
Color = Sequence[float]


def png(picture: Picture) -> bytes:
    """The picture as a PNG file."""
    height, width, _ = picture.shape
    rows = b"".join(b"\0" + row.tobytes() for row in picture)

    def chunk(kind: bytes, content: bytes) -> bytes:
        body = kind + content
        return struct.pack(">I", len(content)) + body + struct.pack(">I", zlib.crc32(body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def noise(shape: tuple[int, int], cells: tuple[int, int], seed: int) -> Array:
    """Smooth noise (H, W) in [0, 1] that tiles: random values on a grid of `cells`, blended."""
    values = np.random.RandomState(seed).rand(*cells)
    rows = np.arange(shape[0]) * cells[0] / shape[0]
    columns = np.arange(shape[1]) * cells[1] / shape[1]
    top, left = rows.astype(int), columns.astype(int)
    down, right = (top + 1) % cells[0], (left + 1) % cells[1]
    y, x = _smooth(rows - top)[:, None], _smooth(columns - left)[None, :]
    upper = values[np.ix_(top, left)] * (1 - x) + values[np.ix_(top, right)] * x
    lower = values[np.ix_(down, left)] * (1 - x) + values[np.ix_(down, right)] * x
    return np.asarray(upper * (1 - y) + lower * y)


def _smooth(value: Array) -> Array:
    return value * value * (3 - 2 * value)


def _mixed(low: Color, high: Color, amount: Array) -> Picture:
    amount = np.clip(amount, 0, 1)[..., None]
    color = np.array(low, dtype=float) * (1 - amount) + np.array(high, dtype=float) * amount
    return np.asarray(np.clip(np.rint(color), 0, 255), dtype=np.uint8)


def wood(low: Color, high: Color, seed: int, size: int = 256, rings: float = 7.0) -> Picture:
    """Grain along u: wavy bands with fine fibres."""
    shape = (size, size)
    wave = 0.7 * noise(shape, (6, 2), seed) + 0.3 * noise(shape, (14, 4), seed + 1)
    height = np.arange(size)[:, None] / size
    bands = 0.5 + 0.5 * np.sin(2 * np.pi * (np.rint(rings) * height + 1.6 * wave))
    fibres = noise(shape, (size // 2, 6), seed + 2)
    streaks = noise(shape, (40, 3), seed + 3)
    return _mixed(low, high, 0.15 + 0.35 * bands + 0.25 * fibres + 0.25 * streaks)


def planks(low: Color, high: Color, seam: Color, seed: int, size: int = 512, count: int = 5) -> Picture:
    """Boards along u, each of its own tone, with thin seams."""
    picture = np.zeros((size, size, 3), dtype=np.uint8)
    tones = np.random.RandomState(seed).rand(count)
    edges = np.linspace(0, size, count + 1).astype(int)
    for number, (start, end) in enumerate(itertools.pairwise(edges)):
        board = wood(low, high, seed + 10 * number, size, rings=5)[start:end].astype(float)
        board *= 0.94 + 0.1 * tones[number]
        board[:2] = 0.6 * board[:2] + 0.4 * np.array(seam)
        picture[start:end] = np.clip(np.rint(board), 0, 255)
    return picture


def tiles(low: Color, high: Color, joint: Color, seed: int, size: int = 256, count: int = 2) -> Picture:
    """Square tiles with joints."""
    shape = (size, size)
    mottled = 0.6 * noise(shape, (8, 8), seed) + 0.4 * noise(shape, (32, 32), seed + 1)
    picture = _mixed(low, high, mottled).astype(float)
    side = size // count
    tones = np.random.RandomState(seed).rand(count, count)
    picture *= 0.96 + 0.06 * np.kron(tones, np.ones((side, side)))[..., None]
    line = np.arange(size) % side < 3
    picture[line[:, None] | line[None, :]] = np.array(joint)
    return np.asarray(np.clip(np.rint(picture), 0, 255), dtype=np.uint8)


def plaster(low: Color, high: Color, seed: int, size: int = 256) -> Picture:
    """A rough, even surface."""
    shape = (size, size)
    value = 0.4 * noise(shape, (4, 4), seed) + 0.35 * noise(shape, (24, 24), seed + 1)
    return _mixed(low, high, value + 0.25 * noise(shape, (128, 128), seed + 2))


def brushed(low: Color, high: Color, seed: int, size: int = 256) -> Picture:
    """Metal brushed along u."""
    shape = (size, size)
    return _mixed(low, high, 0.7 * noise(shape, (size, 3), seed) + 0.3 * noise(shape, (5, 4), seed + 1))


def bands(stops: Sequence[tuple[float, Color]], seed: int, speckle: float, size: int = 256) -> Picture:
    """Colours along v (0 at the bottom row's texture coordinate), blended between stops, with speckles of glaze."""
    places = [place for place, _ in stops]
    along = np.linspace(0, 1, size)[::-1]
    color = np.stack([np.interp(along, places, [stop[channel] for _, stop in stops]) for channel in range(3)], axis=1)
    grain = noise((size, size), (64, 64), seed) + 0.5 * noise((size, size), (128, 128), seed + 1) - 0.75
    picture = color[:, None, :] + speckle * grain[..., None]
    return np.asarray(np.clip(np.rint(picture), 0, 255), dtype=np.uint8)


def painted(size: tuple[int, int], paint: Callable[[Array, Array], Array]) -> Picture:
    """A picture of (H, W) whose colours `paint` gives for u and v in [0, 1], v upwards; (H, W, 3) in [0, 255]."""
    height, width = size
    v, u = np.meshgrid((np.arange(height)[::-1] + 0.5) / height, (np.arange(width) + 0.5) / width, indexing="ij")
    return np.asarray(np.clip(np.rint(paint(u, v)), 0, 255), dtype=np.uint8)
