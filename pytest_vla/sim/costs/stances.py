"""The memory of things: how they stood once at rest, whether they have fallen since, and what hit them."""

import math
from copy import deepcopy
from dataclasses import dataclass
from typing import NamedTuple

import mujoco
import numpy as np
from scipy.spatial import ConvexHull

from pytest_vla.plan.costs import Point
from pytest_vla.scene.scene import SceneBody
from pytest_vla.sim.costs.setting import Array, Setting
from pytest_vla.sim.substeps import Pairs, Present

TILT = math.radians(30)
"""rad. A thing that is tilted further than this has fallen."""

DROP = 0.05
"""m. A thing that is lower than its rest height by more than this has fallen."""

HIT = 1.0
"""N of normal force, in one substep, with something that it did not rest on: a collision."""

SETTLES = 20
"""Control steps in which a thing that hangs in the air when an episode begins may come to rest."""

_AT_REST = 0.02
"""m/s and rad/s."""


@dataclass(frozen=True)
class Hit:
    """A collision: at which control step, with what (see `Setting.owner`), how hard (N) and where (m)."""

    step: int
    other: str
    force: float
    position: Point


@dataclass
class Stance:
    """The memory of one thing: how it came to rest and what has happened to it since.

    Attributes:
        height: m, of its origin, when it came to rest.
        upright: the direction in its own frame that pointed up then, (3,).
        rests: whether it has come to rest.
        supports: names of the things that it touched then, without the robot.
        touched: name of the last thing that touched it, other than its supports.
        fallen: the control step since which it has fallen and the last thing that had touched it, or None if it stands.
        hit: the hardest collision.
    """

    height: float
    upright: Array
    rests: bool
    supports: frozenset[str]
    touched: str | None = None
    fallen: tuple[int, str | None] | None = None
    hit: Hit | None = None


class _Met(NamedTuple):
    """A contact with a thing: see `Hit`."""

    other: str
    force: float
    position: Point


class Stances:
    """The memory of some things of a world during an episode.

    A thing that hangs in the air when an episode begins, as in VLA-Arena's init states, comes to rest first. After one
    second its pose counts as its rest pose in any case.
    """

    def __init__(self, setting: Setting, bodies: tuple[SceneBody, ...]) -> None:
        self._setting = setting
        self._bodies = {body.name: setting.model.body(body.root_body).id for body in bodies}
        self._masks = {body.name: setting.mask(setting.colliding_geoms(body)) for body in bodies}
        everything = setting.mask(range(setting.model.ngeom))
        for mask in self._masks.values():
            setting.watch(mask, everything & ~mask)
        self._stances: dict[str, Stance] = {}
        self._speed = np.zeros(6)

    def begin(self) -> None:
        """Start the episode with the things as they are."""
        self._stances = {name: self._standing(name) for name in self._bodies}

    def observe(self, step: int) -> None:
        """Update the memory after a control step."""
        for name, stance in self._stances.items():
            met = self._met(name, stance.supports)
            if met is not None and not (stance.rests or self._setting.is_robot(met.other)):
                # It is still falling onto its support.
                met = None
            if met is not None:
                stance.touched = met.other
                if met.force > HIT and (stance.hit is None or met.force > stance.hit.force):
                    stance.hit = Hit(step, *met)
            if not stance.rests:
                self._settle(name, stance, step)
            elif not self.has_fallen(name):
                stance.fallen = None
            elif stance.fallen is None:
                stance.fallen = (step, stance.touched)

    def has_fallen(self, name: str) -> bool:
        """Whether a thing lies deeper than it stood by more than `DROP`, or is tilted by more than `TILT`."""
        stance, body, data = self._stances[name], self._bodies[name], self._setting.data
        up = data.xmat[body].reshape(3, 3)[2] @ stance.upright
        return bool(up < math.cos(TILT) or stance.height - data.xpos[body][2] > DROP)

    def of(self, name: str) -> Stance:
        """Return the memory of a thing."""
        return self._stances[name]

    def saved(self) -> object:
        """Return a copy of the whole memory."""
        return deepcopy(self._stances)

    def restore(self, saved: object) -> None:
        """Set the memory back to a value from `saved`."""
        assert isinstance(saved, dict)
        self._stances = deepcopy(saved)

    def _settle(self, name: str, stance: Stance, step: int) -> None:
        now = self._standing(name)
        stance.height, stance.upright, stance.supports = now.height, now.upright, stance.supports | now.supports
        stance.rests = now.rests or step >= SETTLES

    def _standing(self, name: str) -> Stance:
        setting, body = self._setting, self._bodies[name]
        data = setting.data
        mujoco.mj_objectVelocity(setting.model, data, mujoco.mjtObj.mjOBJ_BODY, body, self._speed, 0)
        others = self._others(name, Present(setting.model, data).pairs)[1]
        supports = frozenset(str(other) for other in np.unique(others) if not setting.is_robot(str(other)))
        rests = bool(supports) and bool(np.abs(self._speed).max() < _AT_REST)
        return Stance(float(data.xpos[body][2]), data.xmat[body].reshape(3, 3)[2].copy(), rests, supports)

    def _others(self, name: str, pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
        """Return a thing's contacts with other things, and the owners of these."""
        mask = self._masks[name]
        left, right = mask[pairs[:, 0]], mask[pairs[:, 1]]
        found = np.flatnonzero(left != right)
        return found, self._setting.owners[np.where(left[found], pairs[found, 1], pairs[found, 0])]

    def _met(self, name: str, supports: frozenset[str]) -> _Met | None:
        """Return the hardest contact of a thing with anything but its supports."""
        contacts = self._setting.contacts
        # Each pair once: most steps have no new contact.
        if np.isin(self._others(name, contacts.pairs)[1], list(supports)).all():
            return None
        found, others = self._others(name, contacts.geoms)
        new = ~np.isin(others, list(supports))
        met = {str(other): contacts.press(found[others == other]) for other in np.unique(others[new])}
        other, press = max(met.items(), key=lambda item: item[1].force)
        return _Met(other, press.force, press.position)


# The inside of a container: the part of the convex hull around its collision geoms that is open to above.
#
# No model says where its inside is. Whatever has its origin in the hull, or stands heaped above the rim by no more
# than `HEAP`, is in it: between a bowl's walls there is nothing else to be. Unless it is turned over: what a mug that
# stands upside down is put over is not in the mug.

HEAP = 0.02
"""m above the rim, along the container's own axis that points up."""

POURS = 0.0
"""The cosine of a container's tilt at which it is turned over: its opening points below the horizontal. As far as that
its wall is under what lies in it, and may hold it; beyond that the wall slopes down to the opening."""

HOLLOW = 0.4
"""Of a container's height, how far its floor is below its rim at least."""

_CORNERS = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=np.float64)


