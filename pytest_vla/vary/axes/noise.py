"""The dimension `noise`: what pictures suffer on their way to the policy, graded."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Edits, Params
from pytest_vla.sim.pixel_noise import Floats, Picture, frame_generator, gaussian_noise
from pytest_vla.vary.effects.pictures import (
    fog,
    frosted_glass,
    gaussian_blur,
    jpeg,
    motion_blur,
    plasma,
    plasma_side,
    salt_and_pepper,
    zoom_blur,
)
from pytest_vla.vary.kind import AMOUNT, LEVELS, PICTURE, Draw, VariationKind
from pytest_vla.vary.space import NUMBER, SEED, Parameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


DIMENSION = "noise"

# Exact in every JSON reader.
_SEED_BITS = 48


@dataclass(frozen=True)
class _Grade:
    """A graded kind: what `effects.graded` calls it, and its magnitude, of a name, at each level; see
    `VariationKind.uneven`.

    `none`: the magnitude that changes nothing.
    """

    effect: str
    about: str
    source: str
    name: str
    magnitudes: tuple[float, float, float, float, float]
    grades: str
    uneven: tuple[str, ...] = ()
    none: float = 0.0


# Chosen so that pictures differ evenly more, on average, from level to level (measured by tests/support/levels.py).
_GRADES = (
    _Grade(
        "motion",
        "the camera moved while its shutter was open, each frame in a direction of its own",
        "LIBERO-Plus, centred",
        "pixels",
        (3, 7.5, 15, 25, 40),
        "a path of 3, 7.5, 15, 25, 40 pixels of 256",
        (AMOUNT,),
    ),
    _Grade(
        "gaussian_blur",
        "out of focus",
        "LIBERO-Plus's range",
        "sigma",
        (0.8, 1.8, 3.6, 6.2, 10),
        "sigma 0.8, 1.8, 3.6, 6.2, 10 pixels of 256",
        (AMOUNT,),
    ),
    _Grade(
        "zoom",
        "the lens zoomed in while its shutter was open",
        "LIBERO-Plus's range",
        "factor",
        (1.025, 1.09, 1.2, 1.35, 1.54),
        "up to 1.025, 1.09, 1.2, 1.35, 1.54 times",
        (AMOUNT,),
        none=1.0,
    ),
    _Grade(
        "fog",
        "fog that drifts",
        "LIBERO-Plus's range",
        "share",
        (0.16, 0.32, 0.48, 0.64, 0.8),
        "0.16 to 0.8 of the contrast gone",
    ),
    _Grade(
        "glass",
        "behind frosted glass, each frame scattered anew",
        "after LIBERO-Plus",
        "pixels",
        (0.4, 1.1, 2.2, 3.8, 6),
        "scattered by 0.4, 1.1, 2.2, 3.8, 6 pixels of 256",
        (AMOUNT,),
    ),
    _Grade(
        "gaussian",
        "normal noise on every value",
        "VLA-Arena's at level 5",
        "deviation",
        (0.06, 0.12, 0.18, 0.24, 0.3),
        "standard deviation 0.06 to 0.3 of white",
    ),
    _Grade(
        "salt_pepper",
        "values that are 0 or 255, each channel by itself",
        "VLA-Arena's at level 2",
        "share",
        (0.05, 0.1, 0.15, 0.2, 0.25),
        "0.05 to 0.25 of the values",
    ),
    _Grade(
        "compression",
        "JPEG",
        "ours",
        "quality",
        (80, 32, 14, 8, 6),
        "quality 80, 32, 14, 8, 6",
        (AMOUNT,),
        none=100.0,
    ),
    _Grade(
        "dropped",
        "frames that do not come: the policy gets the last one again",
        "ours",
        "probability",
        (0.15, 0.3, 0.45, 0.6, 0.75),
        "0.15 to 0.75 of the frames",
        (PICTURE,),
    ),
)

# What is drawn for each frame; the others do the same to all.
_DRAWN = frozenset(("motion", "fog", "glass", "gaussian", "salt_pepper", "dropped"))


def _sample(grade: _Grade, draw: Draw) -> Params:
    # The same for all levels, so that they differ in how much only.
    drawn = draw.shared(f"{DIMENSION}.{grade.effect}")
    seed = {"seed": drawn.getrandbits(_SEED_BITS)} if grade.effect in _DRAWN else {}
    return {grade.name: grade.magnitudes[draw.level - 1], **seed}


def _apply(grade: _Grade, task: Task, params: Params) -> Edits:
    magnitude, seed = params[grade.name], params["seed"] if grade.effect in _DRAWN else 0

    def begin() -> "Callable[[NDArray[np.uint8], str, int], NDArray[np.uint8]]":

        return begin_noise(grade.effect, magnitude, seed)

    # Not every effect of no magnitude leaves a picture to the bit as it is.
    return Edits(pictures=(begin,) if magnitude != grade.none else ())


def _space(grade: _Grade, task: Task) -> tuple[Parameter, ...]:
    most = grade.magnitudes[-1]
    amount = Parameter(grade.name, NUMBER, min(most, grade.none), max(most, grade.none), grade.none)
    return (amount, Parameter("seed", SEED, 0, 2**_SEED_BITS - 1)) if grade.effect in _DRAWN else (amount,)


KINDS = (
    *(
        VariationKind(
            f"{DIMENSION}.{grade.effect}",
            grade.about,
            grade.source,
            functools.partial(_sample, grade),
            functools.partial(_apply, grade),
            functools.partial(_space, grade),
            levels=LEVELS,
            grades=grade.grades,
            uneven=grade.uneven,
            anywhere=True,
        )
        for grade in _GRADES
    ),
)
"""The kinds of noise; they change the pictures of all cameras."""


# What graded noise does to the pictures of an episode, by what the kinds of `noise` call it.

Frames = Callable[[Picture, str, int], Picture]
"""What becomes of a picture of a camera after a control step."""

Begin = Callable[[float, int], Frames]
"""Begins an episode with noise of a magnitude and a seed."""

ROWS = 256
"""Of the picture that lengths in pixels are meant for; in another one they are larger or smaller with its rows."""

# Enough that at the greatest zoom no edge shows apart from the next.
_ZOOMS = 24
_FOG_DECAY = 1.6
# Fog is not dark where it is thin.
_THINNEST_FOG = 0.5


def begin_noise(effect: str, magnitude: float, seed: int) -> Frames:
    """Begins an episode.

    Args:
        effect: of `EFFECTS`.
        magnitude: how much, in the unit that `EFFECTS` has for it.
        seed: with a camera's name and the step it gives all that is drawn for a frame.
    """
    return EFFECTS[effect](magnitude, seed)


def _each(change: Callable[[Picture, float, np.random.Generator], Picture]) -> Begin:
    """A change that knows of no other frame."""

    def begin(magnitude: float, seed: int) -> Frames:
        return lambda picture, camera, step: change(picture, magnitude, frame_generator(seed, camera, step))

    return begin


def _motion(picture: Picture, length: float, generator: np.random.Generator) -> Picture:
    return motion_blur(picture, _scaled(length, picture), generator.uniform(0.0, 180.0))


def _gaussian_blur(picture: Picture, sigma: float, generator: np.random.Generator) -> Picture:
    return gaussian_blur(picture, _scaled(sigma, picture))


def _zoom(picture: Picture, largest: float, generator: np.random.Generator) -> Picture:
    return zoom_blur(picture, tuple(np.linspace(1.0, largest, _ZOOMS).tolist()))


def _glass(picture: Picture, spread: float, generator: np.random.Generator) -> Picture:
    return frosted_glass(picture, _scaled(spread, picture), generator)


def _gaussian(picture: Picture, deviation: float, generator: np.random.Generator) -> Picture:
    return gaussian_noise(picture, 0.0, deviation**2, generator)


def _salt_pepper(picture: Picture, share: float, generator: np.random.Generator) -> Picture:
    return salt_and_pepper(picture, share / 2.0, generator)


def _compression(picture: Picture, quality: float, generator: np.random.Generator) -> Picture:
    return jpeg(picture, int(quality))


def _begin_fog(share: float, seed: int) -> Frames:
    """Fog that drifts by a column a step: a camera's field is drawn once."""
    fields: dict[tuple[str, int], Floats] = {}

    def change(picture: Picture, camera: str, step: int) -> Picture:
        side = plasma_side(picture)
        if (camera, side) not in fields:
            drawn = plasma(side, _FOG_DECAY, frame_generator(seed, camera, 0))
            fields[camera, side] = np.float32(_THINNEST_FOG) + np.float32(1.0 - _THINNEST_FOG) * drawn
        return fog(picture, share / (1.0 - share), np.roll(fields[camera, side], step, axis=1))

    return change


