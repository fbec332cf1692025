"""Variations of how table, floor and walls look: textures of ours, or files of the user's asset folders.

A texture of ours is blended with the surface's own, so that the level says how much of it is seen.
"""

import colorsys
import hashlib
import random
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.data_roots import data_roots, find_file
from pytest_vla.plan.task import FLOOR, NEEDS_SURFACE, SURFACES, TABLE, WALL, Task
from pytest_vla.scene.problem import problem_of
from pytest_vla.scene.variation import Edits, ModelEdit, Params, named_geoms
from pytest_vla.scene.workspaces import Workspace, workspace
from pytest_vla.util.documents import read_xml
from pytest_vla.vary.effects.painting import MODULES, Part, covering, painting
from pytest_vla.vary.kind import LEVELS, SHARE, Draw, VariationKind
from pytest_vla.vary.space import CHOICE, LISTED, NUMBER, SEED, WHOLE, Parameter

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray

    from pytest_vla.scene.scene import SceneSpec

    Pixels = NDArray[np.uint8]

DIMENSION = "background"

# Hue, saturation and value of a family's two colours, each from and to.
_COLOURS: Mapping[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "wood": ((0.03, 0.11, 0.35, 0.75, 0.55, 0.95), (0.02, 0.09, 0.5, 0.8, 0.15, 0.4)),
    "tiles": ((0.0, 1.0, 0.15, 0.7, 0.45, 0.95), (0.0, 1.0, 0.0, 0.1, 0.1, 0.9)),
    "stone": ((0.0, 1.0, 0.05, 0.35, 0.45, 0.95), (0.0, 1.0, 0.05, 0.35, 0.2, 0.9)),
    "cloth": ((0.0, 1.0, 0.3, 0.9, 0.45, 0.95), (0.0, 1.0, 0.2, 0.9, 0.3, 0.9)),
    "stripes": ((0.0, 1.0, 0.3, 0.9, 0.45, 0.95), (0.0, 1.0, 0.1, 0.9, 0.2, 0.95)),
    "noise": ((0.0, 1.0, 0.3, 0.9, 0.45, 0.95), (0.0, 1.0, 0.3, 0.9, 0.3, 0.95)),
}

# The cameras of LIBERO's suites: where there is a table, they do not see the floor.
_OVER_THE_TABLE = frozenset(("agentview", "robot0_eye_in_hand"))

# What stands for the wall behind the table in LIBERO's kitchens and living rooms.
_WALL_UNITS = ("kitchen_background", "living_room")


_MOST_REPEATS = 3
_FOLDER = "textures/"
"""Of an asset folder."""


@dataclass(frozen=True)
class Pattern:
    """A drawn texture: the arguments of `pytest_vla.vary.effects.textures.texture`."""

    family: str
    colours: tuple[tuple[int, ...], ...]
    repeats: int
    seed: int

    def pixels(self, height: int, width: int) -> "Pixels":
        """Return the texture, (height, width, 3)."""
        from pytest_vla.vary.effects.textures import texture

        return texture(self.family, self.colours, self.repeats, self.seed, height, width)


def drawn_pattern(generator: random.Random) -> Pattern:
    """Draw a texture family, its two colours, its number of repeats and the seed of its irregularities."""
    family = generator.choice(tuple(_COLOURS))
    colours = []
    for hue, to_hue, saturation, to_saturation, value, to_value in _COLOURS[family]:
        drawn = (
            generator.uniform(hue, to_hue),
            generator.uniform(saturation, to_saturation),
            generator.uniform(value, to_value),
        )
        colours.append(tuple(round(255 * channel) for channel in colorsys.hsv_to_rgb(*drawn)))
    return Pattern(family, tuple(colours), generator.randint(1, _MOST_REPEATS), generator.randrange(2**31))


def _place(task: Task) -> Workspace:
    problem = problem_of(task)
    return workspace(problem.name, problem.source)


def _check_seen(task: Task, surface: str) -> None:
    """Raise VlaError if a task has no such surface, or none that its cameras see."""
    if task.scene is not None:
        if not task.scene.geoms_of(surface):
            named = ", ".join(name for name, _ in task.scene.surfaces) or "none"
            raise VlaError(f"the suite's scene names no {surface}; it names {named}")
        return
    if surface == WALL:
        return
    has_table = _place(task).category != "floor"
    if surface == TABLE and not has_table:
        raise VlaError("the task has no table; use background.floor")
    if surface == FLOOR and has_table and _OVER_THE_TABLE.issuperset(task.protocol.cameras):
        raise VlaError("the task's cameras do not see the floor; use background.table or background.wall")


