"""Pick and place: a thing is gripped from above, carried over obstacles, and set down."""

from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.expert.grasps import Grasp
from pytest_vla.expert.hand import (
    CLOSED,
    OPEN,
    PALM_DISTANCE,
    PALM_HALF_LENGTH,
    TIP_LENGTH,
    Hand,
    Motion,
    action_towards,
    grip,
    move,
)
from pytest_vla.expert.heights import Heights, corners
from pytest_vla.expert.lookout import Lookout
from pytest_vla.expert.routes import step_by_step

Array = npt.NDArray[np.float64]

_ABOVE = 0.07
_SPARE = 0.02
# Lifting goes up four centimetres; a thing that rose by less than this was lost.
_RISEN = 0.015
# A load that moves in the hand by more than this is not held.
_SLIPPED = 0.08
# Control steps in which the fingers close or open.
_GRIPPING = 14


@dataclass(frozen=True)
class CarriedObject:
    """A movable object: its root body, its colliding geoms, and how far they reach from the root (m, horizontally)."""

    name: str
    body: int
    geoms: tuple[int, ...]
    radius: float

    def position(self, data: mujoco.MjData) -> Array:
        """Return the root's position (3,), m, world frame, which literals are judged by."""
        return np.array(data.xpos[self.body])


@dataclass(frozen=True)
class Drop:
    """A place to let go a thing.

    Attributes:
        place: (2,) where its root shall be, m, world frame.
        support: z of the surface that it is set on, m.
        gap: between the two when the fingers open, m; a negative gap presses down until nothing gives.
    """

    place: Array
    support: float
    gap: float


def travel(
    hand: Hand,
    position: Array,
    rotation: Array,
    gripper: float,
    terrain: Heights,
    hang: float,
    radius: float,
    lookout: Lookout | None = None,
) -> Motion:
    """Move to a pose over all obstacles: up, across, down; a careful hand takes the way that its lookout finds.

    Args:
        hand: the hand that moves.
        position, rotation: the pose to reach.
        gripper: `OPEN` or `CLOSED`.
        terrain: heights of the obstacles, without robot and load.
        hang: how far the load, or the fingers, reach below the grip site, m.
        radius: of the load, m.
        lookout: of a careful hand that holds nothing.
    """
    if lookout is not None:
        way = lookout.way(hand, position, rotation)
        yield from hold(hand, lookout.wait(hand, step_by_step(way), rotation), gripper)
        return (yield from follow(hand, way, rotation, gripper))
    start = hand.position
    level = max(float(position[2]), _level(terrain, start, position, hang, radius))
    if np.linalg.norm(position[:2] - start[:2]) > 0.015:
        if start[2] < level - 0.02:
            yield from move(hand, np.append(start[:2], level), hand.rotation, gripper, tolerance=0.02)
        yield from move(hand, np.append(position[:2], level), rotation, gripper, tolerance=0.02, angle=0.3)
    yield from move(hand, position, rotation, gripper, tolerance=0.008)
    return True


def hold(hand: Hand, steps: int, gripper: float) -> Motion:
    """Hold the pose for a number of control steps."""
    position, rotation = hand.position, hand.rotation
    for _ in range(steps):
        yield action_towards(hand, position, rotation, gripper)
    return True


def follow(hand: Hand, way: Array, rotation: Array, gripper: float, speed: float = 1.0) -> Motion:
    """Follow a way (n, 3) of the grip site, from its present place, turning meanwhile."""
    for point in way[1:-1]:
        yield from move(hand, point, rotation, gripper, tolerance=0.02, angle=0.3, speed=speed)
    yield from move(hand, way[-1], rotation, gripper, tolerance=0.008, speed=speed)
    return True


def _level(terrain: Heights, start: Array, end: Array, hang: float, radius: float) -> float:
    """Compute the height (m) of the grip site at which palm and load pass over all obstacles between two places."""
    palm = terrain.highest_along(start[:2], end[:2], PALM_HALF_LENGTH) - PALM_DISTANCE
    low = terrain.highest_along(start[:2], end[:2], radius) + hang
    return max(palm, low) + _SPARE


def pick(hand: Hand, thing: CarriedObject, grasp: Grasp, terrain: Heights, lookout: Lookout | None = None) -> Motion:
    """Grip at a grasp, and lift a little; false if the thing did not come up with the hand."""
    speed = 1.0 if lookout is None else lookout.speed(thing.name)
    top = _top(hand, thing)
    back = -grasp.rotation[:, 2]
    above = grasp.position + _ABOVE * back
    if lookout is not None:
        above = lookout.above(hand, above, grasp.rotation)
    yield from travel(hand, above, grasp.rotation, OPEN, terrain, TIP_LENGTH, 0.07, lookout)
    lifted = grasp.position + 0.04 * back
    if lookout is not None:
        # A load that still swings sideways would touch on its way down.
        yield from move(hand, above, grasp.rotation, OPEN, tolerance=0.003, angle=0.03)
        down = step_by_step(np.array([hand.position, grasp.position]), stay=_GRIPPING)
        points = np.concatenate([down, step_by_step(np.array([grasp.position, lifted, above]), speed)])
        yield from hold(hand, lookout.wait(hand, points, grasp.rotation), OPEN)
    yield from move(hand, grasp.position, grasp.rotation, OPEN, tolerance=0.003, angle=0.04, speed=_approach(speed))
    yield from grip(hand, CLOSED, grasp.position, grasp.rotation)
    yield from move(hand, lifted, grasp.rotation, CLOSED, tolerance=0.015, speed=speed)
    return _top(hand, thing) >= top + _RISEN


