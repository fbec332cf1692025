"""Worlds for tests: one per task and process, as compiling and loading cost more than most tests."""

import functools
from typing import TYPE_CHECKING

import numpy as np

from tests.support.data import data_root, libero_data

if TYPE_CHECKING:
    from pytest_vla import World
    from pytest_vla.sim.observation import Observation
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


def readings(world: "World", observation: "Observation") -> dict[str, np.ndarray]:
    """What upstream's traces hold of a step, by their names."""
    poses = {name: observation[f"robot0_{name}"] for name in ("eef_pos", "eef_quat", "gripper_qpos")}
    return {"qpos": world.data.qpos, "qvel": world.data.qvel, **poses}
