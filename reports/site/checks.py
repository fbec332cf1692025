"""What ``runs.json`` may say: it is kept in a branch, merged and edited by people. Pure."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.metrics.rates import BENIGN, VARIED
from pytest_vla.records.checks import is_count, is_number, is_plain, is_run_name
from pytest_vla.util.text import printable

SCHEMA = 1
"""Of the files that this version writes."""


def check_head(table: Any) -> list[Any]:
    """Refuse a file whose runs cannot be read.

    Args:
        table: as JSON has it.

    Returns:
        Its runs, which `check_entry` looks at.

    Raises:
        VlaError: it is no table, or of a later schema, or has no list of runs.
    """
    if not isinstance(table, dict):
        raise VlaError(f"expected a table, found {type(table).__name__}")
    schema = table.get("schema")
    if type(schema) is int and schema > SCHEMA:
        by = printable(table["made_by"])[:60] if isinstance(table.get("made_by"), str) else "a later version"
        raise VlaError(
            f"expected schema {SCHEMA}, found {schema}, of {by}: upgrade pytest-vla (pip install -U pytest-vla)"
        )
    if schema is not True and schema == SCHEMA and isinstance(runs := table.get("runs"), list):
        return runs
    raise VlaError(f"expected schema {SCHEMA} and a list of runs, found schema {_told(schema)}")


def check_entry(table: Any) -> None:
    """Refuse a run whose fields are not there, not of their types, or contradict each other. Raises VlaError."""
    _check(table, ENTRY)
    if table["verdict"] is not None:
        _within("verdict", lambda: _check(table["verdict"], VERDICT))
    columns = set()
    for place, result in enumerate(table["results"], 1):
        _within(f"results, {place}", lambda result=result: _check_result(result))  # type: ignore[misc]
        columns.add((result["model"], result["suite"], result["group"]))
    if len(columns) < len(table["results"]):
        raise VlaError("results: expected one of each model, suite and group, found two")


def _check_result(table: Any) -> None:
    _check(table, RESULT)
    of_tasks = table["of_tasks"]
    if of_tasks is not None and of_tasks < table["tasks"]:
        raise VlaError(f"of_tasks: expected tasks, {table['tasks']}, or more, found {of_tasks}")
    rate = table["rate"]
    _within("rate", lambda: _check(rate, RATE))
    if rate["successes"] > rate["counted"]:
        raise VlaError(f"rate: successes: expected up to counted, {rate['counted']}, found {rate['successes']}")
    others = sum(rate["errors"].values()) + sum(rate["invalid"].values())
    if rate["counted"] + others != rate["episodes"]:
        raise VlaError(f"rate: episodes: expected {rate['counted'] + others}, as there are, found {rate['episodes']}")
    if rate["interval"] is not None and not rate["counted"]:
        raise VlaError("rate: interval: expected null where nothing is counted")


def _within(place: str, check: Callable[[], None]) -> None:
    try:
        check()
    except VlaError as error:
        raise VlaError(f"{place}: {error}") from error


def _check(table: Any, fields: "Fields") -> None:
    if not isinstance(table, dict):
        raise VlaError(f"expected a table, found {type(table).__name__}")
    if missing := [name for name in fields if name not in table]:
        raise VlaError(f"fields missing: {', '.join(missing)}")
    for name, value in table.items():
        expected, fits = fields.get(name, _FURTHER)
        if not fits(value):
            raise VlaError(f"{printable(name)[:60]}: expected {expected}, found {_told(value)}")


def _told(value: object) -> str:
    return printable(repr(value)[:60])


def _is_text(value: object) -> bool:
    return type(value) is str


def _is_time(value: object) -> bool:
    try:
        datetime.fromisoformat(value).astimezone(UTC)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, OSError):
        return False
    return True


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_text_table(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_count_table(value: object) -> bool:
    return isinstance(value, dict) and all(map(is_count, value.values()))


def _is_interval(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(is_number(end) and type(end) is not bool for end in value)
        and 0 <= value[0] <= value[1] <= 1
    )


def _or_null(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or fits(value)


Fields = Mapping[str, tuple[str, Callable[[object], bool]]]

_FURTHER = ("numbers, texts, lists and tables, not too deep", is_plain)
_TEXT = ("a text", _is_text)
_TEXT_OR_NULL = ("a text or null", _or_null(_is_text))
_COUNT = ("an integer from 0", is_count)
_TABLE = ("a table", lambda value: isinstance(value, dict))
_INTERVAL = ("two shares, the lower first, or null", _or_null(_is_interval))

ENTRY: Fields = {
    "name": ("the name of a run", is_run_name),
    "started": ("a time, ISO 8601", _is_time),
    "ended": ("a time, ISO 8601, or null", _or_null(_is_time)),
    "status": _TEXT,
    "model": _TEXT,
    "picked": _TEXT_OR_NULL,
    **dict.fromkeys(("planned", "done", "decided"), _COUNT),
    "verdict": ("a table or null", _or_null(lambda value: isinstance(value, dict))),
    "versions": ("a table of texts", _is_text_table),
    "results": ("a list of results", _is_list),
    "made_from": _TEXT,
}
VERDICT: Fields = {"word": _TEXT, "passed": ("true or false", lambda value: isinstance(value, bool)), "line": _TEXT}
RESULT: Fields = {
    "model": _TEXT,
    "policies": ("a list of texts", _is_texts),
    "suite": _TEXT,
    "group": (f"{BENIGN} or {VARIED}", lambda value: value in (BENIGN, VARIED)),
    "rate": _TABLE,
    "tasks": _COUNT,
    "of_tasks": ("an integer from 0, or null", _or_null(is_count)),
    "variations": _COUNT,
    "selection": _TEXT,
    "conditions": ("a table of texts", _is_text_table),
}
RATE: Fields = {
    "name": _TEXT,
    **dict.fromkeys(("episodes", "successes", "counted"), _COUNT),
    **dict.fromkeys(("interval", "tasks_interval"), _INTERVAL),
    **dict.fromkeys(("errors", "invalid"), ("a table of integers from 0", _is_count_table)),
}
