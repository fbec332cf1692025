"""Skills without hidden phases: what to do next follows from the state alone, from wherever the hand has got to.

Each skill knows its aim, which is fixed while one goal literal is worked on, and gives one action for a state. They
label what a learner did wrong (`pytest_vla.expert.answers`): also with something in the hand, half closed, or knocked
out of the way.
"""

from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.expert.articulated import Part
from pytest_vla.expert.carrying import Thing
from pytest_vla.expert.hand import (
    CLOSED,
    FINGER_HALF_WIDTH,
    OPEN,
    PALM_DISTANCE,
    PALM_HALF_LENGTH,
    PALM_HALF_WIDTH,
    TIP_LENGTH,
    Hand,
    action_towards,
    angle_between,
    facing,
)
from pytest_vla.expert.heights import Heights
from pytest_vla.expert.parts import corners
from pytest_vla.sim.arm import ARM_JOINTS, FINGERS, grip_site
from pytest_vla.sim.touching import Mask

Array = npt.NDArray[np.float64]

_DOWN = np.array([0.0, 0.0, -1.0])
# The funnel in front of a grasp: how long it is, how wide at its mouth, how fast it narrows (m of way a m of width) and
# how wide it is at its bottom.
_FUNNEL, _MOUTH, _NARROWS, _BOTTOM = 0.07, 0.03, 3.0, 0.012
# How exactly a grasp is reached before the fingers close: m, m, rad; and while they do, for what they touch moves.
_NEAR, _CLOSING_NEAR, _TURNED = 0.007, 0.014, 0.08
# Slower than this (m/s) the hand has got as near as it gets: something gives no more way.
_STILL = 0.008
_OPENED, _EMPTY = 0.066, 0.004
# Where the fingers are driven to, m apart, by when they press hard; how fast they may still be, m/s.
_PRESSED, _RESTING, _RESTING_ON_PART = 0.004, 0.002, 0.02
# How exactly a load is above its place before it goes down and is let go, m.
_PLACED, _ABOVE_PLACE = 0.010, 0.025
_SPARE = 0.02
# What is so high (m) above what stands beneath it hangs in the hand.
_LIFTED = 0.006
# A hand that is asked for no way at all drifts: it is always steered a little.
_STEERED = 0.02
# Heights (m) within which the hand need not have risen all the way before it moves sideways.
_SLACK = 0.02
# The speed, of the fastest, near what is gripped: the arm leaves its way where it rises or falls fast.
_CAREFUL = 0.4
# How far ahead (m) what is dragged is aimed, and how fast that goes, of the fastest.
_DRAG, _DRAGGING = 0.05, 0.6
_LEAD_SLIDE, _LEAD_TURN, _PUSH, _LED = 0.05, 0.35, 0.04, 0.004


@dataclass(frozen=True)
class Touch:
    """What the fingers touch.

    Attributes:
        hand: whose fingers.
        fingers: (ngeom+1,) the geoms of each, left and right.
    """

    hand: Hand
    fingers: tuple[Mask, Mask]

    @property
    def opening(self) -> float:
        """Between the fingers, m; 0.08 where they are open."""
        first = self.hand.data.qpos[ARM_JOINTS : ARM_JOINTS + FINGERS]
        return float(first[0] - first[1])

    def firm(self, speed: float) -> bool:
        """Whether the fingers press as hard as they can: what drives them is at its end, and they are slower (m/s)."""
        wanted = self.hand.data.ctrl[ARM_JOINTS : ARM_JOINTS + FINGERS]
        return bool(wanted[0] - wanted[1] < _PRESSED and np.abs(self.hand.fingers).max() < speed)

    @property
    def stands(self) -> bool:
        """The hand moves no more."""
        velocity = np.zeros(6)
        site = grip_site(self.hand.model)
        mujoco.mj_objectVelocity(self.hand.model, self.hand.data, mujoco.mjtObj.mjOBJ_SITE, site, velocity, 0)
        return bool(np.linalg.norm(velocity[3:]) < _STILL)

    @property
    def any_finger(self) -> Mask:
        """(ngeom+1,) the geoms of both fingers."""
        return np.asarray(self.fingers[0] | self.fingers[1])

    def grips(self, geoms: Mask) -> bool:
        """Whether both fingers touch one of these geoms (ngeom+1,)."""
        pairs = self.hand.data.contact.geom
        touched = [
            (finger[pairs[:, 0]] & geoms[pairs[:, 1]]) | (finger[pairs[:, 1]] & geoms[pairs[:, 0]])
            for finger in self.fingers
        ]
        return bool(touched[0].any() and touched[1].any())

    def meets(self, one: Mask, other: Mask) -> bool:
        """Whether a geom of one set touches one of another."""
        pairs = self.hand.data.contact.geom
        return bool(((one[pairs[:, 0]] & other[pairs[:, 1]]) | (one[pairs[:, 1]] & other[pairs[:, 0]])).any())


