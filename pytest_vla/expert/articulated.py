"""Drawers, doors and knobs: a part that turns or slides on a joint is gripped and led along, or pushed."""

from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.expert.carrying import travel
from pytest_vla.expert.grasps import Grasp
from pytest_vla.expert.hand import (
    CLOSED,
    FINGER_HALF_WIDTH,
    OPEN,
    TIP_LENGTH,
    Hand,
    Motion,
    StallDetector,
    action_towards,
    facing,
    grip,
    move,
    nearest_turn,
)
from pytest_vla.expert.heights import Heights, colliding_geoms, corners
from pytest_vla.expert.lookout import Lookout

Array = npt.NDArray[np.float64]

_UP = np.array([0.0, 0.0, 1.0])
# How far ahead of a part the hand aims while it leads it along: m, or rad for a turning part.
_LEAD_SLIDE, _LEAD_TURN = 0.05, 0.35
# Distance from the pushed point at which the fingers come down, m.
_CLEARANCE = 0.05


@dataclass(frozen=True)
class ArticulatedPart:
    """A part on a joint.

    Attributes:
        joint: its index.
        body: the body that the joint moves.
        geoms: all colliding geoms that move with it.
        slides: whether it slides along the axis; if False, it turns about it.
    """

    joint: int
    body: int
    geoms: tuple[int, ...]
    slides: bool

    def value(self, model: mujoco.MjModel, data: mujoco.MjData) -> float:
        """Return the joint's position, m or rad."""
        return float(data.qpos[model.jnt_qposadr[self.joint]])

    def moved(self, data: mujoco.MjData, point: Array, by: float) -> Array:
        """Compute where a point (3,) of the part comes when the joint moves by m or rad."""
        axis, anchor = data.xaxis[self.joint], data.xanchor[self.joint]
        if self.slides:
            return np.asarray(point + by * axis)
        return np.asarray(anchor + self.turn(data, by) @ (point - anchor))

    def turn(self, data: mujoco.MjData, by: float) -> Array:
        """Compute the rotation (3, 3) of the part when the joint moves by m or rad."""
        if self.slides:
            return np.eye(3)
        quaternion, matrix = np.zeros(4), np.zeros(9)
        mujoco.mju_axisAngle2Quat(quaternion, data.xaxis[self.joint], by)
        mujoco.mju_quat2Mat(matrix, quaternion)
        return matrix.reshape(3, 3)

    def direction(self, data: mujoco.MjData, point: Array, sign: float) -> Array | None:
        """Compute the direction (unit, 3) in which a point of the part moves, or None if it does not move.

        The joint grows (`sign` 1) or shrinks (-1). A point on the axis of a knob, for example, does not move.
        """
        way = self.moved(data, point, 0.01 * sign) - point
        length = float(np.linalg.norm(way))
        return np.asarray(way / length) if length > 1e-6 else None


def part_of(model: mujoco.MjModel, joint: str) -> ArticulatedPart:
    """Return the part that a joint moves."""
    identifier = int(model.joint(joint).id)
    body = int(model.jnt_bodyid[identifier])
    slides = model.jnt_type[identifier] == mujoco.mjtJoint.mjJNT_SLIDE
    return ArticulatedPart(identifier, body, colliding_geoms(model, body), bool(slides))


@dataclass(frozen=True)
class Handle:
    """The geoms of a part that stand out farthest.

    Attributes are its middle (3,), the direction out (unit), and its half sizes (m) along that direction, sideways and
    upwards.
    """

    middle: Array
    out: Array
    side: Array
    half: Array


def handle_of(model: mujoco.MjModel, data: mujoco.MjData, part: ArticulatedPart, out: Array) -> Handle:
    """Return the handle of a part that comes out along `out`: the geoms that reach farthest in that direction."""
    side = np.cross(_UP, out)
    side /= np.linalg.norm(side)
    frame = np.stack([out, side, np.cross(out, side)])
    boxes = {geom: corners(model, data, [geom]) @ frame.T for geom in part.geoms}
    farthest = max(float(box[:, 0].max()) for box in boxes.values())
    chosen = np.concatenate([box for box in boxes.values() if box[:, 0].max() > farthest - 0.004])
    low, high = chosen.min(0), chosen.max(0)
    # Behind the handle proper its posts may reach back to the panel.
    low[0] = max(low[0], farthest - 0.025)
    return Handle(frame.T @ ((low + high) / 2), out, side, (high - low) / 2)


