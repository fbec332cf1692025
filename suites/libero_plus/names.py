"""The names of LIBERO-Plus's tasks (arXiv 2510.13626): what each says of a task of LIBERO and of its perturbation."""

import dataclasses
import hashlib
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import joint_of
from pytest_vla.plan.manifests import load_suite
from pytest_vla.util.text import did_you_mean

# Sub-dimensions that names do not tell: of a light by what differs in its scene, of a rewrite by its words.

LIGHTS: Mapping[str, tuple[str, ...]] = {
    "L1-diffuse": ("diffuse", "ambient"),
    "L2-direction": ("dir", "pos", "directional"),
    "L3-specular": ("specular",),
    "L4-shadow": ("castshadow",),
}
"""The paper's kinds of light, and the attributes in which a scene of the kind differs."""

REWRITES = ("R1-distraction", "R2-common-sense", "R3-reasoning")
"""The paper's kinds of rewrite; see `rewrite_kind`."""

_CHAINED = frozenset(
    ("after", "afterward", "afterwards", "because", "before", "finally", "first", "if", "once", "order",
     "since", "then", "therefore", "thus", "unless", "until", "when", "while")
)  # fmt: skip
# Words that carry none of an instruction's things: articles, prepositions, verbs, and words of place.
_COMMON = frozenset(
    ("a", "an", "and", "at", "back", "both", "close", "from", "front", "in", "inside", "it", "its", "left", "middle",
     "next", "of", "on", "open", "pick", "place", "push", "put", "right", "the", "to", "top", "bottom", "turn", "up",
     "with")
)  # fmt: skip


def light_kind(attributes: Iterable[str]) -> str:
    """Return the member of `LIGHTS` for the attributes in which a scene differs, several joined by ``+``, or empty."""
    differing = {*attributes}
    return joint_of(name for name, own in LIGHTS.items() if differing & {*own})


def rewrite_kind(text: str, original: str) -> str:
    """Return the member of `REWRITES` that a rewritten instruction looks like, by its words.

    The list does not say which rewrite is of which kind, so this rule of ours is no label of the paper's: a text with a
    condition, a reason or a sequence is R3; one that leaves out a word for a thing of the original, which it has to
    describe instead, is R2; any other one, which says all of the original and more, is R1.
    """
    words, known = (re.findall(r"[a-z]+", each.lower()) for each in (text, original))
    said = {stem for word in words for stem in (word, word.removesuffix("s"))}
    if _CHAINED & {*words} - {*known}:
        return REWRITES[2]
    return REWRITES[int(any(word not in said for word in known if word not in _COMMON))]


# The numbers of LIBERO-Plus's fifty noises: ten severities of five kinds.

PLUS_NAMES = ("motion", "gaussian", "zoom", "fog", "glass")
"""LIBERO-Plus's kinds of noise, in the order of its numbers."""

PLUS_SEVERITIES = tuple(range(1, 11))


def plus_parts(number: int) -> tuple[str, int]:
    """Return the kind and severity for a number of LIBERO-Plus's noises. Raises VlaError for an unknown number."""
    count = len(PLUS_NAMES) * len(PLUS_SEVERITIES)
    if not 1 <= number <= count:
        raise VlaError(f"LIBERO-Plus's noise has numbers 1 to {count}, not {number}")
    kind, severity = divmod(number - 1, len(PLUS_SEVERITIES))
    return PLUS_NAMES[kind], PLUS_SEVERITIES[severity]


SUITES = ("libero_spatial", "libero_object", "libero_goal", "libero_10")
"""In the order of its list."""

CATEGORIES: Mapping[str, str] = {
    "Camera Viewpoints": "camera",
    "Robot Initial States": "robot",
    "Language Instructions": "language",
    "Light Conditions": "light",
    "Background Textures": "background",
    "Sensor Noise": "noise",
    "Objects Layout": "layout",
}
"""Its dimensions as its list has them and as we have them, in the order of its leaderboard."""

SUB_DIMENSIONS: Mapping[str, tuple[str, ...]] = {
    "camera": ("C1-distance", "C2-azimuth", "C2-azimuth-elevation", "C3-orientation"),
    "robot": tuple(f"norm-0.{tenths}" for tenths in range(1, 6)),
    "language": ("R-rewrite",),
    "light": ("L-light",),
    "background": ("B1-scene-and-surface", "B2-surface"),
    "noise": tuple(f"N{number}-{name}" for number, name in enumerate(PLUS_NAMES, 1)),
    "layout": ("O1-add", "O2-level"),
}
"""What a name tells apart within each dimension. Its names do not tell R1 to R3 and L1 to L4 apart."""

