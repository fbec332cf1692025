"""LIBERO-PRO's part of a report, made of records."""

import argparse

from pytest_vla.metrics.selection import by_model, that_count
from pytest_vla.records.record import Record
from pytest_vla.reports.loaded import Loaded, unfinished_of
from pytest_vla.reports.sections import Section
from pytest_vla.suites.libero_pro.metrics import ModelPro, is_ours, pro_tables, undrawn_in
from pytest_vla.suites.libero_pro.report import pro_blocks, pro_table


def section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section, or None if no record is under one of LIBERO-PRO's variations."""
    found = make_pro(loaded)
    if not found:
        return None
    return Section(lambda: pro_blocks(found), {"libero_pro": [pro_table(model) for model in found]}, {})


def make_pro(loaded: Loaded) -> tuple[ModelPro, ...]:
    """Compute LIBERO-PRO's tables for each model with its variations; see `pytest_vla.suites.libero_pro.metrics`.

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
