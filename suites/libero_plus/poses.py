"""LIBERO-Plus's camera poses and the arm's poses, number for number."""

import math
import operator
from collections.abc import Sequence
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.scene.panda import REST_JOINTS
from pytest_vla.util.text import did_you_mean

if TYPE_CHECKING:
    from scipy.spatial.transform import Rotation

Position = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

CAMERA = "agentview"
"""The only camera that it moves."""

ROBOT_POSES = 500

_PIVOT = (0.0, 0.0, 0.8)
_DECIMALS = 4
_ROBOT_SEED = 42
_ROBOT_DECIMALS = 8
_SCENES = ("tabletop", "kitchen", "study", "living_room", "floor", "coffee_table")


def camera_pose(scene: str, h: int, v: int, scale: float, r: int, e: int) -> tuple[Position, Quaternion]:
    """Where LIBERO-Plus puts the camera: position (m, world) and orientation (wxyz), rounded as there.

    Five operations, in this order, each of which is rounded to 4 decimals: the second is done always.

    Args:
        scene: a problem class, such as ``libero_kitchen_tabletop_manipulation``, or what tells it apart: tabletop,
            kitchen, study, living_room, floor or coffee_table; or its workspace, such as main_table.
        h: degrees about the world's z axis, position and orientation.
        v: degrees about the y direction through the pivot (0, 0, 0.8), position and orientation; upwards.
        scale: factor of the distance from the pivot.
        r: degrees of the orientation about the world's z axis.
        e: degrees of the orientation about the world's y direction; downwards.

    Raises:
        VlaError: there is no such scene, or a number is none, or not finite.
    """
    from scipy.spatial.transform import Rotation

    if not all(map(_is_finite, (h, v, scale, r, e))) or scale <= 0:
        raise VlaError(f"camera_pose: expected degrees and a positive scale, found {(h, v, scale, r, e)}")
    position, quaternion = _nominal(scene)
    if v:
        position, quaternion = _turned(position, quaternion, _about_y(v), _PIVOT)
    position, quaternion = _turned(position, quaternion, Rotation.from_euler("z", h, degrees=True), None)
    if scale != 1:
        position = _rounded([p + (x - p) * scale for p, x in zip(_PIVOT, position, strict=True)])
    if r:
        _, quaternion = _turned(position, quaternion, Rotation.from_euler("z", r, degrees=True), None)
    if e:
        _, quaternion = _turned(position, quaternion, _about_y(e), None)
    return (position[0], position[1], position[2]), (quaternion[0], quaternion[1], quaternion[2], quaternion[3])


def robot_qpos(i: int) -> tuple[float, ...]:
    """The arm's pose (7,), rad, by its number, 1 to 500: 0.1 to 0.5 rad from its own, a hundred poses each.

    Raises:
        VlaError: there is no such number.
    """
    try:
        number = 0 if isinstance(i, bool) else operator.index(i)
    except TypeError:
        number = 0
    if not 1 <= number <= ROBOT_POSES:
        raise VlaError(f"robot_qpos({i!r}): expected 1 to {ROBOT_POSES}")
    return _robot_poses()[number - 1]


def _nominal(scene: str) -> tuple[Sequence[float], Sequence[float]]:
    from pytest_vla.scene.workspaces import WORKSPACES

    if not isinstance(scene, str):
        raise VlaError(f"camera_pose: expected a scene's name, {', '.join(_SCENES)}, found {scene!r}")
    name = scene.lower()
    known = (name, f"libero_{name}_tabletop_manipulation", f"libero_{name}_manipulation")
    # LIBERO's come first: the built-in suites have its main_table too.
    tables = {entry.name: entry for entry in reversed(WORKSPACES.values())}
    workspace = next((WORKSPACES[text] for text in known if text in WORKSPACES), tables.get(name))
    if workspace is None:
        names = dict.fromkeys((*_SCENES, *tables, *WORKSPACES))
        raise VlaError(f"camera_pose: there is no scene {scene!r}.{did_you_mean(name, names)}")
    camera = next(camera for camera in workspace.cameras if camera.name == CAMERA)
    return camera.position, camera.quaternion


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _about_y(degrees: float) -> "Rotation":
    """Positive: what is in front of the robot goes up."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_rotvec([0.0, -math.radians(degrees), 0.0])


def _turned(
    position: Sequence[float], quaternion: Sequence[float], rotation: "Rotation", pivot: Position | None
) -> tuple[list[float], list[float]]:
    from scipy.spatial.transform import Rotation

    centre = pivot or (0.0, 0.0, 0.0)
    arm = rotation.apply([x - c for x, c in zip(position, centre, strict=True)])
    w, x, y, z = quaternion
    turned = (rotation * Rotation.from_quat([x, y, z, w])).as_quat()
    return _rounded([c + float(a) for c, a in zip(centre, arm, strict=True)]), _rounded(turned[[3, 0, 1, 2]].tolist())


def _rounded(values: Sequence[float]) -> list[float]:
    # Python's own rounding, of the decimal: numpy's differs where a digit 5 ends a number.
    return [round(value, _DECIMALS) for value in values]


@cache
def _robot_poses() -> tuple[tuple[float, ...], ...]:
    import numpy as np

    generator = np.random.RandomState(_ROBOT_SEED)
    poses = []
    for index in range(ROBOT_POSES):
        direction = generator.randn(len(REST_JOINTS))
        offset = direction / np.linalg.norm(direction) * 0.1 * (1 + index // 100)
        pose = np.array(REST_JOINTS) + offset
        poses.append(tuple(round(angle, _ROBOT_DECIMALS) for angle in pose.tolist()))
    return tuple(poses)
