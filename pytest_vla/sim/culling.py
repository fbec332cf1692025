"""Culling: leave out geoms that a picture cannot show, and the mirror image if it is not seen. Pixels stay the same.

MuJoCo's renderer (src/render/render_gl3.c, mjr_render) sends all geoms of a scene to OpenGL, whether the camera sees
them or not. It sends them a second time for the mirror image in the one reflecting face: the first opaque box or plane
that reflects, a box by its upper side. A pixel depends only on the geoms that cover it, or that are mirrored in it if
the face covers it, and on their order. So everything outside the camera's frustum is left out, also in the mirror
image, and so is everything behind a table.

If the face is small, two passes are cheaper: one without the mirror, and one with the mirror that draws only the things
seen in the face and in front of it, from which only the face's pixels are taken.
"""

import ctypes
import dataclasses
import itertools
from collections.abc import Sequence
from types import EllipsisType

import mujoco
import numpy as np
import numpy.typing as npt

# A camera's view as planes, and the side of them that boxes are on. World frame, metres.
#
# A plane is a row (normal, offset) with a unit normal; a point p is on its inner side where normal @ p >= offset.
# Answers about boxes are conservative: a box that is wholly on the outer side of a plane touches no pixel on the
# inner side. The slack for this is a hundred times what rounding to OpenGL's single precision can do.

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Point = tuple[float, float, float]

_SLACK = 1e-4
"""Share of a box's distance and size by which it may be nearer to a plane than computed."""


@dataclasses.dataclass(frozen=True)
class Frustum:
    """A perspective camera that a scene is drawn from.

    Attributes:
        eye: (3,): its position.
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
        """Compute planes (6, 4) around the view through a part of the picture, enlarged by `slack`."""
        return self.cone(np.array(lines_around(slopes, slack)))

    def cone(self, lines: Array) -> Array:
        """Compute planes around the view between lines in the picture.

        Args:
            lines: (k, 3): each (a, b, c) keeps the slopes (x, y) with a x + b y + c >= 0.

        Returns:
            (k + 2, 4): the planes through the eye, the near one and the far one.
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
    """Return the camera's frustum of an updated scene; `aspect` is a picture's width by its height."""
    # The renderer takes the average of the two eyes' cameras (mjv_averageCamera).
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
    """Return a rectangle's edges, moved outwards by `slack`, as `Frustum.cone` takes them."""
    left, bottom, right, top = slopes
    return [(1.0, 0.0, slack - left), (0.0, 1.0, slack - bottom), (-1.0, 0.0, slack + right), (0.0, -1.0, slack + top)]


@dataclasses.dataclass(frozen=True)
class BoundingBoxes:
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
        """Compute masks (n, p) of the boxes that may reach the inner side of a plane, and of those wholly on it.

        Args:
            planes: (p, 4).
            eye: (3,): of the camera.
            beyond: how much farther inside of a plane all of a box has to be, at one metre's distance from the eye.
        """
        normals = planes[:, :3]
        heights = self.centers @ normals.T - planes[:, 3]
        # One product instead of one per box: this is most of a picture's time in Python.
        along = np.abs(normals @ self.axes.transpose(1, 0, 2).reshape(3, -1)).reshape(len(planes), -1, 3)
        extents = np.einsum("pni,ni->np", along, self.halves)
        distances = (np.abs(self.centers - eye) + self.halves).sum(axis=1)
        extents += _SLACK * (distances + np.abs(eye).sum())[:, None]
        return heights >= -extents, heights >= extents + beyond * distances[:, None]


