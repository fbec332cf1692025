"""Variations of the object that the goal is about: its looks, size, mass and friction; what is asked stays the same.

LIBERO-PRO (arXiv 2510.03827, Eq. 5) varies colour, texture or size of the manipulated object. Its code replaces the
object by one of another category instead, which is `pro.object`.
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import NEEDS_OBJECT, Task
from pytest_vla.scene.literals import Literal
from pytest_vla.scene.problem import Problem, problem_of
from pytest_vla.scene.variation import MASS_ARRAYS, Edits, ModelEdit, Params, model_array, part_number
from pytest_vla.scene.workspaces import workspace
from pytest_vla.vary.axes.background import Pattern, drawn_pattern, pattern_parameters
from pytest_vla.vary.axes.layout import standing_on
from pytest_vla.vary.effects.painting import MODULES, Part, Repaint, covering, painting
from pytest_vla.vary.kind import LEVELS, SHARE, Draw, VariationKind
from pytest_vla.vary.space import ANGLE, CHOICE, NUMBER, Parameter

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.scene import SceneSpec

DIMENSION = "object"
OBJECT = "object"
"""The parameter that names it."""

LARGER, SMALLER = 0.03, 0.05
"""By how much a level makes an object larger or smaller, in each direction. A soup can of 6.7 cm grows to 7.7 cm at
most, and the gripper opens by 8 cm."""

MOST_MASS, MOST_FRICTION = 3.0, 3.0
"""Of level 5: so many times the mass, or one over it, or so many times the friction."""

_SATURATION = 0.6, 0.95
# What is black has a colour nobody sees: so bright are black and white, of 1.
_DARKEST, _BRIGHTEST = 0.35, 0.95


def goals_object(task: Task, may_be_fixture: bool) -> str:
    """Return the first object that the goal names; a fixture if the goal names no object.

    Raises:
        VlaError: the goal names neither, or only a fixture and that is not wanted.
    """
    if task.scene is not None:
        return task.scene.objects[0]
    problem = problem_of(task)
    named = list(dict.fromkeys(name for literal in problem.goal for name in _named(literal, problem)))
    objects = {item.name for item in problem.objects}
    if found := [name for name in named if name in objects]:
        return found[0]
    if not named:
        raise VlaError("the goal names no object")
    if not may_be_fixture:
        raise VlaError(
            f"the goal names no object that can be moved: {named[0]} is a fixture, whose parts keep their size"
        )
    return named[0]


def _named(literal: Literal, problem: Problem) -> Iterator[str]:
    """Return the objects and fixtures that a literal names, directly or by their regions."""
    place = workspace(problem.name, problem.source).category
    here = {item.name for item in (*problem.fixtures, *problem.objects) if item.category != place}
    owners = {region.key: region.target for region in problem.regions}
    for argument in literal.arguments:
        if isinstance(argument, Literal):
            yield from _named(argument, problem)
        elif (name := str(argument) if argument in here else owners.get(str(argument), "")) in here:
            yield name


def draw_colour(draw: Draw) -> Params:
    """Draw hue and saturation. Raises VlaError if the goal names nothing."""
    generator = draw.shared("object.colour")
    return {
        OBJECT: goals_object(draw.task, may_be_fixture=True),
        "hue_deg": round(generator.uniform(0.0, 360.0), 1),
        "saturation": round(generator.uniform(*_SATURATION), 3),
        SHARE: round(draw.share, 3),
    }


def colour(task: Task, params: Params) -> Edits:
    """Return edits that recolour the object; dark and light parts stay dark and light."""
    repaint = partial(_coloured, hue=params["hue_deg"], saturation=params["saturation"])
    return _painted(params, repaint)


def _coloured(own: "NDArray[np.uint8]", tiling: int, hue: float, saturation: float) -> "NDArray[np.uint8]":
    import cv2
    import numpy as np

    value = own.max(axis=2).astype(np.float32) / 255
    lit = _DARKEST + (_BRIGHTEST - _DARKEST) * value
    hsv = np.stack([np.full_like(lit, hue), np.full_like(lit, saturation), lit], axis=2)
    found: NDArray[np.uint8] = np.rint(255 * cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB)).astype(np.uint8)
    return found


def draw_texture(draw: Draw) -> Params:
    """Draw one of our patterns. Raises VlaError if the goal names nothing."""
    pattern = drawn_pattern(draw.shared("object.texture"))
    return {
        OBJECT: goals_object(draw.task, may_be_fixture=True),
        "family": pattern.family,
        "colours": [list(colour) for colour in pattern.colours],
        "repeats": pattern.repeats,
        "seed": pattern.seed,
        SHARE: round(draw.share, 3),
    }


def texture(task: Task, params: Params) -> Edits:
    """Return edits that blend one of our textures with the object's own."""
    pattern = Pattern(
        params["family"], tuple(tuple(each) for each in params["colours"]), params["repeats"], params["seed"]
    )
    return _painted(params, covering(pattern.pixels))


