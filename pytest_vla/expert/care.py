"""What is to be kept away from, and what is to be carried gently: read from a task's costs and movers."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.expert.parts import colliding_geoms
from pytest_vla.scene.accepted import geom_number
from pytest_vla.scene.problem import Literal, Problem
from pytest_vla.scene.scene import Scene

Array = npt.NDArray[np.float64]

# What only touching is charged for is passed at this distance, m; what nearness is charged for, at this much beyond.
_TOUCH_MARGIN, _NEAR_MARGIN = 0.025, 0.02


@dataclass(frozen=True)
class Hazard:
    """What costs when something comes near to it.

    Attributes:
        name: of the object or fixture.
        geoms: of it, that count.
        hand: the distance that the hand keeps, m; None: the hand may touch it.
        others: the distance that any thing keeps that is carried, m; None: they may touch it.
        things: the distances that certain things keep, by their names, m.
        moves: it is a mover.
    """

    name: str
    geoms: tuple[int, ...]
    hand: float | None = None
    others: float | None = None
    things: dict[str, float] = field(default_factory=dict)
    moves: bool = False

    def margin(self, thing: str | None) -> float | None:
        """What a thing keeps from it, m; the hand, where `thing` is None; None: it may touch it."""
        if thing == self.name:
            return None
        kept = self.hand if thing is None else self.things.get(thing, self.others)
        return None if kept is None else (_TOUCH_MARGIN if kept <= 0 else kept + _NEAR_MARGIN)


@dataclass(frozen=True)
class Care:
    """What an expert that is careful minds; false where there is nothing to mind.

    Attributes:
        hazards: what is to be kept away from.
        gentle: names of things that are to be kept upright and moved slowly.
        riders: names of what stands in or on such things, and goes with them; by the things' names.
        fragile: names of things that are to be set down softly.
        aims: names that the goal is about.
    """

    hazards: tuple[Hazard, ...] = ()
    gentle: frozenset[str] = frozenset()
    riders: dict[str, tuple[str, ...]] = field(default_factory=dict)
    fragile: frozenset[str] = frozenset()
    aims: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.hazards or self.gentle or self.fragile)

    @cached_property
    def unseen(self) -> tuple[int, ...]:
        """The geoms that an expert without care does not see: of hazards that the goal is not about."""
        return tuple(geom for hazard in self.hazards if hazard.name not in self.aims for geom in hazard.geoms)

    @cached_property
    def moving(self) -> tuple[int, ...]:
        """The geoms of movers, which will be elsewhere."""
        return tuple(geom for hazard in self.hazards if hazard.moves for geom in hazard.geoms)


def care_of(problem: Problem, scene: Scene, model: mujoco.MjModel) -> Care:
    """What a task's costs and movers tell to mind. Names that are no body of the scene are passed over."""
    found = _Found(scene, model, frozenset(_names(problem.goal)))
    moved = {str(literal.arguments[0]) for literal in problem.goal if literal.predicate in ("on", "in")}
    for mover in problem.movers:
        found.keep(mover.name, hand=0.0, others=0.0, moves=True)
    for literal in _flat(problem.cost):
        _read(literal, found, moved)
    hazards = tuple(hazard for hazard in found.hazards.values() if hazard.geoms)
    riders = {thing: tuple(dict.fromkeys(names)) for thing, names in found.riders.items()}
    return Care(hazards, frozenset(riders), riders, frozenset(found.fragile), found.aims)


def _flat(literals: Iterable[Literal]) -> Iterator[Literal]:
    """The literals that charge, out of connectives; what is negated is no danger."""
    for literal in literals:
        if literal.predicate in ("and", "or"):
            yield from _flat(argument for argument in literal.arguments if isinstance(argument, Literal))
        elif literal.predicate != "not":
            yield literal


def _names(literals: Iterable[Literal]) -> Iterator[str]:
    for literal in _flat(literals):
        yield from (argument for argument in literal.arguments if isinstance(argument, str))


class _Found:
    """Hazards while they are read."""

    def __init__(self, scene: Scene, model: mujoco.MjModel, aims: frozenset[str]) -> None:
        self._scene, self._model = scene, model
        self.aims = aims
        self.hazards: dict[tuple[str, tuple[str, ...]], Hazard] = {}
        self.riders: dict[str, list[str]] = {}
        self.fragile: set[str] = set()

    def owner(self, name: str) -> str:
        """The object that a region is of; an object itself."""
        site = self._scene.site(name)
        return name if site is None or site.parent is None else site.parent

    def keep(
        self,
        name: str,
        *,
        hand: float | None = None,
        others: float | None = None,
        things: dict[str, float] | None = None,
        parts: tuple[str, ...] = (),
        moves: bool = False,
    ) -> None:
        """A distance to be kept from an object or fixture, or from its geoms of these numbers."""
        body = self._scene.body(name)
        if body is None:
            return
        before = self.hazards.get((name, parts))
        if before is None:
            root = int(self._model.body(body.root_body).id)
            geoms = tuple(
                geom
                for geom in colliding_geoms(self._model, root)
                if not parts or geom_number(str(self._model.geom(geom).name)) in parts
            )
            before = Hazard(name, geoms)
        both = {thing: max(before.things.get(thing, 0.0), kept) for thing, kept in (things or {}).items()}
        self.hazards[name, parts] = Hazard(
            name,
            before.geoms,
            _larger(before.hand, hand),
            _larger(before.others, others),
            {**before.things, **both},
            before.moves or moves,
        )


def _read(literal: Literal, found: _Found, moved: set[str]) -> None:
    names = [argument for argument in literal.arguments if isinstance(argument, str)]
    parts = next((argument for argument in literal.arguments if isinstance(argument, tuple)), ())
    number = next((argument for argument in literal.arguments if isinstance(argument, float)), 0.0)
    match literal.predicate:
        case "checkforce" if set(names) <= found.aims:
            # It may touch, but softly.
            found.fragile |= moved.intersection(names)
        case "incontact" | "incontactpart" | "checkforce" | "checkdistance" if len(names) == 2:
            distance = number if literal.predicate == "checkdistance" else 0.0
            for one, other in (names, names[::-1]):
                if one in moved:
                    found.keep(other, things={one: distance})
        case "checkgrippercontact" | "checkgrippercontactpart":
            found.keep(names[0], hand=0.0, parts=parts)
        case "checkgripperdistance" | "checkgripperdistancepart" | "checkgripperdist":
            found.keep(names[0], hand=number, parts=parts)
        case "fall" | "collide" if names[0] not in found.aims:
            found.keep(names[0], hand=0.0, others=0.0)
        case "noton" | "notin" if (vessel := found.owner(names[1])) in moved:
            found.riders.setdefault(vessel, []).append(names[0])


def _larger(one: float | None, other: float | None) -> float | None:
    kept = [value for value in (one, other) if value is not None]
    return max(kept) if kept else None
