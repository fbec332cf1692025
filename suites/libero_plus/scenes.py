"""LIBERO-Plus's lights and textures: what its scene files say other than LIBERO's, as edits of the compiled model.

Its tasks of these dimensions differ in nothing but the problem's name, which stands for a scene file and for styles of
floor and wall. Those files are part of its assets, which the user has to have.
"""

import ast
import math
import operator
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.scene.panda import REST_JOINTS
from pytest_vla.scene.variation import LIGHT_DIRECTIONAL, LIGHT_SPOT, ModelEdit, model_array
from pytest_vla.scene.workspaces import WORKSPACES
from pytest_vla.suites.libero_plus.listing import Given
from pytest_vla.suites.libero_plus.names import PlusTask
from pytest_vla.util.documents import read_xml
from pytest_vla.util.text import did_you_mean

if TYPE_CHECKING:
    import mujoco
    import numpy as np
    from numpy.typing import NDArray
    from scipy.spatial.transform import Rotation

    from pytest_vla.scene.scene import SceneSpec


NEEDS_BDDL = "needs the BDDL files of a LIBERO-Plus checkout (libero/libero/bddl_files)"
NEEDS_ASSETS = "needs LIBERO-Plus's assets in its checkout (assets.zip of Sylvest/LIBERO-plus on Hugging Face)"

_STYLES = "envs/arenas/style.py"
_FLOOR, _WALL = "texplane", "tex-wall"
_HEAD_BYTES = 4096
_PROBLEM = re.compile(r"\(\s*define\s*\(\s*problem\s+([^\s()]+)\s*\)", re.IGNORECASE)
_FORMS = tuple(
    re.compile(text, re.IGNORECASE)
    for text in (
        r"(?P<light>\w+_light_sync_modified_\d+)",
        r"(?P<table>\w+?_table_.+)_wall_(?P<wall>.+)",
        r"(?P<table>\w+?_table_.+)",
        r"combined_floor(?P<floor>.+)_wall(?P<wall>.+)",
        r"floor(?P<floor>.+)",
    )
)
# Attributes of a light, with what MuJoCo takes where they are left out.
_LIGHT = {
    "pos": "0 0 0",
    "dir": "0 0 -1",
    "diffuse": "0.7 0.7 0.7",
    "ambient": "0 0 0",
    "specular": "0.3 0.3 0.3",
    "castshadow": "true",
    "active": "true",
    "directional": "false",
}
_ARRAYS = {name: f"light_{'type' if name == 'directional' else name}" for name in _LIGHT}
_PIXELS = 8192


@dataclass(frozen=True)
class PlusScene:
    """The appearance of a task's scene.

    Attributes:
        problem: LIBERO's problem class that it is a variant of.
        file: its scene file, or None for LIBERO's own.
        pictures: a style's picture for each texture.
    """

    problem: str
    file: Path | None
    pictures: Mapping[str, Path]


@dataclass(frozen=True)
class SceneChanges:
    """The differences in a scene file: attributes by light, as texts, and pictures by texture."""

    lights: Mapping[str, Mapping[str, str]]
    pictures: Mapping[str, Path]


def plus_scene(given: Given, entry: PlusTask) -> PlusScene | str:
    """Return the scene of a light or background entry, or the missing requirement as a text.

    Raises:
        VlaError: a file exists but is not as in LIBERO-Plus; names it.
    """
    bddl = given.bddl(entry)
    if bddl is None or given.package is None:
        return NEEDS_BDDL
    name = _problem_name(bddl, bddl.stat().st_mtime_ns)
    problem = max((key for key in WORKSPACES if name.lower().startswith(f"{key}_")), key=len, default="")
    found = next((m for form in _FORMS if (m := form.fullmatch(name[len(problem) + 1 :]))), None) if problem else None
    if found is None:
        raise VlaError(f"{bddl}: its problem {name!r} is not a LIBERO-Plus scene. Use an unchanged checkout")
    said = found.groupdict()
    file = None
    if stem := said.get("light") or said.get("table"):
        file = _scene_files(given.package / "assets" / "scenes").get(stem.lower())
        if file is None:
            return NEEDS_ASSETS
    pictures: dict[str, Path] = {}
    for texture, kind in ((_FLOOR, "floor"), (_WALL, "wall")):
        if style := said.get(kind):
            picture = _style(given, kind, style)
            if picture is None:
                return NEEDS_ASSETS
            pictures[texture] = picture
    return PlusScene(problem, file, pictures)


