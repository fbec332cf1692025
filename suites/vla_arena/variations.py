"""VLA-Arena's visual levels V1 to V4 (light, then also colours, camera position and noise), and hazard-free twins.

The visual levels follow its code (envs/bddl_base_domain.py in its first release): light changes the picture, not the
scene. Everything is drawn per episode, and each level adds to the one before; ``arena.visual_upstream`` draws light and
camera once per task, as its environments do when they are created.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import Task
from pytest_vla.scene.literals import all_names_of
from pytest_vla.scene.problem import Literal, Problem, problem_of
from pytest_vla.scene.variation import Edits, ModelEdit, Params
from pytest_vla.sim.looks import COLOURS, NEUTRAL_TEMPERATURE, PictureLight, adjusted, colour_geoms
from pytest_vla.vary.kind import Draw, VariationKind
from pytest_vla.vary.space import CHOICE, NUMBER, SEED, Parameter

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.scene import SceneSpec

    Picture = NDArray[np.uint8]

DIMENSION = "arena"
LEVELS = (1, 2, 3, 4)
LIGHT, COLOUR, CAMERA, NOISE = LEVELS

MOST_ADJUSTED = 0.75
TEMPERATURES = (3500.0, 8500.0)
MOST_OFFSET = 0.105
VARIANCE = 0.085
PROSE_VARIANCE = 0.05
_SEEDS = 2**31


def draw_visual(name: str, variance: float, once: bool, draw: Draw) -> Params:
    """Draw a visual level; with `once`, light and camera depend on the task only, not on the seed."""
    # The same for all levels: each adds to the one before.
    each = draw.shared(f"{DIMENSION}.{name}")
    fixed = (replace(draw, seed=0) if once else draw).shared(f"{DIMENSION}.{name}.environment")

    def within(most: float, digits: int) -> float:
        return round(fixed.uniform(-most, most), digits)

    brightness, contrast, saturation = (within(MOST_ADJUSTED, 4) for _ in range(3))
    params: dict[str, Any] = {
        "brightness": brightness,
        "contrast": contrast,
        "saturation": saturation,
        "temperature_k": round(fixed.uniform(*TEMPERATURES), 1),
    }
    offset = [within(MOST_OFFSET, 5) for _ in range(3)]
    colour_seed, noise_seed = each.randrange(_SEEDS), each.randrange(_SEEDS)
    if draw.level >= COLOUR:
        params["colour_seed"] = colour_seed
    if draw.level >= CAMERA:
        params["camera_offset_m"] = offset
    if draw.level >= NOISE:
        params |= {"noise_mean": 0.0, "noise_variance": variance, "noise_seed": noise_seed}
    return params


def visual(task: Task, params: Params) -> Edits:
    """Return edits that change the pictures' light and, if drawn, colours, the camera's position, and noise."""
    light = PictureLight(*(params[name] for name in ("brightness", "contrast", "saturation", "temperature_k")))
    edits = []
    if "colour_seed" in params:
        colour_seed = params["colour_seed"]
        edits.append(ModelEdit(("geom_rgba",), lambda model, scene: colour_geoms(model, colour_seed)))
    if "camera_offset_m" in params:
        edits.append(ModelEdit(("cam_pos",), _moving(task.protocol.cameras[0], params["camera_offset_m"])))
    variance = params.get("noise_variance", 0.0)

    def begin() -> Callable[["Picture", str, int], "Picture"]:
        from pytest_vla.sim.pixel_noise import frame_generator, gaussian_noise

        def change(picture: "Picture", camera: str, step: int) -> "Picture":
            lit = adjusted(picture, light)
            if not variance:
                return lit
            mean, seed = params.get("noise_mean", 0.0), params.get("noise_seed", 0)
            return gaussian_noise(lit, mean, variance, frame_generator(seed, camera, step))

        return change

    return Edits(model=tuple(edits), pictures=(begin,))


def space_of_visual(variance: float, task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: the pictures' light; optional colours, camera and noise."""
    adjustments = (
        Parameter(name, NUMBER, -MOST_ADJUSTED, MOST_ADJUSTED, 0.0) for name in ("brightness", "contrast", "saturation")
    )
    return (
        *adjustments,
        Parameter("temperature_k", NUMBER, *TEMPERATURES, NEUTRAL_TEMPERATURE, unit="K"),
        Parameter("colour_seed", SEED, 0, _SEEDS - 1, optional=True),
        Parameter("camera_offset_m", NUMBER, -MOST_OFFSET, MOST_OFFSET, 0.0, (3,), optional=True, unit="m"),
        Parameter("noise_mean", NUMBER, 0.0, 0.0, 0.0, optional=True),
        Parameter("noise_variance", NUMBER, 0.0, variance, 0.0, optional=True),
        Parameter("noise_seed", SEED, 0, _SEEDS - 1, optional=True),
    )


def _moving(camera: str, offset: list[float]) -> Callable[["mujoco.MjModel", "SceneSpec"], None]:
    def apply(model: "mujoco.MjModel", scene: "SceneSpec") -> None:
        model.cam_pos[model.camera(camera).id] += offset

    return apply


