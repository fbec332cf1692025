"""LIBERO-Plus's kinds of variation that any task may have: its fifty noises, and its rewritten instructions."""

import functools
import hashlib
import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import Task
from pytest_vla.scene.problem import parse_problem
from pytest_vla.scene.variation import INSTRUCTION, Edits, Params, PictureEdit
from pytest_vla.suites.libero_plus.listing import entries_of, find_checkout, section_of
from pytest_vla.suites.libero_plus.names import PLUS_NAMES, PLUS_SEVERITIES, SUITES, plus_parts
from pytest_vla.suites.libero_pro.tables import as_bddl
from pytest_vla.vary.axes.language import space_of_text, told
from pytest_vla.vary.axes.noise import MODULES
from pytest_vla.vary.kind import Draw, VariationKind
from pytest_vla.vary.space import LISTED, SEED, Parameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.sim.pixel_noise import Picture


# LIBERO-Plus's rewritten instructions as variations of LIBERO's tasks, from the BDDL files of the user's checkout.

# What a language model said before its list: it stands in two of upstream's files in place of a rewrite.
_PREAMBLE = re.compile(r"\bhere (are|is)\b.*\b(variation|rewrite|version|paraphrase)s?\b|\bthe given instruction\b")


def draw_rewrite(draw: Draw) -> Params:
    """Draw a rewrite of a task from LIBERO-Plus's list.

    A text that is no instruction, or is the task's own, is replaced by the next one drawn, which the parameters record.

    Raises:
        VlaError: the checkout is missing or incomplete, or has no usable rewrite of this task.
    """
    task, label = draw.task, draw.label
    given = find_checkout(task.data)
    listed = {entry.language: entry for entry in entries_of(given, task) if entry.language is not None}
    passed_over: list[int] = []
    for index in draw.generator().sample(sorted(listed), len(listed)):
        bddl, name = given.bddl(listed[index]), f"{listed[index].file}.bddl"
        if bddl is None:
            raise VlaError(f"{label}: {given.file} lists {name}, which is missing. Use a complete checkout")
        text, digest = read_rewrite(bddl)
        if text == task.language or is_preamble(text):
            passed_over.append(index)
            continue
        difficulty = listed[index].difficulty
        return {
            "file": name,
            "digest": digest,
            "index": index,
            **({} if difficulty is None else {"difficulty": difficulty}),
            **({"passed_over": ", ".join(map(str, passed_over))} if passed_over else {}),
            "original": task.language,
            INSTRUCTION: text,
        }
    if passed_over:
        raise VlaError(
            f"{label}: all rewrites of {task.files}/{task.name} in {given.file} are unusable (no instruction, or the "
            f"task's own): {', '.join(map(str, passed_over))}"
        )
    why = "a checkout's list has some" if task.files in SUITES else f"it has rewrites only for {', '.join(SUITES)}"
    raise VlaError(f"{label}: {given.file} has no rewrite of {task.files}/{task.name}; {why}")


def read_rewrite(bddl: Path) -> tuple[str, str]:
    """Return a BDDL file's instruction as upstream reads it, and the file's digest. Raises VlaError."""
    return _read(bddl, bddl.stat().st_mtime_ns)


def is_preamble(text: str) -> bool:
    """Whether it is no instruction, but what a language model said before its list."""
    return _PREAMBLE.search(text) is not None


@cache
def _read(bddl: Path, changed: int) -> tuple[str, str]:
    text = section_of(bddl, ":language") or parse_problem(bddl).language
    return as_bddl(text), hashlib.sha256(bddl.read_bytes()).hexdigest()[:16]


DIMENSION = "noise"


PLUS_CAMERAS = ("agentview",)
"""Whose pictures LIBERO-Plus changes."""

WRIST_CAMERAS = (*PLUS_CAMERAS, "robot0_eye_in_hand")

# Exact in every JSON reader.
_SEED_BITS = 48


