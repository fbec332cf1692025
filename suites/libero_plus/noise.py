"""LIBERO-Plus's five kinds of picture noise at its ten severities, after its code. Pure functions of a generator.

As published but for this: each frame has a generator of its own instead of numpy's global one; a picture may have any
size and shape, for which fog's field is of the next power of two from 256 on; motion blur is ImageMagick's formula
without ImageMagick; sums are in 32 bit, so that here and there a value is one grey level off. Lengths are in pixels at
whatever resolution is rendered, and glass copies pixels where it was meant to swap them, both as published.
"""

import math

import numpy as np

from pytest_vla.errors import VlaError
from pytest_vla.sim.pixels import Picture
from pytest_vla.suites.libero_plus.numbers import PLUS_NAMES, PLUS_SEVERITIES
from pytest_vla.vary.effects.pictures import (
    copied_glass,
    fog,
    gaussian_blur,
    moved_copies,
    plasma,
    plasma_side,
    zoom_blur,
)

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


def plus_picture(picture: Picture, name: str, severity: int, generator: np.random.Generator) -> Picture:
    """A picture with LIBERO-Plus's noise.

    Args:
        picture: (H, W, 3) uint8, as LIBERO-Plus has it: the lowest row first.
        name: of `PLUS_NAMES`.
        severity: of `PLUS_SEVERITIES`.
        generator: of this frame.

    Raises:
        VlaError: there is no such kind or severity.
    """
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
    """Those of a severity; by rounding the last one is sometimes the stop itself."""
    stop, step = ZOOM[severity - 1]
    return tuple(np.arange(1.0, stop, step).tolist())


def imagemagick_motion_blur(picture: Picture, radius: float, sigma: float, angle: float) -> Picture:
    """ImageMagick's MotionBlurImage: half a Gaussian to one side, so that the picture moves too.

    Args:
        picture: (H, W, 3) uint8; its edge is repeated.
        radius: pixels, of the kernel.
        sigma: pixels.
        angle: degrees.
    """
    along = np.arange(2 * math.ceil(radius) + 1)
    weights = np.exp(-(along**2) / (2.0 * sigma**2))
    rows = np.ceil(along * math.sin(math.radians(angle)) - 0.5).astype(int)
    columns = np.ceil(along * math.cos(math.radians(angle)) - 0.5).astype(int)
    return moved_copies(picture, list(zip(rows.tolist(), columns.tolist(), strict=True)), weights / weights.sum())
