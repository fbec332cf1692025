"""Free places on a workspace for added objects, and the choice of objects: from a problem alone, uncompiled."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from pytest_vla.errors import VlaError
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.sections import Region
from pytest_vla.scene.workspaces import Camera, Workspace, workspace

Rectangle = tuple[float, float, float, float]

AREA: Rectangle = (-0.35, -0.42, 0.25, 0.42)
"""Where objects may be put: (x0, y0, x1, y1) from the workspace's offset, m. Every table has it."""

APART = 0.03
"""Free room (m) around an added object; half as much where there is not enough for all."""

# How far an object reaches from its origin, horizontally, as it is placed (m); measured on compiled models. What
# LIBERO's models say of it themselves is 0.025 for nearly all.
_RADII = {
    "akita_black_bowl": 0.054,
    "alphabet_soup": 0.036,
    "basket": 0.112,
    "bbq_sauce": 0.028,
    "black_book": 0.07,
    "butter": 0.043,
    "ceramic_bowl": 0.078,
    "chefmate_8_frypan": 0.262,
    "chocolate_pudding": 0.048,
    "cookies": 0.052,
    "cream_cheese": 0.046,
    "dinner_plate": 0.112,
    "food_box": 0.046,
    "glass_bottle": 0.028,
    "glazed_rim_porcelain_ramekin": 0.045,
    "ketchup": 0.034,
    "milk": 0.037,
    "moka_pot": 0.091,
    "new_salad_dressing": 0.033,
    "orange_juice": 0.037,
    "plate": 0.073,
    "porcelain_mug": 0.066,
    "red_coffee_mug": 0.063,
    "salad_dressing": 0.033,
    "tomato_sauce": 0.036,
    "white_bowl": 0.043,
    "white_yellow_mug": 0.071,
    "wine_bottle": 0.022,
    "wooden_tray": 0.177,
    "yellow_book": 0.054,
}
# What fixtures cover in their own frame (x0, y0, x1, y1), closed (m).
_COVERED: dict[str, Rectangle] = {
    "bottle_rack": (-0.102, -0.102, 0.102, 0.102),
    "desk_caddy": (-0.079, -0.22, 0.079, 0.22),
    "drawer_cabinet": (-0.15, -0.134, 0.15, 0.158),
    "electric_stove": (-0.167, -0.137, 0.167, 0.137),
    "flat_stove": (-0.052, -0.095, 0.245, 0.095),
    "microwave": (-0.173, -0.152, 0.173, 0.111),
    "white_cabinet": (-0.125, -0.11, 0.132, 0.112),
    "wine_rack": (-0.135, -0.131, 0.135, 0.134),
    "wooden_cabinet": (-0.125, -0.11, 0.132, 0.112),
    "wooden_two_layer_shelf": (-0.171, -0.079, 0.181, 0.112),
}
# The same, with all that their drawers and doors sweep.
_SWEPT: dict[str, Rectangle] = {
    "drawer_cabinet": (-0.15, -0.134, 0.15, 0.338),
    "microwave": (-0.352, -0.312, 0.173, 0.111),
    "white_cabinet": (-0.125, -0.27, 0.132, 0.112),
    "wooden_cabinet": (-0.125, -0.27, 0.132, 0.112),
}
# How far above the workspace they reach (m), measured too.
_HEIGHTS = {
    "bottle_rack": 0.042,
    "desk_caddy": 0.269,
    "drawer_cabinet": 0.279,
    "electric_stove": 0.086,
    "flat_stove": 0.064,
    "microwave": 0.209,
    "white_cabinet": 0.231,
    "wine_rack": 0.365,
    "wooden_cabinet": 0.231,
    "wooden_two_layer_shelf": 0.311,
}
_UNKNOWN = 0.15
"""Taken (m) for what has no entry."""

# Small and steady; LIBERO's are in every LIBERO data folder, since its own tasks use them.
_OWN = ("food_box", "glass_bottle")
_LIBERO = (
    *("alphabet_soup", "bbq_sauce", "butter", "chocolate_pudding", "cookies", "cream_cheese", "ketchup", "milk"),
    *("orange_juice", "salad_dressing", "tomato_sauce", "glazed_rim_porcelain_ramekin", "wine_bottle"),
    *("porcelain_mug", "red_coffee_mug", "white_bowl"),
)
# Side (m): as fine as five objects need beside all that our own tasks have.
_CELL = 0.01
_STEP = 0.02
"""How finely a line of sight is followed (m); no fixture is that thin."""
_FIELD = 45.0
"""The cameras' field of view (degrees)."""
_PICTURE = 0.95
"""How far from the picture's middle an object may be, of half its side."""
_SEEN_AT = {"glass_bottle": 0.12}
"""How far above the workspace (m) an object has to be seen, where it is tall and room is scarce."""
_LOW = 0.03
"""The same of all others: nearly the height of the lowest."""
_TRIES, _RESTARTS = 10, 20


