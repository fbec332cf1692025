"""Worlds for tests: one per task and process, as compiling and loading cost more than most tests."""

import functools
from typing import TYPE_CHECKING

import numpy as np

from tests.support.data import data_root, libero_data

if TYPE_CHECKING:
    from pytest_vla import World
    from pytest_vla.plan.task import Task
    from pytest_vla.sim.lazy_observation import Observation


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


@functools.lru_cache(maxsize=1)
def tabletop_world() -> "World":
    """A world of the built-in suite, which needs no data, shared by tests: `switch` it to a task, then reset it."""
    from pytest_vla import World, load_suite

    return World(load_suite("tabletop").tasks[0])


def tabletop(name: str) -> "World":
    """`tabletop_world` switched to a task."""
    from pytest_vla import load_suite

    world = tabletop_world()
    assert world.switch(load_suite("tabletop").task(name))
    return world


def readings(world: "World", observation: "Observation") -> dict[str, np.ndarray]:
    """What upstream's traces hold of a step, by their names."""
    poses = {name: observation[f"robot0_{name}"] for name in ("eef_pos", "eef_quat", "gripper_qpos")}
    return {"qpos": world.data.qpos, "qvel": world.data.qvel, **poses}
