"""LIBERO-PRO's changes of a problem: pure functions from one problem to another, of names and not of text."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from pytest_vla.errors import VlaError
from pytest_vla.scene.bddl import Origin, read_expression
from pytest_vla.scene.literals import Argument, Literal, Scope, all_names_of, read_condition
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.sections import Declaration, Region
from pytest_vla.scene.workspaces import workspace

Pair = tuple[str, str]


def place_of(problem: Problem, name: str) -> str | None:
    """Return the support of an object or fixture by its ``(On ...)`` fact in ``:init``, or None without one."""
    return next((str(fact.arguments[1]) for fact in problem.init if _is_on(fact, name)), None)


def swapped(problem: Problem, pairs: tuple[Pair, ...]) -> Problem:
    """Exchange the places of paired objects and fixtures in the facts.

    Regions, with their yaw, and the goal stay as they are.

    Raises:
        VlaError: a thing has no ``(On ...)`` fact or is in two pairs, or a partner stands on the other.
    """
    names = [name for pair in pairs for name in pair]
    if len(set(names)) < len(names):
        raise VlaError(f"{', '.join(names)}: each can be swapped once")
    places = {name: place for name in names if (place := place_of(problem, name)) is not None}
    if lacking := [name for name in names if name not in places]:
        raise VlaError(f"{', '.join(lacking)} cannot be swapped: :init has no (On ...) fact for it")
    to = {one: places[other] for pair in pairs for one, other in (pair, pair[::-1])}
    if below := [name for name, place in to.items() if place == name]:
        raise VlaError(f"{', '.join(below)} cannot be swapped with a thing that stands on it")
    if all(places[name] == place for name, place in to.items()):
        raise VlaError(f"{', '.join(names)} share one place: swapping them changes nothing")
    facts = tuple(
        replace(fact, arguments=(fact.arguments[0], to[name]))
        if (name := str(fact.arguments[0])) in to and _is_on(fact, name)
        else fact
        for fact in problem.init
    )
    return replace(problem, init=facts)


def moved_to(problem: Problem, name: str) -> Problem:
    """Return the problem on another workspace; regions, fixtures, objects and coordinates stay the same.

    Args:
        problem: any.
        name: the other problem class, lower-case.

    Raises:
        VlaError: there is no such class, or it is the problem's own.
    """
    here, there = workspace(problem.name, problem.source), workspace(name, problem.source)
    if here == there:
        raise VlaError(f"{problem.name} cannot be moved to itself: that changes nothing")
    fixtures = tuple(
        replace(item, category=there.category) if item.category == here.category else item for item in problem.fixtures
    )
    return _renamed(replace(problem, name=name, fixtures=fixtures), {here.name: there.name})


def replaced(problem: Problem, categories: Mapping[str, str]) -> Problem:
    """Replace some categories of objects and fixtures by others, and adapt their names.

    A name that begins with its category begins with the new one: ``plate_1`` becomes ``yellow_plate_1``; if that name
    is taken, it gets the next free number.

    Raises:
        VlaError: the problem has nothing in one of the categories, or a category would replace itself.
    """
    declared = (*problem.fixtures, *problem.objects)
    there = {item.category for item in declared}
    if absent := [name for name in categories if name not in there]:
        raise VlaError(f"the scene has nothing of category {', '.join(absent)}: replacing it changes nothing")
    if same := [old for old, new in categories.items() if old == new]:
        raise VlaError(f"{', '.join(same)} cannot be replaced by itself: that changes nothing")
    taken = {item.name for item in declared if item.category not in categories}
    names: dict[str, str] = {}
    for item in declared:
        if item.category in categories:
            names[item.name] = _free(_name(item, categories[item.category]), taken)
            taken.add(names[item.name])

    def of(items: tuple[Declaration, ...]) -> tuple[Declaration, ...]:
        return tuple(replace(item, category=categories.get(item.category, item.category)) for item in items)

    return _renamed(replace(problem, fixtures=of(problem.fixtures), objects=of(problem.objects)), names)


def tasked(
    problem: Problem, instruction: str, goal: tuple[Literal, ...], objects_of_interest: tuple[str, ...]
) -> Problem:
    """Another task in the same scene. Raises VlaError where its goal is the problem's own."""
    if set(goal) == set(problem.goal):
        raise VlaError(f"{instruction!r} has the task's own goal: it changes nothing")
    return replace(problem, language=instruction, goal=goal, objects_of_interest=objects_of_interest)


