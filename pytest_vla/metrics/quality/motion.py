"""TCP-PI, TCP-VI, TCP-AI and TI: how smoothly the hand moved. And whether it moved at all."""

import numpy as np
from numpy.typing import ArrayLike

from pytest_vla.errors import VlaError
from pytest_vla.metrics.instability import (
    WINDOW,
    Order,
    Protocol,
    Series,
    checked_protocol,
    checked_table,
    norm_instability,
    windowed_instability,
)

STATIC_PATH = 0.02
"""m: a hand whose path over an episode is shorter stood still."""

# What upstream's gradient of a gradient of a gradient gives of its window, from the present position backwards: the
# third of its values from the end. Constant acceleration is no jerk, and does not give 0.
_STENCIL = np.array([0.25, -0.5, 0.0, 0.375, 0.0, -0.125])


def tcp_instability(positions: ArrayLike, order: Order, *, protocol: Protocol = "upstream") -> Series:
    """The series of TCP-PI (order 1), TCP-VI (2) or TCP-AI (3).

    Source: arXiv 2507.17049, VLA_UQ. ``upstream``: the mean of the axes' absolute differences in a window, see
    `windowed_instability`. ``paper``: the Euclidean norm of the nth difference.

    Args:
        positions: (T, 3), m, of the tool centre point after each control step.
        order: of the difference.
        protocol: whose definition.

    Returns:
        In m (a step, step^2 or step^3): (max(T, 7),) upstream, 0 in the first 7 steps; (max(T - order, 0),) of the
        paper.

    Raises:
        VlaError: the positions are no such table of finite numbers, or another argument is none of the above.
    """
    checked_protocol(protocol)
    path = checked_table(positions, 3)
    return windowed_instability(path, order) if protocol == "upstream" else norm_instability(path, order)


def trajectory_instability(positions: ArrayLike, *, dt: float = 1.0, protocol: Protocol = "upstream") -> Series:
    """The series of TI: the norm of the jerk.

    Source: arXiv 2507.17049, VLA_UQ. ``upstream``: of jerk by three `numpy.gradient`s over blocks, with its values at
    the blocks' edges, in m / step^3: the first 7 positions give 5 values, each later one a value more. ``paper``: of
    the third difference over dt^3.

    Args:
        positions: (T, 3), m, of the tool centre point after each control step.
        dt: s, a control step; 1: jerk is in m / step^3. The paper's only.
        protocol: whose definition.

    Returns:
        (T - 2,) upstream, and empty where T < 7; (max(T - 3, 0),) of the paper.

    Raises:
        VlaError: the positions are no such table of finite numbers, or `dt` is not above 0.
    """
    checked_protocol(protocol)
    path = checked_table(positions, 3)
    if not 0 < dt < np.inf:
        raise VlaError(f"dt {dt!r}: expected seconds above 0")
    if protocol == "paper":
        norms: Series = norm_instability(path, 3) / dt**3
        return norms
    if len(path) < WINDOW - 1:
        return np.zeros(0)
    block = path[: WINDOW - 1]
    for _ in range(3):
        block = np.gradient(block, axis=0)
    first = np.linalg.norm(block[:-2], axis=1)
    if len(path) == WINDOW - 1:
        return np.asarray(first)
    later = path[2:]
    windows = np.lib.stride_tricks.sliding_window_view(later, len(_STENCIL), axis=0)
    return np.concatenate([first, np.linalg.norm(windows @ _STENCIL[::-1], axis=1)])


def trajectory_instability_value(
    positions: ArrayLike, *, dt: float = 1.0, protocol: Protocol = "upstream"
) -> float | None:
    """TI of an episode: upstream the mean of its series, of the paper its root mean square; None: it is too short.

    Args, Raises: as `trajectory_instability`.
    """
    series = trajectory_instability(positions, dt=dt, protocol=protocol)
    if not series.size:
        return None
    return float(np.sqrt(np.mean(series**2)) if protocol == "paper" else series.mean())


def path_length(positions: ArrayLike) -> float:
    """How far the tool centre point (T, 3), m, went: the sum of its steps, m; 0 of less than two. Raises VlaError."""
    return float(np.linalg.norm(np.diff(checked_table(positions, 3), axis=0), axis=1).sum())


def is_static(positions: ArrayLike, threshold: float = STATIC_PATH) -> bool:
    """Whether the hand stood still: its path is shorter than `threshold`, m.

    A robot that does nothing looks perfect to every metric of motion (arXiv 2507.17049, Finding 9).

    Raises:
        VlaError: as `path_length`.
    """
    return path_length(positions) < threshold
