"""What callers give to a world, as numbers of the right shape."""

from typing import TypeGuard

import numpy as np
import numpy.typing as npt

from pytest_vla.errors import EpisodeError, VlaError

Array = npt.NDArray[np.float64]

ACTION_SIZE = 7
# What every OpenGL draws.
MAX_PICTURE_SIDE = 4096


def numbers(value: npt.ArrayLike) -> Array | None:
    """The value as float64; None where it is no array of real numbers."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):
        return None
    return array.astype(np.float64) if array.dtype.kind in "fiu" else None


def is_index(value: object) -> TypeGuard[int]:
    """Whether it is the number of something, and not an array or a truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def vector(value: npt.ArrayLike, size: int, what: str) -> Array:
    """The value as `size` finite numbers; raises VlaError, which begins with `what`."""
    values = numbers(value)
    if values is None or values.shape != (size,) or not np.isfinite(values).all():
        got = repr(value) if values is None or values.ndim == 0 else f"shape {values.shape}"
        raise VlaError(f"{what} of {size} finite numbers, got {got}")
    return values


def checked_action(action: npt.ArrayLike) -> Array:
    """An action (7,) of finite numbers; raises EpisodeError, ``action-dtype``, ``action-shape`` or ``action-nan``."""
    values = numbers(action)
    if values is None:
        raise EpisodeError("action-dtype", f"expected seven real numbers, got {action!r:.200}")
    if values.shape != (ACTION_SIZE,):
        raise EpisodeError("action-shape", f"expected an action of shape (7,), got {values.shape}")
    if not np.isfinite(values).all():
        raise EpisodeError("action-nan", f"expected finite numbers, got {values.tolist()}")
    return values


def checked_seed(scene_seed: int) -> int:
    """The scene seed, as upstream's generators take it; raises VlaError."""
    if not isinstance(scene_seed, int | np.integer) or not 0 <= scene_seed < 2**32:
        raise VlaError(f"scene seed {scene_seed!r}: expected an integer from 0 to {2**32 - 1}")
    return int(scene_seed)


def checked_size(size: tuple[int, int]) -> tuple[int, int]:
    """Height and width in pixels; raises VlaError where no picture has them."""
    try:
        height, width = size
    except (TypeError, ValueError):
        height = width = 0
    if not all(isinstance(side, int | np.integer) and 1 <= side <= MAX_PICTURE_SIDE for side in (height, width)):
        raise VlaError(f"image_size={size!r}: expected height and width in pixels, 1 to {MAX_PICTURE_SIDE}")
    return int(height), int(width)
