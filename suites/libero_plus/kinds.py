"""LIBERO-Plus's kinds of variation that any task may have: its fifty noises, and its rewritten instructions."""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Edits, Params, PictureEdit
from pytest_vla.suites.libero_plus.numbers import PLUS_NAMES, PLUS_SEVERITIES, plus_parts
from pytest_vla.suites.libero_plus.rewrites import draw_rewrite
from pytest_vla.vary.axes.language import space_of_text, told
from pytest_vla.vary.kind import Draw, Kind
from pytest_vla.vary.space import LISTED, SEED, Parameter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DIMENSION = "noise"


PLUS_CAMERAS = ("agentview",)
"""Whose pictures LIBERO-Plus changes."""

WRIST_CAMERAS = (*PLUS_CAMERAS, "robot0_eye_in_hand")

# Exact in every JSON reader.
_SEED_BITS = 48


def plus_noise(number: int, seed: int, cameras: Sequence[str] = PLUS_CAMERAS) -> PictureEdit:
    """LIBERO-Plus's noise of a number, as ``noise_NUMBER`` in its tasks' names.

    `pytest_vla.suites.libero_plus.noise` says what differs.

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
        from pytest_vla.sim.pixels import frame_generator
        from pytest_vla.suites.libero_plus.noise import plus_picture

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
            f"it changes pictures of {' and '.join(cameras)}, and {task.suite} has {', '.join(task.protocol.cameras)}"
        )
    return seen


def _space_plus(cameras: Sequence[str], task: Task) -> tuple[Parameter, ...]:
    """Numbers of LIBERO-Plus's list: ten severities of a kind, one kind after the other."""
    _seen(cameras, task)
    numbers = tuple(range(1, len(PLUS_NAMES) * len(PLUS_SEVERITIES) + 1))
    return Parameter("number", LISTED, choices=numbers), Parameter("seed", SEED, 0, 2**_SEED_BITS - 1)


def _plus_labels() -> tuple[str, ...]:
    return tuple(f"{name}-{severity}" for name in PLUS_NAMES for severity in PLUS_SEVERITIES)


def _plus_kind(kind: str, about: str, cameras: Sequence[str]) -> Kind:
    return Kind(
        f"{DIMENSION}.{kind}",
        about,
        "LIBERO-Plus",
        _sample_plus,
        functools.partial(_apply_plus, cameras),
        functools.partial(_space_plus, cameras),
        parts=_plus_labels,
        published=True,
        anywhere=True,
    )


NOISE = (
    _plus_kind("plus", "LIBERO-Plus's five kinds at ten severities, of agentview", PLUS_CAMERAS),
    _plus_kind("plus_wrist", "as noise.plus, of the wrist's camera too", WRIST_CAMERAS),
)
"""The kinds of noise."""

LANGUAGE = (
    Kind(
        "language.plus",
        "a rewritten instruction of your LIBERO-Plus's BDDL files",
        "LIBERO-Plus",
        draw_rewrite,
        told,
        space_of_text,
        needs_files=True,
        recorded="libero-plus",
        anywhere=True,
    ),
)
"""Of the dimension `language`."""
