"""LIBERO-Plus's Table 10 of models: computed from records, for people as tables and for programs as JSON."""

import argparse
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from operator import mul
from pathlib import Path
from statistics import fmean
from types import MappingProxyType
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS, Interval, Unit, rate_intervals
from pytest_vla.metrics.composition import DimensionPair, pooled_compositions
from pytest_vla.metrics.item_response import FEWEST_FOR_DISCRIMINATION, FEWEST_MODELS, item_response, own_level
from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.rates import percent, percents, rate_table, reasons_text
from pytest_vla.metrics.robustness import Varied, varied_models
from pytest_vla.metrics.selection import by_model, is_counted, that_count
from pytest_vla.metrics.statistics import chi_square_p
from pytest_vla.metrics.success import SuccessRate, success_rate
from pytest_vla.plan.case import UPSTREAM
from pytest_vla.plan.manifests import load_suite
from pytest_vla.records import counting
from pytest_vla.records.record import Record
from pytest_vla.reports.blocks import Block, Cell, Column, Heading, MarkedNumber, Sentence, Table, notes, rate_cell
from pytest_vla.reports.json_schema import (
    COUNT,
    INTERVAL,
    PERCENT,
    RATE,
    REASONS,
    TEXT,
    SectionSchema,
    by_name,
    listed,
    maybe,
    one_of,
    row,
)
from pytest_vla.reports.loaded import Loaded, unfinished_of
from pytest_vla.reports.papers import Check, Note, Paper, PublishedPaper, Row, Rows, printed
from pytest_vla.reports.robustness import NOT_A_DOSE
from pytest_vla.reports.sections import Section
from pytest_vla.suites.libero_plus.names import (
    CATEGORIES,
    SUB_DIMENSIONS,
    SUITES,
    PlusTask,
    light_kind,
    parse_name,
    rewrite_kind,
)
from pytest_vla.suites.libero_plus.variations import unavailable

# LIBERO-Plus's tables from records: success by dimension, sub-dimension and difficulty, as its Table 10 has it.
#
# Its rows are over episodes, not means of suites or tasks: a suite with more tasks of a dimension counts for more.
# Where only a part of the list was run, a mean over what was run is no total of the list: what stands for one is
# weighted, each dimension, suite and sub-dimension by the number of tasks that the list has of it.
#
# Intervals are over these tasks: the list's entries, each with the init state that the protocol pins. Those over
# tasks like these take each of LIBERO's tasks, of which entries are variations, as a cluster.

LEVELS = (1, 2, 3, 4, 5, None)
"""Difficulties; None: the list does not say."""

TASKS = 10
"""Of LIBERO, in each suite."""

# By suite as in `SUITES`, of each sub-dimension in the order of `SUB_DIMENSIONS`.
_SUB_LISTED: Mapping[str, tuple[tuple[int, ...], ...]] = {
    "camera": ((76, 82, 78, 77), (108, 105, 113, 117), (130, 132, 146, 141), (62, 77, 71, 84)),
    "robot": ((26, 34, 51, 45), (71, 77, 86, 73), (77, 92, 94, 87), (87, 98, 83, 98), (89, 97, 95, 90)),
    "language": ((390, 354, 410, 383),),
    "light": ((292, 297, 279, 274),),
    "background": ((118, 101, 123, 121), (140, 147, 158, 168)),
    "noise": ((76, 90, 80, 90), (82, 88, 82, 89), (56, 77, 67, 88), (52, 71, 60, 89), (85, 96, 90, 93)),
    "layout": ((208, 208, 240, 173), (177, 195, 185, 139)),
}
_LISTED: Mapping[str, tuple[int, ...]] = {
    dimension: tuple(map(sum, zip(*counts, strict=True))) for dimension, counts in _SUB_LISTED.items()
}

DIMENSIONS = tuple(CATEGORIES.values())
"""In the order of its leaderboard."""

TOTAL = "total"


@dataclass(frozen=True)
class Weighted:
    """A rate as if the whole list had been run, 0..1.

    Attributes:
        rate: of what was run, each dimension, suite and sub-dimension weighed by what the list has of it.
        interval: over these tasks.
        tasks_interval: over tasks like these; None of too few.
    """

    rate: float
    interval: Interval | None
    tasks_interval: Interval | None


