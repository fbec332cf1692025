"""VLA-Arena's problem classes that its 170 tasks use: a table and a floor.

Facts from the public checkout of 2025-09, ``envs/problems/*.py``, ``envs/arenas/*.py``, ``envs/robots/*.py`` and
``envs/object_states/base_object_states.py``. Table, cameras and textures are LIBERO's.
"""

import math

from pytest_vla.scene.catalog import Articulation, Category
from pytest_vla.scene.literals import CONNECTIVES, SIGNATURES
from pytest_vla.scene.panda import ROBOSUITE_1_5
from pytest_vla.scene.workspaces import (
    FRONT,
    GALLERY,
    LIGHT_GRAY,
    PITCH_32,
    PITCH_39,
    TABLE_SIZE,
    Camera,
    Judging,
    Workspace,
)

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
    "akita_black_bowl": _HALF_X,
    "apple": _HALF_X,
    "banana": _HALF_X,
    "bell_pepper": _HALF_Z,
    "billiard_balls": _AS_MADE,
    "box": _HALF_Z,
    "broccoli": _about("z", _PI / 4),
    "candle": _HALF_Z,
    "carrot": _HALF_X,
    "ceramic_plate": _HALF_X,
    "cucumber": _HALF_X,
    "glazed_rim_porcelain_ramekin": _HALF_X,
    "kiwi": _HALF_X,
    "kiwi_n": _HALF_X,
    "lemon": _AS_MADE,
    "lime": _HALF_X,
    "mango": _HALF_X,
    "mickey": _in_turn(x=_PI / 2, y=0.0, z=_PI / 2),
    "new_bowl": _HALF_X,
    "onion": _HALF_X,
    "onion_n": _HALF_X,
    "orange": _HALF_X,
    "peach": _HALF_X,
    "pink_bowl": _HALF_X,
    "plate": _HALF_X,
    "porcelain_bowl": _HALF_X,
    "porcelain_plate": _HALF_X,
    "potato": _HALF_X,
    "rotated_toy_motorbike": _in_turn(x=0.0, y=0.0, z=_PI / 2),
    "rotated_toy_motorbike_x": _in_turn(x=_PI / 6, y=0.0, z=_PI / 2),
    "strawberry": _HALF_X,
    "teapot": _about("x", -_PI / 2, _PI / 2),
    "tomato": _HALF_X,
    "tomato_n": _HALF_X,
    "toy_car": _HALF_Z,
    "toy_motorbike": _in_turn(x=_PI / 2, y=0.0, z=_PI / 2),
    "toy_train": _in_turn(x=_PI / 4, y=0.0, z=_PI / 2),
    "vase": _HALF_X,
    "white_bowl": _HALF_X,
}
_HOPE: dict[str, Rotations] = {
    "bagel": _HALF_X,
    "cake": _HALF_X,
    "cake_n": _HALF_X,
    "cereal": _about("x", 0.5),
    "chiffon_cake": _HALF_X,
    "donut": _HALF_X,
    "donut_n": _HALF_X,
    "egg": _HALF_X,
    "fork": _BACK_X,
    "knife_n": _BACK_X,
    "orange_juice": _in_turn(x=_PI / 2, z=_PI / 2),
    "rotated_fork": _about("x", _PI / 6),
    "rotated_fork_pi": _HALF_X,
    "rotated_knife": _about("x", -_PI / 6),
    "rotated_knife_pi": _HALF_X,
    "rotated_scissors": _about("x", -_PI / 5),
    "rotated_scissors_pi": _HALF_X,
    "scissors": _BACK_X,
}
_TURBOSQUID: dict[str, Rotations] = {
    "blue_mug": _AS_MADE,
    "cutting_board": _about("x", -_PI / 8),
    "cutting_board_no_rotation": _AS_MADE,
    "green_mug": _AS_MADE,
    "patterned_mug": _AS_MADE,
    "porcelain_mug": _BACK_X,
    "red_coffee_mug": _BACK_X,
    "white_storage_box": _about("y", 0.0),
    "white_yellow_mug": _BACK_X,
    "wine_bottle": _AS_MADE,
    "wooden_shelf": _AS_MADE,
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
_VISIBLE = frozenset(
    (
        "apple",
        "banana",
        "bell_pepper",
        "broccoli",
        "candle",
        "carrot",
        "cucumber",
        "fork",
        "kiwi",
        "kiwi_n",
        "knife_n",
        "lemon",
        "lime",
        "mango",
        "onion",
        "onion_n",
        "orange",
        "peach",
        "potato",
        "rotated_fork",
        "rotated_fork_pi",
        "rotated_knife",
        "rotated_knife_pi",
        "rotated_scissors",
        "rotated_scissors_pi",
        "scissors",
        "strawberry",
        "tomato",
        "tomato_n",
    )
)


def _catalogue() -> dict[str, Category]:
    entries = []
    for folder, table in (
        ("stable_hope_objects", _HOPE),
        ("stable_scanned_objects", _SCANNED),
        ("turbosquid_objects", _TURBOSQUID),
    ):
        for name, rotations in table.items():
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

TABLETOP = Workspace(
    problem="tabletop_manipulation",
    name="main_table",
    category="table",
    offset=(0, 0, 0.90),
    fixture_height=0.01 - TABLE_SIZE[2],
    robot_base=(-0.16 - TABLE_SIZE[0] / 2, 0, 0),
    mounted=True,
    scene="scenes/tabletop_warm_style.xml",
    floor_texture=LIGHT_GRAY[0],
    wall_texture=LIGHT_GRAY[1],
    cameras=(
        Camera("agentview", (0.6586131746834771, 0.0, 1.6103500240372423), PITCH_39),
        Camera("frontview", (1.0, 0.0, 1.48), FRONT),
        GALLERY,
    ),
    zone_body="table",
    zone_offset=(0.0, 0.0, 0.02),
    keep_inside=True,
    table=(TABLE_SIZE, (0.6, 0.005, 0.0001)),
    profile=ROBOSUITE_1_5,
    categories=CATEGORIES,
    judging=JUDGING,
)

# The arm stands on its mount here too, which reaches 0.7 m below the floor.
FLOOR = Workspace(
    problem="floor_manipulation",
    name="floor",
    category="floor",
    offset=(0, 0, -0.035),
    fixture_height=-0.025,
    robot_base=(-0.6, 0, -0.7),
    mounted=True,
    scene="scenes/floor_warm_style.xml",
    floor_texture=LIGHT_GRAY[0],
    wall_texture=LIGHT_GRAY[1],
    cameras=(
        Camera("agentview", (0.8965773716836134, 5.216182733499864e-07, 0.65), PITCH_32),
        Camera("frontview", (1.0, 0.0, 0.65), FRONT),
        GALLERY,
    ),
    zone_body="floor",
    zone_offset=(0.0, 0.0, 0.02),
    keep_inside=True,
    profile=ROBOSUITE_1_5,
    rest_joints=(0.0, -1.61037389e-01, 0.0, -2.8, 0.0, 2.3, math.pi / 4),
    categories=CATEGORIES,
    judging=JUDGING,
)
