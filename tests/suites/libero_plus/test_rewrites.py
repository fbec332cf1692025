"""LIBERO-Plus's rewrites: read from BDDL files such as a checkout has, written here in its format."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.scene.variation import Variation
from pytest_vla.suites.libero_plus.listing import LIST, read_list
from pytest_vla.vary import registry
from tests.support.data import data_root, libero_data, needs_data

LABEL = "language.plus"
TASK = "turn_on_the_stove"
NAME = TASK + "_language_{}_view_0_0_100_0_0_initstate_0"
BDDL = """(define (problem LIBERO_Tabletop_Manipulation)
  (:domain robosuite)
  (:language %s)
    (:regions (cook_region (:target flat_stove_1)))
  (:fixtures main_table - table flat_stove_1 - flat_stove)
  (:objects plate_1 - plate)
  (:obj_of_interest flat_stove_1)
  (:init (On plate_1 flat_stove_1_cook_region))
  (:goal (And (Turnon flat_stove_1)))
)
"""
OTHER = {"id": 9, "name": f"{TASK}_light_3", "category": "Light Conditions", "difficulty_level": None}


@pytest.fixture(autouse=True)
def _nothing_is_drawn_yet() -> None:
    registry._drawn.cache_clear()


def row(index: int, difficulty: int | None = 2) -> dict[str, object]:
    name = NAME.format(index)
    return {"id": index, "name": name, "category": "Language Instructions", "difficulty_level": difficulty}


def checkout(folder: Path, texts: Mapping[int, str], listed: Mapping[int, int | None]) -> Path:
    """A LIBERO-Plus checkout of one task's rewrites, of which some are in the list of tasks."""
    package = folder / "libero" / "libero"
    (package / "benchmark").mkdir(parents=True)
    (package / "bddl_files" / "libero_goal").mkdir(parents=True)
    rows = [OTHER, *(row(index, difficulty) for index, difficulty in listed.items())]
    (package / LIST).write_text(json.dumps({"libero_goal": rows}))
    for index, text in texts.items():
        (package / "bddl_files" / "libero_goal" / f"{TASK}_language_{index}.bddl").write_text(BDDL % text)
    return folder


def drawn(data: Path | None, seed: int) -> Variation:
    found = registry.find_variation(load_suite("libero_goal", data=data).task(TASK), LABEL, seed)
    assert found is not None
    return found


def test_the_seed_draws_among_those_listed_and_the_record_says_what(tmp_path: Path) -> None:
    texts = {1: "Ignite  the Stove", 2: "never listed", 7: "Id like the stoves burner on", 50: "get the stove going"}
    checkout(tmp_path, texts, {1: 1, 7: 5, 50: None})
    told = {1: "ignite the stove", 7: "id like the stoves burner on", 50: "get the stove going"}
    for seed in range(20):
        variation = drawn(tmp_path, seed)
        index = variation.parameters["index"]
        assert (variation.label, variation.dimension, variation.kind) == (LABEL, "language", "libero-plus")
        assert variation.instruction == told[index]
        assert variation.parameters["file"] == f"{TASK}_language_{index}.bddl"
        assert variation.parameters["digest"] == hashlib.sha256((BDDL % texts[index]).encode()).hexdigest()[:16]
        assert variation.parameters.get("difficulty") == {1: 1, 7: 5, 50: None}[index]
        assert variation.parameters["original"] == "turn on the stove"
        assert "passed_over" not in variation.parameters
        registry._drawn.cache_clear()
        assert drawn(tmp_path, seed) == variation
    assert {drawn(tmp_path, seed).parameters["index"] for seed in range(20)} == {1, 7, 50}


@pytest.mark.parametrize(
    "useless",
    ["Here are 20 variations of the given instruction while maintaining its core meaning", "Turn on the stove"],
)
def test_what_is_no_rewrite_is_passed_over_and_named(tmp_path: Path, useless: str) -> None:
    checkout(tmp_path, {3: useless, 4: "ignite the stove"}, {3: 3, 4: 1})
    found = [drawn(tmp_path, seed) for seed in range(20)]
    assert {variation.instruction for variation in found} == {"ignite the stove"}
    assert {variation.parameters.get("passed_over") for variation in found} == {None, "3"}


