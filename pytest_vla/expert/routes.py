"""Ways for the hand and its load around obstacles: boxes around geoms, and a grid search for ways.

The hand keeps its turn on the way, so hand and load are a few boxes relative to the grip site. A box of the scene,
grown by one of these and by the distance to keep, is a box that the grip site itself has to avoid.
"""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from pytest_vla.expert.heights import geom_boxes
from pytest_vla.sim.movers import Movement

Array = npt.NDArray[np.float64]

# Sides of the grid's cells, m; how far it reaches beyond what is to be connected; the most cells that are searched.
_CELL, _BESIDE = 0.03, 0.3
# Distance between the samples of a way, m.
_SAMPLE = 0.01
# Heights above its ends with which a way up, across and down is tried, m.
_RISES = np.arange(0.0, 0.46, 0.03)


@dataclass(frozen=True)
class KeepOutBoxes:
    """The boxes that the grip site has to avoid.

    Attributes:
        low, high: (n, 3) corners, m, world frame.
        weight: (n,) how many metres of a free way one metre inside a box is worth.
    """

    low: Array
    high: Array
    weight: Array

    def at(self, points: Array) -> Array:
        """Return the weights (m,) at points (m, 3): of the worst box at each, 0 if free."""
        if not len(self.low):
            return np.zeros(len(points))
        inside = np.logical_and.reduce(
            [
                (points[:, None, axis] > self.low[None, :, axis]) & (points[:, None, axis] < self.high[None, :, axis])
                for axis in range(3)
            ]
        )
        return np.asarray(np.where(inside, self.weight, 0.0).max(axis=1))

    def within(self, low: Array, high: Array) -> "KeepOutBoxes":
        """Return the boxes that reach into a region."""
        near = ((self.high > low) & (self.low < high)).all(axis=1)
        return KeepOutBoxes(self.low[near], self.high[near], self.weight[near])


def joined(parts: Sequence[KeepOutBoxes]) -> KeepOutBoxes:
    """Return all boxes together."""
    if not parts:
        return KeepOutBoxes(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros(0))
    return KeepOutBoxes(
        np.concatenate([part.low for part in parts]),
        np.concatenate([part.high for part in parts]),
        np.concatenate([part.weight for part in parts]),
    )


@dataclass(frozen=True)
class Reach:
    """The region that the grip site of a hand that points down can reach.

    Attributes:
        shoulder: (3,) about which the arm swings, m, world frame.
        wrist: how far above the grip site the arm's wrist is, m.
        length: from shoulder to wrist at most, m.
        nearest: horizontally from the shoulder at least, m.
    """

    shoulder: Array
    wrist: float = 0.21
    length: float = 0.76
    nearest: float = 0.28

    def beyond(self, points: Array) -> npt.NDArray[np.bool_]:
        """Return the mask of these points (m, 3) that are out of reach."""
        away = points + np.array([0.0, 0.0, self.wrist]) - self.shoulder
        far = np.linalg.norm(away, axis=1) > self.length
        return np.asarray(far | (np.linalg.norm(away[:, :2], axis=1) < self.nearest))


_UNREACHABLE = 200.0


def cost(way: Array, boxes: KeepOutBoxes, reach: Reach) -> float:
    """Compute the cost of a way (n, 3): its length, and the weighted length inside boxes, m."""
    points, lengths = sampled(way)
    weight = boxes.at(points) + _UNREACHABLE * reach.beyond(points)
    return float(lengths @ (1.0 + weight))


def crosses(way: Array, boxes: KeepOutBoxes) -> bool:
    """Whether a way (n, 3) goes through any box."""
    return bool(boxes.at(sampled(way)[0]).any())


def sampled(way: Array) -> tuple[Array, Array]:
    """Sample points (m, 3) on a way (n, 3), with the length that each stands for (m,), m."""
    points, lengths = [], []
    for start, end in itertools.pairwise(way):
        length = float(np.linalg.norm(end - start))
        count = max(2, int(np.ceil(length / _SAMPLE)) + 1)
        points.append(start + np.linspace(0.0, 1.0, count)[:, None] * (end - start))
        lengths.append(np.full(count, length / count))
    return np.concatenate(points), np.concatenate(lengths)


