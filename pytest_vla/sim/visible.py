"""Which of a scene's geoms a picture can show, so that no others are drawn. Pixels are what they are with all of them.

MuJoCo's renderer (src/render/render_gl3.c, mjr_render) hands all geoms of a scene to OpenGL, whether the camera sees
them or not, and the same again for what the one reflecting face shows: the first opaque box or plane that reflects, a
box by its upper side. Where that face is small in the picture, drawing twice is cheaper: all without a mirror, and then
with it what is seen in and beside the face, of which only the face's pixels are taken.
"""

import ctypes
import dataclasses
import itertools

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.sim.frustum import Array, Boxes, Frustum, Mask, edges, frustum_of, mirrored, outline

# An mjvGeom in words of four bytes: eight integers, then floats, a label, and what mjr_render sets itself.
_INTEGERS = ("type", "dataid", "objtype", "objid", "category", "matid", "texcoord", "segid")
_ARRAYS = {"size": slice(8, 11), "pos": slice(11, 14), "mat": slice(14, 23), "rgba": slice(23, 27)}
_FLOATS = {"emission": 27, "specular": 28, "shininess": 29, "reflectance": 30}
_WORDS = 59

_PLANE, _SPHERE, _CAPSULE, _BOX, _MESH, _SDF = (
    int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}")) for name in ("PLANE", "SPHERE", "CAPSULE", "BOX", "MESH", "SDF")
)
_OPAQUE = 0.995  # mjr_render's
_MARGIN = 2.0
"""Pixels around what a mirror covers that are taken for its too, against rounding."""
_TRIANGLES = 400
"""About what a sphere or a cylinder is drawn of."""
SECOND_PASS = 20_000
"""Triangles that could be drawn in the time that a second pass takes to begin and to read."""


@dataclasses.dataclass(frozen=True)
class Pass:
    """One call of the renderer.

    Attributes:
        geoms: (n,) which of the scene's are drawn; None: all.
        reflects: whether the mirror image is drawn.
        window: left, bottom, width and height in pixels of what is taken from it, OpenGL's way up.
    """

    geoms: Mask | None
    reflects: bool
    window: tuple[int, int, int, int]


@dataclasses.dataclass(frozen=True)
class _Mirror:
    """The face that reflects: its geom's place among the scene's; its middle, normal and corners, none if endless."""

    geom: int
    point: Array
    normal: Array
    corners: Array | None

    def may_be_in(self, view: Array, eye: Array) -> bool:
        """Whether the face is turned to the eye, and reaches into the view that is between planes."""
        if (eye - self.point) @ self.normal < -1e-4:
            return False
        if self.corners is None:
            return True
        halves = (self.corners.max(axis=0) - self.corners.min(axis=0)) / 2
        reach, _ = Boxes(self.point[None], np.eye(3)[None], halves[None]).sides(view, eye)
        return bool(reach.all())


