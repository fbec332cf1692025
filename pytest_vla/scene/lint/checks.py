"""All checks of a task's text: its sections, regions, motions, goals and costs."""

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.scene.bddl import Atom
from pytest_vla.scene.compose import part_sites
from pytest_vla.scene.lint.conditions import (
    CategoryOf,
    Facts,
    ModelFacts,
    check_conditions,
    check_names,
    leaves,
    things_of,
)
from pytest_vla.scene.lint.reading import LintFinding, TaskText, place_of
from pytest_vla.scene.literals import geom_name, geom_number, missing_parts, names_of
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.sections import Declaration, Mover, Rectangle, Region, Vector
from pytest_vla.scene.workspaces import REACH, Workspace, workspace
from pytest_vla.util.documents import read_xml
from pytest_vla.util.text import did_you_mean

# Lint of a task's sections: objects and fixtures, regions, and motions.


def check_things(task: TaskText, problem: Problem) -> Iterator[LintFinding]:
    """Yield findings on declarations, places in :init, and :obj_of_interest."""
    try:
        workspace(problem.name, problem.source)
    except VlaError as error:
        yield task.found("S005", task.sections.get("problem"), str(error).removeprefix(f"{problem.source}: "))
    yield from _listed_twice(task, problem)
    yield from _interesting(task, problem)
    if ":init" not in task.broken:
        yield from _unplaced(task, problem)
        yield from _places(task, problem)


def check_categories(
    task: TaskText, problem: Problem, refusal: Callable[[Declaration], str | None]
) -> Iterator[LintFinding]:
    """Yield findings on declarations of unknown categories.

    Args:
        task: the problem's task.
        problem: its things.
        refusal: returns why a thing's category cannot be used, or None if it can.
    """
    standing = _standing(problem)
    for item in (*problem.fixtures, *problem.objects):
        reason = None if item.category in standing else refusal(item)
        if reason is not None:
            yield task.found("O003", item, reason)


def _standing(problem: Problem) -> frozenset[str]:
    """Return the categories that the arena brings: table or floor."""
    place = place_of(problem)
    return frozenset((place.category,) if place is not None else ("table", "floor"))


def _listed_twice(task: TaskText, problem: Problem) -> Iterator[LintFinding]:
    """Yield findings on ``a_1 - a b_1 - b a_2 - a``: upstream's table has one list per category."""
    for section in (problem.fixtures, problem.objects):
        ended: dict[str, str] = {}
        for before, item in zip((None, *section), section, strict=False):
            if before is not None and before.category != item.category:
                ended[before.category] = before.name
            if item.category in ended:
                yield task.found(
                    "O006",
                    item,
                    f"the category {item.category} is listed twice, and upstream forgets the first list, with "
                    f"{ended.pop(item.category)}; list all of a category together: NAME NAME - {item.category}",
                )


def _interesting(task: TaskText, problem: Problem) -> Iterator[LintFinding]:
    known = {item.name for item in (*problem.objects, *problem.fixtures)} | {each.key for each in problem.regions}
    section = task.sections.get(":obj_of_interest")
    places = {item.text.lower(): item for item in (section.items if section else ()) if isinstance(item, Atom)}
    for name in problem.objects_of_interest:
        if name not in known:
            yield task.found(
                "O002",
                places.get(name, section),
                f":obj_of_interest names {name!r}, which is not declared: upstream's segmentation lacks it."
                f"{did_you_mean(name, known)} Name what the task is about",
            )


def _unplaced(task: TaskText, problem: Problem) -> Iterator[LintFinding]:
    placed = {str(literal.arguments[0]) for literal in problem.init if literal.predicate in ("on", "in")}
    standing = _standing(problem)
    for item in (*problem.fixtures, *problem.objects):
        if item.name not in placed and item.category not in standing:
            yield task.found(
                "O001",
                item,
                f"{item.name!r} is declared, but :init does not place it: it lies at its model's origin, in the way of "
                f"arm and furniture; add (On {item.name} REGION) to :init, or remove it",
            )


