"""The account of collisions: what the arm and what it holds touch unasked, and what is left displaced."""

from itertools import pairwise
from typing import Any

import mujoco
import numpy as np
import pytest

from pytest_vla import World, load_suite
from pytest_vla.errors import VlaError
from pytest_vla.expert.policy import expert_policy
from pytest_vla.plan.costs import COLLISIONS, Charge, cost_of, judged_accounts, shown_accounts
from pytest_vla.policies.base import Episode
from pytest_vla.policies.generators import noise_generator
from pytest_vla.scene.cost_rules import Charging
from pytest_vla.sim.collisions import ARM_CONTACT, DISPLACED, HELD_CONTACT, IMPACT, Collisions
from pytest_vla.sim.contacts import goal_things, things_of
from pytest_vla.sim.meters import meters_of
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
        (name, 0.0, "collisions") for name in COLLISIONS
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
    others = ("box_1", "bottle_1", "cabinet_1", "rack_1")
    assert {charge.bodies for charge in met} <= {("bowl_1", other) for other in others}
    assert all(charge.force is not None for charge in met)


def _held(world: World) -> frozenset[int]:
    from pytest_vla.sim.contacts import held_things

    return held_things(things_of(world.scene, world.model), world.data.contact.geom)


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
    for costs, wanted in (("none", 0), ("all", 4)):
        bowl.meter(meters_of(Charging(costs)))
        bowl.reset(0)
        assert len(bowl.charged()) == wanted


def test_a_task_with_costs_of_its_own_shows_collisions_beside_them() -> None:
    with World(load_suite("tabletop_safety").tasks[0]) as world:
        world.meter(meters_of(Charging()))
        world.reset(0)
        world.step(action())
        assert shown_accounts(world.charged()) == ("paper", "collisions")
        assert judged_accounts(world.charged()) == ("paper",)


def test_what_lies_in_an_object_goes_with_it_and_what_left_it_is_displaced() -> None:
    task = next(task for task in load_suite("tabletop_safety").tasks if task.name == "put_the_cup_on_the_rack")
    with World(task) as world:
        world.meter(meters_of(Charging()))
        world.reset(0)
        world.step(action())
        things = ["cup_1", *(f"ball_{number}" for number in range(1, 7))]
        addresses = [int(world.model.joint(f"{name}_joint0").qposadr[0]) for name in things]
        for address in addresses:
            world.data.qpos[address] += 0.15
        mujoco.mj_forward(world.model, world.data)
        saved = world.save()
        world.conclude()
        assert [charge.bodies for charge in charged(world, DISPLACED)] == []
        world.restore(saved)
        world.data.qpos[addresses[-1] + 1] -= 0.1
        mujoco.mj_forward(world.model, world.data)
        world.conclude()
        assert [charge.bodies for charge in charged(world, DISPLACED)] == [("ball_6",)]


def test_only_what_has_a_floor_below_its_rim_holds_things() -> None:
    wanted = {"put_the_cup_on_the_rack": {"cup_1"}, "put_the_box_in_the_bowl": {"bowl_1"}}
    for task in load_suite("tabletop_safety").tasks:
        if task.task_level == "L0" and task.name in wanted:
            with World(task) as world:
                world.meter(meters_of(Charging()))
                world.reset(0)
                (collisions,) = (meter for meter in world.meters if isinstance(meter, Collisions))
                assert {name for name, _ in collisions._interiors} == wanted.pop(task.name), "a vase of parts has none"
    assert not wanted


def test_fingers_on_the_table_are_charged_also_where_the_goal_names_a_place_on_it() -> None:
    world = tabletop("push_the_plate_to_the_front_of_the_stove")
    world.meter(meters_of(Charging()))
    try:
        world.reset(0)
        go(world, np.array([0.05, 0.18, 1.1]), grip=1.0)
        go(world, np.array([0.05, 0.18, 0.85]), grip=1.0, steps=30)
        assert "table" in {charge.by for charge in charged(world, ARM_CONTACT)}
    finally:
        world.meter(lambda world: ())


def test_a_hit_is_charged_once_whichever_substep_it_begins_in(bowl: World) -> None:
    joint = bowl.model.joint("bottle_1_joint0")
    for height in np.linspace(0.1, 0.13, 8):
        bowl.reset(0)
        bowl.data.qpos[joint.qposadr[0] + 2] += height
        bowl.data.qvel[joint.dofadr[0] : joint.dofadr[0] + 6] = 0
        mujoco.mj_forward(bowl.model, bowl.data)
        for _ in range(12):
            bowl.step(action())
        # Where it bounces, it may hit once more, later.
        steps = [charge.step for charge in charged(bowl, IMPACT) if charge.bodies[0] == "bottle_1"]
        assert steps
        assert all(after is not None and before is not None and after > before + 1 for before, after in pairwise(steps))
        assert all(charge.amount == 10.0 for charge in charged(bowl, IMPACT))


def test_meters_that_do_not_fit_leave_those_that_were_there(bowl: World) -> None:
    def refuses(world: World) -> tuple[Collisions, ...]:
        Collisions(world)
        raise VlaError("no")

    def charges() -> list[Charge]:
        bowl.reset(0)
        for _ in range(3):
            bowl.step(np.array([0, 0, -1.0, 0, 0, 0, 1]))
        return list(bowl.charged())

    before = charges()
    with pytest.raises(VlaError, match="no"):
        bowl.meter(refuses)
    assert charges() == before
    task, fits = bowl.task, meters_of(Charging())
    bowl.meter(lambda world: fits(world) if world.task == task else refuses(world))
    with pytest.raises(VlaError, match="no"):
        bowl.switch(load_suite("tabletop").task("put_the_bottle_on_the_rack"))
    assert bowl.task == task
    assert charges() == before
