"""Picture sheets: labelled pictures in a grid, as one PNG file. Pure functions of arrays and texts."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.records.record import VIDEO_SUFFIX
from pytest_vla.util.extras import what_to_install
from pytest_vla.util.files import whole_file

if TYPE_CHECKING:
    from PIL.ImageFont import FreeTypeFont, ImageFont

    Font = FreeTypeFont | ImageFont

Picture = NDArray[np.uint8]
"""(H, W, 3), red first, upright."""

Tone = Literal["plain", "good", "bad"]

SHEET_SUFFIX = ".png"
MAX_SHEET_SIDE = 30_000
"""The largest side in pixels that picture viewers accept."""
MAX_SHEET_PIXELS = 170_000_000
"""Pillow opens no picture of 179 million pixels or more."""

_INK, _QUIET, _PAPER, _LINE = "#1c2126", "#59626b", "#ffffff", "#d5dade"
_TONES: dict[Tone, str] = {"plain": _INK, "good": "#1a7f37", "bad": "#c0282d"}
_NARROWEST_TEXT = 360
# Pixels of height for texts that are known only after drawing, such as the goal.
_RESERVE = 400
_LONGEST_NAME = 120


@dataclass(frozen=True)
class SheetCell:
    """A picture, with a name and a label below it; the tone sets the label's colour."""

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
    """A line of text, and the position of its upper left corner."""

    text: str
    x: int
    y: int
    size: int
    colour: str


@dataclass(frozen=True)
class _Layout:
    """The layout of a sheet: its lines of text, its pictures (left, top), and its width and height."""

    lines: tuple[_Line, ...]
    pictures: tuple[tuple[SheetCell, int, int], ...]
    size: tuple[int, int]


def sheet(
    rows: Sequence[Sequence[SheetCell | None]],
    *,
    title: str = "",
    subtitle: str = "",
    heads: Sequence[str] = (),
) -> Picture:
    """Lay pictures out in a grid, with a head over each column and texts below each picture.

    Long texts are wrapped; a column is as wide as its widest picture.

    Args:
        rows: the pictures; None leaves a place empty.
        title: the first line above the grid.
        subtitle: the text below the title.
        heads: the heads of the columns, from the first on; empty for no line of heads.

    Raises:
        VlaError: there is no picture, one is not (H, W, 3) uint8, or the sheet would be too large.
    """
    layout = _layout(rows, title, subtitle, heads)
    _check_size(*layout.size)
    return _drawn(layout)


def check_layout(
    rows: Sequence[Sequence[SheetCell | None]], *, title: str = "", subtitle: str = "", heads: Sequence[str] = ()
) -> None:
    """Check the layout with `blank` pictures, before the real ones are drawn. Raises VlaError like `sheet`."""
    width, height = _layout(rows, title, subtitle, heads).size
    _check_size(width, height + _RESERVE)


def blank(size: tuple[int, int], grey: int = 0) -> Picture:
    """Return a picture (H, W, 3) of one grey that takes no memory; it is read-only."""
    return np.broadcast_to(np.uint8(grey), (*size, 3))


def _layout(rows: Sequence[Sequence[SheetCell | None]], title: str, subtitle: str, heads: Sequence[str]) -> _Layout:
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
    placed: list[tuple[SheetCell, int, int]] = []

    def write(text: str, x: int, y: int, width: int, colour: str, size: int = style.label) -> int:
        """Add a text, and return the y coordinate of its end."""
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
    return _Layout(tuple(lines), tuple(placed), (style.margin * 2 + text_width, y - style.gap + style.margin))


def _check_size(width: int, height: int) -> None:
    if max(width, height) > MAX_SHEET_SIDE or width * height > MAX_SHEET_PIXELS:
        raise VlaError(
            f"the sheet of {width}x{height} pixels is too large. Use fewer tasks, seeds or cameras, or smaller pictures"
        )


def in_rows(cells: Sequence[SheetCell | None], columns: int) -> list[list[SheetCell | None]]:
    """Return the cells in rows of so many columns; the last row may be shorter."""
    return [list(cells[start : start + columns]) for start in range(0, len(cells), columns)]


def default_name(names: Sequence[str]) -> Path:
    """Return the default file of a sheet: the names of its content, as many as fit a file's name."""
    for count in range(len(names), 0, -1):
        stem = "_".join(names[:count]) + (f"_and_{len(names) - count}_more" if count < len(names) else "")
        if len(stem) <= _LONGEST_NAME:
            break
    return Path(f"{stem}{SHEET_SUFFIX}")


def check_target(file: Path) -> None:
    """Check, before anything is drawn, that a picture can be written to a file. The file is left unchanged.

    Raises:
        VlaError: the name does not end in .png, its folder is missing or not writable, or Pillow is missing.
    """
    if file.suffix.lower() != SHEET_SUFFIX:
        raise VlaError(
            f"{file}: expected a name ending in {SHEET_SUFFIX} for a picture, or in {VIDEO_SUFFIX} for a run's video"
        )
    try:
        if file.is_dir():
            raise VlaError(f"cannot write {file}: it is a folder")
        folder = file.resolve().parent
        if not folder.is_dir():
            raise VlaError(f"cannot write {file}: there is no folder {folder}")
        # As in `whole_file`: anything but a plain file is written directly.
        if file.is_file() or not file.exists():
            with tempfile.TemporaryFile(dir=folder):
                pass
    except OSError as error:
        raise VlaError(f"cannot write {file}: {error.strerror or error}") from error
    try:
        from PIL import Image  # noqa: F401
    except ImportError as error:
        raise VlaError(
            f"a picture needs Pillow, which cannot be imported: {error}. {what_to_install(error)}"
        ) from error


def write_png(picture: Picture, file: Path) -> None:
    """Write a picture, whole or not at all. Raises VlaError if `check_target` does, or if writing fails."""
    check_target(file)
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


def _drawn(layout: _Layout) -> Picture:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", layout.size, _PAPER)
    draw = ImageDraw.Draw(image)
    for cell, x, y in layout.pictures:
        height, width = cell.picture.shape[:2]
        image.paste(Image.fromarray(cell.picture), (x, y))
        draw.rectangle((x - 1, y - 1, x + width, y + height), outline=_LINE)
    for line in layout.lines:
        draw.text((line.x, line.y), line.text, font=_font(line.size), fill=line.colour)
    return np.asarray(image)


def _wrap(text: str, font: "Font", width: int) -> list[str]:
    """Return the text in lines no wider than `width`; its own line breaks are kept, and a long word is broken."""
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
    """Yield a word in pieces that fit, broken after an underscore, a slash or a hyphen if possible."""
    while font.getlength(word) > width and len(word) > 1:
        fits = max((n for n in range(1, len(word)) if font.getlength(word[:n]) <= width), default=1)
        behind = max(word.rfind(sign, 0, fits) for sign in "_/-") + 1
        cut = behind if behind > fits // 3 else fits
        yield word[:cut]
        word = word[cut:]
    yield word
