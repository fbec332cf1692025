"""Object and fixture categories, and LIBERO's catalogue of them: model file, sampled rotation, joints' thresholds.

Facts from hf-libero 0.1.4, ``envs/objects/{hope,google_scanned,turbosquid,articulated}_objects.py``. A workspace may
have a catalogue of its own; other categories are declared by files (catalog.py).
"""

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pytest_vla.errors import SceneError
from pytest_vla.plan.data_roots import DataRoot
from pytest_vla.util.documents import read_toml

_PI = math.pi
Range = tuple[float, float]


@dataclass(frozen=True)
class Articulation:
    """Joint thresholds (radians or metres) of an articulated category, and the ranges that ``:init`` samples.

    A joint is open (close, on, off) when it is strictly beyond the threshold on the side of `opens_below` and so on;
    None if the category has no such state.
    """

    open_range: Range | None = None
    close_range: Range | None = None
    turn_on_range: Range | None = None
    turn_off_range: Range | None = None
    opens_below: bool = True

    def is_open(self, position: float) -> bool:
        """Whether a joint position counts as open."""
        assert self.open_range is not None
        return position < max(self.open_range) if self.opens_below else position > min(self.open_range)

    def is_close(self, position: float) -> bool:
        """Whether a joint position counts as closed."""
        assert self.close_range is not None
        return position > min(self.close_range) if self.opens_below else position < max(self.close_range)

    def is_turned_on(self, position: float) -> bool:
        """Whether a knob position counts as on; the threshold itself counts."""
        assert self.turn_on_range is not None
        return position >= min(self.turn_on_range)

    def is_turned_off(self, position: float) -> bool:
        """Whether a knob position counts as off: strictly negative, so false at the reset pose."""
        assert self.turn_off_range is not None
        return position < max(self.turn_off_range)


@dataclass(frozen=True)
class Category:
    """A category that task files may declare.

    `rotations` are (axis, lowest, highest angle in radians), drawn in this order when the object is placed; `single`
    says that upstream draws one rotation about one axis rather than composing a list of them. `burner` names the site
    that glows while the category is turned on. `visible_collisions`: each geom that collides has a twin that is seen.
    """

    name: str
    model: str
    rotations: tuple[tuple[str, float, float], ...]
    single: bool = True
    articulation: Articulation | None = None
    burner: str | None = None
    visible_collisions: bool = False


Categories: TypeAlias = Mapping[str, Category]


def category(name: str, location: str, others: Iterable[str] = (), catalogue: Categories | None = None) -> Category:
    """Return a category of a catalogue by its name.

    Args:
        name: lower-case category, as task files write it.
        location: ``FILE:LINE:COLUMN`` of the declaration, for the error.
        others: further names that the error lists.
        catalogue: the categories, or None for LIBERO's.

    Raises:
        SceneError: there is no such category; lists close matches.
    """
    catalogue = CATEGORIES if catalogue is None else catalogue
    if name in catalogue:
        return catalogue[name]
    known = sorted({*catalogue, *others})
    matches = difflib.get_close_matches(name, known, n=3)
    hint = f"Did you mean {' or '.join(matches)}?" if matches else f"Known: {', '.join(known)}."
    raise SceneError(f"{location}: unknown category {name!r}. {hint}")


def category_from_json(value: dict[str, Any]) -> Category:
    """Return the category from its `dataclasses.asdict` in JSON; raises KeyError or TypeError on another shape."""
    ranges = value["articulation"]
    pairs: dict[str, Any] = {
        key: tuple(pair) if isinstance(pair, list) else pair for key, pair in (ranges or {}).items()
    }
    return Category(
        **{
            **value,
            "rotations": tuple((axis, lowest, highest) for axis, lowest, highest in value["rotations"]),
            "articulation": Articulation(**pairs) if ranges is not None else None,
        }
    )


def _about(axis: str, angle: float, highest: float | None = None) -> tuple[tuple[str, float, float], ...]:
    return ((axis, angle, angle if highest is None else highest),)


_HALF_X = _about("x", _PI / 2)
_UPRIGHT = (("x", _PI / 2, _PI / 2), ("z", _PI / 2, _PI / 2))
_BOOK = _about("x", -_PI / 2, -_PI / 4)
_MUG = _about("x", -_PI / 2)
_LYING = _about("x", 0.0)
_CABINET = Articulation(open_range=(-0.16, -0.14), close_range=(0.0, 0.005))
_ARTICULATED = _about("x", _PI / 4, _PI / 2)

