"""LIBERO-PRO's Tables 2 to 5 of models: computed from records, for people as tables and for programs as JSON."""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS
from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.rates import rate_table, reasons_text
from pytest_vla.metrics.robustness import dimension_of
from pytest_vla.metrics.selection import by_model, is_counted, that_count
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.plan.case import UPSTREAM, last_part
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
from pytest_vla.reports.papers import Check, Paper, PublishedPaper, Rows, printed
from pytest_vla.reports.papers import Row as PaperRow
from pytest_vla.reports.sections import Section
from pytest_vla.util.text import counted

# LIBERO-PRO's Tables 2 to 5 from records: success by suite under each kind of change, with intervals.
#
# Errors and invalid episodes are in no rate. How far success falls from the original's is the report's of variations
# (`pytest_vla.metrics.robustness`), of whose kinds these are.

DIMENSION = "pro"
"""The dimension of LIBERO-PRO's variations."""

ORIGINAL = "Ori"
"""The column of the tasks as they are."""

ATTRIBUTES = "object"
"""The dimension of the object's colour, texture and size."""

COLUMNS: Mapping[str, tuple[str, str]] = {
    "Obj": (ATTRIBUTES, ""),
    "Pos": (DIMENSION, "swap"),
    "Sem": (DIMENSION, "semantic"),
    "Task": (DIMENSION, "task"),
    "Env": (DIMENSION, "environment"),
}
"""The other columns of the paper, in its order, and the dimension and kind of each; without a kind, all kinds."""

REPLACED = "object"
"""The kind of upstream's code, objects of other categories: in no column of the paper's."""

SWEEPS = ("displace_x", "displace_y")
"""The kinds whose levels are a displacement."""

COMBINED = "combined"
"""The kind whose label ends in what is combined."""

Key = TypeVar("Key", int, str)


@dataclass(frozen=True)
class ProRow:
    """A suite, or a task of one: success by column; None where no such episode was run."""

    name: str
    rates: Mapping[str, SuccessRate | None]


@dataclass(frozen=True)
class ProTable:
    """One model.

    Attributes:
        model: the policy's name.
        suites: a row a suite, in the order in which they come.
        tasks: of each suite a row a task, by name.
        sweeps: of each suite and kind of displacement, success by level; level 0 is the task as it is. Over the tasks
            that have all levels which were run, so that levels differ in nothing else.
        replaced: of each suite, success with objects of other categories.
        combined: of each suite, success by what was combined, such as ``swap-object``.
        left_out: what was there and does not count, and why.
    """

    model: str
    suites: tuple[ProRow, ...]
    tasks: Mapping[str, tuple[ProRow, ...]]
    sweeps: Mapping[tuple[str, str], Mapping[int, SuccessRate]]
    replaced: Mapping[str, SuccessRate]
    combined: Mapping[str, Mapping[str, SuccessRate]]
    left_out: tuple[str, ...]

    def tasks_in(self, suite: str, column: str) -> int:
        """Count a suite's tasks in a column."""
        return sum(task.rates[column] is not None for task in self.tasks[suite])


@dataclass(frozen=True)
class ModelPro:
    """A model's table.

    Attributes:
        table: its numbers.
        left_out: what is not in them, and why.
        unavailable: what could not be drawn where episodes were varied, with the number of such episodes.
    """

    table: ProTable
    left_out: tuple[str, ...]
    unavailable: Mapping[str, int]


def pro_tables(records: Iterable[Record]) -> tuple[ProTable, ...]:
    """Return the table of each model with episodes under LIBERO-PRO's variations, in order of occurrence.

    Args:
        records: from any runs, in the order of their ends; `pytest_vla.metrics.selection.that_count` selects.
    """
    models: dict[str, list[tuple[str, tuple[Record, ...], tuple[str, ...]]]] = {}
    for (model, suite), some in by_model(records).items():
        selected = that_count(some)
        ours = tuple(record for record in selected.records if not record.variation or is_ours(record))
        if any(record.variation for record in ours):
            models.setdefault(model, []).append((suite, ours, selected.left_out))
    return tuple(_table(model, suites) for model, suites in models.items())


def undrawn_in(records: Iterable[Record]) -> Counter[str]:
    """Count episodes for which a variation could not be drawn, by reason."""
    found: Counter[str] = Counter()
    for record in records:
        parameters = record.variation.get("parameters", {})
        named = [parameters.get(name) for name in ("unavailable", "left_out")]
        found.update({str(each) for names in named if isinstance(names, list) for each in names})
    return found


def _table(model: str, suites: Sequence[tuple[str, tuple[Record, ...], tuple[str, ...]]]) -> ProTable:
    tasks, sweeps, replaced, combined = {}, {}, {}, {}
    unswept: list[str] = []
    for suite, records, _ in suites:
        names = sorted({record.task_key for record in records})
        tasks[suite] = tuple(_row(name, [record for record in records if record.task_key == name]) for name in names)
        for kind in SWEEPS:
            of_kind = _of(records, DIMENSION, kind)
            if of_kind:
                sweeps[suite, kind], lacking = _sweep(of_kind, records)
                if lacking:
                    unswept.append(
                        f"{suite}, {kind}: {counted(lacking, 'task')} without an episode of every level that was run: "
                        "in no column"
                    )
        if others := _of(records, DIMENSION, REPLACED):
            replaced[suite] = success_rate(REPLACED, others, unit_of)
        if together := _of(records, DIMENSION, COMBINED):
            combined[suite] = _rates(together, lambda record: last_part(str(record.variation["label"])))
    rows = tuple(_row(suite, records) for suite, records, _ in suites)
    left_out = tuple(f"{suite}: {why}" for suite, _, reasons in suites for why in reasons)
    return ProTable(model, rows, tasks, sweeps, replaced, combined, (*left_out, *unswept))


