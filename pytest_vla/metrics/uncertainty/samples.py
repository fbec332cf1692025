"""EV: how much the actions differ that a policy gives when it is asked the same again."""

import numpy as np
from numpy.typing import ArrayLike

from pytest_vla.errors import VlaError
from pytest_vla.metrics.instability import Protocol, Series, checked_protocol
from pytest_vla.metrics.uncertainty.actions import Dims, chosen, normalised

REPEATS = 4
"""Further draws of each action; the one that is executed is not among them."""


FEWEST = 2
"""Draws that a spread is of: that of one is 0, whatever the policy is like."""


def execution_variability(samples: ArrayLike, *, protocol: Protocol = "upstream", dims: Dims = "all") -> Series:
    """The series of EV: over the draws of an action the standard deviation (ddof 0), mean over dimensions.

    Source: arXiv 2507.17049, VLA_UQ. ``upstream`` normalises actions first; ``paper`` takes them as they are. With
    ddof 0 it grows with N, to 0.56, 0.80 and 0.92 of a normal spread at 2, 4 and 10 draws: compare those of one N.

    Args:
        samples: (T, N, D), N draws of the action of each control step; the executed one is none of them.
        protocol: whose definition.
        dims: ``arm`` leaves the gripper out, and is of actions of 7 numbers.

    Returns:
        (T,); 0 is a policy that always answers the same.

    Raises:
        VlaError: the samples are no such array of finite numbers, or N is less than `FEWEST`.
    """
    checked_protocol(protocol)
    draws = np.asarray(samples, dtype=np.float64)
    if draws.ndim != 3 or (draws.size and not np.isfinite(draws).all()) or (len(draws) and not draws.shape[1]):
        raise VlaError(f"samples are (T, N, D) finite numbers, N draws of the action of each step; got {draws.shape}")
    if not draws.size:
        return np.zeros(len(draws))
    if draws.shape[1] < FEWEST:
        raise VlaError(f"1 sample of each action has no spread: expected {FEWEST} or more")
    if protocol == "upstream":
        draws = normalised(draws.reshape(-1, draws.shape[2])).reshape(draws.shape)
    spread: Series = chosen(draws, dims).std(axis=1).mean(axis=1)
    return spread