def plus_noise(number: int, seed: int, cameras: Sequence[str] = PLUS_CAMERAS) -> PictureEdit:
    """Return LIBERO-Plus's noise with a number, as ``noise_NUMBER`` in its tasks' names.

    The module's docstring lists the differences from upstream.

    Args:
        number: 1 to 50: ten severities of each of `PLUS_NAMES`.
        seed: determines, with the camera's name and the step, all that is drawn for a frame.
        cameras: the cameras whose pictures are changed.

    Raises:
        VlaError: there is no such number.
    """
    name, severity = plus_parts(number)
    chosen = frozenset(cameras)

    def begin() -> "Callable[[NDArray[np.uint8], str, int], NDArray[np.uint8]]":
        from pytest_vla.sim.pixel_noise import frame_generator

        def change(picture: "NDArray[np.uint8]", camera: str, step: int) -> "NDArray[np.uint8]":
            if camera not in chosen:
                return picture
            # LIBERO-Plus changes pictures as OpenGL has them, the lowest row first.
            noisy = plus_picture(picture[::-1], name, severity, frame_generator(seed, camera, step))
            return noisy[::-1].copy()

        return change

    return begin


def _sample_plus(draw: Draw) -> Params:
    number = _plus_labels().index(draw.part) + 1
    return {"number": number, "seed": draw.generator().getrandbits(_SEED_BITS)}


def _apply_plus(cameras: Sequence[str], task: Task, params: Params) -> Edits:
    number, seed, seen = params["number"], params["seed"], _seen(cameras, task)
    name, severity = plus_parts(number)
    told = {"number": number, "noise": name, "severity": severity, "cameras": seen, "seed": seed}
    return Edits(pictures=(plus_noise(number, seed, seen),), told=told)


def _seen(cameras: Sequence[str], task: Task) -> list[str]:
    seen = [camera for camera in cameras if camera in task.protocol.cameras]
    if not seen:
        raise VlaError(
            f"it changes pictures from {' and '.join(cameras)}, but {task.suite} has {', '.join(task.protocol.cameras)}"
        )
    return seen


def _space_plus(cameras: Sequence[str], task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: numbers in LIBERO-Plus's list (ten severities per kind), and a seed."""
    _seen(cameras, task)
    numbers = tuple(range(1, len(PLUS_NAMES) * len(PLUS_SEVERITIES) + 1))
    return Parameter("number", LISTED, choices=numbers), Parameter("seed", SEED, 0, 2**_SEED_BITS - 1)


def _plus_labels() -> tuple[str, ...]:
    return tuple(f"{name}-{severity}" for name in PLUS_NAMES for severity in PLUS_SEVERITIES)


def _plus_kind(kind: str, about: str, cameras: Sequence[str]) -> VariationKind:
    return VariationKind(
        f"{DIMENSION}.{kind}",
        about,
        "LIBERO-Plus",
        _sample_plus,
        functools.partial(_apply_plus, cameras),
        functools.partial(_space_plus, cameras),
        parts=_plus_labels,
        published=True,
        needs=(),
        modules=MODULES,
    )


NOISE = (
    _plus_kind("plus", "LIBERO-Plus's five kinds at ten severities, on agentview", PLUS_CAMERAS),
    _plus_kind("plus_wrist", "as noise.plus, also on the wrist camera", WRIST_CAMERAS),
)
"""The kinds of noise."""

LANGUAGE = (
    VariationKind(
        "language.plus",
        "a rewritten instruction from LIBERO-Plus's BDDL files (path from --vla-data)",
        "LIBERO-Plus",
        draw_rewrite,
        told,
        space_of_text,
        needs_files=True,
        recorded="libero-plus",
        needs=(),
    ),
)
"""Of the dimension `language`."""


# LIBERO-Plus's five kinds of picture noise at its ten severities, after its code. Pure functions of a generator.
#
# As published but for this: each frame has a generator of its own instead of numpy's global one; a picture may have
# any size and shape, for which fog's field is of the next power of two from 256 on; motion blur is ImageMagick's
# formula without ImageMagick; sums are in 32 bit, so that here and there a value is one grey level off. Lengths are
# in pixels at whatever resolution is rendered, and glass copies pixels where it was meant to swap them, both as
# published.

MOTION = ((5, 2), (8, 3), (10, 4), (12, 5), (15, 6), (18, 8), (20, 10), (25, 12), (30, 15), (35, 20))
"""ImageMagick's radius and sigma, pixels."""

MOTION_ANGLE = 45.0
"""Degrees: the angle is drawn between minus and plus this."""

GAUSSIAN = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10)
"""Sigma, pixels."""

