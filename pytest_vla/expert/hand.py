"""The hand, seen and moved: its pose, and motions that yield one action after the other until a pose is reached."""

from collections.abc import Callable, Generator
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.scene.panda import ARM_JOINTS, FINGERS
from pytest_vla.sim.arm import grip_site
from pytest_vla.sim.movers import Movement

Array = npt.NDArray[np.float64]
Motion = Generator[Array, None, bool]
"""Yields actions (7,) and reads the state that each of them led to. Ends when it is done or gets no further; false says
that what it grips was lost, so that gripping it so is of no use."""

OPEN, CLOSED = -1.0, 1.0

# The Panda gripper in the frame of its grip site (m): x is the way the fingers move, z points out of the palm.
FINGER_INSIDE = 0.038
"""From the middle to the inner side of a finger, open."""
FINGER_OUTSIDE = 0.066
"""From the middle to the outer side of a finger, open."""
FINGER_HALF_WIDTH = 0.0105
TIP_LENGTH = 0.0095
"""From the grip site to the fingers' ends."""
PALM_DISTANCE = 0.031
"""From the grip site back to the palm."""
PALM_HALF_LENGTH = 0.105
PALM_HALF_WIDTH = 0.034

# The controller's motion for an action of 1: m and rad. Commanding the whole remaining way is critically damped.
_STEP = 0.05
_TURN = 0.5
# The least progress that counts as nearer, m; and the metres that a turn of one radian counts as.
_NEARER = 0.0005
_TURN_AS_WAY = 0.1


@dataclass(frozen=True)
class Hand:
    """A view of the hand in a state; always of now.

    Attributes:
        model, data: MuJoCo's.
        movement: how far the movers of the state are.
    """

    model: mujoco.MjModel
    data: mujoco.MjData
    movement: Callable[[], Movement] = Movement

    @property
    def position(self) -> Array:
        """The grip site's, (3,), m, world frame."""
        return np.array(self.data.site_xpos[grip_site(self.model)])

    @property
    def rotation(self) -> Array:
        """The grip site's, (3, 3): columns are the finger's way, the width and the approach."""
        return np.array(self.data.site_xmat[grip_site(self.model)]).reshape(3, 3)

    @property
    def fingers(self) -> Array:
        """The speeds of the fingers (2,), m/s."""
        return np.array(self.data.qvel[ARM_JOINTS : ARM_JOINTS + FINGERS])


def facing(approach: Array, fingers: Array) -> Array:
    """Return the rotation (3, 3) of a hand that points along `approach` and whose fingers move along `fingers`."""
    z = approach / np.linalg.norm(approach)
    x = fingers - z * (fingers @ z)
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def nearest_turn(rotation: Array, current: Array) -> Array:
    """Return `rotation` or its half turn about the approach, whichever is nearer: the two fingers are alike."""
    turned = rotation * np.array([-1.0, -1.0, 1.0])
    return rotation if angle_between(rotation, current) <= angle_between(turned, current) else turned


def rotation_vector(rotation: Array) -> Array:
    """Compute axis times angle (rad) of a rotation matrix, (3,)."""
    quaternion, vector = np.zeros(4), np.zeros(3)
    mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(rotation).ravel())
    mujoco.mju_quat2Vel(vector, quaternion, 1.0)
    return vector


def angle_between(one: Array, other: Array) -> float:
    """Compute the angle (rad) between two rotations."""
    return float(np.linalg.norm(rotation_vector(one @ other.T)))


def action_towards(hand: Hand, position: Array, rotation: Array, gripper: float, speed: float = 1.0) -> Array:
    """Compute the action (7,) that moves the hand towards a pose, at most at the share `speed` of its fastest."""
    distance = (position - hand.position) / _STEP
    distance *= min(1.0, speed / max(float(np.abs(distance).max()), 1e-9))
    turn = rotation_vector(rotation @ hand.rotation.T) / _TURN
    turn *= min(1.0, 1.0 / max(float(np.abs(turn).max()), 1e-9))
    return np.concatenate([distance, turn, [gripper]])


class StallDetector:
    """Notices that something gets no nearer any more."""

    def __init__(self, steps: int) -> None:
        """Set how many control steps in a row without coming nearer are allowed."""
        self._steps, self._waited, self._nearest = steps, 0, np.inf

    def ends(self, rest: float) -> bool:
        """Whether it is at its end, after one more step; `rest` is how far there is to go, m or rad."""
        self._waited = 0 if rest < self._nearest - _NEARER else self._waited + 1
        self._nearest = min(self._nearest, rest)
        return self._waited > self._steps


def move(
    hand: Hand,
    position: Array,
    rotation: Array,
    gripper: float,
    *,
    tolerance: float = 0.006,
    angle: float = 0.06,
    speed: float = 1.0,
    patience: int = 8,
) -> Motion:
    """Move the hand to a pose, until it is there or gets no nearer.

    Args:
        hand: the hand that moves.
        position, rotation: the goal pose of the grip site.
        gripper: `OPEN` or `CLOSED`.
        tolerance: m.
        angle: rad.
        speed: share of the fastest, 0 to 1.
        patience: control steps without getting nearer after which it gives up.
    """
    patient = StallDetector(patience)
    while True:
        distance = float(np.linalg.norm(position - hand.position))
        turn = angle_between(rotation, hand.rotation)
        if distance <= tolerance and turn <= angle:
            return True
        if patient.ends(distance + _TURN_AS_WAY * turn):
            return True
        yield action_towards(hand, position, rotation, gripper, speed)


def grip(hand: Hand, gripper: float, position: Array, rotation: Array) -> Motion:
    """Open or close the fingers until they have rested for a few steps, and hold the hand in place."""
    still = 0
    for step in range(24):
        yield action_towards(hand, position, rotation, gripper)
        still = still + 1 if np.abs(hand.fingers).max() < 0.008 else 0
        if gripper == OPEN and step >= 4:
            break
        if step >= 6 and still >= 3:
            break
    return True
