"""EV: how much the actions differ that a policy gives when it is asked the same again."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from pytest_vla.errors import VlaError
from pytest_vla.metrics.instability import (
    Order,
    Protocol,
    Series,
    checked_protocol,
    checked_table,
    mean_instability,
    windowed_instability,
)

# A-PI, A-VI and A-AI: the first, second and third differences of the actions that were executed.

Dims = Literal["all", "arm"]
"""Which numbers of an action: all, as upstream, or without the gripper, whose toggle dwarfs what the arm does."""

ACTION_SIZE = 7
"""Numbers of an action with a gripper, which is the last."""

# As float32 has it, in upstream's environment.
_RIGHT_ANGLE = float(np.float32(np.pi / 2))
HIGH = np.array([1.0, 1.0, 1.0, _RIGHT_ANGLE, _RIGHT_ANGLE, _RIGHT_ANGLE, 1.0])
LOW = -HIGH
"""Upstream's bounds of an action: translation, axis-angle rotation, gripper."""


def normalised(actions: ArrayLike) -> Series:
    """Actions as upstream has them: each number from its bounds to 0..1, clipped.

    Args:
        actions: (T, D), as they are sent to the environment. With 7 numbers the bounds are upstream's (`LOW`, `HIGH`),
            with any other count -1 and 1.

    Raises:
        VlaError: they are no table of finite numbers.
    """
    table = checked_table(actions)
    low, high = (LOW, HIGH) if table.shape[1] == ACTION_SIZE else (-1.0, 1.0)
    scaled: Series = np.clip((table - low) / (high - low), 0.0, 1.0)
    return scaled


def action_instability(
    actions: ArrayLike, order: Order, *, protocol: Protocol = "upstream", dims: Dims = "all"
) -> Series:
    """The series of A-PI (order 1), A-VI (2) or A-AI (3).

    Source: arXiv 2507.17049, VLA_UQ. ``upstream``: a window over normalised actions, see `windowed_instability`.
    ``paper``: 1/D sum |nth difference| of the actions as they are; with `normalised` ones it has no unit.

    Args:
        actions: (T, D), as they are sent to the environment.
        order: of the difference.
        protocol: whose definition.
        dims: ``arm`` leaves the gripper out, and is of actions of 7 numbers.

    Returns:
        (max(T, 7),) upstream, where 0 fills the first 7 steps, which have no value yet; (max(T - order, 0),) of the
        paper.

    Raises:
        VlaError: the actions are no such table, or another argument is none of the above.
    """
    checked_protocol(protocol)
    table = checked_table(actions)
    values = chosen(normalised(table) if protocol == "upstream" else table, dims)
    return windowed_instability(values, order) if protocol == "upstream" else mean_instability(values, order)


def chosen(actions: Series, dims: str) -> Series:
    """The numbers of actions (..., D) that `dims` names. Raises VlaError."""
    if dims == "all":
        return actions
    if dims != "arm":
        raise VlaError(f"dims {dims!r}: expected all or arm")
    if actions.shape[-1] != ACTION_SIZE and actions.size:
        raise VlaError(f"dims 'arm' is of actions of {ACTION_SIZE} numbers, of which the last is the gripper's")
    return actions[..., : ACTION_SIZE - 1]


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
