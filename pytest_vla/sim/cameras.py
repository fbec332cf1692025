"""Pictures of a model by offscreen OpenGL, pixel for pixel robosuite's. Made once per world, freed with it."""

from collections.abc import Collection, Iterable

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.sim.culling import SECOND_PASS, SceneGeoms, view_of
from pytest_vla.sim.gl import is_software, make_gl_context

Picture = npt.NDArray[np.uint8]

_MAX_GEOMS = 1000
# Of a scene that has none of its own, where a variation lets its lights cast shadows: of 2048, a picture takes a third
# longer, and is seen to be the same at 256x256.
_SHADOW_SIZE = 1024


class Cameras:
    """An OpenGL context with a model's meshes and textures, and the scene that is drawn from it.

    Attributes:
        renderer: the driver's name for what draws, such as ``llvmpipe (LLVM 15.0.6, 256 bits)``.
        shadows: whether shadows can be drawn.
        draws_all: whether what cannot be seen is drawn too, as robosuite does: pictures are the same, and take longer.
    """

    def __init__(self, model: mujoco.MjModel, height: int, width: int) -> None:
        self._model = model
        self._viewport = mujoco.MjrRect(0, 0, width, height)
        self._gl = make_gl_context(width, height)
        self._gl.make_current()
        self.renderer = _renderer()
        self.shadows = bool(model.light_castshadow.any())
        self._context = _context(model, height, width)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._scene = mujoco.MjvScene(model, maxgeom=_MAX_GEOMS)
        self._geoms = SceneGeoms(model, self._scene)
        self.draws_all = not self._geoms.usable
        # In software, pictures take as long as their triangles are many; on a graphics card a second pass takes longer
        # than it saves.
        self._second_pass = SECOND_PASS if is_software(self.renderer) else np.inf
        self._option = mujoco.MjvOption()
        # robosuite's choice: visual geoms, no collision geoms.
        self._option.geomgroup[0] = 0
        self._option.geomgroup[1] = 1
        self._camera = mujoco.MjvCamera()
        self._camera.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._perturbation = mujoco.MjvPerturb()

    def picture(self, data: mujoco.MjData, camera: str) -> Picture:
        """Render the picture of a camera.

        Args:
            data: poses after mj_kinematics and mj_camlight.
            camera: its name.

        Returns:
            (H, W, 3) uint8, upright: raw OpenGL flipped vertically.
        """
        self._look(data, camera)
        return np.ascontiguousarray(self._drawn(lit=True)[::-1])

    def segmentation(
        self, data: mujoco.MjData, camera: str, only: Collection[int] | None = None, widened: float = 1.0
    ) -> npt.NDArray[np.int32]:
        """Render the id of the body that each pixel of a camera's picture shows.

        Args:
            data: poses after mj_kinematics and mj_camlight.
            camera: its name.
            only: ids of the bodies to draw, as if there were no other body, or None for all.
            widened: factor by which the view's height and width exceed the camera's picture, about its middle.

        Returns:
            (H, W) int32, upright: body ids, -1 for a pixel without a body.
        """
        # Sites are markers, hidden in pictures by an alpha value; segmentation ids have no alpha.
        sites = self._option.sitegroup.copy()
        self._option.sitegroup[:] = 0
        self._look(data, camera)
        self._option.sitegroup[:] = sites
        scene, flags = self._scene, self._scene.flags
        drawn = np.full(scene.ngeom + 1, -1, dtype=np.int32)
        for geom in scene.geoms[: scene.ngeom]:
            if geom.objtype != mujoco.mjtObj.mjOBJ_GEOM or geom.segid < 0:
                continue
            body = int(self._model.geom_bodyid[geom.objid])
            if only is None or body in only:
                drawn[geom.segid + 1] = body
            else:
                # A geom without an id is not drawn.
                geom.segid = -1
        for eye in scene.camera:
            eye.frustum_bottom *= widened
            eye.frustum_top *= widened
        flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = 1
        bodies = self._bodies()
        raw = self._drawn(lit=False)
        flags[mujoco.mjtRndFlag.mjRND_SEGMENT] = flags[mujoco.mjtRndFlag.mjRND_IDCOLOR] = 0
        pixels = raw[::-1].astype(np.int32) @ np.array([1, 256, 65536], dtype=np.int32)
        return np.asarray(bodies[pixels])

    def _look(self, data: mujoco.MjData, camera: str) -> None:
        """Update the scene to draw to the view of a camera."""
        self._camera.fixedcamid = self._model.camera(camera).id
        mujoco.mjv_updateScene(
            self._model,
            data,
            self._option,
            self._perturbation,
            self._camera,
            mujoco.mjtCatBit.mjCAT_ALL.value,
            self._scene,
        )

    def _drawn(self, lit: bool) -> Picture:
        """Return the scene's pixels (H, W, 3) uint8, in OpenGL's order: the lowest row first.

        Args:
            lit: draw colours; if False, draw segmentation ids.
        """
        raw = np.empty((self._viewport.height, self._viewport.width, 3), dtype=np.uint8)
        if self.draws_all:
            self._render(True)
            mujoco.mjr_readPixels(raw, None, self._viewport, self._context)
            return raw
        size = self._viewport.width, self._viewport.height
        view = view_of(self._scene, self._geoms, *size, reflections=lit, shadows=lit and self.shadows)
        for one in view.passes(self._second_pass):
            self._geoms.keep(view.geoms.rows[one.geoms])
            self._render(one.reflects)
            left, bottom, width, height = one.window
            pixels = np.empty((height, width, 3), dtype=np.uint8)
            mujoco.mjr_readPixels(pixels, None, mujoco.MjrRect(*one.window), self._context)
            raw[bottom : bottom + height, left : left + width][one.taken] = pixels[one.taken]
        return raw

    def _render(self, reflects: bool) -> None:
        self._gl.make_current()
        self._scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = reflects
        mujoco.mjr_render(self._viewport, self._scene, self._context)

    def _bodies(self) -> npt.NDArray[np.int32]:
        """Return the body of each segmentation id, from -1 (nothing) up."""
        geoms = self._scene.geoms[: self._scene.ngeom]
        found = np.full(len(geoms) + 1, -1, dtype=np.int32)
        for geom in geoms:
            if geom.objtype == mujoco.mjtObj.mjOBJ_GEOM and geom.segid >= 0:
                found[geom.segid + 1] = self._model.geom_bodyid[geom.objid]
        return found

    def upload(self, textures: Iterable[int]) -> None:
        """Send the present pixels of these textures to the graphics side."""
        self._gl.make_current()
        for texture in textures:
            mujoco.mjr_uploadTexture(self._model, self._context, texture)

    def close(self) -> None:
        """Free the model's copy on the graphics side."""
        self._gl.make_current()
        self._context.free()
        self._gl.free()


