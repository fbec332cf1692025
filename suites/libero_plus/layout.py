"""LIBERO-Plus's layouts: its own BDDL files where the user has them, made by its rules where not."""

import itertools
import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import Task
from pytest_vla.scene.problem import problem_of
from pytest_vla.scene.variation import InitStates, ProblemEdit
from pytest_vla.suites.libero_plus.listing import section_of
from pytest_vla.suites.libero_plus.names import PlusTask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.problem import Problem

Point = tuple[float, float]

STEPS: Mapping[str, float] = {"libero_spatial": 0.01, "libero_object": 0.03, "libero_goal": 0.02, "libero_10": 0.01}
"""Of a layout's levels: the disc's radius grows by so many metres a level."""

STEPS_OF_SCENES: Mapping[str, float] = {"LIVING_ROOM_SCENE1": 0.02}

MOVED: Mapping[str, Point] = {
    "akita_black_bowl": (0.35, 0.05),
    "cream_cheese": (0.15, 0.10),
    "wine_bottle": (0.0, 0.05),
}
"""What stands elsewhere in a ``_moved`` layout of LIBERO-Goal, by category; metres."""

_SLOTS: Mapping[str, tuple[Point, ...]] = {
    "libero_spatial": ((-0.4, 0.2), (-0.4, 0.4), (0.25, -0.15), (0.25, 0.0), (0.25, 0.2)),
    "libero_goal": ((-0.3, 0.4), (0.05, 0.3), (0.25, -0.15), (0.25, 0.0), (0.25, 0.2)),
    "floor": ((-0.3, -0.25), (-0.3, 0.25), (0.3, -0.2), (0.3, 0.0), (0.3, 0.2)),
    "kitchen_table": ((-0.3, -0.25), (-0.3, 0.2), (-0.25, -0.1), (0.2, -0.15), (0.2, -0.05), (0.2, 0.15)),
    "living_room_table": (
        *((-0.45, -0.3), (-0.4, -0.2), (-0.4, 0.25), (-0.3, 0.2)),
        *((-0.25, 0.15), (0.1, -0.2), (0.2, -0.05), (0.2, 0.15)),
    ),
    "study_table": ((-0.2, 0.3), (0.0, -0.2), (0.0, 0.25), (0.2, -0.25), (0.2, 0.2)),
}
"""Where objects are added, by suite or else by workspace; metres."""

DISTRACTORS = (
    *("alphabet_soup", "bbq_sauce", "butter", "chocolate_pudding", "cookies", "cream_cheese", "ketchup", "milk"),
    *("new_salad_dressing", "orange_juice", "salad_dressing", "tomato_sauce"),
)
"""LIBERO's own groceries, which stand in for the 13 of LIBERO-Plus's that nobody else has."""

_ADDED_APART = 0.097
_FIXTURES_APART = 0.2
# What stands in its place closer than this may come no closer; LIBERO's basket and its fixtures are larger.
_APART, _LARGE_APART = 0.1, 0.17
_LARGE = ("basket", "wooden_tray", "desk_caddy")
_SIDE = 1e-6
_TRIES = 10_000


def given_layout(file: Path) -> ProblemEdit:
    """Return the edit that replaces the task's problem by the one in LIBERO-Plus's own file."""

    def changed(problem: "Problem") -> "Problem":
        return _parsed(file, file.stat().st_mtime_ns)

    return changed


def given_start(file: Path) -> InitStates:
    """Return the init states in LIBERO-Plus's own file."""

    def read() -> "NDArray[np.float64]":
        from pytest_vla.scene.init_states import read_init_states

        return read_init_states(file)

    return read


def unknown_categories(file: Path, known: frozenset[str]) -> tuple[str, ...]:
    """Return the unknown categories of the objects that a layout's file declares."""
    said = section_of(file, ":objects")
    if said is not None:
        found = set(re.findall(r" - ([^\s]+)", said.lower()))
    else:
        found = {item.category for item in _parsed(file, file.stat().st_mtime_ns).objects}
    return tuple(sorted(found - known))


