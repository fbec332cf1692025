"""A variation's changes of a MuJoCo model, LIBERO's or another, and how they are undone."""

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.scene.scene import SceneSpec
from pytest_vla.scene.variation import ModelEdit, model_array, part_number


class ModelChanges:
    """The changes of one model that are in force: the next reset finds the model as it was."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model = model
        # As compiled: an array that was changed once is kept, so that a thousand resets copy it once.
        self._arrays: dict[str, npt.NDArray[np.generic]] = {}
        self._textures: dict[int, npt.NDArray[np.uint8]] = {}
        self._changed: list[str] = []
        self._painted: list[int] = []
        self._edits: tuple[ModelEdit, ...] = ()

    def replace(self, edits: tuple[ModelEdit, ...], scene: SceneSpec) -> tuple[int, ...]:
        """Undo the changes in force, and make these changes.

        Returns:
            The textures whose pixels have changed, to be sent to the graphics side.
        """
        if edits is self._edits:
            return ()
        model, self._edits = self._model, edits
        repainted = set(self._painted)
        for name in self._changed:
            model_array(model, name)[:] = self._arrays[name]
        for texture in self._painted:
            _pixels(model, texture)[:] = self._textures[texture]
        self._changed, self._painted = [], []
        for edit in edits:
            for name in edit.arrays:
                if name not in self._arrays:
                    self._arrays[name] = model_array(model, name).copy()
                self._changed.append(name)
            for texture_name in edit.textures(model, scene) if edit.textures is not None else ():
                texture = part_number(model, "texture", texture_name)
                if texture not in self._textures:
                    self._textures[texture] = _pixels(model, texture).copy()
                self._painted.append(texture)
            edit.apply(model, scene)
        return tuple(sorted(repainted | set(self._painted)))


def _pixels(model: mujoco.MjModel, texture: int) -> npt.NDArray[np.uint8]:
    """Return a texture's part of ``tex_data``."""
    size = model.tex_height[texture] * model.tex_width[texture] * model.tex_nchannel[texture]
    start = model.tex_adr[texture]
    pixels: npt.NDArray[np.uint8] = model.tex_data[start : start + size]
    return pixels
