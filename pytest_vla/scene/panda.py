"""Facts of the Panda arm that need no simulator."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

REST_JOINTS = (0.0, -1.61037389e-01, 0.0, -2.44459747, 0.0, 2.22675220, math.pi / 4)
"""The arm's pose (rad) at a reset; LIBERO's, without its noise."""

ARM_JOINTS, FINGERS = 7, 2
"""The first joints of a model, and those after them."""

JOINT_LIMITS = (
    (-2.8973, 2.8973),
    (-1.7628, 1.7628),
    (-2.8973, 2.8973),
    (-3.0718, -0.0698),
    (-2.8973, 2.8973),
    (-0.0175, 3.7525),
    (-2.8973, 2.8973),
)
"""How far each joint turns (rad)."""

MOUNT = 0.912
"""Height (m) of the arm's base above a workspace's ``robot_base`` if it stands on a mount."""

Point = tuple[float, float, float]

# Of each link from the one before it: where it is (m), and its turn about x in quarters; it turns about its own z then.
_LINKS: tuple[tuple[Point, int], ...] = (
    ((0.0, 0.0, 0.333), 0),
    ((0.0, 0.0, 0.0), -1),
    ((0.0, -0.316, 0.0), 1),
    ((0.0825, 0.0, 0.0), 1),
    ((-0.0825, 0.384, 0.0), -1),
    ((0.0, 0.0, 0.0), 1),
    ((0.088, 0.0, 0.0), 1),
)
_HAND, _GRIP = 0.1065, 0.2035
"""m along the last link's z: the hand, and the point between its fingers."""


def hand_of(joints: Sequence[float]) -> tuple[Point, Point]:
    """Compute the positions (m) of the hand and its fingers' midpoint at joint angles (7,), from the arm's base.

    Args:
        joints: (7,) rad.
    """
    position: list[float] = [0.0, 0.0, 0.0]
    # The link's axes as columns, in the base's frame.
    x_axis, y_axis, z_axis = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]
    for (offset, quarters), angle in zip(_LINKS, joints, strict=True):
        axes = list(zip(x_axis, y_axis, z_axis, strict=True))
        position = [
            at + sum(axis * step for axis, step in zip(row, offset, strict=True))
            for at, row in zip(position, axes, strict=True)
        ]
        if quarters:
            y_axis, z_axis = [quarters * each for each in z_axis], [-quarters * each for each in y_axis]
        cosine, sine = math.cos(angle), math.sin(angle)
        x_axis, y_axis = (
            [cosine * x + sine * y for x, y in zip(x_axis, y_axis, strict=True)],
            [cosine * y - sine * x for x, y in zip(x_axis, y_axis, strict=True)],
        )
    hand, grip = ([at + far * axis for at, axis in zip(position, z_axis, strict=True)] for far in (_HAND, _GRIP))
    return (hand[0], hand[1], hand[2]), (grip[0], grip[1], grip[2])


# Differences of two robosuite versions with the same Panda: names, goals, gripper, and the state that a reset leaves
# behind.
#
# Facts from robosuite 1.4.0 (which LIBERO runs on) and 1.5.1 (VLA-Arena), ``controllers``, ``robots``,
# ``environments/base.py`` and ``models/grippers/panda_gripper.py``.


@dataclass(frozen=True)
class Profile:
    """A version of robosuite, as far as a world can tell.

    Attributes:
        robosuite: the version that is reproduced, whichever is installed.
        gripper, mount: what the names of the gripper's and the mount's parts begin with.
        gripper_speed: by how much the gripper's action, in [-1, 1], changes at a time.
        gripper_each_substep: whether it changes in every substep of 2 ms; else in the first of a control step.
        keeps_orientation: whether the goal orientation stays as it is where an action turns nothing; else it is based
            on the achieved one at every control step.
        goals_in_base_frame: whether goals are kept in the frame of the arm's base (which rounds otherwise), and turns
            go through quaternions of single precision.
        has_later_parts: whether the model has the parts that came later: a hull of the arm's last link, a site in its
            foot, and two idle bodies (mocap ids 0 and 1).
        forwards: how many times a substep of upstream solves the constraints before its own.
    """

    robosuite: str
    gripper: str
    mount: str
    gripper_speed: float
    gripper_each_substep: bool
    keeps_orientation: bool
    goals_in_base_frame: bool
    has_later_parts: bool
    forwards: int

    @property
    def grip_site(self) -> str:
        """The site between the fingers, which the controller moves."""
        return f"{self.gripper}grip_site"

    @property
    def robot_parts(self) -> tuple[str, ...]:
        """The prefixes of the names of the robot's bodies, geoms and joints."""
        return ("robot0_", self.gripper, self.mount)


ROBOSUITE_1_4 = Profile(
    robosuite="1.4.0",
    gripper="gripper0_",
    mount="mount0_",
    gripper_speed=0.01,
    gripper_each_substep=True,
    keeps_orientation=True,
    goals_in_base_frame=False,
    has_later_parts=False,
    forwards=2,
)
"""LIBERO's robosuite."""

ROBOSUITE_1_5 = Profile(
    robosuite="1.5.1",
    gripper="gripper0_right_",
    mount="fixed_mount0_",
    gripper_speed=0.2,
    gripper_each_substep=False,
    keeps_orientation=False,
    goals_in_base_frame=True,
    has_later_parts=True,
    forwards=0,
)
"""VLA-Arena's robosuite."""

PROFILES = (ROBOSUITE_1_4, ROBOSUITE_1_5)
