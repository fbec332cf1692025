"""Things of tabletop as MJCF: collision geoms of boxes, visual geoms of meshes.

MuJoCo gives two boxes several contacts, so that what stands on a table does not rock; round things would touch it in
one point. Lengths in metres, masses in kilograms.
"""

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree.ElementTree import Element

from scripts.tabletop_shapes import Mesh, bevelled_box, joined, obj_text
from scripts.tabletop_textures import Picture, png

Files = dict[str, bytes]
Value = str | float | Sequence[float]

# Dry hands on wood and glaze; contacts stiffer than MuJoCo's default, so that nothing sinks in visibly.
TOUCHED: Mapping[str, Value] = {
    "group": 0,
    "friction": (0.9, 0.02, 0.001),
    "condim": 4,
    "solref": (0.01, 1),
    "solimp": (0.95, 0.99, 0.001),
    "rgba": (0.8, 0.8, 0.8, 0.3),
}
SEEN: Mapping[str, Value] = {"group": 1, "contype": 0, "conaffinity": 0, "mass": 0}
_SHADE = (0.05, 0.03, 0.02)


@dataclass(frozen=True)
class Board:
    """A board of wood: full lengths, centre, and the axis of its grain."""

    size: tuple[float, float, float]
    centre: tuple[float, float, float]
    grain: int


def element(tag: str, *children: Element, **attributes: Value) -> Element:
    """An XML element; numbers are written with five digits after the point."""
    made = Element(tag, {name: _written(value) for name, value in attributes.items()})
    made.extend(children)
    return made


def _written(value: Value) -> str:
    if isinstance(value, str):
        return value
    numbers = value if isinstance(value, Sequence) else (value,)
    return " ".join(f"{number:.5f}".rstrip("0").rstrip(".") for number in numbers).replace("-0 ", "0 ")


def box(
    name: str, size: Sequence[float], centre: Sequence[float], mass: float, quat: Sequence[float] = (1, 0, 0, 0)
) -> Element:
    """A collision box by its full lengths."""
    half = [length / 2 for length in size]
    return element("geom", name=name, type="box", size=half, pos=centre, quat=quat, mass=mass, **TOUCHED)


def region(name: str, half: Sequence[float], centre: Sequence[float]) -> Element:
    """A site that literals may name, unseen."""
    return element("site", name=name, type="box", pos=centre, size=half, rgba=(0.8, 0.8, 0.8, 0), group=0)


def shown(mesh: str, material: str, name: str = "") -> Element:
    """The visual geom of a mesh."""
    return element("geom", name=f"{name or mesh}_visual", type="mesh", mesh=mesh, material=material, **SEEN)


def halo(half_x: float, half_y: float) -> list[Element]:
    """The shade around the foot of a fixture, of thin translucent boxes: a shadow map costs as much as two pictures."""
    geoms = []
    for number, far in enumerate((0.002, 0.005, 0.009, 0.014, 0.020, 0.027)):
        size, height = (half_x + far, half_y + far, 0.0001), 0.0018 - 0.0003 * number
        look = {"rgba": (*_SHADE, 0.065), "pos": (0, 0, height)}
        geoms.append(element("geom", name=f"halo{number}", type="box", size=size, **look, **SEEN))
    return geoms


def shade(radius: float) -> Element:
    """The shade under the overhang of a round thing."""
    look = {"rgba": (*_SHADE, 0.3), "pos": (0, 0, 0.0004)}
    return element("geom", name="shade", type="cylinder", size=(radius, 0.0001), **look, **SEEN)


def prism(name: str, sides: int, radius: float, bottom: float, top: float, mass: float) -> list[Element]:
    """A prism with an even number of sides about z, of one box for each pair of sides."""
    pairs = sides // 2
    size = (2 * radius * math.cos(math.pi / sides), 2 * radius * math.sin(math.pi / sides), top - bottom)
    geoms = []
    for number in range(pairs):
        turn = math.pi * number / pairs
        quat = (math.cos(turn / 2), 0.0, 0.0, math.sin(turn / 2))
        geoms.append(box(f"{name}{number}", size, (0, 0, (top + bottom) / 2), mass / pairs, quat))
    return geoms


