"""Grasps of a thing from above: every place and turn on a map of heights, best first."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pytest_vla.expert.hand import (
    FINGER_HALF_WIDTH,
    FINGER_INSIDE,
    FINGER_OUTSIDE,
    PALM_DISTANCE,
    PALM_HALF_LENGTH,
    PALM_HALF_WIDTH,
    TIP_LENGTH,
    facing,
    nearest_turn,
)
from pytest_vla.expert.heights import Heights

Array = npt.NDArray[np.float64]

# Turns of the hand that are tried, over half a circle: the two fingers are alike.
_TURNS = 12
# Between the fingers' ends and what is under them; how deep they reach down beside a thing, at best and at least;
# above the ends, what the pads touch; how far what is gripped may be from the middle (m).
_CLEARANCE = 0.004
_DEPTH, _LEAST_DEPTH = 0.03, 0.012
_TOUCHED = 0.006
_CENTRED = 0.006
# Costs of a grasp, found by trial: a metre from the thing's middle is 1. Per radian of turn, metre of missing depth,
# missing share of the fingers' width, metre of skew and of thickness (beyond `_MIDDLE` from the middle), and to lean.
_TURNED, _SHALLOW, _NARROW, _SKEW, _THICK = 0.03, 2.0, 0.02, 3.0, 1.0
_MIDDLE = 0.02
_LEAN, _LEANING = np.deg2rad(30.0), 0.1
_DOWN = np.array([0.0, 0.0, -1.0])


@dataclass(frozen=True)
class Grasp:
    """A pose of the grip site (m, world frame) at which the fingers close; `cost` orders grasps, the best first."""

    position: Array
    rotation: Array
    cost: float


def grasps_from_above(
    heights: Heights, around: Heights, geoms: tuple[int, ...], centre: Array, current: Array
) -> list[Grasp]:
    """Return grasps of a thing by a hand that points down.

    A grasp needs room for both fingers and the palm. Between the fingers there must be something of the thing, narrower
    than the opening, and nothing else.

    Args:
        heights: of the thing, as far as the fingers reach.
        around: a coarser map as far as the palm reaches.
        geoms: the thing's.
        centre: (2,) the thing's centre of mass; grips near it are better.
        current: the hand's rotation now; small turns are better.

    Returns:
        Best first; not more than one within 1 cm and 30 degrees.
    """
    return grasps_at(heights, around, geoms, centre, current, [np.pi * turn / _TURNS for turn in range(_TURNS)])


def grasps_at(
    heights: Heights,
    around: Heights,
    geoms: tuple[int, ...],
    centre: Array,
    current: Array,
    angles: Sequence[float],
) -> list[Grasp]:
    """Return `grasps_from_above` only for these angles of the fingers' direction (rad, from the world's x axis)."""
    own = np.isin(heights.geom, geoms)
    cells = np.argwhere(own)
    if not len(cells):
        return []
    middles = heights.origin + cells * heights.cell
    found: list[Grasp] = []
    for angle in angles:
        found += _of_turn(heights, around, own, middles, angle, centre, current)
    found.sort(key=lambda grasp: grasp.cost)
    kept: list[Grasp] = []
    for grasp in found:
        if all(
            np.linalg.norm(grasp.position - other.position) > 0.01
            or abs(grasp.rotation[:, 0] @ other.rotation[:, 0]) < 0.87
            for other in kept
        ):
            kept.append(grasp)
            if len(kept) == 40:
                break
    return kept


@dataclass(frozen=True)
class _Fit:
    """The fit of the fingers at each place of one turn; arrays (n,), heights and lengths in m.

    Attributes:
        tip: z of the fingers' ends.
        depth: of the material between the fingers above the tip.
        offset: of the material from the middle, along the fingers' direction.
        thickness: of the material.
        wide: the share of the fingers' width that presses on something.
        skew: how far a wall between the fingers is from lying flat.
        leaning: the palm has no room above the fingers.
        good: it is a grasp.
    """

    tip: Array
    depth: Array
    offset: Array
    thickness: Array
    wide: Array
    skew: Array
    leaning: npt.NDArray[np.bool_]
    good: npt.NDArray[np.bool_]


def _of_turn(
    heights: Heights,
    around: Heights,
    own: npt.NDArray[np.bool_],
    middles: Array,
    angle: float,
    centre: Array,
    current: Array,
) -> list[Grasp]:
    along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])

    def patch(x: Array, y: Array) -> Array:
        """Return points (n, len(x) * len(y), 2) of a rectangle at each middle."""
        grid = (x[:, None, None] * along + y[None, :, None] * across).reshape(-1, 2)
        return np.asarray(middles[:, None] + grid)

    fit = _fit(heights, around, own, len(middles), patch)
    upright = nearest_turn(facing(_DOWN, np.append(along, 0.0)), current)
    turned = float(np.arccos(np.clip(upright[:, 0] @ current[:, 0], -1.0, 1.0)))
    beside, length = np.linspace(0.03, 0.12, 6), np.linspace(-PALM_HALF_LENGTH, PALM_HALF_LENGTH, 5)
    left, right = (around.at(patch(length, side * beside)).max(1) for side in (1, -1))
    grasps = []
    for index in np.flatnonzero(fit.good):
        place = middles[index] + fit.offset[index] * along
        off = float(np.linalg.norm(place - centre))
        shallow = _DEPTH - min(float(fit.depth[index]), _DEPTH)
        firm = _SHALLOW * shallow + _NARROW * (1.0 - float(fit.wide[index])) + _SKEW * float(fit.skew[index])
        # Away from the middle of a thing it is a wall that is gripped, and a thick one is a wall along the fingers.
        cost = off + _TURNED * turned + firm + (_THICK * float(fit.thickness[index]) if off > _MIDDLE else 0.0)
        rotation = upright
        if fit.leaning[index]:
            lean = across * (1.0 if left[index] <= right[index] else -1.0)
            approach = _DOWN * np.cos(_LEAN) - np.append(lean, 0.0) * np.sin(_LEAN)
            rotation = nearest_turn(facing(approach, np.append(along, 0.0)), current)
            cost += _LEANING
        site = np.append(place, fit.tip[index]) - TIP_LENGTH * rotation[:, 2]
        grasps.append(Grasp(site, rotation, cost))
    return grasps


def _fit(
    heights: Heights,
    around: Heights,
    own: npt.NDArray[np.bool_],
    count: int,
    patch: Callable[[Array, Array], Array],
) -> _Fit:
    finger = np.linspace(FINGER_INSIDE + 0.001, FINGER_OUTSIDE, 6)
    width = np.linspace(-FINGER_HALF_WIDTH, FINGER_HALF_WIDTH, 5)
    under = np.maximum(heights.at(patch(finger, width)).max(1), heights.at(patch(-finger, width)).max(1))
    palm = around.at(
        patch(np.arange(-PALM_HALF_LENGTH, PALM_HALF_LENGTH, 0.01), np.linspace(-PALM_HALF_WIDTH, PALM_HALF_WIDTH, 7))
    ).max(1)
    steps = np.arange(-FINGER_INSIDE, FINGER_INSIDE + 1e-9, heights.cell)
    between = patch(steps, width)
    shape = (count, len(steps), len(width))
    high = heights.at(between).reshape(shape)
    mine = own[heights.index(between)].reshape(shape)
    top = np.where(mine, high, -np.inf).max(axis=(1, 2))
    room = palm - PALM_DISTANCE - TIP_LENGTH + 0.003
    tip = np.maximum(top - _DEPTH, under + _CLEARANCE)
    # Where the palm has no room above the fingers, the hand leans to the lower side.
    leaning = room > top - _LEAST_DEPTH
    tip = np.where(leaning, tip, np.maximum(tip, room))
    above = high > (tip + _TOUCHED)[:, None, None]
    held, foreign = above & mine, (above & ~mine).any(axis=(1, 2))
    # There has to be something to press on at the middle of the fingers; a wide thing sits firmer than a thin one.
    pressed = held.any(axis=1)
    # A wall should lie flat between the fingers: where it is, at each width of the finger, should be the same.
    where = (held * steps[None, :, None]).sum(axis=1) / np.maximum(held.sum(axis=1), 1e-9)
    skew = np.where(pressed, where, -np.inf).max(axis=1) - np.where(pressed, where, np.inf).min(axis=1)
    rows = held.any(axis=2)
    first = steps[rows.argmax(axis=1)]
    last = steps[len(steps) - 1 - rows[:, ::-1].argmax(axis=1)]
    offset, thickness = (first + last) / 2, last - first
    good = (
        (top - tip >= _LEAST_DEPTH)
        & pressed[:, len(width) // 2]
        & ~foreign
        & (thickness < 2 * FINGER_INSIDE - 0.006)
        & (np.abs(offset) <= _CENTRED)
    )
    return _Fit(tip, top - tip, offset, thickness, pressed.mean(axis=1), skew, leaning, good)
