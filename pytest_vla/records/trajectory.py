"""The trajectory of an episode: an npz file in its run's folder, by suite.

It holds ``qpos`` (n+1, nq), ``qvel`` (n+1, nv), ``eef_pos`` (n+1, 3) in m and ``actions`` (n, k): row 0 is the state
after settling, row i the state after control step i. It also holds the episode's ``outcome`` and any number of named
series: arrays (n, ...) whose row i-1 belongs to control step i. A series that was not measured is absent.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.records.checks import is_inside
from pytest_vla.records.record import VIDEO_SUFFIX, Literals
from pytest_vla.util.text import printable, quoted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ARRAYS = ("qpos", "qvel", "eef_pos", "actions")
"""The arrays of every trajectory."""

RESERVED = (*ARRAYS, "outcome")
"""Names that no series may have."""

MOST_SERIES = 200
MOST_SERIES_BYTES = 64 * 1024 * 1024
"""The most bytes of an episode's series. Its states have half a million."""

_NAME = re.compile(r"[a-z0-9_.]{1,100}")


@dataclass(frozen=True)
class Trajectory:
    """States and actions of an episode with n steps, float64; see the module's docstring for shapes.

    Attributes:
        series: further arrays (n, ...) by name, of numbers or booleans. Read-only; see `with_series`.

    Raises:
        VlaError: a series has a forbidden name or a wrong length, or there are too many.
    """

    qpos: "NDArray[np.float64]"
    qvel: "NDArray[np.float64]"
    eef_pos: "NDArray[np.float64]"
    actions: "NDArray[np.float64]"
    series: "Mapping[str, NDArray[Any]]" = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.series:
            _check_series(self.series, len(self.actions))
        object.__setattr__(self, "series", MappingProxyType(dict(self.series)))

    def with_series(self, more: "Mapping[str, NDArray[Any]]") -> "Trajectory":
        """Return the trajectory with further series. Raises VlaError if a name is taken, or an array is no series."""
        if taken := sorted(self.series.keys() & more.keys()):
            raise VlaError(f"the trajectory already has a series {', '.join(taken)}. Use another name")
        return dataclasses.replace(self, series={**self.series, **more})

    def freeze(self) -> None:
        """Make the arrays read-only."""
        for array in (*(getattr(self, name) for name in ARRAYS), *self.series.values()):
            array.flags.writeable = False


def series_fault(name: object, shape: tuple[int, ...], dtype: "np.dtype[Any]", steps: int) -> str:
    """Return why an array cannot be a series with this name and number of steps, or an empty text if it can."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"{quoted(name, 120)} is no name of a series: expected a-z, 0-9, _ and ., at most 100 of them"
    if name in RESERVED:
        return f"a series cannot be called {name}, as the trajectory's own array is: give it another name"
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        return f"series {name} is of {dtype}, expected numbers or truths"
    if not 1 <= len(shape) <= 8 or shape[0] != steps:
        return f"series {name} is {shape}, expected ({steps}, ...): a row a control step"
    return ""


def _check_series(series: "Mapping[str, NDArray[Any]]", steps: int) -> None:
    for name, array in series.items():
        if fault := series_fault(name, array.shape, array.dtype, steps):
            raise VlaError(fault)
    size = sum(array.nbytes for array in series.values())
    if len(series) > MOST_SERIES or size > MOST_SERIES_BYTES:
        limit = f"{MOST_SERIES} of {MOST_SERIES_BYTES} bytes together"
        raise VlaError(f"an episode has {len(series)} series of {size} bytes, expected at most {limit}")


def digest_of(outcome: str, steps: int, literals: Literals, trajectory: Trajectory) -> str:
    """Return a sha256 (hex) over an episode's behaviour. Bitwise: one rounding error changes it."""
    import numpy as np

    digest = hashlib.sha256(json.dumps([outcome, steps, sorted(literals.items())]).encode())
    for name in ("qpos", "qvel", "actions"):
        array = np.ascontiguousarray(getattr(trajectory, name), dtype="<f8")
        digest.update(f"{name}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def trajectory_file(folder: Path, arrays: str) -> Path:
    """Return the path of a record's trajectory.

    Args:
        folder: the run's folder.
        arrays: `Record.arrays`.

    Raises:
        VlaError: it would be outside of the results, by its name or by a link.
    """
    file = folder / arrays
    if not is_inside(arrays) or not file.resolve().is_relative_to(folder.resolve().parent):
        raise VlaError(f"{printable(str(file))} is outside of the results {folder.parent}, so it is not read")
    return file


def video_file(folder: Path, arrays: str) -> Path:
    """Return the path of the video beside a trajectory, which may not exist; all else as `trajectory_file`."""
    file = trajectory_file(folder, arrays).with_suffix(VIDEO_SUFFIX)
    if not file.resolve().is_relative_to(folder.resolve().parent):
        raise VlaError(f"{printable(str(file))} is outside of the results {folder.parent}, so it is not read")
    return file


def save_trajectory(file: Path, trajectory: Trajectory, outcome: str | None = None) -> None:
    """Write the npz file, whole or not at all.

    Args:
        file: the file; its folder is created if missing.
        trajectory: the trajectory.
        outcome: the episode's outcome, for `trajectory_outcome`, or None to leave it out.

    Raises:
        OSError: it cannot be written.
    """
    import numpy as np

    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.stem}.{os.getpid()}.tmp")
    try:
        with temporary.open("w+b") as stream:
            arrays: dict[str, Any] = {name: getattr(trajectory, name) for name in ARRAYS}
            if outcome is not None:
                arrays["outcome"] = np.array(outcome)
            np.savez_compressed(stream, **arrays)
            if trajectory.series:
                _append(stream, trajectory.series)
        temporary.replace(file)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def _append(stream: IO[bytes], series: "Mapping[str, NDArray[Any]]") -> None:
    """Add arrays to an npz file. numpy's own writer takes them as keywords, some of which are its own."""
    import numpy as np

    with zipfile.ZipFile(stream, "a", zipfile.ZIP_DEFLATED) as archive:
        for name, array in series.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)


def trajectory_outcome(file: Path) -> str | None:
    """Return the outcome stored in a trajectory's file, or None if there is no file or no outcome in it."""
    from pytest_vla.util.arrays import Unfit, read_npz

    try:
        return str(read_npz(file, ["outcome"])["outcome"])
    except Unfit:
        return None


def load_trajectory(file: Path) -> Trajectory:
    """Read the trajectory of an npz file, with all of its series, by any writer.

    Arrays that are no series, such as those of a later version, are ignored.

    Raises:
        VlaError: there is none, it is damaged, or it has too many series.
    """
    import numpy as np

    from pytest_vla.util.arrays import Unfit, read_npz

    expected = f"{file}: expected an npz file with {', '.join(ARRAYS)}"
    try:
        found = read_npz(file, ARRAYS, also=lambda name: name not in RESERVED and bool(_NAME.fullmatch(name)))
    except Unfit as error:
        raise VlaError(f"{expected}: {error}") from error
    arrays = {name: found.pop(name) for name in ARRAYS}
    for name, array in arrays.items():
        if array.ndim != 2 or array.dtype.kind not in "fiu":
            raise VlaError(f"{expected}: {name} is {array.dtype} {array.shape}, expected a table of numbers")
    steps = len(arrays["actions"])
    series = {name: each for name, each in found.items() if not series_fault(name, each.shape, each.dtype, steps)}
    numbers = {name: np.asarray(array, dtype=np.float64) for name, array in arrays.items()}
    try:
        return Trajectory(**numbers, series=series)
    except VlaError as error:
        raise VlaError(f"{file}: {error}") from error
