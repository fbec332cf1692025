"""LIBERO-PRO's Tables 2 to 5 of models: for people as tables, for programs as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS
from pytest_vla.metrics.rates import percents_text, rate_table, reasons_text
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.reports.text import aligned, note_lines, printed, wrapped
from pytest_vla.suites.libero_pro.metrics import COLUMNS, ORIGINAL, ModelPro, ProRow, ProTable
from pytest_vla.util.text import counted


def pro_table(found: ModelPro) -> dict[str, Any]:
    """Return a model of ``libero_pro`` for JSON: percentages 0..100, intervals [low, high] or null.

    - ``model``, ``left_out``, ``unavailable`` (texts with numbers of episodes).
    - ``suites``: ``suite``, ``columns`` and ``tasks`` (``name``, ``columns``); ``columns`` has ``Ori``, ``Obj``,
      ``Pos``, ``Sem``, ``Task`` and ``Env``, each null if nothing was run, else ``n``, ``sr``, ``interval``,
      ``errors`` and ``invalid`` by reason, and for suites ``tasks``: the number of its tasks in the column.
    - for each suite also: ``sweeps``: ``kind``, ``levels`` (``level``, tenths of a metre, 0 for the unvaried task, and
      a rate's keys), over the tasks that have all levels; ``replaced``: a rate's keys, or null;
      ``combined``: ``name``, such as ``swap-object``, and a rate's keys.
    """
    table = found.table
    return {
        "model": table.model,
        "suites": [_suite_table(row, table) for row in table.suites],
        "left_out": list(found.left_out),
        "unavailable": dict(found.unavailable),
    }


def _suite_table(row: ProRow, table: ProTable) -> dict[str, Any]:
    tasks, columns = table.tasks[row.name], _columns(row)
    for name, column in columns.items():
        if column is not None:
            column["tasks"] = table.tasks_in(row.name, name)
    sweeps = {kind: levels for (suite, kind), levels in table.sweeps.items() if suite == row.name}
    return {
        "suite": row.name,
        "columns": columns,
        "tasks": [{"name": task.name, "columns": _columns(task)} for task in tasks],
        "sweeps": [
            {"kind": kind, "levels": [{"level": level, **_rate(rate)} for level, rate in levels.items()]}
            for kind, levels in sweeps.items()
        ],
        "replaced": _rate(table.replaced[row.name]) if row.name in table.replaced else None,
        "combined": [{"name": name, **_rate(rate)} for name, rate in table.combined.get(row.name, {}).items()],
    }


def _columns(row: ProRow) -> dict[str, dict[str, Any] | None]:
    return {name: None if rate is None else _rate(rate) for name, rate in row.rates.items()}


def _rate(rate: SuccessRate) -> dict[str, Any]:
    return {**rate_table(rate), "errors": dict(rate.errors), "invalid": dict(rate.invalid)}


def pro_lines(models: Sequence[ModelPro]) -> Iterator[str]:
    """Format the section for a terminal, line by line, without control characters."""
    yield from printed(_lines(models))


def _lines(models: Sequence[ModelPro]) -> Iterator[str]:
    intervals = f"{CONFIDENCE:.0%} intervals over {THESE_TASKS}"
    yield f"LIBERO-PRO, as its Tables 2 to 5: success, 0 to 1; in brackets {intervals},"
    yield f"and below those of a suite over {TASKS_LIKE_THESE}"
    for found in models:
        table = found.table
        yield ""
        yield f"=== {table.model}: LIBERO-PRO ==="
        yield from note_lines(found.left_out)
        for why, number in found.unavailable.items():
            yield from wrapped(f"unavailable to {counted(number, 'episode')}: {why}")
        yield from _missing_lines(table)
        yield ""
        # The rate, its intervals and its counts below each other, as six of them are too wide.
        rows = [(row.name, *(_stacked(row.rates[name]) for name in (ORIGINAL, *COLUMNS))) for row in table.suites]
        yield from aligned([("", ORIGINAL, *COLUMNS), *rows], 1)
        for suite, tasks in table.tasks.items():
            yield ""
            yield f"{suite}, by task"
            head, *rows = cells(table, tasks)
            yield from aligned([head, *((name, *map(_without_interval, found)) for name, *found in rows)], 1)
        yield from _sweep_lines(table)
        yield from _replaced_lines(table)
        yield from _combined_lines(table)


def cells(table: ProTable, rows: Sequence[ProRow] | None = None) -> tuple[tuple[str, ...], ...]:
    """Format a table in the paper's layout: a head, and rows with cells such as ``0.62 [0.48, 0.74] 31/50``.

    Args:
        table: one model's.
        rows: a suite's task rows, or None for the suites' rows.
    """
    columns = (ORIGINAL, *COLUMNS)
    listed = table.suites if rows is None else rows
    return (("", *columns), *((row.name, *(_cell(row.rates[column]) for column in columns)) for row in listed))


def _cell(rate: SuccessRate | None) -> str:
    if rate is None or rate.rate is None:
        return "-"
    if rate.interval is None:
        return f"{rate.rate:.2f} {rate.successes}/{rate.counted}"
    low, high = rate.interval
    return f"{rate.rate:.2f} [{low:.2f}, {high:.2f}] {rate.successes}/{rate.counted}"


def _missing_lines(table: ProTable) -> Iterator[str]:
    """Errors, invalid episodes, and columns that have not all of a suite's tasks."""
    for row in table.suites:
        tasks = table.tasks[row.name]
        for column in (ORIGINAL, *COLUMNS):
            rate = row.rates[column]
            if rate is None:
                continue
            yield from _uncounted_lines(f"{row.name}, {column}", rate)
            if (number := table.tasks_in(row.name, column)) < len(tasks):
                yield f"{row.name}, {column}: {number} of {counted(len(tasks), 'task')}"
    if any(rate is None for row in table.suites for rate in row.rates.values()):
        yield "-: nothing was run; `pytest-vla coverage` lists tasks that cannot be run"


def _stacked(rate: SuccessRate | None) -> str:
    if rate is None or rate.rate is None:
        return "-"
    intervals = (rate.interval, rate.tasks_interval)
    bounds = ["[{:.2f}, {:.2f}]".format(*each) for each in intervals if each is not None]
    return "\n".join([f"{rate.rate:.2f}", *bounds, f"{rate.successes}/{rate.counted}"])


def _without_interval(cell: str) -> str:
    rate, _, rest = cell.partition(" [")
    return f"{rate} {rest.partition('] ')[2]}".rstrip()


def _sweep_lines(table: ProTable) -> Iterator[str]:
    if not table.sweeps:
        return
    levels = sorted({level for rates in table.sweeps.values() for level in rates})
    rows: list[tuple[str, ...]] = [("", "", *(f"{level / 10:.1f} m" for level in levels))]
    for (suite, kind), rates in table.sweeps.items():
        rows.append((suite, kind, *(_sweep_cell(rates.get(level)) for level in levels)))
    yield ""
    yield "Objects displaced along an axis, success, %, over tasks with all levels; 0.0 m: unvaried"
    yield from aligned(rows, 2)
    for (suite, kind), rates in table.sweeps.items():
        for level, rate in rates.items():
            yield from _uncounted_lines(f"{suite}, {kind} {level / 10:.1f} m", rate)


def _sweep_cell(rate: SuccessRate | None) -> str:
    if rate is None:
        return "-"
    return percents_text(rate).replace(" [", "\n[") + f"\n{rate.successes}/{rate.counted}"


def _uncounted_lines(name: str, rate: SuccessRate) -> Iterator[str]:
    if reasons := reasons_text(rate):
        yield from wrapped(f"in no rate for {name}: {reasons}")


def _replaced_lines(table: ProTable) -> Iterator[str]:
    if not table.replaced:
        return
    rows: list[tuple[str, ...]] = [("", "n", "success, %")]
    rows += [(suite, str(rate.counted), percents_text(rate)) for suite, rate in table.replaced.items()]
    yield ""
    yield "Objects replaced by others of another category, as upstream's code does; Obj keeps the object"
    yield from aligned(rows, 1)
    for suite, rate in table.replaced.items():
        yield from _uncounted_lines(f"{suite}, replaced", rate)


def _combined_lines(table: ProTable) -> Iterator[str]:
    if not table.combined:
        return
    rows: list[tuple[str, ...]] = [("", "combined", "n", "success, %")]
    for suite, rates in table.combined.items():
        rows += [(suite, name, str(rate.counted), percents_text(rate)) for name, rate in rates.items()]
    yield ""
    yield "Changes made together"
    yield from aligned(rows, 2)
    for suite, rates in table.combined.items():
        for name, rate in rates.items():
            yield from _uncounted_lines(f"{suite}, {name}", rate)
