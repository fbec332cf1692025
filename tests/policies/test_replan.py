"""How many steps of a chunk are executed where a policy says so itself."""

from typing import Any

import numpy as np
import pytest

from pytest_vla.episode.result import Rollout
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.base import Episode, Session
from pytest_vla.testing import World


class Chunked:
    """Answers with chunks of ten steps."""

    def __init__(self, replan: Any) -> None:
        self.replan, self.asked = replan, 0

    def __call__(self, episode: Episode) -> Session:
        def act(observation: Any) -> Any:
            self.asked += 1
            return np.zeros((10, 7))

        return act


def run(policy: Chunked, **conditions: Any) -> Rollout:
    task = load_suite("libero_goal").task("turn_on_the_stove")
    return run_episode(Case("libero_goal", task.name, 0), task, policy, World, Conditions("mine", **conditions))


@pytest.mark.parametrize(
    ("own", "typed", "used"), [(5, None, 5), (5, 2, 2), (5, 10, 10), (None, None, None), (None, 3, 3)]
)
def test_what_is_typed_goes_before_what_the_policy_says(own: int | None, typed: int | None, used: int | None) -> None:
    policy = Chunked(own)
    record = run(policy, replan=typed).record
    assert record.replan == used
    assert policy.asked == 300 // (used or 10)


@pytest.mark.parametrize("own", [0, -1, True, 2.5, "5", len])
def test_what_is_no_number_of_steps_is_an_error(own: Any) -> None:
    record = run(Chunked(own)).record
    assert (record.outcome, record.reason, record.replan) == ("error", "policy-protocol", None)
    assert "a policy's replan is a number, 1 or more" in str(record.message)
