"""A problem becomes MJCF: robosuite's arena, Panda, objects and fixtures, merged in upstream's order.

What robosuite 1.4.0 offers (``robosuite.models``) is used as it is; what LIBERO adds is declared in catalog.py and
workspaces.py. Checked array by array against upstream's compiled models (tests/parity).
"""

import os.path
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pytest_vla.errors import SceneError
from pytest_vla.plan.data_roots import DataRoot, describe_search, find_file, relative_name
from pytest_vla.scene.catalog import Category, find_category
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.robosuite_import import quiet_robosuite
from pytest_vla.scene.scene import SceneBody, SceneSite, SceneSpec
from pytest_vla.scene.sections import Declaration, Mover, Region
from pytest_vla.scene.workspaces import Workspace, workspace
from pytest_vla.util.documents import read_xml

# The sites of a model's parts, by which task files name regions of an object or fixture.


class PartSite(NamedTuple):
    """A site of a part.

    Attributes:
        joints: names of the innermost part's own joints.
        size: the half sizes in metres; three make a box.
        is_of_whole: whether the innermost part is the whole, which an object's free joint moves.
    """

    joints: tuple[str, ...]
    size: tuple[float, ...]
    is_of_whole: bool


def part_sites(parts: Sequence[ElementTree.Element]) -> Mapping[str, PartSite]:
    """Return the sites of a model's parts by their names.

    Args:
        parts: the body of the whole and all bodies in it, outer ones first. Those after one without sites do not count,
            as upstream has it.
    """
    sites: dict[str, PartSite] = {}
    for part in parts:
        found = part.findall(".//site")
        if not found:
            break
        joints = tuple(joint.get("name", "") for joint in part.findall("./joint"))
        for site in found:
            size = tuple(float(number) for number in (site.get("size") or "").split())
            sites[site.get("name", "")] = PartSite(joints, size, part is parts[0])
    return sites


# Scaling of an object's MJCF model: shapes, places and masses.

_POWERS = {
    "geom": {"pos": 1, "size": 1, "fromto": 1, "mass": 3},
    "site": {"pos": 1, "size": 1, "fromto": 1},
    "joint": {"pos": 1},
    "inertial": {"pos": 1, "mass": 3, "diaginertia": 5, "fullinertia": 5},
    "body": {"pos": 1},
}
"""The power of the scale by which attributes grow. A density is constant, so that masses grow with the volume."""


def scale_model(model: Any, scale: float) -> None:
    """Scale robosuite's model of an object in each direction, in place.

    Args:
        model: a ``MujocoXMLObject`` that is not yet part of another model.
        scale: against the size that its file gives it.

    Raises:
        SceneError: it has parts that move, whose ranges depend on its size.
    """
    root = model.get_obj()
    if any(joint.get("type") != "free" for joint in root.iter("joint")):
        raise SceneError(f"{model.name} cannot be made larger or smaller: it has parts that move")
    for mesh in model.asset.iter("mesh"):
        mesh.set("scale", _times(mesh.get("scale", "1 1 1"), scale))
    trees = [root, *(body for body in model.worldbody.findall("./body") if body is not root)]
    for element in {id(each): each for tree in trees for each in _parts(tree)}.values():
        for name, power in _POWERS.get(element.tag, {}).items():
            if (text := element.get(name)) is not None:
                element.set(name, _times(text, scale**power))


