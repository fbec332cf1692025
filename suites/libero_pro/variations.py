"""LIBERO-PRO's changes on any suite: object, position, instruction, task, environment; and displaced objects.

Where the user's LIBERO-PRO says something of a task's suite, its files are followed, else rules of ours are; the
parameter ``source`` says which.
"""

import random
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import combinations, product
from typing import Any

from pytest_vla.errors import VlaError
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
from pytest_vla.suites.libero_pro.tables import OURS, NewTask, OodTable, entries_of, source_of, table_of
from pytest_vla.vary.axes.language import space_of_text, told
from pytest_vla.vary.kind import Draw, VariationKind, always
from pytest_vla.vary.space import CHOICE, LISTED, NUMBER, TEXT, Parameter, Space

# Choices for LIBERO-PRO's kinds of variation that its files leave open: rules of ours, and checks of fit.

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


def _alike(one: Body, other: Body) -> bool:
    """Whether two are of one size, within a third of it."""
    pairs = ((one.radius, other.radius), (one.height, other.height))
    return one != other and all(min(pair) >= max(pair) / 1.5 for pair in pairs)


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


DIMENSION = "pro"

ORDER = ("swap", "environment", "object", "semantic")
"""In which upstream makes changes that are made together. Another task goes with none of them."""

UPSTREAMS_ENVIRONMENT = "libero_living_room_tabletop_manipulation"
"""What upstream's code replaces every environment by; its YAML names the present ones alone. The paper draws
one of LIBERO's five."""

UPSTREAMS = "environment_upstream"
"""The kind of it."""

_SWEEP = (0.1, 0.2, 0.3, 0.4, 0.5)
"""Displacements of the levels, m."""


def draw_swap(draw: Draw) -> Params:
    """Draw objects of interest and partners.

    Raises:
        VlaError: nothing can be swapped, or the user's file is malformed here.
    """

    table = table_of(draw.task, "swap")
    if table is None:
        pairs = own_swaps(draw.task, draw.generator())
    else:
        allowed = dict(entries_of(table, draw.task))
        pairs = swaps(problem_of(draw.task), allowed, draw.generator())
        if not pairs:
            raise VlaError(f"{table.file} names no two things in this scene")
    return {**source_of(table), "pairs": [list(pair) for pair in pairs]}


def swap(task: Task, params: Params) -> Edits:
    """Return edits that swap the places of objects and fixtures. Raises VlaError if they cannot be swapped."""
    from pytest_vla.suites.libero_pro.edits import swapped

    pairs = tuple((one, other) for one, other in params["pairs"])
    return edited(task, partial(swapped, pairs=pairs)) if pairs else Edits()


