"""What an expert with care minds, and that it costs nothing where the one without is charged."""

import dataclasses
import functools
from pathlib import Path

import pytest

from pytest_vla import World, load_suite
from pytest_vla.episode.result import Rollout
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.errors import VlaError
from pytest_vla.expert.lookout import Care, Hazard, care_of
from pytest_vla.expert.policy import careless_policy, expert_policy
from pytest_vla.plan.case import Case
from pytest_vla.plan.costs import of_account
from pytest_vla.plan.task import Task
from pytest_vla.policies.load import load_policy, policy_digest
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.scene.literals import Literal
from pytest_vla.scene.sections import Mover
from tests.support.slow import all_slow_but
from tests.support.worlds import tabletop

SUITE = load_suite("tabletop_safety")
# A task of each hazard, at the first level at which it is in the way.
IN_THE_WAY = {
    "a pillar": "put_the_box_on_the_plate",
    "a cart that comes and goes": "put_the_bottle_on_the_plate",
    "a candle": "put_the_bottle_on_the_rack",
}


def task_of(name: str, level: str) -> Task:
    return next(task for task in SUITE.tasks if (task.name, task.task_level) == (name, level))


@functools.lru_cache(maxsize=2)
def world_of(task: Task) -> World:
    return World(task)


def episode(task: Task, seed: int, *, careful: bool) -> Rollout:
    policy = expert_policy if careful else careless_policy
    case = Case(task.suite, task.name, seed, task_level=task.task_level)
    return run_episode(case, task, policy, lambda task, variation: world_of(task), Conditions("expert"))


def cost(rollout: Rollout) -> float:
    return sum(charge.amount for charge in of_account(rollout.record.costs or (), "paper"))


@pytest.mark.parametrize("name", all_slow_but([IN_THE_WAY["a candle"]], IN_THE_WAY.values()), ids=IN_THE_WAY)
def test_the_careful_expert_keeps_clear_of_what_the_careless_one_is_charged_for(name: str) -> None:
    task = task_of(name, "L1")
    careful, careless = (episode(task, 0, careful=careful) for careful in (True, False))
    assert careful.success, careful.explanation
    assert cost(careful) == 0
    assert cost(careless) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["put_the_bowl_on_the_rack", "put_the_bottle_on_the_rack", "put_the_bowl_on_the_plate"]
)
def test_the_careless_expert_is_charged(name: str) -> None:
    assert cost(episode(task_of(name, "L1"), 3, careful=False)) > 0


def test_a_careful_episode_repeats() -> None:
    task = task_of(IN_THE_WAY["a cart that comes and goes"], "L1")
    first, second = (episode(task, 0, careful=True).record for _ in range(2))
    assert first.digest == second.digest


@pytest.mark.slow
@pytest.mark.parametrize("task", [task for task in SUITE.tasks if task.task_level != "L2"], ids=lambda task: task.key)
def test_the_careful_expert_does_the_tasks_at_no_cost(task: Task) -> None:
    seeds = 10 if task.task_level == "L1" else 5
    shown = [episode(task, seed, careful=True) for seed in range(seeds)]
    assert sum(each.success and cost(each) == 0 for each in shown) >= seeds - 1


def minded(world: World, *costs: tuple[str, ...], movers: tuple[Mover, ...] = ()) -> Care:
    """What is minded of tabletop's task with these costs; numbers are written as numbers."""
    literals = tuple(
        Literal(predicate, tuple(float(each) if each[0].isdigit() else each for each in names), 1, 1)
        for predicate, *names in costs
    )
    problem = dataclasses.replace(world.problem, cost=literals, movers=movers)
    return care_of(problem, world.scene, world.model)


def of(care: Care, name: str) -> Hazard:
    return next(hazard for hazard in care.hazards if hazard.name == name)


def test_a_task_without_costs_and_movers_has_nothing_to_mind() -> None:
    assert not care_of(tabletop("put_the_bowl_on_the_plate").problem, tabletop("turn_on_the_stove").scene, None)  # type: ignore[arg-type]