# The last number of each; libero_10 has one `_tb_` fewer.
_LAST = {
    **{"table": 28, "tb": 23, "light": 50, "add": 30, "level": 5, "sample": 4, "language": 50},
    **{"h": 359, "v": 359, "r": 359, "e": 359, "initstate": 500, "noise": 50},
}
_LAST_TB_OF_10 = 22
_FIRST_IS_ZERO = ("h", "v", "r", "e", "initstate")
_NUMBER = "(?:0|[1-9][0-9]{0,3})"


def _numbered(*names: str) -> str:
    return "".join(f"_{name}_(?P<{name}>{_NUMBER})" for name in names)


# `_table_` is a suffix only before a number: a task of LIBERO-Spatial has "from_table_center" in it.
_NAME = re.compile(
    r"(?P<base>\w+?)"
    rf"(?:{_numbered('table')}|{_numbered('tb')}|{_numbered('light')}|{_numbered('add')}|{_numbered('language')}"
    rf"|(?P<moved>_moved)?_level(?P<level>{_NUMBER})_sample(?P<sample>{_NUMBER}))?"
    rf"(?P<view>_view_(?P<h>{_NUMBER})_(?P<v>{_NUMBER})_(?P<scale>{_NUMBER})_(?P<r>{_NUMBER})_(?P<e>{_NUMBER})"
    rf"{_numbered('initstate')}(?:{_numbered('noise')})?)?",
    re.ASCII,
)
_FORMS = (
    "BASE_table_N, BASE_tb_N, BASE_light_N, BASE_add_N, BASE_language_N, BASE[_moved]_levelL_sampleS, or none of "
    "these, and then _view_H_V_S_R_E_initstate_I[_noise_N] or not"
)


