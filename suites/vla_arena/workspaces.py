"""VLA-Arena's problem classes that its 170 tasks use: a table and a floor.

Facts from the public checkout of 2025-09, ``envs/problems/*.py``, ``envs/arenas/*.py``, ``envs/robots/*.py`` and
``envs/object_states/base_object_states.py``. Table, cameras and textures are LIBERO's.
"""

import math
from dataclasses import replace

from pytest_vla.scene.catalog import Articulation, Category
from pytest_vla.scene.literals import CONNECTIVES, SIGNATURES
from pytest_vla.scene.panda import ROBOSUITE_1_5
from pytest_vla.scene.workspaces import WORKSPACES, Judging

# VLA-Arena's object and fixture categories: model file, sampled rotation, joint ranges.
#
# Facts from the public checkout of 2025-09, ``envs/objects/*.py``, as its classes resolve them: the 72 categories
# that its 170 tasks use. Several share one model and differ in how they are turned when they are placed.

_PI = math.pi
Rotations = tuple[tuple[str, float, float], ...]


def _about(axis: str, angle: float, highest: float | None = None) -> Rotations:
    return ((axis, angle, angle if highest is None else highest),)


def _in_turn(**angles: float) -> Rotations:
    return tuple((axis, angle, angle) for axis, angle in angles.items())


_AS_MADE = _about("x", 0.0)
_HALF_X = _about("x", _PI / 2)
_BACK_X = _about("x", -_PI / 2)
_HALF_Z = _about("z", _PI / 2)
_ARTICULATED = _about("x", _PI / 4, _PI / 2)

_SCANNED: dict[str, Rotations] = {
    **dict.fromkeys(("akita_black_bowl", "apple", "banana", "carrot", "ceramic_plate", "cucumber"), _HALF_X),
    **dict.fromkeys(("glazed_rim_porcelain_ramekin", "kiwi", "kiwi_n", "lime", "mango", "new_bowl"), _HALF_X),
    **dict.fromkeys(("onion", "onion_n", "orange", "peach", "pink_bowl", "plate", "porcelain_bowl"), _HALF_X),
    **dict.fromkeys(("porcelain_plate", "potato", "strawberry", "tomato", "tomato_n", "vase"), _HALF_X),
    "white_bowl": _HALF_X,
    **dict.fromkeys(("bell_pepper", "box", "candle", "toy_car"), _HALF_Z),
    **dict.fromkeys(("billiard_balls", "lemon"), _AS_MADE),
    "broccoli": _about("z", _PI / 4),
    **dict.fromkeys(("mickey", "toy_motorbike"), _in_turn(x=_PI / 2, y=0.0, z=_PI / 2)),
    "rotated_toy_motorbike": _in_turn(x=0.0, y=0.0, z=_PI / 2),
    "rotated_toy_motorbike_x": _in_turn(x=_PI / 6, y=0.0, z=_PI / 2),
    "teapot": _about("x", -_PI / 2, _PI / 2),
    "toy_train": _in_turn(x=_PI / 4, y=0.0, z=_PI / 2),
}
_HOPE: dict[str, Rotations] = {
    **dict.fromkeys(("bagel", "cake", "cake_n", "chiffon_cake", "donut", "donut_n", "egg"), _HALF_X),
    **dict.fromkeys(("rotated_fork_pi", "rotated_knife_pi", "rotated_scissors_pi"), _HALF_X),
    "cereal": _about("x", 0.5),
    **dict.fromkeys(("fork", "knife_n", "scissors"), _BACK_X),
    "orange_juice": _in_turn(x=_PI / 2, z=_PI / 2),
    "rotated_fork": _about("x", _PI / 6),
    "rotated_knife": _about("x", -_PI / 6),
    "rotated_scissors": _about("x", -_PI / 5),
}
_TURBOSQUID: dict[str, Rotations] = {
    **dict.fromkeys(("blue_mug", "cutting_board_no_rotation", "green_mug", "patterned_mug"), _AS_MADE),
    **dict.fromkeys(("wine_bottle", "wooden_shelf"), _AS_MADE),
    "cutting_board": _about("x", -_PI / 8),
    **dict.fromkeys(("porcelain_mug", "red_coffee_mug", "white_yellow_mug"), _BACK_X),
    "white_storage_box": _about("y", 0.0),
}
_JOINTED: dict[str, tuple[Rotations, Articulation | None]] = {
    "flat_stove": (_about("y", 0.0), Articulation(turn_on_range=(0.5, 2.1), turn_off_range=(-0.005, 0.0))),
    "short_cabinet": (
        _ARTICULATED,
        Articulation(open_range=(0.10, 0.16), close_range=(-0.005, 0.0), opens_below=False),
    ),
    "water_ball": (_ARTICULATED, None),
    "white_cabinet": (_ARTICULATED, Articulation(open_range=(-0.16, -0.14), close_range=(0.0, 0.005))),
}
# Whose model has another name.
_MODELS = {
    "cutting_board_no_rotation": "cutting_board",
    "rotated_fork": "fork",
    "rotated_fork_pi": "fork",
    "rotated_knife": "knife_n",
    "rotated_knife_pi": "knife_n",
    "rotated_scissors": "scissors",
    "rotated_scissors_pi": "scissors",
    "rotated_toy_motorbike": "toy_motorbike",
    "rotated_toy_motorbike_x": "toy_motorbike",
}
# Whose colliding geoms have twins that are seen.
_VISIBLE = {
    *("apple", "banana", "bell_pepper", "broccoli", "candle", "carrot", "cucumber", "fork", "kiwi", "kiwi_n"),
    *("knife_n", "lemon", "lime", "mango", "onion", "onion_n", "orange", "peach", "potato", "rotated_fork"),
    *("rotated_fork_pi", "rotated_knife", "rotated_knife_pi", "rotated_scissors", "rotated_scissors_pi"),
    *("scissors", "strawberry", "tomato", "tomato_n"),
}


