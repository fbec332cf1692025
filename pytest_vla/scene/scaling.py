"""Makes an object's model larger or smaller, as MJCF has it: shapes, places and masses."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import Any

from pytest_vla.errors import SceneError

_POWERS = {
    "geom": {"pos": 1, "size": 1, "fromto": 1, "mass": 3},
    "site": {"pos": 1, "size": 1, "fromto": 1},
    "joint": {"pos": 1},
    "inertial": {"pos": 1, "mass": 3, "diaginertia": 5, "fullinertia": 5},
    "body": {"pos": 1},
}
"""By which power of the scale attributes grow. A density stays, so that masses grow with the volume."""


def scale_model(model: Any, scale: float) -> None:
    """Scale robosuite's model of an object in each direction, in place.

    Args:
        model: a ``MujocoXMLObject``, which nothing else has yet.
        scale: against the size that its file gives it.

    Raises:
        SceneError: it has parts that move, whose ranges are those of its size.
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
    """All within a body; where it stands itself is the placement's."""
    return (element for element in tree.iter() if element is not tree)


def _times(numbers: str, factor: float) -> str:
    return " ".join(repr(float(number) * factor) for number in numbers.split())
