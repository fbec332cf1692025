"""Facts of the Panda arm that need no simulator."""

import math

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
