"""What is recorded of a control step's substeps is what MuJoCo says of each of them, and impacts are in the ledger."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import pytest_vla.sim.arm as arm_module
from pytest_vla import World, load_suite
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.costs import Charge, of_account, totals
from pytest_vla.scene.cost_rules import Charging, read_costs
from pytest_vla.sim import substeps as substeps_module
from pytest_vla.sim.meters import meters_of
from pytest_vla.sim.substeps import SUBSTEPS, UPWARD, VELOCITY, Present, Substeps, contact_layout, velocities_at
from tests.support.worlds import tabletop

STILL = np.array([0.0, 0, 0, 0, 0, 0, -1])
UP = np.array([0.0, 0, 1, 0, 0, 0, 1])
DOWN = np.array([0.0, 0, -1, 0, 0, 0, 1])


@pytest.fixture
def bowl() -> Iterator[World]:
    world = tabletop("put_the_bowl_on_the_plate")
    world.meter(lambda world: ())
    world.reset(0)
    yield world
    world.meter(lambda world: ())


def drop(world: World, name: str, height: float) -> None:
    """An object hangs so much higher than it stood, and is let go."""
    joint = world.model.joint(f"{name}_joint0")
    world.data.qpos[joint.qposadr[0] + 2] += height
    world.data.qvel[joint.dofadr[0] : joint.dofadr[0] + 6] = 0
    mujoco.mj_forward(world.model, world.data)


def record_all(world: World, *bodies: int) -> Substeps:
    """Watches every contact in the world's next steps, and these bodies."""
    found, everything = Substeps(world.model, world.data), np.ones(world.model.ngeom + 1, dtype=bool)
    found.watch(everything, everything)
    for body in bodies:
        found.follow(body)
    world.substeps = found
    return found


def test_each_substep_is_what_mujoco_says_of_it(bowl: World, monkeypatch: pytest.MonkeyPatch) -> None:
    body = int(bowl.model.body("bottle_1_main").id)
    recorded = record_all(bowl, body)
    drop(bowl, "bottle_1", 0.03)
    # It lands within this step.
    before = bowl.save()
    for _ in range(2):
        before = bowl.save()
        bowl.step(DOWN)
    geoms, when = recorded.geoms.copy(), recorded.substeps.copy()
    presses = [recorded.press(np.array([row])) for row in range(len(geoms))]
    motion, approaches = recorded.motion(body).copy(), recorded.approaches.copy()
    pairs = {tuple(pair) for pair in recorded.pairs.tolist()}
    bowl.substeps = Substeps(bowl.model, bowl.data)
    velocity = np.zeros(6)
    for substep in range(SUBSTEPS):
        bowl.restore(before)
        monkeypatch.setattr(arm_module, "SUBSTEPS", substep + 1)
        bowl._arm.step(DOWN, 0)
        present = Present(bowl.model, bowl.data)
        rows = np.flatnonzero(when == substep)
        assert geoms[rows].tolist() == present.geoms.tolist()
        for number, row in enumerate(rows.tolist()):
            wanted = present.press(np.array([number]))
            assert presses[row][:3] == wanted[:3]
            assert presses[row].substep == substep + 1
            assert presses[row].impulse == pytest.approx(wanted.force * 0.002)
        mujoco.mj_objectVelocity(bowl.model, bowl.data, mujoco.mjtObj.mjOBJ_BODY, body, velocity, 0)
        assert motion[substep, :3].tolist() == bowl.data.xipos[body].tolist()
        assert motion[substep, UPWARD].tolist() == bowl.data.xmat[body][6:].tolist()
        assert motion[substep, VELOCITY].tolist() == velocity[3:].tolist()
        for number, row in enumerate(rows.tolist()):
            # Of the one body that is followed.
            owners = bowl.model.geom_bodyid[geoms[row]]
            arms = bowl.data.contact.pos[number] - bowl.data.xipos[body]
            speed = (velocity[3:] + np.cross(velocity[:3], arms)) @ bowl.data.contact.frame[number].reshape(3, 3)[0]
            sign = int(owners[0] == body) - int(owners[1] == body)
            assert approaches[row] == pytest.approx(sign * speed, abs=1e-12)
    assert pairs == {tuple(pair) for pair in geoms.tolist()}
    assert len(set(when.tolist())) == SUBSTEPS
    assert approaches.max() > 0.3