def ring(
    name: str, sides: int, low: Sequence[float], high: Sequence[float], thickness: float, mass: float
) -> list[Element]:
    """A tilted wall around z of boxes; `low` and `high` are (radius, height) of its outer surface."""
    slope = math.atan2(high[0] - low[0], high[1] - low[1])
    length = math.hypot(high[0] - low[0], high[1] - low[1])
    width = 2 * max(low[0], high[0]) * math.tan(math.pi / sides)
    radius = (low[0] + high[0]) / 2 - math.cos(slope) * thickness / 2
    height = (low[1] + high[1]) / 2 + math.sin(slope) * thickness / 2
    geoms = []
    for number in range(sides):
        turn = 2 * math.pi * number / sides
        # About z by the turn, then about the wall's own y by the slope.
        z, y = (math.cos(turn / 2), math.sin(turn / 2)), (math.cos(slope / 2), math.sin(slope / 2))
        quat = (z[0] * y[0], -z[1] * y[1], z[0] * y[1], z[1] * y[0])
        centre = (radius * math.cos(turn), radius * math.sin(turn), height)
        geoms.append(box(f"{name}{number}", (thickness, width, length), centre, mass / sides, quat))
    return geoms


def boards_mesh(boards: Sequence[Board], bevel: float, repeat: float = 4.0) -> Mesh:
    """Boards as one mesh, each with its own stretch of grain."""
    return joined(
        [
            bevelled_box(board.size, board.centre, bevel, board.grain, repeat, 0.31 * number)
            for number, board in enumerate(boards)
        ]
    )


def boards_boxes(name: str, boards: Sequence[Board], mass: float) -> list[Element]:
    """Boards as collision boxes, each of this mass."""
    return [box(f"{name}{number}", board.size, board.centre, mass) for number, board in enumerate(boards)]


def printed(name: str, picture: str, specular: float, shininess: float) -> list[Element]:
    """A material with a picture for its texture."""
    return [
        element("texture", name=picture, type="2d", file=f"{picture}.png"),
        element("material", name=name, texture=picture, specular=specular, shininess=shininess, reflectance=0),
    ]


def plain(name: str, rgb: Sequence[float], specular: float, shininess: float) -> Element:
    """A material of one colour."""
    return element("material", name=name, rgba=(*rgb, 1), specular=specular, shininess=shininess, reflectance=0)


def category_files(
    category: str,
    assets: Sequence[Element],
    body: Sequence[Element],
    meshes: Mapping[str, Mesh],
    pictures: Mapping[str, Picture],
    extent: tuple[float, float, float],
) -> Files:
    """The files of a category; `extent` is (bottom, top, horizontal radius) relative to the body's origin."""
    bottom, top, radius = extent
    places = {"bottom": (0, 0, bottom), "top": (0, 0, top), "horizontal_radius": (radius, 0, 0)}
    marks = [
        element("site", name=f"{name}_site", pos=place, size=0.005, rgba=(0, 0, 0, 0)) for name, place in places.items()
    ]
    listed = [element("mesh", name=name, file=f"{name}.obj") for name in meshes]
    root = element(
        "mujoco",
        element("compiler", angle="radian"),
        element("asset", *assets, *listed),
        element("worldbody", element("body", element("body", *body, name="object"), *marks)),
        model=category,
    )
    ElementTree.indent(root)
    folder = f"objects/{category}"
    made = {f"{folder}/{category}.xml": ElementTree.tostring(root) + b"\n"}
    made |= {f"{folder}/{name}.obj": obj_text(mesh).encode() for name, mesh in meshes.items()}
    return made | {f"{folder}/{name}.png": png(picture) for name, picture in pictures.items()}


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files by their names into a folder, which is made if missing."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
