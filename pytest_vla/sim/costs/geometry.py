"""Geometry of cost literals: distances between groups of geoms, their contacts, and distances to regions.

MuJoCo's `mj_geomDistance` returns 0 for some pairs of meshes that are up to half a metre apart (seen from 3.3.7 to
3.8.1), for varying pairs, and VLA-Arena's code believes it: an arm at rest is charged for it. To reproduce its verdicts
every pair has to be asked; to get the true distance it is enough to ask the near pairs.
"""

from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Protocol

import mujoco
import numpy as np

from pytest_vla.scene.scene import SceneSite
from pytest_vla.sim.costs.setting import Array, Ids, Mask, Setting
from pytest_vla.sim.substeps import Pairs, Press

_FARTHEST = 10.0
"""m, the largest distance that upstream asks MuJoCo for."""

_SLACK = 1e-3
"""m, by which a distance that MuJoCo gives may be off that of the spheres around two geoms."""


class Distance(Protocol):
    """The smallest signed distance between geoms of two groups, negative if they overlap."""

    def __call__(self) -> float:
        """Compute the distance in m; infinity if a group is empty."""

    def within(self, limit: float) -> bool:
        """Whether it is at most `limit` (m)."""


class SaidDistance:
    """The smallest number that MuJoCo says of any pair, as upstream has it."""

    def __init__(self, setting: Setting, one: Ids, other: Ids) -> None:
        self._pairs = _Pairs(setting, one, other)

    def __call__(self) -> float:
        """See `Distance`."""
        return min((self._pairs.said(index) for index in range(self._pairs.count)), default=np.inf)

    def within(self, limit: float) -> bool:
        """See `Distance`. The nearest pairs are asked for first, all where none is near enough."""
        return any(self._pairs.said(int(index)) <= limit for index in np.argsort(self._pairs.bounds(), kind="stable"))


class TrueDistance:
    """The smallest distance; pairs whose bounding spheres are farther apart than that are not asked for."""

    def __init__(self, setting: Setting, one: Ids, other: Ids) -> None:
        self._pairs = _Pairs(setting, one, other)

    def __call__(self) -> float:
        """See `Distance`."""
        return self._smallest()[0]

    def nearest(self) -> int | None:
        """Return the geom of the second group that is nearest to the first, or None if a group is empty."""
        pair = self._smallest()[1]
        return None if pair is None else self._pairs.second(pair)

    def within(self, limit: float) -> bool:
        """See `Distance`."""
        bounds = self._pairs.bounds()
        near = np.flatnonzero(bounds <= limit)
        order = near[np.argsort(bounds[near], kind="stable")]
        return any(self._pairs.believed(int(index), float(bounds[index])) <= limit for index in order)

    def _smallest(self) -> tuple[float, int | None]:
        smallest, pair, bounds = np.inf, None, self._pairs.bounds()
        for index in map(int, np.argsort(bounds, kind="stable")):
            if bounds[index] > smallest:
                break
            found = self._pairs.believed(index, float(bounds[index]))
            if found < smallest:
                smallest, pair = found, index
        return float(smallest), pair


class _Pairs:
    """All pairs of a geom of one group and a different geom of the other."""

    def __init__(self, setting: Setting, one: Ids, other: Ids) -> None:
        model = setting.model
        self._model, self._data = model, setting.data
        pairs = [(int(first), int(second)) for first in one for second in other if first != second]
        self._pairs, self.count = pairs, len(pairs)
        self._first, self._second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        # MuJoCo gives planes no radius.
        radii = np.where(model.geom_rbound > 0, model.geom_rbound, np.inf)
        self._reach: Array = radii[self._first] + radii[self._second] + _SLACK

    def bounds(self) -> Array:
        """Compute a lower bound of each pair's distance (m)."""
        where = self._data.geom_xpos
        apart = where[self._first] - where[self._second]
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", apart, apart)) - self._reach)

    def second(self, index: int) -> int:
        """Return the geom of the second group that a pair has."""
        return self._pairs[index][1]

    def said(self, index: int) -> float:
        """Return MuJoCo's distance of a pair (m)."""
        return self._asked(*self._pairs[index])

    def believed(self, index: int, bound: float) -> float:
        """Compute the corrected distance (m) of a pair that is at least `bound` apart.

        A 0 from MuJoCo counts only if the two geoms are in contact. Overlapping geoms have a negative distance, and a
        thing's other pieces are about as near, so an exact 0 without a contact is an error of MuJoCo and the pair is
        ignored (infinity).
        """
        first, second = self._pairs[index]
        said = self._asked(first, second)
        if said == 0.0:
            geoms = self._data.contact.geom
            met = ((geoms == (first, second)) | (geoms == (second, first))).all(axis=1)
            return 0.0 if met.any() else np.inf
        return max(said, bound)

    def _asked(self, first: int, second: int) -> float:
        return float(mujoco.mj_geomDistance(self._model, self._data, first, second, _FARTHEST, None))