def _places(task: TaskText, problem: Problem) -> Iterator[LintFinding]:
    """Yield findings on things that are placed twice, or on a thing that has no place itself."""
    first: dict[str, int] = {}
    objects = {item.name for item in problem.objects}
    placing = [literal for literal in problem.init if literal.predicate in ("on", "in") and len(literal.arguments) == 2]
    for literal in placing:
        name = str(literal.arguments[0])
        if name in first:
            yield task.found(
                "O004", literal, f"{name!r} is placed twice (first in line {first[name]}); keep one of its literals"
            )
        first.setdefault(name, literal.line)
    # Upstream places things that stand on other things last, in the file's order.
    done = {str(each.arguments[0]) for each in placing if str(each.arguments[1]) not in objects}
    for literal in placing:
        name, target = map(str, literal.arguments)
        if target in objects and target not in done:
            yield task.found(
                "O005",
                literal,
                f"{name!r} stands on {target!r}, which is not placed before it; give {target!r} its own (On ...) "
                "above this one",
            )
        done.add(name)


# Regions: their keys, targets and rectangles.


def check_regions(task: TaskText, problem: Problem) -> Iterator[LintFinding]:
    """Yield findings on :regions."""
    yield from _same_key(task, problem)
    yield from _undeclared(task, problem)
    place = place_of(problem)
    if place is not None:
        yield from _without_rectangle(task, problem, place)
        yield from _out_of_reach(task, problem, place)
    yield from _further_rectangles(task, problem)


def used_regions(problem: Problem) -> dict[str, Region]:
    """Return the regions that :init, :goal or :cost name, by their keys, the last of each key."""
    used = {name for literal in leaves((*problem.init, *problem.goal, *problem.cost)) for name in names_of(literal)}
    return {region.key: region for region in problem.regions if region.key in used}


def _same_key(task: TaskText, problem: Problem) -> Iterator[LintFinding]:
    first: dict[str, Region] = {}
    for region in problem.regions:
        if region.key in first and region != first[region.key]:
            where = f"(first in line {first[region.key].line})"
            yield task.found(
                "R001",
                region,
                f"the region {region.key} is declared twice {where}, and upstream keeps the last; remove one, or call "
                "it otherwise",
            )
        first.setdefault(region.key, region)


def _undeclared(task: TaskText, problem: Problem) -> Iterator[LintFinding]:
    known = {item.name for item in (*problem.objects, *problem.fixtures)}
    found: dict[str, list[Region]] = {}
    for region in problem.regions:
        if region.target not in known:
            found.setdefault(region.target, []).append(region)
    for target, regions in found.items():
        yield task.found(
            "R004",
            regions[0],
            f"{', '.join(region.name for region in regions)}: the target {target!r} is not declared, so the region is "
            "ignored; declare it in :objects or :fixtures, or remove the region",
        )


def _without_rectangle(task: TaskText, problem: Problem, place: Workspace) -> Iterator[LintFinding]:
    for region in problem.regions:
        if region.target == place.name and not region.ranges:
            yield task.found(
                "R006",
                region,
                f"the region {region.name} of {place.name} has no rectangle; add (:ranges ((X0 Y0 X1 Y1)))",
            )


def _out_of_reach(task: TaskText, problem: Problem, place: Workspace) -> Iterator[LintFinding]:
    """Yield findings on the start and goal regions of the goal's things that the arm does not reach."""
    regions = {region.key: region for region in problem.regions}
    goal = {name for literal in leaves(problem.goal) for name in names_of(literal)}
    wanted = {name: name for name in goal}
    for literal in problem.init:
        names = names_of(literal)
        if literal.predicate == "on" and len(names) == 2 and names[0] in goal:
            wanted.setdefault(names[1], names[0])
    fixtures = {item.name for item in problem.fixtures}
    for key, thing in wanted.items():
        region = regions.get(key)
        # A fixture's handle or top may be nearer than its middle.
        if region is None or region.target != place.name or not region.ranges or thing in fixtures:
            continue
        nearest = min(_distance(rectangle, place) for rectangle in region.ranges)
        if nearest > REACH:
            yield task.found(
                "R002",
                region,
                f"the region {region.name} is {nearest:.2f} m from the arm's base, which reaches {REACH} m: "
                f"{thing if thing != key else 'what belongs there'} cannot be handled; move it nearer to x = "
                f"{place.robot_base[0] - place.offset[0]:.2f}, y = {place.robot_base[1] - place.offset[1]:.2f}",
            )


def _distance(rectangle: Rectangle, place: Workspace) -> float:
    """Compute the distance (m) from the arm's base to a rectangle's middle, seen from above."""
    x0, y0, x1, y1 = rectangle
    x, y = (x0 + x1) / 2 + place.offset[0], (y0 + y1) / 2 + place.offset[1]
    return math.dist((x, y), place.robot_base[:2])