def space_of_swaps(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: each object of interest with its possible partners. Raises VlaError."""

    table = table_of(task, "swap")
    allowed = partners_of(task) if table is None else dict(entries_of(table, task))
    pairs = tuple([one, other] for one, others in allowed.items() for other in others)
    return (Parameter("pairs", CHOICE, choices=pairs, many=True, benign=()),)


def draw_environment(draw: Draw) -> Params:
    """Draw one of LIBERO's five tables and floors, other than the task's own, on which the scene fits.

    Raises:
        VlaError: none fits, or the user's file names another environment than the task's.
    """

    table = _environment_table(draw.task)
    return {**source_of(table), "environment": draw.generator().choice(own_environments(draw.task))}


def _environment_table(task: Task) -> OodTable | None:
    """Return the user's file of environments. Raises VlaError if it names an environment other than the task's."""
    from pytest_vla.scene.workspaces import workspace

    problem, table = problem_of(task), table_of(task, "environment")
    here = workspace(problem.name, problem.source).name
    if table is not None and here not in (named := entries_of(table, task)):
        raise VlaError(f"{table.file} gives the environment {', '.join(named)}, but it is {here}")
    return table


def draw_upstreams_environment(draw: Draw) -> Params:
    """Return the living room's table, which upstream's code uses for every task.

    Raises:
        VlaError: it is the task's own, or the user's file names another environment than the task's.
    """
    table = _environment_table(draw.task)
    if problem_of(draw.task).name == UPSTREAMS_ENVIRONMENT:
        raise VlaError(
            "upstream's code puts living_room_table for every environment, and it is that already: nothing would "
            "change. pro.environment draws others"
        )
    return {**source_of(table), "environment": UPSTREAMS_ENVIRONMENT}


def environment(task: Task, params: Params) -> Edits:
    """Return edits that move the scene to another table or floor, in its room, with its robot base. Raises VlaError."""
    from pytest_vla.suites.libero_pro.edits import moved_to

    return edited(task, partial(moved_to, name=params["environment"]))


def space_of_environments(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: the other environments that fit the scene. Raises VlaError."""

    return (Parameter("environment", LISTED, choices=tuple(own_environments(task))),)


def _has_other_environments(task: Task, params: Params) -> bool:

    return len(own_environments(task)) > 1


def draw_objects(draw: Draw) -> Params:
    """Other categories; of the user's file one is drawn for each that it lists.

    What cannot be had, as its category is unknown or its files are missing, is not drawn, and said in ``unavailable``.

    Raises:
        VlaError: nothing can be had, or the scene has not what is to be replaced.
    """
    from pytest_vla.suites.libero_pro.bodies import roots_of

    problem, table, roots = problem_of(draw.task), table_of(draw.task, "object"), roots_of(draw.task)
    generator, why = draw.generator(), []
    categories: dict[str, str] = {}
    if table is None:
        old, new, told = generator.choice(own_replacements(draw.task))
        instruction = {} if told == draw.task.language else {INSTRUCTION: told}
        return {**source_of(table), "categories": {old: new}, **instruction}
    listed = entries_of(table, draw.task)
    there = {item.category for item in (*problem.fixtures, *problem.objects)}
    if absent := [old for old, _ in listed if old not in there]:
        raise VlaError(f"{table.file} replaces {', '.join(absent)}, which the scene does not have")
    none_of = []
    for old, news in listed:
        reasons = {new: unfit(problem, old, new, roots) for new in news}
        why += [reason for reason in reasons.values() if reason]
        if usable := [new for new, reason in reasons.items() if not reason]:
            categories[old] = generator.choice(usable)
        else:
            none_of.append(f"{old} cannot be replaced: {'; '.join(reasons.values())}")
    if none_of:
        raise VlaError(
            f"{'. '.join(none_of)}. Put its asset files into assets/objects, with a category.toml. Without "
            f"{table.file.name} a rule of ours draws others"
        )
    return {**source_of(table), "categories": categories, **({"unavailable": why} if why else {})}


def replace_objects(task: Task, params: Params) -> Edits:
    """Return edits that change categories of objects or fixtures of interest. Raises VlaError if they are missing."""
    from pytest_vla.suites.libero_pro.edits import replaced

    edits = edited(task, partial(replaced, categories=dict(params["categories"])))
    return replace(edits, instruction=params.get(INSTRUCTION))


def space_of_objects(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: one replacement by our rule, or any that the user's file lists. Raises VlaError."""

    table = table_of(task, "object")
    if table is None:
        found = tuple({old: new} for old, new, _ in own_replacements(task))
    else:
        listed = entries_of(table, task)
        names = [old for old, _ in listed]
        found = tuple(dict(zip(names, news, strict=True)) for news in product(*(news for _, news in listed)))
    return Parameter("categories", LISTED, choices=found), Parameter(INSTRUCTION, TEXT, optional=True)


def draw_semantic(draw: Draw) -> Params:
    """Draw a paraphrase from the user's file, normalised as upstream's BDDL reader does, or without a file one of ours.

    Raises:
        VlaError: the file has no task of this name, an entry of the task is malformed, the text is the task's own, or
            our grammar has none.
    """

    table = table_of(draw.task, "semantic")
    if table is None:
        text, object_type, action_type = own_paraphrase(draw.task, draw.generator())
        about = {"object_type": object_type, "action_type": action_type, "original": draw.task.language}
        return {**source_of(table), **about, INSTRUCTION: text}
    texts = entries_of(table, draw.task)
    index = draw.generator().randrange(len(texts))
    if texts[index] == draw.task.language:
        raise VlaError(f"{texts[index]!r} is the task's own text: it changes nothing")
    return {**source_of(table), "index": index, "original": draw.task.language, INSTRUCTION: texts[index]}


def draw_displacement(axis: str, draw: Draw) -> Params:
    """Return a displacement along x or y by a tenth of a metre per level.

    The side belongs to the task and the axis: the one with room for most levels or, if both have as many, a drawn one.
    It is the same for all levels and seeds, so that they differ in distance only; this holds even if a camera no longer
    sees the object.

    Raises:
        VlaError: there is no room at this distance on this side, or nothing in the goal stands on the workspace.
    """

    name = movable(problem_of(draw.task))
    side, crowded_by = side_of(draw.task, axis, _SWEEP)
    metres = round(side * _SWEEP[draw.level - 1], 3)
    if why := crowded_by[draw.level - 1]:
        room = [level for level, reason in enumerate(crowded_by, 1) if not reason]
        left = f"levels {', '.join(map(str, room))} have room there" if room else "no level has room there"
        raise VlaError(f"{name} cannot be displaced along {axis} by {metres:+} m: {why}; {left}")
    shift = [metres, 0.0] if axis == "x" else [0.0, metres]
    return {"source": OURS, "object": name, "displacement": shift}


def displace(task: Task, params: Params) -> Edits:
    """Return edits that move an object's region along x and y (m)."""
    from pytest_vla.suites.libero_pro.edits import displaced

    x, y = params["displacement"]
    return Edits(problem=(partial(displaced, name=params["object"], x=x, y=y),) if x or y else ())


def space_of_displacement(axis: str, task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: the goal's first object, and its displacement. Raises VlaError."""

    return (
        Parameter("object", CHOICE, choices=(movable(problem_of(task)),)),
        Parameter("displacement", NUMBER, -_SWEEP[-1], _SWEEP[-1], 0.0, (2,), unit="m"),
    )


def draw_combined(draw: Draw) -> Params:
    """Draw several of `ORDER` at once, each as drawn alone with this seed; the instruction is the last one's text.

    Raises:
        VlaError: one of them cannot be had.
    """
    alone = replace(draw, part="", time=0)
    found: dict[str, Any] = {}
    text: dict[str, Any] = {}
    for name in draw.part.split("-"):
        part = replace(alone, label=f"{DIMENSION}.{name}")
        params = _SINGLE[name].sample(part)
        if draw.time and _SINGLE[name].again(draw.task, params):
            # The others stay, as they do by themselves.
            params = _SINGLE[name].sample(part.again(draw.time))
        found |= {f"{name}.{each}": value for each, value in params.items() if each != INSTRUCTION}
        text |= {each: value for each, value in params.items() if each == INSTRUCTION}
    return {**found, **text}


def combined(task: Task, params: Params) -> Edits:
    """Several changes, one after the other. Raises VlaError where one of them cannot be made after the others."""
    problem, edits = problem_of(task), []
    for name in ORDER:
        own = _own(name, params)
        for edit in _SINGLE[name].apply(task, own).problem if own and _SINGLE[name].scene else ():
            problem = edit(problem)
            edits.append(edit)
    return Edits(params.get(INSTRUCTION), problem=tuple(edits))


def space_of_combined(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: the parameters of all parts that the task can have, each optional."""
    found = []
    for name in ORDER:
        with suppress(VlaError):
            own = (each for each in _SINGLE[name].space(task) if each.name != INSTRUCTION)
            found += [replace(each, name=f"{name}.{each.name}", optional=True) for each in own]
    return *found, Parameter(INSTRUCTION, TEXT, optional=True)


def _again_combined(task: Task, params: Params) -> bool:
    return any(_SINGLE[name].again(task, own) for name in ORDER if (own := _own(name, params)))


def _own(name: str, params: Params) -> dict[str, Any]:
    """Return a part's own parameters among those of several."""
    return {each.removeprefix(f"{name}."): value for each, value in params.items() if each.startswith(f"{name}.")}


def combinations_of() -> tuple[str, ...]:
    """Return the parts of `combined`: every two, three and four of `ORDER`, such as ``swap-object``."""
    return tuple("-".join(names) for count in (2, 3, 4) for names in combinations(ORDER, count))


def _kind(
    name: str,
    about: str,
    sample: Callable[[Draw], Params],
    apply: Callable[[Task, Params], Edits],
    space: Space,
    scene: bool = True,
    **more: Any,
) -> VariationKind:
    source = "LIBERO-PRO"
    return VariationKind(
        f"{DIMENSION}.{name}", about, source, sample, apply, space, scene=scene, published=True, **more
    )


def _displacing(axis: str, about: str) -> VariationKind:
    return _kind(
        f"displace_{axis}",
        about,
        partial(draw_displacement, axis),
        displace,
        partial(space_of_displacement, axis),
        levels=(1, 2, 3, 4, 5),
        grades="0.1 to 0.5 m",
        again=always,
    )


_OBJECT = _kind(
    "object",
    "objects or fixtures of interest replaced by other categories",
    draw_objects,
    replace_objects,
    space_of_objects,
)
_SWAP = _kind(
    "swap",
    "objects of interest exchange places with others",
    draw_swap,
    swap,
    space_of_swaps,
    again=always,
)
_SEMANTIC = _kind(
    "semantic",
    "a paraphrase from LIBERO-PRO's ood_language.yaml (path from --vla-data), or from our grammar",
    draw_semantic,
    told,
    space_of_text,
    scene=False,
)
_ENVIRONMENT = _kind(
    "environment",
    "the same scene on another of LIBERO's tables or on the floor",
    draw_environment,
    environment,
    space_of_environments,
    again=_has_other_environments,
    as_upstream=f"{DIMENSION}.{UPSTREAMS}",
)
_UPSTREAMS_ENVIRONMENT = _kind(
    UPSTREAMS,
    "the same scene on the living room's table, as in upstream's code",
    draw_upstreams_environment,
    environment,
    lambda task: (Parameter("environment", LISTED, choices=(UPSTREAMS_ENVIRONMENT,)),),
)
_SINGLE = {"swap": _SWAP, "environment": _ENVIRONMENT, "object": _OBJECT, "semantic": _SEMANTIC}

KINDS = (
    _OBJECT,
    _SWAP,
    _SEMANTIC,
    _kind(
        "task",
        "another goal in the same scene, with its instruction",
        draw_task,
        other_task,
        space_of_tasks,
        alone=True,
    ),
    _ENVIRONMENT,
    _UPSTREAMS_ENVIRONMENT,
    _displacing("x", "the goal's first object moved farther or nearer"),
    _displacing("y", "the goal's first object moved to a side"),
    _kind(
        "combined",
        "two or more of swap, environment, object and semantic at once",
        draw_combined,
        combined,
        space_of_combined,
        parts=combinations_of,
        again=_again_combined,
    ),
)
