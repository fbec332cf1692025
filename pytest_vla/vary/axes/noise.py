"""The dimension `noise`: what pictures suffer on their way to the policy, graded."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Edits, Params
from pytest_vla.vary.kind import AMOUNT, LEVELS, PICTURE, Draw, Kind
from pytest_vla.vary.space import NUMBER, SEED, Parameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIMENSION = "noise"

# Exact in every JSON reader.
_SEED_BITS = 48


@dataclass(frozen=True)
class _Grade:
    """A graded kind: what `effects.graded` calls it, and its magnitude, of a name, at each level; see `Kind.uneven`.

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
        from pytest_vla.vary.effects.graded import begin_noise

        return begin_noise(grade.effect, magnitude, seed)

    # Not every effect of no magnitude leaves a picture to the bit as it is.
    return Edits(pictures=(begin,) if magnitude != grade.none else ())


def _space(grade: _Grade, task: Task) -> tuple[Parameter, ...]:
    most = grade.magnitudes[-1]
    amount = Parameter(grade.name, NUMBER, min(most, grade.none), max(most, grade.none), grade.none)
    return (amount, Parameter("seed", SEED, 0, 2**_SEED_BITS - 1)) if grade.effect in _DRAWN else (amount,)


KINDS = (
    *(
        Kind(
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
