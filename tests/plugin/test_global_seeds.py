"""Policies that draw from global generators: a run of them repeats."""

from collections.abc import Callable

import pytest

from tests.support.runs import digests

Run = Callable[..., pytest.RunResult]

CARELESS = """
import random

import numpy as np

def draw(bias):
    return np.array([bias, random.uniform(-0.5, 0.5), np.random.uniform(-0.5, 0.5), 0, 0, 0, -1])

def policy(episode):
    bias = random.uniform(-0.2, -0.1)
    return lambda observation: draw(bias)

class Batched:
    max_batch = 8
    reads = ("state",)

    def begin(self, episode):
        return random.uniform(-0.2, -0.1)

    def act(self, states, observations):
        return [draw(bias) for bias in states]

batched = Batched()
"""
EPISODES = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove", "--vla-seeds=0-3")


@pytest.mark.slow
def test_a_policy_that_draws_from_global_generators_repeats(vla: Run, project: pytest.Pytester) -> None:
    project.makepyfile(careless=CARELESS)
    found = []
    # Alone in one process, in several, and in a process of its own that is asked one question at a time.
    for model, *how in (
        ("policy",),
        ("policy", "-n2"),
        ("batched",),
        ("batched", "-n2", "--vla-max-batch=1"),
        ("policy", "--vla-run-seed=1"),
    ):
        vla(*EPISODES, f"--vla-model=careless:{model}", *how).assert_outcomes(failed=4)
        found.append(digests(project.path / ".vla"))
    first, *same, other = found
    assert len(set(first.values())) == 4
    assert all(each == first for each in same)
    assert set(other.values()).isdisjoint(first.values())
