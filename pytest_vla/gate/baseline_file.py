"""A baseline as a file, ``baseline.vla.json``: small text that a reviewer can read in a diff.

JSON with a line for each case, and above them, once, the conditions that cases share: of all, of each suite, of each
task, where each says what is otherwise than above it (null: there is none of that name). Equal baselines are equal
bytes. Nothing in it is another machine's rounding, and nothing a text that a terminal would obey.
"""

import json
from collections.abc import Hashable, Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import Baseline, CaseResult, Conditions, differences, layers_of, merged
from pytest_vla.gate.baseline_checks import (
    MOST_CONDITIONS,
    OF_CASE,
    OF_TABLE,
    SCHEMA,
    check_case,
    check_conditions,
    check_table,
    migrated,
)
from pytest_vla.plan.labels import task_key
from pytest_vla.records.checks import parse_json
from pytest_vla.util.documents import read_plain
from pytest_vla.util.files import whole_file
from pytest_vla.util.text import printable

_MENDING = "save it again (pytest-vla baseline save RUN -o FILE), or take it from version control"


def write_baseline(baseline: Baseline, path: Path) -> None:
    """Write it, whole or not at all. Raises VlaError."""
    with whole_file(path) as stream:
        stream.write(text_of(baseline).encode())


def read_baseline(path: Path) -> Baseline:
    """The baseline of a file, whichever version wrote it.

    Raises:
        VlaError: there is none, or it is none; names the file, the line or the case, what was expected, and what helps.
    """
    try:
        text = read_plain(path).decode()
    except FileNotFoundError:
        raise VlaError(f"there is no baseline {path}: make one with pytest-vla baseline save RUN -o {path}") from None
    except UnicodeDecodeError as error:
        raise _broken(path, f"it is no text (byte {error.start})") from error
    except ValueError as error:
        raise _broken(path, str(error)) from error
    except OSError as error:
        raise VlaError(f"cannot read {path}: {error.strerror or error}") from error
    if (line := _conflict(text)) is not None:
        raise VlaError(
            f"{path}:{line}: not a baseline: there are git's conflict markers in it; take one side whole (git checkout "
            f"--ours {path}, or --theirs), or save it again: pytest-vla baseline save RUN -o FILE"
        )
    try:
        table = parse_json(text, unique=True)
    except VlaError as error:
        raise _broken(path, f"{error} (is its end cut off?)") from error
    return _baseline(table, text, path)


def text_of(baseline: Baseline) -> str:
    """What is in its file."""
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
    """A case as its line has it: what is usual is left out."""
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
        "costs": {account: amounts for account, amounts in costs.items() if amounts},
        "metrics": metrics,
        "listed": case.listed,
        "test": case.test,
        "but": differences(conditions, shared),
    }
    return {**line, **{name: value for name, value in further.items() if value}, **case.unknown}


def _baseline(table: Any, text: str, path: Path) -> Baseline:
    """Raises VlaError."""
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
            raise _broken(places[1], f"the case was there already: {places[0]}; keep one of the two lines")
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
    """Raises VlaError."""
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
    )


def nothing_charged(conditions: Conditions) -> dict[str, dict[str, float]]:
    """By account and name, 0 for each cost that was watched."""
    return {account: dict.fromkeys(names, 0.0) for account, names in (conditions.get("charged") or {}).items()}


def usual_success_step(outcome: str, steps: int) -> int | None:
    """An episode ends with its success."""
    return steps if outcome == "success" else None


def _short(number: float) -> float:
    """An integer where it is one, for fewer letters."""
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _conflict(text: str) -> int | None:
    """The first line, from 1, that git wrote where two sides changed the same lines; None: there is none."""
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
