"""Of each episode the first complete record counts: pytest's own ``--lf``, ``--ff`` and ``--sw`` change no rate."""

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np  # noqa: F401  # Before pytester, which would have it imported twice.
import pytest

from pytest_vla.cli import main
from pytest_vla.records.store import open_store
from pytest_vla.reports.loaded import load
from tests.support.drawing import DRAWING, drawing_in
from tests.support.runs import run_names
from tests.support.workers import ALONE

Run = Callable[..., pytest.RunResult]

STOVE = ("--vla-suite=libero_goal", "--vla-tasks=turn_on_the_stove")
MODEL = "--vla-model=drawing:policy"


@pytest.fixture
def draws(project: pytest.Pytester) -> Callable[..., None]:
    return drawing_in(project)


@ALONE
def test_the_last_failed_three_times_do_not_change_the_rate(
    vla: Run, project: pytest.Pytester, draws: Callable[..., None], workers: str,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    # Of ten that fail, five do not the second time, and three of the others not the third.
    lines = ["s"] * 10 + ["fs"] * 5 + ["ffs"] * 3 + ["fff"] * 2
    draws(*lines)
    seeds = "--vla-seeds=0-12,14-20"
    (project.path / "plan.txt").write_text("\n".join([*lines[:13], "s", *lines[13:]]))
    arguments = (*STOVE, MODEL, seeds, "--vla-min-success=0.5", workers)
    result = vla(*arguments)
    assert result.ret == 0
    result.stdout.fnmatch_lines(["libero_goal: 10/20 = 50.0% * >= 50%", "vla: passed (*)"])
    for picked, passed in ((10, 5), (5, 3), (2, 0)):
        result = vla(*arguments, "--lf")
        result.assert_outcomes(passed=passed, failed=picked - passed, deselected=0 if workers == "-n2" else 20 - picked)
        assert result.ret == pytest.ExitCode.TESTS_FAILED
        result.stdout.fnmatch_lines(
            [
                f"libero_goal * {picked} * 0/{picked} * 0.0%*",
                f"--lf selected {picked} episodes by earlier outcome; the rates cover only these. For {picked} the *",
                *([f"{passed} episode* failed at first and passed when run again*"] if passed else []),
                f"{picked} repeats of {picked} episodes, * {passed} (*) ended differently, {picked} (100.0%) *",
                f"libero_goal: 0/{picked} = 0.0% * < 50%",
            ]
        )
    monkeypatch.chdir(project.path)
    with open_store(Path(".vla"), create=False) as store:
        newest, *older = store.runs()
        assert (newest.picked, older[-1].picked) == ("--lf", None)
        assert [count.outcome for count in newest.counts] == ["failure"]
        last = newest.name
    # All runs together, and the picked one alone, count the first ones too.
    assert main(["export", "all", "-o", "all.csv"]) == 0
    rows = list(csv.DictReader(Path("all.csv").read_text().splitlines()))
    assert len(rows) == 37
    counting = [row["outcome"] for row in rows if row["counts"] == "true"]
    assert (len(counting), counting.count("success")) == (20, 10)
    assert main(["export", last, "-o", "last.csv"]) == 0
    assert [row["counts"] for row in csv.DictReader(Path("last.csv").read_text().splitlines())] == ["false", "false"]
    assert {record.run == last for record in load([last], Path(".vla")).records} == {True, False}
    capsys.readouterr()
    assert main(["runs"]) == 0
    assert re.search(rf"{last} .* 2/2 +0/2 +0.0% .* 2 \(0\) +finished, --lf\n", capsys.readouterr().out)
    assert main(["runs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["repeats"] == {
        "records": 2, "cases": 2, "other_outcome": 0, "other_digest": 2
    }  # fmt: skip


def test_a_changed_policy_starts_afresh(vla: Run, project: pytest.Pytester, draws: Callable[..., None]) -> None:
    draws("s", "f", "f")
    vla(*STOVE, MODEL, "--vla-seeds=0-2")
    draws("s", "s", "f")
    project.makepyfile(drawing=f"{DRAWING}\n# mended\n")
    result = vla(*STOVE, MODEL, "--vla-seeds=0-2", "--lf")
    result.stdout.fnmatch_lines(["libero_goal * 2 * 1/2 *", "--lf selected 2 episodes * the rates cover only these"])
    result = vla(*STOVE, MODEL, "--vla-seeds=0-2", "--lf")
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_full_run_shows_its_own_records(vla: Run, project: pytest.Pytester, draws: Callable[..., None]) -> None:
    draws("ss", "ff", "fs")
    vla(*STOVE, MODEL, "--vla-seeds=0-2")
    result = vla(*STOVE, MODEL, "--vla-seeds=0-2", "--vla-min-success=0.6")
    result.stdout.fnmatch_lines(["libero_goal * 3 * 2/3 *", "libero_goal: 2/3 * >= *", "vla: passed (*)"])
    assert "first record counts" not in result.stdout.str()
    first, second = run_names(project.path / ".vla")
    records = load([], project.path / ".vla").records
    assert [record.run for record in records] == [first] * 3 + [second] * 3
    # With --lf everything runs where nothing failed: that is a run as any other.
    draws("s", "s", "s")
    vla(*STOVE, MODEL, "--vla-seeds=0-2", "--cache-clear")
    result = vla(*STOVE, MODEL, "--vla-seeds=0-2", "--lf")
    result.assert_outcomes(passed=3)
    assert "by earlier outcome" not in result.stdout.str()


def test_of_a_policy_of_unknown_content_the_first_counts_and_it_is_told(vla: Run) -> None:
    """As of one that a server has."""
    vla(*STOVE, "--vla-model=random", "--vla-seeds=0-2")
    result = vla(*STOVE, "--vla-model=random", "--vla-seeds=0-2", "--lf")
    result.stdout.fnmatch_lines(["--lf selected * (run all episodes if the policy has changed since: *"])
    result = vla(*STOVE, "--vla-model=random", "--vla-seeds=0-2")
    assert "first record counts" not in result.stdout.str()


def test_step_by_step_a_failure_stays_one(vla: Run, draws: Callable[..., None]) -> None:
    draws("ss", "fs", "ss")
    arguments = (*STOVE, MODEL, "--vla-seeds=0-2", "--sw")
    result = vla(*arguments)
    assert "by earlier outcome" not in result.stdout.str()
    result = vla(*arguments)
    result.assert_outcomes(passed=2, deselected=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["libero_goal * 2 * 1/2 *", "--sw selected 2 episodes *. For 1 the result of the earlier run counts*"]
    )


def test_own_tests_that_failed_last_time(vla: Run, project: pytest.Pytester, draws: Callable[..., None]) -> None:
    """A policy that had more luck does not pass; a test that was mended does, where the episode is the same."""
    test = """
        import pytest

        @pytest.mark.vla(suite="libero_goal", tasks="turn_on_the_stove")
        def test_it(rollout):
            assert rollout.success
        """
    project.makepyfile(test_mine=test)
    draws("fs")
    assert vla("test_mine.py", MODEL).ret == pytest.ExitCode.TESTS_FAILED
    result = vla("test_mine.py", MODEL, "--lf")
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["1 episode failed at first and passed when run again; the first result counts"])
    project.makepyfile(test_mine=test.replace("rollout.success", "not rollout.success"))
    vla("test_mine.py", "--vla-model=policies:straight", "--cache-clear").assert_outcomes(failed=1)
    project.makepyfile(test_mine=test)
    result = vla("test_mine.py", "--vla-model=policies:straight", "--lf")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["--lf selected 1 episode *", "1 repeat of 1 episode, *"])


def test_what_raised_the_first_time_gains_nothing(vla: Run, draws: Callable[..., None]) -> None:
    draws("s", "es")
    arguments = (*STOVE, MODEL, "--vla-seeds=0-1", "--vla-min-success=0.5")
    assert vla(*arguments).ret == pytest.ExitCode.TESTS_FAILED
    result = vla(*arguments, "--lf")
    result.assert_outcomes(passed=1, deselected=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*1 episode succeeded by a retry *", "libero_goal: 0/1 = 0.0% *"])
    result = vla("libero_goal::test_episode[turn_on_the_stove-seed1]", *arguments[:2], *arguments[2:3], arguments[-1])
    assert result.ret == pytest.ExitCode.TESTS_FAILED, "nor does its id, pasted"
