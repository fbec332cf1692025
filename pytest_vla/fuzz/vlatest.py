"""VLATest's scenes (arXiv 2409.12894) from their seeds: what is where, how it is turned, and what is asked.

The published scene files are made again byte for byte by `scene_file`. VLATest's draws are numpy's legacy ones, one
stream for a whole file; what each scene draws, and in which order, is the documentation of `scenes`.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import VlaError
from pytest_vla.util.ranges import LAST_SEED
from pytest_vla.util.text import did_you_mean

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
class Rules:
    """What scenes of a task have.

    Attributes:
        x, y: from where to where objects are, in metres.
        apart: no two objects are nearer, in metres; 0: they may be anywhere, on each other too.
        asked: objects that are drawn with the confounders, and that the task is about.
        target: where the object goes: ``plate``, ``sink``; empty: another drawn object, or nowhere.
    """

    x: tuple[float, float]
    y: tuple[float, float]
    apart: float
    asked: int
    target: str = ""


RULES: Mapping[str, Rules] = {
    "grasp": Rules((-0.5, -0.1), (0, 0.4), 0, 1),
    "move": Rules((-0.5, -0.1), (0, 0.4), 0.15, 2),
    "put-in": Rules((-0.2, -0.1), (0.1, 0.2), 0, 1, "sink"),
    "put-on": Rules((-0.3, 0), (-0.16, 0.12), 0.05, 1, "plate"),
}
"""By VLATest's name of the task."""


@dataclass(frozen=True)
class Thing:
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
class Scene:
    """A scene of VLATest.

    Attributes:
        task: one of `RULES`.
        things: in the order in which they were drawn.
        source: which of them is to be grasped, moved or put.
        target: which of them it is brought to; of ``grasp`` none.
    """

    task: str
    things: tuple[Thing, ...]
    source: int = 0
    target: int | None = None

    @property
    def confounders(self) -> int:
        """How many things are asked nothing of."""
        return len(self.things) - (1 if self.target is None else 2)

    def as_published(self) -> dict[str, Any]:
        """As VLATest's files have it."""
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
) -> Iterator[Scene]:
    """VLATest's scenes, without an end.

    Of a scene the number of confounders is drawn first, evenly from none to the most; of ``put-on`` and ``put-in``
    behind the object and its target. An object is drawn from those that nothing alike was drawn of before; then x and
    y, again and again where they are too near to another's; then whether it lies or stands; of one that lies the turn
    about z. A plate has its place drawn before which plate it is. Of ``move`` all objects are shuffled in the end: the
    first is brought to the second.

    Args:
        task: one of `RULES`.
        numbers: the same state gives the same scenes.
        most: confounders.
        exactly: always so many, without drawing the number.
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
    """The text of a published file: so many scenes by their number, then the seed and the number.

    Args:
        task: one of `RULES`.
        seed: from 1; VLATest takes 0 for none.
        number: of scenes.
        most, exactly: as for `scenes`.

    Raises:
        VlaError: as `scenes`, or the seed is none.
    """
    import numpy as np

    if not 1 <= seed <= LAST_SEED:
        raise VlaError(f"seed {seed}: expected a whole number from 1 to {LAST_SEED}")
    drawn = scenes(task, np.random.RandomState(seed), most, exactly=exactly)
    table: dict[str, Any] = {str(place): next(drawn).as_published() for place in range(number)}
    return json.dumps(table | {"seed": seed, "num": number})


def alike(model: str) -> str:
    """What a model is called in instructions; of what is called alike a scene has one."""
    return " ".join(word for word in model.split("_") if word not in _SAY_NOTHING and not word.endswith("cm"))


def _scene(task: str, numbers: "Numbers", most: int, exactly: bool, models: Sequence[str]) -> Scene:
    rules = RULES[task]
    left, things = list(models), list[Thing]()

    def add(count: int) -> None:
        for _ in range(count):
            things.append(_thing(rules, numbers, left, things))

    def confounders() -> int:
        return most if exactly else int(numbers.randint(0, most + 1))

    if not rules.target:
        add(rules.asked + confounders())
        if rules.asked == 1:
            return Scene(task, tuple(things))
        order = list(range(len(things)))
        numbers.shuffle(order)
        return Scene(task, tuple(things), *map(int, order[:2]))
    add(rules.asked)
    if rules.target == "sink":
        things.append(Thing(_SINK, _SINK_AT, _UNTURNED))
    else:
        at = _place(rules, numbers, things)
        things.append(Thing(str(numbers.choice(_PLATES)), at, _UNTURNED))
    add(confounders())
    return Scene(task, tuple(things), 0, 1)


def _thing(rules: Rules, numbers: "Numbers", left: list[str], there: Sequence[Thing]) -> Thing:
    model = str(numbers.choice(left))
    left[:] = [each for each in left if alike(each) != alike(model)]
    at = _place(rules, numbers, there)
    if numbers.choice(("standing", "lying")) == "standing":
        return Thing(model, at, STANDING)
    half = float(numbers.uniform(-math.pi, math.pi)) / 2
    return Thing(model, at, (math.cos(half), 0.0, 0.0, math.sin(half)))


def _place(rules: Rules, numbers: "Numbers", there: Sequence[Thing]) -> tuple[float, float]:
    while True:
        at = float(numbers.uniform(*rules.x)), float(numbers.uniform(*rules.y))
        if all(math.dist(at, each.at) >= rules.apart for each in there):
            return at


def _pose(thing: Thing) -> dict[str, Any]:
    return {"init_xy": list(thing.at), "init_rot_quat": list(thing.turned)}
