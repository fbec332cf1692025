"""The scenes of VLATest (arXiv 2409.12894), reproduced from their seeds: objects, poses and the asked ones.

The published scene files are made again byte for byte by `scene_file`. VLATest's draws are numpy's legacy ones, one
stream for a whole file; the draws of each scene, and their order, are the documentation of `scenes`.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.proposals import no_scene
from pytest_vla.plan.case import levelled
from pytest_vla.plan.task import Task
from pytest_vla.util.text import LAST_SEED, did_you_mean
from pytest_vla.vary.chosen import Change, change_of
from pytest_vla.vary.kind import SHARE, Draw, VariationKind
from pytest_vla.vary.registry import find_variation

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.random.RandomState


OBJECTS = (
    *("pepsi_can", "opened_pepsi_can", "coke_can", "opened_coke_can", "sprite_can", "opened_sprite_can", "7up_can"),
    *("opened_7up_can", "fanta_can", "opened_fanta_can", "redbull_can", "opened_redbull_can", "blue_plastic_bottle"),
    *("apple", "orange", "sponge", "bridge_spoon_generated_modified", "bridge_carrot_generated_modified"),
    *("green_cube_3cm", "yellow_cube_3cm", "eggplant"),
)
"""The order is of meaning: objects are drawn by their place in it."""

MOST_CONFOUNDERS = 3
"""Objects beside those that are asked of, in the published files."""

STANDING = (math.cos(math.pi / 4), math.sin(math.pi / 4), 0.0, 0.0)
"""As a quaternion, w first: turned a quarter about x."""

_UNTURNED = (1, 0, 0, 0)
_SINK = "dummy_sink_target_plane"
_SINK_AT = (-0.125, 0.025)
_PLATES = (
    "bridge_plate_objaverse", "bridge_plate_objaverse_larger", "table_cloth_generated", "table_cloth_generated_shorter"
)  # fmt: skip

# Of a model's name what does not tell one thing from another: an opened can of cola is still a can of cola.
_SAY_NOTHING = frozenset(("opened", "light", "generated", "modified", "objaverse", "bridge", "baked", "v2"))


@dataclass(frozen=True)
class VlatestRules:
    """The rules for scenes of a task.

    Attributes:
        x, y: the range of objects' positions, in metres.
        apart: least distance of two objects, in metres; 0 if they may be anywhere, on each other too.
        asked: number of objects that are drawn with the confounders, and that the task is about.
        target: where the object goes: ``plate`` or ``sink``; empty for another drawn object, or no target.
    """

    x: tuple[float, float]
    y: tuple[float, float]
    apart: float
    asked: int
    target: str = ""


RULES: Mapping[str, VlatestRules] = {
    "grasp": VlatestRules((-0.5, -0.1), (0, 0.4), 0, 1),
    "move": VlatestRules((-0.5, -0.1), (0, 0.4), 0.15, 2),
    "put-in": VlatestRules((-0.2, -0.1), (0.1, 0.2), 0, 1, "sink"),
    "put-on": VlatestRules((-0.3, 0), (-0.16, 0.12), 0.05, 1, "plate"),
}
"""By VLATest's name of the task."""


@dataclass(frozen=True)
class VlatestObject:
    """An object of a scene.

    Attributes:
        model: name.
        at: x and y, in metres.
        turned: a quaternion, w first.
    """

    model: str
    at: tuple[float, float]
    turned: tuple[float, float, float, float]


@dataclass(frozen=True)
class VlatestScene:
    """A scene of VLATest.

    Attributes:
        task: one of `RULES`.
        things: in the order in which they were drawn.
        source: index of the one to be grasped, moved or put.
        target: index of the one that it is brought to, or None for ``grasp``.
    """

    task: str
    things: tuple[VlatestObject, ...]
    source: int = 0
    target: int | None = None

    @property
    def confounders(self) -> int:
        """The number of things that the task is not about."""
        return len(self.things) - (1 if self.target is None else 2)

    def as_published(self) -> dict[str, Any]:
        """Return the scene as VLATest's files have it."""
        if self.target is None:
            first, *others = self.things
            table: dict[str, Any] = {
                "model_id": first.model,
                "obj_init_options": {"init_xy": list(first.at), "orientation": list(first.turned)},
            }
            if others:
                table["distractor_model_ids"] = [each.model for each in others]
                table["distractor_obj_init_options"] = {each.model: _pose(each) for each in others}
            return table
        return {
            "model_ids": [each.model for each in self.things],
            "obj_init_options": {each.model: _pose(each) for each in self.things},
            "source_obj_id": self.source,
            "target_obj_id": self.target,
        }