def _sweep(of_kind: Sequence[Record], records: Sequence[Record]) -> tuple[dict[int, SuccessRate], int]:
    """Success by level over the tasks that have all levels, and how many tasks have not."""

    def level_of(record: Record) -> int:
        return int(record.variation.get("level") or 0)

    levels = {level_of(record) for record in of_kind}
    by_task: dict[str, set[int]] = {}
    for record in filter(is_counted, of_kind):
        by_task.setdefault(record.task_key, set()).add(level_of(record))
    whole = {task for task, known in by_task.items() if known == levels}
    benign = [record for record in records if not record.variation and record.task_key in whole]
    swept = [record for record in of_kind if record.task_key in whole]
    return _rates([*benign, *swept], level_of), len({record.task_key for record in of_kind} - whole)


def _row(name: str, records: Sequence[Record]) -> ProRow:
    found = {ORIGINAL: [record for record in records if not record.variation]}
    found |= {column: _of(records, *which) for column, which in COLUMNS.items()}
    # A model has one protocol's: of two, the default's.
    found["Env"] = found["Env"] or _of(records, DIMENSION, f"{COLUMNS['Env'][1]}_{UPSTREAM}")
    return ProRow(
        name, {column: success_rate(column, some, unit_of) if some else None for column, some in found.items()}
    )


def _of(records: Sequence[Record], dimension: str, kind: str = "") -> list[Record]:
    """Return the records in a dimension and, if named, of a kind."""
    return [record for record in records if dimension_of(record) == dimension and kind in ("", _kind(record))]


def _rates(records: Sequence[Record], key: Callable[[Record], Key]) -> dict[Key, SuccessRate]:
    keys = sorted({key(record) for record in records})
    return {each: success_rate(str(each), [r for r in records if key(r) == each], unit_of) for each in keys}


def is_ours(record: Record) -> bool:
    """Whether a record's variation is in these tables."""
    return dimension_of(record) in (DIMENSION, ATTRIBUTES)


def _kind(record: Record) -> str:
    """Return the kind of a record's variation, or empty without a variation."""
    return str(record.variation.get("kind")) if record.variation else ""


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
        yield _report_rates("Success by suite", "suite", table.suites, "suites")
        by_task = [(row.name, row.rates[name]) for row in table.suites for name in (ORIGINAL, *COLUMNS)]
        if any(rate is not None and rate.tasks_interval is not None for _, rate in by_task):
            yield _report_rates(
                f"The same over {TASKS_LIKE_THESE}", "suite", table.suites, "suites-tasks", is_over_tasks=True
            )
        for suite, tasks in table.tasks.items():
            yield _report_rates(f"{suite}, by task", "task", tasks, f"tasks-{suite}", is_brief=True)
        yield from _sweeps(table)
        yield from _further(table)


def _report_rates(
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
    """Compute LIBERO-PRO's tables for each model with its variations; see `pytest_vla.suites.libero_pro.report`.

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


# The paper's tables of one's own models, and its printed numbers recomputed.


def _own_rows(loaded: Loaded, _: argparse.Namespace) -> tuple[Rows, Sequence[str]]:
    """Return Tables 2 to 5 of the records' models, the mean over their columns, and notes."""
    tables: dict[str, list[PaperRow]] = {"2-5": [], "leaderboard": []}
    left_out: list[str] = []
    for each in make_pro(loaded):
        model = each.table.model
        left_out += [f"{model}: {text}" for text in each.left_out]
        known = [rate for row in each.table.suites for name in COLUMNS if (rate := row.rates[name]) and rate.counted]
        for row in each.table.suites:
            tables["2-5"].append((row.name, model, *(_share(row.rates[name]) for name in (ORIGINAL, *COLUMNS))))
        if len(known) == len(COLUMNS) * len(_SUITES):
            tables["leaderboard"].append((model, fmean(rate.rate or 0.0 for rate in known)))
    return tables, left_out


_SUITES = ("libero_goal", "libero_spatial", "libero_10", "libero_object")


def _share(rate: SuccessRate | None) -> Cell:
    return None if rate is None or rate.rate is None else GroundingEstimate(rate.rate, rate.interval)


def _means(published: PublishedPaper, _data: Path | None) -> Iterator[Check]:
    """Recompute the leaderboard's totals, the means of its columns; all are printed to a hundredth."""
    columns: dict[str, list[float]] = {}
    for _, line in published.tables["2-5"].numbers():
        some = [cell for name in COLUMNS if isinstance(cell := line[name], float)]
        columns.setdefault(str(line["model"]), []).extend(some)
    for model, line in published.tables["leaderboard"].numbers():
        yield Check(f"{model}: Total", printed(line, "Total"), fmean(columns[model]), 0.01)


PAPER = Paper(Path(__file__).with_name("published.toml"), _own_rows, {"leaderboard": _means})
