"""Sizes and sites of a category without compiling it, a task's objects, and room on its workspace."""

import math
import os
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.data_roots import DataRoot, data_roots, find_file
from pytest_vla.plan.task import Task
from pytest_vla.scene.catalog import CATEGORIES, FILE, FOLDER, Category, find_category
from pytest_vla.scene.literals import Literal
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.sections import Declaration, Region
from pytest_vla.scene.workspaces import Workspace, workspace
from pytest_vla.suites.libero_pro.edits import Pair, place_of, swapped, workspace_regions
from pytest_vla.util.documents import read_xml

Vector = tuple[float, float, float]
_Matrix = tuple[Vector, Vector, Vector]

# What LIBERO-PRO's YAML names and its code registers no class for; some have asset files.
_UNREGISTERED = ("red_bowl", "white_bottle", "wine_rack_stand")
_LEVEL: _Matrix = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
# Sites that tell robosuite a body's size, and are no place.
_SIZES = ("bottom_site", "top_site", "horizontal_radius_site")


@dataclass(frozen=True)
class Body:
    """The content of a category's model file. Lengths in metres.

    Attributes:
        kind: as declared.
        radius: of the circle about its origin that holds its collision geoms, seen from above.
        height: from the lowest to the highest of them.
        sites: their names without the instance's.
    """

    kind: Category
    radius: float
    height: float
    sites: frozenset[str]


def body_of(name: str, roots: tuple[DataRoot, ...]) -> Body:
    """Return a category's body. Cheap: the file is read once, and nothing is compiled.

    Raises:
        SceneError: the category is unknown, or its model file is in none of the roots or cannot be read.
    """
    kind, _ = find_category(name, "category", roots)
    path = find_file(roots, "assets", kind.model, f"category {name}")
    radius, height, sites = _measured(path, path.stat().st_mtime_ns)
    return Body(kind, radius, height, sites)


@cache
def lacking(name: str, roots: tuple[DataRoot, ...]) -> str:
    """Return the reason that a category has no body, in a few words, or empty if it has one."""
    try:
        body_of(name, roots)
    except VlaError:
        known = name in CATEGORIES or any((folder / name / FILE).is_file() for folder in _folders(roots))
        if known:
            return f"no asset file of {name}"
        return f"no category {name}" + (", not in LIBERO-PRO's code either" if name in _UNREGISTERED else "")
    return ""


def known_categories(roots: tuple[DataRoot, ...]) -> tuple[str, ...]:
    """Return every category whose model file is in the roots, by name."""
    own = {path.parent.name for folder in _folders(roots) for path in folder.glob(f"*/{FILE}")}
    return tuple(name for name in sorted({*CATEGORIES, *own}) if not lacking(name, roots))


def roots_of(task: Task) -> tuple[DataRoot, ...]:
    """Return the data roots of a task's assets."""
    return _roots(str(task.data or ""), os.environ.get("PYTEST_VLA_DATA", ""))


@cache
def _roots(data: str, environment: str) -> tuple[DataRoot, ...]:
    return data_roots(data or None)


@cache
def bodies(roots: tuple[DataRoot, ...]) -> Mapping[str, Body]:
    """Return the bodies of all categories whose model file is in the roots."""
    return {name: body_of(name, roots) for name in known_categories(roots)}


def _folders(roots: tuple[DataRoot, ...]) -> Iterator[Path]:
    return (root.assets / FOLDER for root in roots if root.assets is not None)


@cache
def _measured(path: Path, changed: int) -> tuple[float, float, frozenset[str]]:
    try:
        root = read_xml(path)
    except (OSError, ValueError, ElementTree.ParseError) as error:
        raise SceneError(f"{path}: cannot be read as a model: {error}. Repair or restore the file.") from error
    sites = {str(site.get("name")): _vector(site) for site in root.iter("site")}
    # robosuite takes this body, and puts it where the placement says, whatever its own pose is.
    body = root.find("./worldbody/body/body[@name='object']")
    corners = [] if body is None else list(_corners(body, (0.0, 0.0, 0.0), _LEVEL))
    # Where collision geoms are meshes, what the file declares has to do.
    corners = corners or [sites[name] for name in _SIZES if name in sites] or [(0.0, 0.0, 0.0)]
    heights = [z for _, _, z in corners]
    radius = max(math.hypot(x, y) for x, y, _ in corners)
    return radius, max(heights) - min(heights), frozenset(sites) - frozenset(_SIZES)