def behind(eye: Array, corners: Array) -> Array:
    """Compute planes around the space that flat convex faces hide from an eye, whatever its direction.

    Args:
        eye: (3,): not in a face's plane.
        corners: (n, k, 3): each face's, in order.

    Returns:
        (n, k + 1, 4): the planes through the edges, and each face's own.
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
    """Compute planes around the space that a mirror shows within other planes.

    Args:
        planes: (p, 4).
        point, normal: (3,) of the mirror; `normal` is a unit vector.

    Returns:
        (p + 1, 4): the mirror images of the planes, and the mirror itself.
    """
    height = float(point @ normal)
    along = planes[:, :3] @ normal
    turned = np.empty((len(planes) + 1, 4))
    turned[:-1, :3] = planes[:, :3] - 2 * along[:, None] * normal
    turned[:-1, 3] = planes[:, 3] - 2 * along * height
    turned[-1, :3], turned[-1, 3] = normal, height
    return turned


def outline(frustum: Frustum, corners: Array, slack: float) -> Array | None:
    """Compute the visible part of a flat convex face.

    Args:
        frustum: the camera's.
        corners: (k, 3): the face's, in order.
        slack: in slopes, by which the picture is taken to be larger.

    Returns:
        (m, 2): the corners of the visible part, in slopes, in order, or None if it is empty or has no area.
    """
    seen: list[Point] = [(x, y, z) for x, y, z in ((corners - frustum.eye) @ frustum.axes.T).tolist()]
    seen = _clipped(seen, (0.0, 0.0, 1.0), frustum.near)
    for line in lines_around(frustum.slopes, slack):
        seen = _clipped(seen, line, 0.0)
    return np.array([(x / z, y / z) for x, y, z in seen]) if len(seen) > 2 else None


def edges(points: Array) -> Array | None:
    """Compute the lines around a convex polygon, as `Frustum.cone` takes them, or None if it has no area.

    Distances from a line (a, b, c) are a x + b y + c.

    Args:
        points: (k, 2), in order.
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
    """Return the part of a convex polygon on the inner side of a plane (Sutherland and Hodgman, 1974)."""
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
    """Compute cross products of rows (..., 3), five times as fast as numpy for the few rows here."""
    (a, b, c), (x, y, z) = np.moveaxis(one, -1, 0), np.moveaxis(other, -1, 0)
    return np.stack((b * z - c * y, c * x - a * z, a * y - b * x), axis=-1)


# The geoms of an MjvScene as arrays, where they lie in memory: the Python package has an object of each, and no
# array.
#
# An mjvGeom is 59 words of four bytes: eight integers, then floats, a label, and what the renderer sets itself.

_INTEGERS = ("type", "dataid", "objtype", "objid", "category", "matid", "texcoord", "segid")
_ARRAYS = {"size": slice(8, 11), "pos": slice(11, 14), "mat": slice(14, 23), "rgba": slice(23, 27)}
_FLOATS = {"emission": 27, "specular": 28, "shininess": 29, "reflectance": 30}
_WORDS = 59

PLANE, SPHERE, CAPSULE, BOX, MESH, SDF = (
    int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}")) for name in ("PLANE", "SPHERE", "CAPSULE", "BOX", "MESH", "SDF")
)
OPAQUE = np.float32(0.995)
"""The renderer's limit: nothing shines through a geom with at least this alpha."""

_COLOURS = 3
_TRIANGLES = 400
"""About how many triangles a sphere or a cylinder is drawn with."""

Words = npt.NDArray[np.int32]


@dataclasses.dataclass(frozen=True)
class Geoms:
    """A scene's geoms, in the order in which they are drawn.

    Attributes:
        rows: (n, 59): their memory, copied.
        boxes: a box around each.
        bounded: (n,): mask of those that have a box; the others may be anywhere.
        triangles: (n,): about how many triangles each is drawn with.
        solid: (n,): mask of those that hide everything behind them, as no part of them is transparent.
    """

    rows: Words
    boxes: BoundingBoxes
    bounded: Mask
    triangles: Array
    solid: Mask

    def __len__(self) -> int:
        return len(self.rows)

    def integer(self, name: str) -> Words:
        """Return an integer field (n,) of the mjvGeoms by its name."""
        return self.rows[:, _INTEGERS.index(name)]

    def number(self, name: str) -> npt.NDArray[np.float32]:
        """Return a float field (n,) of the mjvGeoms by its name; writing to it changes the copy."""
        return self.rows.view(np.float32)[:, _FLOATS[name]]

    def array(self, name: str) -> Array:
        """Return an array field (n, k) of the mjvGeoms by its name."""
        return self.rows.view(np.float32)[:, _ARRAYS[name]].astype(np.float64)