@dataclass(frozen=True)
class Obstacle:
    """A rectangle to keep away from: centre, rectangle in its own frame, yaw (rad) and margin (m).

    With a height (m above the workspace), it also hides what is behind it.
    """

    centre: tuple[float, float]
    yaw: float
    rectangle: Rectangle
    margin: float
    height: float = 0.0

    def distance(self, x: float, y: float) -> float:
        """Return the distance (m) between a place and the obstacle with its margin; 0 inside."""
        dx, dy = x - self.centre[0], y - self.centre[1]
        along = math.cos(self.yaw) * dx + math.sin(self.yaw) * dy
        across = math.cos(self.yaw) * dy - math.sin(self.yaw) * dx
        x0, y0, x1, y1 = self.rectangle
        outside = math.hypot(max(x0 - along, 0.0, along - x1), max(y0 - across, 0.0, across - y1))
        return max(outside - self.margin, 0.0)

    def hides(self, point: Sequence[float], eye: Sequence[float]) -> bool:
        """Whether it stands between a point and an eye, both (x, y, z) from the workspace's offset."""
        (x, y, z), (eye_x, eye_y, eye_z) = point, eye
        # The part of the line that is lower than it; above, one looks over it.
        low = min((self.height - z) / (eye_z - z), 1.0)
        steps = math.ceil(low * math.hypot(eye_x - x, eye_y - y) / _STEP)
        shares = (low * step / steps for step in range(1, steps + 1))
        return any(self.distance(x + share * (eye_x - x), y + share * (eye_y - y)) == 0 for share in shares)


@dataclass(frozen=True)
class AddedObject:
    """An added object: its category, its place from the workspace's offset (m), and its turn (degrees)."""

    category: str
    x: float
    y: float
    yaw: float


def radius(category: str) -> float:
    """Return the greatest horizontal distance (m) of a category's surface from its origin."""
    return _RADII.get(category, _UNKNOWN)


def added_categories(problem: Problem, instruction: str, count: int) -> tuple[str, ...]:
    """Return the categories of added objects; none that the goal or the instruction could mean.

    They depend on the scene, not on a seed, so that a task's episodes at one level share one compiled scene, and each
    level adds to the one below.

    Raises:
        VlaError: there is no such object.
    """
    declared = {item.name: item.category for item in (*problem.fixtures, *problem.objects)}
    meant = {_noun(category) for name, category in declared.items() if name in _wanted(problem)}
    words = {word.strip(".,").lower() for word in instruction.split()}
    pool = _pool(problem)
    scene = "/".join((problem.name, *sorted(declared.values())))
    shuffled = random.Random(scene).sample(pool, len(pool))
    fit = [category for category in shuffled if _noun(category) not in meant | words]
    # New things first, then second ones of what is there.
    ordered = sorted(fit, key=lambda category: category in declared.values())
    if not ordered:
        raise VlaError(f"none of {', '.join(pool)} can be added: the task uses all of them")
    return tuple(ordered[number % len(ordered)] for number in range(count))


def _pool(problem: Problem) -> tuple[str, ...]:
    """Return the categories that can be added: LIBERO's, for other benchmarks those in their catalogue, or ours."""
    if problem.name.startswith("libero"):
        return _LIBERO
    known = workspace(problem.name, problem.source).categories
    return _OWN if known is None else tuple(category for category in _LIBERO if category in known) or _OWN


def _noun(category: str) -> str:
    return category.rpartition("_")[2]


def _wanted(problem: Problem) -> set[str]:
    """Return the names of the things that the task is about: objects, fixtures, and owners of named regions."""
    owners = {region.key: region.target for region in problem.regions}
    named = {str(argument) for literal in problem.goal for argument in literal.arguments}
    named |= set(problem.objects_of_interest)
    return named | {owners[name] for name in named if name in owners}


def _opened(problem: Problem) -> set[str]:
    """Return the fixtures that are open, in some part, at the beginning."""
    owners = {region.key: region.target for region in problem.regions}
    opened = [str(literal.arguments[0]) for literal in problem.init if literal.predicate == "open"]
    return {owners.get(name, name) for name in opened}


@cache
def obstacles(problem: Problem) -> tuple[Obstacle, ...]:
    """Return all that stands on the workspace or is to be placed on it, by region rather than by drawn pose.

    Raises:
        SceneError: there is no such problem class.
    """
    place = workspace(problem.name, problem.source)
    regions = {region.key: region for region in problem.regions if region.target == place.name}
    fixtures = {item.name: item.category for item in problem.fixtures}
    objects = {item.name: item.category for item in problem.objects}
    moving = _wanted(problem) | _opened(problem)
    found: list[Obstacle] = []
    for literal in problem.init:
        name, *targets = (str(argument) for argument in literal.arguments)
        if literal.predicate != "on" or not targets or targets[0] not in regions:
            continue
        region = regions[targets[0]]
        if name in fixtures:
            found += _of_fixture(region, fixtures[name], name in moving)
        else:
            found += _of_region(region, radius(objects.get(name, "")))
    for literal in problem.goal:
        reach = max((radius(objects[name]) for name in map(str, literal.arguments) if name in objects), default=0.0)
        for name in map(str, literal.arguments):
            if name in regions:
                found += _of_region(regions[name], reach)
    return tuple(found)


