"""Tables of normalisation beside checkpoints and data sets: which of them un-normalises a policy's actions."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.util.documents import read_json

FILES = ("dataset_statistics.json", "norm_stats.json", "stats.json")
"""OpenVLA's, openpi's and LeRobot's; below a folder, they are looked for to a depth of four."""

_ACTIONS = ("action", "actions")
_MOST_FILES, _DEEPEST = 100, 4


@dataclass(frozen=True)
class ActionTable:
    """A table of normalisation: an action is ``centre + scale * normalised``.

    Attributes:
        name: where it is from, and which statistics it takes: "libero_goal (q01 and q99)".
        centre, scale: (6,) of translation and rotation.
    """

    name: str
    centre: NDArray[np.float64]
    scale: NDArray[np.float64]


def read_action_tables(place: Path) -> tuple[ActionTable, ...]:
    """Return the tables of actions in a file, or in the `FILES` below a folder.

    A table is what JSON has under "action" or "actions", at any depth: lists of six numbers at least named mean and
    std, min and max, or q01 and q99.

    Raises:
        VlaError: there is no such file, one cannot be read, or none has a table of actions.
    """
    if place.is_dir():
        found = [file for depth in range(_DEEPEST) for name in FILES for file in place.glob("*/" * depth + name)]
        files = sorted(found)[:_MOST_FILES]
    else:
        files = [place]
    tables: dict[tuple[bytes, bytes], ActionTable] = {}
    for file in files:
        try:
            content = read_json(file)
        except FileNotFoundError as error:
            raise VlaError(f"{file}: there is no such file; expected JSON with statistics of actions") from error
        except (OSError, ValueError) as error:
            raise VlaError(f"{file}: expected JSON with statistics of actions: {error}") from error
        about = f"{file.relative_to(place)}: " if len(files) > 1 else ""
        for table in _tables_in(content, ()):
            key = table.centre.tobytes(), table.scale.tobytes()
            tables.setdefault(key, ActionTable(f"{about}{table.name}", table.centre, table.scale))
    if not tables:
        raise VlaError(
            f"{place}: expected statistics of actions, such as action: mean and std, or q01 and q99, found none: give "
            f"OpenVLA's dataset_statistics.json, openpi's norm_stats.json, or LeRobot's meta/stats.json"
        )
    return tuple(tables.values())


def _tables_in(content: Any, path: tuple[str, ...]) -> Iterator[ActionTable]:
    if not isinstance(content, Mapping):
        return
    for name, value in content.items():
        if name in _ACTIONS and isinstance(value, Mapping):
            yield from _tables_of(value, " ".join(path) or name)
        else:
            yield from _tables_in(value, (*path, str(name)))


def _tables_of(statistics: Mapping[str, Any], name: str) -> Iterator[ActionTable]:
    values = {key: row for key in ("mean", "std", "min", "max", "q01", "q99") if (row := _row(statistics.get(key)))}
    if "mean" in values and "std" in values:
        yield ActionTable(f"{name} (mean and std)", np.array(values["mean"]), np.array(values["std"]))
    for low, high in (("min", "max"), ("q01", "q99")):
        if low in values and high in values:
            least, most = np.array(values[low]), np.array(values[high])
            yield ActionTable(f"{name} ({low} and {high})", (least + most) / 2, (most - least) / 2)


def _row(value: Any) -> list[float] | None:
    """Return six finite numbers of a list, or None."""
    if not isinstance(value, list) or len(value) < 6:
        return None
    row = value[:6]
    is_plain = all(isinstance(each, int | float) and not isinstance(each, bool) for each in row)
    return [float(each) for each in row] if is_plain and np.isfinite(row).all() else None
