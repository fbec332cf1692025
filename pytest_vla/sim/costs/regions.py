"""How far geoms are from a region: from its box, which is a site, and of which MuJoCo gives no distance.

By the algorithm of Gilbert, Johnson and Keerthi (1988): the distance of two convex bodies is that of their differences'
hull from the origin, and of that hull only the points farthest in some directions are needed.
"""

from collections.abc import Callable
from functools import partial
from itertools import combinations

import mujoco
import numpy as np

from pytest_vla.scene.scene import SceneSite
from pytest_vla.sim.costs.setting import Array, Ids, Setting

_STEPS = 60
"""Far more than a convex body takes; each comes closer."""

_EXACT = 1e-7
"""m, by which a distance may be too large."""

Farthest = Callable[[Array], Array]
"""Gives the point (3,) of a convex body that is farthest in a direction (3,)."""


class RegionDistance:
    """The smallest distance of a geom from a region's box; 0 where they overlap. See `Distance`."""

    def __init__(self, setting: Setting, geoms: Ids, site: SceneSite) -> None:
        """Args:
        setting: of the world.
        geoms: ids of geoms. Of a kind that is no convex body, such as a plane, its bounding box counts.
        site: the region; its sizes are three.
        """
        self._data, self._site = setting.data, setting.model.site(site.name).id
        self._half = np.array(site.size, dtype=np.float64)
        self._geoms = np.array(geoms, dtype=np.intp)
        self._reach = setting.model.geom_rbound[self._geoms]
        self._farthest = [_farthest(setting.model, int(geom)) for geom in geoms]

    def __call__(self) -> float:
        """In m; infinity where there is no geom."""
        smallest, bounds = np.inf, self._bounds()
        for index in map(int, np.argsort(bounds, kind="stable")):
            if bounds[index] > smallest:
                break
            smallest = min(smallest, self._apart(index))
        return float(smallest)

    def within(self, limit: float) -> bool:
        """Whether it is at most `limit` (m)."""
        bounds = self._bounds()
        near = np.flatnonzero(bounds <= limit)
        return any(self._apart(int(index)) <= limit for index in near[np.argsort(bounds[near], kind="stable")])

    def _bounds(self) -> Array:
        """What the distance (m) of each geom is at least: that of its bounding sphere, if it has one."""
        turn = self._data.site_xmat[self._site].reshape(3, 3)
        centres = (self._data.geom_xpos[self._geoms] - self._data.site_xpos[self._site]) @ turn
        outside = np.maximum(np.abs(centres) - self._half, 0.0)
        bounds = np.linalg.norm(outside, axis=1) - self._reach
        # Of planes MuJoCo gives no radius.
        return np.where(self._reach > 0, bounds, -np.inf)

    def _apart(self, index: int) -> float:
        data, geom = self._data, self._geoms[index]
        frame = data.site_xmat[self._site].reshape(3, 3)
        turn = frame.T @ data.geom_xmat[geom].reshape(3, 3)
        place = frame.T @ (data.geom_xpos[geom] - data.site_xpos[self._site])
        farthest = self._farthest[index]

        def of_geom(direction: Array) -> Array:
            return np.asarray(place + turn @ farthest(turn.T @ direction))

        return distance_of(of_geom, partial(_of_box, self._half))


def distance_of(one: Farthest, other: Farthest) -> float:
    """Return how far two convex bodies are apart (m), 0 where they overlap."""
    nearest = one(np.array([1.0, 0.0, 0.0])) - other(np.array([-1.0, 0.0, 0.0]))
    kept = nearest[None]
    for _ in range(_STEPS):
        length = float(np.linalg.norm(nearest))
        if length < _EXACT:
            return 0.0
        towards = -nearest / length
        further = one(towards) - other(-towards)
        # No point of the hull is nearer than its plane through this one.
        if length + float(further @ towards) < _EXACT:
            break
        nearest, kept = _nearest(np.vstack([kept, further]))
    return float(np.linalg.norm(nearest))


def _nearest(corners: Array) -> tuple[Array, Array]:
    """The point (3,) of the hull of some corners that is nearest to the origin, and the few that it is of."""
    best, kept, least = corners[0], corners[:1], np.inf
    for count in range(1, min(len(corners), 4) + 1):
        for chosen in combinations(range(len(corners)), count):
            points = corners[list(chosen)]
            edges = points[1:] - points[0]
            shares = np.linalg.lstsq(edges @ edges.T, -edges @ points[0], rcond=None)[0] if count > 1 else np.empty(0)
            if shares.min(initial=0.0) < 0.0 or shares.sum() > 1.0:
                continue
            point = points[0] + shares @ edges
            length = float(np.linalg.norm(point))
            if length < least:
                best, kept, least = point, points, length
    return best, kept


def _farthest(model: mujoco.MjModel, geom: int) -> Farthest:
    """Of a geom, in its own frame."""
    size, kind = np.array(model.geom_size[geom]), int(model.geom_type[geom])
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        mesh = model.geom_dataid[geom]
        first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
        return partial(_of_points, np.asarray(model.mesh_vert[first : first + count], dtype=np.float64))
    if kind in (mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_CAPSULE):
        height = size[1] if kind == mujoco.mjtGeom.mjGEOM_CAPSULE else 0.0
        return lambda direction: _unit(direction) * size[0] + np.array([0.0, 0.0, np.sign(direction[2]) * height])
    if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID:
        return lambda direction: size * _unit(size * direction)
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        return lambda direction: np.array(
            [*(_unit(direction[:2]) * size[0]), np.copysign(size[1], direction[2])], dtype=np.float64
        )
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        return partial(_of_box, size)
    centre, half = model.geom_aabb[geom].reshape(2, 3)
    return lambda direction: centre + np.copysign(half, direction)


def _of_box(half: Array, direction: Array) -> Array:
    return np.copysign(half, direction)


def _of_points(points: Array, direction: Array) -> Array:
    return np.asarray(points[int(np.argmax(points @ direction))])


def _unit(vector: Array) -> Array:
    length = float(np.linalg.norm(vector))
    return vector / length if length > 0 else np.zeros_like(vector)
