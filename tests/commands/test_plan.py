"""`pytest-vla plan`: what it prints, and bad input."""

import json
from pathlib import Path

import pytest

from pytest_vla.cli import main
from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.baseline_file import write_baseline
from pytest_vla.records.record import Record
from tests.support.kept_runs import write
from tests.support.varied import varied


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def episodes(failures: int, number: int = 100) -> list[Record]:
    """Of ten tasks in turn; the last so many fail."""
    return [
        varied("", place < number - failures, task=f"task_{place % 10}", seed=place // 10) for place in range(number)
    ]


def call(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert main(["plan", *arguments]) == code
    out, err = capsys.readouterr()
    return str(out), str(err)


def kept(failures: int = 10) -> None:
    write_baseline(baseline_of(episodes(failures)), Path("baseline.vla.json"))


@pytest.mark.slow
def test_it_says_how_many_episodes_a_group_takes(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    out, _ = call(capsys)
    assert "margin 5 points, alpha 5% per side, 1 group" in " ".join(out.split())
    row = next(line for line in out.splitlines() if line.startswith("libero_goal[benign]  "))
    assert row.split()[1:3] == ["10", "90.0%"]
    assert "100 episodes, as in the baseline: an equal policy is found no worse in" in out
    table = json.loads(call(capsys, "--json")[0])
    group = table["groups"]["libero_goal[benign]"]
    assert f"{group['no_worse'][0]:,}, {group['no_worse'][1]:,}" in row
    assert 200 < group["no_worse"][0] < group["no_worse"][1] < 1500
    assert 200 < group["regression"][0] < group["regression"][1] < 2000, "a drop of 10 points exceeds a margin of 5"
    assert table["pairs"] == "independent"


def test_a_run_of_another_checkpoint_says_how_often_pairs_differ(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("other", episodes(12))
    alone, seen = (json.loads(call(capsys, *some, "--json")[0]) for some in ((), ("other",)))
    assert seen["pairs"] == "seen"
    of = [table["groups"]["libero_goal[benign]"] for table in (alone, seen)]
    assert of[1]["differing"] < of[0]["differing"] / 2
    assert of[1]["no_worse"][1] < of[0]["no_worse"][0]


def test_groups_margin_and_drop_are_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    out, _ = call(capsys, "--by=suite,task", "--margin=20", "--drop=95")
    assert "10 groups" in out
    assert "drop of 95: regression" in out
    assert "success cannot fall by 95 points" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--drop=0",), "--drop=0: expected points of success above 0"),
        (("--margin=101",), "margin 101: expected points of success above 0"),
        (("--by=tasks",), "cannot group by 'tasks'"),
        (("--seed=-1",), "--seed=-1: expected 0 or more"),
        (("--baseline=missing.json",), "missing.json"),
    ],
)
def test_bad_input_is_told(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], told: str) -> None:
    kept()
    assert told in call(capsys, *arguments, code=1)[1]


def test_a_baseline_of_errors_alone_plans_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    write_baseline(baseline_of([varied("", "error")]), Path("baseline.vla.json"))
    assert "the baseline has no success or failure" in call(capsys, code=1)[1]


def test_a_run_that_was_asked_something_else_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("other", [varied("", True, task=f"task_{task}", replan=3) for task in range(10)])
    assert "ran under different conditions than the baseline: replan length" in call(capsys, "other", code=1)[1]
