"""The geoms of each object, fixture and robot part, contacts between them, clearances, and readings for metrics."""

from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import mujoco
import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from pytest_vla.scene.literals import Literal
from pytest_vla.scene.panda import ARM_JOINTS, FINGERS
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.scene import SceneSpec
from pytest_vla.scene.workspaces import workspace
from pytest_vla.sim.substeps import Contacts, Pairs

if TYPE_CHECKING:
    from pytest_vla.sim.world import World


Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Things:
    """A model's geoms grouped by the thing that they belong to.

    Arrays have one row more than there are geoms: row -1 is a contact without a geom.

    Attributes:
        names: the things that are not the robot: objects and fixtures by their names in the task file, and the parts of
            the workspace by their names in the model (``table``, ``floor``).
        of_geom: (ngeom+1,) index in `names` of each geom's thing, -1 for the robot's geoms and for no geom.
        arm: (ngeom+1,) mask of the moving links and the hand, without fingers and pads.
        fingers: (ngeom+1,) masks of each finger with its pads, left and right.
        loose: indices in `names` of the things that can be carried away (objects).
        workspace: indices in `names` of the things that are neither object nor fixture.
    """

    names: tuple[str, ...]
    of_geom: npt.NDArray[np.int64]
    arm: Mask
    fingers: tuple[Mask, Mask]
    loose: frozenset[int]
    workspace: frozenset[int]

    @property
    def robot(self) -> Mask:
        """The mask (ngeom+1,) of all moving parts of the robot."""
        return self.arm | self.fingers[0] | self.fingers[1]

    def geoms(self, thing: int) -> Mask:
        """Return the mask (ngeom+1,) of a thing's geoms."""
        return np.asarray(self.of_geom == thing)


def things_of(scene: SceneSpec, model: mujoco.MjModel) -> Things:
    """Return the things of a compiled scene."""
    known = {int(model.body(body.root_body).id): body for body in scene.bodies}
    names: list[str] = [body.name for body in known.values()]
    parts = workspace(scene.problem, "").profile.robot_parts
    fingers = [int(model.jnt_bodyid[joint]) for joint in range(ARM_JOINTS, ARM_JOINTS + FINGERS)]
    of_geom = np.full(model.ngeom + 1, -1, dtype=np.int64)
    masks = np.zeros((3, model.ngeom + 1), dtype=bool)
    for geom in range(model.ngeom):
        if not (model.geom_contype[geom] or model.geom_conaffinity[geom]):
            # A visual geom touches nothing.
            continue
        body = int(model.geom_bodyid[geom])
        root, welded = int(model.body_rootid[body]), int(model.body_weldid[body])
        if model.body(body).name.startswith(parts):
            if welded:
                masks[1 + fingers.index(welded) if welded in fingers else 0, geom] = True
            continue
        name = known[root].name if root in known else _workspace_name(model, geom, root)
        if name not in names:
            names.append(name)
        of_geom[geom] = names.index(name)
    loose = frozenset(names.index(body.name) for body in known.values() if not body.is_fixture)
    return Things(
        tuple(names), of_geom, masks[0], (masks[1], masks[2]), loose, frozenset(range(len(known), len(names)))
    )


def _workspace_name(model: mujoco.MjModel, geom: int, root: int) -> str:
    return str(model.geom(geom).name or "world") if root == 0 else str(model.body(root).name)


def goal_things(problem: Problem, scene: SceneSpec, things: Things) -> frozenset[int]:
    """Return the indices of the things that the goal names, directly or by one of their regions.

    A region of the workspace stands for all parts of the workspace.
    """
    found: set[int] = set()
    for name in _names(problem.goal):
        site = scene.site(name)
        owner = name if site is None else site.parent
        if owner in things.names:
            found.add(things.names.index(owner))
        elif site is not None:
            found |= things.workspace
    return frozenset(found)


def _names(literals: Iterable[Literal]) -> Iterable[str]:
    for literal in literals:
        for argument in literal.arguments:
            if isinstance(argument, Literal):
                yield from _names([argument])
            elif isinstance(argument, str):
                yield argument


def held_things(things: Things, pairs: Pairs) -> frozenset[int]:
    """Return the objects that both fingers touch, by their places in `Things.names`.

    Args:
        pairs: (n, 2) geoms that touch; of several substeps, each finger may have touched in another one.
    """
    met = [
        set(things.of_geom[pairs[(finger[pairs[:, 0]] | finger[pairs[:, 1]])]].max(axis=1, initial=-1).tolist())
        for finger in things.fingers
    ]
    return frozenset(met[0] & met[1] & things.loose)


def held_within(things: Things, contacts: Contacts) -> dict[int, int]:
    """Return the objects that both fingers touch in one and the same substep, each with the last such (from 0)."""
    pairs, when = contacts.geoms, contacts.substeps
    sides = []
    for finger in things.fingers:
        rows = np.flatnonzero(finger[pairs[:, 0]] | finger[pairs[:, 1]])
        touched = things.of_geom[pairs[rows]].max(axis=1, initial=-1)
        sides.append(set(zip(touched.tolist(), when[rows].tolist(), strict=True)))
    return dict(sorted(held for held in sides[0] & sides[1] if held[0] in things.loose))


def moving_bodies(things: Things, model: mujoco.MjModel) -> tuple[int, ...]:
    """Return the ids of the bodies of things that can move."""
    bodies = model.geom_bodyid[things.of_geom[:-1] >= 0]
    return tuple(sorted({int(body) for body in bodies if model.body_weldid[body]}))


