"""LIBERO-PRO's part of the report: the paper's columns for people, and all of it for programs."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import Trajectory
from tests.support.golden import check_golden
from tests.support.libero_pro import RECORDS, record
from tests.support.looking import AT, ELSEWHERE, PLACE, line
from tests.support.reports import models_of, report, write

OBJECT, MILK = "libero_object", "pick_up_the_milk_and_place_it_in_the_basket"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def drawn(record: Record, **parameters: Any) -> Record:
    record.variation["parameters"].update(parameters)
    return record


def walked(end: Sequence[float], seed: int) -> Trajectory:
    path, none = line(end, wobble=0.002, seed=seed), np.zeros((80, 0))
    return Trajectory(none, none, path, np.zeros((79, 7)))


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


# The figures, for --paper=libero-pro.


def figures(capsys: pytest.CaptureFixture[str]) -> dict[str, list[list[Any]]]:
    """The rows of records by table."""
    report("--format=json", "--paper=libero-pro")
    found = json.loads(capsys.readouterr().out)["paper"]["tables"]
    return {each["table"]: [row["cells"] for row in each["rows"] if row["from"] == "own"] for each in found}


def displaced(x: float, y: float, ok: bool, seed: int = 0, task: str = "turn_on_the_stove") -> Record:
    label = f"pro.displace_map.{round(10 * x)}_{round(10 * y)}".replace("-", "m")
    return drawn(
        record(label, seed, "success" if ok else "failure", task=task, kind="displace_map"), displacement=[x, y]
    )


def test_displacements_are_compared_on_the_tasks_that_have_all_of_a_side(capsys: pytest.CaptureFixture[str]) -> None:
    made = [record("", 0, "success"), record("", 0, "success", task="other")]
    made += [displaced(x, 0, abs(x) < 0.15) for x in (-0.2, -0.1, 0.1, 0.2)]
    made += [displaced(0.1, 0, False, task="other"), displaced(0.1, -0.3, True, task="other")]
    write(made)
    found = figures(capsys)
    assert found["fig6"] == [
        ["x", "both", "random", 1, 1.0, 1.0, 0.0, None, None, None],
        ["x", "either", "random", 1, 1.0, 1.0, 0.0, None, None, None],
        ["x", "+", "random", 1, 1.0, 1.0, 0.0, None, None, None],
        ["x", "-", "random", 1, 1.0, 1.0, 0.0, None, None, None],
    ]
    places = {row[1]: row[2:] for row in found["fig6-map"]}
    assert list(places) == [f"{tenths / 10:+.1f}" for tenths in range(-5, 6)]
    assert places["+0.0"] == [None, None, None, 0.0, 1.0, 1.0, 0.5, 0.0, None, None, None]
    assert places["-0.3"] == [*[None] * 6, 1.0, *[None] * 4]


def test_both_goals_are_compared_with_each_alone_on_the_same_starts(capsys: pytest.CaptureFixture[str]) -> None:
    made = [record("", seed, "success") for seed in range(4)]
    made += [record("pro.composed.second", seed, "success", kind="composed_second") for seed in range(3)]
    made += [
        record("pro.composed.both", seed, "success" if seed else "failure", kind="composed_both") for seed in (0, 1, 3)
    ]
    write(made)
    assert figures(capsys)["fig7"] == [["libero_goal", "random", 2, 1.0, 1.0, 0.5]]


def test_paths_are_compared_with_the_twins_under_every_kind_of_change(capsys: pytest.CaptureFixture[str]) -> None:
    """It goes elsewhere where the object is moved, and nowhere else."""
    ends = {
        "pro.unrelated": PLACE,
        "pro.swap": ELSEWHERE,
        "layout.removed": PLACE,
        "language.nonsense": PLACE,
        "object.colour-L1": PLACE,
        "object.mass-L1": ELSEWHERE,
        "camera.orbit-L1": ELSEWHERE,
    }
    made = []
    for seed in range(3):
        made.append((record("", seed, "success"), walked(PLACE, seed)))
        for label, end in ends.items():
            one = record(label, seed, "failure" if end == ELSEWHERE else "success")
            changes = {"metrics": {**one.metrics, **AT}} if label == "layout.removed" else {}
            made.append((dataclasses.replace(one, **changes), walked(end, seed + 10)))
    write(made)
    found = figures(capsys)
    rows = {row[0]: row[1:] for row in found["fig1"]}
    assert list(rows) == [
        "similar object",
        "unrelated object",
        "object moved",
        "object removed",
        "nonsense instruction",
    ]
    assert {row[1] for row in rows.values()} == {3}
    assert rows["object moved"][2] > 10 > rows["unrelated object"][2], "cm"
    assert rows["object moved"][4] == 0.0
    assert rows["object removed"][5] == 100.0
    success = {row[0]: row[2:] for row in found["fig2"]}
    assert success["unrelated object"] == [3, 1.0, 1.0, 0.0]
    assert success["object moved"] == [3, 1.0, 0.0, -1.0]
    assert success["object removed"][2:] == [None, None]
