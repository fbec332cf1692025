"""Choices for LIBERO-PRO's kinds of variation that its files leave open: rules of ours, and checks of fit."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, TypeVar

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import but_last_part, last_part
from pytest_vla.plan.data_roots import DataRoot
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.literals import Literal
from pytest_vla.scene.problem import Problem, problem_of
from pytest_vla.scene.variation import INSTRUCTION, Edits, Params, ProblemEdit
from pytest_vla.scene.workspaces import WORKSPACES, workspace
from pytest_vla.suites.libero_pro.bodies import (
    STATES,
    Body,
    asked_of,
    bearing_of,
    bodies,
    bodies_of,
    crowded,
    declared,
    has_room,
    lacking,
    of_interest,
    reached,
    roots_of,
    within,
)
from pytest_vla.suites.libero_pro.edits import Pair, displaced, place_of, workspace_regions
from pytest_vla.suites.libero_pro.tables import NewTask, OodTable, entries_of, source_of, table_of
from pytest_vla.vary.kind import Draw
from pytest_vla.vary.space import LISTED, TEXT, Parameter

# LIBERO's classes that things can stand on: fixtures sink into floor and study table, whose surfaces are higher than
# where they are put; what has none is thrown about on the living room's table, for the same reason.
_WITH_FIXTURES = (
    "libero_tabletop_manipulation",
    "libero_kitchen_tabletop_manipulation",
    "libero_living_room_tabletop_manipulation",
)
_WITHOUT = (
    "libero_tabletop_manipulation",
    "libero_kitchen_tabletop_manipulation",
    "libero_study_tabletop_manipulation",
    "libero_floor_manipulation",
)
_RESTARTS = 20
_T = TypeVar("_T")


def unfit(problem: Problem, old: str, new: str, roots: tuple[DataRoot, ...]) -> str:
    """Return the reason that a category cannot replace another, in a few words, or empty if it can.

    Everything that facts and goal require of the old one must hold for the new one, and its files must be available.
    """
    if new not in bodies(roots):
        return lacking(new, roots)
    sites, states = asked_of(problem, old)
    body = bodies(roots)[new]
    if missing := sorted(sites - body.sites):
        return f"{new} has no {', '.join(missing)}"
    articulation = body.kind.articulation
    if missing := sorted(state for state in states if getattr(articulation, STATES[state], None) is None):
        return f"{new} cannot be asked to be {', '.join(missing)}"
    return ""


def swaps(problem: Problem, allowed: Mapping[str, Sequence[str]], generator: random.Random) -> tuple[Pair, ...]:
    """Draw pairs as upstream does: each object of interest, in a drawn order, with a partner that is still free."""
    standing = {name for name in declared(problem) if place_of(problem, name) is not None}
    names = [name for name in allowed if name in standing]
    generator.shuffle(names)
    used: set[str] = set()
    pairs = []
    for name in names:
        free = [other for other in allowed[name] if other in standing - used - {name}]
        if name in used or not free:
            continue
        other = generator.choice(free)
        used |= {name, other}
        pairs.append((name, other))
    return tuple(pairs)


def own_swaps(task: Task, generator: random.Random) -> tuple[Pair, ...]:
    """Draw pairs by a rule of ours: objects with objects and fixtures with fixtures, on workspace regions with room.

    Raises:
        VlaError: there are none.
    """
    problem, roots, allowed = problem_of(task), roots_of(task), partners_of(task)
    for _ in range(_RESTARTS):
        pairs = swaps(problem, allowed, generator)
        if pairs and (len(pairs) == 1 or has_room(problem, pairs, roots)):
            return pairs
    raise VlaError("no object of interest can be swapped: there is no partner with room at both places")


@cache
def partners_of(task: Task) -> Mapping[str, Sequence[str]]:
    """Return, by a rule of ours, the things with which each object of interest has room to change places."""
    problem, roots = problem_of(task), roots_of(task)
    regions = workspace_regions(problem)
    fixtures = {item.name for item in problem.fixtures}
    standing = [name for name in declared(problem) if place_of(problem, name) in regions]

    def partners(name: str) -> list[str]:
        others = [other for other in standing if other != name and (other in fixtures) == (name in fixtures)]
        return [other for other in others if has_room(problem, ((name, other),), roots)]

    return {name: found for name in of_interest(problem) if name in standing and (found := partners(name))}


@cache
def own_replacements(task: Task) -> tuple[tuple[str, str, str], ...]:
    """Return replacements: an object's category, one of similar size that is not in the scene, and the new instruction.

    Fixtures, and things that something is to stand on or in, are replaced only by things named by the same noun.

    Raises:
        VlaError: there is none.
    """
    problem, roots = problem_of(task), roots_of(task)
    here = declared(problem)
    kinds = dict.fromkeys(here[name].category for name in of_interest(problem))
    bearing = {item.category for item in problem.fixtures} | {here[name].category for name in bearing_of(problem)}
    found = []
    for old in (kind for kind in kinds if kind in bodies(roots)):
        for new, body in bodies(roots).items():
            if new in {item.category for item in here.values()} or not _alike(bodies(roots)[old], body):
                continue
            noun = old.rpartition("_")[2] == new.rpartition("_")[2]
            if not noun and (old in bearing or body.kind.articulation is not None or body.sites):
                continue
            told = _told(task.language, old, new)
            if told and not unfit(problem, old, new, roots):
                found.append((old, new, told))
    if not found:
        raise VlaError("the assets have no replacement of similar size that allows what the task asks")
    return tuple(found)


@cache
def unrelated_replacements(task: Task) -> tuple[tuple[str, str], ...]:
    """Return the categories of objects that the goal moves, each with one that no word of it names.

    The other thing may be up to twice as large, so that the gripper can still take it.

    Raises:
        VlaError: there is none.
    """
    problem, roots = problem_of(task), roots_of(task)
    here = {item.name: item.category for item in problem.objects}
    fixed = {here.get(name, "") for name in bearing_of(problem)}
    named = (name for literal in problem.goal for name in [*bodies_of(literal, problem)][:1])
    moved = [kind for kind in dict.fromkeys(here.get(name, "") for name in named) if kind and kind not in fixed]
    found = [
        (old, new)
        for old in moved
        if old in bodies(roots)
        for new, body in bodies(roots).items()
        if new not in {item.category for item in declared(problem).values()}
        and not {*old.split("_")} & {*new.split("_")}
        and body.kind.articulation is None
        and not body.sites
        and _alike(bodies(roots)[old], body, 2.0)
        and not unfit(problem, old, new, roots)
    ]
    if not found:
        raise VlaError("the assets have no unrelated thing that could stand for what the goal moves")
    return tuple(found)


@cache
def own_environments(task: Task) -> tuple[str, ...]:
    """Other problem classes on whose workspace everything would stand within the robot's reach.

    Raises:
        VlaError: there is none.
    """
    problem, roots = problem_of(task), roots_of(task)
    here = workspace(problem.name, problem.source)
    if here.fixture_height >= 0 and _has_fixtures(problem):
        # LIBERO's workspaces put fixtures some centimetres lower, as its own models have it.
        raise VlaError("its fixtures stand on its table, and would sink into the tables of LIBERO's environments")
    placed = [region for region in workspace_regions(problem).values() if region.key in _places(problem)]
    found = [
        name
        for name in (_WITH_FIXTURES if _has_fixtures(problem) else _WITHOUT)
        if (there := WORKSPACES[name]) != here
        and any(root.assets is not None and (root.assets / there.scene).is_file() for root in roots)
        and all(within(rectangle, there, 0.0) for region in placed for rectangle in region.ranges)
        and all(reached(rectangle, there) for region in placed for rectangle in region.ranges)
    ]
    if not found:
        raise VlaError("no other workspace holds its regions within the robot's reach, or their files are missing")
    return tuple(found)


@cache
def other_tasks(task: Task) -> tuple[tuple[Task, Problem], ...]:
    """Return the suite's tasks with another goal in the same scene, if that goal does not hold at the start.

    Raises:
        VlaError: there is none.
    """
    problem = problem_of(task)
    found = []
    for other in load_suite(task.suite, data=task.data).tasks:
        theirs = problem_of(other)
        asks_more = not set(theirs.goal) <= {*problem.goal, *map(_without_place, problem.init)}
        if asks_more and other.language != task.language and _same_scene(problem, theirs):
            found.append((other, theirs))
    if not found:
        raise VlaError(f"{task.suite} has no task with another goal in this scene")
    return tuple(found)


def own_paraphrase(task: Task, drawn: random.Random) -> tuple[str, str, str]:
    """Draw a paraphrase from our grammar with the task's meaning, and return it with its object and action type.

    Raises:
        VlaError: the grammar cannot read the instruction, or has no paraphrase of it.
    """
    from pytest_vla.language.generator import paraphrases
    from pytest_vla.vary.axes.language import names_in, paraphrase_cells

    scene = names_in(task)
    others = [o.language for o in load_suite(task.suite, data=task.data).tasks if not o.is_asked_as(task)]
    cells = paraphrase_cells()
    for object_type, action_type in drawn.sample(cells, len(cells)):
        if found := paraphrases(task.language, others, drawn, 1, object_type, action_type, scene):
            return found[0], object_type, action_type
    raise VlaError(f"our grammar has no paraphrase of {task.language!r}")


def movable(problem: Problem) -> str:
    """Return the thing that a displacement moves: the goal's first object on a workspace region, else a fixture.

    Raises:
        VlaError: nothing in the goal stands on one.
    """
    regions, here = workspace_regions(problem), declared(problem)
    named = [name for literal in problem.goal for name in bodies_of(literal, problem)]
    standing = [name for name in dict.fromkeys((*named, *of_interest(problem))) if place_of(problem, name) in regions]
    objects = {item.name for item in problem.objects}
    for name in sorted(standing, key=lambda name: name not in objects):
        if here[name].category != workspace(problem.name, problem.source).category:
            return name
    raise VlaError("nothing in the goal stands on a workspace region, so nothing can be displaced")


@cache
def side_of(task: Task, axis: str, sweep: tuple[float, ...]) -> tuple[int, tuple[str, ...]]:
    """Return the side of an axis, 1 or -1, on which the displaced thing has room at most of a sweep's steps.

    Returns:
        The side, drawn for the task if both have as many; and for each step the reason for missing room, or empty.

    Raises:
        VlaError: nothing can be displaced.
    """
    problem, roots = problem_of(task), roots_of(task)
    name = movable(problem)
    first = random.Random(f"{task.files}/{task.key}/displace_{axis}").choice((1, -1))

    def reasons(side: int) -> tuple[str, ...]:
        shifts = ((side * step, 0.0) if axis == "x" else (0.0, side * step) for step in sweep)
        return tuple(crowded(displaced(problem, name, x, y), name, roots) for x, y in shifts)

    found = [(side, reasons(side)) for side in (first, -first)]
    return max(found, key=lambda each: each[1].count(""))


def _alike(one: Body, other: Body, most: float = 1.5) -> bool:
    """Whether neither of two is more than `most` times as large as the other."""
    pairs = ((one.radius, other.radius), (one.height, other.height))
    return one != other and all(min(pair) >= max(pair) / most for pair in pairs)


def _told(instruction: str, old: str, new: str) -> str:
    """Return the instruction with the new name for the old one, or empty unless it names the old one exactly once."""
    words = old.split("_")
    for start in range(len(words)):
        name = " ".join(words[start:])
        found = list(re.finditer(rf"\b(the|a|an|and) {re.escape(name)}\b", instruction))
        if found and len(found) == len(re.findall(rf"\b{re.escape(words[-1])}s?\b", instruction)) == 1:
            return instruction.replace(found[0].group(), f"{found[0].group(1)} {new.replace('_', ' ')}")
    return ""


def _places(problem: Problem) -> set[str]:
    return {str(fact.arguments[1]) for fact in problem.init if fact.predicate == "on"}


def _has_fixtures(problem: Problem) -> bool:
    return any(item.category != workspace(problem.name, problem.source).category for item in problem.fixtures)


def _same_scene(one: Problem, other: Problem) -> bool:
    """Whether the same things stand there, and what can be opened or turned on is so in both."""
    states = [{fact for fact in map(_without_place, each.init) if fact.predicate in STATES} for each in (one, other)]
    keys = [{region.key for region in each.regions} for each in (one, other)]
    parts = [(each.name, set(each.fixtures), set(each.objects)) for each in (one, other)]
    return parts[0] == parts[1] and keys[0] == keys[1] and states[0] == states[1]


def _without_place(fact: Literal) -> Literal:
    return Literal(fact.predicate, fact.arguments)


# LIBERO-PRO's other tasks: another goal in the same scene, from the user's file or from the suite's own tasks.


def draw_task(draw: Draw) -> Params:
    """Another task in the same scene.

    Raises:
        VlaError: the scene has none, or none of those in the user's file can be read.
    """
    table = table_of(draw.task, "task")
    found, left_out = _other_tasks(table, draw.task)
    edit = draw.generator().choice(found)
    return {
        **source_of(table),
        "goal": [str(literal) for literal in edit.keywords["goal"]],
        "original": draw.task.language,
        **({"left_out": left_out} if left_out else {}),
        INSTRUCTION: _other_tasks_told(edit),
    }


def other_task(task: Task, params: Params) -> Edits:
    """Another task in the same scene: another instruction, goal and objects of interest.

    Raises:
        VlaError: the scene has none with this instruction.
    """
    found, _ = _other_tasks(table_of(task, "task"), task)
    edit = next((each for each in found if _other_tasks_told(each) == params[INSTRUCTION]), None)
    if edit is None:
        known = ", ".join(map(_other_tasks_told, found))
        raise VlaError(f"no other task of this scene is {params[INSTRUCTION]!r}; the other tasks are {known}")
    return replace(edited(task, edit), instruction=params[INSTRUCTION])


def space_of_tasks(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: the other tasks' instructions. Raises VlaError as `draw_task`."""
    found, _ = _other_tasks(table_of(task, "task"), task)
    return (Parameter(INSTRUCTION, LISTED, choices=tuple(map(_other_tasks_told, found))),)


