"""What a baseline's file may say: it is from outside, edited and merged by people. Pure; `migrated` has the schemas."""

from collections.abc import Callable, Mapping
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.labels import CaseParts, parse_case_id
from pytest_vla.records.checks import OUTCOMES, is_count, is_number, is_plain
from pytest_vla.util.text import printable

SCHEMA = 1
"""Of the files that this version writes; raised as `pytest_vla.records.migrations` says it of records."""

Table = dict[str, Any]

STEPS: Mapping[int, Callable[[Table], Table]] = {}
"""From each earlier schema that can be read to the one after it; what they are given has not been looked at."""

MOST_CONDITIONS = 2_000_000
"""Of names of conditions times tasks: what shares them is made out for each task."""

OF_TABLE = ("schema", "made_by", "model", "policy_digest", "runs", "began", "common", "suites", "tasks", "cases")
"""What this version knows of a file; what else is in it is kept."""

OF_CASE = (
    *("case", "outcome", "reason", "steps", "success_step", "digest", "parameters", "costs", "metrics"),
    *("listed", "test", "but"),
)
"""What this version knows of a case's line; what else is in it is kept."""

_MOST_NAMES = 1_000


def migrated(table: Any, schema: int = SCHEMA, steps: Mapping[int, Callable[[Table], Table]] = STEPS) -> Table:
    """The table of a file, of this version's schema.

    Args:
        table: as JSON has it.
        schema: that is wanted.
        steps: from each earlier one to the one after it.

    Raises:
        VlaError: it is no table, of a later schema, of one that nobody can read any more, or of none.
    """
    if not isinstance(table, dict):
        raise VlaError(f"expected a table, found {type(table).__name__}")
    found = table.get("schema")
    oldest = min([schema, *steps])
    known = f"schema {schema}" if oldest == schema else f"schema {oldest} to {schema}"
    if type(found) is int and found > schema:
        writer = table.get("made_by")
        by = printable(writer)[:60] if isinstance(writer, str) else "a later version"
        raise VlaError(f"expected {known}, found {found}, of {by}: upgrade pytest-vla (pip install -U pytest-vla)")
    if type(found) is not int or found < oldest:
        raise VlaError(f"expected {known}, found {_told(found)}")
    made: Table = table
    for version in range(found, schema):
        made = {**steps[version](made), "schema": version + 1}
    return made


def check_table(table: Mapping[str, Any]) -> None:
    """Refuse a file whose fields are not there or not of their types; cases are `check_case`'s. Raises VlaError."""
    if missing := [name for name in OF_TABLE if name not in table]:
        raise VlaError(f"fields missing: {', '.join(missing)}")
    _check_fields(table, _TABLE)
    for name, value in table.items():
        if name not in OF_TABLE and not is_plain(value):
            raise VlaError(f"{_told(name)}: expected numbers, texts, lists and tables, not too deep")
    names = {*table["common"], *(name for each in table["suites"].values() for name in each)}
    names |= {name for each in table["tasks"].values() for name in each}
    if len(names) > _MOST_NAMES or len(names) * len(table["tasks"]) > MOST_CONDITIONS:
        raise VlaError(f"expected up to {_MOST_NAMES} conditions, found {len(names)} of {len(table['tasks'])} tasks")


def check_case(line: Any) -> CaseParts:
    """Refuse a case whose fields are not of their types or contradict each other.

    Returns:
        What its id is made of.

    Raises:
        VlaError: names the field.
    """
    if not isinstance(line, dict):
        raise VlaError(f"expected a table, found {type(line).__name__}")
    if missing := [name for name in ("case", "outcome", "steps") if name not in line]:
        raise VlaError(f"fields missing: {', '.join(missing)}")
    _check_fields(line, _CASE)
    if not is_plain(line):
        raise VlaError("expected numbers, texts, lists and tables, not too deep")
    parts = parse_case_id(line["case"])
    if parts is None:
        raise VlaError("case: expected an id such as tabletop/turn_on_the_stove[seed0]")
    if (line.get("success_step") or 0) > line["steps"]:
        raise VlaError(f"success_step: expected up to steps, {line['steps']}, found {line['success_step']}")
    if line["outcome"] not in ("success", "failure") and line.get("costs"):
        raise VlaError(f"costs: expected none of an episode that is {line['outcome']}")
    return parts


def check_conditions(conditions: Mapping[str, Any]) -> None:
    """Refuse conditions that are read by name and are not of their types. Raises VlaError that names one."""
    _check_fields(conditions, _CONDITIONS)


def _check_fields(table: Mapping[str, Any], fields: Mapping[str, tuple[str, Callable[[Any], bool]]]) -> None:
    for name, (expected, fits) in fields.items():
        if name in table and not fits(table[name]):
            raise VlaError(f"{name}: expected {expected}, found {_told(table[name])}")


def _told(value: object) -> str:
    return printable(repr(value)[:60])


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_text_or_null(value: object) -> bool:
    return value is None or type(value) is str


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_conditions(value: object) -> bool:
    return isinstance(value, dict) and is_plain(value)


def _is_layer(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_conditions, value.values()))


def _is_numbers(value: object) -> bool:
    return isinstance(value, dict) and all(is_number(each) and type(each) is not bool for each in value.values())


def _is_costs(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_amounts, value.values()))


def _is_amounts(value: object) -> bool:
    return _is_numbers(value) and isinstance(value, dict) and all(each >= 0 for each in value.values())


def _is_charged(value: object) -> bool:
    return value is None or (isinstance(value, dict) and all(map(_is_texts, value.values())))


def _is_variation(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, dict)
        and {*value} <= {"dimension", "kind", "level", "probe"}
        and _is_text(value.get("dimension", ""))
        and _is_text(value.get("kind", ""))
        and (value.get("level") is None or type(value["level"]) is int)
        and isinstance(value.get("probe", False), bool)
    )


_Fields = Mapping[str, tuple[str, Callable[[Any], bool]]]

_TABLE: _Fields = {
    **dict.fromkeys(("made_by", "model"), ("a text", _is_text)),
    "policy_digest": ("a text or null", _is_text_or_null),
    "runs": ("a list of texts", _is_texts),
    "began": ("two texts", lambda value: _is_texts(value) and len(value) == 2),
    "common": ("a table of conditions", _is_conditions),
    **dict.fromkeys(("suites", "tasks"), ("a table of tables of conditions", _is_layer)),
    "cases": ("a list of cases", lambda value: isinstance(value, list)),
}
_CASE: _Fields = {
    **dict.fromkeys(("case", "digest", "parameters", "listed", "test"), ("a text", _is_text)),
    "outcome": (f"one of {', '.join(OUTCOMES)}", OUTCOMES.__contains__),
    "reason": ("a text or null", _is_text_or_null),
    "steps": ("an integer from 0", is_count),
    "success_step": ("an integer from 0, or null", lambda value: value is None or is_count(value)),
    "costs": ("tables of amounts from 0, by account", _is_costs),
    "metrics": ("a table of numbers", _is_numbers),
    "but": ("a table of conditions", _is_conditions),
}
_CONDITIONS: _Fields = {
    "run_seed": ("an integer from 0, or null", lambda value: value is None or is_count(value)),
    "charged": ("a table of lists of texts, or null", _is_charged),
    "variation": ("a table with dimension, kind, level or probe, or null", _is_variation),
}