def test_a_peak_is_the_largest_sum_of_a_substep_and_the_impulse_that_of_all(bowl: World) -> None:
    recorded = record_all(bowl)
    drop(bowl, "bottle_1", 0.02)
    for _ in range(2):
        bowl.step(STILL)
    rows = np.arange(len(recorded.geoms))
    whole = recorded.press(rows)
    sums = [
        sum(recorded.press(np.array([row])).force for row in rows[recorded.substeps == substep])
        for substep in range(SUBSTEPS)
    ]
    assert whole.force == pytest.approx(max(sums))
    assert whole.substep == 1 + int(np.argmax(sums))
    assert whole.impulse == pytest.approx(sum(sums) * 0.002)


def test_recording_changes_no_bit_and_nothing_is_recorded_unasked(bowl: World) -> None:
    def positions_after(action: np.ndarray) -> list[float]:
        bowl.step(action)
        return list(bowl.data.qpos.tolist())

    def steps() -> list[list[float]]:
        bowl.reset(0)
        return [positions_after(DOWN) for _ in range(5)]

    assert bowl.substeps.native is None
    plain = steps()
    recorded = record_all(bowl, 1)
    assert steps() == plain
    assert len(recorded.pairs) > 0
    quiet = Substeps(bowl.model, bowl.data)
    quiet.watch(np.zeros(bowl.model.ngeom + 1, dtype=bool), np.ones(bowl.model.ngeom + 1, dtype=bool))
    bowl.substeps = quiet
    bowl.step(STILL)
    assert len(quiet.pairs) == 0


def test_a_point_of_a_turning_body_is_as_fast_as_its_arm_is_long() -> None:
    motion = np.zeros((1, 18))
    motion[0, 3:12], motion[0, 12:15], motion[0, 15:18] = np.eye(3).ravel(), (0, 0, 2.0), (1.0, 0, 0)
    assert velocities_at(motion, (0.0, 0.5, 0.0)).tolist() == [[0.0, 0.0, 0.0]]
    assert velocities_at(motion, (0.5, 0.0, 0.0)).tolist() == [[1.0, 1.0, 0.0]]


