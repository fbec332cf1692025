"""Facts of the Panda arm that need no simulator."""

import math
from collections.abc import Sequence

REST_JOINTS = (0.0, -1.61037389e-01, 0.0, -2.44459747, 0.0, 2.22675220, math.pi / 4)
"""The arm's pose (rad) at a reset; LIBERO's, without its noise."""

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
"""How high (m) the arm's base is above a workspace's ``robot_base`` where it stands on a mount."""

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
    """Where the hand and the point between its fingers are (m) from the arm's base, at joint angles (7,) in rad."""
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
