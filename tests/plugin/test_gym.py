"""Suites of gymnasium environments, on a module in gymnasium's place; the real ones are slow and need a network."""

import os
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pytest_vla
from pytest_vla import gym
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import Suite
from pytest_vla.policies import fit
from pytest_vla.policies.fit import Traits
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import load_trajectory, trajectory_file
from pytest_vla.testing import check_world
from tests.support import gymnasium_like
from tests.support.runs import digests, records_of

Run = Callable[..., pytest.RunResult]

CONFTEST = """
    from pytest_vla import gym
    from pytest_vla.entries import SuiteEntry

    def pytest_vla_suites():
        return [SuiteEntry("cart", "a cart", ":cart"), SuiteEntry("lamp", "a lamp", ":lamp"),
                SuiteEntry("dimmer", "a lamp", ":dimmer")]

    def cart():
        far = gym.GymTask("push the cart far away", options=(("far", 0.8),), reset=(("further", 0.1),))
        return gym.suite("cart", "Cart-v0", tasks={"near": "push the cart onto the goal", "far": far}, seeds=(0, 1),
                         image_size=(32, 64))

    def lamp():
        return gym.suite("lamp", "Lamp-v0", instruction="make it bright, not too bright", success="bright",
                         max_steps=40, image_size=(16, 16))

    def dimmer():
        return gym.suite("dimmer", "Lamp-v0", instruction="make it bright", success="bright", max_steps=40,
                         image_size=(16, 16), action=gym.UNSCALED)
"""

POLICIES = """
    import numpy as np

    def to_goal(episode, gain=4.0):
        def act(observation):
            at, speed = observation["observation"]
            assert list(observation["state"]) == [at, speed, *observation["desired_goal"]]
            assert observation["view_image"].shape == (32, 64, 3)
            return np.clip(gain * (observation["desired_goal"] - at), -1, 1)
        return act

    def light(episode, power=-0.8):
        def act(observation):
            assert observation["pixels_image"].shape == (16, 16, 3) and list(observation["state"])
            return np.array([power, -1.0])
        return act

    def dim(episode, power=5.0):
        assert episode.action_bounds == ((0, 10), (0, 10))
        return lambda observation: np.array([power, 0.0])
"""


@pytest.fixture
def in_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", gymnasium_like)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(gymnasium=Path(gymnasium_like.__file__).read_text(), driving=POLICIES)
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_VLA_DATA"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: pytester.runpytest_subprocess("-p", "no:hypothesispytest", *arguments)


def test_an_environment_is_a_suite(project: Run, pytester: pytest.Pytester) -> None:
    base = ("--vla-suite=cart", "--vla-model=driving:to_goal")
    project(*base, "--vla-video=all").assert_outcomes(passed=4)
    found = {record.case: record for record in records_of(pytester.path / ".vla")}
    assert found["cart/far[seed1]"].instruction == "push the cart far away"
    assert found["cart/far[seed1]"].steps > found["cart/near[seed1]"].steps
    assert found["cart/near[seed0]"].provenance["environment"] == "Cart-v0"
    assert found["cart/near[seed0]"].protocol["max_steps"] == 30
    assert len(list((pytester.path / ".vla").rglob("*.mp4"))) == 4
    once = digests(pytester.path / ".vla")
    project(*base, "-n2").assert_outcomes(passed=4)
    assert digests(pytester.path / ".vla") == once
    varied = project(*base, "--vla-tasks=near", "--vla-seeds=0", "--vla-vary=noise.gaussian:1,action.noise:1,light:3")
    varied.assert_outcomes(passed=2)
    varied.stdout.fnmatch_lines(["vla: left out: light.diffuse, *the suite's world shows none"])


def test_pictures_action_bounds_and_an_end_of_the_environments_own(project: Run, pytester: pytest.Pytester) -> None:
    project("--vla-suite=lamp", "--vla-model=driving:light", "--vla-seeds=2").assert_outcomes(passed=1)
    (record,) = records_of(pytester.path / ".vla")
    # -0.8 of [-1, 1] is 1 of [0, 10].
    assert (record.outcome, record.steps) == ("success", 31)
    assert record.eef_pos is None
    # From dark to too bright in one step: done, and the end too.
    project("--vla-suite=lamp", "--vla-model=driving:light?power=1", "--vla-seeds=5").assert_outcomes(passed=1)
    project("--vla-suite=lamp", "--vla-model=driving:light?power=-1", "--vla-seeds=0").assert_outcomes(failed=1)
    (record,) = records_of(pytester.path / ".vla")
    assert (record.outcome, record.steps) == ("failure", 40)