@dataclass(frozen=True)
class PlusRates:
    """One model under one protocol.

    Attributes:
        model: the policy's name.
        protocol: of `pytest_vla.suites.libero_plus.variations.PROTOCOLS`.
        dimensions: the leaderboard's seven columns.
        total: over all episodes: no total of the list where only a part of it was run.
        levels: by difficulty.
        cells: by dimension and difficulty.
        suites: by dimension and suite of LIBERO.
        sub_dimensions: by what names tell apart within the dimensions.
        of_list: by dimension, and `TOTAL`, as if the whole list had been run; None where a suite and sub-dimension of
            it was not.
        missing: by dimension how many of its suites and sub-dimensions were not run.
        left_out: what was there and does not count, and why.
    """

    model: str
    protocol: str
    dimensions: Mapping[str, SuccessRate]
    total: SuccessRate
    levels: Mapping[int | None, SuccessRate]
    cells: Mapping[tuple[str, int | None], SuccessRate]
    suites: Mapping[tuple[str, str], SuccessRate]
    sub_dimensions: Mapping[str, SuccessRate]
    of_list: Mapping[str, Weighted | None]
    missing: Mapping[str, int]
    left_out: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether all of the list was run, so that the mean over it is its total."""
        return self.total.counted == sum(entry_counts().values())


@dataclass(frozen=True)
class ModelPlus:
    """The results of a model under one protocol.

    Attributes:
        rates: its numbers.
        entries: number of different entries of the list that were run.
        unavailable: number of the list's entries in the suites run that cannot be made here, by requirement; None if
            the list is not available.
        left_out: notes on records that are not in the numbers.
    """

    rates: PlusRates
    entries: int
    unavailable: Mapping[str, int] | None
    left_out: tuple[str, ...]


def task_counts() -> Mapping[tuple[str, str], int]:
    """Return how many tasks the list has, by dimension and suite of LIBERO."""
    return MappingProxyType(
        {
            (dimension, suite): count
            for dimension, counts in _LISTED.items()
            for suite, count in zip(SUITES, counts, strict=True)
        }
    )


def dimension_counts() -> Mapping[str, int]:
    """Return the list's number of tasks, by dimension."""
    listed = task_counts()
    return {name: sum(listed[name, suite] for suite in SUITES) for name in DIMENSIONS}


def entry_counts() -> Mapping[tuple[str, str, str], int]:
    """Return the list's number of tasks, by dimension, suite of LIBERO and sub-dimension."""
    return MappingProxyType(
        {
            (dimension, suite, kind): count
            for dimension, kinds in SUB_DIMENSIONS.items()
            for kind, counts in zip(kinds, _SUB_LISTED[dimension], strict=True)
            for suite, count in zip(SUITES, counts, strict=True)
        }
    )


def plus_rates(records: Iterable[Record]) -> tuple[PlusRates, ...]:
    """Compute the tables for each model and protocol, in order of occurrence.

    Args:
        records: from any runs, in the order of their ends; benign records, given cases and those of other suites are
            skipped. `pytest_vla.metrics.selection.that_count` selects, under each protocol.
    """
    return tuple(_rates(model, protocol, found) for (model, protocol), found in by_protocol(records).items())