def handle_grasps(handle: Handle, current: Array) -> list[Grasp]:
    """Return grasps of a handle from the front, the hand pointing at it level or from above at a slant."""
    lying = handle.half[1] >= handle.half[2]
    grasps = []
    for number, slant in enumerate(np.deg2rad([0.0, 20.0, 40.0, 60.0, 80.0])):
        approach = -handle.out * np.cos(slant) - _UP * np.sin(slant)
        across = np.cross(approach, handle.side) if lying else handle.side
        rotation = nearest_turn(facing(approach, across), current)
        for depth in (0.0, 0.006):
            grasps.append(Grasp(handle.middle + approach * depth, rotation, number + 10 * depth))
    return grasps


def lead(
    hand: Hand, part: ArticulatedPart, grasp: Grasp, goal: float, terrain: Heights, lookout: Lookout | None = None
) -> Motion:
    """Grip a part and lead it until its joint is at `goal` (m or rad), let go and back away.

    Ends early if the part does not follow.
    """
    back = -grasp.rotation[:, 2]
    before = grasp.position + 0.07 * back
    yield from travel(hand, before, grasp.rotation, OPEN, terrain, TIP_LENGTH, 0.05, lookout)
    yield from move(hand, grasp.position, grasp.rotation, OPEN, tolerance=0.004, patience=6)
    yield from grip(hand, CLOSED, grasp.position, grasp.rotation)
    yield from _follow(hand, part, goal)
    yield from grip(hand, OPEN, hand.position, hand.rotation)
    back = -hand.rotation[:, 2]
    away = hand.position + 0.06 * back
    yield from move(hand, away, hand.rotation, OPEN, tolerance=0.015)
    yield from move(hand, away + 0.06 * back + 0.06 * _UP, hand.rotation, OPEN, tolerance=0.03)
    return True


def _follow(hand: Hand, part: ArticulatedPart, goal: float) -> Motion:
    most = _LEAD_SLIDE if part.slides else _LEAD_TURN
    start, turned, value = hand.position, hand.rotation, part.value(hand.model, hand.data)
    first, patience = value, StallDetector(10)
    sign = float(np.sign(goal - value))
    while True:
        value = part.value(hand.model, hand.data)
        rest = (goal - value) * sign
        if rest <= 0:
            return True
        if patience.ends(rest):
            return False
        ahead = value - first + sign * min(most, rest + most / 3)
        target = part.moved(hand.data, start, ahead)
        rotation = part.turn(hand.data, ahead) @ turned
        yield action_towards(hand, target, rotation, CLOSED)


def push(
    hand: Hand,
    part: ArticulatedPart,
    point: Array,
    tool: Array,
    goal: float,
    terrain: Heights,
    lookout: Lookout | None = None,
) -> Motion:
    """Push a part at a point with closed fingers until its joint is at `goal` (m or rad).

    Args:
        hand: the hand that pushes.
        part: the part to push.
        point: (3,) on the part, where the fingers' ends press, m.
        tool: the hand's rotation (3, 3).
        goal: the joint's position.
        terrain: heights of the surroundings.
        lookout: of a careful hand.
    """
    value = part.value(hand.model, hand.data)
    sign = float(np.sign(goal - value))
    way = part.direction(hand.data, point, sign)
    if way is None:
        return False
    grip_point = point - way * FINGER_HALF_WIDTH - tool[:, 2] * (TIP_LENGTH - 0.012)
    before = grip_point - way * _CLEARANCE
    yield from travel(hand, before, tool, CLOSED, terrain, TIP_LENGTH, 0.05, lookout)
    first, patience = value, StallDetector(12)
    while True:
        value = part.value(hand.model, hand.data)
        rest = (goal - value) * sign
        if rest <= 0:
            break
        reached = np.linalg.norm(hand.position - part.moved(hand.data, grip_point, value - first))
        if patience.ends(rest + float(reached)):
            break
        lever = 1.0 if part.slides else max(float(np.linalg.norm(point - hand.data.xanchor[part.joint])), 0.02)
        ahead = value - first + sign * 0.04 / lever
        target = part.moved(hand.data, grip_point, ahead)
        yield action_towards(hand, target, part.turn(hand.data, ahead) @ tool, CLOSED)
    up = hand.position - 0.03 * way + 0.08 * _UP
    yield from move(hand, up, hand.rotation, CLOSED, tolerance=0.03)
    return True
