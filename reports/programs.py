"""The report for programs: what ``pytest-vla report --format=json`` writes."""

from collections.abc import Sequence
from typing import Any

from pytest_vla.metrics.hidden import hidden_notes
from pytest_vla.metrics.selection import by_model, that_count
from pytest_vla.records.premises import notes_after
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.sections import Section, section_table

SCHEMA = 1
"""Of the JSON; raised whenever a key changes its meaning or goes away."""


def report_table(sections: Sequence[Section], loaded: Loaded) -> dict[str, Any]:
    """``schema``, the keys of `pytest_vla.reports.sections.section_table`, and ``notes``."""
    return {"schema": SCHEMA, **section_table(sections), "notes": notes_of(loaded)}


def notes_of(loaded: Loaded) -> tuple[str, ...]:
    """Known defects of the benchmarks that are in the numbers, and metrics of records that are in none."""
    counting = (that_count(some).records for some in by_model(loaded.records).values())
    return (*notes_after(record for some in counting for record in some), *hidden_notes(loaded.records))