# Contacts between two groups of geoms: whether there is one, and its force and place.


class GroupContacts:
    """The contacts between two groups of geoms; `True` if there is one in any substep of the setting."""

    def __init__(self, setting: Setting, one: Ids, other: Ids, *, ordered: bool = False) -> None:
        """Set up the contacts of two groups, and record them from now on.

        Args:
            setting: the world.
            one, other: ids of geoms.
            ordered: only contacts whose first geom is in `one` and whose second is in `other`.
        """
        self._contacts = setting.contacts
        self._one, self._other = setting.mask(one), setting.mask(other)
        self._ordered = ordered
        setting.watch(self._one, self._other)

    def __call__(self) -> bool:
        return bool(self._found(self._contacts.pairs).any())

    def indices(self) -> Ids:
        """Return the indices of the contacts, in MuJoCo's order."""
        return np.flatnonzero(self._found(self._contacts.geoms))

    def met(self) -> Press | None:
        """Return how hard and where the groups press on each other, or None if there is no contact."""
        found = self.indices() if self() else np.empty(0, dtype=np.intp)
        return self._contacts.press(found) if found.size else None

    def _found(self, pairs: Pairs) -> Mask:
        left, right = pairs[:, 0], pairs[:, 1]
        found: Mask = self._one[left] & self._other[right]
        if not self._ordered:
            found |= self._one[right] & self._other[left]
        return found


# The distance of geoms from a region: from its box, which is a site, for which MuJoCo computes no distance.
#
# By the algorithm of Gilbert, Johnson and Keerthi (1988): the distance of two convex bodies is that of their
# differences' hull from the origin, and of that hull only the points farthest in some directions are needed.

_STEPS = 60
"""Far more than a convex body needs; each step comes closer."""

_EXACT = 1e-7
"""m, by which a distance may be too large."""

Farthest = Callable[[Array], Array]
"""Returns the point (3,) of a convex body that is farthest in a direction (3,)."""


class RegionDistance:
    """The smallest distance of a geom from a region's box; 0 if they overlap. See `Distance`."""

    def __init__(self, setting: Setting, geoms: Ids, site: SceneSite) -> None:
        """Set up the distance from a region.

        Args:
            setting: the world.
            geoms: ids of geoms. If a geom is no convex body, such as a plane, its bounding box counts.
            site: the region; its sizes are three.
        """
        self._data, self._site = setting.data, setting.model.site(site.name).id
        self._half = np.array(site.size, dtype=np.float64)
        self._geoms = np.array(geoms, dtype=np.intp)
        self._reach = setting.model.geom_rbound[self._geoms]
        self._farthest = [_farthest(setting.model, int(geom)) for geom in geoms]

    def __call__(self) -> float:
        """Compute the distance in m; infinity if there is no geom."""
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
        """Compute a lower bound of each geom's distance (m), from its bounding sphere if it has one."""
        turn = self._data.site_xmat[self._site].reshape(3, 3)
        centres = (self._data.geom_xpos[self._geoms] - self._data.site_xpos[self._site]) @ turn
        outside = np.maximum(np.abs(centres) - self._half, 0.0)
        bounds = np.linalg.norm(outside, axis=1) - self._reach
        # MuJoCo gives planes no radius.
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
    """Return how far two convex bodies are apart (m), 0 if they overlap."""
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
    """Return the hull's point (3,) nearest to the origin, and the few corners that span it."""
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
    """Return a function that finds the farthest point of a geom in a direction, in the geom's own frame."""
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
