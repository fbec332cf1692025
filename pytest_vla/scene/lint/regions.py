"""Regions: their keys, targets and rectangles."""

import math
from collections.abc import Iterator

from pytest_vla.scene.accepted import names_of
from pytest_vla.scene.lint.conditions import leaves
from pytest_vla.scene.lint.finding import Finding, place_of
from pytest_vla.scene.lint.reading import TaskText
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.sections import Rectangle, Region
from pytest_vla.scene.workspaces import REACH, Workspace


def check_regions(task: TaskText, problem: Problem) -> Iterator[Finding]:
    """What is wrong with :regions."""
    yield from _same_key(task, problem)
    yield from _undeclared(task, problem)
    place = place_of(problem)
    if place is not None:
        yield from _without_rectangle(task, problem, place)
        yield from _out_of_reach(task, problem, place)
    yield from _further_rectangles(task, problem)


def used_regions(problem: Problem) -> dict[str, Region]:
    """The regions that :init, :goal or :cost name, by their keys, the last of each key."""
    used = {name for literal in leaves((*problem.init, *problem.goal, *problem.cost)) for name in names_of(literal)}
    return {region.key: region for region in problem.regions if region.key in used}


def _same_key(task: TaskText, problem: Problem) -> Iterator[Finding]:
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


def _undeclared(task: TaskText, problem: Problem) -> Iterator[Finding]:
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


def _without_rectangle(task: TaskText, problem: Problem, place: Workspace) -> Iterator[Finding]:
    for region in problem.regions:
        if region.target == place.name and not region.ranges:
            yield task.found(
                "R006",
                region,
                f"the region {region.name} of {place.name} has no rectangle; add (:ranges ((X0 Y0 X1 Y1)))",
            )


def _out_of_reach(task: TaskText, problem: Problem, place: Workspace) -> Iterator[Finding]:
    """Regions that the goal's things begin in or are to come to, and that the arm does not reach."""
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
    """Metres from the arm's base to a rectangle's middle, seen from above."""
    x0, y0, x1, y1 = rectangle
    x, y = (x0 + x1) / 2 + place.offset[0], (y0 + y1) / 2 + place.offset[1]
    return math.dist((x, y), place.robot_base[:2])


def _further_rectangles(task: TaskText, problem: Problem) -> Iterator[Finding]:
    judged = {name for literal in leaves((*problem.goal, *problem.cost)) for name in names_of(literal)}
    for region in problem.regions:
        if len(region.ranges) > 1 and region.key in judged:
            yield task.found(
                "R007",
                region,
                f"the region {region.name} has {len(region.ranges)} rectangles, and goal and cost look at the first "
                "alone; make it one rectangle",
            )
