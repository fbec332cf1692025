"""Arithmetic of camera poses: positions in metres, unit quaternions wxyz; a camera looks along its own -z, y is up."""

import numpy as np
import numpy.typing as npt

from pytest_vla.errors import VlaError

Array = npt.NDArray[np.float64]

VERTICAL = np.array([0.0, 0.0, 1.0])

_ABOVE = 1e-6
"""The sine of the angle to the vertical below which a camera looks straight down."""


def axis_angle(axis: npt.ArrayLike, angle: float) -> Array:
    """Return the rotation by `angle` (rad) about `axis` (3,), of any length but zero, as a quaternion (4,)."""
    unit = np.asarray(axis, dtype=np.float64) / np.linalg.norm(axis)
    return np.array([np.cos(angle / 2), *(np.sin(angle / 2) * unit)])


def product(first: npt.ArrayLike, second: npt.ArrayLike) -> Array:
    """Return the rotation that applies `second`, then `first`, normalised (4,)."""
    left, right = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    real = left[0] * right[0] - left[1:] @ right[1:]
    imaginary = left[0] * right[1:] + right[0] * left[1:] + np.cross(left[1:], right[1:])
    quaternion: Array = np.array([real, *imaginary])
    return quaternion / float(np.linalg.norm(quaternion))


def rotated(quaternion: npt.ArrayLike, vector: npt.ArrayLike) -> Array:
    """Return a vector (3,) after a rotation (4,)."""
    unit, before = np.asarray(quaternion, dtype=np.float64), np.asarray(vector, dtype=np.float64)
    unit = unit / float(np.linalg.norm(unit))
    once = np.cross(unit[1:], before)
    after: Array = before + 2 * (unit[0] * once + np.cross(unit[1:], once))
    return after


def view_direction(quaternion: npt.ArrayLike) -> Array:
    """Return a camera's viewing direction, a unit vector (3,)."""
    return rotated(quaternion, [0.0, 0.0, -1.0])


def look_at(position: npt.ArrayLike, quaternion: npt.ArrayLike, height: float) -> Array:
    """Return the point (3,) where a camera's optical axis meets a height (m): the view's centre on a table that high.

    Raises:
        VlaError: the camera does not look down on it.
    """
    direction, start = view_direction(quaternion), np.asarray(position, dtype=np.float64)
    fall = start[2] - height
    if fall <= 0 or direction[2] > -1e-3:
        raise VlaError(f"the camera at {np.round(start, 3).tolist()} does not look down on the height {height} m")
    point: Array = start - direction * (fall / direction[2])
    return point


def farther(position: npt.ArrayLike, point: npt.ArrayLike, factor: float) -> Array:
    """Return a position (3,) moved to `factor` times its distance from a point."""
    centre = np.asarray(point, dtype=np.float64)
    moved: Array = centre + factor * (np.asarray(position, dtype=np.float64) - centre)
    return moved


def turned(
    position: npt.ArrayLike, quaternion: npt.ArrayLike, point: npt.ArrayLike, axis: npt.ArrayLike, angle: float
) -> tuple[Array, Array]:
    """Return a pose after a rotation by `angle` (rad) about an axis (3,) through a point (3,), which stays in view."""
    rotation, centre = axis_angle(axis, angle), np.asarray(point, dtype=np.float64)
    return centre + rotated(rotation, np.asarray(position) - centre), product(rotation, quaternion)


def raised(
    position: npt.ArrayLike, quaternion: npt.ArrayLike, point: npt.ArrayLike, angle: float
) -> tuple[Array, Array]:
    """Return a pose turned upwards by `angle` (rad) about the horizontal axis through a point (3,), across the view.

    A camera that looks straight down is turned over the top: what is up in its picture comes nearer.
    """
    away = np.asarray(position, dtype=np.float64) - np.asarray(point)
    axis = np.cross(away, VERTICAL)
    is_above = np.linalg.norm(axis) < _ABOVE * np.linalg.norm(away)
    return turned(position, quaternion, point, -rotated(quaternion, [1.0, 0.0, 0.0]) if is_above else axis, angle)


def reoriented(quaternion: npt.ArrayLike, axis: npt.ArrayLike, angle: float) -> Array:
    """Return an orientation (4,) turned in place by `angle` (rad) about an axis in the camera's own frame.

    About x it is pitch, about y yaw, and about z, the optical axis, roll.
    """
    return product(quaternion, axis_angle(axis, angle))


def angle_between(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Return the angle (rad) of the rotation between two orientations."""
    inverse = np.asarray(first) * [1, -1, -1, -1]
    w, *vector = product(inverse, second)
    return float(2 * np.arctan2(np.linalg.norm(vector), abs(w)))
