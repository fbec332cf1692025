"""Where things have room: on a workspace, within the robot's reach, and apart from what stands there."""

import math
from collections.abc import Iterator, Mapping

from pytest_vla.errors import VlaError
from pytest_vla.plan.data_roots import DataRoot
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.sections import Region
from pytest_vla.scene.workspaces import Workspace, workspace
from pytest_vla.suites.libero_pro.bodies import bodies
from pytest_vla.suites.libero_pro.edits import Pair, place_of, swapped, workspace_regions
from pytest_vla.suites.libero_pro.statements import declared

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
    """Why there is no room for a thing where its region is; empty: there is."""
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
    """From the robot's base to a rectangle's centre, m."""
    x, y = (rectangle[0] + rectangle[2]) / 2, (rectangle[1] + rectangle[3]) / 2
    return math.hypot(x + place.offset[0] - place.robot_base[0], y + place.offset[1] - place.robot_base[1])


def reached(rectangle: Rectangle, place: Workspace) -> bool:
    """Whether a rectangle's centre is neither in the robot nor out of its reach."""
    return _NEAREST <= _distance(rectangle, place) <= _FARTHEST


def _gap(one: Rectangle, two: Rectangle) -> float:
    """The least distance of two rectangles, m."""
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
