"""Suites as their manifests say: named lists of tasks with one protocol.

A manifest is ``suites/<suite>/suite.toml``; of a benchmark with several suites ``suites/<benchmark>/<suite>.toml``.

No simulator, no numpy: a plan and a collection need nothing else.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from pathlib import Path
from typing import Any

from pytest_vla import extensions, hook_modules
from pytest_vla.errors import VlaError
from pytest_vla.plan.choices import IMAGE_TRANSFORMS, OUT_OF_RANGE, TEXTURES
from pytest_vla.plan.data_folders import data_base
from pytest_vla.plan.labels import TASK
from pytest_vla.plan.suite import Suite
from pytest_vla.plan.task import Protocol, Task, language_of
from pytest_vla.util.documents import read_toml
from pytest_vla.util.folders import expanded
from pytest_vla.util.text import did_you_mean, printable


def load_suite(name: str, *, data: str | os.PathLike[str] | None = None) -> Suite:
    """A suite by name.

    Args:
        name: one of `suite_names()`.
        data: folder with the suite's task files, init states and assets; None: the default roots. A suite that takes
            tasks (`takes_tasks`) also has those whose files are there or in ``PYTEST_VLA_DATA``: after its own, by
            name.

    Raises:
        VlaError: no such suite, its manifest or what makes it cannot be used, a task has no name that can stand in an
            id, or two have the same.
    """
    if name not in suite_names():
        known = f"Suites: {', '.join(suite_names())}.{hook_modules.of_a_conftest()}"
        raise VlaError(f"there is no suite {name!r}.{did_you_mean(name, suite_names())} {known}")
    manifest = suite_manifest(name)
    if manifest is None:
        return _loaded_suite(name)
    table = _read_manifest(manifest)
    protocol = _protocol(table, manifest)
    _check_names(f"suite {name}: {manifest}", table["tasks"])
    folder = None if data is None else Path(data)
    stems = [*table["tasks"], *(_further_tasks(name, table["tasks"], folder) if takes_tasks(name) else ())]
    files, varied = table.get("files", name), table.get("varied", "")
    tasks = tuple(
        Task(name, stem, index, language_of(stem), protocol, folder, files, varied) for index, stem in enumerate(stems)
    )
    return Suite(name, table["title"], tasks, protocol, _seeds(table, manifest))


def suite_names() -> tuple[str, ...]:
    """The names of all suites: of `pytest_vla.suites`, and of those that other packages and the project add."""
    return tuple(sorted(extensions.suites()))


def suite_folder(name: str) -> Path | None:
    """The folder with a suite's manifest, by one of `suite_names()`; None: it has none."""
    return extensions.suites()[name].folder


def suite_manifest(name: str) -> Path | None:
    """The manifest of a suite, by one of `suite_names()`; None: it has none."""
    entry = extensions.suites()[name]
    return entry.folder / entry.manifest if entry.folder is not None else None


def takes_tasks(name: str) -> bool:
    """Whether a user's task files join this suite, by one of `suite_names()`: its manifest says ``open = true``."""
    manifest = suite_manifest(name)
    return manifest is not None and _read_manifest(manifest).get("open", False) is True


def varied_by(suite: str) -> str:
    """By what a suite is varied by itself; empty: by nothing, or it is not there. Raises VlaError."""
    if suite not in extensions.suites():
        return ""
    manifest = suite_manifest(suite)
    return str(_read_manifest(manifest).get("varied", "")) if manifest is not None else ""


@hook_modules.until_changed
def _loaded_suite(name: str) -> Suite:
    """A suite that is made by code. Raises VlaError."""
    entry = extensions.suites()[name]
    found = extensions.load(entry)
    whose = f"{entry.origin}: {entry.load}"
    if not isinstance(found, Suite) and callable(found):
        try:
            found = found()
        except VlaError:
            raise
        except Exception as error:
            # It brings pytest with it, which commands do without.
            from pytest_vla.util.tracebacks import describe

            raise VlaError(f"suite {name}: {whose} raised {describe(error)}") from error
    if not isinstance(found, Suite):
        raise VlaError(f"suite {name}: {whose} is {type(found).__name__}, expected pytest_vla.plan.manifests.Suite")
    if found.name != name:
        raise VlaError(f"suite {name}: {whose} is called {found.name!r}; give both the same name")
    if odd := [task for task in found.tasks if not isinstance(task, Task)]:
        raise VlaError(f"suite {name}: {whose} has {type(odd[0]).__name__} among its tasks, expected Task")
    _check_names(f"suite {name}: {whose}", [task.name for task in found.tasks])
    if strange := [task for task in found.tasks if task.suite != name]:
        told = f"task {strange[0].name} is of suite {strange[0].suite!r}"
        raise VlaError(f"suite {name}: {whose}: {told}; make it with Task({name!r}, ...)")
    return found


def _check_names(whose: str, names: Iterable[object]) -> None:
    """Refuse names of tasks that ids and files cannot have, or that two tasks have. Raises VlaError."""
    known: set[object] = set()
    for name in names:
        if not isinstance(name, str) or re.fullmatch(TASK, name) is None:
            told = printable(repr(name)[:100])
            raise VlaError(
                f"{whose}: {told} is no name of a task: expected letters (a-z, A-Z), digits and _. Rename it"
            )
        if name in known:
            raise VlaError(f"{whose}: two tasks are called {name}; give each a name of its own")
        known.add(name)


def _further_tasks(name: str, listed: Iterable[str], data: Path | None) -> list[str]:
    """The stems of the user's task files that the manifest does not list."""
    found: set[str] = set()
    given = [folder for folder in (data, os.environ.get("PYTEST_VLA_DATA")) if folder]
    for folder in given:
        base = data_base(expanded(folder) or Path(folder))
        for path in (base / "bddl_files" / name).glob("[!.]*.bddl") if base is not None else ():
            if not re.fullmatch(TASK, path.stem):
                raise VlaError(f"{path}: expected a name of letters, digits and _, as it is in ids. Rename the file.")
            found.add(path.stem)
    return sorted(found - set(listed))


def instruction_of(suite: str, task: str) -> str:
    """A task's own instruction: of a suite that is made by code as that says, else by the task's name."""
    try:
        if suite in extensions.suites() and suite_folder(suite) is None:
            return load_suite(suite).task(task).language
    except VlaError:
        # Its package cannot be used here; the record can be read all the same.
        pass
    return language_of(task)


@cache
def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        table = read_toml(path)
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