def mask_of(model: mujoco.MjModel, geoms: tuple[int, ...]) -> Mask:
    """(ngeom+1,) which geoms these are."""
    mask = np.zeros(model.ngeom + 1, dtype=bool)
    mask[list(geoms)] = True
    return mask


@dataclass(frozen=True)
class Pose:
    """A pose of the grip site: (3,) m and (3, 3)."""

    position: Array
    rotation: Array


def reach(touch: Touch, grasp: Pose, terrain: Heights, approach: Array | None = None) -> Array:
    """One step towards closing the fingers at a grasp: over what stands in the way, through a funnel, then shut.

    The funnel leads along `approach` (3,); None: the way that the hand points there.
    """
    hand = touch.hand
    rest = hand.position - grasp.position
    approach = grasp.rotation[:, 2] if approach is None else approach
    along = float(rest @ approach)
    off = float(np.linalg.norm(rest - along * approach))
    turn = angle_between(grasp.rotation, hand.rotation)
    opening = touch.opening
    # While they close, what they touch moves a little: they do not begin anew for that.
    loose = opening < _OPENED or touch.stands
    near = _CLOSING_NEAR if loose else _NEAR
    if opening > _EMPTY and off < near and abs(along) < near and turn < (2 if loose else 1) * _TURNED:
        return action_towards(hand, grasp.position, grasp.rotation, CLOSED)
    least = _FUNNEL if opening <= _EMPTY else 0.03 if opening < _OPENED else 0.0
    return enter(hand, grasp, approach, OPEN, terrain, least)


def enter(hand: Hand, goal: Pose, approach: Array, gripper: float, terrain: Heights, least: float = 0.0) -> Array:
    """One step into a funnel that ends at a pose, along `approach`; not nearer to its end than `least` m."""
    rest = hand.position - goal.position
    along = float(rest @ approach)
    side = rest - along * approach
    off = float(np.linalg.norm(side))
    turn = angle_between(goal.rotation, hand.rotation)
    if off < _MOUTH and along > -(_FUNNEL + 0.04) and turn < 0.7:
        back = float(np.clip(max(_NARROWS * (off - _BOTTOM), 0.15 * (turn - 0.05), least), 0.0, _FUNNEL))
        return action_towards(hand, goal.position - back * approach, goal.rotation, gripper, _CAREFUL)
    before = goal.position - _FUNNEL * approach
    return over(hand, Pose(before, goal.rotation), gripper, terrain, TIP_LENGTH, 0.05)


def over(
    hand: Hand, goal: Pose, gripper: float, terrain: Heights, hang: float, radius: float, speed: float = 1.0
) -> Array:
    """One step to a pose over all that stands on the way: up, across, down; corners are cut where there is room."""
    position = hand.position
    way = goal.position[:2] - position[:2]
    far = float(np.linalg.norm(way))
    target = goal.position.copy()
    if far > 0.02:
        palm = terrain.highest_along(position[:2], goal.position[:2], PALM_HALF_LENGTH) - PALM_DISTANCE
        low = terrain.highest_along(position[:2], goal.position[:2], radius) + hang
        level = max(float(goal.position[2]), max(palm, low) + _SPARE)
        # Near its end the way goes down already.
        free = float(np.clip((position[2] - level + _SLACK) / _SLACK, _STEERED, 1.0))
        target[:2] = position[:2] + free * way
        target[2] = level
    return action_towards(hand, target, goal.rotation, gripper, speed)