class SceneGeoms:
    """Reads a scene's geoms, and puts some of them back.

    `usable` says whether this MuJoCo keeps geoms in memory as is known here, which is so from 3.0 to 3.8 at least.
    """

    def __init__(self, model: mujoco.MjModel, scene: mujoco.MjvScene) -> None:
        self._scene = scene
        words = _memory(scene)
        self.usable = words is not None
        self._words = np.zeros((0, _WORDS), np.int32) if words is None else words
        # Meshes as they are on the graphics side, where they do not change.
        self._low, self._high = (
            reduce.reduceat(model.mesh_vert, model.mesh_vertadr, axis=0).astype(np.float64)
            if model.nmesh
            else np.zeros((0, 3))
            for reduce in (np.minimum, np.maximum)
        )
        self._faces = model.mesh_facenum.copy()
        channels = model.tex_nchannel[model.mat_texid] if model.ntex else np.zeros((model.nmat, 1))
        # Where a material has no texture it is the last one's, which may keep it from being solid, and no more.
        self._see_through = np.append((channels > _COLOURS).reshape(model.nmat, -1).any(axis=1), False)

    def read(self) -> Geoms:
        """Return the geoms of the updated scene."""
        rows = self._words[: self._scene.ngeom].copy()
        kinds, number = rows[:, _INTEGERS.index("type")], rows[:, _INTEGERS.index("dataid")] // 2
        floats = rows.view(np.float32)
        centers, halves = (floats[:, _ARRAYS[name]].astype(np.float64) for name in ("pos", "size"))
        axes = floats[:, _ARRAYS["mat"]].astype(np.float64).reshape(-1, 3, 3)
        capsules = kinds == CAPSULE
        halves[capsules, 2] += halves[capsules, :2].max(axis=1)
        meshes = ((kinds == MESH) | (kinds == SDF)) & (number >= 0)
        low, high = self._low[number[meshes]], self._high[number[meshes]]
        halves[meshes] = (high - low) / 2
        centers[meshes] += (axes[meshes] @ ((high + low) / 2)[:, :, None])[:, :, 0]
        triangles = np.full(len(rows), float(_TRIANGLES))
        triangles[meshes] = self._faces[number[meshes]]
        bounded = meshes | ((kinds >= SPHERE) & (kinds <= BOX))
        materials = np.clip(rows[:, _INTEGERS.index("matid")], -1, len(self._see_through) - 1)
        solid = (floats[:, _ARRAYS["rgba"]][:, 3] >= OPAQUE) & ~self._see_through[materials]
        return Geoms(rows, BoundingBoxes(centers, axes, halves), bounded, triangles, solid)

    def keep(self, rows: Words) -> None:
        """Replace the scene's geoms by these, until it is updated; there may be no more than it had."""
        self._words[: len(rows)] = rows
        self._scene.ngeom = len(rows)


def _memory(scene: mujoco.MjvScene) -> Words | None:
    """Return a scene's geoms in memory (maxgeom, 59), or None if a trial shows an unknown layout."""
    geoms = scene.geoms
    first, last = geoms[0], geoms[-1]
    base, end = (_address(geom.size) - 4 * _ARRAYS["size"].start for geom in (first, last))
    as_known = end - base == 4 * _WORDS * (len(geoms) - 1) and all(
        _address(getattr(geom, name)) == place + 4 * where.start
        for geom, place in ((first, base), (last, end))
        for name, where in _ARRAYS.items()
    )
    if not as_known:
        return None
    memory = (ctypes.c_int32 * (_WORDS * len(geoms))).from_address(base)
    words = np.ctypeslib.as_array(memory).reshape(len(geoms), _WORDS)
    for number, name in enumerate(_INTEGERS):
        setattr(last, name, number + 1)
    for number, name in enumerate(_FLOATS):
        setattr(last, name, number + 0.5)
    integers = words[-1, : len(_INTEGERS)].tolist()
    floats = words.view(np.float32)[-1, list(_FLOATS.values())].tolist()
    written = [number + 1 for number in range(len(_INTEGERS))], [number + 0.5 for number in range(len(_FLOATS))]
    return words if (integers, floats) == written else None


def _address(array: npt.NDArray[np.float32]) -> int:
    return int(array.__array_interface__["data"][0])


Window = tuple[int, int, int, int]
"""Left, bottom, width and height of a part of a picture, in pixels, OpenGL's way up."""

SECOND_PASS = 20_000
"""Triangles that could be drawn in the time that a second pass takes to begin and to read."""

_FACES = np.array(
    [[np.insert(corner, side, 1.0) for corner in ((-1, -1), (1, -1), (1, 1), (-1, 1))] for side in range(3)]
)
"""(3, 4, 3): the corners, in order, of a cube's face to either side along each axis."""

_TABLE = 0.2
"""m: the least half side of a box that is checked for hiding things behind it."""

_MARGIN = 2.0
"""Margin in pixels around the picture, and around a mirror in it, against rounding."""


@dataclasses.dataclass(frozen=True)
class Pass:
    """One call of the renderer.

    Attributes:
        geoms: (n,) which of the scene's are drawn.
        reflects: whether the mirror image is drawn.
        window: the part of the picture that is read.
        taken: index of those of its pixels, (height, width), that are taken.
    """

    geoms: Mask
    reflects: bool
    window: Window
    taken: Mask | EllipsisType = ...


@dataclasses.dataclass(frozen=True)
class _Mirror:
    """A reflecting face that may be seen: its geom, planes around its mirror image, and lines around it.

    The lines are in the picture; without them the face may be anywhere.
    """

    geom: int
    planes: Array
    lines: Array | None
    window: Window