# Two goals of one scene at once (LIBERO-PRO, Fig. 7): A is the task's own, B is another task's of the suite.


@dataclass(frozen=True)
class Companion:
    """A goal that can hold together with a task's own: from another task of the suite, or for another object."""

    name: str
    instruction: str
    goal: tuple[Literal, ...]
    objects_of_interest: tuple[str, ...]


SECOND, BOTH = "second", "both"
"""The parts of `composed`: the other goal alone, and both goals."""


def draw_composed(draw: Draw) -> Params:
    """Draw a second goal for the task's scene: the same for both parts of a seed.

    Raises:
        VlaError: the scene has none.
    """
    other = draw.shared(but_last_part(draw.label)).choice(companions(draw.task))
    is_both = last_part(draw.label) == BOTH
    goal = _both(problem_of(draw.task).goal, other.goal) if is_both else other.goal
    return {
        **source_of(None),
        "goal": [str(literal) for literal in goal],
        "original": draw.task.language,
        "other": other.name,
        "both": is_both,
        INSTRUCTION: f"{draw.task.language} and {other.instruction}" if is_both else other.instruction,
    }


def composed(task: Task, params: Params) -> Edits:
    """Return edits to the second goal, or to both goals at once. Raises VlaError if the scene has no such goal."""
    from pytest_vla.suites.libero_pro.edits import tasked

    other = next((each for each in companions(task) if each.name == params["other"]), None)
    if other is None:
        known = ", ".join(each.name for each in companions(task))
        raise VlaError(f"no second goal of this scene is {params['other']!r}; there are {known}")
    own, goal, interest = problem_of(task), other.goal, other.objects_of_interest
    if params["both"]:
        goal, interest = _both(own.goal, goal), _both(own.objects_of_interest, interest)
    edit = partial(tasked, instruction=params[INSTRUCTION], goal=goal, objects_of_interest=interest)
    return replace(edited(task, edit), instruction=params[INSTRUCTION])


