"""The line on the doctor: after which runs it is printed, and that its command can be copied."""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.plan.manifests import load_suite, suite_with
from pytest_vla.records.record import Record
from pytest_vla.run.hints import LEAST_EPISODES, doctor_hint
from pytest_vla.run.settings import Settings
from tests.support.records import record_of
from tests.support.settings import settings_of
from tests.support.varied import varied


def at(seed: int, outcome: str = "failure", suite: str = "libero_goal") -> Record:
    """Return a record of a suite's own item."""
    return record_of(seed, outcome, suite=suite, node=f"{suite}::test_episode[turn_on_the_stove-seed{seed}]")


FAILED = [record_of(seed) for seed in range(LEAST_EPISODES)]


def settings(model: str = "mine:policy", **values: Any) -> Settings:
    return settings_of(model=model, **values)


def command(line: str) -> list[str]:
    """Return the words of the one command in a line."""
    assert "\n" not in line
    return shlex.split(line.split("`")[1])


def test_a_suite_without_a_success_names_the_command() -> None:
    line = doctor_hint(FAILED, settings())
    assert command(line) == ["pytest-vla", "doctor", "--vla-model=mine:policy", "--vla-suite=libero_goal"]
    assert f"0 of {LEAST_EPISODES} " in line


def test_the_command_repeats_what_the_run_was_given_and_is_quoted() -> None:
    model = "mine:policy?ckpt=a b&name=it's $(here)"
    line = doctor_hint(
        FAILED,
        settings(model, tasks=("turn_on*", "a b"), replan=5, evaluator="openpi", data=Path("my data"), device=("cpu",)),
    )
    assert set(command(line)[2:]) == {
        f"--vla-model={model}",
        "--vla-suite=libero_goal",
        "--vla-tasks=turn_on*,a b",
        "--vla-replan=5",
        "--vla-evaluator=openpi",
        "--vla-data=my data",
        "--vla-device=cpu",
    }


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(FAILED[1:], id="too few"),
        pytest.param([*FAILED, record_of(90, "success")], id="a success"),
        pytest.param([*FAILED[1:], *(record_of(seed, "error") for seed in range(40, 80))], id="errors"),
        pytest.param([*FAILED[1:], *(record_of(seed, "invalid") for seed in range(40, 80))], id="invalid"),
        pytest.param([varied("light", False, "turn_on_the_stove", seed) for seed in range(40)], id="varied"),
        pytest.param([record_of(seed, node="test_mine.py::test_it") for seed in range(40)], id="own tests"),
        pytest.param([at(seed, suite="gone") for seed in range(40)], id="a suite that is gone"),
        pytest.param([], id="nothing"),
    ],
)
def test_other_runs_have_no_line(records: list[Any]) -> None:
    assert doctor_hint(records, settings()) == ""


@pytest.mark.parametrize("model", ["expert", "expert?careful=no", "random", "replay:a.npz", "live:1"])
def test_policies_that_cannot_be_examined_have_no_line(model: str) -> None:
    assert doctor_hint(FAILED, settings(model)) == ""


def test_a_suite_with_a_world_of_its_own_has_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    suite = suite_with(load_suite("libero_goal"), lambda task: dataclasses.replace(task, world=lambda *_: None))  # type: ignore[arg-type]
    monkeypatch.setattr("pytest_vla.plan.manifests.load_suite", lambda name, data=None: suite)
    assert doctor_hint(FAILED, settings()) == ""


def test_a_policy_of_a_similar_name_has_a_line() -> None:
    assert doctor_hint(FAILED, settings("randomly:policy"))


def test_one_line_is_enough() -> None:
    """Check a run with two suites: the first one that has no success is named."""
    others = [at(seed, "success", "libero_10") for seed in range(30)]
    spatial = [at(seed, suite="libero_spatial") for seed in range(30)]
    assert command(doctor_hint([*others, *spatial, *FAILED], settings()))[-1] == "--vla-suite=libero_spatial"
