"""Which task did a failure do instead? Its path against the mean successful paths of all tasks of the suite."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_vla.metrics.dtw import exact_dtw, resample
from pytest_vla.metrics.failure_types import Reference, is_static

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MARGIN = 0.55
"""From which margin on a task is named: it is more than twice as near as any other.

Measured on 99 successes of the built-in expert in tabletop, each half of them held against the means of the other: the
nearest task is right for 98; it is named for 85, never wrongly. With the path's own task taken out, so that none is
right, none is named; nor is any for 20 episodes of random actions, which come as near as .52.
"""

REST_RADIUS = 0.005
"""m. A path rests from where on it stays this close to its last point; letting go of a thing moves a hand by more."""


@dataclass(frozen=True)
class NearestTask:
    """How near a path is to what the tasks' successes have in common.

    Attributes:
        task: the nearest, where it is nearer than every other by `MARGIN`; None: the path is nobody's.
        nearest: the task with the smallest distance.
        distance: to its mean path: exact DTW of 50 points each, m.
        margin: 1 - distance / second smallest distance, in [0, 1]: 0 where two tasks are equally near, 1 on the mean
            path itself. A ratio has no scale: a path far from all tasks is about as far from each, and has none.
        distances: of all tasks.
    """

    task: str | None
    nearest: str
    distance: float
    margin: float
    distances: Mapping[str, float]


def nearest_task(path: "NDArray[np.float64]", references: Mapping[str, Reference]) -> NearestTask | None:
    """The task whose successes a path (n, 3), m, is most like; None for a static one, which does nothing.

    Pass the path's own task among the others: a failure that is nearest to its own task did no other. Unlike
    Algorithm 1 this cuts nothing at a task's longest success, since every task begins like some shorter one; only the
    rest at the path's end is left out (`REST_RADIUS`): who has done another task waits there until the episode is over.

    Raises ValueError for fewer than two tasks, and for a path that is empty or not finite.
    """
    import numpy as np

    if len(references) < 2:
        raise ValueError(f"nearest_task: {len(references)} tasks: expected at least 2, or there is no margin")
    if is_static(path):
        return None
    moving = resample(_without_rest(path))[None]
    distances = {task: float(exact_dtw(moving, known.mean_path).distances[0]) for task, known in references.items()}
    first, second = sorted(distances, key=lambda task: (distances[task], task))[:2]
    margin = 1.0 - distances[first] / distances[second] if distances[second] > 0.0 else 0.0
    named = first if margin >= MARGIN else None
    return NearestTask(named, first, distances[first], float(np.clip(margin, 0.0, 1.0)), distances)


def _without_rest(path: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """The path up to where it comes to rest."""
    import numpy as np

    away = np.flatnonzero(np.linalg.norm(path - path[-1], axis=1) > REST_RADIUS)
    return path[: away[-1] + 2] if len(away) else path[:1]
