"""The runs of a results folder, a line each: for people as a table, for programs as JSON."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pytest_vla.metrics.rates import (
    errors_of,
    interval_text,
    left_out_text,
    rate_of,
    rate_table,
    rates_of,
    share_text,
    suites_of,
)
from pytest_vla.metrics.success import SuccessRate, success_rate
from pytest_vla.records.runs import Run, is_alive, sample_of, sample_table
from pytest_vla.reports.text import aligned
from pytest_vla.util.text import printable

STOPPED_BY_TIME = "stopped by time: a balanced sample"
"""The status of a run whose episodes represent the whole plan."""

FEW_BY_TIME = "stopped by time: few episodes for its workers"
"""The status of a run with too few episodes to represent the plan."""

_INTERVAL, _APART, _REPEATS = "95% interval", "not in the rate", "repeats (other outcome)"
_HEADER = ("run", "started", "model", "suites", "episodes", "success", "rate", _INTERVAL, _APART, _REPEATS, "status")
_NAMES = 3
"""The first columns, which name a run."""

_NUMBERS = {"episodes", "success", "rate", _INTERVAL, _REPEATS}


def runs_table(runs: Sequence[Run], width: int | None = None) -> list[str]:
    """Return a line for each run under a header, with local times and done of planned episodes.

    If tasks are varied, benign episodes are in the run's line, and varied ones in a line below it. A column that is
    empty for all runs (episodes in no rate, repeats) is left out. If the table is wider than `width` (None: any), the
    name, time and model of a run have a line of their own, with the rest below it.
    """
    rows = [_HEADER, *(row for run in runs for row in _rows(run))]
    empty = {name for name, *cells in zip(*rows, strict=True) if name in (_APART, _REPEATS) and not any(cells)}
    rows = [tuple(cell for name, cell in zip(_HEADER, row, strict=True) if name not in empty) for row in rows]
    left = {place for place, name in enumerate(rows[0]) if name not in _NUMBERS}
    return [*aligned(rows, _NAMES, left, width)]


def runs_json(runs: Sequence[Run]) -> str:
    """Return a list of runs: their fields, ``done``, ``rate`` and ``interval`` (of `rate_of`) and ``errors`` by reason.

    ``rates``: ``benign`` and ``varied`` if tasks are varied, else ``all``, each a `pytest_vla.metrics.rates.rate_table`
    of the episodes that were run. ``repeats``: the fields of `pytest_vla.records.counting.Repeats`. Neither probes nor
    repeats are in a rate. ``sample``: the fields of `pytest_vla.records.runs.TimeLimitSample` if a time limit ended the
    run, else null.
    """
    return json.dumps([_table(run) for run in runs], indent=2)


def status_of(run: Run) -> str:
    """Return the run's status; ``killed`` if it is stored as running and its process is gone."""
    return "killed" if run.status == "running" and is_alive(run) is False else run.status


def status_text(run: Run) -> str:
    """Return the run's status for people; after a time limit, how far the episodes represent the plan."""
    sample = sample_of(run)
    if sample is None:
        return status_of(run)
    if not sample.balanced:
        return "stopped by time"
    return STOPPED_BY_TIME if sample.stands_for_all else FEW_BY_TIME


def _rows(run: Run) -> Iterator[tuple[str, ...]]:
    (name, rate), *further = list(rates_of(run).items()) or [("", success_rate("", []))]
    elsewhere = run.status == "running" and is_alive(run) is None
    cells = (
        run.name,
        datetime.fromisoformat(run.started).astimezone().strftime("%Y-%m-%d %H:%M"),
        run.model,
        ", ".join(suites_of(run)) or "-",
        f"{run.done}/{run.planned}",
        *_rate_cells(name, rate),
        left_out_text(rate),
        f"{run.repeats.records} ({run.repeats.other_outcome})" if run.repeats.records else "",
        (f"{status_of(run)} on {run.host}" if elsewhere else status_text(run))
        + f", {run.picked}" * bool(run.picked)
        + f", {run.decided} decided" * bool(run.decided)
        + f", {run.policies} versions of the policy" * (run.policies > 1),
    )
    # A terminal would obey control characters.
    yield tuple(map(printable, cells))
    for name, rate in further:
        yield (*[""] * 5, *_rate_cells(name, rate), left_out_text(rate), "", "")


def _rate_cells(name: str, rate: SuccessRate) -> tuple[str, str, str]:
    return f"{name} {rate.successes}/{rate.counted}".lstrip(), share_text(rate), interval_text(rate)


def _table(run: Run) -> dict[str, Any]:
    rate, sample = rate_of(run), sample_of(run)
    return asdict(run) | {
        "sample": None if sample is None else sample_table(sample),
        "status": status_of(run),
        "suites": suites_of(run),
        "done": run.done,
        "rate": rate.rate,
        "interval": rate.interval,
        "errors": errors_of(run),
        "rates": {name or "all": rate_table(each) for name, each in rates_of(run).items()},
    }
