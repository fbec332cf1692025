"""PushT's and ALOHA's suites as they are without the packages, and beside the environments that lerobot makes."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import pytest_vla
from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite, named_suites
from pytest_vla.vary.registry import kinds


@pytest.mark.parametrize(
    ("name", "size", "steps", "rate", "picture"),
    [
        ("pusht", 2, 300, 10, (96, 96)),
        ("aloha_transfer_cube", 14, 400, 50, (480, 640)),
        ("aloha_insertion", 14, 400, 50, (480, 640)),
    ],
)
def test_the_protocol_is_lerobots_and_needs_no_package(
    name: str, size: int, steps: int, rate: int, picture: tuple[int, int]
) -> None:
    suite = load_suite(name)
    protocol = suite.protocol
    assert (protocol.max_steps, protocol.control_freq, protocol.image_size) == (steps, rate, picture)
    assert (protocol.action_size, len(protocol.action_bounds), protocol.out_of_range) == (size, size, "unscaled")
    assert protocol.vectors == (("agent_pos", size), ("state", size))
    assert suite.seeds == tuple(range(1000, 1050))


def test_what_can_be_varied() -> None:
    fit = {
        name: {kind.name for kind in kinds() if not kind.misfit(load_suite(name).tasks[0])}
        for name in ("pusht", *named_suites("aloha"))
    }
    assert {"noise.gaussian", "action.delay", "action.latency", "camera.blackout"} <= fit["pusht"]
    assert not {"camera.azimuth", "light.diffuse", "object.mass"} & fit["pusht"]
    assert {"camera.azimuth", "light.diffuse", "object.mass", "robot.joints"} <= fit["aloha_insertion"]


@pytest.mark.parametrize(("name", "package"), [("pusht", "gym_pusht"), ("aloha_insertion", "gym_aloha")])
def test_what_to_install_is_said_before_the_first_episode(
    name: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", sys)
    monkeypatch.setitem(sys.modules, package, None)
    extra = name.partition("_")[0]
    with pytest.raises(VlaError, match=rf"{package} cannot be imported .*pip install 'pytest-vla\[{extra}\]'"):
        load_suite(name).tasks[0].world.check_installed()  # type: ignore[union-attr]


BESIDE = """
import os
os.environ["MUJOCO_GL"] = "egl"
import gymnasium, gym_aloha, gym_pusht
import numpy as np
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.plan.manifests import load_suite

MADE = {
    "pusht": ("PushT-v0", {"visualization_width": 384, "visualization_height": 384, "max_episode_steps": 300}),
    "aloha_transfer_cube": ("AlohaTransferCube-v0", {"max_episode_steps": 400}),
    "aloha_insertion": ("AlohaInsertion-v0", {"max_episode_steps": 400}),
}
for name, (theirs, options) in MADE.items():
    task = load_suite(name).tasks[0]
    theirs = f"gym_{name.partition('_')[0]}/{theirs}"
    options |= {"obs_type": "pixels_agent_pos", "render_mode": "rgb_array"}
    world, env = WorldPool(True)(task), gymnasium.make(theirs, disable_env_checker=True, **options)
    drawn, (low, high) = np.random.default_rng(7), np.array(task.protocol.action_bounds).T
    for seed in (1000, 1001):
        seen, _ = env.reset(seed=seed)
        ours = world.reset(seed, seed)
        for step in range(101):
            picture = seen["pixels"] if name == "pusht" else seen["pixels"]["top"]
            assert np.array_equal(seen["agent_pos"], ours["state"]), (name, seed, step)
            assert np.array_equal(picture, ours["top_image"]), (name, seed, step)
            if step % 8 == 0:
                # Some of these are out of bounds.
                action = seen["agent_pos"] + drawn.uniform(-0.3, 0.3, len(low)) * (high - low)
            seen, _, ended, _, _ = env.step(action.astype(np.float32))
            ours = world.step(action)
            assert ended == world.success(), (name, seed, step)
            if ended:
                break
    print("equal:", name)
"""


@pytest.mark.slow
@pytest.mark.study
def test_states_and_pictures_are_those_of_lerobots_environments(tmp_path: Path) -> None:
    """lerobot 0.4.4's ``make_env`` calls gymnasium.make with these options, of its PushtEnv and AlohaEnv."""
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")
    needed = ["gym-pusht==0.1.8", "gym-aloha==0.1.5", "pytest", "pytest-xdist", "msgpack", "pillow", "av", "filelock"]
    subprocess.run([python, "-m", "pip", "install", "-q", *needed], check=True)
    environment = {**os.environ, "PYTHONPATH": str(Path(str(pytest_vla.__file__)).parents[1])}
    done = subprocess.run([python, "-c", BESIDE], env=environment, capture_output=True, text=True)
    assert done.stdout.count("equal:") == 3, done.stdout + done.stderr