def test_unscaled_actions_are_the_environments_own(project: Run, pytester: pytest.Pytester) -> None:
    results = pytester.path / ".vla"

    def run(*arguments: str) -> Record:
        project("--vla-suite=dimmer", "--vla-seeds=0", *arguments)
        (record,) = records_of(results)
        return record

    ended = run("--vla-model=driving:dim")
    # 0 to 55 by steps of 5: more than 50 is bright.
    assert (ended.outcome, ended.steps, ended.metrics["clipped_actions"]) == ("success", 11, 0)
    assert (ended.protocol["out_of_range"], ended.protocol["action_bounds"]) == ("unscaled", [[0.0, 10.0]] * 2)
    # The environment refuses it itself.
    assert run("--vla-model=driving:dim?power=12").reason == "world-raised"
    drawn = run("--vla-model=random")
    assert drawn.arrays is not None
    actions = load_trajectory(trajectory_file(results / drawn.run, drawn.arrays)).actions
    assert actions.min() >= 0
    assert actions.max() > 5
    assert run(f"--vla-model=replay:{results / drawn.run}").digest == drawn.digest
    # The first action, and the same one late.
    assert run("--vla-model=driving:dim", "--vla-vary=action.delay:3").steps == 11
    assert run("--vla-model=driving:dim", "--vla-vary=action.latency:1").reason == "world-protocol"


@pytest.mark.usefixtures("in_its_place")
def test_what_an_environment_gives_is_read_from_its_spaces() -> None:
    cart = gym.suite("cart", "Cart-v0", instruction="push")
    assert cart.protocol.vectors == (("observation", 2), ("desired_goal", 1), ("state", 3))
    assert (cart.protocol.action_size, cart.protocol.cameras, cart.protocol.control_freq) == (1, ("view",), 10)
    assert [task.name for task in cart.tasks] == ["cart"]
    flat = gym.suite("flat", "Flat-v0", instruction="push", cameras=("left", "right"))
    assert flat.protocol.vectors == (("state", 3),)
    assert flat.protocol.cameras == ("left", "right")
    goal_first = gym.suite("cart", "Cart-v0", instruction="push", state=("desired_goal", "observation"), cameras={})
    world = goal_first.tasks[0].world
    assert world is not None
    lamp = gym.suite(
        "lamp", "Lamp-v0", instruction="bright", success=lambda seen, reward, over, info: seen["level"] > 9
    )
    assert lamp.protocol.cameras == ("pixels",)
    for suite in (cart, flat, goal_first, lamp):
        check_world(suite.tasks[0])


@pytest.mark.usefixtures("in_its_place")
def test_bounds_that_an_action_lacks_are_near_the_others() -> None:
    half = gym.suite("half", gymnasium_like.HalfOpen, instruction="push", action=gym.UNSCALED)
    assert half.protocol.action_bounds == ((0.0, 2.0), (3.0, 5.0), (-1.0, 1.0), (0.0, 5.0))


def driven(suite: Suite, steps: int) -> None:
    make = suite.tasks[0].world
    assert make is not None
    world = make(suite.tasks[0])
    world.reset(Case(suite.name, suite.tasks[0].name, 0))
    for _ in range(steps):
        world.step(np.zeros(1))


@pytest.mark.usefixtures("in_its_place")
def test_a_success_key_that_info_never_has_is_an_error_that_names_the_keys() -> None:
    missing = gym.suite("rated", "Rated-v0", instruction="push", max_steps=3)
    driven(missing, 2)
    with pytest.raises(EpisodeError, match=r"'is_success' .* its keys are reward_parts, success") as raised:
        driven(missing, 3)
    assert raised.value.reason == "world-protocol"
    with pytest.raises(EpisodeError, match=r"info\['success'\] is 0.5, neither true nor false"):
        driven(gym.suite("rated", "Rated-v0", instruction="push", success="success"), 1)


@pytest.mark.usefixtures("in_its_place")
def test_an_environment_that_ignores_its_seed_says_so_in_records() -> None:
    drifting = gym.suite("drifting", "Drifting-v0", instruction="push", seeded=False)
    make = drifting.tasks[0].world
    assert make is not None
    assert make(drifting.tasks[0]).provenance()["seeds"] == "ignored by the environment"


@pytest.mark.usefixtures("in_its_place")
def test_an_environment_whose_spaces_are_given_needs_no_observation_space() -> None:
    with pytest.raises(VlaError, match="its observation state is None; expected a Box"):
        gym.suite("bare", gymnasium_like.Bare, instruction="push")
    spaces = gym.GymSpaces(1, (("observation", 2), ("desired_goal", 1)))
    check_world(gym.suite("bare", gymnasium_like.Bare, instruction="push", spaces=spaces).tasks[0])