@dataclass(frozen=True)
class Carry:
    """Picks a thing up and sets it down.

    Attributes:
        thing: what.
        geoms: its geoms (ngeom+1,).
        round: only the thing's place counts for the grasp, not its turn.
        grasp: in the thing's frame, or, where it is round, from its place by the world's axes.
        from_above: the hand goes straight down to the grasp, also where it is tilted.
        support: the body or site beneath the place, by its kind's array of positions, and its number.
        place: (2,) where the thing's root shall be, from there, m, world axes.
        height: z of what it is set on, above that body's or site's, m.
        gap: between the two when the fingers open, m.
        tall: from the thing's lowest point to its highest, as it stood, m.
        terrain: what stands there, without robot and thing.
        under: all geoms but the robot's and the thing's (ngeom+1,).
        drags: it stays on what it stands on, which is as high as its place.
    """

    thing: Thing
    geoms: Mask
    round: bool
    grasp: Pose
    from_above: bool
    support: tuple[str, int]
    place: Array
    height: float
    gap: float
    tall: float
    terrain: Heights
    under: Mask
    drags: bool = False

    def __call__(self, touch: Touch) -> Array:
        """The action (7,) for a state."""
        hand = touch.hand
        data = hand.data
        below = getattr(data, self.support[0])[self.support[1]]
        place = np.append(below[:2] + self.place, below[2] + self.height)
        box = corners(hand.model, data, self.thing.geoms)
        low = float(box[:, 2].min())
        thing = self.thing.position(data)
        away = float(np.linalg.norm(thing[:2] - place[:2]))
        # Held at its rim it tilts as it comes up: what is held rises, its lowest point does not.
        risen = float(box[:, 2].max()) - self.tall - self.terrain.highest_near(thing[:2], 0.02)
        # In the air a finger may lose touch for a moment.
        gripped = touch.grips(self.geoms) or (risen > 2 * _LIFTED and touch.meets(self.geoms, touch.any_finger))
        if not gripped and away < 2 * _PLACED and low < place[2] + 0.02:
            return action_towards(hand, hand.position + np.array([0.0, 0.0, 0.1]), hand.rotation, OPEN)
        if not gripped:
            return reach(touch, self._grasp(data), self.terrain, _DOWN if self.from_above else None)
        upright = facing(_DOWN, hand.rotation[:, 0])
        if self.drags:
            return self._dragged(touch, place[:2] - thing[:2])
        if risen < _LIFTED and not touch.firm(_RESTING):
            grasp = self._grasp(data)
            return (
                action_towards(hand, grasp.position, upright, CLOSED)
                if off_of(hand, grasp) < _FUNNEL
                else (action_towards(hand, hand.position, upright, CLOSED))
            )
        hang = float(hand.position[2]) - low
        above = place[:2] - (thing - hand.position)[:2]
        palm = _under_palm(self.terrain, above, upright) - PALM_DISTANCE + 0.004
        target = np.append(above, max(place[2] + self.gap + hang, palm))
        off = float(np.linalg.norm(target[:2] - hand.position[:2]))
        rest = float(hand.position[2] - target[2])
        if off < _PLACED and (rest < 0.006 or (rest < 0.03 and touch.meets(self.geoms, self.under))):
            return action_towards(hand, np.append(target[:2], hand.position[2]), upright, OPEN)
        if off < _ABOVE_PLACE:
            back = float(np.clip(_NARROWS * (off - 0.6 * _PLACED), 0.0, 0.05))
            target[2] += back
            return action_towards(hand, target, upright, CLOSED, speed=0.6)
        target[2] += 0.04
        speed = _CAREFUL + (1.0 - _CAREFUL) * float(np.clip((risen - 0.05) / 0.05, 0.0, 1.0))
        return over(hand, Pose(target, upright), CLOSED, self.terrain, hang, self.thing.radius, speed)

    def _dragged(self, touch: Touch, rest: Array) -> Array:
        """The action for what is gripped and is to go on by `rest` (2,), m."""
        hand, grasp = touch.hand, self._grasp(touch.hand.data)
        if not touch.firm(_RESTING_ON_PART):
            return action_towards(hand, grasp.position, grasp.rotation, CLOSED)
        far = float(np.linalg.norm(rest))
        if far < _PLACED:
            return action_towards(hand, hand.position, grasp.rotation, OPEN)
        step = np.append(rest * min(1.0, _DRAG / far), 0.0)
        return action_towards(hand, grasp.position + step, grasp.rotation, CLOSED, _DRAGGING)

    def _grasp(self, data: mujoco.MjData) -> Pose:
        root, frame = data.xpos[self.thing.body], data.xmat[self.thing.body].reshape(3, 3)
        if self.round:
            return Pose(root + self.grasp.position, self.grasp.rotation)
        return Pose(root + frame @ self.grasp.position, frame @ self.grasp.rotation)