def body_of(model: mujoco.MjModel, geom: int) -> str:
    """Return the name of the body that has a geom."""
    return str(model.body(model.geom_bodyid[geom]).name)


# Clearances between the things of a scene, by their collision geoms.

Array = npt.NDArray[np.float64]

ROBOT = "robot0_base"
"""The root body of the robot."""

_STEP, _STEPS = 0.02, 4
"""Step (m) and number of steps in which the space below and above an object is checked."""
_TOUCHES = 0.0005


class Clearance:
    """A scratch copy of a model's poses for checking clearances. Fixtures stand where the model has them."""

    def __init__(self, model: mujoco.MjModel, scene: SceneSpec) -> None:
        self._model, self._data = model, mujoco.MjData(model)
        self._names = {model.body(body.root_body).id: body.name for body in scene.bodies}
        self._heights = {
            body.name: int(model.joint(body.joints[-1]).qposadr[0]) + 2 for body in scene.bodies if not body.is_fixture
        }
        self._robot = model.body(ROBOT).id
        self._root = model.body_rootid[model.geom_bodyid]
        self._solid = (model.geom_contype != 0) | (model.geom_conaffinity != 0)

    def in_the_way(self, qpos: Array, things: Collection[str], nearest: float) -> str:
        """Return the name of a thing or robot body that some objects come too near to, or "" if there is none.

        Init states contain objects that have not yet fallen, so the space below and above the objects is checked too.

        Args:
            qpos: (nq,).
            things: names of objects; if they stand on the workspace, that contact does not count.
            nearest: m, above 0.
        """
        named = {name: identifier for identifier, name in self._names.items()}
        own = self._geoms([named[name] for name in things])
        around = [identifier for identifier, name in self._names.items() if name not in things]
        if found := self._near(qpos, own, self._geoms([*around, self._robot]), nearest):
            return found
        workspace = self._geoms(set(self._root.tolist()) - {*self._names, self._robot})
        objects = [named[name] for name in self._heights if name not in things]
        heights = [self._heights[name] for name in things]
        for others, step in ((around, -_STEP), (objects, _STEP)):
            moved = qpos.copy()
            for _ in range(_STEPS):
                moved[heights] += step
                if step < 0 and self._near(moved, own, workspace, _TOUCHES):
                    break
                if found := self._near(moved, own, self._geoms(others), nearest):
                    return found
        return ""

    def depth(self, qpos: Array, thing: str) -> float:
        """Compute how deep (m) an object is in the workspace; 0 if it is outside."""
        named = {name: identifier for identifier, name in self._names.items()}
        own = self._geoms([named[thing]])
        workspace = self._geoms(set(self._root.tolist()) - {*self._names, self._robot})
        return max(-self._distance(qpos, own, workspace), 0.0)

    def in_robots_way(self, qpos: Array, nearest: float) -> str:
        """Return the name of a thing that the robot's moving parts come too near to, or "" if there is none.

        Unlike in `in_the_way`, the workspace counts too.
        """
        moves = self._model.body_weldid[self._model.geom_bodyid] != 0
        robot = self._root == self._robot
        return self._near(
            qpos, np.flatnonzero(self._solid & robot & moves), np.flatnonzero(self._solid & ~robot), nearest
        )

    def _geoms(self, roots: Collection[int]) -> npt.NDArray[np.int64]:
        """Return the solid geoms of bodies, by the bodies' root ids."""
        return np.flatnonzero(self._solid & np.isin(self._root, list(roots)))

    def _near(self, qpos: Array, own: npt.NDArray[np.int64], others: npt.NDArray[np.int64], nearest: float) -> str:
        for first, second in self._pairs(qpos, own, others, nearest):
            if mujoco.mj_geomDistance(self._model, self._data, first, second, nearest, None) < nearest:
                root = int(self._root[second])
                return self._names.get(root) or str(self._model.body(root).name)
        return ""

    def _distance(self, qpos: Array, own: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> float:
        distances = [
            mujoco.mj_geomDistance(self._model, self._data, first, second, _TOUCHES, None)
            for first, second in self._pairs(qpos, own, others, _TOUCHES)
        ]
        return min(distances, default=_TOUCHES)

    def _pairs(
        self, qpos: Array, own: npt.NDArray[np.int64], others: npt.NDArray[np.int64], nearest: float
    ) -> list[tuple[int, int]]:
        """Return pairs of geoms that may be within `nearest`, by their bounding spheres; computes the poses."""
        model, data = self._model, self._data
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        # Planes have no bounding sphere: their radius is 0.
        plane = model.geom_type[others] == mujoco.mjtGeom.mjGEOM_PLANE
        apart = np.linalg.norm(data.geom_xpos[own][:, None] - data.geom_xpos[others][None], axis=2)
        reach = model.geom_rbound[own][:, None] + model.geom_rbound[others][None] + nearest
        return [(int(own[one]), int(others[other])) for one, other in np.argwhere((apart <= reach) | plane[None])]


# Per-step readings for metrics: joint margins, contacts of the arm, and the places of the object and its goal.

Place = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], bool]
"""Positions of the object and of its goal (3,), m, the object's orientation (4,), quaternion wxyz, all in the world
frame, and whether both fingers touch the object."""


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

    def read() -> Place:
        is_held = number in held_things(things, data.contact.geom)
        return data.xpos[moved].copy(), place[goal].copy(), data.xquat[moved].copy(), is_held

    return read


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
