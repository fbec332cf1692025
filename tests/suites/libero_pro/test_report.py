"""LIBERO-PRO's part of the report: the paper's columns for people, and all of it for programs."""

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.records.record import Record
from tests.support.golden import check_golden
from tests.support.libero_pro import RECORDS, record
from tests.support.reports import models_of, report, write

OBJECT, MILK = "libero_object", "pick_up_the_milk_and_place_it_in_the_basket"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def drawn(record: Record, **parameters: Any) -> Record:
    record.variation["parameters"].update(parameters)
    return record


def records() -> list[Record]:
    return [
        *RECORDS,
        *(record(f"pro.displace_x-L{level}", 0, "success" if level < 3 else "failure") for level in (1, 2, 5)),
        record("pro.combined.swap-object", 0, "success"),
        drawn(record("pro.object", 5, "success"), unavailable=["alphabet_soup has no files"]),
        drawn(record("pro.object", 6, "success"), unavailable=["alphabet_soup has no files"]),
    ]


def test_the_papers_table_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    write(records(), planned=2)
    report()
    text = capsys.readouterr().out
    check_golden(Path(__file__).with_name("golden") / "report.txt", text)
    assert max(map(len, text.splitlines())) <= 100


def test_all_of_it_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    write(records(), planned=2)
    report("--format=json")
    whole = json.loads(capsys.readouterr().out)
    (model,) = whole["libero_pro"]
    assert set(model) == {"model", "suites", "left_out", "unavailable"}
    assert model["unavailable"] == {"alphabet_soup has no files": 2}
    assert model["left_out"] == ["run a-run has 22 of 24 episodes: the others are not in it"]
    goal, objects = model["suites"]
    assert set(goal) == {"suite", "columns", "tasks", "sweeps", "replaced", "combined"}
    assert list(goal["columns"]) == ["Ori", "Obj", "Pos", "Sem", "Task", "Env"]
    position = goal["columns"]["Pos"]
    assert (position["n"], position["sr"], position["tasks"]) == (4, 25, 1)
    assert position["interval"] == [pytest.approx(4.56, abs=0.01), pytest.approx(69.94, abs=0.01)]
    assert goal["columns"]["Obj"]["errors"] == {"policy-raised": 1}
    assert goal["columns"]["Sem"] is None
    assert [(task["name"], task["columns"]["Task"] is None) for task in goal["tasks"]] == [
        ("put_the_bowl_on_the_plate", False),
        ("turn_on_the_stove", True),
    ]
    (sweep,) = goal["sweeps"]
    assert (sweep["kind"], [(each["level"], each["sr"]) for each in sweep["levels"]]) == (
        "displace_x",
        [(0, 100), (1, 100), (2, 100), (5, 0)],
    )
    assert (goal["replaced"]["n"], goal["replaced"]["sr"], objects["replaced"]) == (4, 50, None)
    assert [(each["name"], each["n"], each["sr"]) for each in goal["combined"]] == [("swap-object", 1, 100)]
    assert (objects["suite"], objects["columns"]["Pos"]["sr"], objects["sweeps"]) == (OBJECT, 0, [])
    assert [task["name"] for task in objects["tasks"]] == [MILK]


def test_without_its_variations_there_is_no_such_part(capsys: pytest.CaptureFixture[str]) -> None:
    write([record("", 0, "success"), record("camera.orbit-L1", 0, "failure")])
    assert all("libero_pro" not in model for model in models_of(capsys))
    report("--format=json")
    assert set(json.loads(capsys.readouterr().out)) == {"schema", "robustness", "models", "notes"}
    report()
    assert "LIBERO-PRO" not in capsys.readouterr().out
