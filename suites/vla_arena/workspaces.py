"""VLA-Arena's problem classes that its 170 tasks use: a table and a floor.

Facts from the public checkout of 2025-09, ``envs/problems/*.py``, ``envs/arenas/*.py``, ``envs/robots/*.py`` and
``envs/object_states/base_object_states.py``. Table, cameras and textures are LIBERO's.
"""

import math

from pytest_vla.scene.literals import CONNECTIVES, SIGNATURES
from pytest_vla.scene.profiles import ROBOSUITE_1_5
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
from pytest_vla.suites.vla_arena.categories import CATEGORIES

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
