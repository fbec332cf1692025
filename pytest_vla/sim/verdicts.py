"""What is judged of a world: its task's goal, what the instruction asks for, and what the task takes for granted."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial

import mujoco

from pytest_vla.plan.labels import OURS
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.scene import Scene
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.costs.setting import Poses
from pytest_vla.sim.goals import compile_goal
from pytest_vla.sim.predicates import Verdict, compile_premises

Named = tuple[tuple[str, Verdict], ...]


@dataclass(frozen=True)
class Verdicts:
    """Each literal by its text, with its verdict on the present state.

    Attributes:
        goal: the task's.
        asked: of the goal that the instruction asks for; the task's own, unless the variation says another.
        premises: gives what the task file's ``:init`` states of two things or of a joint; compiled when asked for.
    """

    goal: Named
    asked: Named
    premises: Callable[[], Named]


def compile_verdicts(
    problem: Problem,
    variation: Variation | None,
    scene: Scene,
    model: mujoco.MjModel,
    data: mujoco.MjData,
    rules: str = OURS,
    drawn: Callable[[], Poses] = dict,
) -> Verdicts:
    """What is judged on the present state of `data`.

    Args:
        problem: the task's, as the variation has changed it.
        variation: of the task; None: it is as it is.
        scene, model, data: of the world.
        rules: by which goals are judged, one of `pytest_vla.plan.labels.PROTOCOLS`.
        drawn: see `pytest_vla.sim.costs.setting.Setting`.

    Raises:
        SceneError: a literal that cannot be judged (located).
    """
    goal = compile_goal(problem, scene, model, data, rules, drawn)
    asked = problem if variation is None or variation.asked is None else variation.asked(problem)
    return Verdicts(
        goal,
        goal if asked is problem else compile_goal(asked, scene, model, data, rules, drawn),
        cache(partial(compile_premises, problem, scene, model, data)),
    )


def each_of(literals: Iterable[tuple[str, Verdict]]) -> dict[str, bool]:
    """The verdict of each literal, by its text."""
    return {name: verdict() for name, verdict in literals}


def all_of(literals: Iterable[tuple[str, Verdict]]) -> bool:
    """Whether all of them hold."""
    return all(verdict() for _, verdict in literals)
