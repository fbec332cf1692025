"""`pytest-vla view`: a window where there is a screen, a plain word where there is none; physics in real time."""

import contextlib
import os
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.cli import main
from pytest_vla.commands import view as viewer
from pytest_vla.commands.view import check_screen, run_physics
from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from tests.support.waiting import HANG

TASK = load_suite("libero_goal").task("turn_on_the_stove")
INSTEAD = "`pytest-vla show libero_goal/turn_on_the_stove` writes pictures to a file instead"


class Window:
    """A window that is closed by its user after some steps."""

    def __init__(self, steps: int = 3) -> None:
        self.left = steps
        self.log: list[str] = []
        self.cam = types.SimpleNamespace(azimuth=0.0, elevation=0.0, distance=0.0, lookat=np.zeros(3))
        self.opt = types.SimpleNamespace(geomgroup=np.ones(6, np.uint8))

    def is_running(self) -> bool:
        self.left -= 1
        return self.left >= 0

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        self.log.append("lock")
        yield
        self.log.append("unlock")

    def sync(self) -> None:
        self.log.append("sync")

    def close(self) -> None:
        self.log.append("close")


class World:
    """What is asked of a world."""

    last: "World"

    def __init__(self, task: Any, *, allow_versions: bool = False) -> None:
        World.last = self
        self.task, self.allow_versions = task, allow_versions
        self.model, self.data, self.init_state_count = object(), object(), 50
        self.log: list[Any] = []

    def reset(self, **how: Any) -> None:
        self.log.append(how)

    def step(self, action: Any) -> dict[str, Any]:
        self.log.append(tuple(action))
        return {"robot0_eef_pos": np.array([0.1, 0.2, 1.0])}

    def close(self) -> None:
        self.log.append("close")


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> types.SimpleNamespace:
    """A screen, MuJoCo's viewer and a world, all played; `window` is what opens, or the error that comes instead."""
    played = types.SimpleNamespace(window=Window(), glfw=lambda: True, drawing=None)

    def launch(model: Any, data: Any, **options: Any) -> Window:
        assert (model, data) == (World.last.model, World.last.data)
        if isinstance(played.window, Exception):
            raise played.window
        if played.drawing is not None:
            played.drawing.start()
        return played.window  # type: ignore[no-any-return]

    for name, attributes in (
        ("glfw", {"init": lambda: played.glfw()}),
        ("mujoco.viewer", {"launch_passive": launch}),
        ("pytest_vla.sim.world", {"World": World}),
    ):
        module: Any = types.ModuleType(name)
        module.__dict__.update(attributes)
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("DISPLAY", ":0")
    # Set first, so that what the viewer makes of it is undone.
    monkeypatch.setenv("MUJOCO_GL", "")
    monkeypatch.delenv("MUJOCO_GL")
    monkeypatch.setattr(viewer.time, "sleep", lambda seconds: None)
    return played


@pytest.mark.parametrize(
    ("system", "environ", "works"),
    [
        ("linux", {}, False),
        ("linux", {"DISPLAY": ""}, False),
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("darwin", {}, True),
        ("win32", {}, True),
    ],
)
def test_a_screen_is_needed_on_linux(system: str, environ: dict[str, str], works: bool) -> None:
    with contextlib.nullcontext() if works else pytest.raises(VlaError) as told:
        check_screen(TASK, system, environ)
    if not works:
        assert "neither DISPLAY nor WAYLAND_DISPLAY is set" in str(told.value)
        assert INSTEAD in str(told.value)


