"""The JSON schema of LIBERO-PRO's tables, as made by `pytest_vla.suites.libero_pro.report.pro_table`."""

from pytest_vla.reports.json_schema import (
    COUNT,
    NUMBER,
    RATE,
    REASONS,
    TEXT,
    Keys,
    SectionSchema,
    by_name,
    listed,
    maybe,
    row,
)


def schema() -> SectionSchema:
    """Return the schema of the key ``libero_pro``."""
    rate: Keys = {**RATE, "errors": REASONS, "invalid": REASONS}
    suite: Keys = {
        "suite": TEXT,
        "columns": by_name(maybe(row({**rate, "tasks": COUNT}))),
        "tasks": listed(row({"name": TEXT, "columns": by_name(maybe(row(rate)))})),
        "sweeps": listed(row({"kind": TEXT, "levels": listed(row({"level": NUMBER, **rate}))})),
        "replaced": maybe(row(rate)),
        "combined": listed(row({"name": TEXT, **rate})),
    }
    model = {"model": TEXT, "suites": listed(row(suite)), "left_out": listed(TEXT), "unavailable": REASONS}
    return SectionSchema({"libero_pro": listed(row(model))}, {})
