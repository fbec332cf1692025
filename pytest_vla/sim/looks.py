"""A task file's picture settings (CBDDL's ``:camera :image_settings :noise :random_color``) as changes of pictures.

They belong to the unvaried task: a variation's changes come after them. They follow VLA-Arena's code, except that
numbers which the code draws from its process's generator are drawn here by scene seed, camera and step.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla.errors import SceneError
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.scene import SceneSpec
from pytest_vla.scene.sections import CameraOffset, Noise
from pytest_vla.scene.variation import ModelEdit
from pytest_vla.sim.pixel_noise import Picture, frame_generator, gaussian_noise, salted

if TYPE_CHECKING:
    import mujoco

    from pytest_vla.sim.observations import PictureChange


# The light of a picture, adjusted after it was drawn, as VLA-Arena does it.

NEUTRAL_TEMPERATURE = 6500.0
TEMPERATURE_GAIN = 0.4


@dataclass(frozen=True)
class PictureLight:
    """An adjustment of a picture's light: brightness, contrast and saturation in [-1, 1], temperature in K."""

    brightness: float = 0.0
    contrast: float = 0.0
    saturation: float = 0.0
    temperature: float = NEUTRAL_TEMPERATURE


def adjusted(picture: "Picture", light: PictureLight) -> "Picture":
    """Adjust the light of a picture (H, W, 3).

    Pillow's brightness, contrast and colour come first, in this order; then the temperature. Warmer than 6500 K, with k
    = 0.4 |6500 - T| / 6500, red is multiplied by 1 + k and blue by 1 - k; colder, blue by 1 + k and red by 1 - k.
    Values are clipped to 0..255 and fractions dropped. An adjustment of zero, or 6500 K, is left out.
    """
    from PIL import Image, ImageEnhance

    image = Image.fromarray(picture)
    for enhance, amount in (
        (ImageEnhance.Brightness, light.brightness),
        (ImageEnhance.Contrast, light.contrast),
        (ImageEnhance.Color, light.saturation),
    ):
        if amount:
            image = enhance(image).enhance(1 + amount)
    pixels = np.array(image)
    if light.temperature != NEUTRAL_TEMPERATURE:
        warmth = (NEUTRAL_TEMPERATURE - light.temperature) / NEUTRAL_TEMPERATURE * TEMPERATURE_GAIN
        pixels[..., 0] = np.clip(pixels[..., 0] * (1 + warmth), 0, 255)
        pixels[..., 2] = np.clip(pixels[..., 2] * (1 - warmth), 0, 255)
    return pixels


# Drawn colours of a scene's geoms, as VLA-Arena draws them.

COLOURS = (0.2, 0.8)
"""The range in which each of a colour's three numbers is drawn."""

# MuJoCo's colour of a geom whose file sets none.
_NO_COLOUR = (0.5, 0.5, 0.5, 1.0)
_ROBOT = "robot0"


def colour_geoms(model: "mujoco.MjModel", seed: int) -> None:
    """Draw colours for all geoms that have a material other than the arm's and no colour of their own.

    A texture shows through in its geom's colour. Table, walls and floor are coloured too, as upstream; gripper and
    mount have no material in LIBERO's scenes, and keep their colours.
    """

    numbers = np.random.Generator(np.random.PCG64(seed))
    for geom in range(model.ngeom):
        material = int(model.geom_matid[geom])
        if material < 0 or _ROBOT in model.material(material).name:
            continue
        if np.allclose(model.geom_rgba[geom], _NO_COLOUR):
            model.geom_rgba[geom] = [*numbers.uniform(*COLOURS, 3), 1.0]


_SALT_PEPPER = "salt_pepper"


@dataclass(frozen=True)
class Looks:
    """The picture settings of a task's file."""

    cameras: tuple[ModelEdit, ...] = ()
    light: PictureLight | None = None
    noise: Noise | None = None
    has_random_colours: bool = False

    @property
    def are_drawn(self) -> bool:
        """Whether the pictures depend on the scene seed."""
        return self.has_random_colours or self.noise is not None

    def model(self, scene_seed: int) -> tuple[ModelEdit, ...]:
        """Return changes of the compiled scene's looks: colours drawn by the scene seed, and moved cameras."""
        if not self.has_random_colours:
            return self.cameras

        def colour(model: "mujoco.MjModel", scene: SceneSpec) -> None:
            colour_geoms(model, scene_seed)

        return (*self.cameras, ModelEdit(("geom_rgba",), colour))

    def pictures(self, scene_seed: int) -> "tuple[PictureChange, ...]":
        """Return changes of each picture: light, then noise drawn by scene seed, camera and step."""
        light, noise = self.light, self.noise
        changes: list[PictureChange] = []
        if light is not None:
            changes.append(lambda picture, camera, step: adjusted(picture, light))
        if noise is not None:

            def add(picture: Picture, camera: str, step: int) -> Picture:
                generator = frame_generator(scene_seed, camera, step)
                if noise.kind == _SALT_PEPPER:
                    return salted(picture, noise.parameters[0], generator)
                mean, variance = noise.parameters
                return gaussian_noise(picture, mean, variance, generator)

            changes.append(add)
        return tuple(changes)


def looks_of(problem: Problem, model: "mujoco.MjModel") -> Looks:
    """Return the picture settings of a problem's file.

    Raises:
        SceneError: the scene does not have a camera, or the camera moves with the robot and cannot be moved in
            the room (located).
    """
    return Looks(
        cameras=tuple(_moved(camera, model) for camera in problem.camera if _is_moved(problem, camera, model)),
        light=PictureLight(**dict(problem.image_settings)) if problem.image_settings else None,
        noise=problem.noise,
        has_random_colours=problem.random_color,
    )


def _is_moved(problem: Problem, camera: CameraOffset, model: "mujoco.MjModel") -> bool:
    import mujoco

    where = f"{problem.source}:{camera.line}:{camera.column}"
    identifier = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_CAMERA, camera.name)
    if identifier < 0:
        known = ", ".join(model.camera(number).name for number in range(model.ncam))
        raise SceneError(f"{where}: the scene has no camera {camera.name!r}; it has {known}")
    if not any(camera.offset):
        return False
    if model.cam_bodyid[identifier] != 0:
        raise SceneError(
            f"{where}: the camera {camera.name!r} moves with the robot, so it cannot be moved in the room; "
            "remove its three numbers"
        )
    return True


def _moved(camera: CameraOffset, model: "mujoco.MjModel") -> ModelEdit:
    identifier = model.camera(camera.name).id

    def move(model: "mujoco.MjModel", scene: SceneSpec) -> None:
        model.cam_pos[identifier] += camera.offset

    return ModelEdit(("cam_pos",), move)
