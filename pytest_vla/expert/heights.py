"""Maps of heights: the scene from above, by rays on colliding geoms."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.scene.panda import PROFILES

Array = npt.NDArray[np.float64]

# Higher than everything in LIBERO's scenes.
_CEILING = 2.2
_UNSEEN_GROUP = 5
_COLLISION_GROUP = 0


@dataclass(frozen=True)
class Heights:
    """A map of heights.

    Attributes:
        origin: (2,) x and y of the first cell, m, world frame.
        cell: side of a cell, m.
        height: (nx, ny) z of the highest surface, m; -inf if there is none.
        geom: (nx, ny) the geom that it belongs to; -1 if there is none.
    """

    origin: Array
    cell: float
    height: Array
    geom: npt.NDArray[np.int32]

    def at(self, points: Array) -> Array:
        """Return the heights at points (..., 2), of the nearest cell; beyond the map, of its edge."""
        x, y = self.index(points)
        return np.asarray(self.height[x, y])

    def index(self, points: Array) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return the cells of points (..., 2)."""
        cells = np.rint((points - self.origin) / self.cell).astype(np.intp)
        size = self.height.shape
        return np.clip(cells[..., 0], 0, size[0] - 1), np.clip(cells[..., 1], 0, size[1] - 1)

    def highest_near(self, point: Array, radius: float) -> float:
        """Return the highest z within a radius of a point (2,)."""
        return float(self.at(point + disc(radius, self.cell)).max())

    def highest_along(self, start: Array, end: Array, radius: float) -> float:
        """Return the highest z within a radius of the way from one point (2,) to another."""
        count = max(2, int(np.linalg.norm(end - start) / max(radius / 2, self.cell)) + 2)
        way = start + np.linspace(0, 1, count)[:, None] * (end - start)
        return float(self.at(way[:, None] + disc(radius, self.cell)).max())


def disc(radius: float, cell: float) -> Array:
    """Return offsets (n, 2) that fill a disc."""
    steps = np.arange(-int(radius / cell), int(radius / cell) + 1) * cell
    grid = np.stack(np.meshgrid(steps, steps, indexing="ij"), -1).reshape(-1, 2)
    return np.asarray(grid[np.linalg.norm(grid, axis=1) <= radius + 1e-9])


def measure(
    model: mujoco.MjModel, data: mujoco.MjData, centre: Array, reach: float, cell: float, without: Iterable[int]
) -> Heights:
    """Measure the map of a square.

    Args:
        model, data: the scene; unchanged.
        centre: (2,) of the square, m.
        reach: half its side, m.
        cell: side of a cell, m.
        without: geoms that are ignored: the robot's, and those that it holds.
    """
    count = 2 * round(reach / cell) + 1
    origin = np.asarray(centre[:2]) - cell * (count // 2)
    height = np.full((count, count), -np.inf)
    owner = np.full((count, count), -1, np.int32)
    hit = np.zeros(1, np.int32)
    point, down = np.array([0.0, 0.0, _CEILING]), np.array([0.0, 0.0, -1.0])
    group = np.zeros(6, np.uint8)
    group[_COLLISION_GROUP] = 1
    with _solid(model, without):
        for i in range(count):
            point[0] = origin[0] + i * cell
            for j in range(count):
                point[1] = origin[1] + j * cell
                distance = mujoco.mj_ray(model, data, point, down, group, 1, -1, hit)
                if distance >= 0:
                    height[i, j], owner[i, j] = _CEILING - distance, hit[0]
    return Heights(origin, cell, height, owner)


@contextmanager
def _solid(model: mujoco.MjModel, without: Iterable[int]) -> Iterator[None]:
    """Let rays meet transparent geoms, which mj_ray passes through, and none of `without`."""
    group, alpha = model.geom_group.copy(), model.geom_rgba[:, 3].copy()
    try:
        # Inside the try block, as an alarm may go off at any time.
        model.geom_group[list(without)] = _UNSEEN_GROUP
        model.geom_rgba[:, 3] = 1.0
        yield
    finally:
        model.geom_group[:], model.geom_rgba[:, 3] = group, alpha


# The geoms of a scene, for skills: those of a body, their extents, and the robot's.

_CORNERS = np.array(np.meshgrid([-1, 1], [-1, 1], [-1, 1])).reshape(3, -1).T
_ROBOT = tuple(part for profile in PROFILES for part in profile.robot_parts)


def colliding_geoms(model: mujoco.MjModel, body: int) -> tuple[int, ...]:
    """Return the colliding geoms of a body and its descendants."""
    return tuple(
        geom
        for geom in range(model.ngeom)
        if (model.geom_contype[geom] or model.geom_conaffinity[geom])
        and _hangs_on(model, int(model.geom_bodyid[geom]), body)
    )


def robot_geoms(model: mujoco.MjModel) -> tuple[int, ...]:
    """Return all geoms of arm, hand and mount."""
    return tuple(
        geom for geom in range(model.ngeom) if model.body(int(model.geom_bodyid[geom])).name.startswith(_ROBOT)
    )


def corners(model: mujoco.MjModel, data: mujoco.MjData, geoms: Iterable[int]) -> Array:
    """Compute the corners (n, 3) of the geoms' own bounding boxes, m, world frame."""
    points = []
    for geom in geoms:
        centre, half = model.geom_aabb[geom][:3], model.geom_aabb[geom][3:]
        points.append(data.geom_xpos[geom] + (centre + _CORNERS * half) @ data.geom_xmat[geom].reshape(3, 3).T)
    return np.concatenate(points) if points else np.zeros((0, 3))


def geom_boxes(model: mujoco.MjModel, data: mujoco.MjData, geoms: Sequence[int]) -> tuple[Array, Array]:
    """Compute each geom's low and high corners (n, 3) of its box along the world's axes, m."""
    chosen = np.array(geoms, dtype=int)
    rotation = data.geom_xmat[chosen].reshape(-1, 3, 3)
    centre = data.geom_xpos[chosen] + np.einsum("nij,nj->ni", rotation, model.geom_aabb[chosen, :3])
    half = np.einsum("nij,nj->ni", np.abs(rotation), model.geom_aabb[chosen, 3:])
    return centre - half, centre + half


def _hangs_on(model: mujoco.MjModel, body: int, root: int) -> bool:
    while body not in (0, root):
        body = int(model.body_parentid[body])
    return body == root
