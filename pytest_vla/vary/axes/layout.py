"""Variations of what stands where: objects that the task does not need, and its own objects in other places."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import NEEDS_OBJECT, NEEDS_STATE, Task
from pytest_vla.scene.problem import Literal, Problem, problem_of
from pytest_vla.scene.sections import Declaration, Region
from pytest_vla.scene.variation import Edits, Params
from pytest_vla.scene.workspaces import workspace
from pytest_vla.vary.axes.layout_room import AREA, AddedObject, added_categories, place_added
from pytest_vla.vary.kind import LEVELS, Draw, VariationKind, always
from pytest_vla.vary.space import ANGLE, CHOICE, NUMBER, Parameter

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.scene import SceneSpec


_METRES, _DEGREES = 0.02, 9.0
_MANY = 100
"""More than there are categories that could be added."""
_DRAWS = 10
"""Into how many directions the draws of a displacement part the circle: as many as an episode has, its `MOST_DRAWS`."""

# Where added objects are declared to stand, m from the workspace's offset: the same in all draws, so that these share a
# compiled scene. Episodes begin where the draw says.
_DECLARED = ((-0.25, -0.48), (0.0, -0.48), (0.25, -0.48), (-0.125, 0.48), (0.125, 0.48))
# Half side of their regions (m): about the radius by which objects are kept inside where the workspace does that.
_HALF = 0.025


def draw_distractors(draw: Draw) -> Params:
    """Draw `level` objects that the task does not need, and free places for them.

    With the same seed, each level adds one object to those of the level below.

    Raises:
        VlaError: there is no room, or the task is about every object that could be added.
    """
    placed = _added(draw, problem_of(draw.task))
    return {_distractor(number): [each.category, each.x, each.y, each.yaw] for number, each in enumerate(placed, 1)}


def distractors(task: Task, params: Params) -> Edits:
    """Return edits that add objects: each with a category, a place (m from the workspace's offset) and a turn."""
    problem = problem_of(task)
    offset = workspace(problem.name, problem.source).offset
    placed = {number: AddedObject(*params[name]) for number in LEVELS if (name := _distractor(number)) in params}
    if not placed:
        return Edits()

    def put(model: "mujoco.MjModel", scene: "SceneSpec", state: "NDArray[np.float64]") -> None:
        from pytest_vla.vary.axes.layout_states import put_down

        poses = {
            _distractor(number): (each.x + offset[0], each.y + offset[1], each.yaw) for number, each in placed.items()
        }
        put_down(model, scene, state, poses)

    return Edits(problem=(lambda original: _with_added(original, placed),), state=(put,))


def space_of_distractors(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: up to five objects, each optional."""
    problem = problem_of(task)
    categories = tuple(dict.fromkeys(added_categories(problem, task.language, _MANY)))
    x0, y0, x1, y1 = AREA
    parts = (
        Parameter("category", CHOICE, choices=categories),
        Parameter("x", NUMBER, x0, x1, unit="m"),
        Parameter("y", NUMBER, y0, y1, unit="m"),
        Parameter("yaw", ANGLE, -180.0, 180.0, unit="deg"),
    )
    return tuple(Parameter(_distractor(number), parts=parts, optional=True) for number in LEVELS)


def _distractor(number: int) -> str:
    return f"distractor_{number}"


def _added(draw: Draw, problem: Problem) -> tuple[AddedObject, ...]:
    """Place as many objects as there is room for and return the first `level`, so that all levels share places."""
    for count in range(LEVELS[-1], draw.level, -1):
        with suppress(VlaError):
            return _drawn(draw, problem, count)[: draw.level]
    return _drawn(draw, problem, draw.level)


def _drawn(draw: Draw, problem: Problem, count: int) -> tuple[AddedObject, ...]:
    categories = added_categories(problem, draw.task.language, count)
    return place_added(problem, categories, draw.shared("layout.distractors"))


def _with_added(problem: Problem, placed: Mapping[int, AddedObject]) -> Problem:
    place = workspace(problem.name, problem.source)
    half = _HALF if place.keep_inside else 0.0
    # Each literal of :init is a group of its own.
    first = max((literal.group for literal in problem.init), default=-1)
    regions, objects, init = [], [], []
    for number, each in placed.items():
        name, (x, y) = _distractor(number), _DECLARED[number - 1]
        region = Region(f"{name}_region", place.name, ((x - half, y - half, x + half, y + half),))
        regions.append(region)
        objects.append(Declaration(name, each.category, 0, 0))
        init.append(Literal("on", (name, region.key), 0, 0, first + number))
    return replace(
        problem,
        regions=(*problem.regions, *regions),
        objects=(*problem.objects, *objects),
        init=(*problem.init, *init),
    )


def draw_displacement(draw: Draw) -> Params:
    """Draw an object, a direction and a turn; the distance is 2 cm and the turn 9 degrees per level.

    All levels share them. If something is in the way, the next draw takes the next object and rotates the direction by
    a tenth of the circle.

    Raises:
        VlaError: the task is about no object that stands on the workspace.
    """
    free = _movable(draw.task)
    drawn = draw.again(0).shared("layout.displacement")
    name = free[(drawn.randrange(len(free)) + draw.time) % len(free)]
    direction = round((drawn.uniform(0.0, 360.0) + draw.time * 360.0 / _DRAWS) % 360.0, 1)
    yaw = round(drawn.choice((-1, 1)) * _DEGREES * draw.level, 1)
    return {"object": name, "distance": round(_METRES * draw.level, 2), "direction": direction, "yaw": yaw}


def displacement(task: Task, params: Params) -> Edits:
    """Return edits that move and turn one of the task's objects at the start, with everything that stands on it."""
    name = params["object"]
    distance, direction, yaw = params["distance"], params["direction"], params["yaw"]
    if task.scene is not None:

        def move_own(model: "mujoco.MjModel", scene: "SceneSpec", state: "NDArray[np.float64]") -> None:
            from pytest_vla.sim.own_models import displace_own

            displace_own(model, state, name, distance, direction, yaw)

        return Edits(state=(move_own,) if distance or yaw else (), told=params)
    problem = problem_of(task)
    along, zones = standing_on(problem, name), _goal_zones(problem, name)

    def move(model: "mujoco.MjModel", scene: "SceneSpec", state: "NDArray[np.float64]") -> None:
        from pytest_vla.vary.axes.layout_states import displace

        displace(model, scene, state, name, distance, direction, yaw, along, zones)

    return Edits(state=(move,) if distance or yaw else (), told={**params, "with": list(along)})


def space_of_displacement(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: object, distance (m), direction and turn (degrees).

    Raises:
        VlaError: the task is about no object that stands on the workspace.
    """
    return (
        Parameter("object", CHOICE, choices=tuple(_movable(task))),
        Parameter("distance", NUMBER, 0.0, round(_METRES * LEVELS[-1], 2), 0.0, unit="m"),
        Parameter("direction", ANGLE, 0.0, 360.0, unit="deg"),
        Parameter("yaw", NUMBER, -_DEGREES * LEVELS[-1], _DEGREES * LEVELS[-1], 0.0, unit="deg"),
    )


def removed(task: Task, params: Params) -> Edits:
    """Return edits that remove objects. Raises VlaError if another object stands on one of them."""
    problem, names = problem_of(task), tuple(params["objects"])
    for name in names:
        if others := [other for other in standing_on(problem, name) if other not in names]:
            raise VlaError(f"{name} cannot be removed: {others[0]} stands on it")
    return Edits(removed=names)


def all_of_the_goal(draw: Draw) -> Params:
    """Draw the objects that the goal wants placed, all of them. Raises VlaError if there is none."""
    return {"objects": list(_to_remove(draw.task))}


def _to_remove(task: Task) -> tuple[str, ...]:
    names = _moved_by_goal(problem_of(task))
    if not names:
        raise VlaError("the goal places no object that could be removed")
    return names


def _moved_by_goal(problem: Problem) -> tuple[str, ...]:
    """Return the objects that the goal wants on or in something."""
    objects = {item.name for item in problem.objects}
    wanted = [str(literal.arguments[0]) for literal in problem.goal if literal.predicate in ("on", "in")]
    return tuple(dict.fromkeys(name for name in wanted if name in objects))


def _movable(task: Task) -> Sequence[str]:
    """Return the objects that a displacement may move. Raises VlaError if there is none."""
    return task.scene.objects if task.scene is not None else _free_objects(problem_of(task))


def _free_objects(problem: Problem) -> list[str]:
    """Return the objects of the goal and of interest that stand directly on the workspace, in the file's order.

    Raises:
        VlaError: there is none.
    """
    place = workspace(problem.name, problem.source)
    surface = {region.key for region in problem.regions if region.target == place.name}
    wanted = {str(argument) for literal in problem.goal for argument in literal.arguments}
    wanted |= set(problem.objects_of_interest)
    standing = {
        str(literal.arguments[0])
        for literal in problem.init
        if literal.predicate == "on" and str(literal.arguments[1]) in surface
    }
    found = [item.name for item in problem.objects if item.name in wanted & standing]
    if not found:
        raise VlaError("none of the task's objects stands on the workspace")
    return found


def standing_on(problem: Problem, name: str) -> tuple[str, ...]:
    """Return the objects that stand on or in an object, directly or on each other."""
    owners = {region.key: region.target for region in problem.regions}
    found = [name]
    for below in found:
        for literal in problem.init:
            if literal.predicate in ("on", "in") and len(literal.arguments) == 2:
                above, support = map(str, literal.arguments)
                if below in (support, owners.get(support)) and above not in found:
                    found.append(above)
    return tuple(found[1:])


def _goal_zones(problem: Problem, name: str) -> tuple[str, ...]:
    """Return the zones of the workspace in which the goal wants an object."""
    place = workspace(problem.name, problem.source)
    surface = {region.key for region in problem.regions if region.target == place.name}
    return tuple(
        str(literal.arguments[1])
        for literal in problem.goal
        if len(literal.arguments) == 2 and literal.arguments[0] == name and str(literal.arguments[1]) in surface
    )


KINDS = (
    VariationKind(
        "layout.distractors",
        "additional objects that the task does not need",
        "LIBERO-Plus's range, drawn by us",
        draw_distractors,
        distractors,
        space_of_distractors,
        levels=LEVELS,
        grades="1 to 5 objects",
        scene=True,
        in_sight=True,
        again=always,
    ),
    VariationKind(
        "layout.displacement",
        "one of the task's objects moved and turned at the start",
        "LIBERO-Plus's range, with the turn that its files lack",
        draw_displacement,
        displacement,
        space_of_displacement,
        levels=LEVELS,
        grades="2 to 10 cm and 9 to 45 degrees",
        in_sight=True,
        again=always,
        needs=(NEEDS_OBJECT, NEEDS_STATE),
    ),
    VariationKind(
        "layout.removed",
        "the objects to be placed are missing: does the policy look?",
        "LIBERO-PRO (probe)",
        all_of_the_goal,
        removed,
        lambda task: (Parameter("objects", CHOICE, choices=_to_remove(task), many=True, benign=()),),
        by_name=True,
        probe=True,
    ),
)
