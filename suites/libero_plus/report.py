"""LIBERO-Plus's Table 10 of models: for people as tables, for programs as JSON."""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS
from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.rates import percent, percents, rate_table, reasons_text
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.plan.manifests import load_suite
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
from pytest_vla.reports.robustness import NOT_A_DOSE
from pytest_vla.reports.sections import Section
from pytest_vla.suites.libero_plus.metrics import (
    DIMENSIONS,
    LEVELS,
    TOTAL,
    ModelPlus,
    PlusRates,
    Weighted,
    by_protocol,
    dimension_counts,
    entry_counts,
    entry_name,
    plus_rates,
    task_counts,
)
from pytest_vla.suites.libero_plus.names import SUB_DIMENSIONS, SUITES
from pytest_vla.suites.libero_plus.variations import unavailable

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
    """Compute LIBERO-Plus's table for each model and protocol; see `pytest_vla.suites.libero_plus.metrics`.

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