@dataclasses.dataclass(frozen=True)
class View:
    """A camera's view of a scene.

    Attributes:
        geoms: the scene's.
        frustum: the camera's, or None if everything must be drawn: an orthographic camera, or things other than geoms.
        width, height: of the picture, in pixels.
        shadows: whether lights cast shadows; the things that cast them may be anywhere.
    """

    geoms: Geoms
    frustum: Frustum | None
    width: int
    height: int
    shadows: bool
    _mirror: _Mirror | None

    def passes(self, second_pass: float) -> list[Pass]:
        """Return the passes to draw for the picture of all geoms, in order.

        Args:
            second_pass: the fixed cost of a second pass, in triangles; infinite to allow only one.
        """
        picture, mirror = (0, 0, self.width, self.height), self._mirror
        if self.frustum is None or self.shadows:
            everything = np.ones(len(self.geoms), np.bool_)
            return [Pass(everything, self.frustum is None or mirror is not None, picture)]
        pixel = max(_pixel(self.frustum, self.width, self.height))
        around = self.frustum.within(self.frustum.slopes, _MARGIN * pixel)
        shown = ~self._hidden(self.frustum, pixel)
        if mirror is None:
            (seen,) = self._reaching(self.frustum, around)
            return [Pass(seen & shown, False, picture)]
        groups = [around, mirror.planes]
        lines = mirror.lines if second_pass < np.inf else None
        if lines is not None:
            groups.append(self.frustum.cone(_further(lines, (_MARGIN + 1) * pixel)))
        seen, reflected, *before = self._reaching(self.frustum, *groups)
        seen &= shown
        reflected[mirror.geom] = True
        together = [Pass(seen | reflected, True, picture)]
        if lines is None:
            return together
        # Geoms wholly in the face, and a bit beyond, take all their pixels from the second pass.
        _, within = self.geoms.boxes.sides(self.frustum.cone(_further(lines, (_MARGIN - 1) * pixel)), self.frustum.eye)
        only_there = self.geoms.bounded & within.all(axis=1)
        taken = _inside(_further(lines, _MARGIN * pixel), mirror.window, self.frustum, self.width, self.height)
        apart = [
            Pass(seen & ~only_there, False, picture),
            Pass((before[0] & shown) | reflected, True, mirror.window, taken),
        ]
        return min(together, apart, key=lambda way: self._cost(way) + second_pass * (len(way) - 1))

    def _reaching(self, frustum: Frustum, *groups: Array) -> list[Mask]:
        """Return, for each group of planes, the mask (n,) of geoms that may reach into the space between them."""
        reach, _ = self.geoms.boxes.sides(np.concatenate(groups), frustum.eye)
        ends = [0, *itertools.accumulate(map(len, groups))]
        return [~self.geoms.bounded | reach[:, begin:end].all(axis=1) for begin, end in itertools.pairwise(ends)]

    def _hidden(self, frustum: Frustum, pixel: float) -> Mask:
        """Compute the mask (n,) of geoms wholly behind a side of a large box, such as a table's.

        The box itself is always drawn.
        """
        boxes, geoms = self.geoms.boxes, self.geoms
        large = (boxes.halves >= _TABLE).sum(axis=1) >= 2
        (tables,) = np.nonzero(large & geoms.solid & (geoms.integer("type") == BOX))
        axes, centers, halves = boxes.axes[tables], boxes.centers[tables], boxes.halves[tables]
        eyes = ((frustum.eye - centers)[:, None] @ axes)[:, 0]
        # Nothing nearer is drawn.
        near = 2 * frustum.near * float(np.sqrt(1 + np.square(frustum.slopes).reshape(2, 2).max(axis=0).sum()))
        box, side = np.nonzero(np.abs(eyes) - halves > near)
        if not len(box):
            return np.zeros(len(geoms), np.bool_)
        corners = halves[box, None] * _FACES[side]
        corners *= np.where(np.arange(3) == side[:, None], np.sign(eyes[box]), 1.0)[:, None]
        planes = behind(frustum.eye, corners @ axes[box].transpose(0, 2, 1) + centers[box, None])
        _, within = boxes.sides(planes.reshape(-1, 4), frustum.eye, _MARGIN * pixel)
        by_face = within.reshape(len(geoms), len(planes), -1).all(axis=2)
        return geoms.bounded & np.asarray(by_face).any(axis=1)

    def _cost(self, passes: list[Pass]) -> float:
        """Return the number of triangles sent to OpenGL."""
        return float(sum((1 + one.reflects) * self.geoms.triangles[one.geoms].sum() for one in passes))


