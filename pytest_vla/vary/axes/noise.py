"""The dimension `noise`: what pictures suffer on their way to the policy, graded, and LIBERO-Plus's fifty."""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.scene.variation import PictureEdit, Variation
from pytest_vla.vary.kind import AMOUNT, LEVELS, PICTURE, Draw, Kind

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIMENSION = "noise"

PLUS_NAMES = ("motion", "gaussian", "zoom", "fog", "glass")
"""LIBERO-Plus's kinds of noise, in the order of its numbers."""

PLUS_SEVERITIES = tuple(range(1, 11))

PLUS_CAMERAS = ("agentview",)
"""Whose pictures LIBERO-Plus changes."""

WRIST_CAMERAS = (*PLUS_CAMERAS, "robot0_eye_in_hand")


# Exact in every JSON reader.
_SEED_BITS = 48


@dataclass(frozen=True)
class _Grade:
    """A graded kind: what `noise_graded` calls it, and its magnitude, of a name, at each level; see `Kind.uneven`."""

    effect: str
    about: str
    source: str
    name: str
    magnitudes: tuple[float, float, float, float, float]
    grades: str
    uneven: tuple[str, ...] = ()


# Chosen so that pictures differ evenly more, on average, from level to level (benchmarks/levels.py).
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


def plus_noise(number: int, seed: int, cameras: Sequence[str] = PLUS_CAMERAS) -> PictureEdit:
    """LIBERO-Plus's noise of a number, as ``noise_NUMBER`` in its tasks' names; see `noise_published` for what differs.

    Args:
        number: 1 to 50: ten severities of each of `PLUS_NAMES`.
        seed: with a camera's name and the step it gives all that is drawn for a frame.
        cameras: whose pictures are changed.

    Raises:
        VlaError: there is no such number.
    """
    name, severity = plus_parts(number)
    chosen = frozenset(cameras)

    def begin() -> "Callable[[NDArray[np.uint8], str, int], NDArray[np.uint8]]":
        from pytest_vla.suites.libero_plus.noise import plus_picture
        from pytest_vla.vary.effects.pictures import frame_generator

        def change(picture: "NDArray[np.uint8]", camera: str, step: int) -> "NDArray[np.uint8]":
            if camera not in chosen:
                return picture
            # LIBERO-Plus changes pictures as OpenGL has them, the lowest row first.
            noisy = plus_picture(picture[::-1], name, severity, frame_generator(seed, camera, step))
            return noisy[::-1].copy()

        return change

    return begin


def plus_parts(number: int) -> tuple[str, int]:
    """The kind and the severity of a number of LIBERO-Plus's. Raises VlaError where there is no such number."""
    count = len(PLUS_NAMES) * len(PLUS_SEVERITIES)
    if not 1 <= number <= count:
        raise VlaError(f"LIBERO-Plus's noise has numbers 1 to {count}, and not {number}")
    kind, severity = divmod(number - 1, len(PLUS_SEVERITIES))
    return PLUS_NAMES[kind], PLUS_SEVERITIES[severity]


def _make(grade: _Grade, draw: Draw) -> Variation:
    magnitude = grade.magnitudes[draw.level - 1]
    # The same for all levels, so that they differ in how much only.
    drawn = draw.shared(f"{DIMENSION}.{grade.effect}")
    seed = drawn.getrandbits(_SEED_BITS) if grade.effect in _DRAWN else 0

    def begin() -> "Callable[[NDArray[np.uint8], str, int], NDArray[np.uint8]]":
        from pytest_vla.vary.effects.graded import begin_noise

        return begin_noise(grade.effect, magnitude, seed)

    parameters = {grade.name: magnitude} | ({"seed": seed} if grade.effect in _DRAWN else {})
    return Variation(draw.label, DIMENSION, grade.effect, draw.level, parameters, pictures=(begin,))


def _make_plus(kind: str, cameras: Sequence[str], draw: Draw) -> Variation:
    seen = [camera for camera in cameras if camera in draw.task.protocol.cameras]
    if not seen:
        raise VlaError(
            f"it changes pictures of {' and '.join(cameras)}, and {draw.task.suite} has "
            f"{', '.join(draw.task.protocol.cameras)}"
        )
    number = _plus_labels().index(draw.part) + 1
    name, severity = plus_parts(number)
    seed = draw.generator().getrandbits(_SEED_BITS)
    parameters = {"number": number, "noise": name, "severity": severity, "cameras": seen, "seed": seed}
    edit = plus_noise(number, seed, seen)
    return Variation(draw.label, DIMENSION, kind, None, parameters, pictures=(edit,))


def _plus_labels() -> tuple[str, ...]:
    return tuple(f"{name}-{severity}" for name in PLUS_NAMES for severity in PLUS_SEVERITIES)


def _plus_kind(kind: str, about: str, cameras: Sequence[str]) -> Kind:
    make = functools.partial(_make_plus, kind, cameras)
    return Kind(f"{DIMENSION}.{kind}", about, "LIBERO-Plus", make, parts=_plus_labels, published=True)


KINDS = (
    *(
        Kind(
            f"{DIMENSION}.{grade.effect}",
            grade.about,
            grade.source,
            functools.partial(_make, grade),
            levels=LEVELS,
            grades=grade.grades,
            uneven=grade.uneven,
        )
        for grade in _GRADES
    ),
    _plus_kind("plus", "LIBERO-Plus's five kinds at ten severities, of agentview", PLUS_CAMERAS),
    _plus_kind("plus_wrist", "as noise.plus, of the wrist's camera too", WRIST_CAMERAS),
)
"""The kinds of noise; ours change the pictures of all cameras."""
