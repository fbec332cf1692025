"""Figures, files and file names that all pictures of reports share. matplotlib is imported only to draw."""

import io
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.util.files import whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

_DPI = 120


def check_matplotlib() -> None:
    """Raise VlaError if matplotlib is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise VlaError("png needs matplotlib: pip install 'pytest-vla[report]'") from error


def write_pictures(drawn: Mapping[str, bytes], folder: Path) -> list[Path]:
    """Write pictures, as ``NAME.png``.

    Args:
        drawn: PNG by name.
        folder: made if it does not exist. Pictures with the same names are replaced.

    Returns:
        The files.

    Raises:
        VlaError: there is no picture, or the folder cannot be written.
    """
    if not drawn:
        raise VlaError("nothing to draw: no model has successes and failures under a variation")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VlaError(f"{folder} is no folder for pictures: {error.strerror}") from error
    files = []
    for name, content in drawn.items():
        file = folder / f"{name}.png"
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
