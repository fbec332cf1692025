"""Contacts between two groups of geoms: whether there is one, how hard, where."""

import numpy as np

from pytest_vla.sim.costs.setting import Ids, Mask, Setting
from pytest_vla.sim.substeps import Pairs, Press


class Touch:
    """The contacts between two groups of geoms; `True` where there is one, in any substep that the setting has."""

    def __init__(self, setting: Setting, one: Ids, other: Ids, *, ordered: bool = False) -> None:
        """Args:
        setting: of the world.
        one, other: ids of geoms.
        ordered: only contacts whose first geom is of `one` and whose second is of `other`.
        """
        self._contacts = setting.contacts
        self._one, self._other = setting.mask(one), setting.mask(other)
        self._ordered = ordered
        setting.watch(self._one, self._other)

    def __call__(self) -> bool:
        return bool(self._found(self._contacts.pairs).any())

    def indices(self) -> Ids:
        """Of the contacts, in MuJoCo's order."""
        return np.flatnonzero(self._found(self._contacts.geoms))

    def met(self) -> Press | None:
        """How hard and where; None: there is no contact."""
        found = self.indices() if self() else np.empty(0, dtype=np.intp)
        return self._contacts.press(found) if found.size else None

    def _found(self, pairs: Pairs) -> Mask:
        left, right = pairs[:, 0], pairs[:, 1]
        found: Mask = self._one[left] & self._other[right]
        if not self._ordered:
            found |= self._one[right] & self._other[left]
        return found
