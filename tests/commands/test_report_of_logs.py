"""``pytest-vla report`` of a real log of LIBERO-Para's: the numbers that its paper has."""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.commands import import_ as import_command
from pytest_vla.errors import VlaError
from pytest_vla.language.published import load_published
from pytest_vla.metrics.pride import ALPHAS, PrideGroup, pride_table
from pytest_vla.suites.libero_para.variations import published_outcomes, read_para_log
from tests.support.golden import check_golden
from tests.support.libero_para import published_csv
from tests.support.paraphrased import PLATE, STOVE, para_record, paraphrased
from tests.support.reports import models_of, report, write


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def imported(capsys: pytest.CaptureFixture[str]) -> Path:
    folder = published_csv().parent / "xiaomi-robotics-0_seed7"
    parser = argparse.ArgumentParser()
    import_command.declare(parser)
    import_command.run(parser.parse_args([str(folder)]))
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


def same(table: dict[str, Any], group: PrideGroup) -> bool:
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
    text = capsys.readouterr().out
    check_golden(Path(__file__).with_name("golden") / "real_log.txt", text)
    lines = text.splitlines()
    (bar,) = [line for line in lines if line.startswith("question_directive") and "#" in line]
    assert bar.count("#") == round(40 * 0.539)
    assert sum("published libero-para csv" in line for line in lines) == 4, "every table names it"
    assert max(map(len, lines)) <= 100


@pytest.mark.slow
def test_what_else_is_reported_changes_no_score(imported: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (alone,) = models_of(capsys, "--data", published_csv())
    words = {"label": "language.words-L2", "dimension": "language", "kind": "words", "level": 2, "parameters": {}}
    write(
        [
            *(paraphrased(STOVE, index, "success", policy="other") for index in range(5)),
            para_record(PLATE, 7, "success", words, "put the jorum on the plate", policy="xiaomi-robotics-0"),
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
    with pytest.raises(VlaError, match=r"the backend published is not available: 1 of 1 pairs were never published"):
        report("--data", published_csv(), "--backend=published")


def test_records_know_their_published_similarities(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    csv = published_csv()
    log = tmp_path / "xiaomi-robotics-0_seed7"
    log.mkdir()
    shutil.copy(csv.parent / log.name / "eval5.json", log)
    parser = argparse.ArgumentParser()
    import_command.declare(parser)
    import_command.run(parser.parse_args([str(log), "--data", str(csv)]))
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
