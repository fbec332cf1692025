"""What a folder of data has: assets, task files, init states; and which folders a user gives."""

import os
from pathlib import Path
from typing import Literal

from pytest_vla import extensions
from pytest_vla.util.folders import expanded

Kind = Literal["assets", "bddl_files", "init_files"]

KINDS: tuple[Kind, ...] = ("assets", "bddl_files", "init_files")

ARCHIVE = "init_states.npz"
"""In the place of init_files/, or beside it: init states by ``SUITE/TASK``, as paths are in there without an ending."""

VARIABLE = "PYTEST_VLA_DATA"
"""The environment's variable with folders of data, `os.pathsep` between them."""


def variable_folders() -> tuple[Path, ...]:
    """The folders that the environment names, as they are given but for ``~``."""
    whole = os.environ.get(VARIABLE, "")
    # A folder's name may have the separator in it.
    given = [whole] if os.path.exists(whole) else [text for text in whole.split(os.pathsep) if text]
    return tuple(expanded(text) or Path(text) for text in given)


def given_folders(data: Path | None) -> tuple[Path, ...]:
    """Where a user's files are looked for: ``--vla-data``, then ``PYTEST_VLA_DATA``."""
    return (*(() if data is None else (expanded(data) or data,)), *variable_folders())


def data_bases(folder: Path) -> tuple[Path, ...]:
    """Where in a folder assets/, bddl_files/ and init_files/ lie; nothing where it has none of them.

    It may be such a folder itself, have that of a benchmark in it, or several, or be a benchmark's checkout or
    installed package, as suites say of theirs (`pytest_vla.entries.SuiteEntry.home`).
    """
    homes = dict.fromkeys(entry.home for entry in extensions.suites().values() if entry.home)
    found: dict[Path, None] = {}
    alike = [(folder / home, folder, folder / home / home) for home in homes]
    for places in alike or [(folder, folder, folder)]:
        base = next((base for base in places if any((base / kind).is_dir() for kind in KINDS)), None)
        if base is not None:
            found[base] = None
    return tuple(found)
