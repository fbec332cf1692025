"""LIBERO-PRO's part of the report: the paper's columns for people, and all of it for programs."""

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.records.record import Record
from tests.support.libero_pro import RECORDS, record
from tests.support.reports import models_of, report, write

OBJECT, MILK = "libero_object", "pick_up_the_milk_and_place_it_in_the_basket"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_VLA_DATA", raising=False)


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
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    start = lines.index("=== random: LIBERO-PRO ===")
    assert "note: run a-run has 20 of 22 episodes: the others are not in it" in lines[start:]
    assert "unavailable to 2 episodes: alphabet_soup has no files" in lines[start:]
    assert "in no rate of libero_goal, Obj: 1 policy-raised; with them 80.0% to 100.0%" in lines[start:]
    assert "libero_goal, Task: 1 of 2 tasks" in lines[start:]
    head = next(i for i in range(start, len(lines)) if lines[i].split() == ["Ori", "Obj", "Pos", "Sem", "Task", "Env"])
    assert [line.split() for line in lines[head + 1 : head + 7]] == [
        ["libero_goal", "1.00", "1.00", "0.25", "-", "0.00", "-"],
        ["[0.51,", "1.00]", "[0.51,", "1.00]", "[0.05,", "0.70]", "[0.00,", "0.79]"],
        ["4/4", "4/4", "1/4", "0/1"],
        ["libero_object", "-", "-", "0.00", "-", "-", "-"],
        ["[0.00,", "0.79]"],
        ["0/1"],
    ]
    by_task = lines.index("libero_goal, by task", start)
    assert lines[by_task + 3].split() == ["turn_on_the_stove", "1.00", "4/4", "1.00", "4/4", "0.25", "1/4", *"---"]
    sweep = lines.index("Objects displaced along an axis, success, %", start)
    assert lines[sweep + 1].split() == ["0.1", "m", "0.2", "m", "0.5", "m"]
    assert lines[sweep + 2].split() == ["libero_goal", "displace_x", "100.0", "100.0", "0.0"]
    together = lines.index("Changes made together", start)
    assert lines[together + 2].split()[:4] == ["libero_goal", "swap-object", "1", "100.0"]


def test_all_of_it_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    write(records(), planned=2)
    report("--format=json")
    whole = json.loads(capsys.readouterr().out)
    (model,) = whole["libero_pro"]
    assert set(model) == {"model", "suites", "left_out", "unavailable"}
    assert model["unavailable"] == {"alphabet_soup has no files": 2}
    assert model["left_out"] == ["run a-run has 20 of 22 episodes: the others are not in it"]
    goal, objects = model["suites"]
    assert set(goal) == {"suite", "columns", "tasks", "sweeps", "combined"}
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
        [(1, 100), (2, 100), (5, 0)],
    )
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
