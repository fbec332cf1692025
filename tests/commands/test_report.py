"""``pytest-vla report``: the numbers of a real log, and of made runs with paths and probes."""

import argparse
import dataclasses
import io
import json
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.commands import import_ as import_command
from pytest_vla.commands import report as report_command
from pytest_vla.errors import VlaError
from pytest_vla.language import template
from pytest_vla.language.published import load_published
from pytest_vla.metrics.pride import ALPHAS, Group, pride_table
from pytest_vla.plan.case import Case
from pytest_vla.records.record import Record, Trajectory, save_trajectory
from pytest_vla.records.store import open_store
from pytest_vla.reports import figures
from pytest_vla.suites.libero_para.logs import published_outcomes, read_para_log
from pytest_vla.util import live_line as waiting
from tests.language.test_published import published_csv
from tests.support.records import RECORD
from tests.support.waiting import HANG, until

RESULTS = Path(".vla")
ENDS = {
    "turn_on_the_stove": (0.3, 0.2, 0.1),
    "put_the_bowl_on_the_plate": (-0.2, 0.3, 0.0),
    "put_the_bowl_on_the_stove": (0.1, -0.3, 0.2),
}
STOVE, PLATE, BOWL = ENDS


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_VLA_DATA", raising=False)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def report(*arguments: str | Path) -> None:
    parser = argparse.ArgumentParser()
    report_command.declare(parser)
    report_command.run(parser.parse_args(list(map(str, arguments))))


