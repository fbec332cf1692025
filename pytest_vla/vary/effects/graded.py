"""What graded noise does to the pictures of an episode, by what the kinds of `noise` call it."""

from collections.abc import Callable, Mapping

import numpy as np

from pytest_vla.sim.pixels import Floats, Picture, frame_generator, gaussian_noise
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
