"""A language report's text and JSON where there is little to say, or two answers."""

import json

import numpy as np

from pytest_vla.metrics.failure_types import THRESHOLDS, FailureTypes, Judgement, Reference
from pytest_vla.metrics.language_paths import Failures, Shares, TaskFailures
from pytest_vla.metrics.listening import Estimate
from pytest_vla.metrics.success import success_rate
from pytest_vla.reports.language import LanguageReport, ModelResults, report_lines, report_table


def judgement(near: int, far: int) -> Judgement:
    levels = ("near",) * near + ("far",) * far
    return Judgement(
        "exact", (1.0, 2.0), (1.0,) * (near + far), dict.fromkeys(THRESHOLDS, 2.0), dict.fromkeys(THRESHOLDS, levels)
    )


def results(failures: Failures | None) -> LanguageReport:
    nothing = success_rate("varied", [])
    model = ModelResults("m", "s", ("a-run",), (), None, nothing, None, {}, failures, None, ("one thing",))
    return LanguageReport("", False, {"published": "it was not given"}, 0.5, 0, (model,))


def test_a_label_that_differs_is_there_by_both_distances() -> None:
    path = np.zeros((3, 3))
    reference = Reference(np.zeros((50, 3)), 3, 0.1)
    types = FailureTypes(None, reference, judgement(2, 0), judgement(1, 1), ("slow", None))
    task = TaskFailures("stove", 2, 2, types, {"plate": 1, "stove": 1}, 1, (path,), (path, path))
    ours = dict.fromkeys(THRESHOLDS, Shares(Estimate(50.0, (25.0, 75.0)), Estimate(0.0, None), Estimate(0.0, None)))
    exact = dict.fromkeys(THRESHOLDS, Shares(Estimate(25.0, (0.0, 50.0)), Estimate(25.0, None), Estimate(50.0, None)))
    failures = Failures("fastdtw", 4, Estimate(50.0, None), Estimate(0.0, None), ours, exact, 1, (task,))
    lines = list(report_lines(results(failures)))
    assert "max        50.0  50.0 [25.0, 75.0]   0.0              0.0        0.0" in lines
    assert "max exact  50.0   25.0 [0.0, 50.0]  25.0             50.0        0.0" in lines
    assert "1 failures have another label by exact DTW" in lines
    assert "stove          2         2     2    0  1 slow   1 plate, 1 itself, 1 none" in lines
    (model,) = json.loads(json.dumps(report_table(results(failures))))["models"]
    (told,) = model["failures"]["tasks"]
    assert (told["near"], told["exact"]["max"], told["differing"]) == (2, {"near": 1, "far": 1}, 1)
    assert (told["instead"], told["of_no_task"]) == ({"plate": 1, "stove": 1}, 1)


def test_nothing_known_is_said() -> None:
    lines = list(report_lines(results(None)))
    assert lines[:3] == [
        "similarities by nothing: no pair was compared; alpha 0.5",
        "  not published: it was not given",
        "in brackets: 95% intervals, bootstrap over paraphrases and seeds, 2000 resamples",
    ]
    assert "m      s      -      0   -      -               -          -" in lines
    assert "note: one thing" in lines
    (model,) = json.loads(json.dumps(report_table(results(None))))["models"]
    assert (model["n"], model["backend"], model["failures"], model["listening"]) == (0, None, None, None)
