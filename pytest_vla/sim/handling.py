"""How the arm goes about a task: how near its joints are to their limits, what it holds, and what else it touches."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pytest_vla.sim.arm import ARM_JOINTS
from pytest_vla.sim.touching import goal_things, held_things, things_of

if TYPE_CHECKING:
    from pytest_vla.sim.world import World


class Handling(NamedTuple):
    """Of one control step.

    Attributes:
        margin: how far the arm's joint that is nearest to a limit is from it, share of its range.
        holding: the number of the object that both fingers touch, or `NOTHING`.
        others: how many things that the goal does not name the robot touches.
    """

    margin: float
    holding: int
    others: int


NOTHING = -1
"""Stands for what is held where nothing is."""


def watch_handling(world: "World") -> Callable[[], Handling]:
    """What reads it of a world as it is now. Three looks at arrays that the simulator has made already."""
    data, model = world.data, world.model
    things = things_of(world.scene, model)
    low, high = np.array(model.jnt_range[:ARM_JOINTS]).T
    addresses = np.array(model.jnt_qposadr[:ARM_JOINTS])
    aimed = goal_things(world.problem, world.scene, things) | things.workspace
    other = (things.of_geom >= 0) & ~np.isin(things.of_geom, sorted(aimed))
    meets = np.outer(things.robot, other)
    meets |= meets.T

    def read() -> Handling:
        joints = data.qpos[addresses]
        pairs = data.contact.geom
        touched = pairs[meets[pairs[:, 0], pairs[:, 1]]]
        # A robot's geom is of no thing, -1.
        others = len(set(things.of_geom[touched].max(axis=1, initial=-1).tolist())) if len(touched) else 0
        margin = float((np.minimum(joints - low, high - joints) / (high - low)).min())
        return Handling(margin, min(held_things(things, data), default=NOTHING), others)

    return read
