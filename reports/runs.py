"""The runs of a results folder, a line each: for people as a table, for programs as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pytest_vla.metrics.success import SuccessRate, success_rate
from pytest_vla.reports.rates import interval_text, share_text
from pytest_vla.store import Run, is_alive

_HEADER = ("run", "started", "model", "suites", "episodes", "success", "rate", "95% interval", "errors", "status")
_NUMBERS = {"episodes", "success", "rate", "95% interval", "errors"}


def runs_table(runs: Sequence[Run]) -> list[str]:
    """A line a run under a header, times local. What is done is of what was planned."""
    rows = [_HEADER, *map(_row, runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            text.rjust(width) if name in _NUMBERS else text.ljust(width)
            for name, text, width in zip(_HEADER, row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def runs_json(runs: Sequence[Run]) -> str:
    """A list of runs: their fields, and ``done``, ``rate``, ``interval`` and ``errors`` by reason."""
    return json.dumps([_table(run) for run in runs], indent=2)


def rate_of(run: Run) -> SuccessRate:
    """The rate over the suites' own episodes; over those of the user's tests where the run has no others."""
    counts = [count for count in run.counts if count.of_suite] or run.counts
    return success_rate(run.name, [count for count in counts for _ in range(count.episodes)])


def status_of(run: Run) -> str:
    """The run's status; ``killed`` where it is said to be running and its process is gone."""
    return "killed" if run.status == "running" and is_alive(run) is False else run.status


def _row(run: Run) -> tuple[str, ...]:
    rate = rate_of(run)
    elsewhere = run.status == "running" and is_alive(run) is None
    cells = (
        run.name,
        datetime.fromisoformat(run.started).astimezone().strftime("%Y-%m-%d %H:%M"),
        run.model,
        ", ".join(_suites(run)) or "-",
        f"{run.done}/{run.planned}",
        f"{rate.successes}/{rate.counted}",
        share_text(rate),
        interval_text(rate),
        str(sum(rate.errors.values())),
        f"{status_of(run)} on {run.host}" if elsewhere else status_of(run),
    )
    # A terminal would obey control characters.
    return tuple("".join(c if c.isprintable() else "?" for c in cell) for cell in cells)


def _table(run: Run) -> dict[str, Any]:
    rate = rate_of(run)
    return asdict(run) | {
        "status": status_of(run),
        "suites": _suites(run),
        "done": run.done,
        "rate": rate.rate,
        "interval": rate.interval,
        "errors": rate.errors,
    }


def _suites(run: Run) -> list[str]:
    return sorted({count.suite for count in run.counts})
