"""A world's verdicts: its task's goal, the instruction's goal, and the task's premises."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial

import mujoco

from pytest_vla.errors import UPSTREAM_CRASHES, EpisodeError, SceneError
from pytest_vla.plan.case import OURS, PAPER, UPSTREAM
from pytest_vla.scene.literals import CONNECTIVES
from pytest_vla.scene.problem import Literal, Problem
from pytest_vla.scene.scene import SceneSpec
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.costs.paper import connected, judged_as_written
from pytest_vla.sim.costs.setting import Crash, JudgedLiteral, Poses, Setting
from pytest_vla.sim.costs.upstream import judged_as_coded
from pytest_vla.sim.predicates import STATES, Verdict, compile_premises, compile_state

# Goals of tasks, judged by the rules that count: upstream's code, the paper, or ours.


def compile_goal(
    problem: Problem,
    scene: SceneSpec,
    model: mujoco.MjModel,
    data: mujoco.MjData,
    rules: str = OURS,
    drawn: Callable[[], Poses] = dict,
) -> tuple[tuple[str, Verdict], ...]:
    """Return the goal's literals, each with a function that gives its verdict on the present state of `data`.

    Literals are named as the file writes them, in its order; a goal holds when all of them do. As upstream, only the
    first top-level expression of the goal counts, except under the rules `paper`. A literal on which upstream's code
    raises is judged as the paper says, except under the rules `upstream`: there the function raises EpisodeError
    (``upstream-crashes``).

    Args:
        problem, scene, model, data: the world's.
        rules: one of `pytest_vla.plan.case.PROTOCOLS`.
        drawn: see `Setting`.

    Raises:
        SceneError: a literal that cannot be judged (located).
    """
    setting = Setting(problem, scene, model, data, drawn)
    goal = [literal for literal in problem.goal if literal.group == 0 or rules == PAPER]
    return tuple((str(literal), _compile(literal, setting, rules)) for literal in goal)


def _compile(literal: Literal, setting: Setting, rules: str) -> Verdict:
    judging = setting.workspace.judging
    if literal.predicate not in judging.goals:
        raise SceneError(f"{setting.where(literal)}: {literal}: this predicate cannot be a goal of LIBERO's tasks")
    if literal.predicate in STATES and not (judging.in_bodies and _is_in_body(literal, setting)):
        return compile_state(literal, setting.problem, setting.scene, setting.model, setting.data)
    if rules == UPSTREAM:
        return partial(_as_upstream, literal, setting.where(literal), judged_as_coded(literal, setting))
    judge = judged_as_written if rules == PAPER else _ours
    return judge(literal, setting).holds


def _is_in_body(literal: Literal, setting: Setting) -> bool:
    return literal.predicate == "in" and setting.scene.body(str(literal.arguments[1])) is not None


def _as_upstream(literal: Literal, where: str, judged: JudgedLiteral) -> bool:
    try:
        return judged.holds()
    except Crash as crash:
        raise EpisodeError(UPSTREAM_CRASHES, f"{where}: {literal}: upstream's code raises {crash}") from crash


def _ours(literal: Literal, setting: Setting) -> JudgedLiteral:
    """Compile a literal as coded; if the code crashes, as written in the paper."""
    if literal.predicate in CONNECTIVES:
        return connected(literal, partial(_ours, setting=setting))
    coded = judged_as_coded(literal, setting)
    if coded.crashes is not None:
        return judged_as_written(literal, setting)
    written = cache(partial(judged_as_written, literal, setting))

    def holds() -> bool:
        try:
            return coded.holds()
        except Crash:
            return written().holds()

    return JudgedLiteral(holds, coded.told)


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
    scene: SceneSpec,
    model: mujoco.MjModel,
    data: mujoco.MjData,
    rules: str = OURS,
    drawn: Callable[[], Poses] = dict,
) -> Verdicts:
    """Compile the verdicts on the present state of `data`.

    Args:
        problem: the task's, as the variation has changed it.
        variation: of the task, or None if it is unvaried.
        scene, model, data: the world's.
        rules: the rules that judge goals, one of `pytest_vla.plan.case.PROTOCOLS`.
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
    """Return the verdict of each literal, by its text."""
    return {name: verdict() for name, verdict in literals}


def all_of(literals: Iterable[tuple[str, Verdict]]) -> bool:
    """Whether all of them hold."""
    return all(verdict() for _, verdict in literals)
