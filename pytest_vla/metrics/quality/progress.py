"""OT: whether the hand, and what it carries, comes nearer to where it is to be."""

import numpy as np
from numpy.typing import ArrayLike

from pytest_vla.errors import VlaError
from pytest_vla.metrics.instability import Protocol, Series, checked_protocol


def remaining_distance(
    hand: ArrayLike,
    source: ArrayLike,
    goal: ArrayLike | None = None,
    grasped: ArrayLike = False,
    *,
    protocol: Protocol = "upstream",
) -> Series:
    """How far there is to go, at each control step.

    Held, the object has its way to the goal before it. Not held, the hand has its way to the object, and beyond it
    upstream adds the object's way to the goal, the paper the hand's. Source: arXiv 2507.17049, VLA_UQ.

    Args:
        hand: (T, 3), m, of the tool centre point.
        source: (T, 3), m, of the object that is to be moved.
        goal: (T, 3), m, where it is to be; None: it is only to be reached or taken.
        grasped: (T,), whether the object is held.
        protocol: whose definition.

    Returns:
        (T,), m.

    Raises:
        VlaError: shapes differ, or a number is not finite.
    """
    checked_protocol(protocol)
    tcp, thing, held = np.asarray(hand, np.float64), np.asarray(source, np.float64), np.asarray(grasped, bool)
    target = thing if goal is None else np.asarray(goal, np.float64)
    if tcp.ndim != 2 or tcp.shape[1] != 3 or not tcp.shape == thing.shape == target.shape or held.ndim > 1:
        raise VlaError(f"hand, source and goal are (T, 3) each, got {tcp.shape}, {thing.shape} and {target.shape}")
    if not np.isfinite([tcp, thing, target]).all():
        raise VlaError("hand, source and goal are finite positions")
    if held.ndim and len(held) != len(tcp):
        raise VlaError(f"grasped is ({len(tcp)},), as there are positions; got {held.shape}")
    to_source, left = _between(tcp, thing), _between(thing, target)
    beyond = left if protocol == "upstream" or goal is None else _between(tcp, target)
    return np.where(held, left, to_source + beyond)


def optimal_trajectory(distances: ArrayLike, initial: float, *, protocol: Protocol = "upstream") -> Series:
    """The series of OT: (1 + change of the remaining distance) / 2. Below 0.5 something comes nearer.

    Its mean upstream is 1/2 + (s_last - s_first) / (2 T) of s, the distance over the initial one: net progress, and
    nothing of the way between. It is not clipped. Source: arXiv 2507.17049, VLA_UQ.

    Args:
        distances: (T,), m, what remains after each control step.
        initial: m, above 0: what remained at the start, by which upstream divides; the paper does not.
        protocol: whose definition.

    Returns:
        (T,) upstream, the first 0.5; (max(T - 1, 0),) of the paper.

    Raises:
        VlaError: a distance is not finite, or upstream's `initial` is not above 0.
    """
    checked_protocol(protocol)
    left = np.asarray(distances, dtype=np.float64)
    if left.ndim != 1 or not np.isfinite(left).all():
        raise VlaError(f"distances are (T,) finite numbers, m; got {left.shape}")
    if protocol == "paper":
        return np.asarray((1.0 + np.diff(left)) / 2.0 if left.size else left)
    if not 0 < initial < np.inf:
        raise VlaError(
            f"initial {initial!r}: expected a distance above 0 m; where nothing remains there is no progress"
        )
    return np.asarray((1.0 + np.diff(left, prepend=left[:1]) / initial) / 2.0)


def _between(one: Series, other: Series) -> Series:
    return np.asarray(np.linalg.norm(one - other, axis=1))
