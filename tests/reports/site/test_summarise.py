"""The index entry of a run, and the digest that keeps an unchanged page from being made again."""

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.gate.baseline import case_result
from pytest_vla.records.record import Record
from pytest_vla.records.store import open_store
from pytest_vla.reports.html.media import MediaShown
from pytest_vla.reports.loaded import load
from pytest_vla.reports.site import entries as summarise_module
from pytest_vla.reports.site.entries import (
    DRAWN,
    SEVERAL,
    Entry,
    conditions_of,
    digest_of,
    selection_of,
    strata_of,
    summarise,
)
from tests.support.reports import RESULTS, write
from tests.support.varied import varied

TASKS = ("turn_on_the_stove", "open_the_middle_drawer")
NONE_SHOWN = MediaShown(pictures=0)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def entry(name: str = "a-run") -> Entry:
    with open_store(RESULTS, create=False) as store:
        return summarise(store.run(name), load([name], RESULTS), (), "made from")


def digest(shown: MediaShown = NONE_SHOWN, results: Path = RESULTS) -> str:
    with open_store(results, create=False) as store:
        return digest_of(store, store.run("a-run"), shown)


def conditions(*records: Record) -> dict[str, str]:
    return conditions_of([case_result(record) for record in records])


def grid(label: str = "", seeds: int = 2, **changes: Any) -> Iterator[Record]:
    for task in TASKS:
        for seed in range(seeds):
            # No two are equal bit for bit.
            yield varied(label, seed == 0, task, seed, digest=f"{label}{task}{seed}", **changes)


def test_a_run_of_two_tasks_benign_and_varied() -> None:
    labels = ("", "camera.distance-L1", "camera.distance-L2")
    records = [record for label in labels for record in grid(label, policy_digest="ab" * 32)]
    lost = varied("", "error", TASKS[0], 2, policy_digest="ab" * 32)
    probe = varied("language.blank", False, TASKS[0], policy_digest="ab" * 32)
    write([*records, lost, dataclasses.replace(probe, variation={**probe.variation, "probe": True})])
    found = entry()
    assert (found.name, found.status, found.planned, found.done, found.is_cut_short) == (
        *("a-run", "finished", 14, 14),
        False,
    )
    assert found.versions == {"mujoco": "3.8.1"}
    assert [(each.column, each.tasks, each.of_tasks, each.variations) for each in found.results] == [
        ("libero_goal", 2, 10, 2),
        ("libero_goal, varied", 2, 10, 4),
    ]
    benign, changed = found.results
    assert (benign.rate.successes, benign.rate.counted, benign.rate.errors) == (2, 4, {"policy-raised": 1})
    assert (changed.rate.successes, changed.rate.counted) == (4, 8)
    assert (benign.content, benign.is_whole) == ("abababab", False)


def test_several_versions_of_a_policy_are_said() -> None:
    write([*grid(policy_digest="ab" * 32)])
    with open_store(RESULTS, create=True) as store:
        store.add(varied("", True, TASKS[0], 7, policy_digest="cd" * 32))
    (result,) = entry().results
    assert (result.content, len(result.policies)) == ("several", 2)


def test_the_suites_number_of_tasks_is_not_known_of_own_tests() -> None:
    write([dataclasses.replace(record, node=f"test_mine.py::test_it[{place}]") for place, record in enumerate(grid())])
    (result,) = entry().results
    assert (result.suite, result.of_tasks, result.is_whole) == ("test_mine.py::test_it", None, True)


def test_a_suite_has_no_fewer_tasks_than_were_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of it may be installed, or none."""
    write([*grid()])
    for installed, known in ((1, 2), (3, 3), (None, None)):
        monkeypatch.setattr(summarise_module, "_tasks_of", lambda suite, data, installed=installed: installed)
        assert entry().results[0].of_tasks == known


def test_the_selection_goes_by_tasks_and_variations_only() -> None:
    def selection(*records: Record) -> str:
        return selection_of(strata_of([case_result(record) for record in records]))

    base = selection(*grid())
    assert base == selection(*reversed([*grid(seeds=5, steps=7)]))
    assert base != selection(varied("", True, TASKS[0]))
    assert base != selection(varied("", True, TASKS[1]))
    assert base != selection(*grid("camera.distance-L1"))
    assert selection(*grid("camera.distance-L1")) != selection(*grid("camera.distance-L2"))


def test_conditions_are_what_all_have_or_each_task_or_none() -> None:
    for_task = {TASKS[0]: "turn it on", TASKS[1]: "open it"}
    found = conditions(*(dataclasses.replace(each, instruction=for_task[each.task]) for each in grid()))
    assert found["protocol.max_steps"] == "300"
    assert found["protocol.cameras"] == '["agentview"]'
    assert found["instruction"].startswith(SEVERAL)
    other = {**for_task, TASKS[1]: "open that"}
    again = conditions(*(dataclasses.replace(each, instruction=other[each.task]) for each in grid()))
    assert again["instruction"] != found["instruction"]
    assert {name for name in found if found[name] != again[name]} == {"instruction"}
    by_seed = conditions(*(dataclasses.replace(each, instruction=f"say {each.seed}") for each in grid()))
    assert by_seed["instruction"] == DRAWN


def test_of_one_seed_nobody_knows_what_a_variation_draws() -> None:
    assert conditions(*grid("camera.distance-L1", seeds=1))["instruction"] == DRAWN
    assert conditions(*grid("camera.distance-L1"))["instruction"] == "turn on the stove"
    assert conditions(*grid(seeds=1))["instruction"] == "turn on the stove"


def test_what_only_rounds_is_no_condition_and_errors_say_nothing() -> None:
    dead = varied("", "error", TASKS[0], 9, protocol={}, provenance={})
    told = conditions(*grid(provenance={"mujoco": "3.8.1", "numpy": "2.4"}), dead)
    assert told["provenance.mujoco"] == "3.8.1"
    assert told["protocol.max_steps"] == "300"
    assert "provenance.numpy" not in told
    assert "policy" not in " ".join(told)


def test_the_digest_is_the_same_wherever_the_records_are() -> None:
    write([*grid()])
    before = digest()
    assert digest() == before
    shutil.copytree(RESULTS, "copy")
    assert digest(results=Path("copy")) == before
    assert len(before) == 32


def test_the_digest_goes_by_all_that_is_in_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    write([*grid()])
    seen = {digest(), digest(MediaShown(pictures=1)), digest(MediaShown(0, 3, True)), digest(MediaShown(0, 3, False))}
    assert len(seen) == 4
    with open_store(RESULTS, create=True) as store:
        store.add(varied("", True, TASKS[0], 7))
    seen.add(digest())
    with open_store(RESULTS, create=True) as store:
        store.end("a-run", "stopped")
    seen.add(digest())
    with monkeypatch.context() as patch:
        patch.setattr(summarise_module, "PAGES", 99)
        seen.add(digest())
    with monkeypatch.context() as patch:
        patch.setattr(summarise_module, "installed", lambda package: "9.9")
        seen.add(digest())
    assert len(seen) == 8
