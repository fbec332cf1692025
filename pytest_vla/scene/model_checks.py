"""Whether the model of a category that is declared by files has what scenes need: its body, its sites, its joints."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from pytest_vla.errors import SceneError
from pytest_vla.scene.catalog import Category

_MEASURES = {
    "bottom_site": "the lowest point",
    "top_site": "the highest point",
    "horizontal_radius_site": "its x is the radius seen from above",
}


def check_model(root: ElementTree.Element, kind: Category, path: Path, file: Path) -> None:
    """Refuses a model that robosuite or the scene would stumble over.

    Args:
        root: the model, with its default classes resolved.
        kind: what `file` declares.
        path: the model's file, for the error.
        file: the ``category.toml``, for the error.

    Raises:
        SceneError: names the file, and its key where it is the declaration that does not fit; says how to mend it.
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