def _corners(body: ElementTree.Element, origin: Vector, turned: _Matrix) -> Iterator[Vector]:
    """Corners of the boxes about the collision geoms of a body with this pose, and of its parts."""
    for geom in body.findall("./geom"):
        size = [float(number) for number in (geom.get("size") or "").split()]
        if not size or geom.get("contype") == "0" or geom.get("type") == "mesh":
            continue
        ends = [float(number) for number in (geom.get("fromto") or "").split()]
        if len(ends) == 6:
            for end in (ends[:3], ends[3:]):
                yield from _box(_moved(origin, turned, (end[0], end[1], end[2])), turned, (size[0],) * 3)
            continue
        half = _half(geom.get("type", "sphere"), size)
        yield from _box(_moved(origin, turned, _vector(geom)), _product(turned, _rotation(geom)), half)
    for part in body.findall("./body"):
        yield from _corners(part, _moved(origin, turned, _vector(part)), _product(turned, _rotation(part)))


def _box(centre: Vector, turned: _Matrix, half: Vector) -> Iterator[Vector]:
    for signs in product((-1, 1), repeat=3):
        yield _moved(centre, turned, (signs[0] * half[0], signs[1] * half[1], signs[2] * half[2]))


def _half(shape: str, size: list[float]) -> Vector:
    if shape in ("cylinder", "capsule") and len(size) > 1:
        return size[0], size[0], size[1] + (size[0] if shape == "capsule" else 0.0)
    return (size[0], size[1], size[2]) if len(size) > 2 else (size[0], size[0], size[0])


def _vector(element: ElementTree.Element) -> Vector:
    x, y, z = (float(number) for number in (element.get("pos") or "0 0 0").split())
    return x, y, z


def _rotation(element: ElementTree.Element) -> _Matrix:
    w, x, y, z = (float(number) for number in (element.get("quat") or "1 0 0 0").split())
    scale = 2.0 / ((w * w + x * x + y * y + z * z) or 1.0)
    return (
        (1 - scale * (y * y + z * z), scale * (x * y - w * z), scale * (x * z + w * y)),
        (scale * (x * y + w * z), 1 - scale * (x * x + z * z), scale * (y * z - w * x)),
        (scale * (x * z - w * y), scale * (y * z + w * x), 1 - scale * (x * x + y * y)),
    )


def _moved(origin: Vector, turned: _Matrix, offset: Vector) -> Vector:
    x, y, z = (
        start + sum(a * b for a, b in zip(row, offset, strict=True)) for start, row in zip(origin, turned, strict=True)
    )
    return x, y, z


def _product(first: _Matrix, second: _Matrix) -> _Matrix:
    columns = _transposed(second)
    rows = [_moved((0.0, 0.0, 0.0), columns, row) for row in first]
    return rows[0], rows[1], rows[2]


def _transposed(matrix: _Matrix) -> _Matrix:
    first, second, third = ((row[0], row[1], row[2]) for row in zip(*matrix, strict=True))
    return first, second, third


# The objects and fixtures in a task's file, and the requirements of facts and goal on them.

STATES = {"open": "open_range", "close": "close_range", "turnon": "turn_on_range", "turnoff": "turn_off_range"}
"""Predicates that state a joint, each with the range of an articulation that it is about."""


def declared(problem: Problem) -> dict[str, Declaration]:
    """Return all fixtures and objects, by name."""
    return {item.name: item for item in (*problem.fixtures, *problem.objects)}


def of_interest(problem: Problem) -> tuple[str, ...]:
    """Return the objects and fixtures of interest, including owners of regions of interest."""
    here = declared(problem)
    targets = {region.key: region.target for region in problem.regions}
    named = (name if name in here else targets.get(name, "") for name in problem.objects_of_interest)
    place = workspace(problem.name, problem.source).category
    return tuple(dict.fromkeys(name for name in named if name in here and here[name].category != place))


