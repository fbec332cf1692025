"""What a camera can see, as planes, and on which side of them boxes are. World frame, metres.

A plane is a row (normal, offset) with a unit normal; a point p is on its inner side where normal @ p >= offset. What is
said of boxes is on the safe side: one that is wholly on the outer side of a plane touches no pixel on the inner side.
The slack for this is a hundred times what rounding to OpenGL's single precision can do.
"""

import dataclasses
from collections.abc import Sequence

import mujoco
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Point = tuple[float, float, float]

_SLACK = 1e-4
"""Of a box's distance and size: so much nearer to a plane may it be than it seems."""


@dataclasses.dataclass(frozen=True)
class Frustum:
    """A perspective camera that a scene is drawn from.

    Attributes:
        eye: (3,): where it is.
        axes: (3, 3): its right, up and forward directions, each a row.
        slopes: left, bottom, right and top of its picture, in metres at one metre's distance.
        near, far: distances along `axes[2]` between which things are drawn.
    """

    eye: Array
    axes: Array
    slopes: tuple[float, float, float, float]
    near: float
    far: float

    def within(self, slopes: tuple[float, float, float, float], slack: float = 0.0) -> Array:
        """(6, 4): planes around what is seen in a part of the picture, or beyond it, that is `slack` larger."""
        return self.cone(np.array(lines_around(slopes, slack)))

    def cone(self, lines: Array) -> Array:
        """Planes around what is seen between lines in the picture.

        Args:
            lines: (k, 3): each (a, b, c) keeps the slopes (x, y) with a x + b y + c >= 0.

        Returns:
            (k + 2, 4): those through the eye, the near one and the far one.
        """
        planes = np.empty((len(lines) + 2, 4))
        normals = planes[:, :3]
        np.matmul(lines, self.axes, out=normals[:-2])
        normals[:-2] /= np.sqrt(np.einsum("ij,ij->i", normals[:-2], normals[:-2]))[:, None]
        normals[-2], normals[-1] = self.axes[2], -self.axes[2]
        planes[:, 3] = normals @ self.eye
        planes[-2, 3] += self.near
        planes[-1, 3] -= self.far
        return planes


def frustum_of(scene: mujoco.MjvScene, aspect: float) -> Frustum:
    """The camera of a scene that was updated; `aspect` is a picture's width by its height."""
    # Of one for each eye the renderer takes the middle (mjv_averageCamera).
    one, other = scene.camera
    forward, up = (_unit((getattr(one, name) + getattr(other, name)).tolist()) for name in ("forward", "up"))
    near = (one.frustum_near + other.frustum_near) / 2
    bottom, top, center, width = (
        (getattr(one, f"frustum_{name}") + getattr(other, f"frustum_{name}")) / (2 * near)
        for name in ("bottom", "top", "center", "width")
    )
    half = width or 0.5 * aspect * (top - bottom)
    return Frustum(
        (one.pos.astype(np.float64) + other.pos) / 2,
        np.array([_cross(forward, up), up, forward]),
        (center - half, bottom, center + half, top),
        near,
        (one.frustum_far + other.frustum_far) / 2,
    )


def lines_around(slopes: tuple[float, float, float, float], slack: float = 0.0) -> list[Point]:
    """A rectangle's edges, so much further out, as `Frustum.cone` takes them."""
    left, bottom, right, top = slopes
    return [(1.0, 0.0, slack - left), (0.0, 1.0, slack - bottom), (-1.0, 0.0, slack + right), (0.0, -1.0, slack + top)]


@dataclasses.dataclass(frozen=True)
class Boxes:
    """Boxes that things are in.

    Attributes:
        centers: (n, 3).
        axes: (n, 3, 3): rotation matrices, from a box's frame to the world's.
        halves: (n, 3): half of the sizes.
    """

    centers: Array
    axes: Array
    halves: Array

    def sides(self, planes: Array, eye: Array, beyond: float = 0.0) -> tuple[Mask, Mask]:
        """(n, p) each: whether a box may reach over to the inner side of a plane, and whether it is wholly there.

        Args:
            planes: (p, 4).
            eye: (3,): of the camera.
            beyond: how much farther inside of a plane all of a box has to be, at one metre's distance from the eye.
        """
        normals = planes[:, :3]
        heights = self.centers @ normals.T - planes[:, 3]
        # One product instead of one a box: this is most of what a picture's Python takes.
        along = np.abs(normals @ self.axes.transpose(1, 0, 2).reshape(3, -1)).reshape(len(planes), -1, 3)
        extents = np.einsum("pni,ni->np", along, self.halves)
        distances = (np.abs(self.centers - eye) + self.halves).sum(axis=1)
        extents += _SLACK * (distances + np.abs(eye).sum())[:, None]
        return heights >= -extents, heights >= extents + beyond * distances[:, None]


