"""An episode charged anew from its recorded states and actions: no policy is asked and nothing is drawn.

`pytest_vla.episode.again` takes its steps again, and they are judged as they were then; `Rescored.drift` says how far
they come out otherwise.
"""

from dataclasses import dataclass

from pytest_vla.episode.again import taken_again
from pytest_vla.plan.costs import Charge
from pytest_vla.records.counting import is_complete
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import Trajectory
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.world import World


@dataclass(frozen=True)
class Rescored:
    """What an episode is charged.

    Attributes:
        charges: the ledger.
        drift: the largest difference of any coordinate (m, rad) between a step that was taken again and the record.
    """

    charges: tuple[Charge, ...]
    drift: float


def rescored(world: World, record: Record, trajectory: Trajectory, variation: Variation | None) -> Rescored:
    """Charges a recorded episode by the meters that the world has.

    Args and errors are those of `pytest_vla.episode.again.taken_again`.
    """
    drift = max(moment.drift for moment in taken_again(world, record, trajectory, variation))
    if is_complete(record.outcome):
        world.conclude()
    return Rescored(world.charged(), drift)