class VisibleGeoms:
    """The geoms of an MjvScene, of which it can keep some.

    `usable` says whether this MuJoCo keeps geoms in memory as is known here; where it does not, all are to be drawn.
    """

    def __init__(self, model: mujoco.MjModel, scene: mujoco.MjvScene) -> None:
        self._scene = scene
        words = _memory(scene)
        self.usable = words is not None
        self._words = np.zeros((0, _WORDS), np.int32) if words is None else words
        self._all = self._words[:0]
        # Of meshes as they are on the graphics side, where they stay what they are now.
        starts = model.mesh_vertadr
        self._low, self._high = (
            reduce.reduceat(model.mesh_vert, starts, axis=0).astype(np.float64) if model.nmesh else np.zeros((0, 3))
            for reduce in (np.minimum, np.maximum)
        )
        self._faces = model.mesh_facenum.copy()

    def update(self) -> None:
        """The scene was updated: its geoms are others."""
        self._all = self._words[: self._scene.ngeom].copy()

    def passes(self, width: int, height: int, *, shadows: bool, reflections: bool, second_pass: float) -> list[Pass]:
        """What has to be drawn for a picture of all geoms, in order.

        Args:
            width, height: of the picture, in pixels.
            shadows: whether lights cast any: then what casts them may be anywhere.
            reflections: whether the scene's mirror reflects.
            second_pass: what a second pass costs beside what it draws, in triangles.
        """
        picture = (0, 0, width, height)
        if any(camera.orthographic for camera in self._scene.camera):
            return [Pass(None, reflections, picture)]
        frustum = frustum_of(self._scene, width / height)
        pixel = (frustum.slopes[3] - frustum.slopes[1]) / height
        boxes, bounded = self._boxes()
        whole = frustum.within(frustum.slopes, _MARGIN * pixel)
        mirror = self._mirror(frustum.eye) if reflections else None
        if mirror is not None and not mirror.may_be_in(whole, frustum.eye):
            mirror = None
        if shadows:
            return [Pass(None, mirror is not None, picture)]
        if mirror is None:
            reach, _ = boxes.sides(whole, frustum.eye)
            return [Pass(~bounded | reach.all(axis=1), False, picture)]
        shown = None if mirror.corners is None else outline(frustum, mirror.corners, _MARGIN * pixel)
        around = None if shown is None else edges(shown, _MARGIN * pixel)
        cone = whole if around is None else frustum.cone(around)
        in_mirror = mirrored(cone, mirror.point, mirror.normal)
        window = picture if shown is None else _window(frustum, shown, width, height)
        slopes = _slopes(frustum, window, width, height)
        groups = [whole, in_mirror, frustum.within(slopes, pixel), frustum.within(slopes, -pixel)]
        reach, within = boxes.sides(np.concatenate(groups), frustum.eye)
        ends = np.cumsum([0, *map(len, groups)])
        seen, reflected, beside, _ = (
            ~bounded | reach[:, begin:end].all(axis=1) for begin, end in itertools.pairwise(ends)
        )
        only_there = bounded & within[:, ends[-2] :].all(axis=1)
        reflected[mirror.geom] = True
        together = [Pass(seen | reflected, True, picture)]
        apart = [Pass(seen & ~only_there, False, picture), Pass((seen & beside) | reflected, True, window)]
        return min(together, apart, key=lambda way: self._cost(way) + second_pass * (len(way) - 1))

    def keep(self, geoms: Mask) -> None:
        """Puts some of the geoms into the scene, in their order; the others are not in it until it is updated."""
        kept = self._all[geoms]
        self._words[: len(kept)] = kept
        self._scene.ngeom = len(kept)

    def _integer(self, name: str) -> npt.NDArray[np.int32]:
        return self._all[:, _INTEGERS.index(name)]

    def _floats(self, name: str) -> Array:
        return self._all.view(np.float32)[:, _ARRAYS[name]].astype(np.float64)

    def _boxes(self) -> tuple[Boxes, Mask]:
        """A box around each geom, and which of them have one; others may be anywhere."""
        kinds, centers, halves = self._integer("type"), self._floats("pos"), self._floats("size")
        axes = self._floats("mat").reshape(-1, 3, 3)
        capsules = kinds == _CAPSULE
        halves[capsules, 2] += halves[capsules, :2].max(axis=1)
        number = self._integer("dataid") // 2
        meshes = ((kinds == _MESH) | (kinds == _SDF)) & (number >= 0)
        low, high = self._low[number[meshes]], self._high[number[meshes]]
        halves[meshes] = (high - low) / 2
        centers[meshes] += (axes[meshes] @ ((high + low) / 2)[:, :, None])[:, :, 0]
        bounded = meshes | ((kinds >= _SPHERE) & (kinds <= _BOX))
        return Boxes(centers, axes, halves), bounded

    def _mirror(self, eye: Array) -> _Mirror | None:
        """The geom that reflects, chosen as mjr_render does; no other one does after this."""
        floats, kinds = self._all.view(np.float32), self._integer("type")
        planes = kinds == _PLANE
        positions, normals = self._floats("pos"), self._floats("mat").reshape(-1, 3, 3)[:, :, 2]
        behind = ((eye - positions) * normals).sum(axis=1) < 0
        opaque = (floats[:, _ARRAYS["rgba"].stop - 1] >= _OPAQUE) & ~(planes & behind)
        reflectances = floats[:, _FLOATS["reflectance"]]
        (found,) = np.nonzero((planes | (kinds == _BOX)) & opaque & (reflectances > 0))
        if not len(found):
            return None
        geom = int(found[0])
        # mjr_render does the same to those behind it, unless the first one is not in the scene that it gets.
        reflectances[geom + 1 :] = 0
        axes, (x, y, z) = self._floats("mat")[geom].reshape(3, 3), self._floats("size")[geom]
        point = positions[geom] + (0.0 if planes[geom] else z) * axes[:, 2]
        if planes[geom] and (x <= 0 or y <= 0 or self._integer("dataid")[geom] >= 0):
            return _Mirror(geom, point, axes[:, 2], None)
        corners = np.array([[-x, -y], [x, -y], [x, y], [-x, y]]) @ axes[:, :2].T + point
        return _Mirror(geom, point, axes[:, 2], corners)

    def _cost(self, passes: list[Pass]) -> float:
        """Triangles that are handed to OpenGL, about."""
        number, kinds = self._integer("dataid") // 2, self._integer("type")
        meshes = (kinds == _MESH) & (number >= 0)
        triangles = np.full(len(self._all), float(_TRIANGLES))
        triangles[meshes] = self._faces[number[meshes]]
        return float(sum((1 + one.reflects) * triangles[one.geoms].sum() for one in passes))


