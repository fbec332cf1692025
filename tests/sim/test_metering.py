"""A world calls its meters after each control step of the episode, and never for what is only rehearsed."""

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pytest

from pytest_vla import load_suite
from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import Charge, Ledger
from pytest_vla.sim.world import World
from pytest_vla.sim.world_state import WorldCopy
from tests.support.worlds import tabletop

ACTION = np.array([0.2, 0.1, -0.1, 0.0, 0.0, 0.0, -1.0])


@dataclass
class Counting:
    """Charges each step what it counts, and the end."""

    task: str
    count: int = 0
    log: list[str] = field(default_factory=list)

    def watched(self) -> tuple[Charge, ...]:
        return tuple(Charge(name, 0.0, 0, account="declared", kind="rule") for name in ("count", "never", "end"))

    def begin(self) -> None:
        self.count = 0
        self.log.append("begin")

    def step(self, ledger: Ledger, step: int, success: bool) -> None:
        self.count += 1
        ledger.charge(step, "count", float(self.count), account="declared", kind="rule")

    def end(self, ledger: Ledger, step: int, success: bool) -> None:
        ledger.charge(step, "end", 1.0, account="declared", kind="terminal", text=f"{success}")

    def frozen(self) -> frozenset[str]:
        return frozenset()

    def saved(self) -> int:
        return self.count

    def restore(self, state: object) -> None:
        self.count = cast("int", state)


@pytest.fixture
def world() -> Any:
    made: list[Counting] = []

    def make(world: World) -> list[Counting]:
        made.append(Counting(world.task.name))
        return made[-1:]

    world = tabletop("turn_on_the_stove")
    world.meter(make)
    yield world, made
    world.meter(lambda world: ())


def amounts(world: World) -> list[tuple[str, int | None, float]]:
    return [(charge.name, charge.step, charge.amount) for charge in world.charged() if charge.amount]


def test_settling_is_not_charged_and_what_never_happened_says_so(world: tuple[World, list[Counting]]) -> None:
    known, _made = world
    known.reset(0)
    assert [charge.name for charge in known.charged()] == ["count", "never", "end"]
    known.step(ACTION)
    known.step(ACTION)
    known.conclude()
    known.conclude()
    assert amounts(known) == [("count", 1, 1.0), ("count", 2, 2.0), ("end", 2, 1.0)]
    assert [charge for charge in known.charged() if not charge.amount] == [
        Charge("never", 0.0, 0, account="declared", kind="rule")
    ]
    known.reset(0)
    assert amounts(known) == []


def test_physics_is_the_same_with_meters_and_without(world: tuple[World, list[Counting]]) -> None:
    known, _ = world
    known.reset(1, scene_seed=1)
    for _ in range(3):
        known.step(ACTION)
    metered = known.data.qpos.copy()
    known.meter(lambda world: ())
    with pytest.raises(VlaError, match="reset the world"):
        known.step(ACTION)
    known.reset(1, scene_seed=1)
    for _ in range(3):
        known.step(ACTION)
    assert np.array_equal(known.data.qpos, metered)
    assert known.charged() == ()


def test_a_saved_moment_comes_back_with_its_ledger(world: tuple[World, list[Counting]]) -> None:
    known, _made = world
    known.reset(0)
    known.step(ACTION)
    state = known.save()
    known.step(ACTION)
    known.conclude()
    known.restore(state)
    assert amounts(known) == [("count", 1, 1.0)]
    known.step(ACTION)
    assert amounts(known) == [("count", 1, 1.0), ("count", 2, 2.0)]
    known.meter(lambda world: [Counting("other")])
    with pytest.raises(VlaError, match="different cost meters"):
        known.restore(state)


def test_a_rehearsal_charges_nothing(world: tuple[World, list[Counting]]) -> None:
    known, _ = world
    known.reset(0)
    rehearsal = WorldCopy(known)
    for _ in range(3):
        assert rehearsal.step(ACTION)
    assert amounts(known) == []


def test_another_task_of_the_scene_has_meters_of_its_own(world: tuple[World, list[Counting]]) -> None:
    known, made = world
    known.reset(0)
    known.step(ACTION)
    assert known.switch(load_suite("tabletop").task("put_the_bowl_on_the_plate"))
    assert [meter.task for meter in made] == ["turn_on_the_stove", "put_the_bowl_on_the_plate"]
    assert amounts(known) == []
