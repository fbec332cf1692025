"""A careful hand's clearances: boxes around hand, load and scene, and ways that keep the distances."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.expert.hand import (
    FINGER_HALF_WIDTH,
    FINGER_OUTSIDE,
    PALM_DISTANCE,
    PALM_HALF_LENGTH,
    PALM_HALF_WIDTH,
    TIP_LENGTH,
    Hand,
    angle_between,
)
from pytest_vla.expert.heights import colliding_geoms, corners, geom_boxes, robot_geoms
from pytest_vla.expert.routes import KeepOutBoxes, Passing, Reach, find_way, joined, passing
from pytest_vla.scene.literals import geom_number
from pytest_vla.scene.problem import Literal, Problem
from pytest_vla.scene.scene import SceneSpec

# Hazards to avoid and things to carry gently, read from a task's costs and movers.

Array = npt.NDArray[np.float64]

# Clearances, m: for a hazard charged on contact; and, added to its distance, for one charged on nearness.
_TOUCH_MARGIN, _NEAR_MARGIN = 0.025, 0.02


@dataclass(frozen=True)
class Hazard:
    """An object or fixture that costs when something comes near to it.

    Attributes:
        name: of the object or fixture.
        geoms: its geoms that count.
        hand: the distance that the hand keeps, m, or None if the hand may touch it.
        others: the distance that any carried thing keeps, m, or None if carried things may touch it.
        things: the distances that certain things keep, by their names, m.
        moves: whether it is a mover.
    """

    name: str
    geoms: tuple[int, ...]
    hand: float | None = None
    others: float | None = None
    things: dict[str, float] = field(default_factory=dict)
    moves: bool = False

    def margin(self, thing: str | None) -> float | None:
        """Return the distance (m) to keep from the hazard, or None if touching is allowed.

        Args:
            thing: the thing that keeps the distance, or None for the hand.
        """
        if thing == self.name:
            return None
        kept = self.hand if thing is None else self.things.get(thing, self.others)
        return None if kept is None else (_TOUCH_MARGIN if kept <= 0 else kept + _NEAR_MARGIN)


@dataclass(frozen=True)
class Care:
    """The hazards and fragile things that a careful expert respects; false if there are none.

    Attributes:
        hazards: things to keep away from.
        gentle: names of things to keep upright and move slowly.
        riders: for each such thing's name, the names of the things that stand in or on it and move with it.
        fragile: names of things to set down softly.
        aims: names in the goal.
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
        """The geoms that an expert without care ignores: those of hazards that the goal does not name."""
        return tuple(geom for hazard in self.hazards if hazard.name not in self.aims for geom in hazard.geoms)

    @cached_property
    def moving(self) -> tuple[int, ...]:
        """The geoms of movers, which will be elsewhere."""
        return tuple(geom for hazard in self.hazards if hazard.moves for geom in hazard.geoms)


def care_of(problem: Problem, scene: SceneSpec, model: mujoco.MjModel) -> Care:
    """Read the hazards and fragile things from a task's costs and movers; names without a body are ignored."""
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
    """Yield the literals inside connectives that charge; negated literals are no danger."""
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

    def __init__(self, scene: SceneSpec, model: mujoco.MjModel, aims: frozenset[str]) -> None:
        self._scene, self._model = scene, model
        self.aims = aims
        self.hazards: dict[tuple[str, tuple[str, ...]], Hazard] = {}
        self.riders: dict[str, list[str]] = {}
        self.fragile: set[str] = set()

    def owner(self, name: str) -> str:
        """Return the object that has a region, or the name itself if it is an object."""
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
        """Add a distance to keep from an object or fixture, or from its geoms with these numbers."""
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


Box = tuple[Array, Array]
"""Low and high corner (3,), m."""