def view_of(
    scene: mujoco.MjvScene, geoms: SceneGeoms, width: int, height: int, *, reflections: bool, shadows: bool
) -> View:
    """Return the view of an updated scene's camera.

    Args:
        scene: has the camera.
        geoms: the scene's.
        width, height: of the picture, in pixels.
        reflections: whether reflecting faces show reflections.
        shadows: whether lights cast shadows.
    """
    found = geoms.read()
    if any(camera.orthographic for camera in scene.camera) or scene.nskin or scene.nflex:
        return View(found, None, width, height, shadows, None)
    frustum = frustum_of(scene, width / height)
    mirror = _mirror_in(found, frustum, width, height) if reflections else None
    return View(found, frustum, width, height, shadows, mirror)


def _mirror_in(geoms: Geoms, frustum: Frustum, width: int, height: int) -> _Mirror | None:
    """Return the reflecting face, chosen as mjr_render does, or None if it is not seen.

    The reflectances of all other geoms are set to 0 if they are not yet.
    """
    kinds, normals, positions = geoms.integer("type"), geoms.array("mat")[:, 2::3], geoms.array("pos")
    planes = kinds == PLANE
    behind = ((frustum.eye - positions) * normals).sum(axis=1) < 0
    opaque = (geoms.array("rgba")[:, 3] >= OPAQUE) & ~(planes & behind)
    reflectances = geoms.number("reflectance")
    (found,) = np.nonzero((planes | (kinds == BOX)) & opaque & (reflectances > 0))
    if not len(found):
        return None
    geom = int(found[0])
    # mjr_render does the same to later geoms, unless the first one is missing from its scene.
    reflectances[geom + 1 :] = 0
    axes, (x, y, z) = geoms.array("mat")[geom].reshape(3, 3), geoms.array("size")[geom]
    normal = axes[:, 2]
    point = positions[geom] + (0.0 if planes[geom] else z) * normal
    if (frustum.eye - point) @ normal < -1e-4:
        return None
    slack = _MARGIN * max(_pixel(frustum, width, height))
    view, picture = frustum.within(frustum.slopes, slack), (0, 0, width, height)
    if planes[geom]:
        # A model's own plane may be infinite.
        return _Mirror(geom, mirrored(view, point, normal), None, picture)
    reach, _ = BoundingBoxes(point[None], axes[None], np.array([[x, y, 0.0]])).sides(view, frustum.eye)
    if not reach.all():
        return None
    corners = np.array([[-x, -y], [x, -y], [x, y], [-x, y]]) @ axes[:, :2].T + point
    shown = outline(frustum, corners, slack)
    lines = None if shown is None else edges(shown)
    if shown is None or lines is None:
        return _Mirror(geom, mirrored(view, point, normal), None, picture)
    planes_seen = mirrored(frustum.cone(_further(lines, slack)), point, normal)
    return _Mirror(geom, planes_seen, lines, _window(shown, frustum, width, height))


def _pixel(frustum: Frustum, width: int, height: int) -> tuple[float, float]:
    """Return the width and height of a pixel in slopes."""
    left, bottom, right, top = frustum.slopes
    return (right - left) / width, (top - bottom) / height


def _further(lines: Array, slack: float) -> Array:
    """Return the lines, moved outwards by `slack`."""
    moved = lines.copy()
    moved[:, 2] += slack
    return moved


def _window(shown: Array, frustum: Frustum, width: int, height: int) -> Window:
    """Return the window of pixels around `shown`, (n, 2) slopes, with a margin for all that may be taken."""
    size, scale = np.array([width, height]), 1 / np.array(_pixel(frustum, width, height))
    low, high = ((corner - frustum.slopes[:2]) * scale for corner in (shown.min(axis=0), shown.max(axis=0)))
    left, bottom = np.clip(np.floor(low - _MARGIN - 1), 0, size).astype(int).tolist()
    right, top = np.clip(np.ceil(high + _MARGIN + 1), 0, size).astype(int).tolist()
    return left, bottom, right - left, top - bottom


def _inside(lines: Array, window: Window, frustum: Frustum, width: int, height: int) -> Mask:
    """Return the mask (height, width) of the pixels in a window whose middle is between lines."""
    x, y = (
        start + size * (first + 0.5 + np.arange(count))
        for start, size, first, count in zip(
            frustum.slopes, _pixel(frustum, width, height), window, window[2:], strict=False
        )
    )
    heights = lines[:, 0, None, None] * x + lines[:, 1, None, None] * y[:, None] + lines[:, 2, None, None]
    return np.asarray((heights >= 0).all(axis=0))
