"""Trajectories and videos of shards on their way into the merged run's folder."""

import filecmp
import itertools
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from pytest_vla.errors import VlaError
from pytest_vla.records.counting import is_complete
from pytest_vla.records.record import VIDEO_SUFFIX, Record
from pytest_vla.util.files import whole_file


class Copies:
    """Which file becomes which; nothing is written before `write`.

    Args:
        folder: of the merged run.
        used: the names, relative to it, of its records' trajectories.
    """

    def __init__(self, folder: Path, used: Iterable[str]) -> None:
        self._folder, self._used = folder, set(used)
        # By run and name of the shard that was added last.
        self._names: dict[tuple[str, str], str] = {}
        # Where from, with the folder that it has to lie in, and where to.
        self._files: list[tuple[Path, Path, Path]] = []
        self.copied = 0
        """How many trajectories were copied."""
        self.lost: list[Path] = []
        """Trajectories that are not where their records say."""

    def add(self, place: Path, runs: Iterable[tuple[str, Sequence[Record]]]) -> None:
        """The new records of a shard's runs, the oldest run first.

        As where one machine does it, a complete episode keeps its file, and a later attempt takes that of an error.
        """
        self._names = {}
        # By name, the runs that have it, and whether one of their complete episodes has.
        found: dict[str, list[tuple[str, bool]]] = {}
        for run, records in runs:
            of_complete: dict[str, bool] = {}
            for record in records:
                if record.arrays is not None:
                    is_kept = of_complete.get(record.arrays, False) or is_complete(record.outcome)
                    of_complete[record.arrays] = is_kept
            for arrays, is_kept in of_complete.items():
                found.setdefault(arrays, []).append((run, is_kept))
        for arrays, having in found.items():
            waiting: list[str] = []
            for position, (run, is_kept) in enumerate(having, 1):
                waiting.append(run)
                if is_kept or position == len(having):
                    name = self._free(arrays)
                    self._files.append((place / run / arrays, place, self._folder / name))
                    self._names |= {(each, arrays): name for each in waiting}
                    waiting = []

    def name_of(self, run: str, arrays: str | None) -> str | None:
        """What a trajectory of the shard that was added last is called in the merged run."""
        return None if arrays is None else self._names[run, arrays]

    def write(self) -> None:
        """Copy all, each whole or not at all; what is there already with the same content stays. Raises VlaError."""
        for source, place, target in self._files:
            for suffix in (source.suffix, VIDEO_SUFFIX):
                old, new = source.with_suffix(suffix), target.with_suffix(suffix)
                # A link may lead away.
                if old.is_file() and old.resolve().is_relative_to(place.resolve()):
                    self.copied += _copy(old, new) and suffix == source.suffix
                elif suffix == source.suffix:
                    self.lost.append(source)

    def _free(self, arrays: str) -> str:
        path = PurePosixPath(arrays)
        stem = re.sub(r"-repeat[0-9]+$", "", path.stem)
        others = (str(path.with_name(f"{stem}-repeat{number}{path.suffix}")) for number in itertools.count(2))
        name = next(each for each in itertools.chain([arrays], others) if each not in self._used)
        self._used.add(name)
        return name


def _copy(old: Path, new: Path) -> bool:
    """Whether the file had to be copied. Raises VlaError."""
    try:
        if new.is_file() and filecmp.cmp(old, new, shallow=False):
            return False
        new.parent.mkdir(parents=True, exist_ok=True)
        with old.open("rb") as stream, whole_file(new) as written:
            shutil.copyfileobj(stream, written)
    except OSError as error:
        raise VlaError(f"cannot copy {old} to {new}: {error.strerror or error}") from error
    return True
