"""Problem classes, LIBERO's and ours: which table or floor, robot, arena, styles and cameras a problem name stands for.

Facts from hf-libero 0.1.4, ``envs/problems/*.py``, ``envs/arenas/*.py`` and ``envs/robots/*.py``.
"""

import difflib
from dataclasses import dataclass, field, replace

from pytest_vla import extensions, hook_modules
from pytest_vla.errors import SceneError, VlaError
from pytest_vla.scene.catalog import Categories
from pytest_vla.scene.panda import REST_JOINTS, ROBOSUITE_1_4, Profile

# A benchmark's definitions for judging literals, as far as benchmarks differ. Values of a problem class.
# Facts of LIBERO's from hf-libero 0.1.4, ``envs/object_states/base_object_states.py``.


@dataclass(frozen=True)
class Judging:
    """The definitions by which literals are judged.

    Attributes:
        on_distance: how far apart (m), horizontally, the origins of two bodies may be if one is on the other.
        goals: the predicates and connectives that a goal may have.
        in_bodies: whether a goal may ask that something is in an object or fixture, not only in a region.
    """

    on_distance: float
    goals: frozenset[str]
    in_bodies: bool


LIBERO = Judging(
    on_distance=0.03,
    goals=frozenset({"true", "false", "on", "in", "up", "open", "close", "turnon", "turnoff"}),
    in_bodies=False,
)
"""The definitions of LIBERO and of benchmarks built on it."""


Vector = tuple[float, ...]


REACH = 0.85
"""How far (m) from its base, horizontally, the robot may have to go; in LIBERO's own scenes it is 0.80."""


@dataclass(frozen=True)
class Camera:
    """A fixed camera: position (m, world) and orientation (quaternion wxyz)."""

    name: str
    position: Vector
    quaternion: Vector


@dataclass(frozen=True)
class Workspace:
    """A problem class's additions to its task files. Lengths in metres, world frame.

    Attributes:
        name: the workspace that regions target.
        category: the fixture category that stands for it and is not loaded.
        offset: origin of region ranges.
        fixture_height: added to the offset's z for fixtures.
        zone_offset: added to a region's centre to place its site in `zone_body`.
        table: (full size, sliding/torsional/rolling friction) if the arena's table is resized.
        keep_inside: whether sampled objects must lie inside their region with their radius.
        profile: the version of robosuite that is reproduced.
        rest_joints: the arm's pose (7,) rad at a reset.
        categories: its own catalogue, or None for LIBERO's.
        judging: how literals are judged.
    """

    problem: str
    name: str
    category: str
    offset: Vector
    fixture_height: float
    robot_base: Vector
    mounted: bool
    scene: str
    floor_texture: str
    wall_texture: str
    cameras: tuple[Camera, ...]
    zone_body: str
    zone_offset: Vector
    keep_inside: bool
    table: tuple[Vector, Vector] | None = None
    profile: Profile = ROBOSUITE_1_4
    rest_joints: Vector = REST_JOINTS
    # A mapping has no hash.
    categories: Categories | None = field(default=None, hash=False)
    judging: Judging = LIBERO


def workspace(problem: str, location: str) -> Workspace:
    """Return the workspace of a problem name (lower-case): LIBERO's, ours, or an extension package's.

    Raises:
        SceneError: there is no such problem class; `location` starts the message.
        VlaError: an extension package cannot be used.
    """
    if problem in WORKSPACES:
        return WORKSPACES[problem]
    added = extensions.workspaces()
    if problem in added:
        return _loaded(problem)
    known = (*WORKSPACES, *added)
    matches = difflib.get_close_matches(problem, known, n=2)
    hint = f"Did you mean {' or '.join(matches)}?" if matches else f"Known: {', '.join(known)}."
    raise SceneError(f"{location}: unknown problem class {problem!r}. {hint}")


@hook_modules.until_changed
def _loaded(problem: str) -> Workspace:
    entry = extensions.workspaces()[problem]
    found = extensions.load(entry)
    if not isinstance(found, Workspace):
        raise VlaError(f"{entry.origin}: {entry.load} is {type(found).__name__}, expected a Workspace")
    if found.problem != problem:
        raise VlaError(f"{entry.origin}: {entry.load} is called {found.problem!r}, expected {problem!r}")
    return found


# Values shared by further problem classes, such as VLA-Arena's: the table's full size (m), cameras (wxyz), textures.
TABLE_SIZE = (1.0, 1.2, 0.05)
_LOW_TABLE_SIZE = (0.70, 1.6, 0.024)
PITCH_39 = (0.6380177736282349, 0.3048497438430786, 0.30484986305236816, 0.6380177736282349)
PITCH_32 = (0.6182166934013367, 0.3432307541370392, 0.3432314395904541, 0.6182177066802979)
FRONT = (0.56, 0.43, 0.43, 0.56)
GALLERY = Camera(
    "galleryview",
    (2.844547668904445, 2.1279684793440667, 3.128616846013882),
    (0.42261379957199097, 0.23374411463737488, 0.41646939516067505, 0.7702690958976746),
)
_PAPER_QUATERNION = (0.513, 0.353, 0.443, 0.645)