@pytest.mark.usefixtures("in_its_place")
@pytest.mark.parametrize(
    ("env", "table", "complaint"),
    [
        ("Boat-v0", {"instruction": "x"}, "Boat-v0: it cannot be made: KeyError: 'no environment Boat-v0'"),
        ("Choosing-v0", {"instruction": "x"}, "its actions are .*; expected a Box of one dimension"),
        (gymnasium_like.Pressing, {"instruction": "x"}, "its actions are .*; expected a Box of one dimension"),
        (gymnasium_like.Nested, {"instruction": "x"}, "its observation observation is .*; expected a Box, or a Dict"),
        (gymnasium_like.Early, {"instruction": "x"}, "its reset returned .*; expected an observation and"),
        (
            gymnasium_like.nothing,
            {"instruction": "x"},
            "nothing returned None, which is no environment: it has no reset",
        ),
        ("Cart-v0", {}, "give either instruction, for one task, or tasks"),
        ("Cart-v0", {"tasks": {"a b": "x"}}, "tasks are named by letters, digits and _"),
        ("Cart-v0", {"instruction": "x", "action": "raw"}, "action is 'raw', expected a function or gym.UNSCALED"),
        ("Cart-v0", {"instruction": "x", "state": ("speed",)}, "state has speed; its vectors are observation, desired"),
        ("Cart-v0", {"instruction": "x", "cameras": {"top": "pixels"}}, "'pixels' is not a picture"),
        ("Cart-v0", {"instruction": "x", "packages": ["no_such_package"]}, "No module named 'no_such_package'"),
        ("Drifting-v0", {"instruction": "x"}, r"two resets with seed 0 .* \(observation\): .* seeded=False"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(env: Any, table: dict[str, Any], complaint: str) -> None:
    with pytest.raises(VlaError, match=complaint):
        gym.suite("mine", env, **table)


def test_gymnasium_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(VlaError, match=r"gymnasium cannot be imported .*pip install 'pytest-vla\[gym\]'"):
        gym.suite("cart", "Cart-v0", instruction="x")


@pytest.mark.usefixtures("in_its_place")
def test_a_policy_that_says_what_it_takes_is_held_against_the_suite() -> None:
    cart = gym.suite("cart", "Cart-v0", instruction="push")
    assert fit.check_fit(Traits(action_size=1, reads=("state",), action_convention="relative"), cart) == ()
    found = fit.check_fit(Traits(action_size=7, reads=("agentview_image",), state_size=8), cart)
    assert [finding.code for finding in found] == ["VLA-P001", "VLA-P005", "VLA-P008"]
    assert "cart takes 1" in found[0].message
    # A remedy for LIBERO's robot would mislead.
    assert "7 values:" not in found[0].message
    assert "robot0_" not in found[2].message


REAL = """
    from pytest_vla import gym
    from pytest_vla.entries import SuiteEntry

    def pytest_vla_suites():
        return [SuiteEntry("reach", "FetchReach", ":reach")]

    def reach():
        return gym.suite("reach", "FetchReach-v4", instruction="move the gripper to the red point",
                         packages=["gymnasium_robotics"], image_size=(128, 128))
"""

REAL_POLICIES = """
    import numpy as np

    def reach(episode):
        return lambda seen: np.clip([*(5 * (seen["desired_goal"] - seen["achieved_goal"])), 0], -1, 1)

    def circle(episode):
        steps = iter(range(1000))
        def act(seen):
            assert seen["top_image"].std() > 0
            turn = next(steps) / 10
            return 256 + 128 * np.array([np.cos(turn), np.sin(turn)])
        return act
"""


@pytest.mark.slow
def test_two_real_environments_run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """FetchReach and PushT from the package index, in an environment of their own: their pins clash with ours."""
    place = pytester.path / "env"
    venv.create(place, with_pip=True)
    python = str(place / "bin" / "python")
    packages = ["gymnasium", "gymnasium-robotics", "gym-pusht", "mujoco==3.3.7", "pytest", "pytest-xdist"]
    packages += ["scipy", "msgpack", "pillow", "av", "filelock"]
    installed = subprocess.run([python, "-m", "pip", "install", "-q", *packages], capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"the package index does not give them: {installed.stderr.strip().splitlines()[-1:]}")
    pytester.makeconftest(REAL)
    pytester.makepyfile(moving=REAL_POLICIES)
    home = str(Path(str(pytest_vla.__file__)).parents[1])
    # A checkout that was installed has its entry points beside it, and would be found twice.
    environment = {**os.environ, "PYTHONPATH": home, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    def run(*arguments: str) -> str:
        command = [python, "-m", "pytest", "-p", "pytest_vla.plugin", "-p", "xdist.plugin", *arguments]
        done = subprocess.run(command, cwd=pytester.path, env=environment, capture_output=True, text=True)
        return done.stdout + done.stderr

    told = run("--vla-suite=reach", "--vla-model=moving:reach", "--vla-episodes=3", "--vla-video=all")
    assert "3 passed" in told, told
    assert "3 videos" in told, told
    once = digests(pytester.path / ".vla")
    assert "3 passed" in run("--vla-suite=reach", "--vla-model=moving:reach", "--vla-episodes=3", "-n2")
    assert digests(pytester.path / ".vla") == once
    told = run("--vla-suite=pusht", "--vla-model=moving:circle", "--vla-episodes=2", "--vla-video=all", "-n2")
    assert "2 failed" in told, told
    assert "2 videos" in told, told
    assert {record.outcome for record in records_of(pytester.path / ".vla")} == {"failure"}