def goal_of(text: str, problem: Problem, source: str) -> tuple[Literal, ...]:
    """Parse a goal given as text, such as ``(And (On bowl_1 plate_1))``, as a problem's own goal is parsed.

    Args:
        text: the expression.
        problem: the problem whose objects, fixtures and regions it may name.
        source: the name used in errors.

    Raises:
        SceneError: it is malformed, or names a thing that the problem lacks.
    """
    origin = Origin(source)
    expression = read_expression(text, origin)
    section = replace(expression, items=(*read_expression("(:goal)", origin).items, expression))
    return read_condition(section, origin, _scope(problem))


def displaced(problem: Problem, name: str, x: float, y: float) -> Problem:
    """Move the region of an object or fixture by so many metres; other things there, and the goal's regions, stay.

    Raises:
        VlaError: it stands on no region of the workspace, or is not moved.
    """
    place = place_of(problem, name)
    region = workspace_regions(problem).get(place or "")
    if region is None or (x == 0 and y == 0):
        raise VlaError(f"{name} cannot be displaced by ({x}, {y}) m: it stands on no region of the workspace, or stays")
    ranges = tuple((_sum(x0, x), _sum(y0, y), _sum(x1, x), _sum(y1, y)) for x0, y0, x1, y1 in region.ranges)
    taken = {each.key for each in problem.regions}
    label = f"{region.name}_displaced"
    while f"{region.target}_{label}" in taken:
        label += "_again"
    new = replace(region, name=label, ranges=ranges)
    facts = tuple(replace(fact, arguments=(name, new.key)) if _is_on(fact, name) else fact for fact in problem.init)
    return replace(problem, regions=(*problem.regions, new), init=facts)


def workspace_regions(problem: Problem) -> dict[str, Region]:
    """Return the workspace's regions on which something can be placed, by key."""
    name = workspace(problem.name, problem.source).name
    return {region.key: region for region in problem.regions if region.target == name and region.ranges}


def dangling(problem: Problem) -> tuple[str, ...]:
    """Return names in facts, goal and cost that the problem lacks; empty for every parsed problem."""
    known = _scope(problem).names
    named = (name for literal in (*problem.init, *problem.goal, *problem.cost) for name in all_names_of(literal))
    return tuple(dict.fromkeys(name for name in named if name not in known))


def _is_on(fact: Literal, name: str) -> bool:
    return fact.predicate == "on" and len(fact.arguments) == 2 and fact.arguments[0] == name


def _sum(start: float, shift: float) -> float:
    return round(start + shift, 6)


def _scope(problem: Problem) -> Scope:
    declared = {item.name for item in (*problem.fixtures, *problem.objects)}
    keys = {region.key for region in problem.regions if region.target in declared}
    loose = {region.key: region.target for region in problem.regions if region.target not in declared}
    return Scope(frozenset({*declared, *keys}), loose)


def _name(item: Declaration, category: str) -> str:
    if item.name != item.category and not item.name.startswith(f"{item.category}_"):
        return item.name
    return category + item.name.removeprefix(item.category)


def _free(name: str, taken: set[str]) -> str:
    stem, _, last = name.rpartition("_")
    stem, number = (stem, int(last)) if stem and last.isdecimal() else (name, 1)
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    return name


def _renamed(problem: Problem, names: Mapping[str, str]) -> Problem:
    """Objects and fixtures under other names, wherever they stand, also in keys of their regions."""
    keys = {region.key: f"{names.get(region.target, region.target)}_{region.name}" for region in problem.regions}
    declared = [names.get(item.name, item.name) for item in (*problem.fixtures, *problem.objects)]
    if len(set(declared)) < len(declared) or len(set(keys.values())) < len(keys):
        raise VlaError(f"{', '.join(names.values())}: the scene has something of that name already")

    def new(name: str) -> str:
        return names.get(name) or keys.get(name, name)

    def declarations(items: tuple[Declaration, ...]) -> tuple[Declaration, ...]:
        return tuple(replace(item, name=new(item.name)) for item in items)

    return replace(
        problem,
        regions=tuple(replace(region, target=names.get(region.target, region.target)) for region in problem.regions),
        fixtures=declarations(problem.fixtures),
        objects=declarations(problem.objects),
        objects_of_interest=tuple(map(new, problem.objects_of_interest)),
        init=_literals(problem.init, new),
        goal=_literals(problem.goal, new),
        cost=_literals(problem.cost, new),
        movers=tuple(replace(mover, name=new(mover.name)) for mover in problem.movers),
    )


def _literals(literals: tuple[Literal, ...], new: Callable[[str], str]) -> tuple[Literal, ...]:
    def argument(value: Argument) -> Argument:
        if isinstance(value, Literal):
            return _literals((value,), new)[0]
        return new(value) if isinstance(value, str) else value

    return tuple(replace(each, arguments=tuple(map(argument, each.arguments))) for each in literals)