def _further_rectangles(task: TaskText, problem: Problem) -> Iterator[LintFinding]:
    judged = {name for literal in leaves((*problem.goal, *problem.cost)) for name in names_of(literal)}
    for region in problem.regions:
        if len(region.ranges) > 1 and region.key in judged:
            yield task.found(
                "R007",
                region,
                f"the region {region.name} has {len(region.ranges)} rectangles, and goal and cost look at the first "
                "alone; make it one rectangle",
            )


# Motions of :moving_objects, as VLA-Arena's generators read them.

_NEVER_READ = ("speed", "radius", "quat", "pos", "angle")
_READ = {
    "linear": ("period", "travel_dist", "direction"),
    "circle": ("period", "center"),
    "waypoint": ("waypoints", "dt"),
    "parabolic": ("start_pos", "start_quat", "initial_speed", "direction", "dt", "gravity"),
}
_ATTRIBUTES = (*_NEVER_READ, *dict.fromkeys(name for names in _READ.values() for name in names), "loop")
_CENTER = (0.0, 0.0, 1.2)
_NEAR = 0.05  # m


def check_movers(task: TaskText, problem: Problem) -> Iterator[LintFinding]:
    """Yield findings on :moving_objects."""
    moved = {mover.name for mover in problem.movers}
    for literal in leaves(problem.cost):
        names = names_of(literal)
        if literal.predicate == "incontact" and len(names) == 2 and names[0] in moved and names[1] not in moved:
            yield task.found(
                "M007",
                literal,
                f"{literal}: upstream stops a mover where it is the second of the two, and {names[0]} goes on pushing; "
                f"write (InContact {names[1]} {names[0]})",
            )
    for mover in problem.movers:
        if mover.crashes:
            yield task.found(
                "M008", mover, f"{mover.name}: upstream's code raises {mover.crashes}; write it in upstream's form"
            )
        yield from _unmovable(task, mover)
        yield from _unread(task, mover)
        yield from _odd(task, mover)
        region = _begins_in(problem, mover)
        if mover.motion_type == "circle":
            yield from _tilted(task, problem, mover, region)
        if mover.motion_type == "waypoint" and region is not None:
            yield from _torn(task, problem, mover, region)


def _unmovable(task: TaskText, mover: Mover) -> Iterator[LintFinding]:
    name, kind = mover.name, mover.motion_type
    if kind == "linear":
        period = 1.0 if mover.period is None else mover.period
        if round(period) < 2:
            default = " (the default)" if mover.period is None else ""
            yield task.found(
                "M001",
                mover,
                f"{name} moves with a period of {period:g} control steps{default}: upstream divides by half of it, "
                "which is 0; give (:motion_period NUMBER) of 2 or more",
            )
        if mover.direction is not None and not any(mover.direction):
            yield task.found("M001", mover, f"{name} moves in the direction (0 0 0), which has no length; give another")
    if kind == "circle" and (1.0 if mover.period is None else mover.period) == 0:
        yield task.found("M001", mover, f"{name} moves with a period of 0, and upstream divides by it; give another")
    if kind == "waypoint" and not mover.waypoints:
        yield task.found("M001", mover, f"{name} has no waypoints; add (:motion_waypoints (((X Y Z) (DX DY DZ)) ...))")
    if kind == "waypoint" and mover.dt is not None and mover.dt <= 0:
        yield task.found("M001", mover, f"{name} moves with a dt of {mover.dt:g}; give one above 0")
    if kind == "parabolic" and mover.direction is not None and not any(mover.direction):
        yield task.found("M001", mover, f"{name} flies in the direction (0 0 0), which has no length; give another")


def _unread(task: TaskText, mover: Mover) -> Iterator[LintFinding]:
    read = _READ.get(mover.motion_type)
    if read is None:
        return
    given = [name for name in _ATTRIBUTES if getattr(mover, name) not in (None, ())]
    # (:motion_loop true) is the default behaviour.
    dead = [name for name in given if name not in read and not (name == "loop" and mover.loop is not False)]
    if dead:
        shown = ", ".join(f":motion_{name}" for name in dead)
        yield task.found(
            "M002",
            mover,
            f"{mover.name}: upstream's {mover.motion_type} motion ignores {shown}; remove it. It reads "
            f"{', '.join(f':motion_{name}' for name in read)}",
        )
    if any(direction[0] == 0 and direction[1] < 0 and direction[2] == 0 for _, direction in mover.waypoints):
        yield task.found(
            "M006",
            mover,
            f"{mover.name}: at a waypoint whose direction is (0 -Y 0) upstream turns it as for (0 Y 0); write "
            "(0.001 -1 0)",
        )