def draw_level(task: Task, entry: PlusTask, time: int = 0) -> dict[str, Any]:
    """Draw a shift for every region with a range, independently and uniformly within a disc.

    Args:
        task: one of LIBERO's.
        entry: with a level and a sample.
        time: 0, or the number of earlier draws that could not be used.

    Returns:
        ``radius``, m, and ``shifts``: each region with its x and y, m.

    Raises:
        VlaError: the task's file is missing or invalid, or no draw keeps things apart.
    """
    assert entry.level is not None
    problem = problem_of(task)
    radius = round(entry.level * step_of(entry), 3)
    moved = _moved(problem) if entry.moved else {}
    drawn = entry.generator(time)
    starts = {region.key: _centre(region.ranges[0]) for region in problem.regions if region.ranges}
    kept = _to_keep_apart(problem, starts)
    for _ in range(_TRIES):
        shifts = {key: _in_disc(drawn, radius) for key in starts}
        placed = {key: _plus(starts[key], moved.get(key, (0.0, 0.0)), shifts[key]) for key in starts}
        if all(math.dist(placed[one], placed[other]) >= distance for one, other, distance in kept):
            break
    else:
        raise VlaError(f"{entry.name}: no draw in {_TRIES} keeps the things in {task.name} apart")
    whole = {key: _plus(moved.get(key, (0.0, 0.0)), shift) for key, shift in shifts.items()}
    return {"radius": radius, "shifts": [[key, *shift] for key, shift in whole.items()]}


def shifted(shifts: Sequence[Sequence[Any]]) -> ProblemEdit:
    """Return the edit that shifts regions, each by its x and y, m."""
    whole = {str(key): (x, y) for key, x, y in shifts}

    def changed(problem: "Problem") -> "Problem":
        regions = tuple(
            replace(region, ranges=tuple(_shifted(each, whole[region.key]) for each in region.ranges))
            if region.key in whole
            else region
            for region in problem.regions
        )
        return replace(problem, regions=regions)

    return changed


