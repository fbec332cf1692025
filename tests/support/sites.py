"""Runs as a site lists them, for tests of what is made of them."""

from collections.abc import Mapping
from typing import Any

from pytest_vla.metrics.success import SuccessRate
from pytest_vla.reports.site.entries import Entry, Result

CONDITIONS = {"protocol.max_steps": "300", "provenance.mujoco": "3.3.7", "scene": "25de2ab7"}


def rate_of(successes: int, counted: int, errors: Mapping[str, int] | None = None) -> SuccessRate:
    """A rate with an interval that need not be right."""
    errors = dict(errors or {})
    share = successes / counted if counted else 0
    interval = (max(share - 0.2, 0.0), min(share + 0.2, 1.0)) if counted else None
    return SuccessRate("tabletop", counted + sum(errors.values()), successes, counted, interval, errors, {})


def result_of(successes: int = 15, counted: int = 20, **changes: Any) -> Result:
    """Of all ten tasks of a suite."""
    about: dict[str, Any] = {
        "model": "tiny",
        "policies": ("04061fbabc0e",),
        "suite": "tabletop",
        "group": "benign",
        "rate": rate_of(successes, counted),
        "tasks": 10,
        "of_tasks": 10,
        "variations": 10,
        "selection": "all",
        "conditions": CONDITIONS,
    }
    return Result(**(about | changes))


def part_of(tasks: int, **changes: Any) -> Result:
    """Of the first few of ten tasks."""
    return result_of(**({"tasks": tasks, "variations": tasks, "selection": f"first {tasks}"} | changes))


def entry_of(day: int, *results: Result, **changes: Any) -> Entry:
    """The run of a day: ``run-01``; without results of one, `result_of`."""
    about: dict[str, Any] = {
        "name": f"run-{day:02d}",
        "started": f"2026-01-{day:02d}T04:05:06.789+00:00",
        "ended": None,
        "status": "finished",
        "model": "tiny",
        "picked": None,
        "planned": 20,
        "done": 20,
        "decided": 0,
        "verdict": None,
        "versions": {"mujoco": "3.3.7"},
        "results": results or (result_of(),),
        "made_from": "0" * 32,
    }
    return Entry(**(about | changes))