def _of_region(region: Region, margin: float) -> list[Obstacle]:
    return [Obstacle((0.0, 0.0), 0.0, rectangle, margin) for rectangle in region.ranges]


def _of_fixture(region: Region, category: str, moves: bool) -> list[Obstacle]:
    covers = [(_COVERED.get(category, (-_UNKNOWN, -_UNKNOWN, _UNKNOWN, _UNKNOWN)), _HEIGHTS.get(category, _UNKNOWN))]
    if moves and category in _SWEPT:
        # Seen as an episode begins: nothing is there yet that could hide.
        covers.append((_SWEPT[category], 0.0))
    yaw = sum(region.yaw_rotation) / 2
    return [
        Obstacle(((x0 + x1) / 2, (y0 + y1) / 2), yaw, rectangle, math.hypot(x1 - x0, y1 - y0) / 2, height)
        for x0, y0, x1, y1 in region.ranges
        for rectangle, height in covers
    ]


@cache
def _room(place: Workspace, things: tuple[Obstacle, ...], seen_at: float) -> tuple[tuple[float, float, float], ...]:
    """Return the cells of `AREA` that the camera sees: centres, and distances from all things (m)."""
    x0, y0, x1, y1 = AREA
    camera, (from_x, from_y, z) = place.cameras[0], place.offset
    eye = tuple(one - other for one, other in zip(camera.position, place.offset, strict=True))
    centres = [
        (round(x0 + _CELL * (column + 0.5), 3), round(y0 + _CELL * (row + 0.5), 3))
        for column in range(round((x1 - x0) / _CELL))
        for row in range(round((y1 - y0) / _CELL))
    ]
    return tuple(
        (x, y, min((thing.distance(x, y) for thing in things), default=math.inf))
        for x, y in centres
        if in_picture(camera, (x + from_x, y + from_y, z), _PICTURE)
        and not any(thing.hides((x, y, seen_at), eye) for thing in things)
    )


@cache
def _cells(
    place: Workspace, things: tuple[Obstacle, ...], seen_at: float, free: float
) -> tuple[tuple[float, float], ...]:
    """Centres of those cells whose every place is so far from all things (m)."""
    far = free + _CELL * math.sqrt(0.5)
    return tuple((x, y) for x, y, distance in _room(place, things, seen_at) if distance >= far)


def in_picture(camera: Camera, point: Sequence[float], share: float) -> bool:
    """Whether a camera's square picture has a point (x, y, z), no farther from its middle than a share of half a side.

    The camera's field of view is that of all workspaces' first ones.
    """
    w, *axis = camera.quaternion
    # The point in the camera's frame: turned by the conjugate. It looks along -z.
    away = [one - other for one, other in zip(point, camera.position, strict=True)]
    once = [2 * number for number in _cross(away, axis)]
    x, y, z = (
        number + w * first + second for number, first, second in zip(away, once, _cross(once, axis), strict=True)
    )
    return z < 0 and max(abs(x), abs(y)) <= -z * share * math.tan(math.radians(_FIELD / 2))


def _cross(one: Sequence[float], other: Sequence[float]) -> list[float]:
    return [one[i - 2] * other[i - 1] - one[i - 1] * other[i - 2] for i in range(3)]


def place_added(problem: Problem, categories: Sequence[str], drawn: random.Random) -> tuple[AddedObject, ...]:
    """Draw places for added objects, each with room around it and visible to the workspace's first camera.

    Args:
        problem: the task's problem.
        categories: one for each object.
        drawn: the source of all random numbers.

    Raises:
        VlaError: there is no room for them.
    """
    place, things = workspace(problem.name, problem.source), obstacles(problem)
    # Large ones first: they need more room.
    order = sorted(range(len(categories)), key=lambda number: -radius(categories[number]))
    for apart in (APART, APART / 2):
        for _ in range(_RESTARTS):
            placed: dict[int, AddedObject] = {}
            for number in order:
                category = categories[number]
                cells = _cells(place, things, _SEEN_AT.get(category, _LOW), radius(category) + apart)
                found = _next(cells, category, tuple(placed.values()), apart, drawn)
                if found is None:
                    break
                placed[number] = found
            else:
                return tuple(placed[number] for number in range(len(categories)))
    raise VlaError(f"the workspace has no room for {len(categories)} more objects")


def _next(
    cells: Sequence[tuple[float, float]],
    category: str,
    placed: Sequence[AddedObject],
    apart: float,
    drawn: random.Random,
) -> AddedObject | None:
    needed = [(other.x, other.y, radius(category) + radius(other.category) + apart) for other in placed]

    def free(x: float, y: float) -> bool:
        return all(math.hypot(x - other_x, y - other_y) >= far for other_x, other_y, far in needed)

    for _ in range(_TRIES if cells else 0):
        x, y = (round(middle + drawn.uniform(-_CELL / 2, _CELL / 2), 3) for middle in drawn.choice(cells))
        if free(x, y):
            return AddedObject(category, x, y, round(drawn.uniform(-180.0, 180.0), 1))
    left = [middle for middle in cells if free(*middle)]
    return AddedObject(category, *drawn.choice(left), round(drawn.uniform(-180.0, 180.0), 1)) if left else None
