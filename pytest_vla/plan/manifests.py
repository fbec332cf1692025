"""Suites as their manifests say: named lists of tasks with one protocol, read from ``suites/<suite>/suite.toml``.

No simulator, no numpy: a plan and a collection need nothing else.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.suite import Suite
from pytest_vla.plan.task import IMAGE_TRANSFORMS, OUT_OF_RANGE, TEXTURES, Protocol, Task, language_of
from pytest_vla.util.text import did_you_mean

MANIFEST = "suite.toml"


def load_suite(name: str, *, data: str | os.PathLike[str] | None = None) -> Suite:
    """A suite by name.

    Args:
        name: one of `suite_names()`.
        data: folder with the suite's task files, init states and assets; None: the default roots. A suite that takes
            tasks (`takes_tasks`) also has those whose files are there or in ``PYTEST_VLA_DATA``: after its own, by
            name.

    Raises:
        VlaError: no such suite, its manifest cannot be used, or a further task's file name is no name.
    """
    if name not in suite_names():
        known = ", ".join(suite_names())
        raise VlaError(f"there is no suite {name!r}.{did_you_mean(name, suite_names())} Suites: {known}.")
    manifest = suite_folder(name) / MANIFEST
    table = _read_manifest(manifest)
    protocol = _protocol(table, manifest)
    folder = None if data is None else Path(data)
    stems = [*table["tasks"], *(_further_tasks(name, table["tasks"], folder) if takes_tasks(name) else ())]
    files, varied = table.get("files", name), table.get("varied", "")
    tasks = tuple(
        Task(name, stem, index, language_of(stem), protocol, folder, files, varied) for index, stem in enumerate(stems)
    )
    return Suite(name, table["title"], tasks, protocol, _seeds(table, manifest))


@cache
def suite_names() -> tuple[str, ...]:
    """The names of all suites: every folder of `pytest_vla.suites` that has a manifest."""
    return tuple(sorted(path.parent.name for folder in suites_folders() for path in folder.glob(f"*/{MANIFEST}")))


@cache
def suites_folders() -> tuple[Path, ...]:
    """Where the package `pytest_vla.suites` lies: site-packages, or ``suites`` of a checkout."""
    import pytest_vla.suites

    # An editable install adds an entry that is no folder.
    return tuple(folder for path in pytest_vla.suites.__path__ if (folder := Path(path).resolve()).is_dir())


def suite_folder(name: str) -> Path:
    """The folder of a suite, by one of `suite_names()`."""
    return next(folder / name for folder in suites_folders() if (folder / name / MANIFEST).is_file())


def takes_tasks(name: str) -> bool:
    """Whether a user's task files join this suite, by one of `suite_names()`: its manifest says ``open = true``."""
    return _read_manifest(suite_folder(name) / MANIFEST).get("open", False) is True


def _further_tasks(name: str, listed: Iterable[str], data: Path | None) -> list[str]:
    """The stems of the user's task files that the manifest does not list."""
    from pytest_vla.plan.data_roots import data_base
    from pytest_vla.util.folders import expanded

    found: set[str] = set()
    given = [folder for folder in (data, os.environ.get("PYTEST_VLA_DATA")) if folder]
    for folder in given:
        base = data_base(expanded(folder) or Path(folder))
        for path in (base / "bddl_files" / name).glob("[!.]*.bddl") if base is not None else ():
            if not re.fullmatch(r"[A-Za-z0-9_]+", path.stem):
                raise VlaError(f"{path}: expected a name of letters, digits and _, as it is in ids. Rename the file.")
            found.add(path.stem)
    return sorted(found - set(listed))


@cache
def _read_manifest(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise VlaError(f"{path}: cannot be read as TOML: {error}") from error
    if "extends" in table:
        base = _read_manifest(path.parent.parent / table["extends"])
        table["protocol"] = {**base.get("protocol", {}), **table.get("protocol", {})}
    return table


def _seeds(table: Mapping[str, Any], manifest: Path) -> tuple[int, ...] | None:
    from pytest_vla.util.ranges import parse_seeds

    try:
        return parse_seeds(table["seeds"]) if "seeds" in table else None
    except VlaError as error:
        raise VlaError(f"{manifest}: {error}") from error


_CHOICES = {"image_transform": IMAGE_TRANSFORMS, "out_of_range": OUT_OF_RANGE, "textures": TEXTURES}


def _protocol(table: Mapping[str, Any], manifest: Path) -> Protocol:
    declared = table.get("protocol", {})
    wanted = {field.name for field in fields(Protocol)}
    optional = {field.name for field in fields(Protocol) if field.default is not MISSING}
    wrong = [f"no {name}" for name in sorted(wanted - optional - set(declared))]
    wrong += [f"unknown {name}" for name in sorted(set(declared) - wanted)]
    wrong += [f"no {name} at the top" for name in ("title", "tasks") if name not in table]
    for name, known in _CHOICES.items():
        if declared.get(name, known[0]) not in known:
            wrong.append(f"{name} is not one of {', '.join(known)}")
    if wrong:
        raise VlaError(f"{manifest}: [protocol]: {'; '.join(wrong)}")
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in declared.items()}
    return Protocol(**values)
