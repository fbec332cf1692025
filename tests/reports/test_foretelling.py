"""The report of whether metrics foretell failure: its table, its JSON, and what it leaves out."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.metrics.alarms import AlarmRule
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import Trajectory
from pytest_vla.reports.blocks import cell_text
from pytest_vla.reports.foretelling import _MODELS, foretelling_blocks, make_foretold
from pytest_vla.reports.html.parts import page_blocks
from pytest_vla.reports.json_schema import written
from pytest_vla.reports.loaded import Loaded, load
from pytest_vla.reports.text import block_lines
from tests.support.reports import RESULTS, models_of, report, write
from tests.support.varied import varied

STEPS = 300
"""The step budget of these records' suite."""


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def watched(seed: int, done: bool, level: float, steps: int = STEPS, still: float = 0.0) -> tuple[Record, Trajectory]:
    record = varied("", done, seed=seed, metrics={"token_entropy": level, "static_robot": still})
    series = {"token_entropy": np.full(steps, level), "token_entropy.paper": np.zeros(steps)}
    rows = np.zeros((steps + 1, 3))
    return record, Trajectory(rows, rows, rows, np.zeros((steps, 7)), series)


def a_run() -> Loaded:
    episodes = [watched(seed, done=seed % 2 == 0, level=0.5 if seed % 2 == 0 else 0.8) for seed in range(8)]
    episodes += [watched(seed, True, 0.9, steps=40) for seed in range(8, 12)]
    write([*episodes, watched(12, False, 0.8, still=1.0)])
    return load([], RESULTS)


def test_a_table_by_metric_and_moment() -> None:
    (found,) = make_foretold(a_run())
    assert (found.episodes, found.static) == (13, 1)
    early, middle, late = written(_MODELS, found)["foretelling"]
    assert (early["metric"], early["moment"], early["failures"], early["successes"]) == ("token_entropy", 0.1, 5, 8)
    # Those that are soon done were less sure than any.
    assert early["auroc"] == 0.5
    assert (middle["over"], middle["successes"], middle["auroc"]) == (4, 4, 1.0)
    assert middle["interval"][0] < 0.7
    assert late["tasks_interval"] is None
    text = " ".join("\n".join(block_lines(foretelling_blocks([found]))).split())
    assert "metric at 10% at 25% at 50% token_entropy 0.50 [" in text
    assert "1 of 13 episodes are of a robot that stood still" in text
    assert "5 and 8 at 10%, 5 and 4 at 25%" in text
    assert "token_entropy.paper" not in text
    assert "3 comparisons of metrics and moments: the best of them, picked by eye" in text


def test_it_is_a_part_of_the_report(capsys: pytest.CaptureFixture[str]) -> None:
    a_run()
    report("--format=json")
    table = json.loads(capsys.readouterr().out)
    assert table["foretelling"]["moments"] == [0.1, 0.25, 0.5]
    (model,) = models_of(capsys)
    assert len(model["foretelling"]) == 3
    assert [each["alpha"] for each in model["conformal"]] == [0.05, 0.1, 0.2]
    assert (model["confidence"], model["stop_when"]) == ([], None)


def test_an_alarm_is_judged_on_the_seeds_that_it_was_not_made_of(capsys: pytest.CaptureFixture[str]) -> None:
    episodes = [watched(seed, True, 0.1 + seed / 1000, steps=60) for seed in range(40)]
    episodes += [watched(seed, False, 0.8) for seed in range(40, 48)]
    write(episodes)
    (found,) = make_foretold(load([], RESULTS))
    told = next(each for each in written(_MODELS, found)["conformal"] if each["alpha"] == 0.1)
    # Of 20 successes of even seeds the 19th.
    assert (told["calibrating"], told["threshold"]) == (20, pytest.approx(0.136))
    held = told["held_out"]
    assert (held["successes"], held["cut"]["share"]) == (20, pytest.approx(2 / 20))
    assert (held["failures"], held["caught"]["share"], held["in_time"]["share"]) == (4, 1.0, 1.0)
    assert held["lead"] == STEPS - 1
    text = " ".join("\n".join(block_lines(foretelling_blocks([found]))).split())
    assert "metric threshold cut caught in time lead token_entropy 0.136 10% [" in text
    assert "judged by 20 successes and 4 failures" in text
    assert (held["within"]["tasks"], held["within"]["cut"], held["within"]["in_time"]) == (1, 0.1, 1.0)
    assert held["within"]["more"] == pytest.approx(0.9)
    (task,) = held["by_task"]
    assert (task["failures"], task["caught"], task["successes"], task["cut"]) == (4, 4, 20, 2)
    assert (
        "metric, within tasks cut caught in time more in time than cut tasks token_entropy 10% 100% 100% +90 [" in text
    )
    assert "Most is cut, of the task's held-out successes: in turn_on_the_stove: token_entropy 2 of 20" in text
    (alarms,) = (block for block in page_blocks(foretelling_blocks([found])) if block.title.endswith("alarms"))
    table, _ = alarms.tables
    row = next(row for row in table.rows if row[1] == 0.1)
    assert len(row) == len(table.columns)
    assert cell_text(row[-2], table.columns[-2]).startswith("+90 [")
    assert row[-1] == "turn_on_the_stove: 2 of 20"


def test_too_few_successes_for_a_threshold_are_told() -> None:
    (found,) = make_foretold(a_run())
    text = " ".join("\n".join(block_lines(foretelling_blocks([found]))).split())
    assert "thresholds of 6 successful episodes: 10% needs 9 different tasks and seeds with a success" in text