def _painted(params: Params, repaint: Repaint) -> Edits:
    name = params[OBJECT]
    part: Part = (lambda model, scene: object_geoms(model, scene, name), repaint)
    return Edits(model=(painting((part,), params[SHARE]),) if params[SHARE] else ())


def object_geoms(model: "mujoco.MjModel", scene: "SceneSpec", name: str) -> tuple[int, ...]:
    """Return the visual geoms of an object or fixture."""
    if scene.own is not None:
        root = part_number(model, "body", name)
        return tuple(geom for geom in range(model.ngeom) if model.body_rootid[model.geom_bodyid[geom]] == root)
    roots = {body.root_body for body in scene.bodies if body.name == name}
    return tuple(
        geom
        for geom in range(model.ngeom)
        if model.geom_group[geom] != 0 and model.body(model.body_rootid[model.geom_bodyid[geom]]).name in roots
    )


def draw_size(draw: Draw) -> Params:
    """Draw larger or smaller, the same for all levels.

    Raises:
        VlaError: the goal names no object, or something stands on the object that it names.
    """
    name = goals_object(draw.task, may_be_fixture=False)
    if others := standing_on(problem_of(draw.task), name):
        raise VlaError(f"{others[0]} stands on {name}, whose size can then not change")
    larger = draw.shared("object.size").random() < 0.5
    return {OBJECT: name, "factor": round(1 + (LARGER if larger else -SMALLER) * draw.level, 3)}


def size(task: Task, params: Params) -> Edits:
    """Return edits that scale the object in every direction, at its place; its density stays the same."""
    name, factor = params[OBJECT], params["factor"]

    def scaled(problem: Problem) -> Problem:
        objects = (replace(each, scale=factor) if each.name == name else each for each in problem.objects)
        return replace(problem, objects=tuple(objects))

    def stand(model: "mujoco.MjModel", scene: "SceneSpec", state: "NDArray[np.float64]") -> None:
        from pytest_vla.vary.axes.layout_states import stand_scaled

        stand_scaled(model, scene, state, name, factor)

    return Edits(problem=(scaled,), state=(stand,)) if factor != 1 else Edits()


def draw_mass(draw: Draw) -> Params:
    """Draw heavier or lighter, the same for all levels. Raises VlaError if the goal names no object."""
    return _scaled_by(draw, MOST_MASS, draw.shared("object.mass").choice((-1, 1)))


def draw_friction(draw: Draw) -> Params:
    """Draw how much rougher. Raises VlaError if the goal names no object."""
    return _scaled_by(draw, MOST_FRICTION, 1)


def _scaled_by(draw: Draw, most: float, way: int) -> Params:
    return {OBJECT: goals_object(draw.task, may_be_fixture=False), "factor": round(most ** (way * draw.share), 4)}


def mass(task: Task, params: Params) -> Edits:
    """Return edits that multiply the object's mass and inertia."""

    def apply(model: "mujoco.MjModel", scene: "SceneSpec") -> None:
        import mujoco

        # In a copy: mj_setConst also computes the model's statistics and cameras anew, which are to stay.
        other = copy(model)
        for body in _bodies_of(model, scene, params[OBJECT]):
            other.body_mass[body] *= params["factor"]
            other.body_inertia[body] *= params["factor"]
        mujoco.mj_setConst(other, mujoco.MjData(other))
        for name in MASS_ARRAYS:
            model_array(model, name)[:] = model_array(other, name)

    return Edits(model=(ModelEdit(MASS_ARRAYS, apply),) if params["factor"] != 1 else ())


