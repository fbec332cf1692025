"""The report of how far the hand goes: beside the expert's where that is stored, in metres where it is not."""

import json
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import Trajectory
from pytest_vla.reports.economy import _MODELS, economy_blocks, make_economy
from pytest_vla.reports.json_schema import written
from pytest_vla.reports.loaded import load
from pytest_vla.reports.text import block_lines
from tests.support.reports import RESULTS, models_of, report, write
from tests.support.varied import varied


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def experts(seed: int) -> tuple[Record, Trajectory]:
    """Return a success of the expert's without the metric, whose hand moves half a metre."""
    rows = np.zeros((11, 3))
    rows[:, 0] = np.linspace(0, 0.5, 11)
    return varied("", True, seed=seed, policy="expert"), Trajectory(rows, rows, rows, np.zeros((10, 7)))


def test_successes_are_held_against_the_experts(capsys: pytest.CaptureFixture[str]) -> None:
    mine = [varied("", seed != 3, seed=seed, metrics={"hand_path": 0.6 + seed / 10}) for seed in range(5)]
    write([*mine, *(experts(seed) for seed in range(3))])
    (found,) = make_economy(load([], RESULTS))
    table = written(_MODELS, found)["economy"]
    assert (table["path"]["n"], table["ratio"]["n"]) == (4, 3)
    assert table["path"]["mean"] == pytest.approx(0.775)
    assert table["ratio"]["mean"] == pytest.approx(1.4)
    assert table["ratio"]["interval"][0] < 1.4 < table["ratio"]["interval"][1]
    text = " ".join("\n".join(block_lines(economy_blocks([found]))).split())
    assert "1 of 4 successful episodes" in text
    assert "run the same cases with --vla-model=expert" in text
    report("--format=json")
    assert json.loads(capsys.readouterr().out)["economy"]["path"] == "m, the hand's, of successes"
    assert any("economy" in model for model in models_of(capsys))


def test_without_the_expert_there_are_metres_alone() -> None:
    write([varied("", True, seed=seed, metrics={"hand_path": 1.0}) for seed in range(3)])
    (found,) = make_economy(load([], RESULTS))
    assert written(_MODELS, found)["economy"]["ratio"] is None
    assert "3 of 3 successful episodes" in " ".join(" ".join(block_lines(economy_blocks([found]))).split())


def test_of_failures_and_of_runs_that_did_not_ask_there_is_no_such_part() -> None:
    write([varied("", True, seed=0), varied("", False, seed=1, metrics={"hand_path": 1.0})])
    assert make_economy(load([], RESULTS)) == ()