_HOPE = {
    **dict.fromkeys(("alphabet_soup", "tomato_sauce"), _about("z", _PI / 2)),
    **dict.fromkeys(("bbq_sauce", "cherries", "cookies", "corn"), _HALF_X),
    **dict.fromkeys(("butter", "chocolate_pudding", "cream_cheese", "popcorn"), _LYING),
    **dict.fromkeys(("ketchup", "macaroni_and_cheese", "mayo", "milk", "new_salad_dressing"), _UPRIGHT),
    **dict.fromkeys(("orange_juice", "salad_dressing"), _UPRIGHT),
}
_SCANNED = {
    **dict.fromkeys(("akita_black_bowl", "basket", "chefmate_8_frypan", "glazed_rim_porcelain_ramekin"), _HALF_X),
    **dict.fromkeys(("plate", "white_bowl"), _HALF_X),
    "rack": _LYING,
}
_TURBOSQUID = {
    **dict.fromkeys(("black_book", "yellow_book"), _BOOK),
    **dict.fromkeys(("bowl_drainer", "desk_caddy", "dining_set_group", "moka_pot", "wine_bottle"), _LYING),
    **dict.fromkeys(("wine_rack", "wooden_shelf", "wooden_tray", "wooden_two_layer_shelf"), _LYING),
    **dict.fromkeys(("porcelain_mug", "red_coffee_mug", "white_yellow_mug"), _MUG),
    "white_storage_box": _about("y", 0.0),
}
_MODEL_NAMES = {"rack": "simple_rack"}


def _catalogue() -> dict[str, Category]:
    entries = []
    for folder, table in (
        ("stable_hope_objects", _HOPE),
        ("stable_scanned_objects", _SCANNED),
        ("turbosquid_objects", _TURBOSQUID),
    ):
        # Draws among categories go through them in this order.
        for name, rotations in sorted(table.items()):
            model = _MODEL_NAMES.get(name, name)
            single = rotations is not _UPRIGHT
            entries.append(Category(name, f"{folder}/{model}/{model}.xml", rotations, single))
    for name, articulation in (
        ("basin_faucet", None),
        ("faucet", None),
        ("microwave", Articulation(open_range=(-2.094, -1.3), close_range=(-0.005, 0.0))),
        ("short_cabinet", Articulation(open_range=(0.10, 0.16), close_range=(-0.005, 0.0), opens_below=False)),
        ("short_fridge", Articulation(open_range=(2.0, 2.7), close_range=(-0.005, 0.0), opens_below=False)),
        ("slide_cabinet", None),
        ("white_cabinet", _CABINET),
        ("window", None),
        ("wooden_cabinet", _CABINET),
    ):
        entries.append(Category(name, f"articulated_objects/{name}.xml", _ARTICULATED, articulation=articulation))
    stove = Articulation(turn_on_range=(0.5, 2.1), turn_off_range=(-0.005, 0.0))
    entries.append(
        Category(
            "flat_stove",
            "articulated_objects/flat_stove.xml",
            _about("y", 0.0),
            articulation=stove,
            burner="burner",
        )
    )
    return {entry.name: entry for entry in entries}


CATEGORIES = _catalogue()


# Categories declared by files: ``assets/objects/NAME/`` with ``NAME.xml`` (the model) and ``category.toml``.
#
# All keys of ``category.toml`` are optional:
#
#     yaw_degrees = [-180, 180]  # turn about the vertical that a placement draws; default [0, 0]
#     burner = "burner"          # the model's site that glows while the fixture is turned on (see compose.py)
#
#     [articulation]             # joint positions (m or rad): [lowest, highest] that (:init ...) draws from
#     open = [0.14, 0.16]        # open beyond the end that is nearer to `close`
#     close = [0.0, 0.005]       # closed on this side of the end that is nearer to `open`
#     turn_on = [0.5, 2.1]       # on from its lower end, above turn_off
#     turn_off = [-0.005, 0.0]   # off below its upper end

FOLDER = "objects"
FILE = "category.toml"
_STATES = {"open": "open_range", "close": "close_range", "turn_on": "turn_on_range", "turn_off": "turn_off_range"}
_PAIRS = (("open", "close"), ("turn_on", "turn_off"))