def find_way(start: Array, end: Array, boxes: KeepOutBoxes, reach: Reach) -> Array:
    """Find a short way (n, 3) from `start` to `end` (3,) that avoids boxes as far as possible; deterministic.

    Straight, or up, across and down if that is free; else the cheapest on a grid, its corners cut.
    """
    low, high = np.minimum(start, end) - _BESIDE, np.maximum(start, end) + np.array([_BESIDE, _BESIDE, 0.5])
    boxes = boxes.within(low, high)
    ways = [np.array([start, end])] + [_over(start, end, max(start[2], end[2]) + rise) for rise in _RISES]
    costs = [cost(way, boxes, reach) for way in ways]
    lengths = [_length(way) for way in ways]
    best = int(np.argmin(costs))
    if costs[best] <= lengths[best] + 1e-6:
        return ways[best]
    found = _searched(start, end, boxes, reach, low, high)
    return found if cost(found, boxes, reach) < costs[best] else ways[best]


def _over(start: Array, end: Array, level: float) -> Array:
    way = np.array([start, [*start[:2], level], [*end[:2], level], end])
    keep = [True, *(np.linalg.norm(np.diff(way, axis=0), axis=1) > 1e-6)]
    return way[keep]


def _length(way: Array) -> float:
    return float(np.linalg.norm(np.diff(way, axis=0), axis=1).sum())


