"""The end effector's paths of a report's episodes, read from their trajectories."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.metrics.language_paths import Paths
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import load_trajectory, trajectory_file
from pytest_vla.reports.loaded import Loaded


def path_loader(loaded: Loaded) -> tuple[Paths, dict[Path, str]]:
    """What gives a record's path, and the files that could not be read, with why."""
    troubles: dict[Path, str] = {}

    @cache
    def read(folder: Path, arrays: str) -> NDArray[np.float64] | None:
        file = folder / arrays
        try:
            path = load_trajectory(trajectory_file(folder, arrays)).eef_pos
        except VlaError as error:
            troubles[file] = str(error)
            return None
        if len(path) and path.ndim == 2 and path.shape[1] == 3 and np.isfinite(path).all():
            return path
        troubles[file] = f"{file}: its path is empty or not finite"
        return None

    def paths(record: Record) -> NDArray[np.float64] | None:
        return None if record.arrays is None else read(loaded.folders[record.run], record.arrays)

    return paths, troubles


def unread_lines(troubles: dict[Path, str]) -> Iterator[str]:
    """What to say of trajectories that could not be read."""
    if len(troubles) == 1:
        yield f"1 trajectory that cannot be read: {next(iter(troubles.values()))}"
    elif troubles:
        yield f"{len(troubles)} trajectories that cannot be read, such as {next(iter(troubles.values()))}"
