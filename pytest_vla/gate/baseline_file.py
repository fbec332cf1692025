"""A baseline as a file, ``baseline.vla.json``: small text that a reviewer can read in a diff.

JSON with a line for each case, and above them, once, the conditions that cases share: of all, of each suite, of each
task, where each says what is otherwise than above it (null: there is none of that name). Equal baselines are equal
bytes. Nothing in it is another machine's rounding, and nothing a text that a terminal would obey.
"""

import json
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import Baseline, CaseResult, Conditions, differences, layers_of, merged
from pytest_vla.gate.comparable import ComparableEpisodes, Pair, matched
from pytest_vla.plan.case import CaseParts, parse_case_id, task_key
from pytest_vla.records.checks import (
    OUTCOMES,
    is_count,
    is_number,
    is_plain,
    is_text,
    list_of,
    or_null,
    parse_json,
    table_of,
)
from pytest_vla.records.counting import INIT_STATE_DIGEST
from pytest_vla.util.documents import read_plain
from pytest_vla.util.files import whole_file
from pytest_vla.util.text import printable, quoted

# What a baseline's file may say: it is from outside, edited and merged by people. Pure; `migrated` has the schemas.

SCHEMA = 1
"""Of the files that this version writes; raised as `pytest_vla.records.record` says it of records."""

Table = dict[str, Any]

STEPS: Mapping[int, Callable[[Table], Table]] = {}
"""From each earlier schema that can be read to the one after it; what they are given has not been looked at."""

MOST_CONDITIONS = 2_000_000
"""Of names of conditions times tasks: what shares them is made out for each task."""

OF_TABLE = ("schema", "made_by", "model", "policy_digest", "runs", "began", "common", "suites", "tasks", "cases")
"""What this version knows of a file; what else is in it is kept."""

OF_CASE = (
    *("case", "outcome", "reason", "steps", "success_step", "digest", "parameters", "costs", "metrics"),
    *("listed", "test", "but", INIT_STATE_DIGEST),
)
"""What this version knows of a case's line; what else is in it is kept."""

_MOST_NAMES = 1_000


def migrated(table: Any, schema: int = SCHEMA, steps: Mapping[int, Callable[[Table], Table]] = STEPS) -> Table:
    """Return the table of a baseline file, converted to this version's schema.

    Args:
        table: as JSON has it.
        schema: the wanted schema.
        steps: converters from each earlier schema to the next one.

    Raises:
        VlaError: it is not a table, or its schema is missing, newer than this version, or too old to be read.
    """
    if not isinstance(table, dict):
        raise VlaError(f"expected a table, found {type(table).__name__}")
    found = table.get("schema")
    oldest = min([schema, *steps])
    known = f"schema {schema}" if oldest == schema else f"schema {oldest} to {schema}"
    if type(found) is int and found > schema:
        writer = table.get("made_by")
        by = printable(writer)[:60] if isinstance(writer, str) else "a later version"
        raise VlaError(
            f"expected {known}, found {found}, written by {by}: upgrade pytest-vla (pip install -U pytest-vla)"
        )
    if type(found) is not int or found < oldest:
        raise VlaError(f"expected {known}, found {quoted(found)}")
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
            raise VlaError(f"{quoted(name)}: expected numbers, texts, lists and tables, not too deep")
    names = {*table["common"], *(name for each in table["suites"].values() for name in each)}
    names |= {name for each in table["tasks"].values() for name in each}
    if len(names) > _MOST_NAMES or len(names) * len(table["tasks"]) > MOST_CONDITIONS:
        raise VlaError(f"expected up to {_MOST_NAMES} conditions, found {len(names)} for {len(table['tasks'])} tasks")


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
        raise VlaError(f"costs: expected none for the outcome {line['outcome']}")
    return parts


def check_conditions(conditions: Mapping[str, Any]) -> None:
    """Refuse conditions that are read by name and are not of their types. Raises VlaError that names one."""
    _check_fields(conditions, _CONDITIONS)


