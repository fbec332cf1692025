"""All checks of a task's text."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from pytest_vla.scene.accepted import geom_name, geom_number, missing_parts, names_of
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
from pytest_vla.scene.lint.sections import check_movers, check_regions, check_things, used_regions
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.sections import Declaration
from pytest_vla.util.documents import read_xml


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
