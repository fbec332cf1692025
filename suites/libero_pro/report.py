"""LIBERO-PRO's Tables 2 to 5 of models: computed from records, for people as tables and for programs as JSON."""

import argparse
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS
from pytest_vla.metrics.language_grounding import GroundingEstimate, GroundingShare
from pytest_vla.metrics.rates import rate_table, reasons_text
from pytest_vla.metrics.robustness import dimension_of
from pytest_vla.metrics.selection import by_model, is_counted, that_count
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.metrics.visual_grounding import GONE, looked_by_change
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
from pytest_vla.reports.loaded import Loaded, path_loader, unfinished_of, unread_lines
from pytest_vla.reports.papers import Check, Note, Paper, PublishedPaper, Rows, printed
from pytest_vla.reports.papers import Row as PaperRow
from pytest_vla.reports.sections import Section
from pytest_vla.suites.libero_pro.choices import BOTH, SECOND
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
"""The dimension of the object's attributes."""

OF_ATTRIBUTES = ("colour", "texture", "size")
"""The kinds in it that are the paper's; mass and friction are not."""

COLUMNS: Mapping[str, tuple[str, str]] = {
    "Obj": (ATTRIBUTES, ""),
    "Pos": (DIMENSION, "swap"),
    "Sem": (DIMENSION, "semantic"),
    "Task": (DIMENSION, "task"),
    "Env": (DIMENSION, "environment"),
}
"""The other columns of the paper, in its order, and the dimension and kind of each; without a kind, all of these."""

REPLACED = "object"
"""The kind of upstream's code, objects of other categories: in no column of the paper's."""

SWEEPS = ("displace_x", "displace_y")
"""The kinds whose levels are a displacement."""

MOVES = (*SWEEPS, "displace_map")
"""The kinds that displace the goal's first object."""

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
        ours = tuple(
            record for record in selected.records if (not record.variation or is_ours(record)) and not record.is_given
        )
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
    """Whether a record's variation is in these tables. Those of a suite's own world are of another benchmark."""
    dimension = dimension_of(record)
    is_attribute = dimension == ATTRIBUTES and _kind(record) in OF_ATTRIBUTES
    return dimension == DIMENSION or (is_attribute and "world" not in record.provenance)


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


def _own_rows(loaded: Loaded, _: argparse.Namespace) -> tuple[Rows, Sequence[Note]]:
    """Return the tables and figures of the records' models, the mean over Tables 2 to 5's columns, and notes."""
    tables: dict[str, list[PaperRow]] = {"2-5": [], "leaderboard": [], "fig6": [], "fig6-map": [], "fig7": []}
    left_out: list[Note] = []
    for each in make_pro(loaded):
        model = each.table.model
        left_out += [Note(text, model) for text in each.left_out]
        listed = [row for row in each.table.suites if row.name in _SUITES]
        known = [rate for row in listed for name in COLUMNS if (rate := row.rates[name]) and rate.counted]
        for row in each.table.suites:
            tables["2-5"].append((row.name, model, *(_share(row.rates[name]) for name in (ORIGINAL, *COLUMNS))))
        if len(known) == len(COLUMNS) * len(_SUITES):
            tables["leaderboard"].append((model, fmean(rate.rate or 0.0 for rate in known)))
    models: dict[str, list[Record]] = {}
    for (model, _suite), some in by_model(loaded.records).items():
        models.setdefault(model, []).extend(that_count(some).records)
    for model, records in models.items():
        tables["fig6"] += displacement_rows(model, records)
        tables["fig6-map"] += map_rows(model, records)
        tables["fig7"] += composed_rows(model, records)
    paths, notes_of_paths = _path_rows(loaded)
    return tables | paths, left_out + notes_of_paths


CHANGES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "similar object": (*((ATTRIBUTES, kind) for kind in OF_ATTRIBUTES), (DIMENSION, REPLACED)),
    "unrelated object": ((DIMENSION, "unrelated"),),
    "object moved": ((DIMENSION, "swap"), *((DIMENSION, kind) for kind in MOVES), ("layout", "displacement")),
    GONE: (("layout", "removed"),),
    "nonsense instruction": (("language", "nonsense"),),
    "no instruction": (("language", "blank"),),
}
"""The changes of Figures 1 and 2, and the dimension and kind of each."""


_PATH_FIGURES = ("fig1", "fig2")


def _change_of(record: Record) -> str | None:
    here = dimension_of(record), _kind(record)
    return next((name for name, which in CHANGES.items() if here in which), None)


def _path_rows(loaded: Loaded) -> tuple[dict[str, list[PaperRow]], list[Note]]:
    """Return the rows of Figures 1 and 2, by change and model, and notes."""
    paths, troubles = path_loader(loaded)
    rows: list[tuple[str, PaperRow, PaperRow]] = []
    left_out: list[Note] = []
    for model, (changes, why) in looked_by_change(loaded.records, paths, _change_of).items():
        left_out += [Note(text, model, _PATH_FIGURES) for text in why]
        for each in changes:
            begun = (each.probe, model, each.pairs)
            apart = _times(100, each.apart), None if each.usual is None else 100 * each.usual
            path = (*begun, *apart, _times(100, _of_count(each.same)), _times(100, _of_count(each.went)))
            rows.append((each.probe, path, (*begun, _of_count(each.right), _of_count(each.blind), each.difference)))
    rows.sort(key=lambda row: list(CHANGES).index(row[0]))
    return (
        {
            "fig1": [path for _, path, _ in rows if path[3] is not None],
            "fig2": [success for _, _, success in rows],
        },
        left_out + [Note(text, tables=_PATH_FIGURES) for text in unread_lines(troubles)],
    )