def friction(task: Task, params: Params) -> Edits:
    """Return edits that multiply the sliding friction of the object's geoms.

    Where two geoms touch, MuJoCo takes the larger friction of both, or that of the geom with the higher priority. So a
    smoother object would slide as before on what is as rough, and only rougher ones are drawn.
    """

    def apply(model: "mujoco.MjModel", scene: "SceneSpec") -> None:
        bodies = set(_bodies_of(model, scene, params[OBJECT]))
        for geom in range(model.ngeom):
            if int(model.geom_bodyid[geom]) in bodies:
                model.geom_friction[geom][0] *= params["factor"]

    return Edits(model=(ModelEdit(("geom_friction",), apply),) if params["factor"] != 1 else ())


def _bodies_of(model: "mujoco.MjModel", scene: "SceneSpec", name: str) -> tuple[int, ...]:
    """Return the bodies of an object."""
    body = scene.body(name)
    root = part_number(model, "body", name if body is None else body.root_body)
    return tuple(each for each in range(model.nbody) if model.body_rootid[each] == root)


def _which(task: Task, may_be_fixture: bool) -> Parameter:
    return Parameter(OBJECT, CHOICE, choices=(goals_object(task, may_be_fixture),))


_SOURCE = "after LIBERO-PRO's object attributes (Eq. 5), levels ours"
_GRADES = "20% to 100% of the change"

KINDS = (
    VariationKind(
        "object.colour",
        "the goal's object in a random colour",
        _SOURCE,
        draw_colour,
        colour,
        lambda task: (
            _which(task, True),
            Parameter("hue_deg", ANGLE, 0.0, 360.0, unit="deg"),
            Parameter("saturation", NUMBER, *_SATURATION),
            Parameter(SHARE, NUMBER, 0.0, 1.0, 0.0),
        ),
        LEVELS,
        _GRADES,
        published=True,
        needs=(NEEDS_OBJECT,),
        modules=MODULES,
    ),
    VariationKind(
        "object.texture",
        "the goal's object with one of our textures",
        _SOURCE,
        draw_texture,
        texture,
        lambda task: (_which(task, True), *pattern_parameters(""), Parameter(SHARE, NUMBER, 0.0, 1.0, 0.0)),
        LEVELS,
        _GRADES,
        published=True,
        needs=(NEEDS_OBJECT,),
        modules=MODULES,
    ),
    VariationKind(
        "object.size",
        "the goal's object larger or smaller, at random",
        _SOURCE,
        draw_size,
        size,
        lambda task: (
            _which(task, False),
            Parameter("factor", NUMBER, 1 - SMALLER * LEVELS[-1], 1 + LARGER * LEVELS[-1], 1.0),
        ),
        LEVELS,
        f"{LARGER:.0%} to {LARGER * LEVELS[-1]:.0%} larger, or {SMALLER:.0%} to {SMALLER * LEVELS[-1]:.0%} smaller",
        scene=True,
        published=True,
    ),
    *(
        VariationKind(
            f"{DIMENSION}.{name}",
            about,
            "ours",
            draw,
            apply,
            lambda task, least=least, most=most: (  # type: ignore[misc]
                _which(task, False),
                Parameter("factor", NUMBER, least, most, 1.0),
            ),
            LEVELS,
            f"{most**0.2:.3g} to {most:g} times{'' if least == 1 else ', or one over it'}",
            by_name=True,
            needs=(NEEDS_OBJECT,),
        )
        for name, about, draw, apply, least, most in (
            (
                "mass",
                "the goal's object heavier or lighter, at random",
                draw_mass,
                mass,
                round(1 / MOST_MASS, 4),
                MOST_MASS,
            ),
            (
                "friction",
                "the goal's object rougher: of two things that touch, MuJoCo takes the larger friction",
                draw_friction,
                friction,
                1.0,
                MOST_FRICTION,
            ),
        )
    ),
)
