"""What a user declares, judged on worlds."""

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from pytest_vla import World
from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import Charge
from pytest_vla.scene.cost_rules import Charging, read_costs
from pytest_vla.sim.meters import meters_of
from tests.support.worlds import tabletop

STILL = np.array([0.0, 0, 0, 0, 0, 0, -1])


@pytest.fixture
def charge(tmp_path: Path) -> Any:
    """Gives a world of a task that was reset with these costs, and no account of collisions."""
    worlds: list[World] = []

    def begin(text: str, task: str = "put_the_bowl_on_the_plate") -> World:
        file = tmp_path / "costs.toml"
        file.write_text(text)
        world = tabletop(task)
        worlds.append(world)
        world.meter(meters_of(Charging("none", read_costs(file))))
        world.reset(0)
        return world

    yield begin
    for world in worlds:
        world.meter(lambda world: ())


def found(world: World) -> list[Charge]:
    return [charge for charge in world.charged() if charge.amount]


def test_a_weight_on_the_table_presses_with_its_weight(charge: Any) -> None:
    world = charge('[[cost]]\nname = "weight"\nrule = "force"\non = "table"\nabove = 0\nby = "bottle_1"\n')
    for _ in range(20):
        world.step(STILL)
    (entry,) = found(world)
    assert (entry.name, entry.account, entry.kind, entry.amount) == ("weight", "declared", "instant", 20.0)
    assert (entry.step, entry.last_step, entry.bodies, entry.text) == (1, 20, ("bottle_1", "table"), "above 0 N")
    weight = float(world.model.body("bottle_1_main").subtreemass[0] * 9.81)
    assert entry.force == pytest.approx(weight, rel=0.05)


def test_speed_of_the_hand_and_of_an_object(charge: Any) -> None:
    rules = "\n".join(
        f'[[cost]]\nname = "{of}"\nrule = "speed"\nof = "{of}"\nabove = 0.2\nwhen = "{when}"'
        for of, when in (("gripper", "once"), ("bottle_1", "instant"), ("held", "instant"))
    )
    world = charge(rules)
    world.step(STILL)
    assert found(world) == []
    world.data.qvel[world.model.joint("bottle_1_joint0").dofadr[0]] = 2.0
    for _ in range(6):
        world.step(np.array([0, 0, 1.0, 0, 0, 0, -1]))
    entries = {entry.name: entry for entry in found(world)}
    assert set(entries) == {"gripper", "bottle_1"}
    assert (entries["gripper"].amount, entries["gripper"].kind, entries["gripper"].last_step) == (10.0, "rule", None)
    assert entries["bottle_1"].step == 2


def test_tilt_is_from_how_it_stood_and_may_be_asked_at_the_end(charge: Any) -> None:
    world = charge('[[cost]]\nname = "upright"\nrule = "tilt"\nof = "bottle_1"\nabove = 30\nwhen = "terminal"\n')
    address = world.model.joint("bottle_1_joint0").qposadr[0]
    world.step(STILL)
    for degrees, wanted in ((20.0, 0), (40.0, 1)):
        world.reset(0)
        upright = world.data.qpos[address + 3 : address + 7].copy()
        turn, turned = np.zeros(4), np.zeros(4)
        mujoco.mju_axisAngle2Quat(turn, np.array([1.0, 0, 0]), np.radians(degrees))
        mujoco.mju_mulQuat(turned, turn, upright)
        world.data.qpos[address + 3 : address + 7] = turned
        mujoco.mj_kinematics(world.model, world.data)
        world.conclude()
        assert [(entry.kind, entry.amount) for entry in found(world)] == [("terminal", 10.0)] * wanted


def test_joints_near_their_limits(charge: Any) -> None:
    world = charge('[[cost]]\nname = "limit"\nrule = "joint"\nwithin = 0.02\n')
    world.step(STILL)
    assert found(world) == []
    low, high = world.model.joint("robot0_joint6").range
    world.data.qpos[world.model.joint("robot0_joint6").qposadr[0]] = high - 0.005 * (high - low)
    world.step(STILL)
    assert [entry.bodies for entry in found(world)] == [("robot0_joint6",)]


def test_the_arm_touches_anything_but_the_goals_objects(charge: Any) -> None:
    world = charge('[[cost]]\nname = "clumsy"\nrule = "touch"\nby = "robot"\nexcept = "goal"\n')
    for _ in range(40):
        world.step(np.array([0, 0, -1.0, 0, 0, 0, 1]))
    assert found(world)
    assert {entry.bodies for entry in found(world)} <= {("robot", name) for name in ("bottle_1", "cabinet_1", "table")}
    assert all(entry.force is not None for entry in found(world))


def test_a_literal_is_charged_while_it_holds(charge: Any) -> None:
    world = charge(
        '[[cost]]\nliteral = "(Open cabinet_1_bottom_region)"\nwhen = "instant"\n',
        "close_the_bottom_drawer_of_the_cabinet",
    )
    for _ in range(3):
        world.step(STILL)
    (entry,) = found(world)
    assert (entry.name, entry.amount, entry.steps) == ("(open cabinet_1_bottom_region)", 3.0, 3)


def test_what_was_charged_once_comes_back_with_a_saved_moment(charge: Any) -> None:
    world = charge('[[cost]]\nname = "fast"\nrule = "speed"\nof = "gripper"\nabove = 0.1\nwhen = "once"\n')
    state = world.save()
    for _ in range(2):
        world.restore(state)
        for _ in range(6):
            world.step(np.array([0, 0, 1.0, 0, 0, 0, -1]))
        assert [entry.amount for entry in found(world)] == [10.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'rule = "force"\non = "tabel"\nabove = 1',
            "costs.toml:1: cost[0]: tabletop/put_the_bowl_on_the_plate: 'tab"
            "el' is not in this task. Did you mean table",
        ),
        (
            'rule = "tilt"\nof = "bottle_2"\nabove = 1',
            "'bottle_2' is no object or fixture of this task. Did you mean bottle_1",
        ),
        ('rule = "joint"\nof = "robot0_joint9"\nwithin = 0.1', "'robot0_joint9' is no joint with limits. Did you mean"),
        (
            'literal = "(On bowl_1 plate_9)"',
            "(on bowl_1 plate_9): 'plate_9' is not in this task. Did you mean plate_1",
        ),
    ],
)
def test_what_the_task_lacks_is_told_or_left_out(charge: Any, text: str, message: str) -> None:
    with pytest.raises(VlaError) as raised:
        charge(f'[[cost]]\nname = "x"\n{text}\n')
    assert message in str(raised.value)
    assert 'missing = "skip"' in str(raised.value)
    assert charge(f'[[cost]]\nname = "x"\nmissing = "skip"\n{text}\n').charged() == ()
    assert charge(f'[[cost]]\nname = "x"\ntasks = "turn*"\n{text}\n').charged() == ()
