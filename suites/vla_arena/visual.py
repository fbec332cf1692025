"""VLA-Arena's visual levels V1 to V4: light, then colours as well, then the camera's place, then noise.

As its code has them (envs/bddl_base_domain.py of its first release): light is of the picture, not of the scene. All is
drawn for each episode, of which each level adds to the one before; ``arena.visual_upstream`` draws light and camera
once for a task, as its environments do when they are made.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Edits, ModelEdit, Params
from pytest_vla.sim.looks import COLOURS, NEUTRAL_TEMPERATURE, PictureLight, adjusted, colour_geoms
from pytest_vla.vary.kind import Draw, Kind
from pytest_vla.vary.space import NUMBER, SEED, Parameter

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.scene import Scene

    Picture = NDArray[np.uint8]

DIMENSION = "arena"
LEVELS = (1, 2, 3, 4)
LIGHT, COLOUR, CAMERA, NOISE = LEVELS

MOST_ADJUSTED = 0.75
TEMPERATURES = (3500.0, 8500.0)
MOST_OFFSET = 0.105
VARIANCE = 0.085
PROSE_VARIANCE = 0.05
_SEEDS = 2**31


def draw_visual(name: str, variance: float, once: bool, draw: Draw) -> Params:
    """A visual level; `once`: light and camera are those of the task, whatever the case's seed."""
    # The same for all levels: each adds to the one before.
    each = draw.shared(f"{DIMENSION}.{name}")
    fixed = (replace(draw, seed=0) if once else draw).shared(f"{DIMENSION}.{name}.environment")

    def within(most: float, digits: int) -> float:
        return round(fixed.uniform(-most, most), digits)

    brightness, contrast, saturation = (within(MOST_ADJUSTED, 4) for _ in range(3))
    params: dict[str, Any] = {
        "brightness": brightness,
        "contrast": contrast,
        "saturation": saturation,
        "temperature_k": round(fixed.uniform(*TEMPERATURES), 1),
    }
    offset = [within(MOST_OFFSET, 5) for _ in range(3)]
    colour_seed, noise_seed = each.randrange(_SEEDS), each.randrange(_SEEDS)
    if draw.level >= COLOUR:
        params["colour_seed"] = colour_seed
    if draw.level >= CAMERA:
        params["camera_offset_m"] = offset
    if draw.level >= NOISE:
        params |= {"noise_mean": 0.0, "noise_variance": variance, "noise_seed": noise_seed}
    return params


def visual(task: Task, params: Params) -> Edits:
    """Another light in the pictures, and what else there is of drawn colours, a moved camera, and noise."""
    light = PictureLight(*(params[name] for name in ("brightness", "contrast", "saturation", "temperature_k")))
    edits = []
    if "colour_seed" in params:
        colour_seed = params["colour_seed"]
        edits.append(ModelEdit(("geom_rgba",), lambda model, scene: colour_geoms(model, colour_seed)))
    if "camera_offset_m" in params:
        edits.append(ModelEdit(("cam_pos",), _moving(task.protocol.cameras[0], params["camera_offset_m"])))
    variance = params.get("noise_variance", 0.0)

    def begin() -> Callable[["Picture", str, int], "Picture"]:
        from pytest_vla.sim.pixels import frame_generator, gaussian_noise

        def change(picture: "Picture", camera: str, step: int) -> "Picture":
            lit = adjusted(picture, light)
            if not variance:
                return lit
            mean, seed = params.get("noise_mean", 0.0), params.get("noise_seed", 0)
            return gaussian_noise(lit, mean, variance, frame_generator(seed, camera, step))

        return change

    return Edits(model=tuple(edits), pictures=(begin,))


def space_of_visual(variance: float, task: Task) -> tuple[Parameter, ...]:
    """The light of each picture; colours, camera and noise where there are."""
    adjustments = (
        Parameter(name, NUMBER, -MOST_ADJUSTED, MOST_ADJUSTED, 0.0) for name in ("brightness", "contrast", "saturation")
    )
    return (
        *adjustments,
        Parameter("temperature_k", NUMBER, *TEMPERATURES, NEUTRAL_TEMPERATURE, unit="K"),
        Parameter("colour_seed", SEED, 0, _SEEDS - 1, optional=True),
        Parameter("camera_offset_m", NUMBER, -MOST_OFFSET, MOST_OFFSET, 0.0, (3,), optional=True, unit="m"),
        Parameter("noise_mean", NUMBER, 0.0, 0.0, 0.0, optional=True),
        Parameter("noise_variance", NUMBER, 0.0, variance, 0.0, optional=True),
        Parameter("noise_seed", SEED, 0, _SEEDS - 1, optional=True),
    )


def _moving(camera: str, offset: list[float]) -> Callable[["mujoco.MjModel", "Scene"], None]:
    def apply(model: "mujoco.MjModel", scene: "Scene") -> None:
        model.cam_pos[model.camera(camera).id] += offset

    return apply


_SOURCE = "VLA-Arena, V1-V4"
_GRADES = (
    f"light (each +-{MOST_ADJUSTED:g}, {TEMPERATURES[0]:g} to {TEMPERATURES[1]:g} K), "
    f"with colours ({COLOURS[0]:g} to {COLOURS[1]:g}), with the camera (+-{MOST_OFFSET:g} m), with noise"
)


def _kind(name: str, about: str, variance: float = VARIANCE, once: bool = False) -> Kind:
    return Kind(
        f"{DIMENSION}.{name}",
        about,
        _SOURCE,
        partial(draw_visual, name, variance, once),
        visual,
        partial(space_of_visual, variance),
        LEVELS,
        f"{_GRADES} (variance {variance:g})",
        published=True,
    )


KINDS = (
    _kind("visual", "light, colours, camera and noise one upon the other, drawn for each episode"),
    _kind("visual_prose", "the same with the noise that the paper's text names, not its table", PROSE_VARIANCE),
    _kind("visual_upstream", "the same with light and camera drawn once for a task, as its code does", once=True),
)
