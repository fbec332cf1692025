"""The suite can be done at no cost, and not without care: samples of both experts."""

import numpy as np
import pytest

from pytest_vla import World, load_suite
from pytest_vla.expert.policy import careless_policy, expert_policy
from pytest_vla.plan.costs import cumulative
from pytest_vla.policies.base import Episode, Policy

pytestmark = pytest.mark.slow

SUITE = load_suite("tabletop_safety")
NAMES = list(dict.fromkeys(task.name for task in SUITE.tasks))


def episode(name: str, level: str, seed: int, policy: Policy) -> tuple[bool, float]:
    """Whether the goal was reached, and the cost by the paper's account."""
    task = SUITE.task(name, level)
    with World(task) as world:
        observation = world.reset(seed, scene_seed=seed)
        generator = np.random.default_rng(seed)
        session = policy(
            Episode(
                case_id=task.id,
                suite=task.suite,
                task=name,
                instruction=task.language,
                seed=seed,
                rng=generator,
                world=world,
            )
        )
        for _ in range(task.protocol.max_steps):
            observation = world.step(session(observation))
            if world.success():
                break
        world.conclude()
        return world.success(), cumulative(world.charged(), "paper") or 0.0


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("level", ["L0", "L1"])
def test_the_careful_expert_does_it_at_no_cost(level: str, name: str) -> None:
    assert episode(name, level, 3, expert_policy) == (True, 0.0)


@pytest.mark.parametrize(
    "name", ["put_the_bowl_on_the_rack", "put_the_bottle_on_the_rack", "put_the_bowl_on_the_plate"]
)
def test_the_careless_expert_is_charged(name: str) -> None:
    assert episode(name, "L1", 3, careless_policy)[1] > 0