@dataclass(frozen=True)
class Lead:
    """Grips a part on a joint and leads it until the joint is where it shall be.

    Attributes:
        part: what.
        geoms: its geoms (ngeom+1,).
        grasp: in the part's frame.
        goal: of the joint, m or rad.
        terrain: what stands there.
    """

    part: Part
    geoms: Mask
    grasp: Pose
    goal: float
    terrain: Heights

    def goes_on(self, touch: Touch) -> bool:
        """Whether the part is in the hand and not yet as far as it shall go: its goal may hold before that."""
        rest = abs(self.goal - self.part.value(touch.hand.model, touch.hand.data))
        return touch.grips(self.geoms) and rest > (_LED if self.part.slides else 10 * _LED)

    def __call__(self, touch: Touch) -> Array:
        """The action (7,) for a state."""
        hand = touch.hand
        data = hand.data
        grasp = in_world(data, self.part.body, self.grasp)
        rest = self.goal - self.part.value(hand.model, data)
        if not touch.grips(self.geoms):
            return reach(touch, grasp, self.terrain)
        if not touch.firm(_RESTING_ON_PART):
            return action_towards(hand, grasp.position, grasp.rotation, CLOSED)
        most = _LEAD_SLIDE if self.part.slides else _LEAD_TURN
        ahead = float(np.sign(rest)) * min(most, abs(rest) + most / 3)
        target = self.part.moved(data, grasp.position, ahead)
        return action_towards(hand, target, self.part.turn(data, ahead) @ grasp.rotation, CLOSED)


@dataclass(frozen=True)
class Push:
    """Pushes a part on a joint with closed fingers until the joint is where it shall be.

    Attributes:
        part: what.
        point: (3,) in the part's frame, where the fingers' ends press, m.
        tool: the hand's rotation (3, 3) in the part's frame.
        goal: of the joint, m or rad.
        terrain: what stands there.
    """

    part: Part
    point: Array
    tool: Array
    goal: float
    terrain: Heights

    def __call__(self, touch: Touch) -> Array:
        """The action (7,) for a state."""
        hand = touch.hand
        data = hand.data
        at = in_world(data, self.part.body, Pose(self.point, self.tool))
        sign = float(np.sign(self.goal - self.part.value(hand.model, data)))
        way = self.part.direction(data, at.position, sign)
        if way is None:
            return action_towards(hand, hand.position, hand.rotation, CLOSED)
        press = at.position - way * FINGER_HALF_WIDTH - at.rotation[:, 2] * (TIP_LENGTH - 0.012)
        lever = (
            1.0
            if self.part.slides
            else max(float(np.linalg.norm(at.position - data.xanchor[self.part.joint])), FINGER_HALF_WIDTH)
        )
        ahead = sign * _PUSH / lever
        rest = hand.position - press
        off = rest - (rest @ way) * way
        if np.linalg.norm(off) < 0.02 and rest @ way > -0.06 and angle_between(at.rotation, hand.rotation) < 0.3:
            target = self.part.moved(data, press, ahead)
            return action_towards(hand, target, self.part.turn(data, ahead) @ at.rotation, CLOSED)
        before = Pose(press - 0.02 * way, at.rotation)
        return enter(hand, before, way, CLOSED, self.terrain)


def _under_palm(terrain: Heights, place: Array, rotation: Array) -> float:
    """z of the highest that is under the palm of a hand that points down above a place (2,), m."""
    long, wide = np.linspace(-PALM_HALF_LENGTH, PALM_HALF_LENGTH, 9), np.linspace(-PALM_HALF_WIDTH, PALM_HALF_WIDTH, 3)
    grid = long[:, None, None] * rotation[:2, 0] + wide[None, :, None] * rotation[:2, 1]
    return float(terrain.at(place + grid.reshape(-1, 2)).max())


def off_of(hand: Hand, pose: Pose) -> float:
    """How far the hand is from a pose, m."""
    return float(np.linalg.norm(hand.position - pose.position))


def in_world(data: mujoco.MjData, body: int, pose: Pose) -> Pose:
    """A pose in a body's frame, in the world's."""
    frame = data.xmat[body].reshape(3, 3)
    return Pose(data.xpos[body] + frame @ pose.position, frame @ pose.rotation)


def in_frame(data: mujoco.MjData, body: int, pose: Pose) -> Pose:
    """A pose of the world in a body's frame."""
    frame = data.xmat[body].reshape(3, 3)
    return Pose(frame.T @ (pose.position - data.xpos[body]), frame.T @ pose.rotation)