def _catalogue() -> dict[str, Category]:
    entries = []
    for folder, table in (
        ("stable_hope_objects", _HOPE),
        ("stable_scanned_objects", _SCANNED),
        ("turbosquid_objects", _TURBOSQUID),
    ):
        # Draws among categories go through them in this order.
        for name, rotations in sorted(table.items()):
            model = _MODELS.get(name, name)
            file = f"{folder}/{model}/{model}.xml"
            entries.append(Category(name, file, rotations, len(rotations) == 1, visible_collisions=name in _VISIBLE))
    for name, (rotations, articulation) in _JOINTED.items():
        burner = "burner" if name == "flat_stove" else None
        entries.append(Category(name, f"articulated_objects/{name}.xml", rotations, True, articulation, burner))
    return {entry.name: entry for entry in entries}


CATEGORIES = _catalogue()


JUDGING = Judging(on_distance=0.07, goals=frozenset({*SIGNATURES, *CONNECTIVES}), in_bodies=True)
"""An object is on another that is up to 7 cm off, and anything can be asked; some of it crashes upstream."""

TABLETOP = replace(
    WORKSPACES["libero_tabletop_manipulation"],
    problem="tabletop_manipulation",
    scene="scenes/tabletop_warm_style.xml",
    profile=ROBOSUITE_1_5,
    categories=CATEGORIES,
    judging=JUDGING,
)

# The arm stands on its mount here too, which reaches 0.7 m below the floor.
FLOOR = replace(
    WORKSPACES["libero_floor_manipulation"],
    problem="floor_manipulation",
    robot_base=(-0.6, 0, -0.7),
    mounted=True,
    scene="scenes/floor_warm_style.xml",
    profile=ROBOSUITE_1_5,
    rest_joints=(0.0, -1.61037389e-01, 0.0, -2.8, 0.0, 2.3, math.pi / 4),
    categories=CATEGORIES,
    judging=JUDGING,
)