def _odd(task: TaskText, mover: Mover) -> Iterator[LintFinding]:
    if (
        mover.motion_type == "linear"
        and mover.period is not None
        and round(mover.period) >= 2
        and round(mover.period) % 2
    ):
        period = round(mover.period)
        yield task.found(
            "M004",
            mover,
            f"{mover.name} has the odd period {period}: upstream's motion repeats after {period - 1} control steps; "
            "give an even one",
        )


def _begins_in(problem: Problem, mover: Mover) -> Region | None:
    keys = {
        str(literal.arguments[1])
        for literal in problem.init
        if literal.predicate == "on" and len(literal.arguments) == 2 and literal.arguments[0] == mover.name
    }
    found = [region for region in problem.regions if region.key in keys and region.ranges]
    return found[-1] if found else None


def _tilted(task: TaskText, problem: Problem, mover: Mover, region: Region | None) -> Iterator[LintFinding]:
    center = mover.center or _CENTER
    place = place_of(problem)
    if region is not None and place is not None and math.dist(_middle(region, place.offset), center[:2]) < 1e-3:
        yield task.found(
            "M001",
            mover,
            f"{mover.name} begins in the middle of its circle, which has no radius then; move :motion_center",
        )
    top = place.offset[2] if place is not None else 0.9
    if center[2] <= top or region is None:
        yield task.found(
            "M003",
            mover,
            f"{mover.name} circles about a point at z = {center[2]:g} m, and its own middle stands above {top:g} m: "
            "upstream keeps the difference as part of the radius, so that for half of each turn the thing is pulled "
            "into the table; give :motion_center the height of the thing's middle. --vla-protocol=paper keeps the "
            "circle level",
        )


def _torn(task: TaskText, problem: Problem, mover: Mover, region: Region) -> Iterator[LintFinding]:
    place = place_of(problem)
    if place is None or not mover.waypoints:
        return
    distance = math.dist(_middle(region, place.offset), mover.waypoints[0][0][:2])
    if distance > _NEAR:
        yield task.found(
            "M005",
            mover,
            f"{mover.name} begins {100 * distance:.0f} cm from its first waypoint, and is pulled there in the first "
            "step; begin at the waypoint, or move it",
        )


def _middle(region: Region, offset: Vector) -> tuple[float, float]:
    x0, y0, x1, y1 = region.ranges[0]
    return (x0 + x1) / 2 + offset[0], (y0 + y1) / 2 + offset[1]


def check_text(task: TaskText) -> Iterator[LintFinding]:
    """Yield all findings on a task's text, as far as it could be read."""
    yield from task.findings
    if task.problem is not None:
        for check in (check_things, check_regions, check_conditions, check_movers):
            yield from check(task, task.problem)


# Checks of a task's text against its things' models: parts, geoms, sizes, and the length of a state.

_ROBOT = 1 + 9 + 9
"""Numbers of a state that are no thing's: time, and position and velocity of seven joints and two fingers."""


FactsOf = Callable[[Declaration], ModelFacts | None]


@lru_cache(512)
def read_model(path: Path) -> ModelFacts | None:
    """Return the facts of a model's file, or None if it is no readable model."""
    try:
        root = read_xml(path)
        body = root.find("./worldbody/body/body[@name='object']")
        if body is None:
            return None
        groups = _groups(root)
        radius = root.find("./worldbody/body/site[@name='horizontal_radius_site']")
        return ModelFacts(
            len(body.findall(".//joint")),
            part_sites([body, *body.findall(".//body")]),
            tuple(
                geom_number(geom_name(index, geom.get("name")))
                for index, geom in enumerate(body.iter("geom"))
                if (geom.get("group") or groups.get(geom.get("class", ""), "0")) == "0"
            ),
            float(radius.get("pos", "0").split()[0]) if radius is not None else 0.0,
        )
    except (OSError, ValueError, IndexError, ElementTree.ParseError):
        return None


