"""How far two groups of geoms are apart, by what MuJoCo says of each pair.

MuJoCo's `mj_geomDistance` says 0 of some pairs of meshes that are up to half a metre apart (seen from 3.3.7 to 3.8.1),
now of these, now of those, and VLA-Arena's code believes it: an arm at rest is charged for it. So who wants its
verdicts has to ask for every pair; who wants the distance does not.
"""

from typing import Protocol

import mujoco
import numpy as np

from pytest_vla.sim.costs.setting import Array, Ids, Setting

_FARTHEST = 10.0
"""m, what upstream asks MuJoCo for at most."""

_SLACK = 1e-3
"""m, by which a distance that MuJoCo gives may be off that of the spheres around two geoms."""


class Distance(Protocol):
    """The smallest signed distance between geoms of two groups, negative where they overlap."""

    def __call__(self) -> float:
        """In m; infinity where a group is empty."""

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
    """Each geom of one group with each of another, but for itself."""

    def __init__(self, setting: Setting, one: Ids, other: Ids) -> None:
        model = setting.model
        self._model, self._data = model, setting.data
        pairs = [(int(first), int(second)) for first in one for second in other if first != second]
        self._pairs, self.count = pairs, len(pairs)
        self._first, self._second = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
        # Of planes MuJoCo gives no radius.
        radii = np.where(model.geom_rbound > 0, model.geom_rbound, np.inf)
        self._reach: Array = radii[self._first] + radii[self._second] + _SLACK

    def bounds(self) -> Array:
        """What the distance (m) of each pair is at least."""
        where = self._data.geom_xpos
        apart = where[self._first] - where[self._second]
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", apart, apart)) - self._reach)

    def second(self, index: int) -> int:
        """Return the geom of the second group that a pair has."""
        return self._pairs[index][1]

    def said(self, index: int) -> float:
        """What MuJoCo says of a pair (m)."""
        return self._asked(*self._pairs[index])

    def believed(self, index: int, bound: float) -> float:
        """What is believed of a pair (m) whose distance is at least `bound`: a 0 only where the two are in contact.

        Geoms that overlap are at a negative distance, and of pieces of a thing others are as near: what is exactly 0
        without a contact is no distance, and the pair is passed over.
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