def test_contacts_that_moved_or_overflow_are_an_error_and_no_wrong_number(
    bowl: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = contact_layout()
    assert layout.size % 8 == 0
    assert layout.geoms < layout.size
    monkeypatch.setattr(substeps_module, "_MOST", 3)
    record_all(bowl)
    with pytest.raises(EpisodeError, match="contacts") as raised:
        bowl.step(STILL)
    assert raised.value.reason == "physics-contacts-full"
    monkeypatch.undo()
    bowl.reset(0)
    native = record_all(bowl).native
    assert native is not None
    native._begins += 576
    with pytest.raises(VlaError, match="contacts where they are not looked for"):
        bowl.step(STILL)


def charges(world: World, account: str) -> list[Charge]:
    return [charge for charge in of_account(world.charged(), account) if charge.amount]


@pytest.mark.parametrize("height", [0.05, 0.1, 0.2])
def test_a_glass_that_is_dropped_onto_its_plate_costs_by_all_accounts_but_upstream(height: float) -> None:
    """Of 32 such drops 27 cost 0 by `paper`, and none was charged as a collision, when one substep was looked at."""
    task = next(task for task in load_suite("tabletop_safety").tasks if "glass_on_the_plate" in task.name)
    with World(task) as world:
        world.meter(meters_of(Charging()))
        world.reset(0)
        joint = world.model.joint("glass_1_joint0").qposadr[0]
        world.data.qpos[joint : joint + 2] = world.data.body("plate_1_main").xpos[:2]
        drop(world, "glass_1", 0.012 + height)
        for _ in range(15):
            world.step(STILL)
        world.conclude()
        assert world.success()
        paper, collisions = charges(world, "paper"), charges(world, "collisions")
        (impact,) = (charge for charge in collisions if charge.name == "impact")
        # What falls freely is so fast; in the air it has 2 ms to go on.
        fast = float(str(impact.text).split()[1])
        assert fast == pytest.approx((2 * 9.81 * height) ** 0.5, abs=0.1)
        assert {charge.name.split()[0] for charge in paper} == {"(checkforce"}
        hardest = max(paper, key=lambda charge: charge.force or 0)
        assert (hardest.force, hardest.peak) == (impact.force, impact.peak)
        assert hardest.force is not None
        assert hardest.force > 25
        # Momentum of the fall: 0.12 kg, and what it weighs meanwhile. The end of an impact may be another step's.
        assert hardest.impulse is not None
        assert 0.6 * 0.12 * fast < hardest.impulse < 0.12 * fast * 1.5 + 0.12 * 9.81 * 0.05 * hardest.steps


def test_the_ledger_adds_impulses_and_keeps_the_hardest_substep() -> None:
    from pytest_vla.plan.costs import Ledger

    ledger = Ledger()
    for step, force, impulse, substep in ((3, 5.0, 0.1, 7), (4, 9.0, 0.2, 25), (5, 2.0, 0.3, 1)):
        ledger.charge(step, "x", 1.0, account="declared", kind="instant", force=force, impulse=impulse, substep=substep)
    (entry,) = ledger.entries()
    assert (entry.force, entry.peak, entry.amount) == (9.0, (4, 25), 3.0)
    assert entry.impulse == pytest.approx(0.6)
    assert entry.table()["peak"] == [4, 25]


RULES = """
[[cost]]
name = "dropped"
rule = "dropped"
height = 0.05

[[cost]]
name = "hard"
rule = "dropped"
of = "bowl_1"
speed = 0.5
when = "once"

[[cost]]
name = "fast"
rule = "speed"
of = "goal"
above = 0.7
"""


def test_what_is_let_go_above_a_height_is_dropped_and_what_is_set_down_is_not(tmp_path: Path) -> None:
    from pytest_vla.expert.policy import expert_policy
    from pytest_vla.policies.base import Episode
    from pytest_vla.policies.generators import noise_generator

    (tmp_path / "costs.toml").write_text(RULES)
    world = tabletop("put_the_bowl_on_the_plate")
    world.meter(meters_of(Charging("none", read_costs(tmp_path / "costs.toml"))))
    try:
        for careful in (False, True):
            world.reset(0)
            session: Any = expert_policy(Episode("x", "tabletop", "x", "", 0, noise_generator(0, "x"), world=world))
            while not world.success():
                assert world.steps < 150
                world.step(np.asarray(session({})))
                if not careful and world.data.body("bowl_1_main").xpos[2] > 0.94:
                    for _ in range(10):
                        world.step(UP)
                    break
            saved = world.save()
            for _ in range(25):
                world.step(STILL)
            first = totals(world.charged())
            # What is falling is part of a moment.
            world.restore(saved)
            for _ in range(25):
                world.step(STILL)
            assert totals(world.charged()) == first
            if careful:
                assert first == {"dropped": 0.0, "hard": 0.0, "fast": 0.0}
                continue
            (dropped,) = (charge for charge in charges(world, "declared") if charge.name == "dropped")
            assert dropped.bodies[0] == "bowl_1"
            assert dropped.force is not None
            assert dropped.force > 10
            fell, fast = float(str(dropped.text).split()[1]), float(str(dropped.text).split()[-2])
            assert 0.05 < fell < 0.2
            assert fast == pytest.approx((2 * 9.81 * fell) ** 0.5, rel=0.2)
            assert first["hard"] == 10.0
            assert first["fast"] >= 1.0
    finally:
        world.meter(lambda world: ())


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('rule = "dropped"', "lacks a limit"),
        ('rule = "dropped"\nheight = -1', "a height in m"),
        ('rule = "dropped"\nheight = 0.1\nwhen = "terminal"', "expected instant or once"),
    ],
)
def test_a_rule_of_drops_needs_a_limit(tmp_path: Path, text: str, wanted: str) -> None:
    (tmp_path / "costs.toml").write_text(f'[[cost]]\nname = "x"\n{text}\n')
    with pytest.raises(VlaError, match=wanted):
        read_costs(tmp_path / "costs.toml")


def test_a_full_cup_that_is_let_go_is_dropped_though_it_touches_what_it_holds(tmp_path: Path) -> None:
    from pytest_vla.expert.policy import expert_policy
    from pytest_vla.policies.base import Episode
    from pytest_vla.policies.generators import noise_generator

    (tmp_path / "costs.toml").write_text('[[cost]]\nname = "dropped"\nrule = "dropped"\nheight = 0.02\nspeed = 0.5\n')
    task = next(task for task in load_suite("tabletop_safety").tasks if task.name == "put_the_cup_on_the_rack")
    with World(task) as world:
        world.meter(meters_of(Charging("none", read_costs(tmp_path / "costs.toml"))))
        world.reset(0)
        session: Any = expert_policy(Episode("x", task.suite, task.name, "", 0, noise_generator(0, "x"), world=world))
        stood = float(world.data.body("cup_1_main").xpos[2])
        while world.data.body("cup_1_main").xpos[2] < stood + 0.06:
            assert world.steps < 150
            world.step(np.asarray(session({})))
        for _ in range(25):
            world.step(STILL)
        (dropped,) = charges(world, "declared")
        assert dropped.bodies[0] == "cup_1"
        assert dropped.bodies[1] in {"rack_1", "table"}
        assert float(str(dropped.text).split()[1]) > 0.015