def _only(surface: str, task: Task) -> tuple[str, ...]:
    _check_seen(task, surface)
    return (surface,)


def themed(task: Task) -> tuple[str, ...]:
    """Return the surfaces of a theme: all that the task has."""
    if task.scene is not None:
        return tuple(name for name, _ in task.scene.surfaces)
    return tuple(surface for surface in SURFACES if surface != TABLE or _place(task).category != "floor")


def draw_patterns(surfaces_of: Callable[[Task], tuple[str, ...]], draw: Draw) -> Params:
    """Draw a texture for each surface, and set the share of it that is seen."""
    parameters: dict[str, Any] = {SHARE: round(draw.share, 3)}
    for surface in surfaces_of(draw.task):
        # The same for all levels, so that they differ in how much only; and for the surface alone and all at once.
        pattern = drawn_pattern(draw.shared(f"{DIMENSION}.{surface}"))
        parameters |= {
            f"{surface}_family": pattern.family,
            f"{surface}_colours": [list(colour) for colour in pattern.colours],
            f"{surface}_repeats": pattern.repeats,
            f"{surface}_seed": pattern.seed,
        }
    return parameters


def patterned(surfaces_of: Callable[[Task], tuple[str, ...]], task: Task, params: Params) -> Edits:
    """Return edits that blend our textures with the surfaces' own."""
    surfaces = surfaces_of(task)
    patterns = {
        surface: Pattern(
            params[f"{surface}_family"],
            tuple(tuple(colour) for colour in params[f"{surface}_colours"]),
            params[f"{surface}_repeats"],
            params[f"{surface}_seed"],
        )
        for surface in surfaces
    }

    def pixels_of(surface: str, height: int, width: int) -> "Pixels":
        return patterns[surface].pixels(height, width)

    return Edits(model=(_painting(surfaces, pixels_of, params[SHARE]),))


