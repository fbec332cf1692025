"""Suites: named lists of tasks with one protocol, read from ``suites/<suite>/suite.toml``.

No simulator, no numpy: a plan and a collection need nothing else.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError

IMAGE_TRANSFORMS = ("none", "rotate_180")
"""What a suite may do to the pictures of its policies; `pytest_vla.policies.view` does it."""

OUT_OF_RANGE = ("clip", "error")
"""What a suite may do about actions outside of [-1, 1]; `pytest_vla.episode.rollout` does it."""

TRAINED, INSTALLED = TEXTURES = ("trained", "installed")
"""How a suite's textures are drawn: as published checkpoints saw them (by MuJoCo before 3.3.3, which knew no colour
space of textures), or as the installed version draws them, darker from 3.3.3 on. `pytest_vla.World` does it."""

MANIFEST = "suite.toml"


@dataclass(frozen=True)
class Protocol:
    """What every episode of a suite has in common.

    Attributes:
        max_steps: control steps after which an episode has failed; settling is not counted.
        settle_steps: control steps after a reset before the policy is asked.
        settle_action: the action (7,) of those steps.
        control_freq: control steps a second, Hz.
        init_states: how many init states a task has; seed s starts from init state s mod n.
        image_size: height and width of a picture, pixels.
        cameras: whose pictures an observation has.
        image_transform: what the pictures' upright form becomes for a policy; one of `IMAGE_TRANSFORMS`.
        out_of_range: what is done about actions outside of [-1, 1]; one of `OUT_OF_RANGE`.
        init_state: the init state that every episode starts from; None: seed s starts from init state s mod n.
        textures: how they are drawn; one of `TEXTURES`.
    """

    max_steps: int
    settle_steps: int
    settle_action: tuple[float, ...]
    control_freq: int
    init_states: int
    image_size: tuple[int, int]
    cameras: tuple[str, ...]
    image_transform: str
    out_of_range: str
    init_state: int | None = None
    textures: str = TRAINED


@dataclass(frozen=True)
class Task:
    """One task of a suite.

    Attributes:
        suite: the suite's name.
        name: stem of the task's file.
        index: place in upstream's order.
        language: the instruction as the task's file name gives it, which is what policies are trained and measured
            with; the file's own ``:language`` often differs.
        protocol: the suite's.
        data: the folder given by ``--vla-data``; None: the default roots.
        files: the suite whose task files and init states it has; its own, where nothing else is given.
        varied: by what `pytest_vla.vary.registry` varies it; empty: the suite is of its tasks as they are.
    """

    suite: str
    name: str
    index: int
    language: str
    protocol: Protocol
    data: Path | None = None
    files: str = ""
    varied: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "files", self.files or self.suite)


def with_textures(task: Task, textures: str) -> Task:
    """The task with its textures drawn so, one of `TEXTURES`."""
    if textures == task.protocol.textures:
        return task
    return replace(task, protocol=replace(task.protocol, textures=textures))


@dataclass(frozen=True)
class Suite:
    """A named list of tasks, in upstream's order, with one protocol; `seeds`: where nothing says which; None: 0."""

    name: str
    title: str
    tasks: tuple[Task, ...]
    protocol: Protocol
    seeds: tuple[int, ...] | None = None

    def task(self, name: str) -> Task:
        """The task of this name (file stem). Raises VlaError, with close matches, where there is none."""
        found = next((task for task in self.tasks if task.name == name), None)
        if found is None:
            raise VlaError(f"suite {self.name} has no task {name!r}.{did_you_mean(name, (t.name for t in self.tasks))}")
        return found


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


def language_of(stem: str) -> str:
    """The instruction in a task's file name: words for underscores, without a leading ``KITCHEN_SCENE10_``."""
    return re.sub(r"^[A-Z].*?SCENE\d+_", "", stem).replace("_", " ")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """`` Did you mean a, b?`` for the closest of the known names; empty where none is close."""
    import difflib

    known = list(known)
    inside = [other for other in known if name and name.lower() in other.lower()]
    close = list(dict.fromkeys(inside[:3] + difflib.get_close_matches(name, known, n=3)))[:3]
    return f" Did you mean {', '.join(close)}?" if close else ""


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
    from pytest_vla.plan.case import parse_seeds

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