def test_without_a_screen_nothing_is_loaded(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setitem(sys.modules, "pytest_vla.sim.world", None)
    assert main(["view", "libero_goal/turn_on"]) == 1
    assert INSTEAD in capsys.readouterr().err


def test_the_window_opens_on_the_seed_s_reset_and_physics_runs_in_it(screen: Any, capsys: Any) -> None:
    assert main(["view", "libero_goal/turn_on", "--seed=53", "--data=somewhere", "--allow-versions"]) == 0
    world, window = World.last, screen.window
    assert world.task.data == Path("somewhere")
    assert world.allow_versions
    rest = (0.0,) * 7
    assert os.environ["MUJOCO_GL"] == "glfw", "a machine with a screen need not have EGL"
    assert world.log == [{"init_state": 3, "scene_seed": 53, "settle": True}, *[rest] * 4, "close"]
    assert window.log == ["lock", "unlock", *["lock", "unlock", "sync"] * 3, "close"]
    assert list(window.opt.geomgroup) == [0, 1, 1, 1, 1, 1], "collision geoms are hidden"
    assert list(window.cam.lookat) == [0.1, 0.2, 1.0]
    assert window.cam.distance > 0
    assert capsys.readouterr() == ("", "")


def test_it_waits_for_the_thread_that_draws(screen: Any) -> None:
    drawn: list[str] = []
    closed = threading.Event()

    def draw() -> None:
        closed.wait(HANG)
        drawn.append("ended")

    screen.drawing = threading.Thread(target=draw, daemon=True)
    screen.window.close = closed.set
    viewer.view_task(TASK, 0)
    assert drawn == ["ended"]


def test_an_interrupt_closes_the_window_and_the_world(screen: Any, capsys: Any) -> None:
    def interrupted() -> bool:
        raise KeyboardInterrupt

    screen.window.is_running = interrupted
    assert main(["view", "libero_goal/turn_on"]) == 1
    assert capsys.readouterr().err == "pytest-vla: interrupted\n"
    assert screen.window.log[-1] == "close"
    assert World.last.log[-1] == "close"


def _unopened() -> bool:
    warnings.warn("(65550) X11: Failed to open display :77", stacklevel=1)
    return False


@pytest.mark.parametrize(
    ("played", "message"),
    [
        ({"glfw": _unopened}, "no window can be opened: (65550) X11: Failed to open display :77. "),
        ({"glfw": lambda: False}, "no window can be opened: GLFW gives no reason. "),
        ({"window": RuntimeError("needs mjpython on macOS")}, "cannot be opened: needs mjpython on macOS. "),
    ],
)
def test_a_window_that_cannot_be_opened_is_one_line(
    screen: Any, played: dict[str, Any], message: str, capsys: Any
) -> None:
    screen.__dict__.update(played)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Of what an earlier test left open, which may be collected here.
        warnings.simplefilter("ignore", ResourceWarning)
        assert main(["view", "libero_goal/turn_on"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message + INSTEAD in line


def test_a_missing_library_is_one_line(screen: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(sys.modules, "mujoco.viewer", None)
    assert main(["view", "libero_goal/turn_on"]) == 1
    assert "MuJoCo's viewer cannot be loaded: import of mujoco.viewer halted" in capsys.readouterr().err


def test_one_task_is_viewed(capsys: Any) -> None:
    assert main(["view", "libero_goal"]) == 1
    assert "libero_goal is a suite of 10 tasks: open_the_middle_drawer_of_the_cabinet, " in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["view", "libero_goal/turn_on", "--seed=0-3"])
    assert "'0-3' is not a seed, 0 to" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("costs", "slept"),
    [
        # A step of 0.01 s: what is left of 0.05 s is slept.
        ([0.01] * 4, [0.04] * 4),
        # One that took long is caught up.
        ([0.12, 0.01, 0.01, 0.01], [0.0, 0.0, 0.01, 0.04]),
        # A machine that is too slow does not fall back further and further.
        ([2.0, 0.01, 0.01], [0.0, 0.0, 0.0]),
    ],
)
def test_physics_runs_in_real_time(costs: list[float], slept: list[float]) -> None:
    now, naps, left = [100.0], list[float](), list(costs)
    world: Any = types.SimpleNamespace(step=lambda action: now.__setitem__(0, now[0] + left.pop(0)))

    def nap(seconds: float) -> None:
        naps.append(seconds)
        now[0] += seconds

    run_physics(world, Window(len(costs)), 0.05, clock=lambda: now[0], sleep=nap)
    assert naps == pytest.approx(slept, abs=1e-9)


def test_after_a_pause_it_catches_up_for_half_a_second_at_most() -> None:
    now, naps = [0.0], list[float]()
    costs: Callable[[], float] = iter([60.0] + [0.001] * 40).__next__
    world: Any = types.SimpleNamespace(step=lambda action: now.__setitem__(0, now[0] + costs()))

    def nap(seconds: float) -> None:
        naps.append(seconds)
        now[0] += seconds

    run_physics(world, Window(30), 0.05, clock=lambda: now[0], sleep=nap)
    hurried = sum(seconds == 0 for seconds in naps)
    assert 8 <= hurried <= 14
