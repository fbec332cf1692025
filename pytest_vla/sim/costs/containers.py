"""The inside of a thing that holds others: what of the convex hull around its collision geoms is open to above.

No model says where its inside is. Whatever has its origin in the hull, or stands heaped above the rim by no more than
`HEAP`, is in it: between a bowl's walls there is nothing else to be. Unless it is turned over: what a mug that stands
upside down is put over is not in the mug.
"""

import mujoco
import numpy as np
from scipy.spatial import ConvexHull

from pytest_vla.scene.scene import SceneBody
from pytest_vla.sim.costs.setting import Array, Setting

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
        """Args:
        setting: of the world.
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
        """Whether something can lie in it as it stands: from above its middle, its floor is well below its rim."""
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
        # What has no floor is a ring, and what lies in it lies on something else.
        return bool(depths) and min(depths) > HOLLOW * (high[2] - low[2])

    def is_turned(self) -> bool:
        """Whether the opening of an object points down, by which of its axes was up as it was placed.

        A fixture stands as it was built in.
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
        """Whether a point (3,) of the world is within the hull or heaped above it, however the container stands."""
        if not len(self._faces):
            return False
        turn = self._data.xmat[self._body].reshape(3, 3)
        local = turn.T @ (position - self._data.xpos[self._body])
        up = turn[2]
        return self._inside(local) or self._inside(local - HEAP * up)

    def _inside(self, local: Array) -> bool:
        return bool((self._faces[:, :3] @ local + self._faces[:, 3] <= 0.0).all())


def _surface(setting: Setting, body: SceneBody, root: int) -> Array:
    """Points (n, 3) whose hull holds the body's colliding geoms, in the root's frame, with joints at their zero."""
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
