"""Categories declared by files: ``assets/objects/NAME/`` with ``NAME.xml`` (the model) and ``category.toml``.

All keys of ``category.toml`` are optional::

    yaw_degrees = [-180, 180]   # turn about the vertical that a placement draws; [0, 0] where it is left out
    burner = "burner"           # the model's site that glows while the fixture is turned on (model_checks.py)

    [articulation]              # joint positions (m or rad): [lowest, highest] that (:init ...) draws from
    open = [0.14, 0.16]         # open beyond the end that is nearer to `close`
    close = [0.0, 0.005]        # closed on this side of the end that is nearer to `open`
    turn_on = [0.5, 2.1]        # on from its lower end, above turn_off
    turn_off = [-0.005, 0.0]    # off below its upper end
"""

import math
import re
from pathlib import Path
from typing import Any

from pytest_vla.errors import SceneError
from pytest_vla.plan.data_roots import DataRoot
from pytest_vla.scene.catalog import CATEGORIES, Articulation, Categories, Category, Range, category
from pytest_vla.util.documents import read_toml

FOLDER = "objects"
FILE = "category.toml"
_STATES = {"open": "open_range", "close": "close_range", "turn_on": "turn_on_range", "turn_off": "turn_off_range"}
_PAIRS = (("open", "close"), ("turn_on", "turn_off"))


def find_category(
    name: str, location: str, roots: tuple[DataRoot, ...], catalogue: Categories | None = None
) -> tuple[Category, Path | None]:
    """A category by its name, and the file that declares it (None: it is of the catalogue).

    Args:
        name: lower-case category, as task files write it.
        location: ``FILE:LINE:COLUMN`` of the declaration, for the error.
        roots: where ``assets/objects`` is looked for; the first that has the category counts.
        catalogue: of the workspace; None: LIBERO's.

    Raises:
        SceneError: there is no such category, its file cannot be used, or it takes the name of one of the catalogue.
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
    """The category that a ``category.toml`` declares, named as its folder.

    Raises:
        SceneError: it cannot be read, or holds something else than what this module's docstring says.
    """
    try:
        table = read_toml(file)
    except (OSError, ValueError) as error:
        raise SceneError(f"{file}: cannot be read as TOML: {error}. Mend the file or bring it anew.") from error
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
