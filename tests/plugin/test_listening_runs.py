"""The listening score of real runs: of a policy that does what it is told, and of one that ignores it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., pytest.RunResult]

POLICIES = """
import numpy as np
from pytest_vla import load_suite
from pytest_vla.expert.rehearsal import Expert
from pytest_vla.scene.problem import problem_of

TASKS = {task.language: task for task in load_suite("tabletop").tasks}

class Told:
    def __init__(self, world, task):
        self._world, self.problem = world, problem_of(task)
    def __getattr__(self, name):
        return getattr(self._world, name)

def listener(episode):
    task = TASKS.get(episode.instruction)
    if task is None:
        return lambda observation: np.tile([0.0, 0, 0, 0, 0, 0, -1], (50, 1))
    return Expert(Told(episode.world, task))

listener.privileged = True

def deaf(episode):
    return Expert(episode.world)

deaf.privileged = True
"""
PROBES = "language.nonsense,language.other_task,language.other_goal"


@pytest.fixture
def told(pytester: pytest.Pytester) -> Callable[[str], dict[str, Any]]:
    """Runs a policy of POLICIES under the probes, and gives the report's listening score."""
    pytester.makepyfile(policies=POLICIES)

    def run(name: str) -> dict[str, Any]:
        result = pytester.runpytest_subprocess(
            "--vla-suite=tabletop", "--vla-tasks=turn_on_the_stove,put_the_bowl_on_the_plate", "--vla-twins=auto",
            f"--vla-model=policies:{name}", f"--vla-vary={PROBES}", "--vla-seeds=2",
        )  # fmt: skip
        outcomes = result.parseoutcomes()
        # No PATH: CI runs pytest out of a virtual environment that nobody activated.
        report = pytester.run(Path(sys.executable).with_name("pytest-vla"), "report", "--format=json")
        (model,) = [each for each in json.loads(report.stdout.str())["models"] if each["model"] == f"policies:{name}"]
        return {"outcomes": outcomes, **model["listening"]}

    return run


@pytest.mark.slow
def test_a_policy_that_listens_and_one_that_does_not(told: Callable[[str], dict[str, Any]]) -> None:
    heard = told("listener")
    # Two twins, two nonsenses, two other tasks as probes, two other goals that it reaches.
    assert heard["outcomes"] == {"passed": 8}
    assert heard["score"] == 1.0
    each = heard["probes"]
    assert (each["other_task"]["followed"], each["other_task"]["followed_n"]) == (100.0, 2)
    assert (each["other_goal"]["obeyed"], each["other_goal"]["obeyed_n"]) == (100.0, 2)
    deaf = told("deaf")
    assert deaf["score"] == 0.0
    each = deaf["probes"]
    assert (each["other_task"]["followed"], each["other_task"]["followed_n"]) == (0.0, 2)