def space_of_patterns(surfaces_of: Callable[[Task], tuple[str, ...]], task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: the share that is seen, and each surface's pattern parameters."""
    return (
        Parameter(SHARE, NUMBER, 0.0, 1.0, 0.0),
        *(parameter for surface in surfaces_of(task) for parameter in pattern_parameters(f"{surface}_")),
    )


def pattern_parameters(prefix: str) -> tuple[Parameter, ...]:
    """Return a pattern's parameters, their names prefixed."""
    return (
        Parameter(f"{prefix}family", CHOICE, choices=tuple(_COLOURS)),
        Parameter(f"{prefix}colours", WHOLE, 0, 255, shape=(2, 3)),
        Parameter(f"{prefix}repeats", WHOLE, 1, _MOST_REPEATS),
        Parameter(f"{prefix}seed", SEED, 0, 2**31 - 1),
    )


def draw_file(draw: Draw) -> Params:
    """Draw a picture from the asset folders' ``textures``.

    Raises:
        VlaError: there is no picture besides the surface's own, or the surface is not seen.
    """
    surface = draw.part
    _check_seen(draw.task, surface)
    files = _other_files(draw.task.data, _place(draw.task), surface)
    if not files:
        raise VlaError("no asset folder has another texture in textures/*.png; add LIBERO's textures")
    name = draw.shared(f"{DIMENSION}.file.{surface}").choice(tuple(files))
    return {"file": f"{_FOLDER}{name}", "surface": surface}


def from_file(task: Task, params: Params) -> Edits:
    """Return edits that replace a surface's texture by a picture. Raises VlaError if the file is missing."""
    surface = params["surface"]
    _check_seen(task, surface)
    path = _other_files(task.data, _place(task), surface).get(params["file"].removeprefix(_FOLDER))
    if path is None:
        raise VlaError(f"{params['file']} is in no asset folder, or is the {surface}'s own texture; restore the file")

    def pixels_of(surface: str, height: int, width: int) -> "Pixels":
        import numpy as np
        from PIL import Image

        from pytest_vla.vary.effects.textures import stretched

        try:
            with Image.open(path) as image:
                return stretched(np.array(image.convert("RGB")), height, width)
        except OSError as error:
            what = f"expected a picture for {DIMENSION}.file.{surface}"
            raise VlaError(f"{path}: {what}: {error}. Restore the file.") from error

    return Edits(model=(_painting((surface,), pixels_of, 1.0),))


def space_of_files(task: Task) -> tuple[Parameter, ...]:
    """Return the parameter space: the pictures that fit some surface, and the surface."""
    place = _place(task)
    names = dict.fromkeys(name for surface in SURFACES for name in _other_files(task.data, place, surface))
    files = tuple(f"{_FOLDER}{name}" for name in sorted(names))
    return Parameter("file", LISTED, choices=files), Parameter("surface", CHOICE, choices=SURFACES)


@cache
def _other_files(data: Path | None, place: Workspace, surface: str) -> Mapping[str, Path]:
    """Return the pictures of the asset folders' ``textures`` by name, without the surface's own and its copies."""
    found: dict[str, Path] = {}
    for root in data_roots(data):
        if root.assets is not None and root.suite is None:
            for path in sorted((root.assets / "textures").glob("*.png")):
                found.setdefault(path.name, path)
    own = {FLOOR: place.floor_texture, WALL: place.wall_texture}.get(surface) or _table_texture(data, place)
    known = _digest(found[own]) if own in found else None
    return {name: path for name, path in sorted(found.items()) if name != own and _digest(path) != known}


def _table_texture(data: Path | None, place: Workspace) -> str:
    """Return the file name of an arena's table top, or an empty text if it is not in ``textures``."""
    file = find_file(data_roots(data), "assets", place.scene, f"the arena of {place.problem}")
    try:
        arena = read_xml(file)
    except (OSError, ValueError, ElementTree.ParseError) as error:
        raise SceneError(f"{file}: cannot be read as a scene: {error}. Repair or restore the file.") from error
    texture = arena.find("./asset/texture[@name='tex-table']")
    return "" if texture is None else Path(texture.get("file", "")).name


@cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def surface_geoms(model: "mujoco.MjModel", scene: "SceneSpec", surface: str) -> tuple[int, ...]:
    """Return the visual geoms of a surface: walls and floor by name, the table is the arena's remaining bodies."""
    if scene.own is not None:
        return named_geoms(model, scene.own.geoms_of(surface))
    others = {body.root_body for body in scene.bodies}
    found = []
    for geom in range(model.ngeom):
        name = model.geom(geom).name
        root = model.body(model.body_rootid[model.geom_bodyid[geom]]).name
        material = model.geom_matid[geom]
        is_unit = root == "world" and material >= 0 and model.material(material).name in _WALL_UNITS
        if model.geom_group[geom] == 0 or root in others or root.startswith(("robot", "mount", "gripper")):
            kind = ""
        elif name == "floor":
            kind = FLOOR
        elif is_unit or (name.startswith("wall_") and name.endswith("_visual")):
            kind = WALL
        else:
            kind = "" if root in ("world", "floor") or "_leg" in name else TABLE
        if kind == surface:
            found.append(geom)
    return tuple(found)


def _painting(surfaces: tuple[str, ...], pixels_of: Callable[[str, int, int], "Pixels"], share: float) -> ModelEdit:
    """Return the edit that blends surfaces' textures with others by `share`, or colours if there is no texture."""

    def part(surface: str) -> Part:
        return lambda model, scene: surface_geoms(model, scene, surface), covering(partial(pixels_of, surface))

    return painting(tuple(part(surface) for surface in surfaces), share)


_GRADES = "20% to 100% opacity over the surface's own texture"
_OURS = "ours, after LIBERO-Plus's textures"


def _patterned(kind: str, about: str, surfaces_of: Callable[[Task], tuple[str, ...]]) -> VariationKind:
    return VariationKind(
        f"{DIMENSION}.{kind}",
        about,
        _OURS,
        partial(draw_patterns, surfaces_of),
        partial(patterned, surfaces_of),
        partial(space_of_patterns, surfaces_of),
        LEVELS,
        _GRADES,
        needs=(NEEDS_SURFACE,),
        modules=MODULES,
    )


KINDS = (
    _patterned(TABLE, "one of our textures on the table", partial(_only, TABLE)),
    _patterned(FLOOR, "one of our textures on the floor, if a camera sees it", partial(_only, FLOOR)),
    _patterned(WALL, "one of our textures on the walls", partial(_only, WALL)),
    _patterned("theme", "our textures on table, floor and walls at once", themed),
    VariationKind(
        f"{DIMENSION}.file",
        "a texture from your asset folder's textures/*.png",
        "LIBERO's textures, or yours",
        draw_file,
        from_file,
        space_of_files,
        needs_files=True,
        parts=lambda: SURFACES,
        recorded="file.{part}",
        part_is="surface",
    ),
)
