"""Variations of what stands where: objects that the task does not need, and its own objects in other places."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.scene.problem import Declaration, Literal, Problem, Region
from pytest_vla.scene.task_files import problem_of
from pytest_vla.scene.variation import Variation
from pytest_vla.scene.workspaces import workspace
from pytest_vla.vary.axes.layout_room import Placed, added_categories, place_added
from pytest_vla.vary.kind import LEVELS, Draw, Kind

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.scene import Scene

_METRES, _DEGREES = 0.02, 9.0
_DRAWS = 10
"""Into how many directions the draws of a displacement part the circle: as many as an episode has, its `MOST_DRAWS`."""

# Where added objects are declared to stand, m from the workspace's offset: the same in all draws, so that these share a
# compiled scene. Episodes begin where the draw says.
_DECLARED = ((-0.25, -0.48), (0.0, -0.48), (0.25, -0.48), (-0.125, 0.48), (0.125, 0.48))
# Half side of their regions (m): about the radius by which objects are kept inside where the workspace does that.
_HALF = 0.025


def distractors(draw: Draw) -> Variation:
    """As many objects as `level` says, which the task does not need, stand where there is room.

    A seed's further level adds one to those of the level below.

    Raises:
        VlaError: there is no room for them, or none that the task is not about.
    """
    problem = problem_of(draw.task)
    place = workspace(problem.name, problem.source)
    placed = _added(draw, problem)
    poses = {f"distractor_{number}": each for number, each in enumerate(placed, 1)}

    def put(model: "mujoco.MjModel", scene: "Scene", state: "NDArray[np.float64]") -> None:
        from pytest_vla.vary.axes.layout_states import put_down

        put_down(
            model, scene, state, {n: (p.x + place.offset[0], p.y + place.offset[1], p.yaw) for n, p in poses.items()}
        )

    return Variation(
        draw.label,
        "layout",
        "distractors",
        draw.level,
        {name: [each.category, each.x, each.y, each.yaw] for name, each in poses.items()},
        problem=(lambda original: _with_added(original, placed),),
        state=(put,),
        in_sight=True,
        redraw=lambda time: distractors(draw.again(time)),
    )


def _added(draw: Draw, problem: Problem) -> tuple[Placed, ...]:
    """The first of as many as there is room for, so that all levels have the same ones in the same places."""
    for count in range(LEVELS[-1], draw.level, -1):
        with suppress(VlaError):
            return _drawn(draw, problem, count)[: draw.level]
    return _drawn(draw, problem, draw.level)


def _drawn(draw: Draw, problem: Problem, count: int) -> tuple[Placed, ...]:
    categories = added_categories(problem, draw.task.language, count)
    return place_added(problem, categories, draw.shared("layout.distractors"))


def _with_added(problem: Problem, placed: Sequence[Placed]) -> Problem:
    place = workspace(problem.name, problem.source)
    half = _HALF if place.keep_inside else 0.0
    # Each literal of :init is a group of its own.
    first = max((literal.group for literal in problem.init), default=-1)
    regions, objects, init = [], [], []
    for number, (each, (x, y)) in enumerate(zip(placed, _DECLARED, strict=False), 1):
        name = f"distractor_{number}"
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


def displacement(draw: Draw) -> Variation:
    """One of the objects that the task is about begins 2 cm a level away and turned by 9 degrees a level.

    What stands on it goes along, nothing else. Which object, which way and which turn is the same for all levels. Where
    something is in the way, the next draw takes the next object and turns the way by a tenth of the circle.

    Raises:
        VlaError: the task is about no object that stands on the workspace.
    """
    problem = problem_of(draw.task)
    free = _free_objects(problem)
    if not free:
        raise VlaError("the task is about no object that stands on the workspace")
    drawn = draw.again(0).shared("layout.displacement")
    name = free[(drawn.randrange(len(free)) + draw.time) % len(free)]
    direction = round((drawn.uniform(0.0, 360.0) + draw.time * 360.0 / _DRAWS) % 360.0, 1)
    yaw = round(drawn.choice((-1, 1)) * _DEGREES * draw.level, 1)
    distance = round(_METRES * draw.level, 2)
    along = _standing_on(problem, name)
    zones = _goal_zones(problem, name)

    def move(model: "mujoco.MjModel", scene: "Scene", state: "NDArray[np.float64]") -> None:
        from pytest_vla.vary.axes.layout_states import displace

        displace(model, scene, state, name, distance, direction, yaw, along, zones)

    return Variation(
        draw.label,
        "layout",
        "displacement",
        draw.level,
        {"object": name, "distance": distance, "direction": direction, "yaw": yaw, "with": list(along)},
        state=(move,),
        in_sight=True,
        redraw=lambda time: displacement(draw.again(time)),
    )


def removed(draw: Draw) -> Variation:
    """What the goal wants somewhere is not there: all of its objects, and nothing else, are taken away.

    Raises:
        VlaError: the goal wants no object somewhere, or something else stands on one.
    """
    problem = problem_of(draw.task)
    names = _moved_by_goal(problem)
    if not names:
        raise VlaError("the goal wants no object somewhere that could be taken away")
    for name in names:
        if others := [other for other in _standing_on(problem, name) if other not in names]:
            raise VlaError(f"{name} cannot be taken away, as {others[0]} stands on it")
    return Variation(draw.label, "layout", "removed", None, {"objects": list(names)}, removed=names, probe=True)


def _moved_by_goal(problem: Problem) -> tuple[str, ...]:
    """The objects that the goal wants on or in something."""
    objects = {item.name for item in problem.objects}
    wanted = [str(literal.arguments[0]) for literal in problem.goal if literal.predicate in ("on", "in")]
    return tuple(dict.fromkeys(name for name in wanted if name in objects))


def _free_objects(problem: Problem) -> list[str]:
    """Objects of the goal and of interest that stand on the workspace itself, in the file's order."""
    place = workspace(problem.name, problem.source)
    surface = {region.key for region in problem.regions if region.target == place.name}
    wanted = {str(argument) for literal in problem.goal for argument in literal.arguments}
    wanted |= set(problem.objects_of_interest)
    standing = {
        str(literal.arguments[0])
        for literal in problem.init
        if literal.predicate == "on" and str(literal.arguments[1]) in surface
    }
    return [item.name for item in problem.objects if item.name in wanted & standing]


def _standing_on(problem: Problem, name: str) -> tuple[str, ...]:
    """What stands on or in an object, and on that."""
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
    """Zones of the workspace in which the goal wants an object."""
    place = workspace(problem.name, problem.source)
    surface = {region.key for region in problem.regions if region.target == place.name}
    return tuple(
        str(literal.arguments[1])
        for literal in problem.goal
        if len(literal.arguments) == 2 and literal.arguments[0] == name and str(literal.arguments[1]) in surface
    )


KINDS = (
    Kind(
        "layout.distractors",
        "further objects stand about, which the task does not need",
        "LIBERO-Plus's range, drawn by us",
        distractors,
        levels=LEVELS,
        grades="1 to 5 objects",
        scene=True,
    ),
    Kind(
        "layout.displacement",
        "an object that the task is about begins elsewhere, and turned",
        "LIBERO-Plus's range, with the turn that its files lack",
        displacement,
        levels=LEVELS,
        grades="2 to 10 cm and 9 to 45 degrees",
    ),
    Kind(
        "layout.removed",
        "what the goal wants somewhere is not there: does the policy look?",
        "a probe, LIBERO-PRO's",
        removed,
        by_name=True,
    ),
)
