"""LIBERO-Plus's part of a report, made of records."""

import argparse
from collections.abc import Iterable
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.reports.loaded import Loaded, unfinished_of
from pytest_vla.reports.sections import Section
from pytest_vla.suites.libero_plus.metrics import ModelPlus, by_protocol, entry_name, plus_rates
from pytest_vla.suites.libero_plus.report import plus_blocks, plus_table
from pytest_vla.suites.libero_plus.variations import unavailable


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
        found.append(ModelPlus(rates, len(entries), _unavailable(suites, rates.protocol, data), left_out))
    return tuple(found)


def _unavailable(suites: Iterable[str], protocol: str, data: Path | None) -> dict[str, int] | None:
    try:
        tasks = [task for suite in suites for task in load_suite(suite, data=data).tasks]
        return dict(unavailable(tasks, protocol))
    except VlaError:
        # The list is nowhere, or not as it should be: pytest says so where it is to be run.
        return None
