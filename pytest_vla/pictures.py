"""Picture sheets: labelled pictures in a grid, as one PNG file. Pure functions of arrays and texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.reports.export import whole_file

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont, ImageFont

    Font = FreeTypeFont | ImageFont

Picture = NDArray[np.uint8]
"""(H, W, 3), red first, upright."""

Tone = Literal["plain", "good", "bad"]

SHEET_SUFFIX = ".png"
MAX_SHEET_SIDE = 30_000
"""Pixels: what programs that show pictures take."""

_INK, _QUIET, _PAPER, _LINE = "#1c2126", "#59626b", "#ffffff", "#d5dade"
_TONES: dict[Tone, str] = {"plain": _INK, "good": "#1a7f37", "bad": "#c0282d"}
_NARROWEST_TEXT = 360


@dataclass(frozen=True)
class Cell:
    """A picture, and what stands below it: a name, and a label in the colour of its tone."""

    picture: Picture
    label: str = ""
    tone: Tone = "plain"
    name: str = ""


@dataclass(frozen=True)
class _Style:
    """Sizes in pixels, by the width of the pictures."""

    label: int
    title: int
    gap: int
    margin: int


@dataclass(frozen=True)
class _Line:
    """A line of text, and where its upper left corner is."""

    text: str
    x: int
    y: int
    size: int
    colour: str


def sheet(
    rows: Sequence[Sequence[Cell | None]],
    *,
    title: str = "",
    subtitle: str = "",
    heads: Sequence[str] = (),
) -> Picture:
    """Lay pictures out in a grid, with a head over each column and texts below each picture.

    Texts are wrapped where they are too long; a column is as wide as its widest picture.

    Args:
        rows: the pictures; None leaves a place empty.
        title, subtitle: above all.
        heads: of the columns, from the first on; none: no line for them.

    Raises:
        VlaError: there is no picture, one is not (H, W, 3) uint8, or the sheet would be too large.
    """
    if not any(cell is not None for row in rows for cell in row):
        raise VlaError("a picture sheet needs a picture")
    for picture in (cell.picture for row in rows for cell in row if cell is not None):
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise VlaError(f"a picture is (H, W, 3) uint8, got {picture.shape} {picture.dtype}")
    widths = [max((cell.picture.shape[1] for cell in column if cell), default=0) for column in zip_longest(*rows)]
    style = _style(max(widths))
    lefts = [style.margin + sum(widths[:at]) + style.gap * at for at in range(len(widths))]
    text_width = max(lefts[-1] + widths[-1] - style.margin, _NARROWEST_TEXT)
    lines: list[_Line] = []
    placed: list[tuple[Cell, int, int]] = []

    def write(text: str, x: int, y: int, width: int, colour: str, size: int = style.label) -> int:
        """Adds a text and returns where it ends."""
        for line in _wrap(text, _font(size), width):
            lines.append(_Line(line, x, y, size, colour))
            y += round(size * 1.33)
        return y

    y = write(title, style.margin, style.margin, text_width, _INK, style.title)
    y = write(subtitle, style.margin, y, text_width, _QUIET)
    y += style.gap * bool(lines)
    ends = [write(head, left, y, width, _INK) for head, left, width in zip(heads, lefts, widths, strict=False)]
    y = max(ends, default=y) + (style.gap // 2 if any(heads) else 0)
    for row in rows:
        ends = [y]
        for cell, left, width in zip(row, lefts, widths, strict=False):
            if cell is not None:
                placed.append((cell, left, y))
                below = y + cell.picture.shape[0] + style.gap // 4
                below = write(cell.name, left, below, width, _INK)
                ends.append(write(cell.label, left, below, width, _TONES[cell.tone]))
        y = max(ends) + style.gap
    return _drawn(lines, placed, (style.margin * 2 + text_width, y - style.gap + style.margin))


def in_rows(cells: Sequence[Cell | None], columns: int) -> list[list[Cell | None]]:
    """Cells one after the other, so many in a row; the last row may have fewer."""
    return [list(cells[start : start + columns]) for start in range(0, len(cells), columns)]


def check_name(file: Path) -> None:
    """Refuse a name that is no picture's, before anything is drawn. Raises VlaError."""
    if file.suffix.lower() != SHEET_SUFFIX:
        raise VlaError(f"{file}: a picture's name ends in {SHEET_SUFFIX}")


def write_png(picture: Picture, file: Path) -> None:
    """Write a picture, whole or not at all. Raises VlaError where `check_name` does or the file is refused."""
    check_name(file)
    from PIL import Image

    with whole_file(file) as stream:
        Image.fromarray(picture).save(stream, format="PNG", optimize=True)


def _style(width: int) -> _Style:
    label = min(max(round(width / 17), 14), 40)
    gap = max(round(label * 0.8), 10)
    return _Style(label=label, title=round(label * 1.5), gap=gap, margin=gap * 2)


@cache
def _font(size: int) -> "Font":
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _drawn(lines: Sequence[_Line], placed: Sequence[tuple[Cell, int, int]], size: tuple[int, int]) -> Picture:
    from PIL import Image, ImageDraw

    if max(size) > MAX_SHEET_SIDE:
        raise VlaError(
            f"a picture sheet of {size[0]}x{size[1]} pixels is too large: take fewer tasks, seeds or cameras, or "
            "smaller pictures"
        )
    image = Image.new("RGB", size, _PAPER)
    draw = ImageDraw.Draw(image)
    for cell, x, y in placed:
        height, width = cell.picture.shape[:2]
        image.paste(Image.fromarray(cell.picture), (x, y))
        draw.rectangle((x - 1, y - 1, x + width, y + height), outline=_LINE)
    for line in lines:
        draw.text((line.x, line.y), line.text, font=_font(line.size), fill=line.colour)
    return np.asarray(image)


def _wrap(text: str, font: "Font", width: int) -> list[str]:
    """The text in lines that are no wider; its own line breaks stay, a word that is too long is broken."""
    lines: list[str] = []
    for paragraph in text.splitlines():
        line = ""
        for word in paragraph.split():
            joined = f"{line} {word}" if line else word
            if font.getlength(joined) <= width:
                line = joined
                continue
            lines += [line] * bool(line)
            *whole, line = _pieces(word, font, width)
            lines += whole
        lines.append(line)
    return lines


def _pieces(word: str, font: "Font", width: int) -> Iterator[str]:
    """A word in pieces that fit, broken behind an underscore or a slash where there is one."""
    while font.getlength(word) > width and len(word) > 1:
        fits = max((n for n in range(1, len(word)) if font.getlength(word[:n]) <= width), default=1)
        behind = max(word.rfind(sign, 0, fits) for sign in "_/-") + 1
        cut = behind if behind > fits // 3 else fits
        yield word[:cut]
        word = word[cut:]
    yield word
