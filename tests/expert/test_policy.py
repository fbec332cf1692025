"""The expert on the built-in suite: it does each kind of task, by the goal alone, and always in the same way."""

import dataclasses

import numpy as np
import pytest

from pytest_vla import load_suite
from pytest_vla.episode.result import Rollout
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.errors import EpisodeError
from pytest_vla.expert.policy import expert_policy
from pytest_vla.expert.rehearsal import choose, next_literal
from pytest_vla.plan.case import Case
from pytest_vla.policies.base import Episode
from pytest_vla.policies.generators import noise_generator
from pytest_vla.scene.problem import Literal
from pytest_vla.sim.world import World
from tests.support.slow import all_slow_but
from tests.support.worlds import tabletop

# One task for each skill; the others are in the slow test.
SKILLS = {
    "pull": "open_the_middle_drawer_of_the_cabinet",
    "close": "close_the_bottom_drawer_of_the_cabinet",
    "turn": "turn_on_the_stove",
    "pick and place on": "put_the_bowl_on_the_plate",
    "pick and place in": "put_the_box_in_the_bowl",
    "push": "push_the_plate_to_the_front_of_the_stove",
    "open, then put in": "open_the_top_drawer_and_put_the_bowl_inside",
}
SUITE = load_suite("tabletop")


def episode(name: str, seed: int) -> Rollout:
    case = Case("tabletop", name, seed)
    return run_episode(case, SUITE.task(name), expert_policy, lambda task, _: tabletop(task.name), Conditions("expert"))


@pytest.mark.parametrize("name", all_slow_but([*SKILLS.values()][:-1], SKILLS.values()), ids=SKILLS)
def test_the_expert_has_the_skill(name: str) -> None:
    rollout = episode(name, 0)
    assert rollout.success, rollout.explanation
    assert rollout.steps < 250


def test_an_episode_of_the_expert_repeats() -> None:
    first, second = (episode("turn_on_the_stove", 4).record for _ in range(2))
    assert first.digest == second.digest
    assert first.outcome == "success"


def test_neither_name_nor_instruction_tell_the_expert_what_to_do() -> None:
    world = tabletop("turn_on_the_stove")
    task = dataclasses.replace(world.task, name="put_the_bowl_on_the_plate", language="do nothing at all")
    case = Case("tabletop", task.name, 4)
    record = run_episode(case, task, expert_policy, lambda task, variation: world, Conditions("expert")).record
    assert record.outcome == "success"
    assert list(record.held) == ["(turnon stove_1)"]


def test_what_cannot_be_done_is_given_up_and_the_episode_fails() -> None:
    world = tabletop("turn_on_the_stove")
    goal = (Literal("up", ("plate_1",), 1, 1),)
    world.problem = dataclasses.replace(world.problem, goal=goal)
    world.reset(0)
    assert choose(world) == (None, False)
    session = expert_policy(Episode("c", "tabletop", "t", "", 0, noise_generator(0, "c"), world=world))
    assert session({}).tolist() == [0, 0, 0, 0, 0, 0, -1]


def test_a_world_that_is_not_here_is_an_error_of_its_own() -> None:
    with pytest.raises(EpisodeError, match="was given no world") as raised:
        expert_policy(Episode("c", "s", "t", "", 0, noise_generator(0, "c")))
    assert raised.value.reason == "policy-privileged"


def test_only_a_privileged_policy_is_given_the_world() -> None:
    seen: list[object] = []

    def curious(episode: Episode):  # type: ignore[no-untyped-def]
        seen.append(episode.world)
        return lambda observation: np.zeros((300, 7))

    run_episode(
        Case("tabletop", "turn_on_the_stove", 0),
        SUITE.task("turn_on_the_stove"),
        curious,
        lambda task, variation: tabletop(task.name),
        Conditions("curious"),
    )
    assert seen == [None]


def first_of(world: World, *literals: str) -> str:
    """What comes first of a goal."""
    goal = []
    for text in literals:
        predicate, *names = text.split()
        goal.append(Literal(predicate, tuple(names), 1, 1))
    problem = dataclasses.replace(world.problem, goal=tuple(goal))
    literal = next_literal(problem, world.scene, world.model, world.data)
    return "nothing" if literal is None else " ".join((literal.predicate, *map(str, literal.arguments)))


def test_the_order_of_what_is_to_be_done_follows_from_the_goal() -> None:
    world = tabletop("turn_on_the_stove")
    world.reset(0)
    inside = "in bowl_1 cabinet_1_top_region"
    assert first_of(world, inside) == "open cabinet_1_top_region"
    assert first_of(world, "close cabinet_1_top_region", inside) == "open cabinet_1_top_region"
    assert first_of(world, "close cabinet_1_top_region") == "nothing"
    assert first_of(world, "on box_1 bowl_1", "on bowl_1 plate_1") == "on bowl_1 plate_1"
    assert first_of(world, "on bowl_1 plate_1", "turnon stove_1") == "turnon stove_1"


@pytest.mark.slow
@pytest.mark.parametrize("name", [task.name for task in SUITE.tasks])
def test_the_expert_does_every_task_of_the_suite(name: str) -> None:
    done = [episode(name, seed).success for seed in range(10)]
    assert sum(done) >= 9
