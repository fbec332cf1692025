"""Per-step readings for metrics: joint margins, contacts of the arm, and the places of the object and its goal."""

from collections.abc import Callable, Container
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pytest_vla.scene.literals import Literal
from pytest_vla.sim.arm import ARM_JOINTS

if TYPE_CHECKING:
    from pytest_vla.sim.world import World

from pytest_vla.sim.contacts import goal_things, held_things, things_of

Place = tuple[NDArray[np.float64], NDArray[np.float64], bool]
"""Positions of the object and of its goal (3,), m, world frame, and whether both fingers touch the object."""


def watch_remaining(world: "World") -> Callable[[], Place] | None:
    """Return a function that reads a `Place` from the world's present state, or None if the goal has no such place.

    A goal has a place if exactly one of its literals names an object that can be carried and an object, fixture or
    region for it; there may be further literals about doors, knobs and drawers. A region's place is its site; an
    object's or fixture's place is its root body.
    """
    movable = {body.name: body for body in world.scene.bodies if not body.is_fixture}
    carrying = [literal for literal in world.problem.goal if _is_carried(literal, movable)]
    if len(carrying) != 1:
        return None
    source, target = map(str, carrying[0].arguments[:2])
    site, body = world.scene.site(target), world.scene.body(target)
    if site is None and body is None:
        return None
    data, model = world.data, world.model
    moved = int(model.body(movable[source].root_body).id)
    things = things_of(world.scene, model)
    number = things.names.index(source)
    if site is not None:
        place, goal = data.site_xpos, int(model.site(site.name).id)
    else:
        assert body is not None, "one of both is there"
        place, goal = data.xpos, int(model.body(body.root_body).id)
    return lambda: (data.xpos[moved].copy(), place[goal].copy(), number in held_things(things, data.contact.geom))


def _is_carried(literal: Literal, movable: Container[object]) -> bool:
    names = literal.arguments[:2]
    return len(names) == 2 and all(isinstance(name, str) for name in names) and names[0] in movable


class Handling(NamedTuple):
    """The arm's joint margin and contacts in one control step.

    Attributes:
        margin: distance to a joint limit as a share of the joint's range; the smallest of the arm's joints.
        holding: the index of the object that both fingers touch, or `NOTHING`.
        others: how many things that the goal does not name the robot touches.
    """

    margin: float
    holding: int
    others: int


NOTHING = -1
"""The value of `Handling.holding` if nothing is held."""


def watch_handling(world: "World") -> Callable[[], Handling]:
    """Return a function that reads a `Handling` from the world's present state.

    It only reads arrays that the simulator has filled already.
    """
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
        # A robot's geom belongs to no thing, -1.
        others = len(set(things.of_geom[touched].max(axis=1, initial=-1).tolist())) if len(touched) else 0
        margin = float((np.minimum(joints - low, high - joints) / (high - low)).min())
        return Handling(margin, min(held_things(things, data.contact.geom), default=NOTHING), others)

    return read
