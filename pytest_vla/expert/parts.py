"""What a scene is made of, for skills: which geoms belong to a body, where they end, what the robot's are."""

from collections.abc import Iterable, Sequence

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.scene.profiles import PROFILES

Array = npt.NDArray[np.float64]

_CORNERS = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
_ROBOT = tuple(part for profile in PROFILES for part in profile.robot_parts)


def colliding_geoms(model: mujoco.MjModel, body: int) -> tuple[int, ...]:
    """The geoms that collide, of a body and of all that hangs on it."""
    return tuple(
        geom
        for geom in range(model.ngeom)
        if (model.geom_contype[geom] or model.geom_conaffinity[geom])
        and _hangs_on(model, int(model.geom_bodyid[geom]), body)
    )


def robot_geoms(model: mujoco.MjModel) -> tuple[int, ...]:
    """All geoms of arm, hand and mount."""
    return tuple(
        geom for geom in range(model.ngeom) if model.body(int(model.geom_bodyid[geom])).name.startswith(_ROBOT)
    )


def corners(model: mujoco.MjModel, data: mujoco.MjData, geoms: Iterable[int]) -> Array:
    """The corners (n, 3) of the geoms' own bounding boxes, m, world frame."""
    points = []
    for geom in geoms:
        centre, half = model.geom_aabb[geom][:3], model.geom_aabb[geom][3:]
        points.append(data.geom_xpos[geom] + (centre + _CORNERS * half) @ data.geom_xmat[geom].reshape(3, 3).T)
    return np.concatenate(points) if points else np.zeros((0, 3))


def geom_boxes(model: mujoco.MjModel, data: mujoco.MjData, geoms: Sequence[int]) -> tuple[Array, Array]:
    """Of each geom the low and the high corners (n, 3) of the box around it along the world's axes, m."""
    chosen = np.array(geoms, dtype=int)
    rotation = data.geom_xmat[chosen].reshape(-1, 3, 3)
    centre = data.geom_xpos[chosen] + np.einsum("nij,nj->ni", rotation, model.geom_aabb[chosen, :3])
    half = np.einsum("nij,nj->ni", np.abs(rotation), model.geom_aabb[chosen, 3:])
    return centre - half, centre + half


def _hangs_on(model: mujoco.MjModel, body: int, root: int) -> bool:
    while body not in (0, root):
        body = int(model.body_parentid[body])
    return body == root