def space_of_composed(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: the second goal, whether both are asked for, and the text. Raises VlaError."""
    names = tuple(each.name for each in companions(task))
    both = Parameter("both", LISTED, choices=(True, False))
    return Parameter("other", LISTED, choices=names), both, Parameter(INSTRUCTION, TEXT)


@cache
def companions(task: Task) -> tuple[Companion, ...]:
    """Return second goals: those of other tasks in the scene, or else the task's own goal for another object there.

    None says anything of what the task's own goal is about.

    Raises:
        VlaError: there is none.
    """
    problem = problem_of(task)
    about = {str(literal.arguments[0]) for literal in problem.goal}
    with suppress(VlaError):
        others = other_tasks(task)
        found = [Companion(o.name, o.language, p.goal, p.objects_of_interest) for o, p in others]
        if apart := tuple(each for each in found if not about & {str(fact.arguments[0]) for fact in each.goal}):
            return apart
    if made := tuple(_for_other_objects(task, problem)):
        return made
    raise VlaError(f"{task.suite} has no second goal for this scene that can hold together with the task's own")


def _for_other_objects(task: Task, problem: Problem) -> Iterator[Companion]:
    here = {item.name: item.category for item in problem.objects}
    moved = [str(fact.arguments[0]) for fact in problem.goal]
    fixed = {*moved, *bearing_of(problem)}
    if len(moved) != 1 or moved[0] not in here:
        return
    for name, category in here.items():
        told = _told(task.language, here[moved[0]], category)
        if name not in fixed and [*here.values()].count(category) == 1 and told:
            goal = tuple(replace(fact, arguments=(name, *fact.arguments[1:])) for fact in problem.goal)
            interest = tuple(name if each == moved[0] else each for each in problem.objects_of_interest)
            yield Companion(name, told, goal, interest)


def _both(own: tuple[_T, ...], other: tuple[_T, ...]) -> tuple[_T, ...]:
    return tuple(dict.fromkeys((*own, *other)))


def edited(task: Task, edit: ProblemEdit) -> Edits:
    """Return an edit, checked on the task's problem. Raises VlaError if the problem cannot have it."""
    edit(problem_of(task))
    return Edits(problem=(edit,))


def _other_tasks_told(edit: Any) -> str:
    return str(edit.keywords["instruction"])


def _other_tasks(table: OodTable | None, task: Task) -> tuple[list[Any], list[str]]:
    """Return the edits to other tasks, and the entries left out of the user's file with reasons. Raises VlaError."""
    from pytest_vla.suites.libero_pro.edits import tasked

    if table is not None:
        return _readable(table, task, problem_of(task))
    return [
        partial(
            tasked,
            instruction=other.language,
            goal=theirs.goal,
            objects_of_interest=theirs.objects_of_interest,
        )
        for other, theirs in other_tasks(task)
    ], []


def _readable(table: OodTable, task: Task, problem: "Problem") -> tuple[list[Any], list[str]]:
    """Return the edits of a task's entries with readable goals, and the entries left out with reasons."""
    from pytest_vla.suites.libero_pro.edits import goal_of, tasked

    known = {item.name for item in (*problem.fixtures, *problem.objects)} | {region.key for region in problem.regions}
    entries: tuple[NewTask, ...] = entries_of(table, task)
    found, wrong, left_out = [], [], []
    for entry in entries:
        where = f"{table.file}: {task.files}/{task.name}: {entry.instruction!r}: goal"
        interest = tuple(dict.fromkeys(name for name in entry.objects_of_interest if name in known))
        try:
            goal = goal_of(entry.goal, problem, where)
            edit = partial(tasked, instruction=entry.instruction, goal=goal, objects_of_interest=interest)
            edit(problem)
        except VlaError as error:
            wrong.append(str(error))
            continue
        found.append(edit)
        strangers = [name for name in entry.objects_of_interest if name not in known]
        left_out += [f"{name}, of interest to {entry.instruction!r}, is not in the scene" for name in strangers]
    if not found:
        raise VlaError(f"{'; '.join(wrong)}. Correct a copy of the file, or select other tasks with --vla-tasks")
    return found, [*left_out, *wrong]
