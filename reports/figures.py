"""Figures, files and file names that all pictures of reports share. matplotlib is imported only to draw."""

import io
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from pytest_vla.errors import VlaError
from pytest_vla.metrics.clustered import Interval
from pytest_vla.util.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_DPI = 120

FigureKind = Literal["bars", "grid", "lines", "points"]
"""Bars of each row; a grid in colours; a line for each row; or dots whose first number is x, and whose second is y."""

FIGURE_KINDS: tuple[FigureKind, ...] = get_args(FigureKind)

PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
"""Colours of bars and lines that all kinds of colour vision tell apart (Okabe and Ito)."""


@dataclass(frozen=True)
class FigureRow:
    """A row of a figure: a group of bars, a row of a grid, a line or a dot.

    Attributes:
        panel: the part of the figure that it is drawn in.
        name: what it is.
        values: one for each of the figure's columns, or None where there is no number.
        intervals: of the values.
    """

    panel: str
    name: str
    values: tuple[float | None, ...]
    intervals: tuple[Interval | None, ...]


@dataclass(frozen=True)
class PaperFigure:
    """A figure that SVG and PNG are drawn of.

    Attributes:
        kind: how rows are drawn.
        title: above it.
        columns: what the values of rows are.
        rows: in their order.
        form: of the values' texts, as `format` takes it.
    """

    kind: FigureKind
    title: str
    columns: tuple[str, ...]
    rows: tuple[FigureRow, ...]
    form: str = ".3g"

    @property
    def panels(self) -> dict[str, list[FigureRow]]:
        """The rows by panel, those with a number only."""
        found: dict[str, list[FigureRow]] = {}
        for row in self.rows:
            if any(value is not None for value in row.values):
                found.setdefault(row.panel, []).append(row)
        return found

    @property
    def span(self) -> tuple[float, float]:
        """The axis of the values (of points: of y): 0 to 1 or 0 to 100 if they lie in it, else from end to end."""
        places = slice(1, 2) if self.kind == "points" else slice(None)
        values = [value for row in self.rows for value in row.values[places] if value is not None]
        low, high = min([0.0, *values]), max([0.0, *values])
        return low, next((most for most in (1.0, 100.0) if low >= 0 and high <= most), high)


def check_matplotlib() -> None:
    """Raise VlaError if matplotlib is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise VlaError("png needs matplotlib: pip install 'pytest-vla[report]'") from error


def write_pictures(drawn: Mapping[str, bytes], folder: Path, ending: str = "png") -> list[Path]:
    """Write pictures, as ``NAME.png``.

    Args:
        drawn: PNG or SVG by name.
        folder: made if it does not exist. Pictures with the same names are replaced.
        ending: of the files.

    Returns:
        The files.

    Raises:
        VlaError: there is no picture, or the folder cannot be written.
    """
    if not drawn:
        raise VlaError(f"nothing to draw: no section of this report has a picture of these records as {ending}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VlaError(f"{folder} is no folder for pictures: {error.strerror}") from error
    files = []
    for name, content in drawn.items():
        file = folder / f"{name}.{ending}"
        with whole_file(file) as stream:
            stream.write(content)
        files.append(file)
    return files


def file_names(models: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return a file name for each model and suite, no two the same."""
    seen: dict[str, int] = {}
    found = []
    for model, suite in models:
        name = re.sub(r"[^A-Za-z0-9_.+-]+", "_", f"{model}-{suite}").lstrip(".")
        # Two models may differ in other signs only.
        seen[name] = seen.get(name, 0) + 1
        found.append(name + f"-{seen[name]}" * (seen[name] > 1))
    return tuple(found)


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure, in inches."""
    # Not pyplot's, which belongs to a process and may open windows.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def draw_grid(
    axes: "Axes",
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], tuple[float, str]],
    **style: Any,
) -> "AxesImage":
    """Draw a grid of numbers in colours.

    Args:
        axes: where.
        rows: their names.
        columns: their names.
        cells: by names of row and column the number (NaN for no colour) and the text on it.
        style: of ``imshow``.
    """
    values = [[cells.get((row, column), (math.nan, ""))[0] for column in columns] for row in rows]
    image = axes.imshow(values, **style)
    for (row, column), (value, text) in cells.items():
        red, green, blue, seen = image.cmap(image.norm(value))
        dark = seen and 0.299 * red + 0.587 * green + 0.114 * blue < 0.5
        place, colour = (columns.index(column), rows.index(row)), "white" if dark else "black"
        axes.text(*place, text, ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks(range(len(columns)), columns, rotation=20, ha="right", fontsize=8)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    return image


def png_of(figure: "Figure") -> bytes:
    """Return the figure as PNG."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=_DPI)
    return stream.getvalue()


def figure_png(figure: PaperFigure) -> bytes:
    """Return a figure as PNG, its panels below each other."""
    panels, low_high = figure.panels, figure.span
    heights = [_HEIGHTS[figure.kind] + 0.22 * len(rows) * (figure.kind != "points") for rows in panels.values()]
    drawn = new_figure(9, 0.4 + sum(heights))
    every = drawn.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": heights})
    for axes, (name, rows) in zip(every[:, 0], panels.items(), strict=True):
        _draw_panel(axes, figure, rows, low_high)
        axes.set_title(name, fontsize=9)
    drawn.suptitle(textwrap.fill(figure.title, 110), fontsize=10)
    return png_of(drawn)


_HEIGHTS: Mapping[FigureKind, float] = {"bars": 0.8, "grid": 1.6, "lines": 2.6, "points": 3.2}
"""Inches of a panel, without its rows."""


def _draw_panel(axes: "Axes", figure: PaperFigure, rows: Sequence[FigureRow], span: tuple[float, float]) -> None:
    names, columns = [row.name for row in rows], figure.columns
    if figure.kind == "grid":
        known = {
            (row.name, column): (value, format(value, figure.form))
            for row in rows
            for column, value in zip(columns, row.values, strict=True)
            if value is not None
        }
        draw_grid(axes, names, columns, known, cmap="viridis", vmin=span[0], vmax=span[1], aspect="auto")
    elif figure.kind == "points":
        axes.scatter([row.values[0] for row in rows], [row.values[1] for row in rows], color=PALETTE[0])
        axes.set(xlabel=columns[0], ylabel=columns[1], ylim=span)
    elif figure.kind == "lines":
        for place, row in enumerate(rows):
            axes.plot(columns, _or_nan(row.values), marker="o", color=PALETTE[place % len(PALETTE)], label=row.name)
        axes.set(ylim=span)
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))
    else:
        size = 0.8 / len(columns)
        for place, column in enumerate(columns):
            values = _or_nan([row.values[place] for row in rows])
            ends = [row.intervals[place] or (value, value) for row, value in zip(rows, values, strict=True)]
            reach = [[v - low for v, (low, _) in zip(values, ends, strict=True)]]
            reach.append([high - v for v, (_, high) in zip(values, ends, strict=True)])
            where = [number + size * place for number in range(len(rows))]
            colour = PALETTE[place % len(PALETTE)]
            axes.barh(where, values, size, color=colour, label=column, xerr=reach, error_kw={"linewidth": 1})
        axes.set_yticks([number + 0.4 - size / 2 for number in range(len(rows))], names, fontsize=8)
        axes.invert_yaxis()
        axes.set(xlim=span)
        axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1, 0.5))


def _or_nan(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]
