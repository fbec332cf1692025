"""`pytest-vla gate`: verdicts over runs and baselines of a store, exit codes, summaries, bad input."""

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.cli import main
from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.baseline_file import write_baseline
from pytest_vla.records.record import Record
from tests.support.kept_runs import write
from tests.support.varied import varied

FILE = Path("baseline.vla.json")


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def episodes(failures: int, number: int = 100, first: int = 0, **changes: Any) -> list[Record]:
    """Of ten tasks in turn; the last so many fail."""
    return [
        varied("", place < number - failures, task=f"task_{place % 10}", seed=first + place // 10, **changes)
        for place in range(number)
    ]


def call(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    capsys.readouterr()
    assert main(["gate", *arguments]) == code
    out, err = capsys.readouterr()
    return str(out), str(err)


def kept(failures: int = 0) -> None:
    write_baseline(baseline_of(episodes(failures)), FILE)


def test_a_run_that_does_the_same_passes(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", episodes(0, policy_digest="d" * 64))
    out, _ = call(capsys)
    assert out.splitlines()[-1] == "gate: no worse (margin 5 points, alpha 5% each way)"
    assert "libero_goal[benign]    100.0%  100.0%    +0.0  [-3.5, +3.5]  0/100   0/100  no worse" in out
    assert "random (policy dddddddd) against random of baseline.vla.json" in out
    assert "compared: the same cases; bounds are each way at 5%, over these tasks" in out


def test_a_regression_fails_and_names_what_was_lost(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", episodes(12))
    out, _ = call(capsys, code=1)
    assert out.splitlines()[-1] == "gate: regression (margin 5 points, alpha 5% each way)"
    assert "lost: libero_goal/task_0[seed9], libero_goal/task_1[seed9]," in out
    assert "and 2 more" in out


def test_undecided_passes_unless_more_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", episodes(3))
    out, _ = call(capsys)
    assert out.splitlines()[-1].startswith("gate: undecided")
    assert "more like these would settle it" in out
    call(capsys, "--require=no-worse", code=1)
    call(capsys, "--require=better", code=1)


def test_margin_alpha_and_groups_are_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", episodes(3))
    out, _ = call(capsys, "--margin=10", "--require=no-worse")
    assert out.splitlines()[-1] == "gate: no worse (margin 10 points, alpha 5% each way)"
    table = json.loads(call(capsys, "--margin=10", "--alpha=.01", "--by=suite,task", "--json")[0])
    assert table["terms"] == {"margin": 10.0, "alpha": 0.01, "by": ["suite", "task"]}
    assert len(table["groups"]) == 10
    group = table["groups"]["libero_goal[task_9]"]
    assert group["lost"] == ["libero_goal/task_9[seed9]"]
    assert group["evidence"]["pairs"] == 10
    assert group["evidence"]["points"] == pytest.approx(-10)


def test_a_run_is_compared_with_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    write("before", episodes(0, policy="a"))
    write("now", episodes(20, policy="b"))
    table = json.loads(call(capsys, "now", "--baseline=before", "--json", code=1)[0])
    assert (table["baseline"]["model"], table["run"]["model"]) == ("a", "b")
    assert table["verdict"] == "regression"
    assert table["is_paired"] is True


def test_other_seeds_are_compared_by_task(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", episodes(40, first=100))
    out, _ = call(capsys, code=1)
    assert "the same tasks from other seeds (no case is in both)" in out
    assert "lost" not in out.splitlines()[2]


def test_a_summary_is_appended_as_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", episodes(12))
    summary = Path("summary.md")
    summary.write_text("before\n", encoding="utf-8")
    call(capsys, f"--summary={summary}", code=1)
    text = summary.read_text(encoding="utf-8")
    assert text.startswith("before\n### gate: regression")
    assert "| libero\\_goal\\[benign\\] | 100.0% | 88.0% | -12.0 |" in text
    _, err = call(capsys, "--summary=no/such/folder.md", code=1)
    assert "--summary=no/such/folder.md" in err
    assert "expected a file to append to" in err


def test_errors_are_judged_and_not_refused(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    broken = [varied("", "error", task=f"task_{seed % 10}", seed=9) for seed in range(10)]
    write("new", [*episodes(0, number=90), *broken])
    out, _ = call(capsys)
    assert out.splitlines()[-1].startswith("gate: undecided")
    told = "errors: regression if all that broke had failed, no worse if all of it had succeeded"
    assert told in " ".join(out.split())
    assert "not counted: 10 of the run, 0 of the baseline" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--margin=0"], "margin 0: expected points of success above 0"),
        (["--margin=101"], "margin 101"),
        (["--alpha=.5"], "alpha 0.5: expected"),
        (["--by=suite,dimensions"], "Did you mean dimension"),
        (["--baseline=missing.json"], "missing.json"),
        (["--baseline=missing"], "missing"),
        (["nosuchrun"], "nosuchrun"),
    ],
)
def test_what_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], told: str) -> None:
    kept()
    write("new", episodes(0))
    out, err = call(capsys, *arguments, code=1)
    assert not out
    assert told in err


def test_a_run_that_has_not_ended_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    kept()
    write("new", episodes(0), planned=5)
    _, err = call(capsys, code=1)
    assert "run new has 100 of 105 episodes" in err
    call(capsys, "--allow-unfinished")


@pytest.mark.parametrize("text", ["x", "nan", "inf"])
def test_numbers_are_numbers(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with pytest.raises(SystemExit):
        main(["gate", f"--margin={text}"])
    assert f"'{text}': expected a number" in capsys.readouterr().err
