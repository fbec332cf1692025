"""``vla_play``: tests of the user's own play scenes, Hypothesis's too, on one world, and nothing of it is recorded."""

from collections.abc import Callable

import numpy as np  # noqa: F401  # Before pytester, which would have it imported twice.
import pytest

from tests.support.searched import EXPERT, POLICIES
from tests.support.slow import slow

Run = Callable[..., pytest.RunResult]

HEAD = """
from hypothesis import given, settings
from pytest_vla.strategies import Scene, scenes

STOVE = ("tabletop", "turn_on_the_stove")
few = settings(max_examples=20, deadline=None, database=None, derandomize=True)
"""


@pytest.fixture
def mine(project: pytest.Pytester) -> Callable[[str], None]:
    (project.path / "policies.py").write_text(POLICIES)
    (project.path / "test_mine.py").unlink()
    project.makeconftest(EXPERT)

    def write(text: str) -> None:
        project.makepyfile(test_scenes=HEAD + text)

    return write


@pytest.mark.parametrize("workers", ["-n0", slow("-n1")])
def test_hypothesis_finds_the_smallest_scene(
    vla: Run, mine: Callable[[str], None], project: pytest.Pytester, workers: str
) -> None:
    mine("""
@few
@given(scene=scenes(*STOVE, dimensions="action", max_changes=1))
def test_it(vla_play, scene):
    assert vla_play(scene).success
""")
    result = vla("--vla-model=policies:impatient", workers)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*(Scene('tabletop', 'turn_on_the_stove', seed=0, changes={'action.delay': {'steps': 3}}))*"]
    )
    assert not (project.path / ".vla").exists(), "no episode of it is recorded"
    vla("--vla-model=policies:straight", workers).assert_outcomes(passed=1)


def test_what_an_ended_scene_says(vla: Run, mine: Callable[[str], None]) -> None:
    mine("""
def test_it(vla_play):
    twin = vla_play(Scene(*STOVE))
    assert (twin.success, twin.failed, twin.outcome) == (True, False, "success")
    late = Scene(*STOVE, seed=3, changes={"action.delay": {"steps": 4}})
    ended = vla_play(late)
    assert (ended.success, ended.failed, ended.outcome) == (False, True, "failure")
    assert ended.record.variation["parameters"]["steps"] == 4 and ended.record.seed == 3
    assert vla_play.solvable(late) and vla_play.solvable(late.twin)
    assert vla_play(Scene(*STOVE).told("start the stove")).record.instruction == "start the stove"
""")
    vla("--vla-model=policies:impatient").assert_outcomes(passed=1)


def test_what_should_not_be_done_is_not_solvable(vla: Run, mine: Callable[[str], None]) -> None:
    mine("""
def test_it(vla_play):
    late = Scene(*STOVE, changes={"action.delay": {"steps": 4}})
    assert not vla_play.solvable(late), "the policy does not do the twin"
""")
    vla("--vla-model=policies:still").assert_outcomes(passed=1)


def test_a_world_is_reset_and_not_made_again(vla: Run, mine: Callable[[str], None]) -> None:
    mine("""
from pytest_vla.testing import World

@few
@given(scene=scenes(*STOVE, dimensions="action,noise,light", seeds="0-3"))
def test_it(vla_play, scene):
    played.append(vla_play(scene).record.digest)
    vla_play.solvable(scene)

played = []

def test_worlds():
    assert len(played) >= 10 and World.made == 1
""")
    vla("--vla-model=policies:impatient", "test_scenes.py").assert_outcomes(passed=2)


def test_what_cannot_be_measured_is_no_example(vla: Run, mine: Callable[[str], None]) -> None:
    mine("""
@few
@given(scene=scenes(*STOVE, dimensions="action", seeds=(13, 14)))
def test_it(vla_play, scene):
    # Of seed 13 the goal holds at once.
    assert vla_play(scene).record.seed == 14

def test_alone(vla_play):
    vla_play(Scene(*STOVE, seed=13))
""")
    vla("--vla-model=policies:straight").assert_outcomes(passed=1, skipped=1)


def test_without_a_policy_it_is_skipped_and_with_one_other_tests_are_left_out(
    vla: Run, mine: Callable[[str], None]
) -> None:
    mine("""
@few
@given(scene=scenes(*STOVE, dimensions="action"))
def test_it(vla_play, scene):
    vla_play(scene)

def test_other():
    pass
""")
    result = vla("-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*no policy: add --vla-model=*"])
    vla("--vla-model=policies:straight").assert_outcomes(passed=1, deselected=1)


def test_a_policy_that_breaks_fails_the_test_and_a_wrong_scene_is_named(vla: Run, mine: Callable[[str], None]) -> None:
    mine("""
def test_broken(vla_play):
    vla_play(Scene(*STOVE))

def test_wrong(vla_play):
    vla_play(Scene(*STOVE, changes={"camera.azimuth": {"azimuth_deg": 400.0}}))
""")
    result = vla("--vla-model=policies:broken")
    result.assert_outcomes(failed=2)
    broken = "Scene('tabletop', 'turn_on_the_stove', seed=0): error policy-raised *ZeroDivisionError*"
    result.stdout.fnmatch_lines([broken, "*VlaError: tabletop/turn_on_the_stove: camera.azimuth: *400.0*"])
