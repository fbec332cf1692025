"""What LIBERO-PRO's kinds draw from where its files say nothing of a task: rules of ours, and what fits where."""

import math
import os
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from pytest_vla.errors import VlaError
from pytest_vla.plan.data_roots import DataRoot, data_roots
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.literals import Literal
from pytest_vla.scene.problem import Declaration, Problem, Region
from pytest_vla.scene.task_files import problem_of
from pytest_vla.scene.workspaces import WORKSPACES, Workspace, workspace
from pytest_vla.suites.libero_pro.bodies import Body, body_of, known_categories, lacking
from pytest_vla.suites.libero_pro.edits import Pair, displaced, place_of, swapped, workspace_regions

Rectangle = tuple[float, float, float, float]

# Where things can stand (x0, y0, x1, y1), m, relative to a workspace's regions: within its collision geoms.
_TOPS: Mapping[str, Rectangle] = {
    "main_table": (-0.5, -0.6, 0.5, 0.6),
    "kitchen_table": (-0.5, -0.6, 0.5, 0.6),
    "living_room_table": (-0.8, -0.6, 0.33, 0.7),
    "study_table": (-0.3, -0.68, 0.7, 0.68),
    "coffee_table": (-0.35, -0.74, 0.35, 0.86),
    "floor": (-0.5, -1.0, 1.0, 1.0),
}
# Of the robot's base, m: nearer stands nothing in LIBERO's tasks; the hand reaches no farther.
_NEAREST, _FARTHEST = 0.25, 0.85
# Of the sum of two bounding circles' radii: what is between two regions. Corners of boxes make the circles wide.
_APART = 0.7
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
_STATES = {"open": "open_range", "close": "close_range", "turnon": "turn_on_range", "turnoff": "turn_off_range"}
_RESTARTS = 20


def roots_of(task: Task) -> tuple[DataRoot, ...]:
    """Where a task's assets are."""
    return _roots(str(task.data or ""), os.environ.get("PYTEST_VLA_DATA", ""))


@cache
def _roots(data: str, environment: str) -> tuple[DataRoot, ...]:
    return data_roots(data or None)


@cache
def bodies(roots: tuple[DataRoot, ...]) -> Mapping[str, Body]:
    """All categories whose model file is there."""
    return {name: body_of(name, roots) for name in known_categories(roots)}


def unfit(problem: Problem, old: str, new: str, roots: tuple[DataRoot, ...]) -> str:
    """Why a category cannot stand for another, in a few words; empty: it can.

    Everything that facts and goal say of the old one must be true of the new one, and its files must be there.
    """
    if new not in bodies(roots):
        return lacking(new, roots)
    sites, states = _asked_of(problem, old)
    body = bodies(roots)[new]
    if missing := sorted(sites - body.sites):
        return f"{new} has no {', '.join(missing)}"
    articulation = body.kind.articulation
    if missing := sorted(state for state in states if getattr(articulation, _STATES[state], None) is None):
        return f"{new} cannot be told to be {', '.join(missing)}"
    return ""


def swaps(problem: Problem, allowed: Mapping[str, Sequence[str]], generator: random.Random) -> tuple[Pair, ...]:
    """Pairs as upstream draws them: each object of interest, in a drawn order, with a partner that is free yet."""
    standing = {name for name in _declared(problem) if place_of(problem, name) is not None}
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
    """Pairs by a rule of ours: objects with objects and fixtures with fixtures, on regions of the workspace, with room.

    Raises:
        VlaError: there are none.
    """
    problem, roots, allowed = problem_of(task), roots_of(task), partners_of(task)
    for _ in range(_RESTARTS):
        pairs = swaps(problem, allowed, generator)
        if pairs and (len(pairs) == 1 or _has_room(problem, pairs, roots)):
            return pairs
    raise VlaError("no object of interest can be swapped: nothing of its sort stands where it would have room")


@cache
def partners_of(task: Task) -> Mapping[str, Sequence[str]]:
    """By a rule of ours, of each object of interest what it has room to change places with."""
    problem, roots = problem_of(task), roots_of(task)
    regions = workspace_regions(problem)
    fixtures = {item.name for item in problem.fixtures}
    standing = [name for name in _declared(problem) if place_of(problem, name) in regions]

    def partners(name: str) -> list[str]:
        others = [other for other in standing if other != name and (other in fixtures) == (name in fixtures)]
        return [other for other in others if _has_room(problem, ((name, other),), roots)]

    return {name: found for name in _of_interest(problem) if name in standing and (found := partners(name))}


