"""A language report's text, whole, and its JSON where there is little to say, or two answers."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.metrics.failure_types import THRESHOLDS, FailureClassification, FailureTypes, Reference
from pytest_vla.metrics.language import LanguageGroup
from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.language_paths import (
    FailureTypeShares,
    FailureTypeSummary,
    FarFailure,
    LanguageReport,
    ModelResults,
    NearestTask,
    OtherChange,
    Source,
    TaskFailures,
)
from pytest_vla.metrics.success import success_rate
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import Trajectory
from pytest_vla.reports.language import language_blocks, model_table, report_table
from pytest_vla.reports.text import block_lines
from tests.support.golden import check_golden
from tests.support.paraphrased import ENDS, PLATE, STOVE, para_record, paraphrased, path_to, probed
from tests.support.records import record_of
from tests.support.reports import report, write

GOLDEN = Path(__file__).with_name("golden")
WORDS = {"label": "language.words-L2", "dimension": "language", "kind": "words", "level": 2, "parameters": {}}


def report_lines(report: LanguageReport) -> list[str]:
    return list(block_lines(language_blocks(report)))


def judgement(near: int, far: int) -> FailureClassification:
    levels = ("near",) * near + ("far",) * far
    return FailureClassification(
        "exact", (1.0, 2.0), (1.0,) * (near + far), dict.fromkeys(THRESHOLDS, 2.0), dict.fromkeys(THRESHOLDS, levels)
    )


def results(failures: FailureTypeSummary | None, **others: OtherChange) -> LanguageReport:
    nothing = success_rate("varied", [])
    model = ModelResults("m", "s", ("a-run",), (), None, nothing, None, None, others, failures, None, ("one thing",))
    return LanguageReport(0.5, (model,))


def far(case: str, task: str | None, margin: float) -> FarFailure:
    return FarFailure(case, NearestTask(task, task or "plate", 1.0, margin, {}))


def of_paths() -> list[Record | tuple[Record, Trajectory]]:
    """Told in other words it rests, goes elsewhere or fails near; under probes it listens."""
    found: list[Record | tuple[Record, Trajectory]] = []
    for task, end in ENDS.items():
        for index in range(6):
            types = ("none", "hint") if index % 2 else ("addition_deletion", "hint")
            found.append((paraphrased(task, index, "success", types=types), path_to(end, noise=0.01, seed=index)))
    found += [
        (paraphrased(STOVE, 6, "failure"), path_to(ENDS[STOVE], noise=0.0)),
        (paraphrased(STOVE, 7, "failure"), path_to(ENDS[PLATE])),
        (paraphrased(STOVE, 8, "failure"), path_to((0, 0, 0), noise=0.001)),
        (paraphrased("open_the_middle_drawer_of_the_cabinet", 0, "failure"), path_to((0.5, 0.5, 0.5))),
        *(paraphrased(STOVE, 9, "failure"), paraphrased(STOVE, 10, "error"), paraphrased(STOVE, 11, "invalid")),
        *(para_record(STOVE, 7, "success", WORDS, "turn on the oven"), para_record(PLATE, 7, "failure", WORDS, "go")),
    ]
    for seed in range(8):
        for task, other in ((STOVE, PLATE), (PLATE, STOVE)):
            still, there = path_to((0, 0, 0), noise=0.0), path_to(ENDS[task], seed=seed)
            found += [
                (para_record(task, seed, "success", {}, task.replace("_", " ")), there),
                (probed(task, "blank", "failure", seed), still),
                (probed(task, "nonsense", "failure" if seed else "success", seed), there if not seed else still),
                (probed(task, "other_task", "failure", seed, other=other), path_to(ENDS[other], seed=seed)),
                (probed(task, "other_goal", "success" if seed < 6 else "failure", seed, other=other), still),
            ]
    return found


def test_the_whole_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Paraphrases, other words, failure types and how it listens; each cell that fails says what goes wrong there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))
    write(of_paths(), planned=2)
    again = [
        para_record(task, seed, "success", {}, "", seeds={"run": 1}) for task in (STOVE, PLATE) for seed in range(8)
    ]
    write([(record, path_to(ENDS[record.task], seed=100 + record.seed)) for record in again], run="b-run")
    report("--backend=template", "--failure-algorithm=exact")
    text = capsys.readouterr().out
    check_golden(GOLDEN / "report.txt", text)
    assert max(map(len, text.splitlines())) <= 100


def test_a_label_that_differs_is_there_by_both_distances() -> None:
    path = np.zeros((3, 3))
    reference = Reference(np.zeros((50, 3)), 3, 0.1)
    types = FailureTypes(None, reference, judgement(2, 0), judgement(1, 1), ("slow", None))
    nearest = (far("a", "plate", 0.6), far("b", "stove", 0.8), far("c", "plate", 0.9), far("d", None, 0.1))
    task = TaskFailures("stove", 2, 2, types, (*nearest, FarFailure("e", None)), (path,), (path, path))
    ours = dict.fromkeys(
        THRESHOLDS,
        FailureTypeShares(
            GroundingEstimate(50.0, (25.0, 75.0)), GroundingEstimate(0.0, None), GroundingEstimate(0.0, None)
        ),
    )
    exact = dict.fromkeys(
        THRESHOLDS,
        FailureTypeShares(
            GroundingEstimate(25.0, (0.0, 50.0)), GroundingEstimate(25.0, None), GroundingEstimate(50.0, None)
        ),
    )
    failures = FailureTypeSummary(
        "fastdtw", 4, GroundingEstimate(50.0, None), GroundingEstimate(0.0, None), ours, exact, 1, (task,)
    )
    check_golden(GOLDEN / "two_labels.txt", "\n".join(report_lines(results(failures))))
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
    check_golden(GOLDEN / "nothing_known.txt", "\n".join(report_lines(results(None))))
    assert json.loads(json.dumps(report_table(results(None))))["alpha"] == 0.5
    model = json.loads(json.dumps(model_table(results(None).models[0])))
    assert (model["n"], model["cells"], model["tasks"], model["others"]) == (0, [], [], [])
    for key in ("backend", "sr", "sr_interval", "pd", "pride", "pride_interval", "overestimation", "failures"):
        assert model[key] is None
    assert model["listening"] is None


def test_each_kind_says_what_it_was_compared_by_and_nothing_is_minus_nought() -> None:
    around = GroundingEstimate(-0.01, (-0.04, 3.0))
    measured = LanguageGroup(
        6, GroundingEstimate(50.0, None), GroundingEstimate(0.2, None), GroundingEstimate(50.0, None), around
    )
    others = {
        "words": OtherChange(Source("parser 1", False, {"published": "it was not given"}), measured),
        "pro": OtherChange(Source("template 1 (low fidelity)", True, {}), measured),
    }
    check_golden(GOLDEN / "other_changes.txt", "\n".join(report_lines(results(None, **others))))
    table = model_table(results(None, **others).models[0])["others"]
    assert [(each["kind"], each["backend"], each["low_fidelity"]) for each in table] == [
        ("words", "parser 1", False),
        ("pro", "template 1 (low fidelity)", True),
    ]


def test_a_run_of_nothing_but_errors_says_so_of_benign_twins_too() -> None:
    (model,) = results(None).models
    broken = success_rate("benign", [record_of(0, "error")])
    errors = LanguageReport(0.5, (replace(model, benign=broken, counts=success_rate("varied", [])),))
    check_golden(GOLDEN / "errors_alone.txt", "\n".join(report_lines(errors)))
    table = model_table(errors.models[0])["benign"]
    unknown = {"n": 0, "sr": None, "sr_interval": None, "sr_tasks_interval": None}
    beside = {"not_counted": 1, "bounds": (0.0, 100.0), "errors": {"policy-raised": 1}, "invalid": {}}
    assert table == {**unknown, **beside}
    assert model_table(model)["benign"] is None, "none was run"