def scenes(
    task: str,
    numbers: "Numbers",
    most: int = MOST_CONFOUNDERS,
    *,
    exactly: bool = False,
    models: Sequence[str] = OBJECTS,
) -> Iterator[VlatestScene]:
    """Yield VLATest's scenes, without an end.

    For each scene the number of confounders is drawn first, evenly from none to the most; for ``put-on`` and ``put-in``
    after the object and its target. An object is drawn from those that are not alike to one drawn before; then x and y,
    again and again if they are too near to another's; then whether it lies or stands; if it lies the turn about z. A
    plate's place is drawn before the plate. For ``move`` all objects are shuffled in the end: the first is brought to
    the second.

    Args:
        task: one of `RULES`.
        numbers: the same state gives the same scenes.
        most: confounders.
        exactly: always `most`, without drawing the number.
        models: objects to draw from; the order matters.

    Raises:
        VlaError: there is no such task, or there are too few objects.
    """
    if task not in RULES:
        raise VlaError(f"VLATest has no task {task!r}.{did_you_mean(task, RULES)} It has {', '.join(RULES)}")
    kinds = len({alike(model) for model in models})
    needed = RULES[task].asked + most
    if most < 0 or kinds < needed:
        raise VlaError(f"{most} confounders with {kinds} different objects: expected 0 to {kinds - RULES[task].asked}")
    while True:
        yield _scene(task, numbers, most, exactly, models)


def scene_file(task: str, seed: int, number: int, most: int = MOST_CONFOUNDERS, *, exactly: bool = False) -> str:
    """Return the text of a published file: `number` scenes by their number, then the seed and the number.

    Args:
        task: one of `RULES`.
        seed: from 1; VLATest takes 0 for none.
        number: of scenes.
        most, exactly: as for `scenes`.

    Raises:
        VlaError: as `scenes`, or the seed is out of range.
    """
    import numpy as np

    if not 1 <= seed <= LAST_SEED:
        raise VlaError(f"seed {seed}: expected a whole number from 1 to {LAST_SEED}")
    drawn = scenes(task, np.random.RandomState(seed), most, exactly=exactly)
    table: dict[str, Any] = {str(place): next(drawn).as_published() for place in range(number)}
    return json.dumps(table | {"seed": seed, "num": number})


def alike(model: str) -> str:
    """Return a model's name in instructions; a scene has at most one object of each such name."""
    return " ".join(word for word in model.split("_") if word not in _SAY_NOTHING and not word.endswith("cm"))


def _scene(task: str, numbers: "Numbers", most: int, exactly: bool, models: Sequence[str]) -> VlatestScene:
    rules = RULES[task]
    left, things = list(models), list[VlatestObject]()

    def add(count: int) -> None:
        for _ in range(count):
            things.append(_thing(rules, numbers, left, things))

    def confounders() -> int:
        return most if exactly else int(numbers.randint(0, most + 1))

    if not rules.target:
        add(rules.asked + confounders())
        if rules.asked == 1:
            return VlatestScene(task, tuple(things))
        order = list(range(len(things)))
        numbers.shuffle(order)
        return VlatestScene(task, tuple(things), *map(int, order[:2]))
    add(rules.asked)
    if rules.target == "sink":
        things.append(VlatestObject(_SINK, _SINK_AT, _UNTURNED))
    else:
        at = _place(rules, numbers, things)
        things.append(VlatestObject(str(numbers.choice(_PLATES)), at, _UNTURNED))
    add(confounders())
    return VlatestScene(task, tuple(things), 0, 1)


def _thing(rules: VlatestRules, numbers: "Numbers", left: list[str], there: Sequence[VlatestObject]) -> VlatestObject:
    model = str(numbers.choice(left))
    left[:] = [each for each in left if alike(each) != alike(model)]
    at = _place(rules, numbers, there)
    if numbers.choice(("standing", "lying")) == "standing":
        return VlatestObject(model, at, STANDING)
    half = float(numbers.uniform(-math.pi, math.pi)) / 2
    return VlatestObject(model, at, (math.cos(half), 0.0, 0.0, math.sin(half)))


