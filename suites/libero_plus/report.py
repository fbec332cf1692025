"""LIBERO-Plus's Table 10 of models: for people as tables, for programs as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS
from pytest_vla.metrics.rates import percent, percents, percents_text, rate_table, reasons_text
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.reports.robustness import NOT_A_DOSE
from pytest_vla.reports.text import aligned, note_lines, printed, wrapped
from pytest_vla.suites.libero_plus.metrics import (
    DIMENSIONS,
    LEVELS,
    TOTAL,
    ModelPlus,
    PlusRates,
    Weighted,
    dimension_counts,
    entry_counts,
    task_counts,
)
from pytest_vla.suites.libero_plus.names import SUB_DIMENSIONS, SUITES

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


def plus_lines(models: Sequence[ModelPlus]) -> Iterator[str]:
    """Format the section for a terminal, line by line, without control characters."""
    yield from printed(_lines(models))


def _lines(models: Sequence[ModelPlus]) -> Iterator[str]:
    intervals = f"{CONFIDENCE:.0%} intervals over {THESE_TASKS}"
    yield f"LIBERO-Plus, as its Table 10: success, %; in brackets and from, to {intervals}"
    for found in models:
        rates, listed = found.rates, sum(task_counts().values())
        yield ""
        yield f"=== {rates.model}: LIBERO-Plus, protocol {rates.protocol} ==="
        yield f"{found.entries:,} of the {listed:,} entries in its list were run"
        yield from _unavailable_lines(found.unavailable)
        yield from note_lines(found.left_out)
        for name, rate in {**rates.dimensions, "total": rates.total}.items():
            if name != "total" and (reasons := reasons_text(rate)):
                yield from wrapped(f"in no rate for {name}: {reasons}")
        yield ""
        yield from _leaderboard_lines(found)
        yield ""
        yield "By difficulty, % (episodes); a mean over dimensions is no total"
        rows = [
            (
                "no level" if level is None else f"L{level}",
                *(_short(rates.cells.get((name, level))) for name in DIMENSIONS),
                _short(rates.levels[level]),
            )
            for level in LEVELS
        ]
        yield from aligned([(*_HEAD[:-1], "all run"), *rows], 1)
        yield from wrapped(NOT_A_DOSE)
        yield ""
        yield "By suite, % (episodes)"
        rows = [(suite, *(_short(rates.suites.get((name, suite))) for name in DIMENSIONS)) for suite in SUITES]
        yield from aligned([_HEAD[:-1], *rows], 1)
        yield ""
        yield "By sub-dimension"
        kinds = [("", "", "n", "success, %")]
        for name, kind in _sub_dimensions(rates):
            rate = rates.sub_dimensions[kind]
            kinds.append((name, kind, str(rate.counted), percents_text(rate)))
        yield from aligned(kinds, 2)


def _unavailable_lines(unavailable: Mapping[str, int] | None) -> Iterator[str]:
    if unavailable is None:
        yield "the number of unavailable entries is unknown: LIBERO-Plus's list was not found (PYTEST_VLA_DATA)"
        return
    for needs, number in unavailable.items():
        yield from wrapped(f"unavailable in the suites that were run: {number:,}: {needs}")


def _leaderboard_lines(found: ModelPlus) -> Iterator[str]:
    rates = found.rates
    names = (*DIMENSIONS, TOTAL)
    listed = [rates.of_list[name] for name in names]
    run: list[SuccessRate | None] = [*rates.dimensions.values(), rates.total if rates.is_whole else None]
    rows: list[tuple[str, ...]] = [_HEAD]
    if any(listed):
        rows.append(("whole list", *("-" if each is None else _percent(each.rate) for each in listed)))
        for name, interval in (("", "interval"), (f"{TASKS_LIKE_THESE}: ", "tasks_interval")):
            bounds = [None if each is None else getattr(each, interval) for each in listed]
            if any(bounds):
                rows += [
                    (f"{name}{end}", *("-" if each is None else _percent(each[place]) for each in bounds))
                    for place, end in enumerate(("from", "to"))
                ]
    rows.append(("episodes run", *("-" if r is None or r.rate is None else _percent(r.rate) for r in run)))
    rows += [
        (end, *("-" if r is None or r.interval is None else _percent(r.interval[place]) for r in run))
        for place, end in enumerate(("from", "to"))
    ]
    rows.append(("number", *(str(rate.counted) for rate in (*rates.dimensions.values(), rates.total))))
    yield from aligned(rows, 1)
    yield "whole list: by dimension, suite and sub-dimension, weighted by the number of tasks in the list"
    if lacking := sum(rates.missing.values()):
        yield from wrapped(
            f"no total: of the list's {len(entry_counts())} suites and sub-dimensions {lacking} were not run, and a "
            "mean over a part of it is none"
        )


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _short(rate: SuccessRate | None) -> str:
    return "-" if rate is None or rate.rate is None else f"{100 * rate.rate:.0f} ({rate.counted})"