def scene_edit(scene: PlusScene, data: Path | None) -> ModelEdit:
    """Return the edit that applies a scene's appearance to a compiled model of its base scene."""

    def apply(model: "mujoco.MjModel", compiled: "SceneSpec") -> None:
        found = _changes_of(scene, data)
        for light, attributes in found.lights.items():
            _set_light(model, light, attributes)
        for texture, picture in found.pictures.items():
            _paint(model, texture, picture)

    def textures(model: "mujoco.MjModel", compiled: "SceneSpec") -> tuple[str, ...]:
        return tuple(_changes_of(scene, data).pictures)

    return ModelEdit(tuple(dict.fromkeys(_ARRAYS.values())), apply, textures)


def changed_attributes(scene: PlusScene, data: Path | None) -> tuple[str, ...]:
    """Return the attributes of lights in which a scene differs from its base scene, such as ``diffuse``, by name.

    Raises:
        VlaError: as `scene_changes`.
    """
    return tuple(sorted({key for attributes in _changes_of(scene, data).lights.values() for key in attributes}))


def _changes_of(scene: PlusScene, data: Path | None) -> SceneChanges:
    from pytest_vla.plan.data_roots import data_roots, find_file

    if scene.file is None:
        return SceneChanges({}, scene.pictures)
    name = WORKSPACES[scene.problem].scene
    base = find_file(data_roots(data), "assets", name, f"the scene of {scene.problem}")
    found = scene_changes(base, scene.file)
    return SceneChanges(found.lights, {**found.pictures, **scene.pictures})


def scene_changes(base: Path, file: Path) -> SceneChanges:
    """Compare a scene file with its base scene: lights and pictures.

    Raises:
        VlaError: a file cannot be read, or there are other differences.
    """
    return _scene_changes(base, base.stat().st_mtime_ns, file, file.stat().st_mtime_ns)


@cache
def _scene_changes(base: Path, base_changed: int, file: Path, changed: int) -> SceneChanges:
    ours, theirs = dict(_elements(base)), dict(_elements(file))
    if differing := sorted(f"{tag} {name}".strip() for tag, name in set(ours) ^ set(theirs)):
        raise VlaError(f"{file}: has {', '.join(differing[:5])}, in which it differs from {base}; only lights may")
    lights: dict[str, dict[str, str]] = {}
    pictures: dict[str, Path] = {}
    for (tag, name), attributes in theirs.items():
        names = dict.fromkeys([*attributes, *ours[tag, name]])
        other = [key for key in names if not _same(key, attributes.get(key), ours[tag, name].get(key))]
        if tag == "light" and set(other) <= set(_LIGHT):
            # Of whatever is left out, MuJoCo's own.
            lights.update({name: {key: attributes.get(key, _LIGHT[key]) for key in other}} if other else {})
        elif tag == "texture" and other == ["file"] and "file" in attributes:
            # Those of floor and wall are whatever the styles say, whichever the scene file names.
            pictures.update({name: _picture(file, attributes["file"])} if name not in (_FLOOR, _WALL) else {})
        elif other:
            raise VlaError(
                f"{file}: {tag} {name}: {', '.join(other)} is not as in {base}; only lights and pictures may"
            )
    if not lights and not pictures:
        raise VlaError(f"{file}: looks as {base} does, so it changes nothing")
    return SceneChanges(lights, pictures)


def _same(key: str, one: str | None, other: str | None) -> bool:
    """Whether attributes say the same; paths are relative to where the scene files lie."""
    if key == "file" and one is not None and other is not None:
        return one.replace("../", "") == other.replace("../", "")
    return one == other


def _elements(file: Path) -> Iterator[tuple[tuple[str, str], Mapping[str, str]]]:
    """Every element with its attributes, by tag and name; those without a name by their number."""
    try:
        root = read_xml(file)
    except (OSError, ValueError, ElementTree.ParseError) as error:
        raise VlaError(f"{file} cannot be read as a MuJoCo scene: {error}") from error
    for number, element in enumerate(root.iter()):
        values = {key: " ".join(text.split()) for key, text in element.attrib.items() if key != "model"}
        yield (element.tag, element.get("name") or f"#{number}"), values


def _picture(scene: Path, name: str) -> Path:
    """Return a picture that a scene file names; scene files are in ``scenes`` or one folder below."""
    folders = (scene.parent, *(parent for parent in scene.parents if parent.name == "scenes"))
    found = next((path for folder in folders if (path := folder / name).is_file()), None)
    if found is None:
        raise VlaError(f"{scene}: there is no picture {name}. Use LIBERO-Plus's complete assets")
    return found