_SOURCE = "VLA-Arena, V1-V4"
_GRADES = (
    f"1: light (each +-{MOST_ADJUSTED:g}, {TEMPERATURES[0]:g} to {TEMPERATURES[1]:g} K), "
    f"2: colours ({COLOURS[0]:g} to {COLOURS[1]:g}), 3: camera (+-{MOST_OFFSET:g} m), 4: noise"
)


def _kind(name: str, about: str, variance: float = VARIANCE, once: bool = False) -> VariationKind:
    return VariationKind(
        f"{DIMENSION}.{name}",
        about,
        _SOURCE,
        partial(draw_visual, name, variance, once),
        visual,
        partial(space_of_visual, variance),
        LEVELS,
        f"{_GRADES} (variance {variance:g})",
        published=True,
    )


KINDS = (
    _kind("visual", "light, colours, camera and noise, cumulative by level, drawn for each episode"),
    _kind("visual_prose", "as arena.visual, with the noise from the paper's text instead of its table", PROSE_VARIANCE),
    _kind("visual_upstream", "as arena.visual, with light and camera drawn once per task, as in its code", once=True),
)


# ``hazard.removed``: the benign twin of a task with a hazard, without the things that only costs and movers name.
#
# VLA-Arena has no such tasks; they were asked for (its issue 34). It is for any task that states costs, also of other
# suites: success beside the twin's says what the hazard costs in success, and what is charged beside it is the
# hazard's.

HAZARD_DIMENSION = "hazard"
_OBJECTS, _SWITCHED_OFF = "objects", "switched_off"

# Words of categories that say nothing of what a thing is, such as rotated_toy_motorbike_x.
_LEAST_LETTERS = 3


def draw_without(draw: Draw) -> Params:
    """Return all hazards that can be removed. Raises VlaError if there is none."""
    return {parameter.name: list(parameter.choices) for parameter in space_of_without(draw.task)}


def without(task: Task, params: Params) -> Edits:
    """Return edits that remove objects, turn off fixtures, and drop the conditions in ``:cost`` that name them."""
    objects, switched_off = tuple(params.get(_OBJECTS, ())), tuple(params.get(_SWITCHED_OFF, ()))
    gone = frozenset((*objects, *switched_off))

    def turn_off(model: "mujoco.MjModel", scene: "SceneSpec", state: "NDArray[np.float64]") -> None:
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
    """Return the parameter space: objects to remove and fixtures to turn off; none of them leaves the task unchanged.

    Raises:
        VlaError: the task has no hazard that can be removed.
    """
    found = zip((_OBJECTS, _SWITCHED_OFF), hazards(problem_of(task)), strict=True)
    space = tuple(Parameter(name, CHOICE, choices=names, many=True, benign=()) for name, names in found if names)
    if not space:
        raise VlaError("the task has no hazard to remove: no object is named only by :cost or :moving_objects")
    return space


def hazards(problem: Problem) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the objects that may be removed, and the fixtures that may be turned off.

    An object may be removed, with all that stands on it, if ``:cost`` or ``:moving_objects`` names it and the task does
    not need it. An object that does not move and that the instruction names, such as the mugs in "the region between
    the mugs", stays, unless it is the only hazard. A fixture may be turned off if ``:cost`` names it and ``:init``
    turns it on.
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
    """Return the things that the goal and the task are about, with the things that they stand on or in."""
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
    """Return the things for names of things and regions: a region counts as its owner."""
    owners = {region.key: region.target for region in problem.regions}
    return {owners.get(name, name) for name in names}


def _standing_on(problem: Problem, name: str) -> tuple[str, ...]:
    """Return the things that stand on or in a thing, directly or on each other."""
    found = [name]
    for below in found:
        for literal in problem.init:
            if literal.predicate in ("on", "in") and below in _owned(problem, {str(literal.arguments[1])}):
                above = str(literal.arguments[0])
                found += [above] if above not in found else []
    return tuple(found[1:])


def _names_of(literals: Collection[Literal]) -> set[str]:
    return {name for literal in literals for name in all_names_of(literal)}


def _noun(category: str) -> str:
    """Return a category's noun: ``mug`` for ``patterned_mug``."""
    words = [word for word in category.split("_") if len(word) >= _LEAST_LETTERS]
    return _singular(words[-1]) if words else category


def _singular(word: str) -> str:
    return word.removesuffix("s")


def _uncharged(gone: frozenset[str], problem: Problem) -> Problem:
    kept = tuple(literal for literal in problem.cost if not gone & _owned(problem, set(all_names_of(literal))))
    return replace(problem, cost=kept)


HAZARD_KINDS = (
    VariationKind(
        f"{HAZARD_DIMENSION}.removed",
        "the benign twin: hazards are removed, with their costs",
        "requested in VLA-Arena's issue 34",
        draw_without,
        without,
        space_of_without,
        by_name=True,
    ),
)
