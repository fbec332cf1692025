"""Worlds for tests: one per task and process, as compiling and loading cost more than most tests."""

import functools
from typing import TYPE_CHECKING

from tests.support.data import data_root, libero_data

if TYPE_CHECKING:
    from pytest_vla import World
    from pytest_vla.suite import Task


def libero_task(suite: str, name: str) -> "Task":
    """A LIBERO task by file stem; skips where the data is absent."""
    from pytest_vla import load_suite

    libero_data()
    return load_suite(suite, data=data_root()).task(name)


@functools.lru_cache(maxsize=2)
def world_of(suite: str, name: str) -> "World":
    """A world of a task, shared by tests: reset it first, undo what you change."""
    from pytest_vla import World

    return World(libero_task(suite, name))