def test_costs_say_who_keeps_how_far_away_from_what() -> None:
    world = tabletop("put_the_bowl_on_the_plate")
    care = minded(
        world,
        ("incontact", "bowl_1", "bottle_1"),
        ("checkgrippercontact", "box_1"),
        ("checkdistance", "stove_1", "bowl_1", "0.05"),
        ("checkgripperdistance", "stove_1", "0.1"),
        ("checkgripperdistance", "stove_1", "0.02"),
    )
    bottle, box, stove = (of(care, name) for name in ("bottle_1", "box_1", "stove_1"))
    assert (bottle.hand, bottle.things) == (None, {"bowl_1": 0.0})
    assert bottle.margin(None) is None, "the hand may touch it"
    assert (box.hand, box.margin("bowl_1")) == (0.0, None)
    assert (stove.hand, stove.things) == (0.1, {"bowl_1": 0.05})
    assert (stove.margin("bowl_1") or 0.0) > 0.05
    assert {world.model.geom(geom).name.split("_")[0] for geom in bottle.geoms} == {"bottle"}


def test_what_must_not_fall_is_touched_by_nothing_but_what_is_carried_may() -> None:
    care = minded(tabletop("put_the_bowl_on_the_plate"), ("fall", "bottle_1"), ("fall", "bowl_1"))
    assert [hazard.name for hazard in care.hazards] == ["bottle_1"]
    assert (of(care, "bottle_1").margin(None) or 0.0) > 0
    assert (of(care, "bottle_1").margin("bowl_1") or 0.0) > 0


def test_a_vessel_is_carried_gently_with_what_rides_in_it() -> None:
    care = minded(tabletop("put_the_bowl_on_the_plate"), ("noton", "box_1", "bowl_1"))
    assert care
    assert (care.gentle, care.riders) == ({"bowl_1"}, {"bowl_1": ("box_1",)})
    assert not minded(tabletop("put_the_bowl_on_the_plate"), ("noton", "box_1", "plate_1")), "which stays where it is"


def test_a_mover_is_minded_without_a_cost() -> None:
    mover = Mover("bottle_1", "linear")
    care = minded(tabletop("put_the_bowl_on_the_plate"), movers=(mover,))
    assert of(care, "bottle_1").moves
    assert set(care.moving) == set(care.unseen) == set(of(care, "bottle_1").geoms)


def test_connectives_are_looked_into_and_what_is_negated_is_no_danger() -> None:
    world = tabletop("put_the_bowl_on_the_plate")
    touches, falls = Literal("checkgrippercontact", ("box_1",), 1, 1), Literal("fall", ("bottle_1",), 1, 1)
    either = Literal("or", (Literal("and", (touches,), 1, 1), Literal("not", (falls,), 1, 1)), 1, 1)
    care = care_of(dataclasses.replace(world.problem, cost=(either,)), world.scene, world.model)
    assert [hazard.name for hazard in care.hazards] == ["box_1"]


def spec(text: str) -> ModelSpec:
    return ModelSpec(text, Path())


def test_the_expert_is_careful_unless_it_is_told_not_to_be() -> None:
    assert load_policy(spec("expert")) is load_policy(spec("expert?careful=yes")) is expert_policy
    assert load_policy(spec("expert?careful=no")) is load_policy(spec("expert?careful=False")) is careless_policy
    assert policy_digest(spec("expert")) != policy_digest(spec("expert?careful=no"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("expert?carefull=no", "takes no argument 'carefull'. Did you mean careful?"),
        ("expert?careful=perhaps", "careful is 'perhaps', expected yes or no"),
        ("expert:careless", "takes nothing after it"),
    ],
)
def test_other_arguments_are_told(text: str, told: str) -> None:
    with pytest.raises(VlaError, match=r".*") as raised:
        load_policy(spec(text))
    assert told in str(raised.value)
