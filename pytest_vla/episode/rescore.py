"""An episode charged anew from its recorded states and actions: no policy is asked and nothing is drawn.

Contact forces belong to a control step, not to a state: what pressed on what depends on the motors. So each control
step is taken again by itself, from the recorded state before it with the recorded action, and judged as it was then.
Where the simulator is the one that recorded, that is the episode bit for bit; elsewhere no step drifts further than it
drifts by itself, and `Rescored.drift` says how far that is.
"""

from dataclasses import dataclass

import numpy as np

from pytest_vla.errors import VlaError
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

    Args:
        world: of the record's task, under its variation; it is reset, and must be reset before its next step.
        record: of the episode.
        trajectory: of the episode.
        variation: of the episode: it may change actions.

    Raises:
        VlaError: the states are not of this world's scene, or there are none.
        EpisodeError: physics broke.
    """
    if not len(trajectory.qpos):
        raise VlaError(f"{record.case} has no recorded states")
    if trajectory.qpos.shape[1] != world.model.nq or trajectory.qvel.shape[1] != world.model.nv:
        raise VlaError(
            f"{record.case}: its states have {trajectory.qpos.shape[1]} coordinates, and the scene has "
            f"{world.model.nq}: its task file or assets were others"
        )
    world.reset(init_state=record.seeds["init_state"], scene_seed=record.seeds["scene"], settle=True)
    changes = [start() for start in variation.actions] if variation is not None else []
    drift = float(np.abs(world.data.qpos - trajectory.qpos[0]).max())
    for step, recorded in enumerate(trajectory.actions):
        action = recorded
        for change in changes:
            action = change(action)
        world.data.qpos[:], world.data.qvel[:] = trajectory.qpos[step], trajectory.qvel[step]
        world.step(action)
        if step + 1 < len(trajectory.qpos):
            drift = max(drift, float(np.abs(world.data.qpos - trajectory.qpos[step + 1]).max()))
    if is_complete(record.outcome):
        world.conclude()
    return Rescored(world.charged(), drift)