def by_protocol(records: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    """Group the records of entries in LIBERO-Plus's list by model and protocol, in order of occurrence."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for (model, _), some in by_model(records).items():
        for record in some:
            if (protocol := protocol_of(record)) is not None and not record.is_given:
                groups.setdefault((model, protocol), []).append(record)
    return groups


def protocol_of(record: Record) -> str | None:
    """Return the protocol under which an entry of LIBERO-Plus's list was run, or None for any other record."""
    return (counting.protocol_of(record) or None) if record.suite.startswith("libero_plus_") else None


def entry_name(record: Record) -> str:
    """Return the name of a record's entry in the list; empty if the record does not name one."""
    return str(record.variation.get("parameters", {}).get("name", ""))


def _selected(records: Sequence[Record]) -> tuple[list[tuple[Record, PlusTask]], list[str]]:
    """Return a model's records that count, each with its entry, and notes on the others."""
    counted: list[tuple[Record, PlusTask]] = []
    left_out: list[str] = []
    for (_, suite), found in by_model(records).items():
        selected = that_count(found)
        counted += [(record, parse_name(entry_name(record))) for record in selected.records]
        left_out += [f"{suite}: {each}" for each in selected.left_out]
    return counted, left_out


def _rates(model: str, protocol: str, records: Sequence[Record]) -> PlusRates:
    counted, left_out = _selected(records)

    def rate(
        name: str, dimension: str = "", suite: str = "", kind: str = "", levels: Sequence[int | None] = LEVELS
    ) -> SuccessRate:
        chosen = [
            record
            for record, task in counted
            if dimension in ("", task.dimension)
            and suite in ("", task.suite)
            and kind in ("", task.sub_dimension)
            and record.variation.get("level") in levels
        ]
        return success_rate(name, chosen, _entry_of)

    pairs = [(name, kind) for name, kinds in SUB_DIMENSIONS.items() for kind in kinds]
    cells = {
        (name, level): rate(f"{name} {_level(level)}", name, levels=[level]) for name in DIMENSIONS for level in LEVELS
    }
    suites = {(name, suite): rate(f"{name} {suite}", name, suite) for name in DIMENSIONS for suite in SUITES}
    of_list, missing = _of_list(counted)
    if any(of_list.values()):
        left_out += _of_part(counted)
    return PlusRates(
        model,
        protocol,
        {name: rate(name, name) for name in DIMENSIONS},
        rate(TOTAL),
        {level: rate(_level(level), levels=[level]) for level in LEVELS},
        {key: each for key, each in cells.items() if each.episodes},
        {key: each for key, each in suites.items() if each.episodes},
        {kind: each for name, kind in pairs if (each := rate(kind, name, kind=kind)).episodes},
        of_list,
        missing,
        tuple(left_out),
    )


def _of_part(counted: Sequence[tuple[Record, PlusTask]]) -> Iterator[str]:
    """Yield notes if only some tasks or difficulties were run, because each cell of the list has some of all."""
    tasks = {(task.suite, record.task_key) for record, task in counted}
    suites = {suite for suite, _ in tasks}
    levels = {record.variation.get("level") for record, _ in counted} - {None}
    told = []
    if len(tasks) < TASKS * len(suites):
        told.append(f"{len(tasks)} of {TASKS * len(suites)} tasks")
    if lacking := sorted(set(filter(None, LEVELS)) - levels):
        told.append(f"no difficulty {', '.join(map(str, lacking))}")
    if told:
        yield f"only {' and '.join(told)} were run; 'whole list' assumes the same rates for the rest"


def _of_list(counted: Sequence[tuple[Record, PlusTask]]) -> tuple[dict[str, Weighted | None], dict[str, int]]:
    """Return the weighted rate for each dimension and for all, and the number of missing cells by dimension."""
    measured = [(record, (task.dimension, task.suite, task.sub_dimension)) for record, task in counted]
    measured = [(record, cell) for record, cell in measured if is_counted(record)]
    listed, run = entry_counts(), Counter(cell for _, cell in measured)
    found: dict[str, Weighted | None] = dict.fromkeys((*DIMENSIONS, TOTAL))
    missing = {name: sum(cell[0] == name and not run[cell] for cell in listed) for name in DIMENSIONS}
    for name in (*DIMENSIONS, TOTAL):
        if any(lacking for each, lacking in missing.items() if name in (each, TOTAL)):
            continue
        some = [(record, cell) for record, cell in measured if name in (cell[0], TOTAL)]
        weights = [listed[cell] / run[cell] for _, cell in some]
        successes = [float(record.outcome == "success") for record, _ in some]
        rate = fsum(map(mul, weights, successes)) / fsum(weights)
        found[name] = Weighted(rate, *rate_intervals(successes, [_entry_of(record) for record, _ in some], weights))
    return found, missing


def _entry_of(record: Record) -> Unit:
    """Return an episode's task of LIBERO, and its entry of the list."""
    return f"{record.suite}/{record.task_key}", record.case


def _level(level: int | None) -> str:
    return "no level" if level is None else f"L{level}"


_HEAD = ("", *(name.capitalize() for name in DIMENSIONS), "Total")


def plus_table(found: ModelPlus) -> dict[str, Any]:
    """Return a model of ``libero_plus`` for JSON: percentages 0..100; a rate is ``n``, ``sr`` and ``interval``.

    - ``model``, ``protocol`` (``paper`` or ``upstream``), ``left_out``.
    - ``dimensions``: by name, in the leaderboard's order: a rate over the episodes run, ``weighted`` (estimate for the
      whole list: by dimension, suite and sub-dimension, each weighted by its number of tasks in the list; null if one
      of them was not run), ``weighted_interval``, ``weighted_tasks_interval``, ``missing`` (number not run),
      ``of_list`` (tasks in the list), ``errors`` and ``invalid`` by reason.
    - ``total``: the same keys; ``sr`` and its intervals are null if only a part of the list was run, because the mean
      of a part is no total.
    - ``levels``: ``level`` (null if unknown), a rate. ``cells``: ``dimension``, ``level``, a rate.
      ``suites``: ``dimension``, ``suite`` of LIBERO, ``of_list``, a rate. ``sub_dimensions``: ``dimension``, ``name``,
      a rate. The last three contain only episodes run.
    - ``entries``: number of entries run, ``of_list``: number in the list, ``unavailable``: number of entries in the
      suites run that cannot be made here, by requirement; null if the list is not available.
    """
    rates, listed, totals = found.rates, task_counts(), dimension_counts()
    return {
        "model": rates.model,
        "protocol": rates.protocol,
        "dimensions": {
            name: _column_table(rate, rates.of_list[name], totals[name], rates.missing[name])
            for name, rate in rates.dimensions.items()
        },
        "total": _column_table(rates.total, rates.of_list[TOTAL], sum(totals.values()), sum(rates.missing.values()))
        | ({} if rates.is_whole else {"sr": None, "interval": None, "tasks_interval": None}),
        "levels": [{"level": level, **rate_table(rate)} for level, rate in rates.levels.items()],
        "cells": [
            {"dimension": name, "level": level, **rate_table(rate)} for (name, level), rate in rates.cells.items()
        ],
        "suites": [
            {"dimension": name, "suite": suite, "of_list": listed[name, suite], **rate_table(rate)}
            for (name, suite), rate in rates.suites.items()
        ],
        "sub_dimensions": [
            {"dimension": name, "name": kind, **rate_table(rates.sub_dimensions[kind])}
            for name, kind in _sub_dimensions(rates)
        ],
        "entries": found.entries,
        "of_list": sum(listed.values()),
        "unavailable": None if found.unavailable is None else dict(found.unavailable),
        "left_out": list(found.left_out),
    }


def _column_table(rate: SuccessRate, weighted: Weighted | None, of_list: int, missing: int) -> dict[str, Any]:
    return {
        **rate_table(rate),
        "weighted": None if weighted is None else percent(weighted.rate),
        "weighted_interval": None if weighted is None else percents(weighted.interval),
        "weighted_tasks_interval": None if weighted is None else percents(weighted.tasks_interval),
        "missing": missing,
        "of_list": of_list,
        "errors": dict(rate.errors),
        "invalid": dict(rate.invalid),
    }


def _sub_dimensions(rates: PlusRates) -> Iterator[tuple[str, str]]:
    """Yield the sub-dimensions that were run, each with its dimension."""
    for name, kinds in SUB_DIMENSIONS.items():
        yield from ((name, kind) for kind in kinds if kind in rates.sub_dimensions)


def plus_blocks(models: Sequence[ModelPlus]) -> Iterator[Block]:
    """Yield the section's blocks."""
    intervals = f"{CONFIDENCE:.0%} intervals over {THESE_TASKS}"
    yield Sentence(f"LIBERO-Plus, as its Table 10: success, %; in brackets {intervals}")
    for found in models:
        rates, listed = found.rates, sum(task_counts().values())
        yield Heading(f"{rates.model}: LIBERO-Plus, protocol {rates.protocol}", (rates.model, "", rates.protocol))
        yield Sentence(f"{found.entries:,} of the {listed:,} entries in its list were run")
        yield from _unavailable(found.unavailable)
        yield from notes(found.left_out)
        for name, rate in {**rates.dimensions, "total": rates.total}.items():
            if name != "total" and (reasons := reasons_text(rate)):
                yield Sentence(f"in no rate for {name}: {reasons}")
        yield from _leaderboard(found)
        yield _short_table(
            "By difficulty, % (episodes); a mean over dimensions is no total",
            ("level", *_HEAD[1:-1], "all run"),
            {
                "no level" if level is None else f"L{level}": [
                    *(rates.cells.get((name, level)) for name in DIMENSIONS),
                    rates.levels[level],
                ]
                for level in LEVELS
            },
            "levels",
        )
        yield Sentence(NOT_A_DOSE)
        by_suite = {suite: [rates.suites.get((name, suite)) for name in DIMENSIONS] for suite in SUITES}
        yield _short_table("By suite, % (episodes)", ("suite", *_HEAD[1:-1]), by_suite, "suites")
        yield Table(
            "By sub-dimension",
            (*map(Column, ("dimension", "sub-dimension", "n")), Column("success, %", ".1f")),
            tuple(
                (name, kind, rates.sub_dimensions[kind].counted, rate_cell(rates.sub_dimensions[kind]))
                for name, kind in _sub_dimensions(rates)
            ),
            "sub-dimensions",
            names=2,
        )


def _unavailable(unavailable: Mapping[str, int] | None) -> Iterator[Sentence]:
    if unavailable is None:
        yield Sentence(
            "the number of unavailable entries is unknown: LIBERO-Plus's list was not found (PYTEST_VLA_DATA)"
        )
        return
    for needs, number in unavailable.items():
        yield Sentence(f"unavailable in the suites that were run: {number:,}: {needs}")


def _leaderboard(found: ModelPlus) -> Iterator[Block]:
    rates = found.rates
    listed = [rates.of_list[name] for name in (*DIMENSIONS, TOTAL)]
    run: list[SuccessRate | None] = [*rates.dimensions.values(), rates.total if rates.is_whole else None]
    rows: list[tuple[Cell, ...]] = []
    if any(listed):
        whole = [None if e is None else GroundingEstimate(100 * e.rate, percents(e.interval)) for e in listed]
        rows.append(("whole list", *whole))
        if any(each is not None and each.tasks_interval is not None for each in listed):
            rows.append((TASKS_LIKE_THESE, *(None if e is None else percents(e.tasks_interval) for e in listed)))
    rows.append(("episodes run", *(None if rate is None else rate_cell(rate) for rate in run)))
    rows.append(("number", *(str(rate.counted) for rate in (*rates.dimensions.values(), rates.total))))
    columns = (Column("of"), *(Column(name, ".1f") for name in _HEAD[1:]))
    yield Table("The leaderboard, %", columns, tuple(rows), "leaderboard")
    yield Sentence(
        "whole list: by dimension, suite and sub-dimension, each weighed by the tasks that the list has of it"
    )
    if lacking := sum(rates.missing.values()):
        yield Sentence(
            f"no total: of the list's {len(entry_counts())} suites and sub-dimensions {lacking} were not run, and a "
            "mean over a part of it is none"
        )


def _short_table(
    caption: str, head: Sequence[str], rows: Mapping[str, Sequence[SuccessRate | None]], name: str
) -> Table:
    """Return a table of rates in percent, each with its number of episodes."""
    columns = (Column(head[0]), *(Column(title, ".0f") for title in head[1:]))
    cells = tuple((title, *map(_short, some)) for title, some in rows.items())
    return Table(caption, columns, cells, name)


def _short(rate: SuccessRate | None) -> Cell:
    return None if rate is None or rate.rate is None else MarkedNumber(100 * rate.rate, f" ({rate.counted})")


# The JSON schema of LIBERO-Plus's tables, as made by `pytest_vla.suites.libero_plus.report.plus_table`.


def schema() -> SectionSchema:
    """Return the schema of the key ``libero_plus``."""
    weighted = {"weighted": maybe(PERCENT), "weighted_interval": INTERVAL, "weighted_tasks_interval": INTERVAL}
    column = row({**RATE, **weighted, "missing": COUNT, "of_list": COUNT, "errors": REASONS, "invalid": REASONS})
    level = maybe(COUNT)
    model = {
        "model": TEXT,
        "protocol": one_of("paper", "upstream"),
        "dimensions": by_name(column),
        "total": column,
        "levels": listed(row({"level": level, **RATE})),
        "cells": listed(row({"dimension": TEXT, "level": level, **RATE})),
        "suites": listed(row({"dimension": TEXT, "suite": TEXT, "of_list": COUNT, **RATE})),
        "sub_dimensions": listed(row({"dimension": TEXT, "name": TEXT, **RATE})),
        "entries": COUNT,
        "of_list": COUNT,
        "unavailable": maybe(REASONS),
        "left_out": listed(TEXT),
    }
    return SectionSchema({"libero_plus": listed(row(model))}, {})


# LIBERO-Plus's part of a report, made of records.


def section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section, or None if no record is in LIBERO-Plus's list."""
    found = make_plus(loaded, options.data if options.data is not None and options.data.is_dir() else None)
    if not found:
        return None
    return Section(lambda: plus_blocks(found), {"libero_plus": [plus_table(model) for model in found]}, {})


def make_plus(loaded: Loaded, data: Path | None) -> tuple[ModelPlus, ...]:
    """Compute LIBERO-Plus's table for each model and protocol; see `pytest_vla.suites.libero_plus.report`.

    Args:
        loaded: the records.
        data: an additional folder in which to look for its list.
    """
    found = []
    groups = by_protocol(loaded.records)
    for rates in plus_rates(loaded.records):
        own = groups[rates.model, rates.protocol]
        entries = {(record.suite, entry_name(record)) for record in own}
        suites = dict.fromkeys(record.suite for record in own)
        left_out = (*rates.left_out, *unfinished_of(own, loaded))
        found.append(ModelPlus(rates, len(entries), _section_unavailable(suites, rates.protocol, data), left_out))
    return tuple(found)


def _section_unavailable(suites: Iterable[str], protocol: str, data: Path | None) -> dict[str, int] | None:
    try:
        tasks = [task for suite in suites for task in load_suite(suite, data=data).tasks]
        return dict(unavailable(tasks, protocol))
    except VlaError:
        # The list is nowhere, or not as it should be: pytest says so where it is to be run.
        return None


# The paper's tables of one's own models, and its printed numbers recomputed.


def _own_rows(loaded: Loaded, options: argparse.Namespace) -> tuple[Rows, Sequence[Note]]:
    """Return the tables and figures of the records' models, and notes.

    A row of Table 10 is of all episodes that were run; its total is that of the whole list if it was run whole, or as
    if it had been, see `Weighted`.
    """
    tables: dict[str, list[Row]] = {name: [] for name in ("6", "7", "8", "10", "10-weights", "fig9", "fig10")}
    left_out: list[Note] = []
    weights = _printed_weights()
    for rates in plus_rates(loaded.records):
        model = _named(rates.model, rates.protocol)
        left_out += [Note(text, model) for text in rates.left_out]
        weighted = rates.of_list[TOTAL]
        total: Cell = rate_cell(rates.total) if rates.is_whole else None
        if total is None and weighted is not None:
            total = GroundingEstimate(100 * weighted.rate, percents(weighted.interval))
        if total is None:
            left_out.append(Note("no total, as only a part of the list was run", model, ("10",)))
        for suite in dict.fromkeys(suite for _, suite in rates.suites):
            of_suite = [rates.suites.get((name, suite)) for name in DIMENSIONS]
            numbers = [0 if rate is None else rate.counted for rate in of_suite]
            tables["6"].append((suite, model, *numbers, sum(numbers)))
        tables["10"].append((model, *map(rate_cell, rates.dimensions.values()), total))
        tables["10-weights"].append((model, *(_weighed(rates, weights, name) for name in (*DIMENSIONS, TOTAL))))
        tables["fig9"].append((model, *map(rate_cell, rates.levels.values())))
        for name in DIMENSIONS:
            if any(dimension == name for dimension, _ in rates.cells):
                cells = (rates.cells.get((name, level)) for level in LEVELS)
                tables["fig10"].append((name, model, *(None if each is None else rate_cell(each) for each in cells)))
    for model, pairs in _pairs(loaded):
        for pair in pairs:
            rates_of = [100 * rate for rate in pair.rates]
            tables["7"].append((model, *pair.dimensions, *rates_of, 100 * pair.product))
            gap = None if pair.gap is None else GroundingEstimate(pair.gap, pair.gap_interval)
            tables["8"].append((model, *pair.dimensions, gap, pair.chi_square, pair.p))
    models = {_named(*key): _selected(some)[0] for key, some in by_protocol(loaded.records).items()}
    further: dict[str, list[Row]] = {
        "sub-dimensions": _sub_dimension_rows(models),
        "fig11": list(_action_rows(loaded, models)) if options.table in (None, "fig11") else [],
    }
    # An entry is another one under another protocol.
    for protocol in dict.fromkeys(protocol for _, protocol in by_protocol(loaded.records)):
        of_protocol = {model: some for model, some in models.items() if some and protocol_of(some[0][0]) == protocol}
        difficulty, notes_of_difficulty = difficulty_rows(of_protocol, protocol)
        for name, rows in difficulty.items():
            further.setdefault(name, []).extend(rows)
        left_out += notes_of_difficulty
    return tables | further, left_out


def _printed_weights() -> dict[tuple[str, str], float]:
    """Return the counts that Table 6 prints, by dimension and suite: the paper's means are weighted by them."""
    found: dict[tuple[str, str], float] = {}
    for _, line in PAPER.published.tables["6"].numbers():
        found |= {(name, str(line["suite"])): printed(line, name.capitalize()) for name in DIMENSIONS}
    return found


def _weighed(rates: PlusRates, weights: Mapping[tuple[str, str], float], dimension: str) -> Cell:
    """Return success in %, each dimension and suite weighted as in a table; None if one of them was not run."""
    wanted = {key: weight for key, weight in weights.items() if dimension in (key[0], TOTAL)}
    found = {key: rate.rate for key in wanted if (rate := rates.suites.get(key)) is not None and rate.rate is not None}
    if len(found) < len(wanted):
        return None
    return 100 * fsum(weight * found[key] for key, weight in wanted.items()) / fsum(wanted.values())


Entries = Mapping[str, Sequence[tuple[Record, PlusTask]]]
"""By model its records that count, each with its entry."""


def finer_sub_dimension(record: Record, task: PlusTask) -> str:
    """Return an entry's sub-dimension, for lights by what differs in their scene and for rewrites by their words.

    A record without the scene's differences keeps what the entry's name tells.
    """
    if task.dimension == "light":
        return (
            light_kind(str(record.variation.get("parameters", {}).get("differs", "")).split(", ")) or task.sub_dimension
        )
    if task.dimension == "language" and protocol_of(record) != UPSTREAM:
        return rewrite_kind(record.instruction, load_suite(task.suite).task(task.base).language)
    return task.sub_dimension


def _sub_dimension_rows(models: Entries) -> list[Row]:
    found: dict[tuple[str, str], dict[str, list[Record]]] = {}
    for model, some in models.items():
        for record, task in some:
            key = task.dimension, finer_sub_dimension(record, task)
            found.setdefault(key, {}).setdefault(model, []).append(record)
    rows: list[Row] = []
    for dimension, kind in sorted(found, key=lambda key: (*_place(key[0]), key[1])):
        for model, records in found[dimension, kind].items():
            rate = success_rate(kind, records, _entry_of)
            rows.append((dimension, kind, model, rate.counted, rate_cell(rate)))
    return rows


def _place(dimension: str) -> tuple[int, str]:
    return (DIMENSIONS.index(dimension) if dimension in DIMENSIONS else len(DIMENSIONS)), dimension


BINS = 10
"""Of a histogram of actions, from -1 to 1."""

_COMPONENTS = ("x", "y", "z", "roll", "pitch", "yaw", "gripper")


def _action_rows(loaded: Loaded, models: Entries) -> Iterator[Row]:
    """Yield the share of control steps, in %, whose action is in each bin, by dimension, model and component (Fig. 11).

    Of benign episodes of LIBERO's suites under the dimension ``none``.
    """
    import numpy as np

    groups: dict[tuple[str, str], list[Record]] = {}
    for (model, suite), some in by_model(loaded.records).items():
        if suite in SUITES:
            groups.setdefault(("none", model), []).extend(r for r in that_count(some).records if not r.variation)
    for model, entries in models.items():
        for record, task in entries:
            groups.setdefault((task.dimension, model), []).append(record)
    order = sorted(groups, key=lambda key: (-1, "") if key[0] == "none" else _place(key[0]))
    for dimension, model in order:
        counts: Any = 0
        for record in groups[dimension, model]:
            trajectory = loaded.trajectory(record) if is_counted(record) else None
            if trajectory is not None and trajectory.actions.shape[1:] == (len(_COMPONENTS),):
                clipped = np.clip(trajectory.actions, -1, 1).T
                counts = counts + np.array([np.histogram(each, BINS, (-1, 1))[0] for each in clipped])
        if np.any(counts):
            shares = 100 * counts / counts.sum(axis=1, keepdims=True)
            yield from ((dimension, model, name, *row) for name, row in zip(_COMPONENTS, shares.tolist(), strict=True))


def difficulty_rows(models: Entries, protocol: str = "") -> tuple[dict[str, list[Row]], list[Note]]:
    """Return difficulty by dimension and by entry, ability by model, and notes; nothing for a single model.

    Args:
        models: all under one protocol.
        protocol: which; dimensions are named after upstream's.
    """
    outcomes: dict[tuple[str, Hashable], list[float]] = {}
    published: dict[Hashable, int | None] = {}
    dimensions: dict[Hashable, str] = {}
    for model, some in models.items():
        for record, task in some:
            if is_counted(record):
                outcomes.setdefault((model, task.name), []).append(float(record.outcome == "success"))
                published[task.name] = record.variation.get("level")
                dimensions[task.name] = task.dimension
    names = list(dict.fromkeys(model for model, _ in outcomes))
    if len(names) < FEWEST_MODELS:
        return {}, []
    one = item_response(outcomes)
    is_wide = len(names) >= FEWEST_FOR_DISCRIMINATION
    two = item_response(outcomes, with_discrimination=True) if is_wide else None
    items: list[Row] = []
    levels: dict[str, list[tuple[int, int | None, float]]] = {}
    for name, (difficulty, error) in one.difficulties.items():
        known = [fmean(outcomes[model, name]) for model in names if (model, name) in outcomes]
        level = own_level(len(known) - fsum(known), len(known)) if len(known) == len(names) else None
        second = (None, None) if two is None else (two.difficulties[name][0], two.discriminations[name])
        items.append(
            (
                *(str(name), _named(dimensions[name], protocol), len(known), level, published[name]),
                *(_with_error(difficulty, error), *second),
            )
        )
        if level is not None:
            levels.setdefault(dimensions[name], []).append((level, published[name], difficulty))
    by_dimension: list[Row] = [
        (
            _named(dimension, protocol),
            len(some),
            *(sum(level == each for level, _, _ in some) for each in range(1, 6)),
            fmean(level for level, _, _ in some),
            fmean(theirs) if (theirs := [each for _, each, _ in some if each is not None]) else None,
            fmean(difficulty for _, _, difficulty in some),
        )
        for dimension, some in sorted(levels.items(), key=lambda each: _place(each[0]))
    ]
    second_of = {} if two is None else {model: ability for model, (ability, _) in two.abilities.items()}
    ran = Counter(model for model, _ in outcomes)
    abilities: list[Row] = [
        (model, ran[model], _with_error(*one.abilities[model]), second_of.get(model)) for model in names
    ]
    lacking = sum(row[3] is None for row in items)
    note = Note(
        f"{lacking} of {len(items)} entries were not run by all {len(names)} models, and have no level",
        tables=("difficulty", "entries"),
    )
    return {"difficulty": by_dimension, "ability": abilities, "entries": items}, [note] * bool(lacking)


def _with_error(value: float, error: float) -> GroundingEstimate:
    return GroundingEstimate(value, (value - 1.96 * error, value + 1.96 * error))


def _named(model: str, protocol: str) -> str:
    """Return the name of a model, or a dimension, under a protocol."""
    return f"{model} ({protocol})" if protocol == UPSTREAM else model


def _pairs(loaded: Loaded) -> Iterator[tuple[str, Sequence[DimensionPair]]]:
    """Yield each model with its pairs of dimensions over all suites, as Table 7 pools them."""
    models: dict[str, list[Varied]] = {}
    for each in varied_models(loaded.records):
        models.setdefault(_named(each.model, each.protocol), []).append(each)
    yield from ((model, pooled_compositions(some)) for model, some in models.items())


def _counts(published: PublishedPaper, _data: Path | None) -> Iterator[Check]:
    """Count the list's tasks beside what Table 6 prints."""
    counts = task_counts()
    for _, line in published.tables["6"].numbers():
        suite = str(line["suite"])
        own = {name.capitalize(): counts[name, suite] for name in DIMENSIONS}
        for name, number in {**own, "Total": sum(own.values())}.items():
            yield Check(f"{suite}: {name}", printed(line, name), number)


def _totals(published: PublishedPaper, _: Path | None) -> Iterator[Check]:
    """Recompute Table 10's totals from its dimensions, each weighed by its tasks: both are printed to a tenth."""
    weights = {name.capitalize(): count for name, count in dimension_counts().items()}
    for model, line in published.tables["10"].numbers():
        total = fsum(printed(line, name) * weight for name, weight in weights.items()) / sum(weights.values())
        yield Check(f"{model}: Total", printed(line, "Total"), total, 0.1)


def _chi_squares(published: PublishedPaper, _: Path | None) -> Iterator[Check]:
    """Recompute the p that Table 8 prints from its chi-square, which is printed to a tenth."""
    for name, line in published.tables["8"].numbers():
        statistic, p = printed(line, "chi-square"), printed(line, "p")
        widest = chi_square_p(statistic - 0.05) - chi_square_p(statistic)
        yield Check(f"{name}: p", p, chi_square_p(statistic), widest + 5e-10)
    yield Check("chi-squares of all pairs, from Table 7", None, None, why="no file with the rates of Table 7 is public")


PAPER = Paper(Path(__file__).with_name("published.toml"), _own_rows, {"6": _counts, "8": _chi_squares, "10": _totals})