def bodies_of(literal: Literal, problem: Problem) -> Iterator[str]:
    """Yield the fixtures and objects that a literal names, directly or by their regions."""
    here = declared(problem)
    targets = {region.key: region.target for region in problem.regions}
    for argument in literal.arguments:
        if isinstance(argument, Literal):
            yield from bodies_of(argument, problem)
        elif isinstance(argument, str):
            name = argument if argument in here else targets.get(argument, "")
            yield from [name] if name in here else []


def asked_of(problem: Problem, category: str) -> tuple[set[str], set[str]]:
    """Return the sites and states of a category's instances that facts and goal name."""
    names = {item.name for item in declared(problem).values() if item.category == category}
    sites = {region.key: region.name for region in problem.regions if region.target in names}
    asked: tuple[set[str], set[str]] = set(), set()

    def read(literal: Literal) -> None:
        for argument in literal.arguments:
            if isinstance(argument, Literal):
                read(argument)
            elif argument in sites or argument in names:
                asked[0].update([sites[str(argument)]] if argument in sites else [])
                asked[1].update([literal.predicate] if literal.predicate in STATES else [])

    for literal in (*problem.init, *problem.goal, *problem.cost):
        read(literal)
    return asked


def bearing_of(problem: Problem) -> Iterator[str]:
    """Yield the objects and fixtures on or in which facts and goal have something."""
    for literal in (*problem.init, *problem.goal):
        if len(literal.arguments) == 2:
            yield from bodies_of(Literal(literal.predicate, literal.arguments[1:]), problem)


# Room for things: on a workspace, within the robot's reach, and apart from other things.

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


def crowded(problem: Problem, name: str, roots: tuple[DataRoot, ...]) -> str:
    """Return the reason that a thing has no room in its region, or empty if it has."""
    place = workspace(problem.name, problem.source)
    region = workspace_regions(problem)[str(place_of(problem, name))]
    radius = _radius(problem, name, roots)
    for rectangle in region.ranges:
        if not within(rectangle, place, min(radius, 0.05)):
            return f"it would leave {place.name}"
        if _distance(rectangle, place) < _NEAREST:
            return "it would stand in the robot"
    for other, near in _neighbours(problem, name):
        apart = _APART * (radius + _radius(problem, other, roots))
        if any(_gap(one, two) < apart for one in region.ranges for two in near):
            return f"{other} is in its way"
    return ""


def has_room(problem: Problem, pairs: tuple[Pair, ...], roots: tuple[DataRoot, ...]) -> bool:
    """Whether all would have room once these pairs have changed places."""
    try:
        changed = swapped(problem, pairs)
    except VlaError:
        return False
    return not any(crowded(changed, name, roots) for pair in pairs for name in pair)


def within(rectangle: Rectangle, place: Workspace, margin: float) -> bool:
    """Whether a rectangle is on the workspace's top, so far (m) from its edges."""
    x0, y0, x1, y1 = _TOPS[place.name]
    left, near, right, far = rectangle
    return x0 + margin <= left and y0 + margin <= near and right <= x1 - margin and far <= y1 - margin


def _distance(rectangle: Rectangle, place: Workspace) -> float:
    """Return the distance (m) from the robot's base to a rectangle's centre."""
    x, y = (rectangle[0] + rectangle[2]) / 2, (rectangle[1] + rectangle[3]) / 2
    return math.hypot(x + place.offset[0] - place.robot_base[0], y + place.offset[1] - place.robot_base[1])


def reached(rectangle: Rectangle, place: Workspace) -> bool:
    """Whether a rectangle's centre is neither in the robot nor out of its reach."""
    return _NEAREST <= _distance(rectangle, place) <= _FARTHEST


def _gap(one: Rectangle, two: Rectangle) -> float:
    """Return the least distance between two rectangles, m."""
    x = max(one[0] - two[2], two[0] - one[2], 0.0)
    y = max(one[1] - two[3], two[1] - one[3], 0.0)
    return math.hypot(x, y)


def _neighbours(problem: Problem, name: str) -> Iterator[tuple[str, tuple[Rectangle, ...]]]:
    regions = workspace_regions(problem)
    for other in declared(problem):
        region: Region | None = regions.get(place_of(problem, other) or "")
        if other != name and region is not None:
            yield other, region.ranges


def _radius(problem: Problem, name: str, roots: tuple[DataRoot, ...]) -> float:
    found = bodies(roots).get(declared(problem)[name].category)
    return found.radius if found is not None else 0.0