def _check_fields(table: Mapping[str, Any], fields: Mapping[str, tuple[str, Callable[[Any], bool]]]) -> None:
    for name, (expected, fits) in fields.items():
        if name in table and not fits(table[name]):
            raise VlaError(f"{name}: expected {expected}, found {quoted(table[name])}")


def _is_conditions(value: object) -> bool:
    return isinstance(value, dict) and is_plain(value)


def _is_numbers(value: object) -> bool:
    return isinstance(value, dict) and all(is_number(each) and type(each) is not bool for each in value.values())


def _is_amounts(value: object) -> bool:
    return _is_numbers(value) and isinstance(value, dict) and all(each >= 0 for each in value.values())


def _is_variation(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, dict)
        and {*value} <= {"dimension", "kind", "level", "probe"}
        and is_text(value.get("dimension", ""))
        and is_text(value.get("kind", ""))
        and (value.get("level") is None or type(value["level"]) is int)
        and isinstance(value.get("probe", False), bool)
    )


_is_texts = list_of(is_text)
_Fields = Mapping[str, tuple[str, Callable[[Any], bool]]]

_TABLE: _Fields = {
    **dict.fromkeys(("made_by", "model"), ("a text", is_text)),
    "policy_digest": ("a text or null", or_null(is_text)),
    "runs": ("a list of texts", _is_texts),
    "began": ("two texts", lambda value: _is_texts(value) and len(value) == 2),
    "common": ("a table of conditions", _is_conditions),
    **dict.fromkeys(("suites", "tasks"), ("a table of tables of conditions", table_of(_is_conditions))),
    "cases": ("a list of cases", lambda value: isinstance(value, list)),
}
_CASE: _Fields = {
    **dict.fromkeys(("case", "digest", "parameters", "listed", "test", INIT_STATE_DIGEST), ("a text", is_text)),
    "outcome": (f"one of {', '.join(OUTCOMES)}", OUTCOMES.__contains__),
    "reason": ("a text or null", or_null(is_text)),
    "steps": ("an integer from 0", is_count),
    "success_step": ("an integer from 0, or null", or_null(is_count)),
    "costs": ("tables of amounts from 0, by account", table_of(_is_amounts)),
    "metrics": ("a table of numbers", _is_numbers),
    "but": ("a table of conditions", _is_conditions),
}
_CONDITIONS: _Fields = {
    "run_seed": ("an integer from 0, or null", or_null(is_count)),
    "charged": ("a table of lists of texts, or null", or_null(table_of(_is_texts))),
    "variation": ("a table with dimension, kind, level or probe, or null", _is_variation),
}


_MENDING = "save it again (pytest-vla baseline save RUN -o FILE), or restore it from version control"


def write_baseline(baseline: Baseline, path: Path) -> None:
    """Write it, whole or not at all. Raises VlaError."""
    with whole_file(path) as stream:
        stream.write(text_of(baseline).encode())


def read_baseline(path: Path) -> Baseline:
    """Read the baseline from a file, whichever version wrote it.

    Raises:
        VlaError: the file does not exist or is not a baseline; the message names the file, the line or the case, what
            was expected, and what helps.
    """
    try:
        text = read_plain(path).decode()
    except FileNotFoundError:
        raise VlaError(f"there is no baseline {path}: make one with pytest-vla baseline save RUN -o {path}") from None
    except UnicodeDecodeError as error:
        raise _broken(path, f"it is not text (byte {error.start})") from error
    except ValueError as error:
        raise _broken(path, str(error)) from error
    except OSError as error:
        raise VlaError(f"cannot read {path}: {error.strerror or error}") from error
    if (line := _conflict(text)) is not None:
        raise VlaError(
            f"{path}:{line}: not a baseline: it has git conflict markers. Take one side (git checkout --ours {path}, "
            f"or --theirs), or save it again: pytest-vla baseline save RUN -o FILE"
        )
    try:
        table = parse_json(text, unique=True)
    except VlaError as error:
        raise _broken(path, f"{error} (is its end cut off?)") from error
    return _baseline(table, text, path)