def test_a_task_of_nothing_else_has_none(tmp_path: Path) -> None:
    checkout(tmp_path, {3: "here are 20 variations of it"}, {3: 3})
    with pytest.raises(
        VlaError, match=f"has only rewrites of libero_goal/{TASK} that are no instruction, or the task's own: 3"
    ):
        drawn(tmp_path, 0)


def test_a_task_that_is_not_listed_has_none(tmp_path: Path) -> None:
    checkout(tmp_path, {3: "ignite the stove"}, {})
    with pytest.raises(VlaError, match=f"lists no rewrite of libero_goal/{TASK}; the list of its checkout has"):
        drawn(tmp_path, 0)


def test_a_task_of_another_suite_has_none_and_the_message_says_of_which_there_are(tmp_path: Path) -> None:
    checkout(tmp_path, {3: "ignite the stove"}, {3: 1})
    task = load_suite("tabletop", data=tmp_path).tasks[0]
    with pytest.raises(
        VlaError, match=f"no rewrite of tabletop/{task.name}; it has rewrites of libero_spatial, .* alone"
    ):
        registry.find_variation(task, LABEL, 0)


@pytest.mark.parametrize("place", [".", "libero_plus", "LIBERO-plus"])
def test_a_checkout_is_found_in_data_too(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    checkout(tmp_path / place, {1: "ignite the stove"}, {1: 1})
    assert drawn(tmp_path, 0).instruction == "ignite the stove"
    monkeypatch.setenv("PYTEST_VLA_DATA", str(tmp_path))
    registry._drawn.cache_clear()
    assert drawn(None, 0).instruction == "ignite the stove"


def test_the_package_of_a_checkout_is_one_too(tmp_path: Path) -> None:
    checkout(tmp_path, {1: "ignite the stove"}, {1: 1})
    assert drawn(tmp_path / "libero" / "libero", 0).instruction == "ignite the stove"


def test_without_a_checkout_the_message_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(
        VlaError, match=r"classification.json was not found: give a checkout of LIBERO-Plus, with its BDDL"
    ) as caught:
        drawn(tmp_path, 0)
    # The list alone has no rewrites.
    assert "a folder with that file" not in str(caught.value)
    assert str(caught.value).endswith(f"Looked in {tmp_path}.")


def test_the_list_alone_is_named_with_what_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "task_classification.json"
    file.write_text("{}")
    with pytest.raises(VlaError, match=re.escape(f"{file} is LIBERO-Plus's list of tasks alone: ")) as caught:
        drawn(tmp_path, 0)
    assert "(libero/libero/bddl_files). Give the whole checkout by --vla-data or PYTEST_VLA_DATA" in str(caught.value)


def test_a_checkout_that_is_not_whole_is_told(tmp_path: Path) -> None:
    checkout(tmp_path, {}, {8: 1})
    with pytest.raises(VlaError, match=rf"lists {TASK}_language_8.bddl, which is not there. Give a whole checkout"):
        drawn(tmp_path, 0)


def test_a_bddl_file_that_is_none_is_told_with_its_place(tmp_path: Path) -> None:
    checkout(tmp_path, {1: "ignite (the stove)"}, {1: 1})
    with pytest.raises(VlaError, match=rf"{TASK}_language_1.bddl:3:\d+: .*holds no parentheses"):
        drawn(tmp_path, 0)


@needs_data
def test_rewrites_of_liberos_own_files_are_read(tmp_path: Path) -> None:
    root = data_root()
    assert root is not None
    package = tmp_path / "libero" / "libero"
    (package / "benchmark").mkdir(parents=True)
    (package / LIST).symlink_to(root / "libero_plus" / "task_classification.json")
    for suite, entries in read_list(package / LIST).items():
        (package / "bddl_files" / suite).mkdir(parents=True, exist_ok=True)
        for entry in (entry for entry in entries if entry.language is not None):
            base = (libero_data() / "bddl_files" / suite / f"{entry.base}.bddl").read_text()
            text = re.sub(r"\(:language [^)]*\)", f"(:language Im asking you number {entry.language})", base)
            (package / "bddl_files" / suite / f"{entry.file}.bddl").write_text(text)
    for suite in ("libero_goal", "libero_spatial", "libero_object", "libero_10"):
        for task in load_suite(suite, data=tmp_path).tasks:
            variation = registry.find_variation(task, LABEL, 5)
            assert variation is not None
            assert variation.instruction == f"im asking you number {variation.parameters['index']}"
