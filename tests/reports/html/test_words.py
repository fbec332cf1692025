"""The language as a part of a page: what has the same name stands under different headings."""

from typing import Any

from pytest_vla.reports.html.words import language_blocks

MEASURED: dict[str, Any] = {"n": 8}
for name in ("sr", "pride", "pd", "overestimation"):
    MEASURED |= {name: 50.0, f"{name}_interval": [40.0, 60.0]}


def measured(name: str) -> dict[str, Any]:
    return {**MEASURED, "name": name}


def test_object_and_action_rows_of_one_name_have_headings() -> None:
    by_alpha = {"pride": {"0.5": 50.0}, "pride_interval": {"0.5": [40.0, 60.0]}}
    found = {
        **MEASURED,
        **by_alpha,
        "backend": None,
        "benign": None,
        "categories": [],
        "objects": [measured("none"), measured("addition")],
        "actions": [measured("none"), measured("addition")],
        "others": [],
        "cells": [],
        "tasks": [],
        "left_out": [],
        "failures": None,
        "listening": None,
    }
    (block,) = language_blocks("a model", found, 0.5)
    by_heading = {table.head[0]: [row[0] for row in table.rows] for table in block.tables}
    assert by_heading == {
        "paraphrases": ["all"],
        "object type": ["none", "addition"],
        "action type": ["none", "addition"],
    }
