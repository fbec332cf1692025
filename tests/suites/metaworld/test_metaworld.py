"""Meta-World's suites as they are without the package, and beside lerobot's own environment where both are."""

import os
import subprocess
import sys
import venv
from collections import Counter
from pathlib import Path

import pytest

import pytest_vla
from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite, named_suites
from pytest_vla.suites.metaworld.tasks import ML45_TEST, MT10, known_tasks
from pytest_vla.vary.registry import kinds


def test_the_suites_are_lerobots_groups_and_need_no_package_to_be_loaded() -> None:
    assert Counter(task["difficulty"] for task in known_tasks().values()) == {
        "easy": 28, "medium": 11, "hard": 6, "very_hard": 5
    }  # fmt: skip
    every = [task.name for name in named_suites("metaworld") for task in load_suite(name).tasks]
    assert sorted(every) == sorted(known_tasks())
    assert set(MT10) | set(ML45_TEST) < set(every)
    reach = load_suite("metaworld_mt10").task("reach")
    assert reach.language == "Reach a goal position"
    protocol = reach.protocol
    assert (protocol.max_steps, protocol.control_freq, protocol.image_size) == (500, 80, (480, 480))
    assert dict(protocol.vectors) == {"agent_pos": 4, "robot0_eef_pos": 3, "state": 4}
    assert protocol.action_size == 4


def test_kinds_of_objects_are_for_tasks_that_have_one() -> None:
    suite = load_suite("metaworld_mt10")
    fit = {task.name: {kind.name for kind in kinds() if not kind.misfit(task)} for task in suite.tasks}
    assert {"camera.azimuth", "light.shadow", "background.wall", "robot.joints"} <= fit["door_open"]
    assert "layout.displacement" not in fit["door_open"]
    assert {"layout.displacement", "object.mass", "object.colour"} <= fit["pick_place"]


def test_what_to_install_is_said_before_the_first_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "metaworld", None)
    world = load_suite("metaworld_mt10").tasks[0].world
    with pytest.raises(VlaError, match=r"metaworld cannot be imported .*pip install 'pytest-vla\[metaworld\]'"):
        world.check_installed()  # type: ignore[union-attr]


BESIDE = """
import importlib.util, os, sys, types
os.environ["MUJOCO_GL"] = "egl"
lerobot, processor = types.ModuleType("lerobot"), types.ModuleType("lerobot.processor")
processor.RobotObservation = dict
sys.modules |= {"lerobot": lerobot, "lerobot.processor": processor}
spec = importlib.util.spec_from_file_location("theirs", sys.argv[1])
theirs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(theirs)
import numpy as np
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.suites.metaworld.tasks import _suite

for name in ("reach", "push", "pick_place", "door_open", "stick_pull", "coffee_button"):
    task = _suite("metaworld", (name,)).tasks[0]
    world, env = WorldPool(True)(task), theirs.MetaworldEnv(
        f"metaworld-{name.replace('_', '-')}-v3", obs_type="pixels_agent_pos"
    )
    np.random.seed(7)
    seen, _ = env.reset(seed=7)
    ours, drawn, first = world.reset(0, 7), np.random.default_rng(7), seen["pixels"].copy()
    for step in range(101):
        assert np.array_equal(seen["agent_pos"], ours["state"]), (name, step)
        assert np.array_equal(seen["pixels"], ours["corner2_image"]), (name, step)
        action = drawn.uniform(-1, 1, 4)
        seen, _, ended, _, _ = env.step(action.astype(np.float32))
        ours = world.step(action)
        assert ended == world.success(), (name, step)
        if ended:
            break
    # Nothing is left of the episode before.
    assert np.array_equal(world.reset(0, 7)["corner2_image"], first), name
    print("equal:", name)
"""


@pytest.mark.slow
@pytest.mark.study
def test_states_and_pictures_are_those_of_lerobots_environment(tmp_path: Path) -> None:
    """lerobot's environment is one file of its package; the rest of lerobot is not installed."""
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")
    needed = ["metaworld==3.1.1", "packaging", "pytest", "pytest-xdist", "msgpack", "pillow", "av", "filelock"]
    wheel_of = ["download", "-q", "--no-deps", "-d", str(tmp_path), "lerobot==0.4.4"]
    for arguments in (["install", "-q", *needed], wheel_of):
        subprocess.run([python, "-m", "pip", *arguments], check=True)
    (wheel,) = tmp_path.glob("lerobot*.whl")
    subprocess.run([python, "-m", "zipfile", "-e", str(wheel), str(tmp_path / "lerobot")], check=True)
    script = tmp_path / "beside.py"
    script.write_text(BESIDE)
    home = str(Path(str(pytest_vla.__file__)).parents[1])
    theirs = str(tmp_path / "lerobot" / "lerobot" / "envs" / "metaworld.py")
    environment = {**os.environ, "PYTHONPATH": home}
    done = subprocess.run([python, str(script), theirs], env=environment, capture_output=True, text=True)
    assert done.stdout.count("equal:") == 6, done.stdout + done.stderr
