"""Noise of pictures (H, W, 3) uint8, as VLA-Arena's: pure functions that return a new picture."""

import hashlib
import math

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]


Floats = NDArray[np.float32]


WHITE = np.float32(255.0)


def frame_generator(seed: int, camera: str, step: int) -> np.random.Generator:
    """Return the generator of a frame's noise.

    It does not depend on which other frames are read, nor on their order.
    """
    digest = hashlib.sha256(f"{seed}/{camera}/{step}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest[:16], "big")))


def gaussian_noise(picture: Picture, mean: float, variance: float, generator: np.random.Generator) -> Picture:
    """Add normal noise to each value in [0, 1]; clip and truncate as VLA-Arena does.

    Args:
        picture: (H, W, 3).
        mean: of the noise.
        variance: of the noise, 0 or more.
        generator: draws the noise.
    """
    added = generator.standard_normal(picture.shape, dtype=np.float32)
    added *= np.float32(math.sqrt(variance))
    added += np.float32(mean)
    added += as_floats(picture)
    return as_pixels(added)


def salted(picture: Picture, share: float, generator: np.random.Generator) -> Picture:
    """Set values to 255 with a probability, and then to 0 with the same probability, each channel by itself.

    Args:
        picture: (H, W, 3).
        share: the probability of either, 0 to 1.
        generator: draws the values to set.
    """
    noisy = picture.copy()
    for value in (255, 0):
        noisy[generator.random(picture.shape, dtype=np.float32) < np.float32(share)] = value
    return noisy


def as_floats(picture: Picture) -> Floats:
    """Return a picture's values in [0, 1]."""
    return np.divide(picture, WHITE, dtype=np.float32)


def as_pixels(values: Floats) -> Picture:
    """Convert values in [0, 1] to uint8, truncated as published code does."""
    pixels: Picture = (np.clip(values, 0.0, 1.0) * WHITE).astype(np.uint8)
    return pixels