def _parts(tree: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """Yield all elements within a body, without the body's own element."""
    return (element for element in tree.iter() if element is not tree)


def _times(numbers: str, factor: float) -> str:
    return " ".join(repr(float(number) * factor) for number in numbers.split())


# Checks of a model whose category is declared by a file: scenes need its body, sites and joints.

_MEASURES = {
    "bottom_site": "the lowest point",
    "top_site": "the highest point",
    "horizontal_radius_site": "its x is the radius seen from above",
}


def check_model(root: ElementTree.Element, kind: Category, path: Path, file: Path) -> None:
    """Refuse a model that robosuite or the scene could not use.

    Args:
        root: the model, with its default classes resolved.
        kind: the category that `file` declares.
        path: the model's file, for the error.
        file: the ``category.toml``, for the error.

    Raises:
        SceneError: names the file, and its key if the declaration does not fit; says how to mend it.
    """
    body = root.find("./worldbody/body/body[@name='object']")
    if body is None:
        raise SceneError(
            f'{path}: expected the model in <worldbody><body><body name="object">, found no such body. '
            "Put its geoms, joints and parts into one, inside a body without a name."
        )
    for name, meaning in _MEASURES.items():
        site = root.find(f"./worldbody/body/site[@name='{name}']")
        if site is None or not _is_point(site.get("pos", "")):
            raise SceneError(
                f"{path}: expected a site {name} ({meaning}) with a pos of three numbers, beside "
                f'<body name="object">. Add <site name="{name}" pos="X Y Z" size="0.005" rgba="0 0 0 0"/>, in metres '
                "from that body."
            )
    for element in body.iter():
        if element.tag in ("body", "joint", "site") and not element.get("name"):
            raise SceneError(f"{path}: expected a name for every {element.tag}, found one without. Name it.")
        if element.tag == "geom" and element.get("group") not in ("0", "1"):
            raise SceneError(
                f'{path}: geom {element.get("name")!r} has group {element.get("group")}: expected group="0" where it '
                'collides, group="1" where it is only seen.'
            )
    _check_declared(body, kind, path, file)


def _check_declared(body: ElementTree.Element, kind: Category, path: Path, file: Path) -> None:
    sites = [site.get("name") for site in body.iter("site")]
    if kind.burner is not None and kind.burner not in sites:
        raise SceneError(
            f'{file}: burner = {kind.burner!r}: {path.name} has no such site in <body name="object">. '
            f"Add it there or name another: {', '.join(map(str, sites)) or 'it has none'}."
        )
    if kind.articulation is None:
        return
    joints = list(body.iter("joint"))
    if not joints:
        raise SceneError(
            f'{file}: [articulation] needs a joint, but {path.name} has none in <body name="object">. '
            "Give the part that moves a hinge or slide joint, or leave [articulation] out."
        )
    for joint in joints:
        if joint.get("type", "hinge") not in ("hinge", "slide"):
            raise SceneError(
                f"{file}: [articulation] is about positions of hinge and slide joints, but joint "
                f"{joint.get('name')!r} of {path.name} is of type {joint.get('type')}. Change it, or leave "
                "[articulation] out."
            )


def _is_point(text: str) -> bool:
    try:
        return len([float(number) for number in text.split()]) == 3
    except ValueError:
        return False


# LIBERO gives every movable object one free joint with this damping (N*s/m).
_FREE_JOINT = {"type": "free", "damping": "0.0005"}
MOVER_TARGET = "_mocap"
"""The suffix of a mover's target, after the name of its root body."""

_CENTRE = "robot0_right_center"
# Half side (m) of the zone of a region that is one point: MuJoCo takes no size of zero.
_POINT = 1e-4


@dataclass(frozen=True)
class ComposedScene:
    """A composed scene: MJCF text with absolute file names, its parts, and every file that went into it.

    `inputs` are (origin, name relative to it, absolute path) with origin ``assets`` or ``robosuite``.
    """

    xml: str
    scene: SceneSpec
    inputs: tuple[tuple[str, str, Path], ...]


def compose(problem: Problem, roots: tuple[DataRoot, ...]) -> ComposedScene:
    """Compose the MJCF model of a problem.

    Args:
        problem: a LIBERO problem.
        roots: folders in which assets are looked for, from `data_roots`.

    Raises:
        SceneError: an unknown class, category or duplicate name, a region without ranges on the workspace, a
            model that cannot be used, or a missing asset (names object, file and the roots searched).
    """
    place = workspace(problem.name, problem.source)
    _refuse_duplicates(problem)
    models = _robosuite_models()
    sources: dict[Path, str] = {}
    own: list[Path] = []
    arena = _arena(models, place, roots, sources)
    robot, gripper = _robot(models, place)
    bodies: dict[str, tuple[Declaration, Category, bool, Any]] = {}
    for is_fixture, declarations in ((True, problem.fixtures), (False, problem.objects)):
        for item in declarations:
            if is_fixture and item.category == place.category:
                continue
            kind, file = find_category(item.category, _where(problem, item), roots, place.categories)
            if file is not None:
                sources[file] = f"category {item.category}"
                own.append(file)
            model = _body(models, item, kind, is_fixture, roots, sources, file)
            if item.scale != 1.0:
                scale_model(model, item.scale)
            bodies[item.name] = (item, kind, is_fixture, model)
    sites = _zones(models, arena, place, problem)
    objects = [model for _, _, is_fixture, model in bodies.values() if not is_fixture]
    fixtures = [model for _, _, is_fixture, model in bodies.values() if is_fixture]
    for model in objects + fixtures:
        sites.update(_sites_of(model))
    task = models.ManipulationTask(mujoco_arena=arena, mujoco_robots=[robot], mujoco_objects=objects + fixtures)
    for model in fixtures:
        task.merge_assets(model)
    _merge_visual(task.root, arena.root)
    _rename_parts(task.root, "mount0_", place.profile.mount)
    _hold_movers(task.root, problem, bodies)
    hidden = [name for model in objects + fixtures + [robot, gripper] for name in model.sites]
    hidden += [_CENTRE] if place.profile.has_later_parts else []
    scene = SceneSpec(
        problem=problem.name,
        bodies=tuple(_scene_body(*parts) for parts in bodies.values()),
        sites=tuple(sites.values()),
        hidden_sites=tuple(hidden),
        burners=tuple((item.name, f"{item.name}_{kind.burner}") for item, kind, _, _ in bodies.values() if kind.burner),
    )
    inputs = _resolve_inputs(task.root, roots, sources, models, own)
    return ComposedScene(task.get_xml(), scene, inputs)


@dataclass(frozen=True)
class _Robosuite:
    Arena: Any
    Panda: Any
    MujocoXML: Any
    MujocoXMLObject: Any
    ManipulationTask: Any
    mount_factory: Any
    gripper_factory: Any
    new_site: Any
    array_to_string: Any
    folder: Path


def _robosuite_models() -> _Robosuite:
    with quiet_robosuite():
        import robosuite
        from robosuite.models.arenas import Arena
        from robosuite.models.base import MujocoXML
        from robosuite.models.grippers import gripper_factory
        from robosuite.models.mounts import mount_factory
        from robosuite.models.objects import MujocoXMLObject
        from robosuite.models.robots import Panda
        from robosuite.models.tasks import ManipulationTask
        from robosuite.utils.mjcf_utils import array_to_string, new_site

    return _Robosuite(
        Arena,
        Panda,
        MujocoXML,
        MujocoXMLObject,
        ManipulationTask,
        mount_factory,
        gripper_factory,
        new_site,
        array_to_string,
        Path(robosuite.__file__).parent / "models" / "assets",
    )


def _where(problem: Problem, item: Declaration | Region | Mover) -> str:
    return f"{problem.source}:{item.line}:{item.column}"


def _refuse_duplicates(problem: Problem) -> None:
    seen: dict[str, Declaration] = {}
    for item in (*problem.fixtures, *problem.objects):
        if item.name in seen:
            first = seen[item.name]
            raise SceneError(
                f"{_where(problem, item)}: {item.name!r} is declared twice (first at line {first.line}). Rename one."
            )
        seen[item.name] = item


def _arena(models: _Robosuite, place: Workspace, roots: tuple[DataRoot, ...], sources: dict[Path, str]) -> Any:
    path = find_file(roots, "assets", place.scene, f"the arena of {place.problem}")
    sources[path] = f"arena {place.scene}"
    arena = _parse(models.Arena, path, f"arena {place.scene}")
    if place.table is not None:
        _resize_table(models, arena, place)
    for texture, file in (("texplane", place.floor_texture), ("tex-wall", place.wall_texture)):
        element = arena.asset.find(f"./texture[@name='{texture}']")
        if element is None:
            raise SceneError(f"{path}: expected a texture named {texture!r}, which the scene's style replaces")
        element.set("file", "/".join([*element.get("file").split("/")[:-1], file]))
    arena.set_origin([0, 0, 0])
    if place.profile.has_later_parts:
        _add_targets(arena)
    for camera in place.cameras:
        arena.set_camera(camera_name=camera.name, pos=camera.position, quat=camera.quaternion)
    return arena


def _resize_table(models: _Robosuite, arena: Any, place: Workspace) -> None:
    """Set table, floor and legs to the workspace's size, in upstream's order of arithmetic."""
    assert place.table is not None
    to_string = models.array_to_string
    half = np.array(place.table[0]) / 2
    table = arena.worldbody.find("./body[@name='table']")
    arena.floor.set("pos", to_string(arena.bottom_pos))
    table.set("pos", to_string(arena.bottom_pos + np.array([0, 0, -half[2]]) + place.offset))
    collision = table.find("./geom[@name='table_collision']")
    collision.set("size", to_string(half))
    collision.set("friction", to_string(place.table[1]))
    table.find("./geom[@name='table_visual']").set("size", to_string(half))
    table.find("./site[@name='table_top']").set("pos", to_string(np.array([0, 0, half[2]])))
    depth = (place.offset[2] - half[2]) / 2.0
    for number, (inset_x, inset_y) in enumerate(((0.1, 0.1), (-0.1, 0.1), (-0.1, -0.1), (0.1, -0.1)), 1):
        leg = table.find(f"./geom[@name='table_leg{number}_visual']")
        x = np.sign(inset_x) * half[0] - inset_x if half[0] > abs(inset_x * 2.0) else 0
        y = np.sign(inset_y) * half[1] - inset_y if half[1] > abs(inset_y * 2.0) else 0
        leg.set("pos", to_string([x, y, -depth]))
        leg.set("size", to_string([0.025, depth]))


def _merge_visual(root: Any, arena: Any) -> None:
    """Add an arena's own rendering settings, which robosuite's merge leaves out (LIBERO's arenas have none)."""
    visual = root.find("./visual")
    for settings in arena.findall("./visual/*"):
        present = visual.find(f"./{settings.tag}")
        if present is None:
            visual.append(settings)
        else:
            present.attrib.update(settings.attrib)


def _robot(models: _Robosuite, place: Workspace) -> tuple[Any, Any]:
    robot = models.Panda(idn=0)
    if place.profile.has_later_parts:
        _complete_robot(robot)
    robot.add_mount(models.mount_factory("RethinkMount" if place.mounted else None, idn=0))
    gripper = models.gripper_factory("PandaGripper", idn=place.profile.gripper.removeprefix("gripper").rstrip("_"))
    robot.add_gripper(gripper)
    robot.set_base_xpos(place.robot_base)
    return robot, gripper


def _complete_robot(robot: Any) -> None:
    """Add the parts that only robosuite 1.5.1's Panda has: a hull of its last link, and a site in its foot."""
    foot = robot.worldbody.find(".//body[@name='robot0_link0']")
    site = {"name": _CENTRE, "pos": "0 0 0", "size": "0.01", "rgba": "1 0.3 0.3 1", "group": "2"}
    foot.insert(0, ElementTree.Element("site", site))
    link = foot.find(".//body[@name='robot0_link7']")
    hull = {"type": "mesh", "group": "0", "mesh": "robot0_link7", "name": "robot0_link7_collision"}
    link.insert([child.tag for child in link].index("body"), ElementTree.Element("geom", hull))


def _add_targets(arena: Any) -> None:
    """Add the two bodies by which robosuite 1.5.1's viewer would lead the hands; nothing moves or meets them."""
    unseen = {"conaffinity": "0", "contype": "0", "group": "2"}
    for side, colour in (("left", "0.898 0.420 0.435"), ("right", "0.208 0.314 0.439")):
        name = f"{side}_eef_target"
        body = ElementTree.SubElement(arena.worldbody, "body", {"name": name, "pos": "0 0 -1", "mocap": "true"})
        box = {"name": f"{name}_box", "type": "box", "size": "0.05 0.05 0.05", "rgba": f"{colour} 0.5"}
        ball = {"name": f"{name}_sphere", "type": "sphere", "size": "0.01", "pos": "0 0 0", "rgba": f"{colour} 0.8"}
        for geom in (box, ball):
            ElementTree.SubElement(body, "geom", geom | unseen)


def _rename_parts(root: Any, old: str, new: str) -> None:
    """Replace a name prefix in all elements and their references."""
    if old == new:
        return
    for element in root.iter():
        for attribute, value in element.attrib.items():
            if attribute != "file" and value.startswith(old):
                element.set(attribute, new + value.removeprefix(old))


def _hold_movers(root: Any, problem: Problem, bodies: Mapping[str, tuple[Declaration, Category, bool, Any]]) -> None:
    """Add a target body for each moved object, and a soft weld that pulls the object to it.

    Source: vla-arena 0.0.1, ``envs/bddl_base_domain.py``.
    """
    for mover in problem.movers:
        if mover.name not in bodies:
            raise SceneError(
                f"{_where(problem, mover)}: {mover.name!r} is not declared, so it cannot move: declare it in :objects"
            )
        _, _, is_fixture, model = bodies[mover.name]
        if is_fixture:
            raise SceneError(
                f"{_where(problem, mover)}: {mover.name!r} is a fixture, which cannot move: declare it in :objects"
            )
        target = f"{model.root_body}{MOVER_TARGET}"
        ElementTree.SubElement(root.find("worldbody"), "body", {"mocap": "true", "name": target, "pos": "0 0 0"})
        weld = {"body1": model.root_body, "body2": target, "solimp": "0.9 0.95 0.001", "solref": "0.02 1"}
        ElementTree.SubElement(root.find("equality"), "weld", weld)


def _body(
    models: _Robosuite,
    item: Declaration,
    kind: Category,
    is_fixture: bool,
    roots: tuple[DataRoot, ...],
    sources: dict[Path, str],
    file: Path | None,
) -> Any:
    wanted_for = f"{'fixture' if is_fixture else 'object'} {item.name}"
    advice = f"{file} declares this category: put its model {item.category}.xml beside it." if file else None
    path = find_file(roots, "assets", kind.model, wanted_for, advice)
    sources[path] = wanted_for
    joints = None if is_fixture else [dict(_FREE_JOINT)]

    def make(model: str) -> Any:
        if file is not None:
            check_model(models.MujocoXML(model).root, kind, path, file)
        return models.MujocoXMLObject(
            model,
            name=item.name,
            joints=joints,
            obj_type="all",
            duplicate_collision_geoms=kind.visible_collisions,
        )

    return _parse(make, path, wanted_for)


def _parse(make: Any, path: Path, wanted_for: str) -> Any:
    try:
        # robosuite recurses one call per level.
        read_xml(path)
        return make(str(path))
    except ElementTree.ParseError as error:
        line, column = error.position
        reason = str(error).partition(":")[0]
        raise SceneError(
            f"{path}:{line}:{column + 1}: expected well-formed XML for {wanted_for}: {reason}. "
            "Mend the file or copy it again."
        ) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # robosuite raises these for a model with an unexpected layout.
        raise SceneError(
            f"{path}: expected a model such as robosuite reads for {wanted_for}: {type(error).__name__}: {error}. "
            "Mend the file or copy it again."
        ) from error


def _zones(models: _Robosuite, arena: Any, place: Workspace, problem: Problem) -> dict[str, SceneSite]:
    """Add a site for every region of the workspace (its first rectangle); return them by key."""
    parent = arena.worldbody.find(f"./body[@name='{place.zone_body}']")
    sites = {}
    for region in {region.key: region for region in problem.regions if place.name in region.key}.values():
        if not region.ranges:
            raise SceneError(f"{_where(problem, region)}: region {region.name!r} on {place.name} needs :ranges")
        x0, y0, x1, y1 = region.ranges[0]
        size = (max((x1 - x0) / 2, _POINT), max((y1 - y0) / 2, _POINT), 0.007)
        centre = ((x1 + x0) / 2 + place.zone_offset[0], (y1 + y0) / 2 + place.zone_offset[1], place.zone_offset[2])
        parent.append(
            models.new_site(
                name=region.key, pos=centre, quat=(1, 0, 0, 0), rgba=list(region.rgba), size=size, type="box"
            )
        )
        sites[region.key] = SceneSite(region.key, None, (), size)
    return sites


def _sites_of(model: Any) -> dict[str, SceneSite]:
    """Return sites of a body's parts with the joints of the innermost part.

    Parts after one without sites do not count.
    """
    found = part_sites(model.worldbody.find("body").findall(".//body"))
    return {name: SceneSite(name, model.name, site.joints, site.size) for name, site in found.items()}


def _scene_body(item: Declaration, kind: Category, is_fixture: bool, model: Any) -> SceneBody:
    return SceneBody(
        name=item.name,
        category=item.category,
        is_fixture=is_fixture,
        root_body=model.root_body,
        joints=tuple(model.joints),
        contact_geoms=tuple(model.contact_geoms),
        bottom=float(model.bottom_offset[-1]),
        top=float(model.top_offset[-1]),
        radius=float(model.horizontal_radius),
        kind=kind,
    )


def _resolve_inputs(
    root: Any, roots: tuple[DataRoot, ...], sources: dict[Path, str], models: _Robosuite, own: list[Path]
) -> tuple[tuple[str, str, Path], ...]:
    """Point every file attribute at an existing file (a later root may hold it); return the used files."""
    inputs = {}
    for path in sources:
        inputs[path] = ("assets", relative_name(roots, path) or path.name)
    for element in root.findall("./asset/*[@file]"):
        path = Path(element.get("file"))
        # Lexical: asset files reach textures by ../, and links must not change names.
        normal = Path(os.path.normpath(path))
        if normal.is_relative_to(models.folder):
            inputs[normal] = ("robosuite", normal.relative_to(models.folder).as_posix())
            continue
        name = relative_name(roots, normal)
        if not normal.is_file():
            label = f"{element.tag} {element.get('name')!r} of the scene"
            # Not normalised, a name starts with the folder of the model that gives it, whatever ../ follows.
            folder = next((file.parent for file in own if path.is_relative_to(file.parent)), None)
            advice = f"Put it there, or mend the file name in {folder / folder.name}.xml." if folder else None
            if name is None:
                raise SceneError(f"{normal}: not found, wanted for {label}. {describe_search(roots, 'assets', advice)}")
            normal = find_file(roots, "assets", name, label, advice)
            element.set("file", str(normal))
        inputs[normal] = ("assets", name or normal.as_posix())
    for name in ("base.xml", "robots/panda/robot.xml", "grippers/panda_gripper.xml", "mounts/rethink_mount.xml"):
        inputs[models.folder / name] = ("robosuite", name)
    return tuple((origin, name, path) for path, (origin, name) in inputs.items())
