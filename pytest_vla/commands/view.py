"""``pytest-vla view``: opens a task in MuJoCo's viewer."""

import argparse
import importlib
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, closing
from typing import Any, Protocol

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.plan.case import init_state_of
from pytest_vla.plan.choices import RELATIVE
from pytest_vla.plan.task import Task, with_protocol
from pytest_vla.run.arguments import declare_data, one_seed


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "Physics runs in real time, and the robot rests. It needs a screen; without one use `pytest-vla show`."
    )
    parser.add_argument("task", metavar="TASK", help="task to open: SUITE/TASK, a task's name or a part of it")
    parser.add_argument("--seed", metavar="N", type=one_seed, default=0, help="seed of the init state (default: 0)")
    declare_data(parser)


def run(options: argparse.Namespace) -> None:
    """Open the viewer, until its window is closed. Raises VlaError: no such task, or no screen."""
    from pytest_vla.show.tasks import find_tasks

    tasks = find_tasks(options.task, options.data)
    if len(tasks) > 1:
        raise VlaError(f"{options.task} is a suite of {len(tasks)} tasks: {', '.join(task.key for task in tasks[:10])}")
    view_task(tasks[0], options.seed, options.allow_versions)


COMMAND = Command(declare, run)


# The viewer: a task's scene in MuJoCo's own viewer, with physics running.

# The gripper stays as it is.
_REST = (0.0,) * 7
_COLLISION_GEOMS = 0
# Opposite the robot, from above.
_AZIMUTH, _ELEVATION, _DISTANCE = 180.0, -30.0, 1.6
# Seconds of delay after which a slow machine stops catching up with real time.
_BEHIND = 0.5
_FAREWELL = 5.0


class Window(Protocol):
    """MuJoCo's viewer, as ``mujoco.viewer.launch_passive`` returns it."""

    cam: Any
    opt: Any

    def is_running(self) -> bool: ...
    def lock(self) -> AbstractContextManager[object]: ...
    def sync(self) -> None: ...
    def close(self) -> None: ...


def check_screen(task: Task, system: str, environ: Mapping[str, str]) -> None:
    """Check that there is a screen to open a window on.

    Args:
        task: the task, named in the advice.
        system: the value of `sys.platform`.
        environ: the environment variables.

    Raises:
        VlaError: on Linux neither ``DISPLAY`` nor ``WAYLAND_DISPLAY`` is set.
    """
    if system.startswith("linux") and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        raise VlaError(
            f"MuJoCo's viewer needs a screen, but neither DISPLAY nor WAYLAND_DISPLAY is set. {_instead(task)}"
        )


def view_task(task: Task, seed: int, allow_versions: bool = False) -> None:
    """Open the viewer at the start of an episode with this seed, and run physics until its window is closed.

    Raises:
        VlaError: there is no screen, the window cannot be opened, or the task's data is missing.
        EpisodeError: physics broke.
    """
    check_screen(task, sys.platform, os.environ)
    # Read while mujoco is imported. The window's OpenGL works even if no offscreen OpenGL does.
    os.environ.setdefault("MUJOCO_GL", "glfw")
    launch = _launcher(task)
    from pytest_vla.sim.world import World

    with closing(World(with_protocol(task, control=RELATIVE), allow_versions=allow_versions)) as world:
        state = init_state_of(seed, world.init_state_count, task.protocol.init_state)
        world.reset(init_state=state, scene_seed=seed, settle=True)
        before = set(threading.enumerate())
        try:
            window = launch(world.model, world.data, show_left_ui=False, show_right_ui=False)
        except RuntimeError as error:
            raise VlaError(f"MuJoCo's viewer cannot be opened: {error}. {_instead(task)}") from error
        try:
            with window.lock():
                window.opt.geomgroup[_COLLISION_GEOMS] = 0
                window.cam.azimuth, window.cam.elevation, window.cam.distance = _AZIMUTH, _ELEVATION, _DISTANCE
                window.cam.lookat[:] = world.step(_REST)["robot0_eef_pos"]
            run_physics(world, window, 1 / task.protocol.control_freq)
        finally:
            window.close()
            # Wait for the drawing thread: Python ends GLFW at exit, which crashes a thread that still draws.
            for thread in set(threading.enumerate()) - before:
                thread.join(_FAREWELL)


def run_physics(
    world: Any,
    window: Window,
    period: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Step a resting world in real time until the window is closed.

    Args:
        world: the world, after a reset.
        window: the viewer of the world's model and data.
        period: the control period in seconds.
        clock: returns the machine's time in seconds.
        sleep: waits for the given seconds.
    """
    due = clock()
    while window.is_running():
        with window.lock():
            world.step(_REST)
        window.sync()
        due = max(due + period, clock() - _BEHIND)
        sleep(max(due - clock(), 0.0))


def _launcher(task: Task) -> Callable[..., Window]:
    try:
        glfw = importlib.import_module("glfw")
        viewer = importlib.import_module("mujoco.viewer")
    except (ImportError, RuntimeError) as error:
        raise VlaError(f"MuJoCo's viewer cannot be loaded: {error}. {_instead(task)}") from error
    # Without a window the viewer's own thread would end silently.
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        works = glfw.init()
    if not works:
        why = "; ".join(str(warning.message) for warning in caught) or "GLFW gives no reason"
        raise VlaError(f"no window can be opened: {why}. {_instead(task)}")
    launch: Callable[..., Window] = viewer.launch_passive
    return launch


def _instead(task: Task) -> str:
    return f"`pytest-vla show {task.id}` writes pictures to a file instead"