LIGHT_GRAY = ("light-gray-floor-tile.png", "light-gray-plaster.png")
_GRAY_CERAMIC = ("gray_ceramic_tile.png", "yellow_linen_wall_texture.png")
_WOOD_PLANK = ("seamless_wood_planks_floor.png", "light-gray-plaster.png")


_TABLE = Workspace(
    problem="libero_tabletop_manipulation",
    name="main_table",
    category="table",
    offset=(0, 0, 0.90),
    fixture_height=0.01 - TABLE_SIZE[2],
    robot_base=(-0.16 - TABLE_SIZE[0] / 2, 0, 0),
    mounted=True,
    scene="scenes/libero_tabletop_base_style.xml",
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
)
_LIVING_ROOM = replace(
    _TABLE,
    problem="libero_living_room_tabletop_manipulation",
    name="living_room_table",
    category="living_room_table",
    offset=(0, 0, 0.41),
    fixture_height=0.01 - _LOW_TABLE_SIZE[2],
    robot_base=(-0.16 - _LOW_TABLE_SIZE[0] / 2, 0, 0.42),
    mounted=False,
    scene="scenes/libero_living_room_tabletop_base_style.xml",
    floor_texture=_WOOD_PLANK[0],
    wall_texture=_WOOD_PLANK[1],
    cameras=(
        Camera("agentview", (0.6065773716836134, 0.0, 0.96), PITCH_32),
        Camera("frontview", (1.5, 0.0, 0.9), FRONT),
        GALLERY,
        Camera("paperview", (2.1, 0.735, 1.875), _PAPER_QUATERNION),
    ),
    zone_body="living_room_table",
    zone_offset=(0, 0, 0.41),
    keep_inside=False,
    table=None,
)
_PAPER_VIEW = Camera("paperview", (2.1, 0.535, 2.075), _PAPER_QUATERNION)
_ALL = (
    _TABLE,
    replace(
        _TABLE,
        problem="libero_kitchen_tabletop_manipulation",
        name="kitchen_table",
        category="kitchen_table",
        offset=(0.0, 0, 0.90),
        scene="scenes/libero_kitchen_tabletop_base_style.xml",
        floor_texture=_GRAY_CERAMIC[0],
        wall_texture=_GRAY_CERAMIC[1],
        cameras=(*_TABLE.cameras, _PAPER_VIEW),
        zone_offset=(0.0, 0.0, 0.0),
        keep_inside=False,
        table=(TABLE_SIZE, (1, 0.005, 0.0001)),
    ),
    _LIVING_ROOM,
    replace(
        _TABLE,
        problem="libero_study_tabletop_manipulation",
        name="study_table",
        category="study_table",
        offset=(-0.2, 0, 0.867),
        robot_base=(-0.25 - TABLE_SIZE[0] / 2, 0, 0),
        scene="scenes/libero_study_base_style.xml",
        cameras=(
            Camera("agentview", (0.4586131746834771, 0.0, 1.6103500240372423), PITCH_39),
            *(*_TABLE.cameras[1:], _PAPER_VIEW),
        ),
        zone_body="study_table",
        zone_offset=(-0.2, 0, 0.867),
        keep_inside=False,
        table=None,
    ),
    replace(
        _TABLE,
        problem="libero_floor_manipulation",
        name="floor",
        category="floor",
        offset=(0, 0, -0.035),
        fixture_height=-0.025,
        robot_base=(-0.6, 0, 0),
        mounted=False,
        scene="scenes/libero_floor_base_style.xml",
        cameras=(
            Camera("agentview", (0.8965773716836134, 5.216182733499864e-07, 0.65), PITCH_32),
            Camera("frontview", (1.0, 0.0, 0.65), FRONT),
            GALLERY,
        ),
        zone_body="floor",
        table=None,
    ),
    # The table of the built-in suites: robot, table and cameras stand as in LIBERO's, fixtures on the table top.
    replace(
        _TABLE,
        problem="tabletop",
        fixture_height=0.0,
        scene="scenes/tabletop.xml",
        floor_texture="floor_tiles.png",
        wall_texture="wall_plaster.png",
        cameras=_TABLE.cameras[:2],
        keep_inside=False,
        table=None,
    ),
    replace(
        _LIVING_ROOM,
        problem="libero_coffee_table_manipulation",
        name="coffee_table",
        category="coffee_table",
        robot_base=(-0.16 - _LOW_TABLE_SIZE[0] / 2, 0, 0.41),
        scene="scenes/libero_coffee_table_base_style.xml",
        cameras=(
            Camera("agentview", (1.5, 0.0, 0.9), FRONT),
            GALLERY,
            Camera("canonical_agentview", (0.5386131746834771, 0.0, 0.7903500240372423), PITCH_39),
        ),
        zone_body="coffee_table",
        zone_offset=(0.0, 0.0, 0.02),
        keep_inside=True,
    ),
)
WORKSPACES = {entry.problem: entry for entry in _ALL}
