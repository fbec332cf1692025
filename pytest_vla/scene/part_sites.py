"""The sites of a model's parts, by which task files name regions of an object or fixture."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping, Sequence
from typing import NamedTuple


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
