"""LIBERO-PRO's Tables 2 to 5 of models: for people as tables, for programs as JSON."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS
from pytest_vla.metrics.rates import rate_table, reasons_text
from pytest_vla.metrics.selection import by_model, that_count
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.records.record import Record
from pytest_vla.reports.blocks import Block, Cell, Column, Heading, Sentence, Table, notes, rate_cell, share_cell
from pytest_vla.reports.json_schema import (
    COUNT,
    NUMBER,
    RATE,
    REASONS,
    TEXT,
    Keys,
    SectionSchema,
    by_name,
    listed,
    maybe,
)
from pytest_vla.reports.json_schema import (
    row as json_row,
)
from pytest_vla.reports.loaded import Loaded, unfinished_of
from pytest_vla.reports.sections import Section
from pytest_vla.suites.libero_pro.metrics import (
    COLUMNS,
    ORIGINAL,
    ModelPro,
    ProRow,
    ProTable,
    is_ours,
    pro_tables,
    undrawn_in,
)
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
        yield Sentence("-: nothing was run; `pytest-vla coverage` lists tasks that cannot be run")


def _uncounted(name: str, rate: SuccessRate) -> Iterator[Sentence]:
    if reasons := reasons_text(rate):
        yield Sentence(f"in no rate for {name}: {reasons}")


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


# The JSON schema of LIBERO-PRO's tables, as made by `pytest_vla.suites.libero_pro.report.pro_table`.


def schema() -> SectionSchema:
    """Return the schema of the key ``libero_pro``."""
    rate: Keys = {**RATE, "errors": REASONS, "invalid": REASONS}
    suite: Keys = {
        "suite": TEXT,
        "columns": by_name(maybe(json_row({**rate, "tasks": COUNT}))),
        "tasks": listed(json_row({"name": TEXT, "columns": by_name(maybe(json_row(rate)))})),
        "sweeps": listed(json_row({"kind": TEXT, "levels": listed(json_row({"level": NUMBER, **rate}))})),
        "replaced": maybe(json_row(rate)),
        "combined": listed(json_row({"name": TEXT, **rate})),
    }
    model = {"model": TEXT, "suites": listed(json_row(suite)), "left_out": listed(TEXT), "unavailable": REASONS}
    return SectionSchema({"libero_pro": listed(json_row(model))}, {})


# LIBERO-PRO's part of a report, made of records.


def section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section, or None if no record is under one of LIBERO-PRO's variations."""
    found = make_pro(loaded)
    if not found:
        return None
    return Section(lambda: pro_blocks(found), {"libero_pro": [pro_table(model) for model in found]}, {})


def make_pro(loaded: Loaded) -> tuple[ModelPro, ...]:
    """Compute LIBERO-PRO's tables for each model with its variations; see `pytest_vla.suites.libero_pro.metrics`.

    Args:
        loaded: the records.
    """
    found = []
    models: dict[str, list[Record]] = {}
    for (model, _), some in by_model(loaded.records).items():
        models.setdefault(model, []).extend(that_count(some).records)
    for table in pro_tables(loaded.records):
        own = [record for record in models[table.model] if is_ours(record)]
        unfinished = unfinished_of(own, loaded)
        found.append(ModelPro(table, (*table.left_out, *unfinished), undrawn_in(own)))
    return tuple(found)
