"""A record gives its task and its variation back."""

import dataclasses
from pathlib import Path
from typing import Any

from pytest_vla.plan.manifests import load_suite
from pytest_vla.records.runs import Run
from pytest_vla.show.restored import data_of, restored_task, restored_variation
from pytest_vla.vary.registry import find_variation
from tests.support.records import RECORD, record_of


def test_a_task_is_under_the_rules_and_with_the_textures_of_its_record() -> None:
    record = record_of(0, protocol={"rules": "upstream", "textures": "trained"})
    task = restored_task(record, Path("mine"))
    assert (task.name, task.protocol.rules, task.protocol.textures) == ("turn_on_the_stove", "upstream", "trained")
    assert task.data == Path("mine")
    early = restored_task(RECORD, None)
    assert (early.protocol.rules, early.protocol.textures) == (load_suite("libero_goal").protocol.rules, "installed")


def test_a_variation_comes_back_without_drawing() -> None:
    task = load_suite("tabletop").task("turn_on_the_stove")
    drawn = find_variation(task, "action.noise-L2", 7)
    assert drawn is not None
    record = dataclasses.replace(RECORD, suite="tabletop", variation=drawn.table())
    # The task that is drawn may have other cameras.
    shown = dataclasses.replace(task, protocol=dataclasses.replace(task.protocol, cameras=("frontview",)))
    found = restored_variation(shown, record)
    assert found is not None
    assert (found.table(), len(found.actions)) == (drawn.table(), 1)


def test_what_was_only_told_is_none() -> None:
    task = load_suite("tabletop").task("turn_on_the_stove")
    told = {"label": "language.file.mine", "dimension": "language", "parameters": {}}
    for variation in ({}, told):
        assert restored_variation(task, dataclasses.replace(RECORD, suite="tabletop", variation=variation)) is None


def test_data_are_where_they_are_said_to_be_or_were(tmp_path: Path) -> None:
    run = _run({"settings": {"data": "then"}})
    assert (data_of(run, None), data_of(run, Path("now"))) == (Path("then"), Path("now"))
    assert data_of(_run({}), None) is None


def _run(invocation: dict[str, Any]) -> Run:
    found = object.__new__(Run)
    object.__setattr__(found, "invocation", invocation)
    return found
