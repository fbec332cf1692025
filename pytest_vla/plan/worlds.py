"""A world that a suite brings: what it has to do, so that any simulator can be a suite. Values and contracts only."""

import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.plan.case import Case
    from pytest_vla.plan.task import Task

    Seen = Mapping[str, NDArray[Any]]


class SuiteWorld(typing.Protocol):
    """The world of a task: `Task.world` makes one, in the process that runs the episode, and it is used for many.

    What it sees is a mapping with the names of the suite's protocol: ``CAMERA_image`` (H, W, 3) uint8, upright, for
    each camera, and the vectors of `Protocol.vectors`, ``state`` among them. It may be lazy: a value is read before the
    next step, and at most once. ``robot0_eef_pos`` (3,) in m, world frame, is recorded as the end effector's path.

    It may have more methods, which are used where they are there:
        predicates() -> Mapping[str, bool]: the goal's literals; it has then succeeded when all of them hold.
        over() -> bool: nothing can happen any more, as where something fell: the episode ends.
        costs(): of the last step, each 0 or more: a table of amounts by name, or a list of
            `pytest_vla.plan.costs.Charge`, which also say what caused them. The record has them as a ledger.
        series(): of the last step, a table of numbers, truths or arrays by name (a-z, 0-9, _ and .), the same names and
            shapes at each step. The trajectory has them, a row a step.
        save() -> (n,) array of float64: the state, which the trajectory has for each step; else that is ``state``.
        restore(state) -> what is seen in a saved state: videos and sheets are drawn from recorded ones. Where it cannot
            be done, frames are kept while an episode runs, if a video of it is wanted.
        provenance() -> Mapping[str, str]: what results depend on, such as versions. Texts by name; what pytest-vla says
            itself, such as ``numpy``, has no other text here.
        close(): it is used no more.
    """

    def reset(self, case: "Case") -> "Seen":
        """Begin an episode: equal cases begin alike. What is drawn follows from `Case.seed`."""

    def step(self, action: "NDArray[np.float64]") -> "Seen":
        """One control step, with an action (`Protocol.action_size`,) in [-1, 1]."""

    def success(self) -> bool:
        """Whether the task is done now."""


MakeWorld = Callable[["Task"], SuiteWorld]
"""Makes a task's world. Equal ones make equal worlds; what raises is an ``error`` of the episode."""
