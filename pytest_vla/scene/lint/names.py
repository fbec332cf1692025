"""What the names in a task's text stand for, as far as text and models tell it."""

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_vla.scene.accepted import FIXTURE, HAND, OBJECT, PART, REGION, WORKSPACE, ZONE
from pytest_vla.scene.compose import PartSite
from pytest_vla.scene.lint.finding import place_of
from pytest_vla.scene.literals import GRIPPER, Literal
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.sections import Declaration

_BOX = 3


@dataclass(frozen=True)
class ModelFacts:
    """Of a category's model.

    Attributes:
        joints: how many it has itself; objects have a free one beside them.
        sites: of its parts, by their names: what its regions are.
        contacts: the number by which a literal can mean each geom that collides (group 0), None where its name ends in
            none; see `pytest_vla.scene.accepted.geom_number`.
        radius: seen from above, m.
    """

    joints: int
    sites: Mapping[str, PartSite]
    contacts: tuple[str | None, ...]
    radius: float


Facts = Mapping[str, ModelFacts | None]
"""Of things, by their names; what is not in it is not known."""


def things_of(problem: Problem) -> dict[str, Declaration]:
    """Return the objects and fixtures that have a body of their own, by their names: not table or floor."""
    place = place_of(problem)
    standing = ("table", "floor") if place is None else (place.category,)
    fixtures = {item.name: item for item in problem.fixtures if item.category not in standing}
    return fixtures | {item.name: item for item in problem.objects}


def is_declared(problem: Problem, literal: Literal) -> bool:
    """Whether all that a literal names is declared; what is not is a finding of its own."""
    known = {item.name for item in (*problem.objects, *problem.fixtures)}
    known |= {region.key for region in problem.regions if region.target in known} | {GRIPPER}
    return all(argument in known for argument in literal.arguments if isinstance(argument, str))


class Names:
    """The names of a problem."""

    def __init__(self, problem: Problem, facts: Facts | None = None) -> None:
        """Args:
        problem: whose.
        facts: of its things' models; where they are not known, regions are taken to be there.
        """
        self._place = place_of(problem)
        self._things = things_of(problem)
        self._objects = {item.name for item in problem.objects}
        self._fixtures = {item.name for item in problem.fixtures}
        self._regions = {region.key: region for region in problem.regions}
        self._facts: Facts = facts or {}

    def kind(self, name: str) -> str | None:
        """Return what a name is, a kind of `pytest_vla.scene.accepted`, or None if the scene will not have it."""
        if name in self._things:
            return OBJECT if name in self._objects else FIXTURE
        if name in self._fixtures:
            return WORKSPACE if self._place is None or name == self._place.name else None
        if name not in self._regions:
            return HAND if name == GRIPPER else None
        if self.owner(name) is None:
            # Without a rectangle it is told as a region.
            return ZONE if self._place is None or self._place.name in name else None
        part, model = self.part(name), self._facts.get(self._regions[name].target)
        if part is None:
            # A part that is not there is told as a region, unless that has a rectangle.
            return REGION if model is None or not self._regions[name].ranges else None
        return REGION if len(part.size) == _BOX else PART

    def owner(self, name: str) -> Declaration | None:
        """Return the object or fixture that a region is of, or None if it is one of the table or floor."""
        region = self._regions[name]
        is_zone = self._place is not None and self._place.name in name
        return None if is_zone else self._things.get(region.target)

    def thing(self, name: str) -> Declaration | None:
        """Return the object or fixture that a name, or the region that it is of, stands for; None: there is none."""
        return self._things.get(name) or (self.owner(name) if name in self._regions else None)

    def part(self, name: str) -> PartSite | None:
        """Return the site of a region, or None if its model is not known or has none."""
        model = self._facts.get(self._regions[name].target)
        return model.sites.get(self._regions[name].name) if model is not None else None

    def may_move(self, name: str) -> bool:
        """Whether an object or fixture, or the part that a region is of, has a joint."""
        if name in self._objects:
            return True
        part = self.part(name) if name in self._regions else None
        if part is not None:
            return bool(part.joints) or (part.is_of_whole and self._regions[name].target in self._objects)
        model = self._facts.get(name)
        return model is None or model.joints > 0
