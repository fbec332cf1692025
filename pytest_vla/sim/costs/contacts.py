"""Contacts of a state between two groups of geoms: which, how hard, where."""

from typing import NamedTuple

import mujoco
import numpy as np

from pytest_vla.plan.costs import Point
from pytest_vla.sim.costs.setting import Array, Ids, Mask, Setting


class Met(NamedTuple):
    """What two groups of geoms do to each other.

    Attributes:
        force: N, the sum of the normal forces of their contacts.
        position: m, world frame, of the hardest contact.
        geoms: of the hardest contact, as MuJoCo orders them.
    """

    force: float
    position: Point
    geoms: tuple[int, int]


class Touch:
    """The contacts between two groups of geoms; `True` while there is one."""

    def __init__(self, setting: Setting, one: Ids, other: Ids, *, ordered: bool = False) -> None:
        """Args:
        setting: of the world.
        one, other: ids of geoms.
        ordered: only contacts whose first geom is of `one` and whose second is of `other`.
        """
        self._model, self._data = setting.model, setting.data
        self._one, self._other = setting.mask(one), setting.mask(other)
        self._ordered = ordered

    def __call__(self) -> bool:
        return bool(self._found().any())

    def indices(self) -> Ids:
        """Of the contacts, in MuJoCo's order."""
        return np.flatnonzero(self._found())

    def met(self, contacts: Ids | None = None) -> Met | None:
        """How hard and where; None: there is no contact."""
        found = self.indices() if contacts is None else contacts
        if not found.size:
            return None
        forces = normal_forces(self._model, self._data, found)
        hardest = int(found[int(np.argmax(forces))])
        x, y, z = (float(value) for value in self._data.contact.pos[hardest])
        first, second = (int(geom) for geom in self._data.contact.geom[hardest])
        return Met(float(forces.sum()), (x, y, z), (first, second))

    def _found(self) -> Mask:
        pairs = self._data.contact.geom
        left, right = pairs[:, 0], pairs[:, 1]
        found: Mask = self._one[left] & self._other[right]
        if not self._ordered:
            found |= self._one[right] & self._other[left]
        return found


def normal_forces(model: mujoco.MjModel, data: mujoco.MjData, contacts: Ids) -> Array:
    """The normal force (N) of each of these contacts, (number of contacts,)."""
    wrench, forces = np.zeros(6), np.zeros(len(contacts))
    for index, contact in enumerate(contacts):
        mujoco.mj_contactForce(model, data, int(contact), wrench)
        forces[index] = wrench[0]
    return forces