def find_category(
    name: str, location: str, roots: tuple[DataRoot, ...], catalogue: Categories | None = None
) -> tuple[Category, Path | None]:
    """Return a category by its name, and the file that declares it, or None if it is in the catalogue.

    Args:
        name: lower-case category, as task files write it.
        location: ``FILE:LINE:COLUMN`` of the declaration, for the error.
        roots: folders in which ``assets/objects`` is looked for; the first that has the category counts.
        catalogue: the workspace's categories, or None for LIBERO's.

    Raises:
        SceneError: there is no such category, its file cannot be used, or its name is taken by one of the
            catalogue.
    """
    whose, catalogue = ("LIBERO", CATEGORIES) if catalogue is None else ("this workspace", catalogue)
    file = next((path for folder in _folders(roots) if (path := folder / name / FILE).is_file()), None)
    if name in catalogue:
        if file is not None:
            raise SceneError(
                f"{file}: {whose} has a category {name!r}. Rename this folder, its .xml and what uses them."
            )
        return catalogue[name], None
    if file is None or not re.fullmatch(r"[a-z0-9_]+", name):
        declared = (path.parent.name for folder in _folders(roots) for path in folder.glob(f"*/{FILE}"))
        return category(name, location, declared, catalogue), None
    return read_category(file), file


def read_category(file: Path) -> Category:
    """Return the category that a ``category.toml`` declares, named as its folder.

    Raises:
        SceneError: the file cannot be read, or does not follow this module's docstring.
    """
    try:
        table = read_toml(file)
    except (OSError, ValueError) as error:
        raise SceneError(f"{file}: cannot be read as TOML: {error}. Mend the file or copy it again.") from error
    _refuse_unknown(table, ("yaw_degrees", "burner", "articulation"), file, "")
    name = file.parent.name
    lowest, highest = _range(table, "yaw_degrees", file) or (0.0, 0.0)
    burner = table.get("burner")
    if burner is not None and not (isinstance(burner, str) and burner):
        raise SceneError(f"{file}: burner = {burner!r}: expected the name of a site of {name}.xml")
    articulation = _articulation(table["articulation"], file) if "articulation" in table else None
    if burner is not None and (articulation is None or articulation.turn_on_range is None):
        raise SceneError(f"{file}: burner = {burner!r} needs turn_on and turn_off under [articulation]")
    # A placement writes the quaternion of a turn about x by pi - a where one about z by a is meant (placement.py).
    turn = ("x", math.pi - math.radians(highest), math.pi - math.radians(lowest))
    return Category(name, f"{FOLDER}/{name}/{name}.xml", (turn,), articulation=articulation, burner=burner)


def _folders(roots: tuple[DataRoot, ...]) -> list[Path]:
    return [root.assets / FOLDER for root in roots if root.assets is not None]


def _articulation(table: Any, file: Path) -> Articulation:
    if not isinstance(table, dict):
        raise SceneError(f"{file}: articulation = {table!r}: expected a table [articulation]")
    _refuse_unknown(table, tuple(_STATES), file, " under [articulation]")
    for one, other in _PAIRS:
        if (one in table) != (other in table):
            raise SceneError(f"{file}: [articulation] has {one} or {other} without the other: give both or none")
    ranges = {key: _range(table, key, file) for key in _STATES}
    for one, other in _PAIRS:
        first, second = ranges[one], ranges[other]
        if first is not None and second is not None and min(first) <= max(second) and min(second) <= max(first):
            raise SceneError(f"{file}: {one} = {list(first)} and {other} = {list(second)} overlap: move them apart")
    opens, closes, on, off = (ranges[key] for key in _STATES)
    if on is not None and off is not None and on < off:
        raise SceneError(
            f"{file}: turn_on = {list(on)} lies below turn_off = {list(off)}, but a knob is on from the lower end of "
            "turn_on upwards. Turn the joint's axis round, and change the signs of its range and of both."
        )
    below = opens is not None and closes is not None and opens < closes
    return Articulation(**{_STATES[key]: value for key, value in ranges.items()}, opens_below=below)


def _range(table: dict[str, Any], key: str, file: Path) -> Range | None:
    value = table.get(key)
    if value is None:
        return None
    numbers = isinstance(value, list) and all(
        isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number) for number in value
    )
    if not numbers or len(value) != 2 or value[0] > value[1]:
        raise SceneError(f"{file}: {key} = {value!r}: expected [lowest, highest], two numbers in this order")
    return float(value[0]), float(value[1])


def _refuse_unknown(table: dict[str, Any], known: tuple[str, ...], file: Path, where: str) -> None:
    unknown = sorted(set(table) - set(known))
    if unknown:
        raise SceneError(f"{file}: unknown {', '.join(unknown)}{where}. Known: {', '.join(known)}.")
