"""Which meters an episode has: those of its benchmark, of what its user declares, and of collisions."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from pytest_vla.plan.choices import COSTS_NONE
from pytest_vla.scene.cost_rules import Charging
from pytest_vla.sim.collisions import Collisions
from pytest_vla.sim.cost_meters import cost_meters
from pytest_vla.sim.declared import Declared
from pytest_vla.sim.metering import MakeMeters, Meter

if TYPE_CHECKING:
    from pytest_vla.sim.world import World


def meters_of(charging: Charging) -> MakeMeters:
    """Makes a world's meters, for `World.meter`; that raises VlaError where a declared cost does not fit the task."""
    return partial(_meters, charging)


def _meters(charging: Charging, world: "World") -> Sequence[Meter]:
    meters = list(cost_meters(world))
    if charging.declared is not None and any(rule.is_of(world.task) for rule in charging.declared.rules):
        meters.append(Declared(world, charging.declared.rules))
    if charging.costs != COSTS_NONE:
        meters.append(Collisions(world))
    return meters
