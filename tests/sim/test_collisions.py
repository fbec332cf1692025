"""The account of collisions: what the arm and what it holds touch unasked, and what is left displaced."""

from typing import Any

import mujoco
import numpy as np
import pytest

from pytest_vla import World
from pytest_vla.expert.policy import expert_policy
from pytest_vla.plan.costs import Charge, cost_of
from pytest_vla.policies.base import Episode
from pytest_vla.policies.noise import noise_generator
from pytest_vla.scene.cost_rules import Charging
from pytest_vla.sim.accounts import meters_of
from pytest_vla.sim.collisions import ARM_CONTACT, DISPLACED, HELD_CONTACT, Collisions
from pytest_vla.sim.touching import goal_things, things_of
from tests.support.worlds import tabletop


@pytest.fixture
def bowl() -> Any:
    world = tabletop("put_the_bowl_on_the_plate")
    world.meter(meters_of(Charging()))
    yield world
    world.meter(lambda world: ())


def action(*move: float, grip: float = -1.0) -> np.ndarray:
    return np.array([*move, *[0.0] * (6 - len(move)), grip])


def go(world: World, target: Any, grip: float = -1.0, steps: int = 60, near: float = 0.008) -> None:
    for _ in range(steps):
        seen = world.data.site_xpos[world.grip_site]
        if np.linalg.norm(target - seen) < near:
            return
        world.step(action(*np.clip((target - seen) / 0.05, -1, 1), grip=grip))


def charged(world: World, name: str) -> list[Charge]:
    return [charge for charge in world.charged() if charge.name == name and charge.amount]


def test_things_are_told_apart_by_their_geoms(bowl: World) -> None:
    things = things_of(bowl.scene, bowl.model)
    assert set(things.names) == {
        "bowl_1",
        "plate_1",
        "bottle_1",
        "box_1",
        "cabinet_1",
        "stove_1",
        "rack_1",
        "table",
        "floor",
    }
    assert {things.names[number] for number in things.loose} == {"bowl_1", "plate_1", "bottle_1", "box_1"}
    assert {things.names[number] for number in things.workspace} == {"table", "floor"}
    geoms = {name: bowl.model.geom(name).id for name in ("robot0_link5_collision", "gripper0_hand_collision")}
    assert things.arm[list(geoms.values())].all()
    pads = [bowl.model.geom(f"gripper0_finger{number}_pad_collision").id for number in (1, 2)]
    assert [bool(finger[pad]) for finger, pad in zip(things.fingers, pads, strict=True)] == [True, True]
    assert not things.robot[bowl.model.geom("mount0_pedestal_col").id]
    assert things.of_geom[-1] == -1
    assert not things.robot[-1]
    assert {things.names[number] for number in goal_things(bowl.problem, bowl.scene, things)} == {"bowl_1", "plate_1"}


def test_an_arm_that_rests_is_charged_nothing(bowl: World) -> None:
    bowl.reset(0)
    for _ in range(5):
        bowl.step(action())
    bowl.conclude()
    assert [(charge.name, charge.amount, charge.account) for charge in bowl.charged()] == [
        (name, 0.0, "collisions") for name in (ARM_CONTACT, HELD_CONTACT, DISPLACED)
    ]


def test_fingers_on_the_table_press_on_it_with_the_force_that_stops_them(bowl: World) -> None:
    bowl.reset(0)
    go(bowl, np.array([0.05, 0.18, 1.1]), grip=1.0)
    table = bowl.data.geom("table_collision").xpos[2] + bowl.model.geom("table_collision").size[2]
    go(bowl, np.array([0.05, 0.18, table - 0.02]), grip=1.0, steps=30)
    touched = charged(bowl, ARM_CONTACT)
    assert {charge.by for charge in touched} == {"table"}
    first = touched[0]
    assert first.account == "collisions"
    assert first.kind == "instant"
    assert first.bodies[0].startswith("gripper0_")
    assert first.amount == first.steps
    assert first.force is not None
    assert first.force > 5
    assert first.position is not None
    assert first.position[2] == pytest.approx(table, abs=0.005)
    # As MuJoCo's own sums have it, on the state that is judged.
    total, wrench = 0.0, np.zeros(6)
    fingers = np.logical_or(*things_of(bowl.scene, bowl.model).fingers)
    for number, contact in enumerate(bowl.data.contact):
        if fingers[list(contact.geom)].any():
            mujoco.mj_contactForce(bowl.model, bowl.data, number, wrench)
            total += wrench[0]
    assert total > 0
    assert touched[-1].force is not None
    assert max(charge.force or 0 for charge in touched) >= total * (1 - 1e-12)


def test_a_thing_that_is_carried_into_another_is_charged_and_not_what_it_stood_on(bowl: World) -> None:
    bowl.reset(0)
    session = expert_policy(Episode("x", "tabletop", "x", "", 0, noise_generator(0, "x"), world=bowl))
    while bowl.data.body("bowl_1_main").xpos[2] < 0.94:
        bowl.step(np.asarray(session({})))
        assert bowl.steps < 90, "the expert lifts the bowl"
    things = things_of(bowl.scene, bowl.model)
    collisions = Collisions(bowl)
    held = [things.names[number] for number in _held(bowl)]
    assert held == ["bowl_1"], "the grasp of this test"
    assert charged(bowl, HELD_CONTACT) == [], "the table is what it stood on"
    assert collisions.frozen() == frozenset()
    box = bowl.data.body("box_1_main").xpos.copy()
    go(bowl, bowl.data.site_xpos[bowl.grip_site] + np.array([0, 0, 0.05]), grip=1.0)
    go(bowl, box + np.array([0, 0.05, 0.05]), grip=1.0, near=0.02)
    go(bowl, box + np.array([0, 0, 0.0]), grip=1.0, steps=25)
    met = charged(bowl, HELD_CONTACT)
    assert met
    assert {charge.bodies for charge in met} <= {("bowl_1", "box_1"), ("bowl_1", "bottle_1"), ("bowl_1", "cabinet_1")}
    assert all(charge.force is not None for charge in met)


def _held(world: World) -> frozenset[int]:
    from pytest_vla.sim.touching import held_things

    return held_things(things_of(world.scene, world.model), world.data)


def test_bystanders_are_displaced_and_the_goals_objects_are_not(bowl: World) -> None:
    bowl.reset(0)
    bowl.step(action())
    for name, shift in (("bottle_1", 0.03), ("bowl_1", 0.03), ("box_1", 0.004)):
        address = bowl.model.joint(f"{name}_joint0").qposadr[0]
        bowl.data.qpos[address] += shift
    bowl.data.qpos[bowl.model.joint("stove_1_knob").qposadr[0]] += 0.5
    mujoco.mj_forward(bowl.model, bowl.data)
    bowl.conclude()
    first, second = charged(bowl, DISPLACED)
    assert (first.bodies, first.text, first.amount) == (("bottle_1",), "moved 30 mm, turned 0 degrees", 10.0)
    assert (second.bodies, second.kind, second.step) == (("stove_1",), "terminal", 1)
    assert second.text is not None
    assert second.text.startswith("stove_1_knob turned 2")
    assert cost_of(bowl.charged(), "displaced") == 20.0


def test_which_tasks_have_the_account(bowl: World) -> None:
    for costs, wanted in (("none", 0), ("auto", 3), ("all", 3)):
        bowl.meter(meters_of(Charging(costs)))
        bowl.reset(0)
        assert len(bowl.charged()) == wanted
