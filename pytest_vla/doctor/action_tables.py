"""Tables of normalisation beside checkpoints and data sets: which of them un-normalises a policy's actions."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.util.documents import read_json

FILES = ("dataset_statistics.json", "norm_stats.json", "stats.json", "*unnormalizer_processor.safetensors")
"""OpenVLA's, openpi's, and LeRobot's of a data set and of a checkpoint; in a folder, to a depth of four."""

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
    std, min and max, or q01 and q99. LeRobot's checkpoints have it as tensors named "action.mean" and so on.

    Raises:
        VlaError: there is no such file, one cannot be read, or none has a table of actions.
    """
    if not (tables := action_tables_in([place])):
        raise VlaError(
            f"{place}: expected statistics of actions, such as action: mean and std, or q01 and q99, found none: give "
            f"OpenVLA's dataset_statistics.json, openpi's norm_stats.json, or LeRobot's meta/stats.json"
        )
    return tables


def action_tables_in(places: Sequence[Path]) -> tuple[ActionTable, ...]:
    """Return the tables of actions in files and below folders, equal ones once; none where there are none.

    Raises:
        VlaError: a file cannot be read.
    """
    tables: dict[tuple[bytes, bytes], ActionTable] = {}
    for place in places:
        files = [place]
        if place.is_dir():
            found = [file for depth in range(_DEEPEST) for name in FILES for file in place.glob("*/" * depth + name)]
            files = sorted(found)[:_MOST_FILES]
        for file in files:
            about = f"{file.relative_to(place)}: " if len(files) > 1 else f"{place.name}: " * (len(places) > 1)
            for table in _tables_in(_content(file), ()):
                key = table.centre.tobytes(), table.scale.tobytes()
                tables.setdefault(key, replace(table, name=f"{about}{table.name}"))
    return tuple(tables.values())


def _content(file: Path) -> Any:
    try:
        return _tensors(file) if file.suffix == ".safetensors" else read_json(file)
    except FileNotFoundError as error:
        raise VlaError(f"{file}: there is no such file; expected statistics of actions") from error
    except (OSError, ValueError) as error:
        raise VlaError(f"{file}: expected statistics of actions: {error}") from error
    except ImportError as error:
        raise VlaError(f"{file}: reading it needs safetensors: pip install safetensors") from error


def _tensors(file: Path) -> dict[str, dict[str, list[float]]]:
    """Return the vectors of a safetensors file whose names are "A.B", by A and B. Raises ImportError and ValueError."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not file.is_file():
        raise FileNotFoundError
    found: dict[str, dict[str, list[float]]] = {}
    try:
        for name, value in load_file(file).items():
            feature, _, key = name.rpartition(".")
            if value.ndim == 1:
                found.setdefault(feature, {})[key] = value.astype(float).tolist()
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    return found


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
