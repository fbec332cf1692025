"""The dimension `noise`: graded disturbances of the camera pictures that reach the policy."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Edits, Params
from pytest_vla.vary.kind import AMOUNT, LEVELS, PICTURE, Draw, VariationKind
from pytest_vla.vary.space import NUMBER, SEED, Parameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


DIMENSION = "noise"

MODULES = ("cv2", "numba")
"""Imported by `pytest_vla.vary.effects.pictures`."""

# Exact in every JSON reader.
_SEED_BITS = 48


@dataclass(frozen=True)
class _Grade:
    """A graded kind of noise: an effect in `pytest_vla.vary.effects.pictures.EFFECTS`, with a magnitude per level.

    `none` is the magnitude that changes nothing; for `uneven` see `VariationKind.uneven`.
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
        "motion blur, in a random direction for each frame",
        "LIBERO-Plus, centred",
        "pixels",
        (3, 7.5, 15, 25, 40),
        "path 3, 7.5, 15, 25, 40 pixels of 256",
        (AMOUNT,),
    ),
    _Grade(
        "gaussian_blur",
        "Gaussian blur, as out of focus",
        "LIBERO-Plus's range",
        "sigma",
        (0.8, 1.8, 3.6, 6.2, 10),
        "sigma 0.8, 1.8, 3.6, 6.2, 10 pixels of 256",
        (AMOUNT,),
    ),
    _Grade(
        "zoom",
        "zoom blur",
        "LIBERO-Plus's range",
        "factor",
        (1.025, 1.09, 1.2, 1.35, 1.54),
        "zoom up to 1.025, 1.09, 1.2, 1.35, 1.54",
        (AMOUNT,),
        none=1.0,
    ),
    _Grade(
        "fog",
        "drifting fog",
        "LIBERO-Plus's range",
        "share",
        (0.16, 0.32, 0.48, 0.64, 0.8),
        "0.16 to 0.8 of the contrast removed",
    ),
    _Grade(
        "glass",
        "frosted glass, drawn anew for each frame",
        "after LIBERO-Plus",
        "pixels",
        (0.4, 1.1, 2.2, 3.8, 6),
        "scatter 0.4, 1.1, 2.2, 3.8, 6 pixels of 256",
        (AMOUNT,),
    ),
    _Grade(
        "gaussian",
        "Gaussian noise on every value",
        "level 5 is VLA-Arena's",
        "deviation",
        (0.06, 0.12, 0.18, 0.24, 0.3),
        "standard deviation 0.06 to 0.3 of white",
    ),
    _Grade(
        "salt_pepper",
        "salt-and-pepper noise, each channel independently",
        "level 2 is VLA-Arena's",
        "share",
        (0.05, 0.1, 0.15, 0.2, 0.25),
        "0.05 to 0.25 of the values",
    ),
    _Grade(
        "compression",
        "JPEG compression",
        "ours",
        "quality",
        (80, 32, 14, 8, 6),
        "quality 80, 32, 14, 8, 6",
        (AMOUNT,),
        none=100.0,
    ),
    _Grade(
        "dropped",
        "dropped frames: the policy gets the last frame again",
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
        from pytest_vla.vary.effects.pictures import begin_noise

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
            needs=(),
            modules=MODULES,
        )
        for grade in _GRADES
    ),
)
"""The kinds of noise; they change the pictures of all cameras."""