def _approach(speed: float) -> float:
    return min(1.0, 2 * speed)


def _top(hand: Hand, thing: CarriedObject) -> float:
    """Compute the highest z of a thing, m.

    A thing held at its rim tilts as it comes up: its root rises less than its rim.
    """
    return float(corners(hand.model, hand.data, thing.geoms)[:, 2].max())


def _hang(hand: Hand, thing: CarriedObject) -> float:
    """Compute how far a thing reaches below the grip site, m."""
    return float(hand.position[2] - corners(hand.model, hand.data, thing.geoms)[:, 2].min())


def place(hand: Hand, thing: CarriedObject, drop: Drop, terrain: Heights, lookout: Lookout | None = None) -> Motion:
    """Set down the held thing, and move up and away; false if it was lost on the way."""
    if lookout is not None:
        return (yield from _place_carefully(hand, thing, drop, terrain, lookout))
    rotation = hand.rotation
    before = float(np.linalg.norm(thing.position(hand.data) - hand.position))
    for _ in range(3):
        # A load that is held at its rim tilts while it rises, and then hangs lower.
        position = hand.position
        load, hang = thing.position(hand.data) - position, _hang(hand, thing)
        target = np.append(drop.place - load[:2], 0.0)
        level = _level(terrain, position, target, hang, thing.radius)
        if position[2] > level - 0.02:
            break
        if np.linalg.norm(load) > before + _SLIPPED:
            return False
        yield from move(hand, np.append(position[:2], level), hand.rotation, CLOSED, tolerance=0.015)
    palm = terrain.highest_near(target[:2], PALM_HALF_LENGTH) - PALM_DISTANCE + 0.004
    target[2] = max(drop.support + drop.gap + hang, palm)
    above = target + np.array([0.0, 0.0, 0.04])
    yield from travel(hand, above, rotation, CLOSED, terrain, hang, thing.radius)
    # The load's position in the hand may have changed on the way.
    if np.linalg.norm(thing.position(hand.data) - hand.position - load) > _SLIPPED:
        return False
    target[:2] = drop.place - (thing.position(hand.data) - hand.position)[:2]
    target[2] = max(drop.support + drop.gap + _hang(hand, thing), palm)
    yield from move(hand, target, rotation, CLOSED, tolerance=0.006, speed=0.6, patience=5)
    yield from grip(hand, OPEN, hand.position, rotation)
    yield from move(hand, hand.position + np.array([0.0, 0.0, 0.1]), rotation, OPEN, tolerance=0.03)
    return True


def _place_carefully(hand: Hand, thing: CarriedObject, drop: Drop, terrain: Heights, lookout: Lookout) -> Motion:
    """Run `place` by a way that keeps the distances, and slowly if the thing must not be shaken."""
    rotation, speed, softly = hand.rotation, lookout.speed(thing.name), lookout.setting_down(thing.name)
    load = lookout.geoms_with(thing.name, thing.geoms)
    palm = terrain.highest_near(drop.place, PALM_HALF_LENGTH) - PALM_DISTANCE + 0.004

    def target() -> Array:
        # Held at its rim, it hangs lower and elsewhere than when it was gripped.
        held = thing.position(hand.data) - hand.position
        height = max(drop.support + drop.gap + _hang(hand, thing), palm)
        return np.append(drop.place - held[:2], height)

    before = thing.position(hand.data) - hand.position
    clear = lookout.above(hand, hand.position, rotation, load, thing.name)
    if clear[2] > hand.position[2]:
        yield from move(hand, clear, rotation, CLOSED, tolerance=0.02, speed=speed)
    for last in (False, True):
        above = lookout.above(hand, target() + np.array([0.0, 0.0, 0.04]), rotation, load, thing.name)
        way = lookout.way(hand, above, rotation, load, thing.name)
        wait = lookout.wait(hand, step_by_step(way, speed), rotation, load, thing.name)
        yield from hold(hand, wait, CLOSED)
        # The load's position is read once the hand has risen.
        yield from follow(hand, way if last else way[:2], rotation, CLOSED, speed)
        if np.linalg.norm(thing.position(hand.data) - hand.position - before) > _SLIPPED:
            return False
        if not last and len(way) == 2:
            break
    down = step_by_step(np.array([hand.position, target()]), softly, stay=_GRIPPING)
    points = np.concatenate([down, step_by_step(np.array([target(), hand.position]))])
    yield from hold(hand, lookout.wait(hand, points, rotation, load, thing.name), CLOSED)
    yield from move(hand, target(), rotation, CLOSED, tolerance=0.006, speed=softly, patience=5)
    yield from grip(hand, OPEN, hand.position, rotation)
    yield from move(hand, hand.position + np.array([0.0, 0.0, 0.1]), rotation, OPEN, tolerance=0.03)
    return True


def carry(
    hand: Hand, thing: CarriedObject, grasp: Grasp, drop: Drop, terrain: Heights, lookout: Lookout | None = None
) -> Motion:
    """Pick a thing up and set it down; false if it was lost."""
    held = yield from pick(hand, thing, grasp, terrain, lookout)
    return held and (yield from place(hand, thing, drop, terrain, lookout))
