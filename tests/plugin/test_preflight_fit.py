"""What a policy says of itself is held against the suite before the first rollout, wherever the policy is."""

from collections.abc import Callable

import pytest

from tests.support.runs import last_records, run_names
from tests.support.workers import ALONE, BOTH

Run = Callable[..., pytest.RunResult]
GOAL = ("--vla-suite=libero_goal", "--vla-tasks=stove")

POLICIES = """
import numpy as np

class Batched:
    max_batch, reads = 4, ("state",)
    def __init__(self, **traits):
        self.traits = traits
    def begin(self, episode):
        pass
    def act(self, states, observations):
        return [np.array([1.0, 0, 0, 0, 0, 0, -1]) for state in states]

def plain(episode):
    return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, -1])

plain.traits = {"gripper": "1 opens, -1 closes", "rotation": "rotation_6d"}
def plain_slow(episode):
    return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, -1])

plain_slow.traits = {"control_freq": 10}
def posing(episode):
    return lambda observation: np.array([0.4, 0.1, 1.2, 3.1, 0, 0, -1])

posing.traits = {"action_convention": "absolute"}
def silent(episode):
    return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, -1])

good = Batched(action_size=7, action_convention="relative", gripper="-1 opens, 1 closes", image_transform="rotate_180")
bad = Batched(action_size=8, reads=("third_eye_image",))
slow = Batched(control_freq=10)
short = Batched(chunk=1)
wrong = Batched(grip=1)
"""


@pytest.fixture(autouse=True)
def fitting(project: pytest.Pytester) -> None:
    project.makepyfile(fitting=POLICIES)


@BOTH
def test_a_policy_that_does_not_fit_stops_the_run(vla: Run, project: pytest.Pytester, workers: str) -> None:
    result = vla(*GOAL, "--vla-model=fitting:bad", "--vla-seeds=0-9", workers)
    told = result.stdout.str() + result.stderr.str()
    assert result.ret in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
    assert "the policy does not fit: --vla-model=fitting:bad and libero_goal" in told
    assert "\n  VLA-P001: the policy's actions have 8 values, but libero_goal takes 7; " in told.replace("\nE ", "\n")
    assert "VLA-P005: the policy reads third_eye_image, but libero_goal has " in told
    assert told.count("VLA-P001") <= 3, "not one error an episode"
    assert run_names(project.path / ".vla") == []


@ALONE
def test_more_steps_than_a_chunk_has_stop_the_run(vla: Run, project: pytest.Pytester, workers: str) -> None:
    result = vla(*GOAL, "--vla-model=fitting:short", "--vla-replan=2", workers)
    assert result.ret != 0
    assert (
        "VLA-P013: --vla-replan=2, but the policy's chunks have 1 action; " in result.stdout.str() + result.stderr.str()
    )
    assert run_names(project.path / ".vla") == []
    assert vla(*GOAL, "--vla-model=fitting:short", "--vla-replan=1", workers).ret == 0


def test_a_plain_policy_says_it_in_each_worker(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*GOAL, "--vla-model=fitting:plain", "--vla-seeds=0-9", "-n2")
    assert result.ret != 0
    result.stdout.fnmatch_lines(
        ["*VLA-P003: the policy's rotations are rotation_6d, *", "*VLA-P004: the policy's gripper is*"]
    )
    assert result.parseoutcomes()["errors"] <= 4, "not one error an episode"
    assert run_names(project.path / ".vla") == []


def test_absolute_actions_are_executed_as_they_are_by_the_default_evaluator(vla: Run, project: pytest.Pytester) -> None:
    assert vla(*GOAL, "--vla-model=fitting:posing").ret != pytest.ExitCode.USAGE_ERROR
    records = last_records(project.path / ".vla").values()
    assert {record.protocol["control"] for record in records} == {"absolute"}
    assert {record.metrics["clipped_actions"] for record in records} == {0}


@pytest.mark.parametrize(
    ("evaluator", "policy"), [("openpi", "posing"), ("x-vla", "good"), ("ours", "posing --vla-vary=action")]
)
def test_what_takes_other_actions_stops_the_run(
    vla: Run, project: pytest.Pytester, evaluator: str, policy: str
) -> None:
    result = vla(*GOAL, f"--vla-evaluator={evaluator}", *f"--vla-model=fitting:{policy}".split(), "-n0")
    assert "VLA-P002: the policy's actions are " in result.stdout.str() + result.stderr.str()
    assert run_names(project.path / ".vla") == []


def test_poses_are_taken_from_policies_that_say_so_only(vla: Run, project: pytest.Pytester) -> None:
    result = vla(*GOAL, "--vla-evaluator=x-vla", "--vla-model=fitting:silent", "-n0")
    told = result.stdout.str() + result.stderr.str()
    assert "VLA-P002: the policy does not say that its actions are absolute" in told
    assert "'action_convention': 'absolute'" in told
    assert run_names(project.path / ".vla") == []


@ALONE
@pytest.mark.parametrize("policy", ["slow", "plain_slow"])
def test_what_may_be_meant_is_told_once_and_runs(vla: Run, project: pytest.Pytester, policy: str, workers: str) -> None:
    result = vla(*GOAL, f"--vla-model=fitting:{policy}", "--vla-seeds=0-3", workers)
    assert result.ret == 0
    assert result.stdout.str().count("VLA-P009: the policy was trained at 10 Hz, but libero_goal runs at 20 Hz") == 1
    assert len(last_records(project.path / ".vla")) == 12


@ALONE
def test_one_that_fits_is_not_talked_about(vla: Run, workers: str) -> None:
    assert "VLA-P" not in vla(*GOAL, "--vla-model=fitting:good", workers).stdout.str()


@ALONE
def test_traits_that_are_none(vla: Run, workers: str) -> None:
    result = vla(*GOAL, "--vla-model=fitting:wrong", workers)
    assert result.ret != 0
    assert "a policy's traits: there is no 'grip'. Did you mean gripper?" in result.stdout.str() + result.stderr.str()
    assert "INTERNALERROR" not in result.stdout.str()


def test_own_tests_are_held_against_their_suites(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(
        test_mine="""
        import pytest
        @pytest.mark.vla(suite="libero_goal", tasks="stove")
        def test_stove(rollout):
            assert rollout.success
        """
    )
    result = vla("--vla-model=fitting:bad")
    result.stdout.fnmatch_lines(["*VLA-P001: *"])
    assert result.ret != 0
