"""LIBERO-PRO's Tables 2 to 5 of models: for people as tables, for programs as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS
from pytest_vla.metrics.rates import rate_table, reasons_text
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.reports.blocks import Block, Cell, Column, Heading, Sentence, Table, notes, rate_cell, share_cell
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


def pro_blocks(models: Sequence[ModelPro]) -> Iterator[Block]:
    """Yield the section's blocks."""
    intervals = f"{CONFIDENCE:.0%} intervals over {THESE_TASKS}"
    yield Sentence(f"LIBERO-PRO, as its Tables 2 to 5: success, 0 to 1; in brackets {intervals}")
    for found in models:
        table = found.table
        yield Heading(f"{table.model}: LIBERO-PRO", (table.model, "", ""))
        yield from notes(found.left_out)
        for why, number in found.unavailable.items():
            yield Sentence(f"unavailable to {counted(number, 'episode')}: {why}")
        yield from _missing(table)
        yield _rates("Success by suite", "suite", table.suites, "suites")
        by_task = [(row.name, row.rates[name]) for row in table.suites for name in (ORIGINAL, *COLUMNS)]
        if any(rate is not None and rate.tasks_interval is not None for _, rate in by_task):
            yield _rates(f"The same over {TASKS_LIKE_THESE}", "suite", table.suites, "suites-tasks", is_over_tasks=True)
        for suite, tasks in table.tasks.items():
            yield _rates(f"{suite}, by task", "task", tasks, f"tasks-{suite}", is_brief=True)
        yield from _sweeps(table)
        yield from _further(table)


def _rates(
    caption: str, head: str, rows: Sequence[ProRow], name: str, *, is_brief: bool = False, is_over_tasks: bool = False
) -> Table:
    """Return a table as the paper lays it out: a row for each suite or task, a column for each change."""

    def cell(rate: SuccessRate | None) -> Cell:
        return rate.tasks_interval if is_over_tasks and rate is not None else share_cell(rate)

    columns = (ORIGINAL, *COLUMNS)
    return Table(
        caption,
        (Column(head), *(Column(column, ".2f", is_rate=True, is_brief=is_brief) for column in columns)),
        tuple((row.name, *(cell(row.rates[column]) for column in columns)) for row in rows),
        name,
    )


def _missing(table: ProTable) -> Iterator[Sentence]:
    """Yield errors, invalid episodes, and columns that do not have all of a suite's tasks."""
    for row in table.suites:
        tasks = table.tasks[row.name]
        for column in (ORIGINAL, *COLUMNS):
            rate = row.rates[column]
            if rate is None:
                continue
            yield from _uncounted(f"{row.name}, {column}", rate)
            if (number := table.tasks_in(row.name, column)) < len(tasks):
                yield Sentence(f"{row.name}, {column}: {number} of {counted(len(tasks), 'task')}")
    if any(rate is None for row in table.suites for rate in row.rates.values()):
        yield Sentence("-: nothing was run; `pytest-vla coverage` says what cannot be")


def _uncounted(name: str, rate: SuccessRate) -> Iterator[Sentence]:
    if reasons := reasons_text(rate):
        yield Sentence(f"in no rate of {name}: {reasons}")


def _sweeps(table: ProTable) -> Iterator[Block]:
    if not table.sweeps:
        return
    levels = sorted({level for rates in table.sweeps.values() for level in rates})
    columns = (Column(f"{level / 10:.1f} m", ".1f", 100, is_rate=True) for level in levels)
    yield Table(
        "Objects displaced along an axis, success, %, over tasks with all levels; 0.0 m: as it is",
        (*map(Column, ("suite", "axis")), *columns),
        tuple(
            (suite, kind, *(share_cell(rates.get(level)) for level in levels))
            for (suite, kind), rates in table.sweeps.items()
        ),
        "sweeps",
        names=2,
    )
    for (suite, kind), rates in table.sweeps.items():
        for level, rate in rates.items():
            yield from _uncounted(f"{suite}, {kind} {level / 10:.1f} m", rate)


def _further(table: ProTable) -> Iterator[Block]:
    """Yield success with replaced objects, and under changes that were made together."""
    columns = (Column("n"), Column("success, %", ".1f"))
    if table.replaced:
        yield Table(
            "Objects replaced by others of another category, as upstream's code does; Obj keeps the object",
            (Column("suite"), *columns),
            tuple((suite, rate.counted, rate_cell(rate)) for suite, rate in table.replaced.items()),
            "replaced",
        )
        for suite, rate in table.replaced.items():
            yield from _uncounted(f"{suite}, replaced", rate)
    if table.combined:
        some = [(suite, name, rate) for suite, rates in table.combined.items() for name, rate in rates.items()]
        yield Table(
            "Changes made together",
            (*map(Column, ("suite", "combined")), *columns),
            tuple((suite, name, rate.counted, rate_cell(rate)) for suite, name, rate in some),
            "combined",
            names=2,
        )
        for suite, name, rate in some:
            yield from _uncounted(f"{suite}, {name}", rate)
