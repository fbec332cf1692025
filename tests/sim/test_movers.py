"""Movers in worlds: drawn before each control step from where the reset drew them; saved, rehearsed, frozen."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, partial

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla.errors import SceneError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task, with_protocol
from pytest_vla.scene.literals import Literal
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.sections import Mover
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.movers import motion_of
from pytest_vla.sim.settle import settled_states
from pytest_vla.sim.world import World
from pytest_vla.sim.world_state import WorldCopy

TASK = load_suite("tabletop").task("put_the_bowl_on_the_plate")
IDLE = np.array([0.0, 0, 0, 0, 0, 0, -1])
ACTIONS = np.random.default_rng(3).uniform(-1, 1, (30, 7))
BOX = Mover("box_1", "linear", period=40, travel_dist=0.1, direction=(1, 0.5, 0), line=7, column=3)
BOTTLE = Mover("bottle_1", "circle", period=60, center=(-0.3, -0.1, 0.9), line=8, column=3)


def moved_by(movers: tuple[Mover, ...], problem: Problem) -> Problem:
    return replace(problem, movers=movers)


def moving(*movers: Mover, **more: object) -> Variation:
    return Variation("layout.movers", "layout", "movers", problem=(partial(moved_by, movers),), **more)  # type: ignore[arg-type]


BOTH = moving(BOX, BOTTLE)


@lru_cache(maxsize=1)
def shared() -> World:
    return World(TASK, BOTH)


@pytest.fixture
def world() -> World:
    """With two movers; whoever switches it need not switch it back."""
    found = shared()
    assert found.switch(TASK, BOTH)
    return found


def stand(world: World | WorldCopy) -> NDArray[np.float64]:
    data = world.data
    return np.concatenate([data.qpos, data.qvel, data.mocap_pos.ravel(), data.mocap_quat.ravel(), data.qacc_warmstart])


def position(world: World, name: str) -> NDArray[np.float64]:
    return world.data.body(f"{name}_main").xpos.copy()


def test_before_each_step_movers_are_drawn_on_from_where_the_reset_drew_them(world: World) -> None:
    world.reset(4, scene_seed=9, settle=False)
    starts = [(world.data.mocap_pos[n].copy(), world.data.mocap_quat[n].copy()) for n in (0, 1)]
    sampled = shared()
    sampled.reset(None, scene_seed=9, settle=False)
    assert [position(sampled, name).tolist() for name in ("box_1", "bottle_1")] == [p.tolist() for p, _ in starts]
    world.reset(4, scene_seed=9, settle=False)
    assert not np.allclose(position(world, "box_1")[:2], starts[0][0][:2], atol=1e-3), "the init state is another"
    motions = [motion_of(mover, "ours", "")(start) for mover, start in zip((BOX, BOTTLE), starts, strict=True)]
    for tick in range(1, 30):
        world.step(IDLE)
        for number, motion in enumerate(motions):
            assert np.array_equal(world.data.mocap_pos[number], motion(tick)[0])
            assert np.array_equal(world.data.mocap_quat[number], motion(tick)[1])
    # The weld is soft: the box goes after what draws it.
    assert np.linalg.norm(position(world, "box_1") - world.data.mocap_pos[0]) < 0.02
    assert np.linalg.norm(position(world, "box_1") - starts[0][0]) > 0.04


def test_settling_is_part_of_the_motion(world: World) -> None:
    world.reset(0, scene_seed=1)
    assert world.movement.tick == TASK.protocol.settle_steps
    assert world.steps == 0


def test_as_documented_a_motion_begins_where_the_object_is(world: World) -> None:
    assert world.switch(with_protocol(TASK, rules="paper"), BOTH)
    world.reset(4, scene_seed=9, settle=False)
    assert np.array_equal(world.data.mocap_pos[0], position(world, "box_1"))
    start = (world.data.mocap_pos[0].copy(), world.data.mocap_quat[0].copy())
    for _ in range(13):
        world.step(IDLE)
    assert np.array_equal(world.data.mocap_pos[0], motion_of(BOX, "paper", "")(start)(13)[0])


def test_a_saved_moment_goes_on_bitwise_even_after_another_episode(world: World) -> None:
    world.reset(2, scene_seed=2)
    for action in ACTIONS[:7]:
        world.step(action)
    world.freeze({"bottle_1"})
    saved = world.save()
    runs = []
    for _ in range(2):
        for action in ACTIONS[7:]:
            world.step(action)
        runs.append(stand(world))
        world.reset(5, scene_seed=8)
        world.step(ACTIONS[0])
        world.restore(saved)
        assert [each.name for each in world.movement.moving] == ["box_1"]
    assert np.array_equal(*runs)


def test_a_rehearsal_has_the_movers_of_its_world(world: World) -> None:
    world.reset(2, scene_seed=2)
    for action in ACTIONS[:7]:
        world.step(action)
    world.freeze({"box_1"})
    rehearsal = WorldCopy(world)
    saved = rehearsal.save()
    for _ in range(2):
        rehearsal.restore(saved)
        for action in ACTIONS[7:]:
            assert rehearsal.step(action)
    for action in ACTIONS[7:]:
        world.step(action)
    assert np.array_equal(stand(world), stand(rehearsal))
    assert world.movement.tick == TASK.protocol.settle_steps + 30


def test_a_frozen_mover_stands_while_the_others_go_on_until_the_reset(world: World) -> None:
    world.reset(0, scene_seed=1, settle=False)
    for _ in range(6):
        world.step(IDLE)
    world.freeze({"box_1", "bowl_1", "nothing"})
    before = world.data.mocap_pos.copy()
    for _ in range(6):
        world.step(IDLE)
    assert np.array_equal(world.data.mocap_pos[0], before[0])
    assert np.linalg.norm(world.data.mocap_pos[1] - before[1]) > 0.05
    world.freeze(())
    world.reset(0, scene_seed=1, settle=False)
    world.step(IDLE)
    assert not np.array_equal(world.data.mocap_pos[0], before[0])
    assert len(world.movement.moving) == 2


def test_a_world_turns_to_other_motions_of_the_same_objects(world: World) -> None:
    slower = replace(BOX, period=80)
    assert world.switch(TASK, moving(slower, BOTTLE))
    assert world.movement.moving == ()
    world.reset(0, scene_seed=1, settle=False)
    start = (world.data.mocap_pos[0].copy(), world.data.mocap_quat[0].copy())
    world.step(IDLE)
    assert np.array_equal(world.data.mocap_pos[0], motion_of(slower, "ours", "")(start)(1)[0])
    assert not world.switch(TASK, moving(slower)), "what moves is part of the scene"


def test_what_a_variation_takes_away_is_not_drawn_back(world: World) -> None:
    assert world.switch(TASK, moving(BOX, BOTTLE, removed=("box_1",)))
    world.reset(0, scene_seed=1)
    for _ in range(10):
        world.step(IDLE)
    assert position(world, "box_1")[0] > 1e4
    assert [each.name for each in world.movement.moving] == ["bottle_1"]
    assert world.switch(TASK, BOTH)
    world.reset(0, scene_seed=1)
    assert np.linalg.norm(position(world, "box_1")) < 2.0


def test_init_states_are_made_with_the_movers_held(world: World) -> None:
    (state,) = settled_states(world, 1, np.random.default_rng(4), settle_seconds=0.5, hold_seconds=0.5)
    world.reset(state, settle=False)
    box = position(world, "box_1")
    x, y = box[:2]
    # Where its region is, not on its way.
    assert -0.2 < x < -0.13
    assert -0.11 < y < -0.05


def task_of(change: Callable[[Problem], Problem]) -> tuple[Task, Variation]:
    return TASK, Variation("layout.wrong", "layout", "wrong", problem=(change,))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (partial(moved_by, (replace(BOX, period=None),)), r":7:3: the mover 'box_1' .* has no :motion_period"),
        (partial(moved_by, (replace(BOX, name="stove_1"),)), r":7:3: 'stove_1' is a fixture, which cannot move"),
        (partial(moved_by, (replace(BOX, name="cup_9"),)), r":7:3: 'cup_9' is not declared, so it cannot move"),
    ],
)
def test_a_mover_that_cannot_move_is_told_where_the_world_is_made(change: Callable[..., Problem], told: str) -> None:
    with pytest.raises(SceneError, match=rf"put_the_bowl_on_the_plate\.bddl{told}"):
        World(*task_of(change))


def test_a_mover_that_nothing_places_is_told_at_the_reset(world: World) -> None:
    def unplaced(problem: Problem) -> Problem:
        kept = tuple(literal for literal in problem.init if str(literal.arguments[0]) != "box_1")
        return replace(problem, movers=(BOX, BOTTLE), init=kept)

    assert world.switch(*task_of(unplaced))
    with pytest.raises(SceneError, match=r"\.bddl:7:3: the mover 'box_1' is never placed; add a literal such as"):
        world.reset(None, settle=False)


@pytest.mark.parametrize(
    ("first", "second", "rules", "stops"),
    [
        ("bowl_1", "box_1", "ours", True),
        ("bowl_1", "box_1", "upstream", True),
        ("box_1", "bowl_1", "upstream", False),
        ("box_1", "bowl_1", "paper", True),
    ],
)
def test_a_world_stops_what_ran_into_something_as_its_rules_say(
    world: World, first: str, second: str, rules: str, stops: bool
) -> None:
    cost = Literal("incontact", (first, second))
    into_the_bowl = replace(BOX, direction=(0, 1, 0), travel_dist=0.2)

    def changed(problem: Problem) -> Problem:
        return replace(problem, movers=(into_the_bowl, BOTTLE), cost=(cost,))

    assert world.switch(with_protocol(TASK, rules=rules), Variation("layout.hit", "layout", "hit", problem=(changed,)))
    world.reset(0, settle=False)
    for _ in range(15):
        world.step(IDLE)
    assert any(charge.amount for charge in world.charged()), "they met"
    assert ("box_1" not in [each.name for each in world.movement.moving]) == stops
    before = world.data.mocap_pos[0].copy()
    world.step(IDLE)
    assert np.array_equal(world.data.mocap_pos[0], before) == stops
