"""Differences from step to step: position, velocity and acceleration instability of actions and of the hand.

Both of arXiv 2507.17049 (VLA_UQ), where the paper has a difference a step and the code a mean over a window.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.errors import VlaError
from pytest_vla.records.trajectory import Trajectory

Protocol = Literal["upstream", "paper"]
"""Whose definition: the published code's, which made the published numbers, or the paper's text."""

Order = Literal[1, 2, 3]
"""Of the difference: 1 is position instability (PI), 2 velocity (VI), 3 acceleration (AI)."""

ORDERS: tuple[Order, ...] = (1, 2, 3)

WINDOW = 8
"""Control steps that upstream looks back on, the present one included."""

LAST = 5
"""Differences whose mean upstream takes, the last ones of its window, whatever their order."""

Series = NDArray[np.float64]


def windowed_instability(values: ArrayLike, order: Order) -> Series:
    """Return upstream's series: the mean of the last five differences, each a mean of absolute values over dimensions.

    The nth difference is divided by 2^(n-1).

    Args:
        values: (T, D), one row per control step.
        order: n, 1 to 3.

    Returns:
        (max(T, 7),): 0 in the first 7 steps, also if there are fewer.

    Raises:
        VlaError: `values` is no table of finite numbers, or `order` is not 1, 2 or 3.
    """
    table = checked_table(values)
    series = np.zeros(max(len(table), WINDOW - 1))
    if len(table) >= WINDOW:
        sizes = np.abs(_differences(table, order)).mean(axis=1) / 2 ** (order - 1)
        means = np.lib.stride_tricks.sliding_window_view(sizes, LAST).mean(axis=1)
        # sizes[i] ends at step i + order, means[i] at step i + order + 4.
        series[WINDOW - 1 :] = means[WINDOW - LAST - order :]
    return series


def mean_instability(values: ArrayLike, order: Order) -> Series:
    """Return the paper's series for actions: u_t = 1/D sum |nth difference|, at the step at which the difference ends.

    Args:
        values: (T, D), one row per control step.
        order: n, 1 to 3.

    Returns:
        (max(T - n, 0),), in the values' unit.

    Raises:
        VlaError: as in `windowed_instability`.
    """
    sizes: Series = np.abs(_differences(checked_table(values), order)).mean(axis=1)
    return sizes


def norm_instability(values: ArrayLike, order: Order) -> Series:
    """Return the paper's series for positions: q_t = the Euclidean norm of the nth difference.

    Args:
        values: (T, D), one row per control step.
        order: n, 1 to 3.

    Returns:
        (max(T - n, 0),), in the values' unit.

    Raises:
        VlaError: as in `windowed_instability`.
    """
    sizes: Series = np.linalg.norm(_differences(checked_table(values), order), axis=1)
    return sizes


def episode_mean(series: ArrayLike) -> float | None:
    """Compute the mean of a series, or None if it is empty."""
    values = np.asarray(series, dtype=np.float64)
    return float(values.mean()) if values.size else None


def checked_protocol(protocol: str) -> None:
    """Raise VlaError unless the protocol is ``upstream`` or ``paper``."""
    if protocol not in ("upstream", "paper"):
        raise VlaError(f"protocol {protocol!r}: expected upstream or paper")


def checked_table(values: ArrayLike, width: int | None = None) -> Series:
    """Return values as a table (T, D) of finite float64, T 0 or more. Raises VlaError."""
    expected = f"expected a table (T, {'D' if width is None else width}) of finite numbers, a row a control step"
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise VlaError(f"{expected}: {error}") from error
    if table.size == 0 and table.ndim <= 2:
        return table.reshape(0, width or (table.shape[1] if table.ndim == 2 and table.shape[1] else 1))
    if table.ndim != 2 or (width is not None and table.shape[1] != width):
        raise VlaError(f"{expected}, got {table.shape}")
    if not np.isfinite(table).all():
        row = int((~np.isfinite(table).all(axis=1)).argmax())
        raise VlaError(f"{expected}: row {row} is {table[row].tolist()}")
    return table


def _differences(table: Series, order: int) -> Series:
    if order not in ORDERS:
        raise VlaError(f"order {order!r}: expected 1 (position), 2 (velocity) or 3 (acceleration)")
    return np.diff(table, n=order, axis=0) if len(table) > order else np.zeros((0, table.shape[1]))


# The recorded series that uncertainty and quality metrics use, beside states and actions.
#
# They are recorded where `--vla-metrics` asks for a metric that needs them (`pytest_vla.episode.apply_metrics`).

FIRST, SECOND = "answer.token_first", "answer.token_second"
SQUARES, ENTROPY = "answer.token_squares", "answer.token_entropy"
"""(n, t): of each token of the answer that a step executed, see `pytest_vla.policies.tokens.TokenStatistics`; nan:
it has fewer tokens."""

VOCABULARY = "answer.vocabulary"
"""(n,): from how many the tokens were chosen; nan: not told."""

PROBABILITIES = "answer.token_probabilities"
"""(n, t): of the tokens that were chosen; nan: the answer has fewer."""

SAMPLES = "answer.samples"
"""(n, N, D): further draws of the action of each step; nan: none was given for it."""

SOURCE, GOAL = "task.source", "task.goal"
"""(n, 2, 3): m, where the object of the task is and where it is to be, before and after each control step."""

TURN = "task.source_quat"
"""(n, 2, 4): the orientation of the task's object, quaternion wxyz, before and after each control step."""

HELD = "task.held"
"""(n, 2): whether both fingers touch the object, before and after each control step."""

LIMIT_MARGIN = "robot.limit_margin"
"""(n,): after each control step, how far the arm's joint that is nearest to a limit is from it, share of its range:
0.5 is the middle; below 0 it is beyond."""

HOLDING = "robot.holding"
"""(n,): the number of the object that both fingers touch after each control step; -1: none."""

OTHERS_TOUCHED = "robot.others_touched"
"""(n,): how many objects and fixtures that the goal does not name the robot touches after each control step."""


def per_step(series: ArrayLike, steps: int) -> NDArray[np.float64]:
    """Align a series with a trajectory, (steps,): nan before its first value, values beyond the end cut off."""
    values = np.asarray(series, dtype=np.float64)[: steps or None]
    if not steps:
        return np.zeros(0)
    return np.concatenate([np.full(steps - len(values), np.nan), values])


def recorded(trajectory: Trajectory, name: str, dimensions: int) -> NDArray[Any] | None:
    """Return a series with so many dimensions and a value at every step, or None if it or a value is missing."""
    found = trajectory.series.get(name)
    if found is None or found.ndim != dimensions or not len(found):
        return None
    there = ~np.isnan(found.astype(np.float64)).reshape(len(found), -1).all(axis=1)
    return found if there.all() else None