def text_of(baseline: Baseline) -> str:
    """Return the text of a baseline's file."""
    layers = layers_of(baseline.cases)
    suites = {name: differences(each, layers.common) for name, each in sorted(layers.suites.items())}
    tasks = {
        f"{suite}/{task}": differences(each, layers.suites[suite])
        for (suite, task), each in sorted(layers.tasks.items())
    }
    heads = {
        "schema": SCHEMA,
        "made_by": baseline.made_by,
        "model": baseline.model,
        "policy_digest": baseline.policy_digest,
        "runs": list(baseline.runs),
        "began": list(baseline.began),
        **baseline.unknown,
    }
    lines = [f"{_json(name)}: {_json(value)}" for name, value in heads.items()]
    for name, told in (("common", layers.common), ("suites", suites), ("tasks", tasks)):
        lines.append(f"{_json(name)}: {_listed('{}', (f'{_json(key)}: {_json(told[key])}' for key in told))}")
    cases = (_json(_line_of(case, layers.tasks[case.suite, case.task_key])) for case in baseline.cases)
    lines.append(f'"cases": {_listed("[]", cases)}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _listed(brackets: str, lines: Iterable[str]) -> str:
    inner = ",\n".join(lines)
    return f"{brackets[0]}\n{inner}\n{brackets[1]}" if inner else brackets


def _line_of(case: CaseResult, shared: Conditions) -> dict[str, Any]:
    """Return a case as its line has it, without usual values."""
    conditions = case.conditions
    charged = nothing_charged(conditions) if case.is_counted else {}
    costs = {}
    for account, some in sorted(case.costs.items()):
        usual = charged.get(account, {})
        # What was watched and cost nothing is above.
        costs[account] = {name: _short(some[name]) for name in sorted(some) if some[name] or name not in usual}
    metrics = {name: _short(value) for name, value in sorted(case.metrics.items())}
    line: dict[str, Any] = {"case": case.case, "outcome": case.outcome}
    line |= {"reason": case.reason} if case.reason is not None else {}
    line |= {"steps": case.steps}
    if case.success_step != usual_success_step(case.outcome, case.steps):
        line["success_step"] = case.success_step
    further = {
        "digest": case.digest,
        "parameters": case.parameters,
        INIT_STATE_DIGEST: case.init_state_digest,
        "costs": {account: amounts for account, amounts in costs.items() if amounts},
        "metrics": metrics,
        "listed": case.listed,
        "test": case.test,
        "but": differences(conditions, shared),
    }
    return {**line, **{name: value for name, value in further.items() if value}, **case.unknown}


def _baseline(table: Any, text: str, path: Path) -> Baseline:
    """Read a baseline from its table. Raises VlaError."""
    try:
        table = migrated(table)
        check_table(table)
    except VlaError as error:
        raise _broken(path, str(error)) from error
    shared: dict[tuple[str, str], Conditions] = {}
    cases: list[CaseResult] = []
    seen: dict[Hashable, int] = {}
    charged = 0
    for index, line in enumerate(table["cases"]):
        try:
            case = _case_of(line, table, shared)
        except VlaError as error:
            raise _broken(_place(path, text, index, len(table["cases"]), line), str(error)) from error
        if (first := seen.setdefault(case.key, index)) != index:
            places = [_place(path, text, each, len(table["cases"]), line) for each in (first, index)]
            raise _broken(places[1], f"duplicate of {places[0]}; keep one of the two lines")
        charged += sum(map(len, case.costs.values()))
        if charged > MOST_CONDITIONS:
            raise _broken(path, f"expected up to {MOST_CONDITIONS} names of costs in all cases, found more")
        cases.append(case)
    first, last = table["began"]
    return Baseline(
        table["model"],
        table["policy_digest"],
        table["made_by"],
        tuple(table["runs"]),
        (first, last),
        tuple(sorted(cases, key=lambda case: case.key)),
        {name: value for name, value in table.items() if name not in OF_TABLE},
    )


def _case_of(line: Any, table: Mapping[str, Any], known: dict[tuple[str, str], Conditions]) -> CaseResult:
    """Read a case from its table. Raises VlaError."""
    parts = check_case(line)
    task = parts.suite, task_key(parts.task, parts.task_level)
    if task not in known:
        layers = table["suites"].get(parts.suite, {}), table["tasks"].get("/".join(task), {})
        known[task] = reduce(merged, layers, table["common"])
        check_conditions(known[task])
    shared, own = known[task], line.get("but", {})
    check_conditions(own)
    conditions = shared if "charged" not in own else merged(shared, own)
    counted = line["outcome"] in ("success", "failure")
    costs = nothing_charged(conditions) if counted else {}
    for account, amounts in line.get("costs", {}).items():
        costs[account] = costs.get(account, {}) | {name: float(amount) for name, amount in amounts.items()}
    return CaseResult(
        line["case"],
        line["outcome"],
        line.get("reason"),
        line["steps"],
        line.get("success_step", usual_success_step(line["outcome"], line["steps"])),
        costs,
        {name: float(value) for name, value in line.get("metrics", {}).items()},
        line.get("digest", ""),
        line.get("parameters", ""),
        line.get("listed", ""),
        line.get("test", ""),
        shared,
        own,
        {name: value for name, value in line.items() if name not in OF_CASE},
        line.get(INIT_STATE_DIGEST, ""),
    )


def nothing_charged(conditions: Conditions) -> dict[str, dict[str, float]]:
    """Return 0 for each cost that was watched, by account and name."""
    return {account: dict.fromkeys(names, 0.0) for account, names in (conditions.get("charged") or {}).items()}


def usual_success_step(outcome: str, steps: int) -> int | None:
    """Return the success step of an episode that ended with its success, or None if it did not succeed."""
    return steps if outcome == "success" else None


def _short(number: float) -> float:
    """Return a whole number as an integer, which takes fewer letters."""
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _conflict(text: str) -> int | None:
    """Return the number (from 1) of the first line with one of git's conflict markers, or None if there is none."""
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if line.startswith(("<<<<<<< ", ">>>>>>> "))), None)