def _place(rules: VlatestRules, numbers: "Numbers", there: Sequence[VlatestObject]) -> tuple[float, float]:
    while True:
        at = float(numbers.uniform(*rules.x)), float(numbers.uniform(*rules.y))
        if all(math.dist(at, each.at) >= rules.apart for each in there):
            return at


def _pose(thing: VlatestObject) -> dict[str, Any]:
    return {"init_xy": list(thing.at), "init_rot_quat": list(thing.turned)}


# Proposals as VLATest draws its scenes (arXiv 2409.12894), on any suite's tasks and by our kinds of change.
#
# 0 to 3 objects beside those that are asked of, each number as likely; and of three scenes one each with other light,
# with the camera turned, and with neither, as its research questions have them. What is otherwise: objects stand
# where there is room, so that the task can still be done; what is asked of stands where the suite's init state has
# it; brighter goes to the brightest that our pictures show, and not to 20 times; the camera is turned and not also
# moved by up to 5 cm, as a camera has one change here.

OBJECTS_KIND, LIGHT, CAMERA = "layout.distractors", "light.diffuse", "camera.orientation"
"""The kinds that scenes are made of."""

DARKEST = 1 / 20
MOST_TURN = 5.0
"""Degrees, of each of pitch and yaw."""

_MOST_DRAWS = 100


def propose_as_vlatest(task: Task, seed: int, some: Sequence[VariationKind], generator: Random) -> Candidate:
    """Draw a scene as VLATest does; used instead of `pytest_vla.fuzz.proposals.propose`.

    Args:
        task: as it is.
        seed: of the case.
        some: kinds to draw from; only `OBJECTS_KIND`, `LIGHT` and `CAMERA` are used.
        generator: the same state gives the same scene.

    Raises:
        VlaError: none of the kinds is there, or none of many draws is a scene that the task can have.
    """
    by_name = {kind.name: kind for kind in some if kind.name in (OBJECTS_KIND, LIGHT, CAMERA)}
    if not by_name:
        raise VlaError(f"{task.id}: VLATest's scenes need a kind of {OBJECTS_KIND}, {LIGHT}, {CAMERA}")
    why = ""
    for _ in range(_MOST_DRAWS):
        try:
            candidate = Candidate(task, seed, tuple(_changes(task, by_name, generator)))
            if candidate.changes:
                find_variation(task, candidate.label, seed)
                return candidate
        except VlaError as error:
            why = str(error)
    raise no_scene(task, _MOST_DRAWS, why)


def _changes(task: Task, by_name: dict[str, VariationKind], generator: Random) -> list[Change]:
    found = []
    number, beside = generator.randint(0, MOST_CONFOUNDERS), generator.choice(("", LIGHT, CAMERA))
    if number and OBJECTS_KIND in by_name:
        kind = by_name[OBJECTS_KIND]
        draw = Draw(task, levelled(kind.name, number), generator.getrandbits(31), number)
        found.append(change_of(kind.name, kind.sample(draw)))
    if beside in by_name:
        found.append(_lit(by_name[LIGHT], task, generator) if beside == LIGHT else _turned(generator))
    return found


def _lit(kind: VariationKind, task: Task, generator: Random) -> Change:
    (bounds,) = (each for each in kind.space(task) if each.name == "gain_rgb")
    darker = generator.choice((True, False))
    gain = generator.uniform(max(DARKEST, bounds.low), 1.0) if darker else generator.uniform(1.0, bounds.high)
    params = {"gain_rgb": [gain] * 3, "gain_rgb_overlit": [min(gain, 1.0)] * 3, SHARE: 1.0}
    return change_of(LIGHT, params)


def _turned(generator: Random) -> Change:
    pitch, yaw = (generator.uniform(-MOST_TURN, MOST_TURN) for _ in range(2))
    # Of angles so small both turns are one about the axis between.
    angle = math.hypot(pitch, yaw)
    return change_of(CAMERA, {"angle_deg": angle, "axis_pitch_yaw_roll": [pitch / angle, yaw / angle, 0.0]})