def draw_added(task: Task, entry: PlusTask, available: Sequence[str], time: int = 0) -> dict[str, Any]:
    """Draw one to five objects to be added, each in a slot of its own.

    Args:
        task: one of LIBERO's.
        entry: with the number of a sample; six samples for each count.
        available: the members of `DISTRACTORS` whose assets are available.
        time: as in `draw_level`.

    Returns:
        ``count``, and ``added``: each category with its x and y, m.

    Raises:
        VlaError: the task's file is missing or invalid, or it leaves no slot or no category.
    """
    assert entry.add is not None
    problem = problem_of(task)
    count = 1 + (entry.add - 1) // 6
    # Two dressings, an old and a new one, have one name in instructions.
    used = {item.category.removeprefix("new_") for item in problem.objects}
    categories = [name for name in available if name.removeprefix("new_") not in used]
    slots = _free_slots(task, problem, count)
    if len(slots) < count or not categories:
        raise VlaError(f"{entry.name}: {task.name} has no room for {count} more objects, or none are available")
    drawn = entry.generator(time)
    places = drawn.sample(slots, count)
    # One of a kind while there are enough kinds.
    rounds = [drawn.sample(categories, len(categories)) for _ in range(-(-count // len(categories)))]
    order = itertools.chain.from_iterable(rounds)
    return {"count": count, "added": [[category, *place] for category, place in zip(order, places, strict=False)]}


def with_objects(problem: "Problem", added: Sequence[Sequence[Any]]) -> "Problem":
    """Return the problem with added objects, each with a category and a place (m) on its workspace."""
    from pytest_vla.scene.problem import Literal
    from pytest_vla.scene.sections import Declaration, Region
    from pytest_vla.scene.workspaces import workspace

    table = workspace(problem.name, problem.source).name
    names = {item.name for item in (*problem.objects, *problem.fixtures)}
    objects, regions, init = list(problem.objects), list(problem.regions), list(problem.init)
    for number, (category, x, y) in enumerate(added):
        name = next(text for n in range(1, len(names) + 2) if (text := f"{category}_{n}") not in names)
        names.add(name)
        half = _SIDE / 2
        region = Region(f"add_object_region_{number}", table, ((x - half, y - half, x + half, y + half),))
        objects.append(Declaration(name, category))
        regions.append(region)
        init.append(Literal("on", (name, region.key), group=len(init)))
    return replace(problem, objects=tuple(objects), regions=tuple(regions), init=tuple(init))


def step_of(entry: PlusTask) -> float:
    """Return the growth (m) of a layout's disc per level."""
    scene = next((scene for scene in STEPS_OF_SCENES if entry.base.startswith(f"{scene}_")), "")
    return STEPS_OF_SCENES[scene] if scene else STEPS[entry.suite]


def _free_slots(task: Task, problem: "Problem", count: int) -> list[Point]:
    from pytest_vla.scene.workspaces import workspace

    table = workspace(problem.name, problem.source).name
    slots = _SLOTS[task.files] if task.files in _SLOTS else _SLOTS[table]
    fixtures = {item.name for item in problem.fixtures}
    placed = [(name in fixtures, _centre(region.ranges[0])) for name, region in _placed(problem)]
    free = [slot for slot in slots if all(math.dist(slot, place) >= _ADDED_APART for _, place in placed)]
    roomy = [
        slot for slot in free if all(math.dist(slot, place) >= _FIXTURES_APART for fixed, place in placed if fixed)
    ]
    return roomy if len(roomy) >= count else free


def _placed(problem: "Problem") -> list[tuple[str, Any]]:
    """Return the things in regions with a range, each with its region."""
    regions = {region.key: region for region in problem.regions if region.ranges}
    pairs = [(str(lit.arguments[0]), str(lit.arguments[1])) for lit in problem.init if len(lit.arguments) == 2]
    return [(name, regions[key]) for name, key in pairs if key in regions]


def _moved(problem: "Problem") -> dict[str, Point]:
    categories = {item.name: item.category for item in problem.objects}
    return {region.key: MOVED[kind] for name, region in _placed(problem) if (kind := categories.get(name, "")) in MOVED}


def _to_keep_apart(problem: "Problem", starts: Mapping[str, Point]) -> list[tuple[str, str, float]]:
    """Pairs of regions in which things stand, and how far apart they have to stay."""
    categories = {item.name: item.category for item in (*problem.objects, *problem.fixtures)}
    fixtures = {item.name for item in problem.fixtures}
    placed = [(region.key, name in fixtures or categories[name] in _LARGE) for name, region in _placed(problem)]
    pairs = []
    for index, (one, large) in enumerate(placed):
        for other, other_large in placed[index + 1 :]:
            wanted = _LARGE_APART if large or other_large else _APART
            pairs.append((one, other, min(wanted, math.dist(starts[one], starts[other]))))
    return pairs


def _in_disc(drawn: random.Random, radius: float) -> Point:
    length, angle = radius * math.sqrt(drawn.random()), drawn.uniform(0.0, math.tau)
    return round(length * math.cos(angle), 4), round(length * math.sin(angle), 4)


def _centre(rectangle: Sequence[float]) -> Point:
    x0, y0, x1, y1 = rectangle
    return (x0 + x1) / 2, (y0 + y1) / 2


def _plus(*points: Point) -> Point:
    return round(sum(x for x, _ in points), 6), round(sum(y for _, y in points), 6)


def _shifted(rectangle: Sequence[float], shift: Point) -> tuple[float, float, float, float]:
    x0, y0, x1, y1 = rectangle
    return x0 + shift[0], y0 + shift[1], x1 + shift[0], y1 + shift[1]


@cache
def _parsed(file: Path, changed: int) -> "Problem":
    from pytest_vla.scene.problem import parse_problem

    return parse_problem(file)
