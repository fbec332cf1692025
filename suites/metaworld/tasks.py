"""The tasks of Meta-World and the protocol by which lerobot evaluates them.

Facts from lerobot 0.4's ``envs/metaworld.py`` and ``lerobot_eval``: the camera ``corner2`` at another place than
Meta-World's, its pictures turned by 180 degrees, 480 by 480; the state is the first four numbers of the observation,
the hand's place (m) and how far the gripper is open; an action has four numbers, the hand's motion and the gripper's
effort; an episode ends at the first step with ``success``, or after 500.
"""

import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from pytest_vla import gym
from pytest_vla.plan.manifests import Suite
from pytest_vla.plan.task import MujocoScene

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MT10 = (
    *("reach", "push", "pick_place", "door_open", "drawer_open", "drawer_close", "button_press_topdown"),
    *("peg_insert_side", "window_open", "window_close"),
)
ML45_TEST = ("bin_picking", "box_close", "hand_insert", "door_lock", "door_unlock")
"""The tasks that Meta-World's ML45 trains on none of."""

CAMERA = "corner2"
MAX_STEPS = 500

# The same in all tasks: geoms without names, of the table's body and the walls'.
_SCENE = MujocoScene(
    camera=CAMERA,
    middle=(0.0, 0.65, 0.0),
    lights=3,
    surfaces=(("table", ("#1", "#2", "#3")), ("floor", ("floor",)), ("wall", ("#4", "#5", "#6", "#7"))),
    arm=tuple(f"right_j{number}" for number in range(7)),
)


def metaworld_easy() -> Suite:
    """Return the suite of the easy tasks."""
    return _of_difficulty("easy")


def metaworld_medium() -> Suite:
    """Return the suite of the tasks of medium difficulty."""
    return _of_difficulty("medium")


def metaworld_hard() -> Suite:
    """Return the suite of the hard tasks."""
    return _of_difficulty("hard")


def metaworld_very_hard() -> Suite:
    """Return the suite of the very hard tasks."""
    return _of_difficulty("very_hard")


def metaworld_mt10() -> Suite:
    """Return the suite of MT10's tasks."""
    return _suite("metaworld_mt10", MT10)


def metaworld_ml45_test() -> Suite:
    """Return the suite of the tasks that ML45 holds out."""
    return _suite("metaworld_ml45_test", ML45_TEST)


def _of_difficulty(difficulty: str) -> Suite:
    names = tuple(name for name, task in known_tasks().items() if task["difficulty"] == difficulty)
    return _suite(f"metaworld_{difficulty}", names)


@cache
def known_tasks() -> dict[str, dict[str, Any]]:
    """Return instruction, difficulty and loose objects of each task, by name."""
    found: dict[str, dict[str, Any]] = tomllib.loads((files(__package__) / "tasks.toml").read_text())
    return found


def _suite(name: str, tasks: tuple[str, ...]) -> Suite:
    known = known_tasks()
    return gym.suite(
        name,
        make,
        tasks={
            each: gym.GymTask(
                known[each]["instruction"],
                (("task", f"{each.replace('_', '-')}-v3"),),
                scene=(("objects", tuple(known[each]["objects"])),),
            )
            for each in tasks
        },
        cameras=(CAMERA,),
        state=("agent_pos",),
        max_steps=MAX_STEPS,
        image_size=(480, 480),
        packages=("metaworld",),
        seeds=tuple(range(10)),
        spaces=gym.GymSpaces(4, (("agent_pos", 4), ("robot0_eef_pos", 3)), control_freq=80, scene=_SCENE),
        expert=expert,
        hold=hold,
        install="pytest-vla[metaworld]",
    )


def make(task: str, render_mode: str = "rgb_array") -> Any:
    """Return an environment of a task, such as ``reach-v3``, as lerobot makes it."""
    from pytest_vla.suites.metaworld.environment import MetaWorld

    return MetaWorld(task, CAMERA)


def hold(env: Any, last: "NDArray[np.float64] | None") -> "NDArray[np.float64]":
    """Return the action that keeps the hand in its place and the gripper as it was told."""
    import numpy as np

    return np.array([0.0, 0.0, 0.0, -1.0 if last is None else last[3]])


def expert(env: Any) -> Any:
    """Return a session of Meta-World's scripted policy for an environment's task."""
    from pytest_vla.suites.metaworld.environment import scripted

    return scripted(env.unwrapped)