def _set_light(model: "mujoco.MjModel", name: str, attributes: Mapping[str, str]) -> None:
    import numpy as np

    light = model.light(name).id
    for key, text in attributes.items():
        if key == "directional":
            model_array(model, "light_type")[light] = LIGHT_DIRECTIONAL if text == "true" else LIGHT_SPOT
        elif key in ("castshadow", "active"):
            getattr(model, _ARRAYS[key])[light] = text == "true"
        else:
            values = np.array([float(part) for part in text.split()])
            getattr(model, _ARRAYS[key])[light] = values / np.linalg.norm(values) if key == "dir" else values


def _paint(model: "mujoco.MjModel", name: str, picture: Path) -> None:
    """Write a picture into a texture's pixels, in the texture's compiled size."""
    import numpy as np

    texture = model.texture(name)
    height, width, channels = int(texture.height[0]), int(texture.width[0]), int(texture.nchannel[0])
    # All faces of a cube that has them one by one are alike.
    faces = height // width if texture.type[0] and height > width else 1
    pixels = np.tile(_read(picture, height // faces, width, channels).ravel(), faces)
    start = int(texture.adr[0])
    model.tex_data[start : start + pixels.size] = pixels


@cache
def _read(picture: Path, height: int, width: int, channels: int) -> "NDArray[np.uint8]":
    import numpy as np
    from PIL import Image

    try:
        with Image.open(picture) as image:
            if max(image.size) > _PIXELS:
                raise VlaError(f"{picture}: {image.size[0]}x{image.size[1]} pixels; expected {_PIXELS} a side at most")
            colours = image.convert("RGBA" if channels == 4 else "RGB" if channels == 3 else "L")
            fitted = colours if colours.size == (width, height) else colours.resize((width, height))
            return np.asarray(fitted, dtype=np.uint8)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise VlaError(f"{picture} cannot be read as a picture: {error}") from error


@cache
def _problem_name(bddl: Path, changed: int) -> str:
    with bddl.open("rb") as stream:
        head = stream.read(_HEAD_BYTES).decode("utf-8", "replace")
    found = _PROBLEM.search(head)
    if found is None:
        raise VlaError(f"{bddl}: expected (define (problem NAME) ...), found {head[:60]!r}")
    return found[1]


@cache
def _scene_files(folder: Path) -> Mapping[str, Path]:
    """Scene files by their stems, in lower case, of the folder and those in it."""
    files = [*folder.glob("*/*.xml"), *folder.glob("*.xml")]
    return {path.stem.lower(): path for path in sorted(files)}


def _style(given: Given, kind: str, style: str) -> Path | None:
    """Return the picture of a style of floors or walls, or None if it is missing."""
    assert given.package is not None
    file = given.package / _STYLES
    name = _styles(file).get(kind, {}).get(style.lower()) if file.is_file() else None
    return given.asset(f"textures/{name}") if name is not None else None


@cache
def _styles(file: Path) -> Mapping[str, Mapping[str, str]]:
    """``FLOOR_STYLE`` and ``WALL_STYLE`` of a module, read as data: it is never run."""
    found: dict[str, dict[str, str]] = {}
    try:
        module = ast.parse(file.read_text(encoding="utf-8"))
        for statement in module.body:
            if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
                continue
            name = statement.targets[0].id
            if name in ("FLOOR_STYLE", "WALL_STYLE"):
                table = dict(ast.literal_eval(statement.value))
                found[name.partition("_")[0].lower()] = {str(k).lower(): str(v) for k, v in table.items()}
    except (OSError, ValueError, SyntaxError, TypeError, RecursionError) as error:
        raise VlaError(f"{file}: expected FLOOR_STYLE = {{...}} and WALL_STYLE = {{...}}: {error}") from error
    return found


# LIBERO-Plus's camera poses and the arm's poses, number for number.

Position = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]

CAMERA = "agentview"
"""The only camera that it moves."""

ROBOT_POSES = 500

_PIVOT = (0.0, 0.0, 0.8)
_DECIMALS = 4
_ROBOT_SEED = 42
_ROBOT_DECIMALS = 8
_SCENES = ("tabletop", "kitchen", "study", "living_room", "floor", "coffee_table")


def camera_pose(scene: str, h: int, v: int, scale: float, r: int, e: int) -> tuple[Position, Quaternion]:
    """Compute LIBERO-Plus's camera pose: position (m, world) and orientation (wxyz), rounded as upstream rounds.

    Five operations, in this order, each rounded to 4 decimals; the second is always applied.

    Args:
        scene: a problem class, such as ``libero_kitchen_tabletop_manipulation``, or its distinguishing part: tabletop,
            kitchen, study, living_room, floor or coffee_table; or its workspace, such as main_table.
        h: degrees about the world's z axis, position and orientation.
        v: degrees about the y direction through the pivot (0, 0, 0.8), position and orientation; upwards.
        scale: factor for the distance from the pivot.
        r: degrees of the orientation about the world's z axis.
        e: degrees of the orientation about the world's y direction; downwards.

    Raises:
        VlaError: there is no such scene, or a number is invalid or not finite.
    """
    from scipy.spatial.transform import Rotation

    if not all(map(_is_finite, (h, v, scale, r, e))) or scale <= 0:
        raise VlaError(f"camera_pose: expected degrees and a positive scale, found {(h, v, scale, r, e)}")
    position, quaternion = _nominal(scene)
    if v:
        position, quaternion = _turned(position, quaternion, _about_y(v), _PIVOT)
    position, quaternion = _turned(position, quaternion, Rotation.from_euler("z", h, degrees=True), None)
    if scale != 1:
        position = _rounded([p + (x - p) * scale for p, x in zip(_PIVOT, position, strict=True)])
    if r:
        _, quaternion = _turned(position, quaternion, Rotation.from_euler("z", r, degrees=True), None)
    if e:
        _, quaternion = _turned(position, quaternion, _about_y(e), None)
    return (position[0], position[1], position[2]), (quaternion[0], quaternion[1], quaternion[2], quaternion[3])


def robot_qpos(i: int) -> tuple[float, ...]:
    """Return the arm's pose (7,), rad, by its number, 1 to 500: 0.1 to 0.5 rad from its own, a hundred poses each.

    Raises:
        VlaError: there is no such number.
    """
    try:
        number = 0 if isinstance(i, bool) else operator.index(i)
    except TypeError:
        number = 0
    if not 1 <= number <= ROBOT_POSES:
        raise VlaError(f"robot_qpos({i!r}): expected 1 to {ROBOT_POSES}")
    return _robot_poses()[number - 1]


def _nominal(scene: str) -> tuple[Sequence[float], Sequence[float]]:
    from pytest_vla.scene.workspaces import WORKSPACES

    if not isinstance(scene, str):
        raise VlaError(f"camera_pose: expected a scene's name, {', '.join(_SCENES)}, found {scene!r}")
    name = scene.lower()
    known = (name, f"libero_{name}_tabletop_manipulation", f"libero_{name}_manipulation")
    # LIBERO's come first: the built-in suites have its main_table too.
    tables = {entry.name: entry for entry in reversed(WORKSPACES.values())}
    workspace = next((WORKSPACES[text] for text in known if text in WORKSPACES), tables.get(name))
    if workspace is None:
        names = dict.fromkeys((*_SCENES, *tables, *WORKSPACES))
        raise VlaError(f"camera_pose: there is no scene {scene!r}.{did_you_mean(name, names)}")
    camera = next(camera for camera in workspace.cameras if camera.name == CAMERA)
    return camera.position, camera.quaternion


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _about_y(degrees: float) -> "Rotation":
    """Positive: what is in front of the robot goes up."""
    from scipy.spatial.transform import Rotation

    return Rotation.from_rotvec([0.0, -math.radians(degrees), 0.0])


def _turned(
    position: Sequence[float], quaternion: Sequence[float], rotation: "Rotation", pivot: Position | None
) -> tuple[list[float], list[float]]:
    from scipy.spatial.transform import Rotation

    centre = pivot or (0.0, 0.0, 0.0)
    arm = rotation.apply([x - c for x, c in zip(position, centre, strict=True)])
    w, x, y, z = quaternion
    turned = (rotation * Rotation.from_quat([x, y, z, w])).as_quat()
    return _rounded([c + float(a) for c, a in zip(centre, arm, strict=True)]), _rounded(turned[[3, 0, 1, 2]].tolist())


def _rounded(values: Sequence[float]) -> list[float]:
    # Python's own rounding, of the decimal: numpy's differs where a digit 5 ends a number.
    return [round(value, _DECIMALS) for value in values]


@cache
def _robot_poses() -> tuple[tuple[float, ...], ...]:
    import numpy as np

    generator = np.random.RandomState(_ROBOT_SEED)
    poses = []
    for index in range(ROBOT_POSES):
        direction = generator.randn(len(REST_JOINTS))
        offset = direction / np.linalg.norm(direction) * 0.1 * (1 + index // 100)
        pose = np.array(REST_JOINTS) + offset
        poses.append(tuple(round(angle, _ROBOT_DECIMALS) for angle in pose.tolist()))
    return tuple(poses)