def ignore_colour_spaces(model: mujoco.MjModel) -> None:
    """Mark all textures as linear, whatever colour space their files declare, as MuJoCo before 3.3.3 drew them.

    Textures that declare sRGB would be darkened. `model` is changed in place; call this before its textures are drawn
    for the first time.
    """
    # Older versions have no such array, and always draw linear.
    if hasattr(model, "tex_colorspace"):
        model.tex_colorspace[:] = mujoco.mjtColorSpace.mjCOLORSPACE_LINEAR


def _renderer() -> str:
    from OpenGL import GL

    name = GL.glGetString(GL.GL_RENDERER)
    return name.decode() if isinstance(name, bytes) else str(name)


def _context(model: mujoco.MjModel, height: int, width: int) -> mujoco.MjrContext:
    """Make a rendering context no larger than its pictures.

    It has a shadow map (64 MB) only if a light casts a shadow. The model's own settings are restored: they are part of
    the comparison with upstream.
    """
    quality, size = model.vis.quality, model.vis.global_
    before = quality.shadowsize, size.offheight, size.offwidth
    size.offheight, size.offwidth = height, width
    quality.shadowsize = (quality.shadowsize or _SHADOW_SIZE) if model.light_castshadow.any() else 0
    try:
        return mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_150.value)
    finally:
        quality.shadowsize, size.offheight, size.offwidth = before