ZOOM = (
    *((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    *((1.36, 0.01), (1.41, 0.01), (1.46, 0.02), (1.51, 0.02), (1.56, 0.03)),
)
"""Stop and step of the factors, which `numpy.arange` makes from 1 on, without the stop."""

FOG = ((0.5, 3), (1, 2.8), (1.5, 2.5), (2, 2.2), (2.5, 2), (3, 1.8), (3.5, 1.6), (4, 1.5), (4.5, 1.4), (5, 1.3))
"""Amount, and decay of the field."""

GLASS = (
    *((0.5, 1, 3), (0.7, 1, 3), (0.9, 2, 3), (1.0, 2, 2), (1.1, 3, 2)),
    *((1.3, 3, 2), (1.5, 4, 2), (1.8, 4, 2), (2.2, 5, 1), (2.5, 5, 1)),
)
"""Sigma and delta, pixels, and iterations."""


def plus_picture(picture: "Picture", name: str, severity: int, generator: "np.random.Generator") -> "Picture":
    """Apply LIBERO-Plus's noise to a picture.

    Args:
        picture: (H, W, 3) uint8, as in LIBERO-Plus: the lowest row first.
        name: one of `PLUS_NAMES`.
        severity: one of `PLUS_SEVERITIES`.
        generator: for this frame.

    Raises:
        VlaError: there is no such kind or severity.
    """
    # The kinds are listed without the packages that change pictures.
    from pytest_vla.vary.effects.pictures import copied_glass, fog, gaussian_blur, plasma, plasma_side, zoom_blur

    if name not in PLUS_NAMES or severity not in PLUS_SEVERITIES:
        raise VlaError(
            f"LIBERO-Plus's noise is {', '.join(PLUS_NAMES)} with severity 1 to {len(PLUS_SEVERITIES)}, "
            f"not {name} with {severity}"
        )
    at = severity - 1
    if name == "motion":
        return imagemagick_motion_blur(picture, *MOTION[at], generator.uniform(-MOTION_ANGLE, MOTION_ANGLE))
    if name == "gaussian":
        return gaussian_blur(picture, GAUSSIAN[at])
    if name == "zoom":
        return zoom_blur(picture, zoom_factors(severity))
    if name == "fog":
        amount, decay = FOG[at]
        return fog(picture, amount, plasma(plasma_side(picture), decay, generator))
    sigma, delta, iterations = GLASS[at]
    return copied_glass(picture, sigma, delta, iterations, generator)


def zoom_factors(severity: int) -> tuple[float, ...]:
    """Return the zoom factors for a severity; because of rounding, the last one is sometimes the stop itself."""
    import numpy as np

    stop, step = ZOOM[severity - 1]
    return tuple(np.arange(1.0, stop, step).tolist())


def imagemagick_motion_blur(picture: "Picture", radius: float, sigma: float, angle: float) -> "Picture":
    """Apply ImageMagick's MotionBlurImage: half a Gaussian to one side, so that the picture moves too.

    Args:
        picture: (H, W, 3) uint8; its edge is repeated.
        radius: the kernel's radius in pixels.
        sigma: pixels.
        angle: degrees.
    """
    import numpy as np

    from pytest_vla.vary.effects.pictures import moved_copies

    along = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-(along**2) / (2.0 * sigma**2))
    rows = np.ceil(along * math.sin(math.radians(angle)) - 0.5).astype(int)
    columns = np.ceil(along * math.cos(math.radians(angle)) - 0.5).astype(int)
    return moved_copies(picture, list(zip(rows.tolist(), columns.tolist(), strict=True)), weights / weights.sum())