def _window(frustum: Frustum, shown: Array, width: int, height: int) -> tuple[int, int, int, int]:
    """The pixels around what is shown, as left, bottom, width and height."""
    left, bottom, right, top = frustum.slopes
    scale = np.array([width / (right - left), height / (top - bottom)])
    low = np.floor((shown.min(axis=0) - [left, bottom]) * scale - _MARGIN)
    high = np.ceil((shown.max(axis=0) - [left, bottom]) * scale + _MARGIN)
    low, high = (np.clip(corner, 0, [width, height]).astype(int) for corner in (low, high))
    return int(low[0]), int(low[1]), int(high[0] - low[0]), int(high[1] - low[1])


def _slopes(
    frustum: Frustum, window: tuple[int, int, int, int], width: int, height: int
) -> tuple[float, float, float, float]:
    """A window's edges in slopes."""
    left, bottom, right, top = frustum.slopes
    x, y = (right - left) / width, (top - bottom) / height
    return (
        left + x * window[0],
        bottom + y * window[1],
        left + x * (window[0] + window[2]),
        bottom + y * (window[1] + window[3]),
    )


def _memory(scene: mujoco.MjvScene) -> npt.NDArray[np.int32] | None:
    """(maxgeom, _WORDS) A scene's geoms where they lie; None where they do not lie as is known here.

    The Python package has a view of each geom's arrays, and of the integers none: the same since MuJoCo 3.0, and tried.
    """
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
    words = np.frombuffer(memory, np.int32).reshape(len(geoms), _WORDS)
    for number, name in enumerate(_INTEGERS):
        setattr(last, name, number + 1)
    for number, name in enumerate(_FLOATS):
        setattr(last, name, number + 0.5)
    integers = words[-1, : len(_INTEGERS)].tolist()
    floats = words.view(np.float32)[-1, list(_FLOATS.values())].tolist()
    as_known = integers == [*range(1, 1 + len(_INTEGERS))] and floats == [
        number + 0.5 for number in range(len(_FLOATS))
    ]
    return words if as_known else None


def _address(array: npt.NDArray[np.float32]) -> int:
    return int(array.__array_interface__["data"][0])
