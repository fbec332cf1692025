"""What tiny's network reads: proprioception as numbers near 1, and pictures brought to its size."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]

CENTRE = np.array([-0.1, 0.0, 1.0])
"""The middle of the workspace (m, world frame), from which positions count."""
SCALE = 0.25
"""Metres that are 1."""
REPLAN = 4
"""Steps of a chunk that are executed in training, and by default."""
PROPRIOCEPTION = 17
"""Position 3, rotation 6, fingers 2, change of position 3, change of fingers 2, the last gripper command 1."""
PERCEIVED = 11
"""Of these, the first that perception reads: those of now."""
_FINGER, _CHANGE = 0.04, 0.05


def proprioception(state: Array, before: Array | None, gripper: float, steps: int = REPLAN) -> npt.NDArray[np.float32]:
    """The network's view of the arm.

    Args:
        state: (8,): end effector position, m; axis-angle, rad; finger positions, m.
        before: the state some steps ago; None at the first question.
        gripper: the gripper's number of the last action that was executed, -1 or 1; -1 at first.
        steps: how many steps ago that was; changes are told as those of `REPLAN` steps.

    Returns:
        (17,), see `PROPRIOCEPTION`.
    """
    state = np.asarray(state, dtype=np.float64)
    change = np.zeros(8) if before is None else (state - np.asarray(before, dtype=np.float64)) * (REPLAN / steps)
    return np.concatenate(
        [
            (state[:3] - CENTRE) / SCALE,
            rotation_of(state[3:6])[:, :2].T.ravel(),
            state[6:8] / _FINGER,
            change[:3] / _CHANGE,
            change[6:8] / _FINGER,
            [gripper],
        ]
    ).astype(np.float32)


def rotation_of(vector: Array) -> npt.NDArray[np.float64]:
    """The rotation matrix (3, 3) of an axis-angle (3,), rad."""
    angle = float(np.sqrt((vector * vector).sum()))
    if angle < 1e-9:
        return np.eye(3)
    x, y, z = vector / angle
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.asarray(np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * (cross @ cross))


def small(picture: npt.NDArray[np.uint8], side: int) -> npt.NDArray[np.uint8]:
    """A picture (k side, k side, 3) as (side, side, 3): means over blocks, rounded."""
    blocks = picture.shape[0] // side
    means = picture.reshape(side, blocks, side, blocks, 3).mean(axis=(1, 3), dtype=np.float32)
    return np.asarray(np.rint(means), dtype=np.uint8)
