"""The lines before a long table: success, the largest losses, the episodes in no rate."""

import dataclasses
import re
from pathlib import Path

import pytest

from pytest_vla.metrics.robustness import twin_pairs, varied_models
from pytest_vla.metrics.robustness_curves import most_harmful
from pytest_vla.plan.costs import Charge
from pytest_vla.records.record import Record
from pytest_vla.reports.terminal import FEWEST_ROWS, SummaryLine, closing_lines, first_lines
from tests.support.robustness import curves_of, run_of
from tests.support.varied import varied

TASKS = [f"task_{number}" for number in range(FEWEST_ROWS)]


def benign(successes: int, of: int = 4, tasks: list[str] = TASKS) -> list[Record]:
    return [each for task in tasks for each in run_of("", [True] * successes + [False] * (of - successes), task)]


def texts(records: list[Record], width: int | None = None) -> list[str]:
    return [told.text for told in first_lines(records, width)]


def test_a_short_table_needs_nothing_before_it() -> None:
    assert first_lines([], None) == ()
    assert first_lines(benign(2, tasks=TASKS[:-1]), None) == ()


def test_tasks_that_fail_most_are_named() -> None:
    records = benign(4, tasks=TASKS[:-4])
    for successes, task in zip((3, 0, 1, 2), TASKS[-4:], strict=True):
        records += benign(successes, tasks=[task])
    success, lost, broke = texts(records)
    assert re.fullmatch(r"success: 30/40 = 75\.0% \[[\d.]+%, [\d.]+%\] in libero_goal", success)
    assert lost == "lowest success: task_7 0/4, task_8 1/4, task_9 2/4 and 1 more; 6 of 10 tasks always succeeded"
    assert broke == "no errors: all 40 episodes succeeded or failed"
    assert max(map(len, texts(records, 60))) <= 60


def test_where_all_succeed_nothing_is_lost() -> None:
    assert [text.partition(":")[0] for text in texts(benign(4))] == ["success", "no errors"]


def test_where_all_tasks_fail_alike_none_is_named() -> None:
    assert [text.partition(":")[0] for text in texts(benign(0))] == ["success", "no errors"]


def test_what_broke_is_in_no_rate() -> None:
    records = benign(4)
    records[0] = dataclasses.replace(records[0], outcome="error", reason="policy-raised")
    records[1] = dataclasses.replace(records[1], outcome="error", reason="policy-raised")
    records[2] = dataclasses.replace(records[2], outcome="invalid", reason="infeasible")
    told = first_lines(records, None)
    assert told[0].text.startswith("success: 37/37 = 100.0% ")
    assert told[-1] == SummaryLine("not in the rates: 2 policy-raised, 1 infeasible", "bad")
    all_broken = [dataclasses.replace(each, outcome="error", reason="timeout") for each in benign(4)]
    assert texts(all_broken) == ["success: no counted episode in libero_goal", "not in the rates: 40 timeout"]


def test_the_most_harmful_dimension_is_the_reports() -> None:
    """Check that the dimension equals that of the report's curves, with the twins' number beside it."""
    records = benign(3)
    for task in TASKS:
        records += run_of("camera.distance-L1", [False] * 4, task) + run_of("light.dim-L1", [True] * 4, task)
    success, lost, _ = first_lines(records, None)
    assert success.text.startswith("success, benign: 30/40 = 75.0% ")
    _, harm, _ = curves_of(records)
    (model,) = varied_models(records)
    pairs, _ = twin_pairs(model)
    assert harm is not None
    assert (harm, harm.why) == (most_harmful(pairs), "")
    assert re.fullmatch(
        r"largest loss: camera, 0/40 vs 30/40 for the benign twins, -75\.0 \[-[\d.]+, -[\d.]+\] points", lost.text
    )
    assert lost.tone == "bad"


def test_what_is_not_told_apart_is_said() -> None:
    records = benign(4)
    for task in TASKS:
        records += run_of("camera.distance-L1", [False, True, True, True], task)
        records += run_of("light.dim-L1", [True, False, True, True], task)
    _, lost, _ = first_lines(records, None)
    assert lost.text.endswith("points (not distinguishable from light)")
    assert lost.tone == "plain"


@pytest.mark.parametrize("ends", [[True, True, False, False], [True, True, True, False]])
def test_where_nothing_was_lost_no_loss_is_told(ends: list[bool]) -> None:
    records = benign(2)
    for task in TASKS:
        records += run_of("camera.distance-L1", ends, task)
    _, lost, _ = first_lines(records, None)
    assert not re.search("largest|points", lost.text)
    assert (lost.text.startswith("no dimension lost"), lost.tone) == (True, "plain")


def test_no_rate_is_over_several_variations() -> None:
    records = [varied("camera.distance-L1", True, task) for task in TASKS]
    assert texts(records)[0] == "success: no overall rate, as every episode is varied"
    assert len(texts(records)) == 2, "without twins nothing is known of what was lost"


def test_a_varied_run_folds_to_kinds_unless_v() -> None:
    """Ten tasks under 16 kinds at five levels, with costs: 800 varied episodes in 25 lines."""
    records = benign(1, of=1)
    for kind in range(16):
        for level in range(1, 6):
            for number, task in enumerate(TASKS):
                label = f"noise.kind_{kind:02}-L{level}"
                records += [varied(label, number > kind, task=task, costs=(Charge("sideways", kind + 1.0, 1),))]
    short, long = (closing_lines(records, Path(".vla/run"), [], "pytest", verbosity, None) for verbosity in (0, 1))
    lines = [line.text for line in short]
    assert len(lines) <= 25
    assert not any(line.strip().startswith("task_") for line in lines)
    kinds = [line.split()[0] for line in lines if line.startswith("  noise.")]
    assert kinds == [f"noise.kind_{kind:02}" for kind in range(6, 16)], "the lowest, without levels"
    assert "  6 more, not the lowest (-v has all)" in lines
    costs = [line.split()[3] for line in lines if line.startswith("cost of ")]
    assert costs == ["noise.kind_14:", "noise.kind_15:"]
    assert any(line.text.strip().startswith("task_") for line in long)