def _begin_dropped(probability: float, seed: int) -> Frames:
    """Whether a frame is dropped hangs on its camera and step only; what is given then is what was read before it."""
    given: dict[str, tuple[int, Picture]] = {}

    def change(picture: Picture, camera: str, step: int) -> Picture:
        before = given.get(camera)
        dropped = frame_generator(seed, camera, step).random() < probability
        if before is not None and (dropped or before[0] == step):
            picture = before[1]
        given[camera] = (step, picture.copy())
        return picture.copy()

    return change


EFFECTS: Mapping[str, Begin] = {
    "motion": _each(_motion),
    "gaussian_blur": _each(_gaussian_blur),
    "zoom": _each(_zoom),
    "fog": _begin_fog,
    "glass": _each(_glass),
    "gaussian": _each(_gaussian),
    "salt_pepper": _each(_salt_pepper),
    "compression": _each(_compression),
    "dropped": _begin_dropped,
}
"""By name. Magnitudes: the path's length in pixels; sigma in pixels; the largest factor; fog's share of the light; the
spread in pixels; the standard deviation, of values in [0, 1]; a share of the values; libjpeg's quality; a probability.
"""


def _scaled(length: float, picture: Picture) -> float:
    rows: int = picture.shape[0]
    return length * rows / ROWS
