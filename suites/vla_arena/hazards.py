"""``hazard.removed``: the benign twin of a task with a hazard. What only its costs and movers name is not there.

VLA-Arena has no such tasks; they were asked for (its issue 34). It is for any task that states costs, also of other
suites: success beside the twin's says what the hazard costs in success, and what is charged beside it is the hazard's.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import Task
from pytest_vla.scene.problem import Literal, Problem
from pytest_vla.scene.task_files import problem_of
from pytest_vla.scene.variation import Edits, Params
from pytest_vla.vary.kind import Draw, Kind
from pytest_vla.vary.space import CHOICE, Parameter

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.scene import Scene

DIMENSION = "hazard"
_OBJECTS, _SWITCHED_OFF = "objects", "switched_off"

# Words of categories that say nothing of what a thing is, such as rotated_toy_motorbike_x.
_LEAST_LETTERS = 3


def draw_without(draw: Draw) -> Params:
    """All that may go. Raises VlaError where the task has no hazard that can be taken away."""
    return {parameter.name: list(parameter.choices) for parameter in space_of_without(draw.task)}


def without(task: Task, params: Params) -> Edits:
    """Objects are taken away and fixtures turned off, and conditions of ``:cost`` that name them are no more."""
    objects, switched_off = tuple(params.get(_OBJECTS, ())), tuple(params.get(_SWITCHED_OFF, ()))
    gone = frozenset((*objects, *switched_off))

    def turn_off(model: "mujoco.MjModel", scene: "Scene", state: "NDArray[np.float64]") -> None:
        for name in switched_off:
            body = scene.body(name)
            assert body is not None, f"{name} is declared"
            assert body.kind.articulation is not None, f"{name} is turned on by :init"
            ranges = body.kind.articulation.turn_off_range
            assert ranges is not None, f"{name} is turned on by :init"
            for joint in body.joints:
                state[1 + model.joint(joint).qposadr[0]] = sum(ranges) / len(ranges)

    return Edits(
        problem=(partial(_uncharged, gone),) if gone else (),
        state=(turn_off,) if switched_off else (),
        removed=objects,
    )


def space_of_without(task: Task) -> tuple[Parameter, ...]:
    """Which objects go, and which fixtures are turned off; none of them is as the task is. Raises as `draw_without`."""
    found = zip((_OBJECTS, _SWITCHED_OFF), hazards(problem_of(task)), strict=True)
    space = tuple(Parameter(name, CHOICE, choices=names, many=True, benign=()) for name, names in found if names)
    if not space:
        raise VlaError("no object is named by :cost or :moving_objects alone, so that there is no hazard to take away")
    return space


def hazards(problem: Problem) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The objects that may be taken away, and the fixtures that may be turned off.

    An object may go that ``:cost`` or ``:moving_objects`` names, and neither the goal nor what the task is about does,
    with all that stands on it. One that does not move and that the instruction speaks of, such as the mugs of "the
    region between the mugs", stays, unless it is all the hazard there is. A fixture is turned off that ``:cost`` names
    and ``:init`` turns on.
    """
    movers = {mover.name for mover in problem.movers}
    named = _names_of(problem.cost) | movers
    needed = _needed(problem)
    unneeded = [item for item in problem.objects if item.name in named and item.name not in needed]
    words = {_singular(word.strip(".,")) for word in problem.language.lower().split()}
    unsaid = [item for item in unneeded if item.name in movers or _noun(item.category) not in words]
    switched_on = {str(literal.arguments[0]) for literal in problem.init if literal.predicate == "turnon"}
    fixtures = tuple(
        item.name
        for item in problem.fixtures
        if item.name in named & switched_on and item.name not in _owned(problem, _names_of(problem.goal))
    )
    taken = {item.name for item in (unsaid if unsaid or fixtures else unneeded)}
    # What stands on one is not needed either: what needed things stand on is.
    above = {other for name in taken for other in _standing_on(problem, name)}
    return tuple(item.name for item in problem.objects if item.name in taken | above), fixtures


def _needed(problem: Problem) -> set[str]:
    """What the goal and the task are about, and what these things stand on or in."""
    found = _owned(problem, {*_names_of(problem.goal), *problem.objects_of_interest})
    waiting = list(found)
    for above in waiting:
        for literal in problem.init:
            if literal.predicate in ("on", "in") and str(literal.arguments[0]) == above:
                below = _owned(problem, {str(literal.arguments[1])}) - found
                found |= below
                waiting += below
    return found


def _owned(problem: Problem, names: Collection[str]) -> set[str]:
    """Of names of things and of regions the things."""
    owners = {region.key: region.target for region in problem.regions}
    return {owners.get(name, name) for name in names}


def _standing_on(problem: Problem, name: str) -> tuple[str, ...]:
    """What stands on or in a thing, and on that."""
    found = [name]
    for below in found:
        for literal in problem.init:
            if literal.predicate in ("on", "in") and below in _owned(problem, {str(literal.arguments[1])}):
                above = str(literal.arguments[0])
                found += [above] if above not in found else []
    return tuple(found[1:])


def _names_of(literals: Collection[Literal]) -> set[str]:
    return {name for literal in literals for name in _names(literal)}


def _names(literal: Literal) -> Iterator[str]:
    for argument in literal.arguments:
        if isinstance(argument, Literal):
            yield from _names(argument)
        elif isinstance(argument, str):
            yield argument


def _noun(category: str) -> str:
    """What a thing is: ``mug`` of ``patterned_mug``."""
    words = [word for word in category.split("_") if len(word) >= _LEAST_LETTERS]
    return _singular(words[-1]) if words else category


def _singular(word: str) -> str:
    return word.removesuffix("s")


def _uncharged(gone: frozenset[str], problem: Problem) -> Problem:
    kept = tuple(literal for literal in problem.cost if not gone & _owned(problem, set(_names(literal))))
    return replace(problem, cost=kept)


KINDS = (
    Kind(
        f"{DIMENSION}.removed",
        "the benign twin: what only costs and movers name is not there, and costs nothing",
        "asked for in VLA-Arena's issue 34",
        draw_without,
        without,
        space_of_without,
        by_name=True,
    ),
)