def behind(eye: Array, corners: Array) -> Array:
    """Planes around what flat convex faces hide from an eye, wherever that looks: the edges' and each face's own.

    Args:
        eye: (3,): not in a face's plane.
        corners: (n, k, 3): each face's, in order.

    Returns:
        (n, k + 1, 4)
    """
    planes = np.empty((len(corners), corners.shape[1] + 1, 4))
    normals, rays = planes[:, :, :3], corners - eye
    normals[:, :-1] = _crosses(rays, np.concatenate((rays[:, 1:], rays[:, :1]), axis=1))
    normals[:, -1] = _crosses(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 1])
    middles = rays.mean(axis=1)
    normals *= np.sign(normals @ middles[:, :, None])
    normals /= np.sqrt(np.einsum("nki,nki->nk", normals, normals))[:, :, None]
    planes[:, :-1, 3] = normals[:, :-1] @ eye
    planes[:, -1, 3] = (normals[:, -1] * corners[:, 0]).sum(axis=1)
    return planes


def mirrored(planes: Array, point: Array, normal: Array) -> Array:
    """Planes around what a mirror shows of the inner side of others.

    Args:
        planes: (p, 4).
        point, normal: (3,) of the mirror; `normal` is a unit vector.

    Returns:
        (p + 1, 4): the mirror images, and the mirror itself.
    """
    height = float(point @ normal)
    along = planes[:, :3] @ normal
    turned = np.empty((len(planes) + 1, 4))
    turned[:-1, :3] = planes[:, :3] - 2 * along[:, None] * normal
    turned[:-1, 3] = planes[:, 3] - 2 * along * height
    turned[-1, :3], turned[-1, 3] = normal, height
    return turned


def outline(frustum: Frustum, corners: Array, slack: float) -> Array | None:
    """What a camera sees of a flat convex face.

    Args:
        frustum: the camera's.
        corners: (k, 3): the face's, in order.
        slack: in slopes, by which the picture is taken to be larger.

    Returns:
        (m, 2): the corners of what is seen, in slopes, in order; None: nothing, or no area.
    """
    seen: list[Point] = [(x, y, z) for x, y, z in ((corners - frustum.eye) @ frustum.axes.T).tolist()]
    seen = _clipped(seen, (0.0, 0.0, 1.0), frustum.near)
    for line in lines_around(frustum.slopes, slack):
        seen = _clipped(seen, line, 0.0)
    return np.array([(x / z, y / z) for x, y, z in seen]) if len(seen) > 2 else None


def edges(points: Array) -> Array | None:
    """The lines around a convex polygon of (k, 2) points in order, as `Frustum.cone` takes them; None: it has no area.

    Distances from a line (a, b, c) are a x + b y + c.
    """
    after = np.concatenate((points[1:], points[:1]))
    area = float((points[:, 0] * after[:, 1] - points[:, 1] * after[:, 0]).sum()) / 2
    along = after - points
    lengths = np.hypot(along[:, 0], along[:, 1])
    # Without one of its edges the polygon is larger, which is safe.
    long = lengths > 1e-9
    if abs(area) < 1e-9 or np.count_nonzero(long) < 3:
        return None
    normals = np.empty((np.count_nonzero(long), 3))
    scale = (1.0 if area > 0 else -1.0) / lengths[long]
    normals[:, 0], normals[:, 1] = -along[long, 1] * scale, along[long, 0] * scale
    normals[:, 2] = -(normals[:, :2] * points[long]).sum(axis=1)
    return normals


def _clipped(points: Sequence[Point], normal: Point, offset: float) -> list[Point]:
    """The part of a convex polygon on the inner side of a plane (Sutherland and Hodgman, 1974)."""
    a, b, c = normal
    heights = [a * x + b * y + c * z - offset for x, y, z in points]
    kept: list[Point] = []
    for index, (point, height) in enumerate(zip(points, heights, strict=True)):
        before, height_before = points[index - 1], heights[index - 1]
        if (height >= 0) != (height_before >= 0):
            share = height_before / (height_before - height)
            x, y, z = (one + share * (other - one) for one, other in zip(before, point, strict=True))
            kept.append((x, y, z))
        if height >= 0:
            kept.append(point)
    return kept


def _unit(vector: Sequence[float]) -> Point:
    x, y, z = vector
    length = (x * x + y * y + z * z) ** 0.5
    return x / length, y / length, z / length


def _cross(one: Point, other: Point) -> Point:
    (a, b, c), (x, y, z) = one, other
    return b * z - c * y, c * x - a * z, a * y - b * x


def _crosses(one: Array, other: Array) -> Array:
    """Of rows (..., 3); numpy's own takes five times as long for as few as there are here."""
    (a, b, c), (x, y, z) = np.moveaxis(one, -1, 0), np.moveaxis(other, -1, 0)
    return np.stack((b * z - c * y, c * x - a * z, a * y - b * x), axis=-1)
