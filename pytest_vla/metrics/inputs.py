"""What uncertainty and quality metrics are made of, as a trajectory has it: series beside states and actions.

They are recorded where `--vla-metrics` asks for a metric that needs them (`pytest_vla.episode.given`).
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.records.trajectory import Trajectory

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
    """A series as a trajectory's, (steps,): one that begins later has nan before, what is beyond the end is cut off."""
    values = np.asarray(series, dtype=np.float64)[: steps or None]
    if not steps:
        return np.zeros(0)
    return np.concatenate([np.full(steps - len(values), np.nan), values])


def recorded(trajectory: Trajectory, name: str, dimensions: int) -> NDArray[Any] | None:
    """A series of so many dimensions with a value in every step; None: it is not there, or a step has no value."""
    found = trajectory.series.get(name)
    if found is None or found.ndim != dimensions or not len(found):
        return None
    there = ~np.isnan(found.astype(np.float64)).reshape(len(found), -1).all(axis=1)
    return found if there.all() else None
