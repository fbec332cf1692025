"""A language report's text and JSON where there is little to say, or two answers."""

import json
from dataclasses import replace

import numpy as np

from pytest_vla.metrics.failure_types import THRESHOLDS, FailureTypes, Judgement, Reference
from pytest_vla.metrics.language import Measured
from pytest_vla.metrics.language_paths import Failures, FarFailure, Shares, TaskFailures
from pytest_vla.metrics.language_results import LanguageReport, ModelResults, OtherChange, Source
from pytest_vla.metrics.listening import Estimate
from pytest_vla.metrics.nearest_task import NearestTask
from pytest_vla.metrics.success import success_rate
from pytest_vla.reports.language.json import model_table, report_table
from pytest_vla.reports.language.text import report_lines
from tests.support.records import record_of


def judgement(near: int, far: int) -> Judgement:
    levels = ("near",) * near + ("far",) * far
    return Judgement(
        "exact", (1.0, 2.0), (1.0,) * (near + far), dict.fromkeys(THRESHOLDS, 2.0), dict.fromkeys(THRESHOLDS, levels)
    )


def results(failures: Failures | None, **others: OtherChange) -> LanguageReport:
    nothing = success_rate("varied", [])
    model = ModelResults("m", "s", ("a-run",), (), None, nothing, None, None, others, failures, None, ("one thing",))
    return LanguageReport(0.5, (model,))


def far(case: str, task: str | None, margin: float) -> FarFailure:
    return FarFailure(case, NearestTask(task, task or "plate", 1.0, margin, {}))


def test_a_label_that_differs_is_there_by_both_distances() -> None:
    path = np.zeros((3, 3))
    reference = Reference(np.zeros((50, 3)), 3, 0.1)
    types = FailureTypes(None, reference, judgement(2, 0), judgement(1, 1), ("slow", None))
    nearest = (far("a", "plate", 0.6), far("b", "stove", 0.8), far("c", "plate", 0.9), far("d", None, 0.1))
    task = TaskFailures("stove", 2, 2, types, (*nearest, FarFailure("e", None)), (path,), (path, path))
    ours = dict.fromkeys(THRESHOLDS, Shares(Estimate(50.0, (25.0, 75.0)), Estimate(0.0, None), Estimate(0.0, None)))
    exact = dict.fromkeys(THRESHOLDS, Shares(Estimate(25.0, (0.0, 50.0)), Estimate(25.0, None), Estimate(50.0, None)))
    failures = Failures("fastdtw", 4, Estimate(50.0, None), Estimate(0.0, None), ours, exact, 1, (task,))
    lines = list(report_lines(results(failures)))
    assert "max        50.0  50.0 [25.0, 75.0]   0.0              0.0        0.0" in lines
    assert "max exact  50.0   25.0 [0.0, 50.0]  25.0             50.0        0.0" in lines
    assert "1 failure has another label by exact DTW" in lines
    assert "stove          2         2     2    0  1 slow   2 plate (0.75), 1 itself (0.80), 2 none" in lines
    by_exact = list(report_lines(results(replace(failures, algorithm="exact"))))
    assert not any("another label" in line for line in by_exact), "exact DTW was asked for"
    model = json.loads(json.dumps(model_table(results(failures).models[0])))
    (told,) = model["failures"]["tasks"]
    assert (told["near"], told["exact"]["max"], told["differing"]) == (2, {"near": 1, "far": 1}, 1)
    assert (told["instead"], told["of_no_task"]) == ({"plate": 2, "stove": 1}, 2)
    assert told["instead_margin"] == {"plate": 0.75, "stove": 0.8}
    assert told["far_failures"][-2:] == [
        {"case": "d", "instead": None, "nearest": "plate", "margin": 0.1},
        {"case": "e", "instead": None, "nearest": None, "margin": None},
    ]


def test_nothing_known_is_said_and_has_all_keys() -> None:
    lines = list(report_lines(results(None)))
    assert lines[0] == "alpha 0.5; in brackets 95% intervals over paraphrases like these, of these tasks,"
    assert "Paraphrases, % (no similarities)" in lines
    assert "m      s      -      0   -      -               -          -" in lines
    assert "note: one thing" in lines
    assert json.loads(json.dumps(report_table(results(None))))["alpha"] == 0.5
    model = json.loads(json.dumps(model_table(results(None).models[0])))
    assert (model["n"], model["cells"], model["tasks"], model["others"]) == (0, [], [], [])
    for key in ("backend", "sr", "sr_interval", "pd", "pride", "pride_interval", "overestimation", "failures"):
        assert model[key] is None
    assert model["listening"] is None


def test_each_kind_says_what_it_was_compared_by_and_nothing_is_minus_nought() -> None:
    around = Estimate(-0.01, (-0.04, 3.0))
    measured = Measured(6, Estimate(50.0, None), Estimate(0.2, None), Estimate(50.0, None), around)
    others = {
        "words": OtherChange(Source("parser 1", False, {"published": "it was not given"}), measured),
        "pro": OtherChange(Source("template 1 (low fidelity)", True, {}), measured),
    }
    lines = list(report_lines(results(None, **others)))
    titles = [line for line in lines if line.startswith("Other changes of the text, %")]
    assert titles == [f"Other changes of the text, % ({each.source.backend})" for each in others.values()]
    assert "words  6  50.0   50.0  0.0 [0.0, 3.0]  0.200" in lines
    place = lines.index("similarities of words: parser 1")
    assert lines[place + 1] == "  not published: it was not given"
    table = model_table(results(None, **others).models[0])["others"]
    assert [(each["kind"], each["backend"], each["low_fidelity"]) for each in table] == [
        ("words", "parser 1", False),
        ("pro", "template 1 (low fidelity)", True),
    ]


def test_a_run_of_nothing_but_errors_says_so_of_benign_twins_too() -> None:
    (model,) = results(None).models
    broken = success_rate("benign", [record_of(0, "error")])
    report = LanguageReport(0.5, (replace(model, benign=broken, counts=success_rate("varied", [])),))
    lines = list(report_lines(report))
    assert "in no rate of benign twins: 1 policy-raised" in lines
    (row,) = [line for line in lines if line.startswith("m ")]
    assert row.split() == ["m", "s", "-", "0", "-", "-", "-", "-"]
    table = model_table(report.models[0])["benign"]
    unknown = {"n": 0, "sr": None, "sr_interval": None, "sr_tasks_interval": None}
    beside = {"not_counted": 1, "bounds": (0.0, 100.0), "errors": {"policy-raised": 1}, "invalid": {}}
    assert table == {**unknown, **beside}
    assert model_table(model)["benign"] is None, "none was run"