@cache
def own_replacements(task: Task) -> tuple[tuple[str, str, str], ...]:
    """An object of interest's category, one of like size that the scene has not, and the instruction with its name.

    Fixtures, and what something is to stand on or in, are replaced by things of the same noun alone.

    Raises:
        VlaError: there is none.
    """
    problem, roots = problem_of(task), roots_of(task)
    here = _declared(problem)
    kinds = dict.fromkeys(here[name].category for name in _of_interest(problem))
    bearing = {item.category for item in problem.fixtures} | {here[name].category for name in _bearing(problem)}
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
        raise VlaError("no object of interest has another of like size, with what the task asks of it, in the assets")
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
        raise VlaError("its fixtures stand on top of its table, and would sink into those of LIBERO's environments")
    placed = [region for region in workspace_regions(problem).values() if region.key in _places(problem)]
    found = [
        name
        for name in (_WITH_FIXTURES if _has_fixtures(problem) else _WITHOUT)
        if (there := WORKSPACES[name]) != here
        and any(root.assets is not None and (root.assets / there.scene).is_file() for root in roots)
        and all(_within(rectangle, there, 0.0) for region in placed for rectangle in region.ranges)
        and all(_reached(rectangle, there) for region in placed for rectangle in region.ranges)
    ]
    if not found:
        raise VlaError("no other workspace holds its regions within the robot's reach, or their files are missing")
    return tuple(found)


@cache
def other_tasks(task: Task) -> tuple[tuple[Task, Problem], ...]:
    """Tasks of the suite with another goal in the same scene, which is not reached at the start.

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
        raise VlaError(f"no other task of {task.suite} has another goal in this scene")
    return tuple(found)


def own_paraphrase(task: Task, drawn: random.Random) -> tuple[str, str, str]:
    """A text that means what the task's does, by our grammar, and its object and action type.

    Raises:
        VlaError: the grammar cannot read the instruction, or has no paraphrase of it.
    """
    from pytest_vla.language.generator import paraphrases
    from pytest_vla.vary.axes.language import names_in, paraphrase_cells

    scene = names_in(task)
    others = [other.language for other in load_suite(task.suite, data=task.data).tasks if other.name != task.name]
    cells = paraphrase_cells()
    for object_type, action_type in drawn.sample(cells, len(cells)):
        if found := paraphrases(task.language, others, drawn, 1, object_type, action_type, scene):
            return found[0], object_type, action_type
    raise VlaError(f"there is no paraphrase of {task.language!r}")


def movable(problem: Problem) -> str:
    """What a displacement moves: the goal's first object on a region of the workspace; a fixture, if there is none.

    Raises:
        VlaError: nothing of the goal stands on one.
    """
    regions, here = workspace_regions(problem), _declared(problem)
    named = [name for literal in problem.goal for name in _bodies_of(literal, problem)]
    standing = [name for name in dict.fromkeys((*named, *_of_interest(problem))) if place_of(problem, name) in regions]
    objects = {item.name for item in problem.objects}
    for name in sorted(standing, key=lambda name: name not in objects):
        if here[name].category != workspace(problem.name, problem.source).category:
            return name
    raise VlaError("nothing that the goal names stands on a region of the workspace, so nothing can be displaced")


@cache
def side_of(task: Task, axis: str, sweep: tuple[float, ...]) -> tuple[int, tuple[str, ...]]:
    """The side of an axis, 1 or -1, on which what a displacement moves has room for most of a sweep's steps.

    Returns:
        The side, drawn for the task where both have as many; and of each step why there is no room, empty: there is.

    Raises:
        VlaError: nothing can be displaced.
    """
    problem, roots = problem_of(task), roots_of(task)
    name = movable(problem)
    first = random.Random(f"{task.files}/{task.name}/displace_{axis}").choice((1, -1))

    def reasons(side: int) -> tuple[str, ...]:
        shifts = ((side * step, 0.0) if axis == "x" else (0.0, side * step) for step in sweep)
        return tuple(crowded(displaced(problem, name, x, y), name, roots) for x, y in shifts)

    found = [(side, reasons(side)) for side in (first, -first)]
    return max(found, key=lambda each: each[1].count(""))


def crowded(problem: Problem, name: str, roots: tuple[DataRoot, ...]) -> str:
    """Why there is no room for a thing where its region is; empty: there is."""
    place = workspace(problem.name, problem.source)
    region = workspace_regions(problem)[str(place_of(problem, name))]
    radius = _radius(problem, name, roots)
    for rectangle in region.ranges:
        if not _within(rectangle, place, min(radius, 0.05)):
            return f"it would leave {place.name}"
        if _distance(rectangle, place) < _NEAREST:
            return "it would stand in the robot"
    for other, near in _neighbours(problem, name):
        apart = _APART * (radius + _radius(problem, other, roots))
        if any(_gap(one, two) < apart for one in region.ranges for two in near):
            return f"{other} is in its way"
    return ""


def _has_room(problem: Problem, pairs: tuple[Pair, ...], roots: tuple[DataRoot, ...]) -> bool:
    try:
        changed = swapped(problem, pairs)
    except VlaError:
        return False
    return not any(crowded(changed, name, roots) for pair in pairs for name in pair)


def _declared(problem: Problem) -> dict[str, Declaration]:
    return {item.name: item for item in (*problem.fixtures, *problem.objects)}


def _of_interest(problem: Problem) -> tuple[str, ...]:
    """Objects and fixtures of interest, also where their regions are."""
    here = _declared(problem)
    targets = {region.key: region.target for region in problem.regions}
    named = (name if name in here else targets.get(name, "") for name in problem.objects_of_interest)
    place = workspace(problem.name, problem.source).category
    return tuple(dict.fromkeys(name for name in named if name in here and here[name].category != place))


def _bodies_of(literal: Literal, problem: Problem) -> Iterator[str]:
    here = _declared(problem)
    targets = {region.key: region.target for region in problem.regions}
    for argument in literal.arguments:
        if isinstance(argument, Literal):
            yield from _bodies_of(argument, problem)
        elif isinstance(argument, str):
            name = argument if argument in here else targets.get(argument, "")
            yield from [name] if name in here else []


def _asked_of(problem: Problem, category: str) -> tuple[set[str], set[str]]:
    """Sites and states that facts and goal name of a category's objects or fixtures."""
    names = {item.name for item in _declared(problem).values() if item.category == category}
    sites = {region.key: region.name for region in problem.regions if region.target in names}
    asked: tuple[set[str], set[str]] = set(), set()

    def read(literal: Literal) -> None:
        for argument in literal.arguments:
            if isinstance(argument, Literal):
                read(argument)
            elif argument in sites or argument in names:
                asked[0].update([sites[str(argument)]] if argument in sites else [])
                asked[1].update([literal.predicate] if literal.predicate in _STATES else [])

    for literal in (*problem.init, *problem.goal, *problem.cost):
        read(literal)
    return asked