def _groups(root: ElementTree.Element) -> Mapping[str, str]:
    """Return the geom groups that default classes set."""
    found = {}
    for default in root.iter("default"):
        geom = default.find("./geom")
        if geom is not None and geom.get("group") is not None:
            found[default.get("class", "")] = geom.get("group", "0")
    return found


def check_models(
    task: TaskText, problem: Problem, facts_of: FactsOf, category_of: CategoryOf = lambda item: None
) -> Iterator[LintFinding]:
    """Yield findings on names and numbers in a task's text that its models do not have."""
    facts = {item.name: facts_of(item) for item in (*problem.fixtures, *problem.objects)}
    yield from check_names(task, problem, facts, category_of)
    yield from _parts(task, problem, facts)
    yield from _geoms(task, problem, facts)
    yield from _whole_fixtures(task, problem, facts)
    yield from _small(task, problem, facts)


def _parts(task: TaskText, problem: Problem, facts: Facts) -> Iterator[LintFinding]:
    for region in used_regions(problem).values():
        model = facts.get(region.target)
        if model is not None and region.name not in model.sites and not region.ranges:
            known = ", ".join(sorted(name for name in model.sites if name)) or "none"
            yield task.found(
                "R005",
                region,
                f"{region.target}'s model has no site {region.name}, which this region needs; it has {known}",
            )


def _whole_fixtures(task: TaskText, problem: Problem, facts: Facts) -> Iterator[LintFinding]:
    """Yield findings on (On THING CABINET) if the cabinet has a site for its top."""
    fixtures = {item.name for item in problem.fixtures}
    for literal in leaves(problem.goal):
        names = names_of(literal)
        if literal.predicate != "on" or len(names) != 2 or names[1] not in fixtures:
            continue
        model = facts.get(names[1])
        top = min((site for site in (model.sites if model else ()) if site.startswith("top_s")), default=None)
        if top is not None:
            yield task.found(
                "G006",
                literal,
                f"{literal} holds if {names[0]} touches any part of {names[1]} above its origin within some cm "
                f"of its middle, even in a drawer, but not at its edge; name a part: (On {names[0]} {names[1]}_{top})",
            )


def _geoms(task: TaskText, problem: Problem, facts: Facts) -> Iterator[LintFinding]:
    things = things_of(problem)
    for literal in leaves((*problem.goal, *problem.cost)):
        names = names_of(literal)
        lists = [argument for argument in literal.arguments if isinstance(argument, tuple)]
        for name, parts in zip(names, lists, strict=False):
            model = facts.get(name)
            if model is None or name not in things:
                continue
            numbers = tuple(number for number in model.contacts if number is not None)
            if (why := missing_parts(parts, numbers, name)) is not None:
                yield task.found("C008", literal, f"{literal}: {why}")


def _small(task: TaskText, problem: Problem, facts: Facts) -> Iterator[LintFinding]:
    """Yield a finding on regions narrower than their object, which upstream shrinks by its radius: one per file."""
    place = place_of(problem)
    if place is None or not place.keep_inside:
        return
    regions = used_regions(problem)
    objects = {item.name for item in problem.objects}
    found = []
    for literal in problem.init:
        names = names_of(literal)
        region = regions.get(names[1]) if literal.predicate == "on" and len(names) == 2 else None
        model = facts.get(names[0]) if names and names[0] in objects else None
        if region is None or model is None or region.target != place.name:
            continue
        beyond = max((2 * model.radius - min(x1 - x0, y1 - y0)) / 2 for x0, y0, x1, y1 in region.ranges or [(0,) * 4])
        if region.ranges and beyond > 0:
            found.append((region, names[0], beyond))
    if found:
        region, name, beyond = max(found, key=lambda each: each[2])
        yield task.found(
            "R003",
            region,
            f"{name} is wider than the region {region.name}, which upstream shrinks by its radius on each side: "
            f"its place may be drawn {100 * beyond:.1f} cm outside ({len(found)} such regions in this file)",
        )


def state_length(problem: Problem, facts_of: FactsOf) -> int | None:
    """Compute the length of an init state, [time, qpos, qvel], or None if a model cannot be read."""
    place = place_of(problem)
    total = _ROBOT
    for item in (*problem.fixtures, *problem.objects):
        if place is not None and item.category == place.category:
            continue
        model = facts_of(item)
        if model is None:
            return None
        total += 2 * model.joints
    return total + 13 * len(problem.objects)