def _place(path: Path, text: str, index: int, cases: int, line: Any) -> str:
    """``FILE:12: case tabletop/...``: where a case stands, by line only where each has one."""
    lines = [number for number, each in enumerate(text.splitlines(), 1) if each.lstrip().startswith('{"case"')]
    at = f":{lines[index]}" if len(lines) == cases else ""
    name = line.get("case") if isinstance(line, dict) else None
    told = printable(name)[:120] if isinstance(name, str) else f"{index + 1} of {cases}"
    return f"{path}{at}: case {told}"


def _broken(place: Path | str, why: str) -> VlaError:
    return VlaError(f"{place}: not a baseline: {why}; {_MENDING}")


# What becomes of a baseline that another takes the place of.


@dataclass(frozen=True)
class Changes:
    """The differences between a baseline and the one that replaces it.

    Attributes:
        before: the replaced baseline.
        after: the new baseline.
        lost: cases that succeeded and now fail.
        gained: cases that failed and now succeed.
        otherwise: cases with any other change of outcome, such as to an error.
        moved: number of cases with the same outcome and a different trajectory.
        agreement: the cases that only one baseline has, and the conditions that differ.
    """

    before: Baseline
    after: Baseline
    lost: tuple[Pair, ...]
    gained: tuple[Pair, ...]
    otherwise: tuple[Pair, ...]
    moved: int
    agreement: ComparableEpisodes


def changes_of(before: Baseline, after: Baseline) -> Changes:
    """Compute what changes if `after` replaces `before`; they need no case in common."""
    found = matched(before, after)
    ways: dict[tuple[str, str], list[Pair]] = {}
    for pair in found.pairs:
        ways.setdefault((pair.baseline.outcome, pair.new.outcome), []).append(pair)
    lost, gained = (tuple(ways.pop(way, ())) for way in (("success", "failure"), ("failure", "success")))
    otherwise = tuple(pair for (one, other), some in ways.items() if one != other for pair in some)
    alike = (pair for (one, other), some in ways.items() if one == other for pair in some)
    moved = sum(pair.baseline.digest != pair.new.digest for pair in alike)
    return Changes(before, after, lost, gained, otherwise, moved, found.agreement)