@dataclass(frozen=True)
class PlusTask:
    """A task of LIBERO-Plus, parsed from its name. Attributes of perturbations that it lacks are neutral.

    Attributes:
        name: in its list.
        suite, base: the perturbed task of LIBERO.
        table, tb: number of the table's texture, or of the texture of table and background.
        light: number of the light.
        add: number of the sample of added objects, 6 for each count of them.
        moved: whether the layout's objects start at other places.
        level, sample: the layout's distance and draw.
        language: number of the rewritten instruction.
        h, v: degrees about the vertical and upwards on a sphere, 0 to 359.
        scale: factor for the camera's distance.
        r, e: degrees of the camera's own yaw and pitch, 0 to 359.
        initstate: number of the arm's pose, 1 to 500; 0 for its own.
        noise: 1 to 50.
        difficulty: 1 + the number of its four models that failed, 1 to 5, or None if unknown.
    """

    name: str
    suite: str
    base: str
    table: int | None = None
    tb: int | None = None
    light: int | None = None
    add: int | None = None
    moved: bool = False
    level: int | None = None
    sample: int | None = None
    language: int | None = None
    h: int = 0
    v: int = 0
    scale: float = 1.0
    r: int = 0
    e: int = 0
    initstate: int = 0
    noise: int | None = None
    difficulty: int | None = None

    @property
    def parts(self) -> Mapping[str, tuple[str, str]]:
        """The sub-dimension and the label's part, for each perturbed dimension."""
        found: dict[str, tuple[str, str]] = {}
        if self.tb is not None or self.table is not None:
            index, text = (0, f"tb_{self.tb}") if self.tb is not None else (1, f"table_{self.table}")
            found["background"] = SUB_DIMENSIONS["background"][index], f"background-{text}"
        if self.light is not None:
            found["light"] = SUB_DIMENSIONS["light"][0], f"light-{self.light}"
        if self.add is not None:
            found["layout"] = SUB_DIMENSIONS["layout"][0], f"layout-add_{self.add}"
        if self.level is not None:
            found["layout"] = SUB_DIMENSIONS["layout"][1], f"layout-level{self.level}-sample{self.sample}"
        if self.language is not None:
            found["language"] = SUB_DIMENSIONS["language"][0], f"language-{self.language}"
        if camera := self._camera():
            percent = round(self.scale * 100)
            found["camera"] = camera, f"camera-view_{self.h}_{self.v}_{percent}_{self.r}_{self.e}"
        if self.initstate:
            found["robot"] = SUB_DIMENSIONS["robot"][(self.initstate - 1) // 100], f"robot-{self.initstate}"
        if self.noise is not None:
            found["noise"] = SUB_DIMENSIONS["noise"][(self.noise - 1) // 10], f"noise-{self.noise}"
        return found

    @property
    def dimension(self) -> str:
        """The member of `CATEGORIES` in our words; for a composite task all of them, joined by ``+``."""
        return joint_of(self.parts)

    @property
    def sub_dimension(self) -> str:
        """The member of `SUB_DIMENSIONS`; for a composite task all of them, joined by ``+``."""
        return joint_of(kind for kind, _ in self.parts.values())

    @property
    def label(self) -> str:
        """Unique within a base task."""
        return joint_of(label for _, label in self.parts.values())

    @property
    def file(self) -> str:
        """The stem of the BDDL file that upstream opens for it."""
        return self.name.partition("_view_")[0]

    def parameters(self) -> dict[str, Any]:
        """Return its name, and the attributes in which it differs from its base task."""
        own = {field.name: field.default for field in dataclasses.fields(self)[3:-1]}
        camera = ("h", "v", "scale", "r", "e") if self._camera() else ()
        said = {name: getattr(self, name) for name in own if name in camera or getattr(self, name) != own[name]}
        # A variation has a level of its own.
        return {"name": self.name, **{"layout_level" if name == "level" else name: said[name] for name in said}}

    def generator(self, time: int = 0) -> random.Random:
        """Return a new generator for parts that are samples, the same for equal name and time."""
        again = f"/{time}" if time else ""
        digest = hashlib.sha256(f"libero_plus/{self.suite}/{self.name}{again}".encode()).digest()
        return random.Random(int.from_bytes(digest[:16], "big"))

    def _camera(self) -> str:
        distance, azimuth, elevation, orientation = SUB_DIMENSIONS["camera"]
        found = [distance] if self.scale != 1.0 else []
        if self.h or self.v:
            found.append(elevation if self.v else azimuth)
        if self.r or self.e:
            found.append(orientation)
        return joint_of(found)


def parse_name(name: str) -> PlusTask:
    """Parse a task's name.

    Raises:
        VlaError: it is not a LIBERO-Plus name, or only the name of a task of LIBERO.
    """
    if not isinstance(name, str):
        raise VlaError(f"{name!r} is not a LIBERO-Plus name: expected a text, {_FORMS}")
    match = _NAME.fullmatch(name)
    suite = bases().get(match["base"]) if match else None
    if match is None or suite is None:
        base = re.split(r"_(?:table|tb|light|add|language|view)_[0-9]|_moved|_level", name, maxsplit=1)[0]
        raise VlaError(
            f"{name!r} is not a LIBERO-Plus name: expected {_FORMS}, where BASE is a task of {', '.join(SUITES)}."
            f"{'' if base in bases() else did_you_mean(base, bases())}"
        )
    numbers = {key: int(match[key]) for key in _LAST if match[key] is not None}
    for key, number in numbers.items():
        first, last = int(key not in _FIRST_IS_ZERO), _LAST[key]
        if key == "tb" and suite == "libero_10":
            last = _LAST_TB_OF_10
        if not first <= number <= last:
            raise VlaError(f"{name!r} is not a LIBERO-Plus name: {key} is {number}, expected {first} to {last}")
    percent = int(match["scale"] or 100)
    if not percent:
        raise VlaError(f"{name!r} is not a LIBERO-Plus name: the camera's distance is 0%, expected 1% or more")
    if match["moved"] and suite != "libero_goal":
        raise VlaError(f"{name!r} is not a LIBERO-Plus name: _moved exists only in libero_goal, not in {suite}")
    if match["level"] and not match["moved"] and suite == "libero_goal":
        expected = f"{match['base']}_moved_level{match['level']}_sample{match['sample']}"
        raise VlaError(
            f"{name!r} is not a LIBERO-Plus name: a level of libero_goal's starts from a moved layout, expected "
            f"{expected}"
        )
    found = PlusTask(name, suite, match["base"], moved=bool(match["moved"]), scale=percent / 100, **numbers)
    if not found.parts:
        raise VlaError(f"{name!r} changes nothing in {found.base}: expected {_FORMS}")
    return found


@cache
def bases() -> Mapping[str, str]:
    """Return the suite of each perturbed task of LIBERO; their names are unique."""
    return {task.name: suite for suite in SUITES for task in load_suite(suite).tasks}