def models_of(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[dict[str, Any]]:
    capsys.readouterr()
    report("--format=json", *arguments)
    models: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["models"]
    return models


def varied(task: str, seed: int, outcome: str, variation: dict[str, Any], instruction: str, **changes: Any) -> Record:
    """A record of a case of libero_para; an empty variation is the benign twin."""
    case = Case("libero_para", task, seed, variation.get("label", ""))
    reason = {"error": "policy-raised", "invalid": "goal-holds-at-start"}.get(outcome)
    about: dict[str, Any] = {"suite": case.suite, "task": task, "case": case.id, "node": case.node_id, "seed": seed}
    about |= {"variation": variation, "instruction": instruction, "outcome": outcome, "reason": reason}
    return dataclasses.replace(RECORD, **(about | changes))


def paraphrased(task: str, index: int, outcome: str, seed: int = 7, **changes: Any) -> Record:
    kind, action = changes.pop("types", ("none", "hint"))
    parameters = {"object_type": kind, "action_type": action, "index": index, "original": task.replace("_", " ")}
    label = f"{kind}.{action}.{index}"
    variation = {"label": label, "dimension": "language", "kind": "paraphrase", "level": None, "parameters": parameters}
    text = f"could you {'gladly ' * (index + 1)}{task.replace('_', ' ')}"
    return varied(task, seed, outcome, variation, text, **changes)


def probed(task: str, kind: str, outcome: str, seed: int = 7, **parameters: Any) -> Record:
    label = f"language.{kind}"
    variation = {"label": label, "dimension": "language", "kind": kind, "level": None, "parameters": parameters}
    return varied(task, seed, outcome, variation, "")


def path_to(end: Iterable[float], noise: float = 0.002, seed: int = 0, rows: int = 60) -> Trajectory:
    generator = np.random.default_rng(seed)
    path = np.linspace((0.0, 0.0, 0.0), tuple(end), rows) + generator.normal(scale=noise, size=(rows, 3))
    none = np.zeros((rows, 0))
    return Trajectory(none, none, path, np.zeros((rows - 1, 7)))


def write(
    records: Iterable[Record | tuple[Record, Trajectory]], run: str = "a-run", planned: int | None = None
) -> None:
    """A run of these records, in the current folder; no two have the same digest."""
    with open_store(RESULTS, create=True) as store:
        found = [each if isinstance(each, tuple) else (each, None) for each in records]
        nodes = [record.node for record, _ in found] + [f"left[{number}]" for number in range(planned or 0)]
        store.begin(run, nodes, command="pytest", model=found[0][0].policy)
        for number, (record, trajectory) in enumerate(found):
            if trajectory is not None:
                record = dataclasses.replace(record, arrays=f"{record.suite}/{number}.npz", digest=f"{run}, {number}")
                save_trajectory(RESULTS / run / str(record.arrays), trajectory)
            store.add(dataclasses.replace(record, run=run))
        store.end(run, "finished")


# The real log


@pytest.fixture
def imported(capsys: pytest.CaptureFixture[str]) -> Path:
    folder = published_csv().parent / "xiaomi-robotics-0_seed7"
    parser = argparse.ArgumentParser()
    import_command.declare(parser)
    import_command.run(parser.parse_args(["libero-para", str(folder)]))
    capsys.readouterr()
    return folder


def test_the_numbers_of_the_real_log(imported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    csv = published_csv()
    published = load_published(csv)
    table = pride_table(published_outcomes(read_para_log(imported), published, "published"))
    report("--format=json", "--data", csv)
    whole = json.loads(capsys.readouterr().out)
    (model,) = whole["models"]
    assert (whole["schema"], whole["alpha"], model["passed_over"], model["low_fidelity"]) == (1, 0.5, {}, False)
    assert model["backend"] == f"published libero-para {published.version}"
    assert (model["model"], model["suite"], model["seeds"]) == ("xiaomi-robotics-0", "libero_para", [7])
    assert (model["n"], round(model["sr"], 2), round(model["pride"]["0.5"], 3)) == (2431, 78.28, 71.034)
    assert round(model["overestimation"], 3) == 9.257
    assert model["pride"] == {str(alpha): table.sweep[alpha] for alpha in ALPHAS}
    for key, groups in (("objects", table.objects), ("actions", table.actions), ("categories", table.categories)):
        assert {each["name"] for each in model[key]} == set(groups)
        assert all(same(each, groups[each["name"]]) for each in model[key])
    assert len(model["cells"]) == 43
    assert [(each["object"], each["action"]) for each in model["cells"]] == list(table.cells)
    assert all(same(each, table.cells[each["object"], each["action"]]) for each in model["cells"])
    assert len(model["tasks"]) == 6
    assert all(same(each, table.tasks[each["name"].replace("_", " ")]) for each in model["tasks"])
    # Four standard errors of independent episodes are about 3.3; PRIDE's paraphrases weigh more and less.
    for name, value in (("sr", model["sr"]), ("pride", model["pride"]["0.5"])):
        low, high = model["sr_interval"] if name == "sr" else model["pride_interval"]["0.5"]
        assert low < value < high
        assert 2.5 < high - low < 6
    assert (model["errors"], model["invalid"], model["failures"], model["listening"]) == ({}, {}, None, None)
    assert model["left_out"] == [
        "2,431 of LIBERO-Para's 4,092 paraphrases were told: means over them are no total, and there is none as some "
        "of its 43 cells or ten tasks are missing",
        "failure types: no episode has a trajectory (2431 are imported, and logs have none)",
        "listening score: no episode has a probe (blank, nonsense, another task's text or its goal)",
    ]
    report("--format=json", "--data", csv)
    assert json.loads(capsys.readouterr().out) == whole
    # Of six tasks: as wide as these differ.
    low, high = model["sr_tasks_interval"]
    assert low < 70 < 78 < 86 < high
    assert model["of_list"] is None, "all 43 cells were told, but of six tasks of ten"


def same(table: dict[str, Any], group: Group) -> bool:
    """Whether a group's numbers are those, and lie in their intervals."""
    for name in ("sr", "pd", "pride"):
        interval = table[f"{name}_interval"]
        assert interval is None or interval[0] - 1e-9 <= table[name] <= interval[1] + 1e-9
    return (table["n"], table["sr"], table["pd"], table["pride"], table["overestimation"]) == (
        *(group.n, group.sr, group.pd, group.pride),
        group.overestimation,
    )


def test_the_real_log_for_people(imported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report("--data", published_csv())
    lines = capsys.readouterr().out.splitlines()
    (row,) = [line for line in lines if line.startswith("xiaomi-robotics-0")]
    assert row.split()[:5] == ["xiaomi-robotics-0", "libero_para", "7", "2431", "78.3"]
    assert row.split()[5:] == ["71.0", "9.3", "-"]
    assert lines[lines.index(row) + 1].split()[:2] == ["[76.6,", "79.9]"], "intervals stand below"
    (hint, distance) = [line.split("  ") for line in lines if line.startswith("hint ") and "#" not in line]
    assert [cell.strip() for cell in hint if cell] == [
        *("hint", "64.2 (53)", "63.3 (60)", "43.9 (57)", "45.8 (59)", "54.1 (229)")
    ]
    assert [cell.strip() for cell in distance if cell][1] == "0.255 (53)"
    (bar,) = [line for line in lines if line.startswith("question_directive") and "#" in line]
    assert bar.count("#") == round(40 * 0.539)
    (sweep,) = [line.split() for line in lines if line.startswith("PRIDE  ")]
    assert sweep == ["PRIDE", "75.0", "74.2", "73.5", "72.7", "71.9", "71.0", "70.2", "69.3", "68.5", "67.6", "66.7"]
    assert sum("published libero-para csv" in line for line in lines) == 4, "every table names it"
    assert max(map(len, lines)) <= 100


def test_what_else_is_reported_changes_no_score(imported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (alone,) = models_of(capsys, "--data", published_csv())
    words = {"label": "language.words-L2", "dimension": "language", "kind": "words", "level": 2, "parameters": {}}
    write(
        [
            *(paraphrased(STOVE, index, "success", policy="other") for index in range(5)),
            varied(PLATE, 7, "success", words, "put the jorum on the plate", policy="xiaomi-robotics-0"),
        ],
        run="b-run",
    )
    first, second = models_of(capsys, "--data", published_csv())
    assert round(first["pride"]["0.5"], 4) == 71.0339
    for key in ("backend", "passed_over", "pride", "pride_interval", "cells", "tasks"):
        assert first[key] == alone[key]
    (kind,) = first["others"]
    for each in (kind, second):
        assert not each["backend"].startswith("published")
        assert "pairs were never published" in each["passed_over"]["published"]
    report("--data", published_csv())
    lines = capsys.readouterr().out.splitlines()
    for backend in (alone["backend"], second["backend"]):
        assert f"Paraphrases, % ({backend})" in lines
    assert f"Other changes of the text, % ({kind['backend']})" in lines
    with pytest.raises(VlaError, match=r"the backend published cannot be had: 1 of 1 pairs were never published"):
        report("--data", published_csv(), "--backend=published")


def test_records_know_their_published_similarities(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    csv = published_csv()
    log = tmp_path / "xiaomi-robotics-0_seed7"
    log.mkdir()
    shutil.copy(csv.parent / log.name / "eval5.json", log)
    parser = argparse.ArgumentParser()
    import_command.declare(parser)
    import_command.run(parser.parse_args(["libero-para", str(log), "--data", str(csv)]))
    expected = pride_table(published_outcomes(read_para_log(log), load_published(csv), "published"))
    for arguments in ([], ["--backend=published"], ["--data", csv]):
        (model,) = models_of(capsys, *arguments)
        assert model["backend"] == f"published libero-para {load_published(csv).version}"
        assert model["pride"] == {str(alpha): expected.sweep[alpha] for alpha in ALPHAS}
    (template,) = models_of(capsys, "--backend=template")
    assert template["backend"] == "template 1 (low fidelity)"
    # Where some episodes have none, nothing is mixed.
    write([paraphrased(STOVE, 0, "success", policy="xiaomi-robotics-0")], run="b-run")
    (mixed,) = models_of(capsys)
    assert not mixed["backend"].startswith("published")
    n = expected.overall.n
    assert f"; {n} of {n + 1} episodes have them in their records" in mixed["passed_over"]["published"]


# Made runs


def test_errors_and_invalid_episodes_are_in_no_rate(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = ["success", "success", "failure", "error", "invalid"]
    write(paraphrased(STOVE, index, outcome) for index, outcome in enumerate(outcomes))
    (model,) = models_of(capsys, "--backend=template")
    assert (model["n"], model["sr"]) == (3, pytest.approx(200 / 3))
    assert (model["errors"], model["invalid"]) == ({"policy-raised": 1}, {"goal-holds-at-start": 1})
    assert model["backend"] == "template 1 (low fidelity)"
    report("--backend=template")
    assert (model["not_counted"], model["bounds"]) == (2, [40, 80])
    lines = capsys.readouterr().out.splitlines()
    assert "in no rate: 1 policy-raised, 1 goal-holds-at-start" in lines
    assert "in no rate of paraphrases: 1 policy-raised, 1 goal-holds-at-start; with them 40.0% to 80.0%" in lines


def test_a_rate_at_its_end_is_not_certain(capsys: pytest.CaptureFixture[str]) -> None:
    write(paraphrased(STOVE, index, "success", seed=seed) for index in range(10) for seed in range(7, 12))
    (model,) = models_of(capsys, "--backend=template")
    # Ten paraphrases, and not fifty episodes: Wilson's of 10 of 10.
    assert (model["sr"], model["sr_interval"]) == (100, [pytest.approx(72.25, abs=0.01), pytest.approx(100)])
    low, high = model["pride_interval"]["0.5"]
    assert 0 < low <= model["sr_interval"][0] + 1e-9, "paraphrases that weigh unequally say less"
    assert (model["pride"]["0.5"], high, model["overestimation"]) == (pytest.approx(100), 100, pytest.approx(0))
    low, high = model["overestimation_interval"]
    assert -10 < low < 0 < high < 10
    report("--backend=template")
    assert "-0.0" not in capsys.readouterr().out


def test_the_first_of_one_case_counts_and_own_tests_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    write([paraphrased(STOVE, 0, "failure"), paraphrased(STOVE, 1, "success")], run="a-run")
    write(
        [
            paraphrased(STOVE, 0, "success"),
            paraphrased(STOVE, 1, "failure", seeds=RECORD.seeds | {"run": 5}),
            paraphrased(STOVE, 0, "failure", node="test_mine.py::test_it"),
        ],
        run="b-run",
    )
    (model,) = models_of(capsys, "--backend=template")
    assert (model["n"], model["sr"], model["runs"]) == (3, pytest.approx(100 / 3), ["a-run", "b-run"])
    assert model["left_out"][:2] == [
        "1 episode of your own tests, beside the suite's own items",
        "1 repeat of 1 episode, whose first record counts: 1 (100.0%) ended otherwise, 0 (0.0%) with another digest",
    ]
    (model,) = models_of(capsys, "--backend=template", "a-run")
    assert (model["n"], model["sr"]) == (2, 50)


def test_runs_are_named_and_folders_too(capsys: pytest.CaptureFixture[str]) -> None:
    write([paraphrased(STOVE, 0, "failure")], run="20260101-a")
    write([(paraphrased(PLATE, 0, "success"), path_to(ENDS[PLATE]))], run="20260102-b", planned=3)
    for which, n in [("last", 1), ("20260101", 1), (".vla/20260102-b", 1), (".vla", 2)]:
        (model,) = models_of(capsys, "--backend=template", which)
        assert model["n"] == n
        assert ("run 20260102-b has 1 of 4 episodes: the others are not in it" in model["left_out"]) == (
            which != "20260101"
        )
    (model,) = models_of(capsys, "--backend=template", "20260101", "20260102", ".vla")
    assert model["n"] == 2, "each once"
    with pytest.raises(VlaError, match=r"there is no run 'nothing' in \.vla"):
        report("nothing")
    Path("empty").mkdir()
    for arguments in (["empty"], ["empty", "--results=nowhere"]):
        with pytest.raises(VlaError, match=r"the folder empty has no results: there is no results.sqlite in it"):
            report(*arguments)


def test_other_changes_of_the_text_are_apart_and_twins_beside(capsys: pytest.CaptureFixture[str]) -> None:
    words = {"label": "language.words-L2", "dimension": "language", "kind": "words", "level": 2, "parameters": {}}
    camera = {"label": "camera", "dimension": "camera", "kind": "shift", "level": None, "parameters": {}}
    write(
        [
            varied(STOVE, 7, "success", {}, "turn on the stove"),
            varied(STOVE, 8, "failure", {}, "turn on the stove"),
            varied(STOVE, 7, "success", words, "turn on the oven"),
            varied(PLATE, 7, "failure", words, "put the vessel on the plate"),
            varied(PLATE, 7, "failure", camera, "put the bowl on the plate"),
        ]
    )
    (model,) = models_of(capsys, "--backend=template")
    assert (model["n"], model["benign"]["n"], model["benign"]["sr"]) == (0, 1, 100), "seed 8 is nobody's twin"
    assert [(each["kind"], each["n"], each["sr"]) for each in model["others"]] == [("words level 2", 2, 50)]
    assert model["others"][0]["pd"] > 0
    assert "PRIDE and the grids: there is no success and no failure under a paraphrase" in model["left_out"]


def test_any_alpha_has_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    write(paraphrased(STOVE, index, "success" if index < 3 else "failure") for index in range(6))
    (model,) = models_of(capsys, "--backend=template", "--alpha=0.55")
    assert list(model["pride"]) == ["0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.55", "0.6", "0.7", "0.8", "0.9", "1.0"]
    between = sorted([model["pride"]["0.5"], model["pride"]["0.6"]])
    assert between[0] - 1e-9 <= model["pride"]["0.55"] <= between[1] + 1e-9
    with pytest.raises(SystemExit):
        report("--alpha=1.5")


def test_failures_are_near_or_far_and_did_another_task(capsys: pytest.CaptureFixture[str]) -> None:
    records = []
    for task, end in ENDS.items():
        for index in range(6):
            records.append((paraphrased(task, index, "success"), path_to(end, noise=0.01, seed=index)))
    # Of the stove's: one as the successes, one to the plate, one that rests; and one without a path.
    records += [
        (paraphrased(STOVE, 6, "failure"), path_to(ENDS[STOVE], noise=0.0)),
        (paraphrased(STOVE, 7, "failure"), path_to(ENDS[PLATE])),
        (paraphrased(STOVE, 8, "failure"), path_to((0, 0, 0), noise=0.001)),
    ]
    lonely = "open_the_middle_drawer_of_the_cabinet"
    write([*records, paraphrased(STOVE, 9, "failure"), (paraphrased(lonely, 0, "failure"), path_to((0.5, 0.5, 0.5)))])
    (model,) = models_of(capsys, "--backend=template", "--failure-algorithm=exact")
    failures = model["failures"]
    assert (failures["algorithm"], failures["n"], failures["differing"]) == ("exact", 22, 0)
    shares = [failures[name] for name in ("sr", "near", "far", "undefined")]
    assert shares == pytest.approx([100 * each / 22 for each in (18, 1, 2, 1)])
    assert failures["far_of_failures"] == pytest.approx(200 / 3)
    for name in ("sr", "near", "far", "undefined", "far_of_failures"):
        low, high = failures[f"{name}_interval"]
        assert low <= failures[name] <= high
        assert low < high
    assert failures["thresholds"]["max"]["near"] == failures["near"] >= failures["thresholds"]["p90"]["near"]
    tasks = {task["name"]: task for task in failures["tasks"]}
    stove = tasks[STOVE]
    assert (stove["successes"], stove["failures"], stove["near"], stove["far"]) == (6, 3, 1, 2)
    assert (stove["instead"], stove["of_no_task"], stove["remarks"]) == ({PLATE: 1}, 1, {"static": 1})
    assert (tasks[lonely]["undefined"], tasks[lonely]["near"], tasks[lonely]["far"]) == ("no-success", None, None)
    assert "failure types: 1 of 23 episodes has no trajectory" in model["left_out"]
    assert 0.9 < stove["instead_margin"][PLATE] < 1
    static, other = sorted(stove["far_failures"], key=lambda each: each["margin"] or 0)
    assert (static["instead"], static["nearest"], static["margin"]) == (None, None, None)
    assert (other["instead"], other["nearest"]) == (PLATE, PLATE)
    assert other["margin"] == stove["instead_margin"][PLATE]
    assert other["case"] == "libero_para/turn_on_the_stove[none.hint.7-seed7]"
    report("--backend=template", "--failure-algorithm=exact")
    lines = capsys.readouterr().out.splitlines()
    (row,) = [line for line in lines if "static" in line]
    margin = f"({other['margin']:.2f}),"
    assert row.split() == ["6", "3", "1", "2", "1", "static", "1", PLATE, margin, "1", "none"]
    assert lines[lines.index(row) - 1] == STOVE, "too wide for one line"
    assert max(map(len, lines)) <= 100
    assert any("undefined: no-success" in line for line in lines)


def test_failures_under_any_other_text_have_types_and_probes_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    words = {"label": "language.words-L2", "dimension": "language", "kind": "words", "level": 2, "parameters": {}}
    records: list[Record | tuple[Record, Trajectory]] = []
    for task, end in ENDS.items():
        for seed in range(6):
            done = varied(task, seed, "success", words, f"do {task}")
            records.append((done, path_to(end, noise=0.01, seed=seed)))
    records.append((varied(STOVE, 6, "failure", words, "turn on the oven"), path_to(ENDS[PLATE])))
    records.append((probed(STOVE, "blank", "failure"), path_to(ENDS[BOWL])))
    write(records)
    (model,) = models_of(capsys, "--backend=template", "--failure-algorithm=exact")
    assert (model["failures"]["n"], model["failures"]["far"]) == (19, pytest.approx(100 / 19))
    (stove,) = [task for task in model["failures"]["tasks"] if task["name"] == STOVE]
    assert stove["instead"] == {PLATE: 1}
    assert not any(text.startswith("failure types") for text in model["left_out"])
    # Keys are those of LIBERO-Para's types; the rest is in others.
    assert (model["n"], model["sr"], model["pride"], model["overestimation"]) == (0, None, None, None)
    assert (model["cells"], model["tasks"]) == ([], [])
    assert [each["n"] for each in model["others"]] == [19]


def test_what_failure_types_lack_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    write([probed(STOVE, "blank", "failure")])
    (model,) = models_of(capsys)
    assert "failure types: there is no success and no failure under another text, probes aside" in model["left_out"]
    write([paraphrased(STOVE, 0, "failure"), paraphrased(STOVE, 1, "success")], run="b-run")
    (model,) = models_of(capsys, "--backend=template")
    assert "failure types: no episode has a trajectory" in model["left_out"]
    assert model["failures"] is None


def test_the_default_algorithm_is_the_papers_or_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_vla.util import extras as missing

    write((paraphrased(STOVE, i, "success" if i < 3 else "failure"), path_to(ENDS[STOVE], seed=i)) for i in range(5))
    monkeypatch.setattr(missing, "is_installed", lambda module: False)
    (model,) = models_of(capsys, "--backend=template")
    assert model["failures"]["algorithm"] == "exact"
    assert any(text.startswith("fastdtw, the paper's DTW: it is not installed") for text in model["left_out"])


def test_trajectories_that_cannot_be_read_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    write([(paraphrased(STOVE, index, "success"), path_to(ENDS[STOVE])) for index in range(3)])
    (RESULTS / "a-run" / "libero_para" / "1.npz").write_text("no npz")
    (model,) = models_of(capsys, "--backend=template", "--failure-algorithm=exact")
    assert any(text.startswith("1 trajectory that cannot be read: .vla") for text in model["left_out"])
    (RESULTS / "a-run" / "libero_para" / "2.npz").unlink()
    (model,) = models_of(capsys, "--backend=template", "--failure-algorithm=exact")
    assert (model["n"], model["failures"]["n"]) == (3, 1)
    assert any(text.startswith("2 trajectories that cannot be read, such as .vla") for text in model["left_out"])


def test_a_policy_that_listens(capsys: pytest.CaptureFixture[str]) -> None:
    records = []
    for seed in range(8):
        for task, other in ((STOVE, PLATE), (PLATE, STOVE)):
            still, there = path_to((0, 0, 0), noise=0.0), path_to(ENDS[task], seed=seed)
            benign = varied(task, seed, "success", {}, task.replace("_", " "))
            records += [
                (benign, there),
                (probed(task, "blank", "failure", seed), still),
                (probed(task, "nonsense", "failure" if seed else "success", seed), there if not seed else still),
                (probed(task, "other_task", "failure", seed, other=other), path_to(ENDS[other], seed=seed)),
                (probed(task, "other_goal", "success" if seed < 6 else "failure", seed, other=other), still),
            ]
    write(records)
    (model,) = models_of(capsys)
    assert (model["listening"]["noise"], model["listening"]["path_score"]) == (None, None)
    (said,) = [text for text in model["left_out"] if text.startswith("the listening score of paths, and its noise")]
    assert "another --vla-run-seed" in said
    again = [varied(t, s, "success", {}, "", seeds={"run": 1}) for t in (STOVE, PLATE) for s in range(8)]
    write([(record, path_to(ENDS[record.task], seed=100 + record.seed)) for record in again], run="b-run")
    write([probed(BOWL, "blank", "failure"), probed(STOVE, "blank", "error", seed=9)], run="c-run")
    (model,) = models_of(capsys)
    heard = model["listening"]
    assert set(heard["probes"]) == {"blank", "nonsense", "other_task", "other_goal"}
    assert not any("--vla-run-seed" in text for text in model["left_out"])
    assert 0 < heard["noise"] < heard["distance"]
    goal = heard["probes"]["other_goal"]
    assert (goal["score"], goal["sr_probe_n"], goal["obeyed"], goal["obeyed_n"]) == (None, 0, 75, 16)
    assert (heard["obeyed"], heard["followed_n"], heard["sr_right_n"]) == (75, 16, 16)
    assert goal["distance"] > 1
    assert (model["others"], model["n"], model["pride"]) == ([], 0, None)
    assert (heard["probes"]["blank"]["score"], heard["probes"]["nonsense"]["score"]) == (1, pytest.approx(14 / 16))
    assert (heard["lost"], heard["gained"], heard["score"]) == (46, 0, pytest.approx(46 / 48))
    assert heard["path_score"] > 0.8
    assert heard["probes"]["other_task"]["followed"] == 100
    assert heard["probes"]["other_task"]["followed_n"] == 16
    assert model["backend"] is None
    assert "1 episode under a probe: an error, or invalid" in model["left_out"]
    assert any(text.startswith("1 episode under a probe without a benign twin") for text in model["left_out"])
    report()
    lines = capsys.readouterr().out.splitlines()
    assert "told another task with its goal, it did that one in 12/16 [50.5, 89.8]" in lines
    row, paths = [line for line in lines if line.startswith("blank ")]
    assert row.split()[:3] == ["blank", "1.00", "[0.82,"], "sixteen of sixteen are not all"
    assert any(line.startswith("told another task, it did that one in 16/16 [80.6, ") for line in lines)
    assert heard["verdict"] == "listens"
    assert float(paths.split()[1]) > 0.8
    assert max(map(len, lines)) <= 100


def test_nothing_varied_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match=r"no runs in \.vla yet"):
        report()
    write([varied(STOVE, 0, "success", {}, "turn on the stove")])
    with pytest.raises(VlaError, match="nothing to report: none of 1 record has a variation or another text"):
        report()
    assert not (tmp_path / "out.json").exists()


def test_a_file_is_written_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write([paraphrased(STOVE, 0, "failure", policy="na\x1b[2Jme")])
    report("--backend=template", "-o", "out.json")
    report("--backend=template", "-o", "out.txt")
    assert capsys.readouterr().out == ""
    assert json.loads((tmp_path / "out.json").read_text())["models"][0]["model"] == "na\x1b[2Jme"
    text = (tmp_path / "out.txt").read_text()
    assert "na?[2Jme" in text, "a terminal would obey it"
    report("--backend=template", "--format=terminal", "-o", "out.md")
    assert (tmp_path / "out.md").read_text() == text


def never(loaded: object, options: object) -> None:
    raise AssertionError("nothing is computed for an output that cannot be written")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["-o", "nowhere/out.json"], "cannot write nowhere/out.json: there is no folder nowhere"),
        (["-o", "out.html"], r"-o out.html: nothing is known to be written as .html: expected .json, .txt, or say"),
        (["-o", "x.png"], r"-o x.png: the pictures are several: give their folder, --format=png -o FOLDER"),
        (["--format=png", "-o", "x.PNG"], r"the pictures are several"),
        (["-o", "folder"], r"-o folder is a folder: give a file, or --format=png for pictures in it"),
        (["--format=png", "-o", "file/pictures"], r"png are written into a folder: \S*file is no folder"),
    ],
)
def test_an_output_that_cannot_be_is_refused_at_once(
    arguments: list[str], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write([paraphrased(STOVE, 0, "failure")])
    Path("folder").mkdir()
    Path("file").touch()
    monkeypatch.setattr("pytest_vla.reports.loaded.load", never)
    monkeypatch.setattr(figures, "check_matplotlib", lambda: None)
    before = sorted(Path().rglob("*"))
    with pytest.raises(VlaError, match=why):
        report(*arguments)
    assert sorted(Path().rglob("*")) == before, "nothing is made"


def test_who_waits_is_told_what_for(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write([paraphrased(STOVE, index, "failure") for index in range(3)])
    monkeypatch.setattr(waiting, "PATIENCE", HANG)
    report("--backend=template")
    assert capsys.readouterr().err == ""
    compare = template.compare_words
    told = io.StringIO()
    monkeypatch.setattr(sys, "stderr", told)

    def slow(*texts: str) -> Any:
        until(told.getvalue)
        return compare(*texts)

    monkeypatch.setattr(template, "compare_words", slow)
    monkeypatch.setattr(waiting, "PATIENCE", 0.01)
    report("--backend=template", "--format=json")
    out = capsys.readouterr().out
    assert told.getvalue().splitlines()[0] == "comparing 3 pairs of texts by template; what is worked out is kept ..."
    assert json.loads(out)["models"]
