"""The report for programs: what ``pytest-vla report --format=json`` writes."""

from collections.abc import Sequence
from typing import Any

from pytest_vla.metrics.hidden import hidden_notes
from pytest_vla.metrics.selection import by_model, that_count
from pytest_vla.records.premises import notes_after
from pytest_vla.records.samples import sample_table
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.sections import Section, section_table

SCHEMA = 1
"""Of the JSON; raised whenever a key changes its meaning or goes away."""


def report_table(sections: Sequence[Section], loaded: Loaded) -> dict[str, Any]:
    """``schema``, the keys of `pytest_vla.reports.sections.section_table`, ``notes``, and ``stopped``.

    The last has of each run that time has ended its name and the fields of `pytest_vla.records.samples.Sample`; where
    there is no such run, it is not there.
    """
    stopped = [{"run": run, **sample_table(sample)} for run, sample in loaded.samples.items()]
    table = {"schema": SCHEMA, **section_table(sections), "notes": notes_of(loaded)}
    return {**table, "stopped": stopped} if stopped else table


def notes_of(loaded: Loaded) -> tuple[str, ...]:
    """Known defects of the benchmarks that are in the numbers, and metrics of records that are in none."""
    counting = (that_count(some).records for some in by_model(loaded.records).values())
    return (*notes_after(record for some in counting for record in some), *hidden_notes(loaded.records))
