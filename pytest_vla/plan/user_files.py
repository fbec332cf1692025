"""Where benchmarks' own files are looked for, which users bring."""

import fnmatch
from collections.abc import Callable, Sequence
from pathlib import Path

from pytest_vla import extensions
from pytest_vla.errors import VlaError
from pytest_vla.plan.data_folders import given_folders


def find_given(data: Path | None, find: Callable[[Path], Path | None], owner: str, name: str) -> Path:
    """A benchmark's file in the first folder that has it.

    Args:
        data: the folder given by ``--vla-data``; None: there is none.
        find: gives the file in a folder; None where it is not there.
        owner: the benchmark, for the message.
        name: of the file, for the message.

    Raises:
        VlaError: it is nowhere; says what to give, and where was looked.
    """
    folders = given_folders(data)
    for folder in folders:
        found = find(folder)
        if found is not None:
            return found
    looked = f" Looked in {', '.join(map(str, folders))}." if folders else ""
    raise VlaError(
        f"{owner}'s {name} is nowhere: give a checkout of {owner}, or a folder with that file, by --vla-data or "
        f"PYTEST_VLA_DATA.{looked}"
    )


def first_at(places: Sequence[str]) -> Callable[[Path], Path | None]:
    """Finds the first file that one of these patterns matches in a folder."""

    def find(folder: Path) -> Path | None:
        return next((path for place in places for path in sorted(folder.glob(place)) if path.is_file()), None)

    return find


def holds_benchmark(place: Path) -> bool:
    """Whether a folder or a file is somebody's benchmark, as far as variations are read from it.

    They say so by the names of their files (`pytest_vla.entries.VariationEntry`).
    """
    names = extensions.user_files()
    if place.is_file():
        return any(fnmatch.fnmatchcase(place.name, name) for name in names)
    below = ("", "*/", "*/*/", "*/*/*/")
    return first_at([f"{depth}{name}" for name in names if "*" not in name for depth in below])(place) is not None
