"""Pictures that were drawn elsewhere, compared with ours."""

from typing import Any

import numpy as np
import numpy.typing as npt

# llvmpipe rounds by what the processor has: between two kinds of Xeon, 5% of one picture's pixels differ, by 2 at most.
_LEVELS, _MEAN = 2, 0.1


def as_drawn(ours: npt.NDArray[Any], theirs: npt.NDArray[Any]) -> bool:
    """Whether pictures (H, W, 3) uint8 are the same but for how another processor's software renderer rounds."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    away = np.abs(ours.astype(int) - theirs.astype(int))
    return bool(away.max() <= _LEVELS and away.mean() <= _MEAN)