def test_what_stopping_by_a_rule_would_have_done(capsys: pytest.CaptureFixture[str]) -> None:
    a_run()
    report("--stop-when=token_entropy>0.7 for 10")
    text = " ".join(capsys.readouterr().out.split())
    assert "had it been stopped when token_entropy>0.7 for 10: 100% [" in text
    assert "of 8 successes cut; lead 290;" in text
    assert "within tasks, the mean of 1 task with failures and successes: 100% caught" in text
    assert "cut by task: 50% to 50% of its successes, the most in turn_on_the_stove (4 of 8)" in text
    (model,) = models_of(capsys, "--stop-when=token_entropy>0.7 for 10")
    assert model["stop_when"]["cut"]["share"] == 0.5
    with pytest.raises(VlaError, match=r"no episode has a series of execution_variability\. There are token_ent"):
        report("--stop-when=EV>0.7")
    with pytest.raises(SystemExit):
        report("--stop-when=token_entropy")
    assert "expected >, >=, < or <= after token_entropy" in capsys.readouterr().err


def test_the_policys_confidence_has_a_reliability_table(capsys: pytest.CaptureFixture[str]) -> None:
    def sure(seed: int, done: bool) -> tuple[Record, Trajectory]:
        record, trajectory = watched(seed, done, 0.5)
        return record, trajectory.with_series({"token_probability.paper": np.full(STEPS, 0.25)})

    write([sure(seed, seed % 2 == 0) for seed in range(8)])
    (model,) = models_of(capsys)
    early, *_ = model["confidence"]
    assert (early["moment"], early["episodes"], early["brier"], early["base"]) == (0.1, 8, 0.3125, 0.25)
    (one,) = early["bins"]
    assert (one["low"], one["confidence"], one["success"], early["error"]) == (0.7, 0.75, 0.5, 0.25)
    report()
    assert "is the policy's own confidence worth its face value?" in capsys.readouterr().out


def windowed(seed: int, done: bool, steps: int, budget: int = 60) -> tuple[Record, Trajectory]:
    """Never calm, but for the seven zeros that upstream begins with."""
    record = varied("", done, seed=seed, metrics={"action_position_instability": 0.2})
    rows, series = np.zeros((steps + 1, 3)), np.where(np.arange(steps) < 7, 0.0, 0.2 + seed / 1000)
    trajectory = Trajectory(rows, rows, rows, np.zeros((steps, 7)), {"action_position_instability": series})
    return replace(record, protocol={**record.protocol, "max_steps": budget}), trajectory


def test_a_window_that_is_not_full_has_no_value(capsys: pytest.CaptureFixture[str]) -> None:
    write([windowed(seed, seed % 2 == 0, 50 if seed % 2 == 0 else 60) for seed in range(8)])
    (model,) = models_of(capsys, "--stop-when=A-PI<0.1 for 5")
    assert (model["stop_when"]["caught"]["share"], model["stop_when"]["cut"]["share"]) == (0, 0)
    early, middle, _ = model["foretelling"]
    # 10% of 60 steps are 6.
    assert (early["auroc"], early["failures"], early["unknown"]) == (None, 0, 8)
    assert (middle["failures"], middle["successes"], middle["unknown"]) == (4, 4, 0)
    text = " ".join("\n".join(block_lines(foretelling_blocks(make_foretold(load([], RESULTS))))).split())
    assert "no value yet at 10%, of 8 episodes that run still: action_position_instability" in text
    (model,) = models_of(capsys, "--stop-when=A-PI<0.3 for 5")
    assert model["stop_when"]["lead"] == 60 - 12


def test_each_row_has_its_own_counts() -> None:
    episodes = [watched(seed, seed % 2 == 0, 0.5) for seed in range(8)]
    further = np.full(STEPS, 0.5)
    more = [(record, trajectory.with_series({"optimal_trajectory": further})) for record, trajectory in episodes[:6]]
    write([*more, *episodes[6:]])
    text = " ".join("\n".join(block_lines(foretelling_blocks(make_foretold(load([], RESULTS))))).split())
    assert "still running: 4 and 4 at 10%, 4 and 4 at 25%, 4 and 4 at 50%; of fewer" in text
    assert "of optimal_trajectory: 3 and 3 at 10%, 3 and 3 at 25%, 3 and 3 at 50%" in text
    assert "of one task: 16 at 10%, 16 at 25%, 16 at 50%" in text
    assert "of optimal_trajectory: 9 at 10%, 9 at 25%, 9 at 50%" in text


def test_step_budgets_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """Check that a clock, which knows only the budget, predicts nothing: all episodes of the longer budget fail."""
    episodes = []
    for seed in range(16):
        short = seed < 8
        record, trajectory = windowed(seed, seed % 8 < (5 if short else 3), 60, 60 if short else 120)
        series = {"token_entropy": np.full(60, 0.1 if short else 0.9)}
        metrics = {"token_entropy": 0.5}
        episodes.append((replace(record, metrics=metrics), replace(trajectory, series=series)))
    write(episodes)
    found = make_foretold(load([], RESULTS))
    assert [(each.budget, each.episodes) for each in found] == [("60 steps", 8), ("120 steps", 8)]
    assert "libero_goal, a budget of 120 steps ===" in "\n".join(block_lines(foretelling_blocks(found)))
    models = [model for model in models_of(capsys) if "foretelling" in model]
    assert [model["protocol"] for model in models] == ["60 steps", "120 steps"]
    areas = [row["auroc"] for model in models for row in model["foretelling"] if row["auroc"] is not None]
    assert areas
    assert set(areas) == {0.5}


def test_without_series_there_is_no_such_part() -> None:
    write([varied("", True, seed=0, metrics={"token_entropy": 0.5}), varied("", True, seed=1)])
    assert make_foretold(load([], RESULTS)) == ()
    with pytest.raises(VlaError, match="Run with --vla-metrics, which keeps them"):
        make_foretold(load([], RESULTS), AlarmRule("token_entropy", ">", 0.5))
