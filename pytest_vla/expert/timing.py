"""When to go: where movers will be at each control step to come, and how long a way of the hand has to wait."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.expert.parts import geom_boxes
from pytest_vla.expert.routes import Boxes
from pytest_vla.sim.movers import Movement

Array = npt.NDArray[np.float64]
Box = tuple[Array, Array]

# How far ahead movers are looked at, and how long a hand waits at most, control steps.
HORIZON, _LONGEST_WAIT = 420, 240
# How far the hand goes in a step at its fastest, m; steps that it needs more at each place where it stops or turns.
_STRIDE, _STOP = 0.012, 4
# How much earlier or later than foreseen the hand may be: in steps, and of the steps gone.
_EARLY, _LATE = 3, 0.12


@dataclass(frozen=True)
class Passing:
    """Where movers will be: of each step from now, and of each mover, the low and the high corner (t, n, 3), m."""

    low: Array
    high: Array

    def swept(self, shapes: Sequence[Box], margin: float, weight: float) -> Boxes:
        """What a point that goes with these boxes has to stay out of so that no mover ever meets one."""
        low, high = self.low[::4].reshape(-1, 3), self.high[::4].reshape(-1, 3)
        lows = np.concatenate([low - box[1] - margin for box in shapes])
        highs = np.concatenate([high - box[0] + margin for box in shapes])
        return Boxes(lows, highs, np.full(len(lows), weight))

    def delay(self, points: Array, shapes: Sequence[Box], margin: float) -> int:
        """How many steps to wait, at the first point, before a way that is at `points` (k, 3) step by step.

        The first wait after which no mover comes near on the way, nor while waiting; where there is none, the one with
        the fewest steps near one.
        """
        meets = self._meets(points, shapes, margin)
        count, ahead = meets.shape
        # A hand is not where it is foreseen to the step.
        for step in range(count):
            spread = _EARLY + int(_LATE * step)
            meets[step] = np.convolve(meets[step], np.ones(2 * spread + 1), "same") > 0.5
        met_at_rest = np.concatenate([[0], np.cumsum(meets[0])])
        waits = range(min(_LONGEST_WAIT, max(1, ahead - count)))
        steps = np.arange(count)
        costs = [int(meets[steps, np.minimum(wait + steps, ahead - 1)].sum() + met_at_rest[wait]) for wait in waits]
        return int(np.argmin(costs))

    def _meets(self, points: Array, shapes: Sequence[Box], margin: float) -> npt.NDArray[np.bool_]:
        """Whether a box at each point meets a mover at each step from now, (k, t)."""
        found = np.zeros((len(points), len(self.low)), dtype=bool)
        for low, high in shapes:
            under = (points[:, None, None] + low - margin < self.high[None]).all(axis=-1)
            over = (points[:, None, None] + high + margin > self.low[None]).all(axis=-1)
            found |= (under & over).any(axis=-1)
        return found


def passing(
    model: mujoco.MjModel, data: mujoco.MjData, movement: Movement, movers: Sequence[tuple[str, int, tuple[int, ...]]]
) -> Passing | None:
    """Where movers will be from now on; None where nothing moves.

    Args:
        model, data: the present.
        movement: how far the movers are.
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
        # It is drawn softly to where the motion says, and is not quite there.
        places = np.array([place for place, _ in poses])
        lows.append(places + low)
        highs.append(places + high)
    return Passing(np.stack(lows, axis=1), np.stack(highs, axis=1)) if lows else None


def step_by_step(way: Array, speed: float = 1.0, stay: int = 0) -> Array:
    """Where (k, 3) the grip site is in each control step on a way (n, 3), and for `stay` steps at its end."""
    points = []
    for start, end in itertools.pairwise(way):
        count = 1 + int(np.ceil(np.linalg.norm(end - start) / (_STRIDE * speed)))
        points.append(start + np.linspace(0.0, 1.0, count)[:, None] * (end - start))
        points.append(np.repeat(end[None], _STOP, axis=0))
    points.append(np.repeat(way[-1][None], max(1, stay), axis=0))
    return np.concatenate(points)