def _searched(start: Array, end: Array, boxes: KeepOutBoxes, reach: Reach, low: Array, high: Array) -> Array:
    low = np.array([low[0], low[1], min(start[2], end[2]) - _CELL / 2])
    shape = tuple(int(count) for count in np.ceil((high - low) / _CELL).astype(int) + 1)
    axes = [low[axis] + _CELL * np.arange(shape[axis]) for axis in range(3)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    weight = np.where(reach.beyond(points), _UNREACHABLE, 0.0).reshape(shape)
    first = np.clip(np.ceil((boxes.low - low) / _CELL), 0, shape).astype(int)
    last = np.clip(np.floor((boxes.high - low) / _CELL) + 1, 0, shape).astype(int)
    for (i, j, k), (to_i, to_j, to_k), heavy in zip(first, last, boxes.weight, strict=True):
        part = weight[i:to_i, j:to_j, k:to_k]
        np.maximum(part, heavy, out=part)
    one, other, length = _edges(shape)
    flat = weight.ravel()
    graph = csr_array((length * (1.0 + (flat[one] + flat[other]) / 2), (one, other)), shape=(len(flat), len(flat)))
    ends = [int(np.argmin(np.linalg.norm(points - place, axis=1))) for place in (start, end)]
    _, before = dijkstra(graph, directed=False, indices=ends[0], return_predecessors=True)
    cells = [ends[1]]
    while cells[-1] != ends[0] and before[cells[-1]] >= 0:
        cells.append(int(before[cells[-1]]))
    return _cut(np.array([start, *points[cells[::-1]], end]), boxes, reach)


@functools.lru_cache(maxsize=4)
def _edges(shape: tuple[int, ...]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Array]:
    """Return neighbours on a grid, also across corners: their cells' numbers, and their distances, m."""
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    steps = [step for step in np.ndindex(3, 3, 3) if step > (1, 1, 1)]
    ones, others, lengths = [], [], []
    for step in steps:
        shift = np.array(step) - 1
        here = tuple(slice(max(0, -by), size - max(0, by)) for by, size in zip(shift, shape, strict=True))
        there = tuple(slice(max(0, by), size + min(0, by)) for by, size in zip(shift, shape, strict=True))
        ones.append(numbers[here].ravel())
        others.append(numbers[there].ravel())
        lengths.append(np.full(ones[-1].size, _CELL * float(np.linalg.norm(shift))))
    return np.concatenate(ones), np.concatenate(others), np.concatenate(lengths)


def _cut(way: Array, boxes: KeepOutBoxes, reach: Reach) -> Array:
    """Cut corners of a way: go straight to the farthest corner that costs no more."""
    parts = [cost(way[index : index + 2], boxes, reach) for index in range(len(way) - 1)]
    kept, at = [0], 0
    while at < len(way) - 1:
        for further in range(len(way) - 1, at, -1):
            if further == at + 1 or cost(way[[at, further]], boxes, reach) <= sum(parts[at:further]) + 1e-9:
                break
        kept.append(further)
        at = further
    return way[kept]


# Timing: the movers' places at each coming control step, and how long the hand has to wait.

Box = tuple[Array, Array]

# How far ahead movers are predicted, and how long a hand waits at most, control steps.
HORIZON, _LONGEST_WAIT = 420, 240
# How far the hand goes in a step at its fastest, m; steps that it needs more at each place where it stops or turns.
_STRIDE, _STOP = 0.012, 4
# How much earlier or later than foreseen the hand may be: in steps, and of the steps gone.
_EARLY, _LATE = 3, 0.12


@dataclass(frozen=True)
class Passing:
    """The movers' future places: low and high corners (t, n, 3), m, for each step from now and each mover."""

    low: Array
    high: Array

    def swept(self, shapes: Sequence[Box], margin: float, weight: float) -> KeepOutBoxes:
        """Return the boxes that a point has to avoid so that no mover ever meets one of `shapes` moving with it."""
        low, high = self.low[::4].reshape(-1, 3), self.high[::4].reshape(-1, 3)
        lows = np.concatenate([low - box[1] - margin for box in shapes])
        highs = np.concatenate([high - box[0] + margin for box in shapes])
        return KeepOutBoxes(lows, highs, np.full(len(lows), weight))

    def delay(self, points: Array, shapes: Sequence[Box], margin: float) -> int:
        """Compute how many steps to wait at the first point before following `points` (k, 3) step by step.

        This is the first wait after which no mover comes near, neither on the way nor while waiting; if there is none,
        the one with the fewest steps near a mover.
        """
        meets = self._meets(points, shapes, margin)
        count, ahead = meets.shape
        # The hand may be some steps off its predicted place.
        for step in range(count):
            spread = _EARLY + int(_LATE * step)
            meets[step] = np.convolve(meets[step], np.ones(2 * spread + 1), "same") > 0.5
        met_at_rest = np.concatenate([[0], np.cumsum(meets[0])])
        waits = range(min(_LONGEST_WAIT, max(1, ahead - count)))
        steps = np.arange(count)
        costs = [int(meets[steps, np.minimum(wait + steps, ahead - 1)].sum() + met_at_rest[wait]) for wait in waits]
        return int(np.argmin(costs))

    def _meets(self, points: Array, shapes: Sequence[Box], margin: float) -> npt.NDArray[np.bool_]:
        """Compute the mask (k, t) of points and steps from now at which a box meets a mover."""
        found = np.zeros((len(points), len(self.low)), dtype=bool)
        for low, high in shapes:
            under = (points[:, None, None] + low - margin < self.high[None]).all(axis=-1)
            over = (points[:, None, None] + high + margin > self.low[None]).all(axis=-1)
            found |= (under & over).any(axis=-1)
        return found


def passing(
    model: mujoco.MjModel, data: mujoco.MjData, movement: Movement, movers: Sequence[tuple[str, int, tuple[int, ...]]]
) -> Passing | None:
    """Predict the movers' places from now on, or None if nothing moves.

    Args:
        model, data: the present.
        movement: the movers' progress.
        movers: name, root body and geoms of each that counts.
    """
    motions = {each.name: each.motion for each in movement.moving}
    lows, highs = [], []
    for name, body, geoms in movers:
        if name not in motions or not geoms:
            continue
        poses = [motions[name](movement.tick + step) for step in range(max(1, 1 - movement.tick), HORIZON)]
        low, high = geom_boxes(model, data, geoms)
        low, high = low.min(0) - data.xpos[body], high.max(0) - data.xpos[body]
        if any(not np.allclose(np.abs(turn @ poses[0][1]), 1.0, atol=1e-4) for _, turn in poses):
            reach = float(np.linalg.norm(np.maximum(np.abs(low), np.abs(high))))
            low, high = np.full(3, -reach), np.full(3, reach)
        # A mover is pulled softly to its motion's pose, and lags a little.
        places = np.array([place for place, _ in poses])
        lows.append(places + low)
        highs.append(places + high)
    return Passing(np.stack(lows, axis=1), np.stack(highs, axis=1)) if lows else None


def step_by_step(way: Array, speed: float = 1.0, stay: int = 0) -> Array:
    """Compute the grip site's position (k, 3) in each control step on a way (n, 3).

    `stay` more steps at the way's end are added.
    """
    points = []
    for start, end in itertools.pairwise(way):
        count = 1 + int(np.ceil(np.linalg.norm(end - start) / (_STRIDE * speed)))
        points.append(start + np.linspace(0.0, 1.0, count)[:, None] * (end - start))
        points.append(np.repeat(end[None], _STOP, axis=0))
    points.append(np.repeat(way[-1][None], max(1, stay), axis=0))
    return np.concatenate(points)
