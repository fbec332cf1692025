"""The sections of a BDDL or CBDDL problem other than its conditions: what they declare, typed.

Names are in lower case. Places (`line`, `column`) count from 1, 0 is "from no file"; they do not count in comparisons.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from pytest_vla.scene.bddl import (
    Atom,
    Node,
    Origin,
    SExpression,
    describe,
    expect_group,
    expect_name,
    expect_word,
    fail,
    read_number,
    reject_unknown,
    split_head,
)

Vector: TypeAlias = tuple[float, ...]
Rectangle: TypeAlias = tuple[float, float, float, float]

_REGION_ATTRIBUTES = (":target", ":ranges", ":yaw_rotation", ":rgba")
_MOTIONS = ("linear", "circle", "waypoint", "parabolic")
# The names of two motions in VLA-Arena's paper.
_PAPERS_MOTIONS = {"circular": "circle", "projectile": "parabolic"}
# The shape of every :motion_ attribute: a count of numbers, or a form of its own.
_MOTION_ATTRIBUTES: dict[str, int | str] = {
    "type": "type",
    "period": 1,
    "travel_dist": 1,
    "speed": 1,
    "initial_speed": 1,
    "radius": 1,
    "angle": 1,
    "dt": 1,
    "direction": 3,
    "center": 3,
    "pos": 3,
    "start_pos": 3,
    "gravity": 3,
    "quat": 4,
    "start_quat": 4,
    "waypoints": "waypoints",
    "loop": "loop",
}
_IMAGE_SETTINGS = ("brightness", "contrast", "saturation", "temperature")
_NOISES = {"gaussian": ("MEAN", "VARIANCE"), "salt_pepper": ("PROBABILITY",)}


@dataclass(frozen=True)
class Declaration:
    """An object or a fixture and its category: ``plate_1 - plate``.

    `scale` is its size against its model file's, in each direction; no task file says it, a variation may.
    """

    name: str
    category: str
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)
    scale: float = 1.0


@dataclass(frozen=True)
class Region:
    """A place on `target`; literals call it by its `key`.

    `ranges`: rectangles (x0, y0, x1, y1) in metres, relative to the workspace's origin; empty for a region that is a
    site of an object or fixture. `yaw_rotation`: (low, high) in radians about z, used for fixtures. `rgba`: 0 to 1.
    """

    name: str
    target: str
    ranges: tuple[Rectangle, ...] = ()
    yaw_rotation: tuple[float, float] = (0.0, 0.0)
    rgba: tuple[float, float, float, float] = (0.0, 0.0, 1.0, 0.0)
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    @property
    def key(self) -> str:
        return f"{self.target}_{self.name}"


@dataclass(frozen=True)
class Mover:
    """The motion of an object (CBDDL's :moving_objects); None and () for attributes that the file lacks.

    `period` and `dt` count control steps as upstream's generators do; lengths in metres; quaternions as written
    (upstream reads wxyz); `angle` and `loop` as written. `waypoints`: (position, direction) each. `crashes`: the
    exception that upstream's code raises on the form in which the motion is written, empty if upstream can read it.
    """

    name: str
    motion_type: str
    period: float | None = None
    travel_dist: float | None = None
    speed: float | None = None
    initial_speed: float | None = None
    radius: float | None = None
    angle: float | None = None
    dt: float | None = None
    direction: Vector | None = None
    center: Vector | None = None
    pos: Vector | None = None
    start_pos: Vector | None = None
    gravity: Vector | None = None
    quat: Vector | None = None
    start_quat: Vector | None = None
    waypoints: tuple[tuple[Vector, Vector], ...] = ()
    loop: bool | None = None
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)
    crashes: str = field(default="", compare=False)


@dataclass(frozen=True)
class CameraOffset:
    """A camera to render and its shift from its usual position, in metres, world frame."""

    name: str
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Noise:
    """Image noise: ``gaussian`` (mean, variance) or ``salt_pepper`` (probability), of values scaled to 0..1."""

    kind: str
    parameters: tuple[float, ...]


def read_declarations(nodes: tuple[Node, ...], origin: Origin) -> tuple[Declaration, ...]:
    """Read ``a b - cup c - plate``, in the order of the names."""
    declared: list[Declaration] = []
    waiting: list[Node] = []
    position = 0
    while position < len(nodes):
        node = nodes[position]
        if not (isinstance(node, Atom) and node.text == "-"):
            waiting.append(node)
            position += 1
            continue
        if not waiting:
            raise fail(origin, node, "expected a name before '-', found none; write it like plate_1 - plate")
        if position + 1 == len(nodes):
            raise fail(origin, node, "expected a category after '-', found none; write it like plate_1 - plate")
        category = expect_name(nodes[position + 1], origin, "a category")
        for item in waiting:
            declared.append(Declaration(expect_name(item, origin, "a name"), category, item.line, item.column))
        waiting = []
        position += 2
    if waiting:
        name = expect_name(waiting[0], origin, "a name")
        raise fail(origin, waiting[0], f"expected '- CATEGORY' after {name!r}; write it like plate_1 - plate")
    return tuple(declared)


def _attributes(
    nodes: Iterable[Node], origin: Origin, what: str, known: Iterable[str]
) -> dict[str, tuple[SExpression, tuple[Node, ...]]]:
    """Return the ``(:key value ...)`` groups among `nodes` by lower-case key, without accepted unknown ones."""
    found: dict[str, tuple[SExpression, tuple[Node, ...]]] = {}
    known = tuple(known)
    for node in nodes:
        group = expect_group(node, origin, f"an attribute of the {what} such as ({known[0]} ...)")
        head, values = split_head(group, origin, f"an attribute of the {what}")
        key = head.text.lower()
        if key not in known:
            reject_unknown(origin, head, f"attribute of a {what}", known)
        elif key in found:
            raise fail(origin, group, f"the {what} has {key} twice (first in line {found[key][0].line}); keep one")
        else:
            found[key] = (group, values)
    return found


def _only(group: SExpression, values: tuple[Node, ...], origin: Origin, expected: str) -> Node:
    if len(values) != 1:
        raise fail(origin, group, f"expected {expected}, found {len(values)} values")
    return values[0]


def _numbers(node: Node, count: int, origin: Origin, expected: str) -> Vector:
    group = expect_group(node, origin, expected)
    if len(group.items) != count:
        raise fail(origin, group, f"expected {expected}, found {len(group.items)} values")
    return tuple(read_number(item, origin) for item in group.items)


def read_regions(nodes: tuple[Node, ...], origin: Origin) -> tuple[Region, ...]:
    """Read every region.

    This includes regions with the same key (upstream: the last counts) and those of an undeclared target.
    """
    return tuple(
        _read_region(expect_group(node, origin, "a region such as (NAME (:target TABLE))"), origin) for node in nodes
    )


def _read_region(region: SExpression, origin: Origin) -> Region:
    head, rest = split_head(region, origin, "a region such as (NAME (:target TABLE))")
    name = expect_name(head, origin, "a region's name")
    found = _attributes(rest, origin, "region", _REGION_ATTRIBUTES)
    if ":target" not in found:
        raise fail(origin, region, f"the region {name!r} has no target; add (:target NAME)")
    values: dict[str, Any] = {}
    if ":ranges" in found:
        form = "(:ranges ((X0 Y0 X1 Y1) ...))"
        listed = expect_group(_only(*found[":ranges"], origin, form), origin, form)
        if not listed.items:
            raise fail(origin, listed, f"expected {form}, found no rectangle; add one, or remove :ranges")
        values["ranges"] = tuple(_read_rectangle(item, origin) for item in listed.items)
    if ":yaw_rotation" in found:
        form = "(:yaw_rotation ((LOW HIGH)))"
        listed = expect_group(_only(*found[":yaw_rotation"], origin, form), origin, form)
        low, high = _numbers(_only(listed, listed.items, origin, form), 2, origin, form)
        if high < low:
            raise fail(origin, listed, f"expected LOW <= HIGH in {form}, found {low} > {high}; swap them")
        values["yaw_rotation"] = (low, high)
    if ":rgba" in found:
        form = "(:rgba (R G B A))"
        rgba = _numbers(_only(*found[":rgba"], origin, form), 4, origin, form)
        if not all(0.0 <= value <= 1.0 for value in rgba):
            raise fail(origin, found[":rgba"][0], f"expected {form} from 0 to 1, found {rgba}")
        values["rgba"] = rgba
    target = expect_name(_only(*found[":target"], origin, "(:target NAME)"), origin, "a target's name")
    return Region(name=name, target=target, line=region.line, column=region.column, **values)


def _read_rectangle(node: Node, origin: Origin) -> Rectangle:
    x0, y0, x1, y1 = _numbers(node, 4, origin, "a rectangle (X0 Y0 X1 Y1)")
    for axis, low, high in (("X", x0, x1), ("Y", y0, y1)):
        if high < low:
            raise fail(
                origin,
                node,
                f"expected {axis}0 <= {axis}1 in a rectangle (X0 Y0 X1 Y1), found {low} > {high}; swap them",
            )
    return (x0, y0, x1, y1)


def read_movers(nodes: tuple[Node, ...], origin: Origin, objects: frozenset[str]) -> tuple[Mover, ...]:
    """Read :moving_objects: one mover for each moved object of `objects`."""
    movers: dict[str, Mover] = {}
    for node in nodes:
        group = expect_group(node, origin, "a mover such as (NAME (:motion_type linear))")
        head, rest = split_head(group, origin, "a mover such as (NAME (:motion_type linear))")
        name = expect_name(head, origin, "a moved object's name")
        if name not in objects:
            reject_unknown(origin, head, "object", objects, ": only things declared in :objects can be moved")
        if name in movers:
            raise fail(origin, group, f"{name!r} is moved twice (first in line {movers[name].line}); keep one")
        found = _attributes(rest, origin, "mover", (f":motion_{key}" for key in _MOTION_ATTRIBUTES))
        if ":motion_type" not in found:
            raise fail(origin, group, f"the mover {name!r} has no motion; add (:motion_type linear)")
        values: dict[str, Any] = {}
        for key, shape in _MOTION_ATTRIBUTES.items():
            if f":motion_{key}" in found:
                value = _read_motion_value(*found[f":motion_{key}"], origin, key, shape)
                values["motion_type" if key == "type" else key] = value
        crashes = _papers_form(found)
        movers[name] = Mover(name=name, line=group.line, column=group.column, crashes=crashes, **values)
    return tuple(movers.values())


def _papers_form(found: Mapping[str, tuple[SExpression, tuple[Node, ...]]]) -> str:
    """Return the exception that upstream's code raises on a mover's attributes because of their form, or ""."""
    (kind,) = found[":motion_type"][1]
    word = kind.text.lower() if isinstance(kind, Atom) else ""
    if word in _PAPERS_MOTIONS:
        return f"NotImplementedError at the motion {word!r}, which it calls {_PAPERS_MOTIONS[word]!r}"
    if word == "waypoint" and ":motion_waypoints" in found:
        (listed,) = found[":motion_waypoints"][1]
        points = listed.items if isinstance(listed, SExpression) else ()
        if any(isinstance(point, SExpression) and len(point.items) != 2 for point in points):
            return "ValueError at a waypoint that is not written ((X Y Z) (DX DY DZ))"
    return ""


def _read_motion_value(
    group: SExpression, nodes: tuple[Node, ...], origin: Origin, key: str, shape: int | str
) -> object:
    if shape == "type":
        word = expect_word(_only(group, nodes, origin, "one type of motion"), origin, "a type of motion")
        if word not in (*_MOTIONS, *_PAPERS_MOTIONS) and isinstance(nodes[0], Atom):
            reject_unknown(origin, nodes[0], "type of motion", _MOTIONS)
        return _PAPERS_MOTIONS.get(word, word)
    if shape == "loop":
        return _read_flag(group, nodes, origin)
    if shape == "waypoints":
        form = "(:motion_waypoints (((X Y Z) (DX DY DZ)) ...)) of two waypoints or more"
        listed = expect_group(_only(group, nodes, origin, form), origin, form)
        if len(listed.items) < 2:
            raise fail(origin, listed, f"expected {form}, found {len(listed.items)}")
        return tuple(_read_waypoint(item, origin, form) for item in listed.items)
    form = f"(:motion_{key} NUMBER)" if shape == 1 else f"(:motion_{key} ({' '.join(['NUMBER'] * int(shape))}))"
    value = _only(group, nodes, origin, form)
    return read_number(value, origin) if shape == 1 else _numbers(value, int(shape), origin, form)


def _read_waypoint(node: Node, origin: Origin, form: str) -> tuple[Vector, Vector]:
    """Read a waypoint in the form of upstream's code, of its guide or of its paper.

    The guide writes (X Y Z (DX DY DZ)), the paper (X Y Z DX DY DZ).
    """
    point = expect_group(node, origin, form)
    if len(point.items) == 2:
        return _numbers(point.items[0], 3, origin, form), _numbers(point.items[1], 3, origin, form)
    if len(point.items) == 4:
        x, y, z = (read_number(item, origin) for item in point.items[:3])
        return (x, y, z), _numbers(point.items[3], 3, origin, form)
    if len(point.items) == 6:
        x, y, z, dx, dy, dz = (read_number(item, origin) for item in point.items)
        return (x, y, z), (dx, dy, dz)
    raise fail(origin, point, f"expected {form}, found a waypoint of {len(point.items)} values")


def _read_flag(group: SExpression, nodes: tuple[Node, ...], origin: Origin) -> bool:
    word = expect_word(_only(group, nodes, origin, "true or false"), origin, "true or false")
    if word not in ("true", "false"):
        raise fail(origin, nodes[0], f"expected true or false, found {describe(nodes[0])}")
    return word == "true"


def read_random_color(section: SExpression, origin: Origin) -> bool:
    """Read ``(:random_color true)``."""
    return _read_flag(section, section.items[1:], origin)


def read_image_settings(nodes: tuple[Node, ...], origin: Origin) -> tuple[tuple[str, float], ...]:
    """Read ``brightness 0.4 temperature 5000``: the pairs in their order."""
    settings: dict[str, float] = {}
    for position in range(0, len(nodes), 2):
        node = nodes[position]
        name = expect_word(node, origin, "an image setting")
        if position + 1 == len(nodes):
            raise fail(origin, node, f"expected a number after {describe(node)}; write it like contrast 0.3")
        value = read_number(nodes[position + 1], origin, f"a number after {describe(node)}")
        if name in settings:
            raise fail(origin, node, f"{name!r} is set twice; keep one")
        if name not in _IMAGE_SETTINGS and isinstance(node, Atom):
            reject_unknown(origin, node, "image setting", _IMAGE_SETTINGS)
        else:
            settings[name] = value
    return tuple(settings.items())


def read_noise(section: SExpression, origin: Origin) -> Noise | None:
    """Read ``(:noise gaussian MEAN VARIANCE)`` or ``(:noise salt_pepper PROBABILITY)``."""
    forms = " or ".join(f"(:noise {kind} {' '.join(names)})" for kind, names in _NOISES.items())
    nodes = section.items[1:]
    if not nodes:
        raise fail(origin, section, f"expected {forms}, found no noise")
    kind = expect_word(nodes[0], origin, forms)
    if kind not in _NOISES and isinstance(nodes[0], Atom):
        reject_unknown(origin, nodes[0], "noise", _NOISES, f", expected {forms}")
        return None
    if len(nodes) != 1 + len(_NOISES[kind]):
        raise fail(origin, section, f"expected {forms}, found {len(nodes) - 1} numbers")
    parameters = tuple(read_number(node, origin) for node in nodes[1:])
    if parameters[-1] < 0.0 or (kind == "salt_pepper" and parameters[-1] > 1.0):
        raise fail(origin, nodes[-1], f"expected a {_NOISES[kind][-1].lower()}, found {parameters[-1]}")
    return Noise(kind, parameters)


def read_cameras(nodes: tuple[Node, ...], origin: Origin) -> tuple[CameraOffset, ...]:
    """Read ``agentview 0.1 0 0.05 frontview``: names, each with an offset or without."""
    cameras: dict[str, CameraOffset] = {}
    position = 0
    while position < len(nodes):
        node = nodes[position]
        name = expect_name(node, origin, "a camera's name")
        position += 1
        if not _starts_name(node):
            raise fail(origin, node, f"expected a camera's name, found {name!r}; write it like agentview 0.1 0 0")
        if name in cameras:
            raise fail(origin, node, f"the camera {name!r} is listed twice; keep one")
        cameras[name] = CameraOffset(name, line=node.line, column=node.column)
        if position < len(nodes) and not _starts_name(nodes[position]):
            offset = nodes[position : position + 3]
            if len(offset) < 3:
                raise fail(origin, node, f"expected three numbers after {name!r}, found {len(offset)}")
            x, y, z = (read_number(item, origin, f"three numbers after {name!r}") for item in offset)
            cameras[name] = replace(cameras[name], offset=(x, y, z))
            position += 3
    return tuple(cameras.values())


def _starts_name(node: Node) -> bool:
    return isinstance(node, Atom) and (node.text[0].isalpha() or node.text[0] == "_")
