"""Paints parts of a compiled scene anew: their textures' pixels, or their colours where they have no texture."""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pytest_vla.scene.variation import ModelEdit

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.scene import SceneSpec

    Pixels = NDArray[np.uint8]


MODULES = ("cv2",)
"""What painting imports beside numpy."""

Repaint = Callable[["Pixels", int], "Pixels"]
"""New pixels (H, W, 3), RGB, for a picture's own, and how often a picture repeats along its sides to cover a metre."""

Part = tuple[Callable[["mujoco.MjModel", "SceneSpec"], tuple[int, ...]], Repaint]
"""The visual geoms of what is painted, and how."""


def painting(parts: Sequence[Part], share: float) -> ModelEdit:
    """Return the edit that blends new textures into parts by `share`; parts without a texture change colour."""

    def names(model: "mujoco.MjModel", scene: "SceneSpec") -> tuple[str, ...]:
        found = (textures_of(model, geoms_of(model, scene)) for geoms_of, _ in parts)
        return tuple(dict.fromkeys(model.texture(texture).name or f"#{texture}" for each in found for texture in each))

    def apply(model: "mujoco.MjModel", scene: "SceneSpec") -> None:
        for geoms_of, repaint in parts:
            geoms = geoms_of(model, scene)
            for texture in textures_of(model, geoms):
                _paint(model, texture, _tiling(model, geoms, texture), repaint, share)
            _colour(model, geoms, repaint, share)

    return ModelEdit(("mat_rgba", "geom_rgba"), apply, names)


def covering(pixels_of: Callable[[int, int], "Pixels"]) -> Repaint:
    """Another picture in the place of the own one, of which `pixels_of` gives (height, width, 3)."""

    def repaint(own: "Pixels", tiling: int) -> "Pixels":
        import numpy as np

        height, width = own.shape[:2]
        other = pixels_of(-(-height // tiling), -(-width // tiling))
        return other if tiling == 1 else np.ascontiguousarray(np.tile(other, (tiling, tiling, 1))[:height, :width])

    return repaint


def textures_of(model: "mujoco.MjModel", geoms: tuple[int, ...]) -> tuple[int, ...]:
    """Return the colour textures of geoms, in order."""
    materials = sorted({int(model.geom_matid[geom]) for geom in geoms} - {-1})
    return tuple(sorted({int(model.mat_texid[material][_COLOUR_ROLE]) for material in materials} - {-1}))


_COLOUR_ROLE = 1  # mujoco.mjtTextureRole.mjTEXROLE_RGB
_CUBE = 1  # mujoco.mjtTexture.mjTEXTURE_CUBE


def _tiling(model: "mujoco.MjModel", geoms: tuple[int, ...], texture: int) -> int:
    """Compute how often to repeat a picture along a texture's sides so that it covers about a metre of the geoms.

    LIBERO's desk shows an eighth of its texture per metre, and its round table a third.
    """
    import numpy as np

    surface, covered = 0.0, 0.0
    for geom in geoms:
        mesh, material = int(model.geom_dataid[geom]), int(model.geom_matid[geom])
        is_shown = material >= 0 and model.mat_texid[material][_COLOUR_ROLE] == texture
        if mesh < 0 or model.mesh_texcoordadr[mesh] < 0 or not is_shown or model.mat_texuniform[material]:
            continue
        faces = slice(model.mesh_faceadr[mesh], model.mesh_faceadr[mesh] + model.mesh_facenum[mesh])
        corners = model.mesh_vert[model.mesh_vertadr[mesh] + model.mesh_face[faces]]
        surface += float(np.linalg.norm(np.cross(*_sides(corners)), axis=1).sum())
        places = model.mesh_texcoord[model.mesh_texcoordadr[mesh] + model.mesh_facetexcoord[faces]]
        first, second = _sides(places * model.mat_texrepeat[material])
        covered += float(np.abs(first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]).sum())
    return 1 if covered == 0 else min(max(round(math.sqrt(surface / covered)), 1), _MOST_TILING)


_MOST_TILING = 16


def _sides(corners: Any) -> tuple[Any, Any]:
    """Two sides of each triangle (n, 3, ...)."""
    return corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]


def _paint(model: "mujoco.MjModel", texture: int, tiling: int, repaint: Repaint, share: float) -> None:
    """Blends a texture's pixels with others; of a cube, each of its faces."""
    import cv2
    import numpy as np

    height, width = int(model.tex_height[texture]), int(model.tex_width[texture])
    channels, start = int(model.tex_nchannel[texture]), int(model.tex_adr[texture])
    pixels = model.tex_data[start : start + height * width * channels].reshape(height, width, channels)
    faces = 6 if model.tex_type[texture] == _CUBE and height == 6 * width else 1
    high = height // faces
    colours = min(channels, 3)
    for face in range(faces):
        part = pixels[face * high : (face + 1) * high]
        own = np.ascontiguousarray(part[..., :colours])
        other = repaint(np.repeat(own[..., :1], 3, axis=2) if channels < 3 else own, tiling)
        if channels < 3:
            other = np.asarray(cv2.cvtColor(other, cv2.COLOR_RGB2GRAY), dtype=np.uint8)[..., None]
        part[..., :colours] = cv2.addWeighted(own, 1 - share, other, share, 0).reshape(own.shape)


def _colour(model: "mujoco.MjModel", geoms: tuple[int, ...], repaint: Repaint, share: float) -> None:
    """Blends the colours of those geoms whose material has no texture, or that have no material."""
    import numpy as np

    bare = [geom for geom in geoms if model.geom_matid[geom] < 0]
    materials = {int(model.geom_matid[geom]) for geom in geoms} - {-1}
    plain = [material for material in sorted(materials) if model.mat_texid[material][_COLOUR_ROLE] < 0]
    for array, indices in ((model.geom_rgba, bare), (model.mat_rgba, plain)):
        for index in indices:
            own = np.rint(255 * array[index, :3]).astype(np.uint8).reshape(1, 1, 3)
            array[index, :3] += share * (repaint(own, 1)[0, 0] / 255 - array[index, :3])
