"""The geoms of an MjvScene as arrays, where they lie in memory: the Python package has an object of each, and no array.

An mjvGeom is 59 words of four bytes: eight integers, then floats, a label, and what the renderer sets itself.
"""

import ctypes
import dataclasses

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.sim.frustum import Array, Boxes, Mask

_INTEGERS = ("type", "dataid", "objtype", "objid", "category", "matid", "texcoord", "segid")
_ARRAYS = {"size": slice(8, 11), "pos": slice(11, 14), "mat": slice(14, 23), "rgba": slice(23, 27)}
_FLOATS = {"emission": 27, "specular": 28, "shininess": 29, "reflectance": 30}
_WORDS = 59

PLANE, SPHERE, CAPSULE, BOX, MESH, SDF = (
    int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}")) for name in ("PLANE", "SPHERE", "CAPSULE", "BOX", "MESH", "SDF")
)
OPAQUE = np.float32(0.995)
"""The renderer's: of what has no less alpha nothing shines through."""

_COLOURS = 3
_TRIANGLES = 400
"""About what a sphere or a cylinder is drawn of."""

Words = npt.NDArray[np.int32]


@dataclasses.dataclass(frozen=True)
class Geoms:
    """A scene's geoms, in the order in which they are drawn.

    Attributes:
        rows: (n, 59): their memory, copied.
        boxes: a box around each.
        bounded: (n,): which have one; others may be anywhere.
        triangles: (n,): of how many each is drawn, about.
        solid: (n,): which hide all that is behind them, as nothing of them is transparent.
    """

    rows: Words
    boxes: Boxes
    bounded: Mask
    triangles: Array
    solid: Mask

    def __len__(self) -> int:
        return len(self.rows)

    def integer(self, name: str) -> Words:
        """(n,): an mjvGeom's integer of that name."""
        return self.rows[:, _INTEGERS.index(name)]

    def number(self, name: str) -> npt.NDArray[np.float32]:
        """(n,): an mjvGeom's float of that name; writing to it changes the copy."""
        return self.rows.view(np.float32)[:, _FLOATS[name]]

    def array(self, name: str) -> Array:
        """(n, k): an mjvGeom's array of that name."""
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
        # Of meshes as they are on the graphics side, where they stay what they are now.
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
        """The geoms of the scene, which was updated."""
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
        return Geoms(rows, Boxes(centers, axes, halves), bounded, triangles, solid)

    def keep(self, rows: Words) -> None:
        """Puts geoms into the scene instead of its own, until it is updated; no more than it had."""
        self._words[: len(rows)] = rows
        self._scene.ngeom = len(rows)


def _memory(scene: mujoco.MjvScene) -> Words | None:
    """(maxgeom, 59): a scene's geoms where they lie; None where they do not lie as is known here, which is tried."""
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
