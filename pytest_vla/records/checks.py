"""Checks of untrusted records and runs: results may come from elsewhere, and readers rely on their fields. Pure."""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import datetime
from math import isfinite
from pathlib import PurePosixPath
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import MOST_CHARGES
from pytest_vla.util.text import printable, quoted

OUTCOMES = ("success", "failure", "error", "invalid")

# The deepest nesting of free-form tables in records, such as a variation's parameters; ours have three levels.
_DEEPEST = 16
# The bound of numpy's and parquet's integers.
_LARGEST = 2**63


def is_run_name(name: object) -> bool:
    """Whether it can be a run's name: a folder in the results, and nothing outside of them."""
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}", name) is not None


def is_time(text: object) -> bool:
    """Whether it is an ISO 8601 time that can be converted to local time."""
    try:
        datetime.fromisoformat(text).astimezone()  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, OSError):
        return False
    return True


def parse_json(text: str | bytes, *, unique: bool = False) -> Any:
    """Parse standard JSON, without NaN. Raises VlaError, also if it is too deep or its numbers are too long.

    Args:
        text: the JSON.
        unique: whether to refuse a table with a repeated name; if not, the name's last value is taken.
    """
    try:
        return (_UNIQUE if unique else _DECODER).decode(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise VlaError("it is nested too deeply") from None
    except ValueError as error:
        raise VlaError(str(error)) from error


def check_record(table: Mapping[str, Any]) -> None:
    """Check the field types of a record in JSON form. Raises VlaError that names the field."""
    for name, (expected, fits) in _FIELDS.items():
        if not fits(table[name]):
            found = quoted(table[name])
            raise VlaError(f"not a record: {name}: expected {expected}, found {found}")


def check_unknown(table: Mapping[str, Any]) -> None:
    """Check that fields of a later version can be stored unchanged. Raises VlaError that names the field."""
    for name, value in table.items():
        if not is_plain(value):
            told = quoted(name)
            raise VlaError(f"not a record: {told}: expected numbers, texts, lists and tables, {_DEEPEST} deep at most")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{printable(twice)[:60]!r} is said twice")
    return table


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_UNIQUE = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_once)


def is_text(value: object) -> bool:
    """Whether it is a text."""
    return type(value) is str


def is_count(value: object) -> bool:
    """Whether it is an integer from 0 within numpy's 64 bits."""
    return type(value) is int and 0 <= value < _LARGEST


def is_number(value: object) -> bool:
    """Whether it is a finite number, and, if an integer, within numpy's 64 bits."""
    # An integer of 400 digits is no float.
    return isfinite(value) if type(value) is float else isinstance(value, int) and abs(value) < _LARGEST


def or_null(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check that None passes too."""
    return lambda value: value is None or fits(value)


def list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check of a list whose values fit."""
    return lambda value: isinstance(value, list) and all(map(fits, value))


def table_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a check of a table whose values fit."""
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


def is_plain(value: object, depth: int = 0) -> bool:
    """Whether it consists of numbers, texts, lists and tables, not nested too deeply."""
    if depth > _DEEPEST:
        return False
    if isinstance(value, dict):
        return all(is_plain(inner, depth + 1) for inner in value.values())
    if isinstance(value, list):
        return all(is_plain(inner, depth + 1) for inner in value)
    return value is None or isinstance(value, str) or is_number(value)


def _is_variation(value: object) -> bool:
    if not isinstance(value, dict) or not is_plain(value):
        return False
    return not value or (
        is_text(value.get("label"))
        and is_text(value.get("dimension", ""))
        and is_text(value.get("kind", ""))
        and (value.get("level") is None or type(value["level"]) is int)
        and isinstance(value.get("probe", False), bool)
        and isinstance(value.get("parameters", {}), dict)
    )


def _is_literals(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(each, list) and each for each in value.values())


def _is_ledger(value: object) -> bool:
    return isinstance(value, list) and len(value) <= MOST_CHARGES and all(map(_is_charge, value))


def _is_charge(value: object) -> bool:
    return (
        isinstance(value, dict)
        and is_plain(value)
        and is_text(value.get("name"))
        and is_number(value.get("amount"))
        and not isinstance(value["amount"], bool)
        and (value.get("step") is None or is_count(value["step"]))
        and all(value.get(name) is None or is_text(value[name]) for name in ("by", "text", "account", "kind"))
        and (value.get("last_step") is None or _is_later(value["last_step"], value.get("step")))
        and (value.get("bodies") is None or (isinstance(value["bodies"], list) and all(map(is_text, value["bodies"]))))
        and (value.get("force") is None or is_number(value["force"]))
        and (value.get("position") is None or _is_place(value["position"]))
        and (value.get("impulse") is None or is_number(value["impulse"]))
        and (value.get("peak") is None or _is_peak(value["peak"]))
    )


def _is_later(last: object, first: object) -> bool:
    return type(last) is int and type(first) is int and is_count(last) and last >= first


def _is_peak(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_count, value))


def _is_place(value: object) -> bool:
    return isinstance(value, list) and len(value) == 3 and all(map(is_number, value))


def is_inside(name: object) -> bool:
    """Whether it is the relative path of a trajectory that stays inside its folder."""
    if not isinstance(name, str) or not name.endswith(".npz") or not name.isprintable() or len(name) > 4000:
        return False
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name


_TEXTS = (
    "case",
    "node",
    "suite",
    "task",
    "worker",
    "instruction",
    "policy",
    "digest",
    "task_level",
    "group",
    "retried",
)
_FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(_TEXTS, ("a text", is_text)),
    **dict.fromkeys(("reason", "message", "policy_digest"), ("a text or null", or_null(is_text))),
    **dict.fromkeys(("seed", "attempt", "steps"), ("an integer from 0", is_count)),
    **dict.fromkeys(("success_step", "replan"), ("an integer from 0, or null", or_null(is_count))),
    "costs": ("a ledger: a list of tables with name, amount and step", _is_ledger),
    "metrics": ("a table of numbers", table_of(is_number)),
    "timings": ("a table of numbers or null", table_of(or_null(is_number))),
    "run": ("the name of a run", is_run_name),
    # Imported logs have no time.
    "started": ("a time, ISO 8601", lambda value: value == "" or is_time(value)),
    "variation": ("a variation's table", _is_variation),
    "outcome": (f"one of {', '.join(OUTCOMES)}", OUTCOMES.__contains__),
    "literals": ("a table of lists", _is_literals),
    "eef_pos": ("three numbers or null", or_null(_is_place)),
    "seeds": ("a table of integers", table_of(or_null(is_count))),
    "protocol": ("a table", lambda value: isinstance(value, dict) and is_plain(value)),
    "provenance": ("a table of texts", table_of(or_null(is_text))),
    "given": ("true or false", lambda value: isinstance(value, bool)),
    "simulator": ("a list of texts", lambda value: isinstance(value, list) and all(map(is_text, value))),
    "arrays": ("the relative path of an npz file in the run's folder, or null", or_null(is_inside)),
}
