"""VLA-Arena's task files and scenes for tests."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from pytest_vla import load_suite
from pytest_vla.plan.data_roots import DataRoot, data_roots
from pytest_vla.plan.task import Task
from pytest_vla.scene.problem import Problem, parse_problem
from tests.support.data import arena_data, data_root, golden_root, libero_data


def arena_roots() -> tuple[DataRoot, ...]:
    """Where its assets are: in its own folder, and those that it has from LIBERO in LIBERO's."""
    return (*data_roots(arena_data()), *data_roots(libero_data()))


def arena_problem(suite: str, level: int, task: str) -> Problem:
    """A task file by upstream's names."""
    return parse_problem(arena_data() / "bddl_files" / suite / f"level_{level}" / f"{task}.bddl")


def golden_files(*folders: str) -> list[str]:
    """The names of upstream's goldens in these folders, ``traces/NAME``; one that is absent where all are."""
    root = golden_root()
    names = [
        f"{folder}/{path.stem}" for folder in folders if root for path in (root / "vla_arena" / folder).glob("*.npz")
    ]
    return sorted(names) or ["absent/absent"]


def meta_of(stored: dict[str, Any]) -> dict[str, Any]:
    """What a golden file says of itself."""
    found: dict[str, Any] = json.loads(str(stored["meta"]))
    return found


def read_golden(path: Path) -> dict[str, Any]:
    """A golden file's arrays by name."""
    with np.load(path) as file:
        return dict(file)


def arena_task(suite: str, level: int, name: str) -> Task:
    """A task by upstream's names."""
    arena_data(), libero_data()
    tasks = load_suite(suite, data=data_root()).tasks
    return next(task for task in tasks if task.file == f"level_{level}/{name}")
