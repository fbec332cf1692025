"""The JSON schema of LIBERO-Plus's tables, as made by `pytest_vla.suites.libero_plus.report.plus_table`."""

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