# Weights of a metre: within a hazard's clearance, in a hazard, and in any other thing.
_NEAR, _TOUCHING, _SOLID = 20.0, 60.0, 40.0
# The weight of a metre in a mover's future place, and the clearance from it, m.
_PASSING, _ASIDE = 6.0, 0.03
# Clearance of the hand from things that it may touch, m.
_SPARE = 0.008
# Boxes of the hand in the frame of its grip site (m): fingers, palm with flange, and the wrist above it.
_HAND = (
    ((-FINGER_OUTSIDE, -FINGER_HALF_WIDTH, -PALM_DISTANCE), (FINGER_OUTSIDE, FINGER_HALF_WIDTH, TIP_LENGTH + 0.003)),
    ((-PALM_HALF_LENGTH, -PALM_HALF_WIDTH, -0.13), (PALM_HALF_LENGTH, PALM_HALF_WIDTH, -PALM_DISTANCE + 0.004)),
    ((-0.075, -0.075, -0.29), (0.075, 0.075, -0.13)),
)
# Shares of the fastest speed: with things that may spill, and when setting down things that may break.
_GENTLY, _SOFTLY = 0.45, 0.2
# Beyond this turn on the way, rad, a box is as wide as it is long.
_TURNING = 0.15


@dataclass(frozen=True)
class Lookout:
    """A careful hand's view of a scene: the ways, waits and speeds that respect its hazards."""

    model: mujoco.MjModel
    scene: SceneSpec
    care: Care

    def way(
        self,
        hand: Hand,
        position: Array,
        rotation: Array,
        load: tuple[int, ...] = (),
        thing: str | None = None,
    ) -> Array:
        """Find a way (n, 3) of the grip site from its present place to a pose.

        Args:
            hand: the hand that moves; the scene is in the state of its data.
            position, rotation: the pose to reach.
            load: geoms that the hand holds.
            thing: the name of the held thing, or None.
        """
        boxes = self.boxes(hand, rotation, load, thing)
        return find_way(hand.position, position, boxes, self._reach(hand.data))

    def boxes(self, hand: Hand, rotation: Array, load: tuple[int, ...] = (), thing: str | None = None) -> KeepOutBoxes:
        """Return the boxes that the grip site has to avoid while the hand turns to `rotation` with its load."""
        shapes = self._shapes(hand, rotation, load, thing)
        found = [self._around(hand.data, shapes, load)]
        if (coming := self.coming(hand)) is not None:
            found.append(coming.swept([box for _, box in shapes], _ASIDE, _PASSING))
        return joined(found)

    def coming(self, hand: Hand) -> Passing | None:
        """Predict the movers' places, or None if nothing moves."""
        return passing(self.model, hand.data, hand.movement(), self._movers)

    def above(
        self, hand: Hand, position: Array, rotation: Array, load: tuple[int, ...] = (), thing: str | None = None
    ) -> Array:
        """Return a position (3,), or the lowest one above it that no mover reaches; itself if there is none."""
        coming = self.coming(hand)
        if coming is None:
            return position
        places = position + np.linspace(0.0, 0.4, 21)[:, None] * np.array([0.0, 0.0, 1.0])
        met = coming.swept([box for _, box in self._shapes(hand, rotation, load, thing)], _ASIDE, 1.0).at(places) > 0
        met |= self._reach(hand.data).beyond(places)
        return position if met.all() else np.array(places[int(np.argmin(met))])

    def wait(
        self, hand: Hand, points: Array, rotation: Array, load: tuple[int, ...] = (), thing: str | None = None
    ) -> int:
        """Compute how many control steps to wait before the hand goes through points (k, 3) step by step."""
        coming = self.coming(hand)
        if coming is None:
            return 0
        return coming.delay(points, [box for _, box in self._shapes(hand, rotation, load, thing)], _ASIDE)

    def _shapes(
        self, hand: Hand, rotation: Array, load: tuple[int, ...], thing: str | None
    ) -> list[tuple[str | None, Box]]:
        """Return boxes around the hand, which turns to `rotation`, and around its load, each with its owner."""
        shapes: list[tuple[str | None, Box]] = [(None, box) for box in hand_boxes(hand.rotation, rotation)]
        return [*shapes, *self._load_boxes(hand, load, thing)]

    def at(self, hand: Hand, position: Array, rotation: Array) -> float:
        """Return the clearance penalty of the empty hand at a pose (0 if all clearances hold)."""
        shapes = [(None, box) for box in hand_boxes(rotation, rotation)]
        return float(self._around(hand.data, shapes, (), hazards_only=True).at(position[None])[0])

    def load_at(self, data: mujoco.MjData, thing: str, body: int, geoms: tuple[int, ...], places: Array) -> Array:
        """Return the clearance penalties (n,) of a thing with its root at places (n, 3), turned as it is now."""
        points = corners(self.model, data, geoms) - data.xpos[body]
        shapes = [(thing, (points.min(0), points.max(0)))]
        return self._around(data, shapes, geoms, hazards_only=True).at(places)

    def geoms_with(self, thing: str, geoms: tuple[int, ...]) -> tuple[int, ...]:
        """Return a thing's geoms, with those of its riders."""
        bodies = [self.scene.body(name) for name in self.care.riders.get(thing, ())]
        riding = [
            geom
            for body in bodies
            if body is not None
            for geom in colliding_geoms(self.model, int(self.model.body(body.root_body).id))
        ]
        return (*geoms, *riding)

    def speed(self, thing: str) -> float:
        """Return the speed, as a share of the fastest, at which the hand carries a thing."""
        return _GENTLY if thing in self.care.gentle else 1.0

    def setting_down(self, thing: str) -> float:
        """Return the speed, as a share of the fastest, at which the hand sets a thing down."""
        return _SOFTLY if thing in self.care.gentle | self.care.fragile else 0.6

    def _load_boxes(self, hand: Hand, load: tuple[int, ...], thing: str | None) -> list[tuple[str | None, Box]]:
        if not load or thing is None:
            return []
        points = corners(hand.model, hand.data, load) - hand.position
        return [(thing, (points.min(0), points.max(0)))]

    def _around(
        self,
        data: mujoco.MjData,
        shapes: Sequence[tuple[str | None, Box]],
        without: tuple[int, ...],
        hazards_only: bool = False,
    ) -> KeepOutBoxes:
        """Return the boxes that a point has to avoid if these boxes move with it.

        Each of them belongs to a thing or to the hand.
        """
        parts = []
        if not hazards_only:
            others = [geom for geom in self._solid if geom not in set(without)]
            low, high = geom_boxes(self.model, data, others)
            parts += [_grown(low, high, box, _SPARE, _SOLID) for _, box in shapes]
        for hazard in self.care.hazards:
            if hazard.moves:
                continue
            low, high = geom_boxes(self.model, data, hazard.geoms)
            for thing, box in shapes:
                if (margin := hazard.margin(thing)) is not None:
                    parts += [_grown(low, high, box, margin, _NEAR), _grown(low, high, box, 0.0, _TOUCHING)]
        return joined(parts)

    @cached_property
    def _movers(self) -> tuple[tuple[str, int, tuple[int, ...]], ...]:
        """Name, root body and geoms of each."""
        bodies = [(hazard, self.scene.body(hazard.name)) for hazard in self.care.hazards if hazard.moves]
        return tuple(
            (hazard.name, int(self.model.body(body.root_body).id), hazard.geoms)
            for hazard, body in bodies
            if body is not None
        )

    @cached_property
    def _solid(self) -> tuple[int, ...]:
        """All colliding geoms except the robot's, the movers' and planes."""
        passed = {*robot_geoms(self.model), *self.care.moving}
        model = self.model
        return tuple(
            geom
            for geom in range(model.ngeom)
            if (model.geom_contype[geom] or model.geom_conaffinity[geom])
            and geom not in passed
            and model.geom_type[geom] != mujoco.mjtGeom.mjGEOM_PLANE
        )

    def _reach(self, data: mujoco.MjData) -> Reach:
        return Reach(np.array(data.body("robot0_link2").xpos))


def hand_boxes(start: Array, end: Array) -> list[Box]:
    """Return boxes around fingers, palm and wrist, relative to the grip site, for a hand that turns.

    Args:
        start, end: its rotations.
    """
    boxes = []
    for low, high in _HAND:
        if angle_between(start, end) > _TURNING:
            wide = max(high[0], high[1])
            low, high = (-wide, -wide, low[2]), (wide, wide, high[2])
        points = np.array(np.meshgrid(*zip(low, high, strict=True))).reshape(3, -1).T
        turned = np.concatenate([points @ start.T, points @ end.T])
        boxes.append((turned.min(0), turned.max(0)))
    return boxes


def _grown(low: Array, high: Array, box: Box, margin: float, weight: float) -> KeepOutBoxes:
    return KeepOutBoxes(low - box[1] - margin, high - box[0] + margin, np.full(len(low), weight))