def _of_count(share: GroundingShare) -> GroundingEstimate | None:
    return GroundingEstimate(share.count / share.of, share.interval) if share.of else None


def _times(factor: float, estimate: GroundingEstimate | None) -> GroundingEstimate | None:
    if estimate is None:
        return None
    ends = None if estimate.interval is None else (factor * estimate.interval[0], factor * estimate.interval[1])
    return GroundingEstimate(factor * estimate.value, ends)


def displacement_rows(model: str, records: Sequence[Record]) -> Iterator[PaperRow]:
    """Yield success by axis, side and distance (Fig. 6), over the tasks that have all distances of the side.

    The sides are ``both`` (tasks with all distances on both), ``either`` (all distances on any), ``+`` and ``-``.
    """
    moved = [(record, place) for record in records if (place := _place(record)) is not None]
    for index, axis in enumerate("xy"):
        on_axis = [(record, place[index]) for record, place in moved if place[index] and not place[1 - index]]
        distances = {abs(tenths) for _, tenths in on_axis}
        for side, signs in (("both", (1, -1)), ("either", ()), ("+", (1,)), ("-", (-1,))):
            wanted = {sign * distance for sign in signs or (1,) for distance in distances}
            some = [(r, t if signs else abs(t)) for r, t in on_axis if not signs or t * signs[0] > 0 or len(signs) > 1]
            had: dict[tuple[str, str], set[int]] = {}
            for record, tenths in some:
                if is_counted(record):
                    had.setdefault((record.suite, record.task_key), set()).add(tenths)
            whole = {task for task, known in had.items() if known == wanted}
            if whole:
                swept = [(record, abs(tenths)) for record, tenths in some]
                yield axis, side, model, len(whole), *_by_distance(records, swept, whole)


def _by_distance(
    records: Sequence[Record], swept: Sequence[tuple[Record, int]], tasks: Container[tuple[str, str]]
) -> Iterator[Cell]:
    benign = [(record, 0) for record in records if not record.variation]
    all_of = [(record, tenths) for record, tenths in (*benign, *swept) if (record.suite, record.task_key) in tasks]
    for distance in range(_FARTHEST + 1):
        yield _share(success_rate("", [record for record, tenths in all_of if tenths == distance], unit_of))


def map_rows(model: str, records: Sequence[Record]) -> Iterator[PaperRow]:
    """Yield success by place on the table, a row for each displacement along y, a column for each along x.

    At each place there are the tasks that have room there; in the middle those that have any place, as they are.
    """
    moved: dict[tuple[int, int], list[Record]] = {}
    for record in records:
        if (place := _place(record)) is not None:
            moved.setdefault(place, []).append(record)
    if not moved:
        return
    tasks = {(record.suite, record.task_key) for some in moved.values() for record in some}
    moved[0, 0] = [record for record in records if not record.variation and (record.suite, record.task_key) in tasks]
    steps = range(-_FARTHEST, _FARTHEST + 1)
    for y in steps:
        cells = [_share(success_rate("", moved.get((x, y), ()), unit_of)) for x in steps]
        yield model, f"{y / 10:+.1f}", *cells


_FARTHEST = 5
"""Tenths of a metre."""


def _place(record: Record) -> tuple[int, int] | None:
    """Return the displacement (x, y) in tenths of a metre, or None of an episode without one of LIBERO-PRO's kinds."""
    found = record.variation.get("parameters", {}).get("displacement")
    if dimension_of(record) != DIMENSION or _kind(record) not in MOVES or not isinstance(found, list):
        return None
    x, y = (round(10 * metres) for metres in found)
    return x, y


def composed_rows(model: str, records: Sequence[Record]) -> Iterator[PaperRow]:
    """Yield success in goal A, goal B, and both (Fig. 7), for each suite over the starts that have all three."""
    found: dict[str, dict[tuple[str, int, int], dict[str, Record]]] = {}
    names = {f"composed_{SECOND}": "B", f"composed_{BOTH}": "both"}
    for record in filter(is_counted, records):
        name = "A" if not record.variation else names.get(_kind(record))
        if name is not None:
            start = record.task_key, record.seed, record.seeds.get("run", 0)
            found.setdefault(record.suite, {}).setdefault(start, {})[name] = record
    for suite, starts in found.items():
        if whole := [each for each in starts.values() if len(each) == 3]:
            rates = (success_rate(name, [each[name] for each in whole], unit_of) for name in ("A", "B", "both"))
            yield suite, model, len(whole), *map(_share, rates)


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
