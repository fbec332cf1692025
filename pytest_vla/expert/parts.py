"""What a scene is made of, for skills: which geoms belong to a body, where they end, what the robot's are."""

from collections.abc import Iterable

import mujoco
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_CORNERS = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
_ROBOT = ("robot0_", "gripper0_", "mount0_")


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


def _hangs_on(model: mujoco.MjModel, body: int, root: int) -> bool:
    while body not in (0, root):
        body = int(model.body_parentid[body])
    return body == root