def _bearing(problem: Problem) -> Iterator[str]:
    """Objects and fixtures on or in which facts and goal have something."""
    for literal in (*problem.init, *problem.goal):
        if len(literal.arguments) == 2:
            yield from _bodies_of(Literal(literal.predicate, literal.arguments[1:]), problem)


def _alike(one: Body, other: Body) -> bool:
    """Whether two are of one size, within a third of it."""
    pairs = ((one.radius, other.radius), (one.height, other.height))
    return one != other and all(min(pair) >= max(pair) / 1.5 for pair in pairs)


def _told(instruction: str, old: str, new: str) -> str:
    """The instruction with the new one's name for the old one's; empty: it does not name that once, by itself."""
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


def _within(rectangle: Rectangle, place: Workspace, margin: float) -> bool:
    x0, y0, x1, y1 = _TOPS[place.name]
    left, near, right, far = rectangle
    return x0 + margin <= left and y0 + margin <= near and right <= x1 - margin and far <= y1 - margin


def _distance(rectangle: Rectangle, place: Workspace) -> float:
    """From the robot's base to a rectangle's centre, m."""
    x, y = (rectangle[0] + rectangle[2]) / 2, (rectangle[1] + rectangle[3]) / 2
    return math.hypot(x + place.offset[0] - place.robot_base[0], y + place.offset[1] - place.robot_base[1])


def _reached(rectangle: Rectangle, place: Workspace) -> bool:
    return _NEAREST <= _distance(rectangle, place) <= _FARTHEST


def _gap(one: Rectangle, two: Rectangle) -> float:
    """The least distance of two rectangles, m."""
    x = max(one[0] - two[2], two[0] - one[2], 0.0)
    y = max(one[1] - two[3], two[1] - one[3], 0.0)
    return math.hypot(x, y)


def _neighbours(problem: Problem, name: str) -> Iterator[tuple[str, tuple[Rectangle, ...]]]:
    regions = workspace_regions(problem)
    for other in _declared(problem):
        region: Region | None = regions.get(place_of(problem, other) or "")
        if other != name and region is not None:
            yield other, region.ranges


def _radius(problem: Problem, name: str, roots: tuple[DataRoot, ...]) -> float:
    found = bodies(roots).get(_declared(problem)[name].category)
    return found.radius if found is not None else 0.0


def _same_scene(one: Problem, other: Problem) -> bool:
    """Whether the same things stand there, and what can be opened or turned on is so in both."""
    states = [{fact for fact in map(_without_place, each.init) if fact.predicate in _STATES} for each in (one, other)]
    keys = [{region.key for region in each.regions} for each in (one, other)]
    parts = [(each.name, set(each.fixtures), set(each.objects)) for each in (one, other)]
    return parts[0] == parts[1] and keys[0] == keys[1] and states[0] == states[1]


def _without_place(fact: Literal) -> Literal:
    return Literal(fact.predicate, fact.arguments)