class Interior:
    """The inside of an object or fixture, in the frame of its root body."""

    def __init__(self, setting: Setting, body: SceneBody) -> None:
        """Compute the hull of a body.

        Args:
            setting: the world.
            body: has colliding geoms.
        """
        self._setting, self._data = setting, setting.data
        self._thing = body
        self._body = setting.model.body(body.root_body).id
        self._points = points = _surface(setting, body, self._body)
        # Inside of each face: normal . point + offset <= 0.
        self._faces = ConvexHull(points).equations if len(points) else np.empty((0, 4))

    def holds(self, position: Array) -> bool:
        """Whether a point (3,) of the world is inside, or heaped above it, and the container is not turned over."""
        return self.surrounds(position) and not self.is_turned()

    def is_hollow(self) -> bool:
        """Whether something can lie in it now: seen from above its middle, its floor is well below its rim."""
        if not len(self._points):
            return False
        model, data = self._setting.model, self._data
        turn = data.xmat[self._body].reshape(3, 3)
        corners = data.xpos[self._body] + self._points @ turn.T
        low, high = corners.min(axis=0), corners.max(axis=0)
        above, down = np.array([*((low + high) / 2)[:2], high[2] + HEAP]), np.array([0.0, 0.0, -1.0])
        depths = []
        for geom in self._setting.colliding_geoms(self._thing):
            place, frame, kind = data.geom_xpos[geom], data.geom_xmat[geom], int(model.geom_type[geom])
            if kind == mujoco.mjtGeom.mjGEOM_MESH:
                depth = mujoco.mj_rayMesh(model, data, int(geom), above, down)
            else:
                depth = mujoco.mju_rayGeom(place, frame, model.geom_size[geom], above, down, kind)
            if depth >= 0:
                depths.append(depth - HEAP)
        # A thing without a floor is a ring, and its contents lie on something else.
        return bool(depths) and min(depths) > HOLLOW * (high[2] - low[2])

    def is_turned(self) -> bool:
        """Whether the opening of an object points down, judged by the axis that was up when it was placed.

        A fixture keeps the pose in which it was built in.
        """
        if self._thing.is_fixture:
            return False
        drawn = self._setting.drawn().get(self._thing.name)
        upright = np.array([0.0, 0.0, 1.0])
        if drawn is not None:
            placed = np.zeros(9)
            mujoco.mju_quat2Mat(placed, np.asarray(drawn[1], dtype=np.float64))
            upright = placed.reshape(3, 3)[2]
        return bool(self._data.xmat[self._body].reshape(3, 3)[2] @ upright < POURS)

    def surrounds(self, position: Array) -> bool:
        """Whether a point (3,) of the world is within the hull or heaped above it, whatever the container's pose."""
        if not len(self._faces):
            return False
        turn = self._data.xmat[self._body].reshape(3, 3)
        local = turn.T @ (position - self._data.xpos[self._body])
        up = turn[2]
        return self._inside(local) or self._inside(local - HEAP * up)

    def _inside(self, local: Array) -> bool:
        return bool((self._faces[:, :3] @ local + self._faces[:, 3] <= 0.0).all())


def _surface(setting: Setting, body: SceneBody, root: int) -> Array:
    """Return points (n, 3) whose hull holds the body's colliding geoms, in the root's frame, joints at zero."""
    model = setting.model
    still = mujoco.MjData(model)
    mujoco.mj_kinematics(model, still)
    found = [np.empty((0, 3))]
    for geom in setting.colliding_geoms(body):
        if model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_MESH:
            mesh = model.geom_dataid[geom]
            first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
            points = np.asarray(model.mesh_vert[first : first + count], dtype=np.float64)
        else:
            centre, half = model.geom_aabb[geom].reshape(2, 3)
            points = centre + _CORNERS * half
        world = still.geom_xpos[geom] + points @ still.geom_xmat[geom].reshape(3, 3).T
        found.append((world - still.xpos[root]) @ still.xmat[root].reshape(3, 3))
    return np.vstack(found)
