"""Metrics that a report would be silent of: of a second run of the same cases, and of files that are gone."""

from pathlib import Path

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import Trajectory
from tests.support.reports import RESULTS, models_of, report, write
from tests.support.varied import varied


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def episode(seed: int, *, measured: bool = True) -> tuple[Record, Trajectory]:
    rows = np.zeros((3, 3))
    series = {"token_entropy": np.full(2, 0.1 * seed)} if measured else {}
    metrics = {"token_entropy": 0.1 * seed} if measured else {}
    return varied("", seed % 2 == 0, seed=seed, metrics=metrics), Trajectory(rows, rows, rows, np.zeros((2, 7)), series)


def test_metrics_of_a_second_run_are_not_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    write([episode(seed, measured=False) for seed in range(3)], "1-bare")
    write([episode(seed) for seed in range(3)], "2-measured")
    hint = (
        "3 episodes of run 2-measured have token_entropy and are not the first records of their cases, which count: "
        "pytest-vla report 2-measured"
    )
    with pytest.raises(VlaError) as nothing:
        report()
    assert hint in str(nothing.value)
    with pytest.raises(VlaError) as rule:
        report("--stop-when=token_entropy>0.3")
    assert f"no episode has a series of token_entropy. {hint}" in str(rule.value)
    # Beside another number of the first run, too; and where that run is asked for, nothing is left to say.
    write([varied("", True, seed=9, metrics={"mine": 1.0})], "3-mine")
    report()
    assert hint in " ".join(capsys.readouterr().out.split())
    report("--format=html", "--pictures=0", "-o", "report.html")
    assert hint in Path("report.html").read_text()
    report("2-measured")
    assert "first record" not in capsys.readouterr().out


def test_files_that_are_gone_are_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    write([episode(seed) for seed in range(4)])
    for file in RESULTS.rglob("*.npz"):
        file.unlink()
    report()
    told = " ".join(capsys.readouterr().out.split())
    assert "Failure prediction." in told
    assert "4 trajectory files with the series cannot be read, and the episodes are in no number: .vla/a-run/" in told
    (model,) = models_of(capsys)
    assert model["foretelling"] == []
    with pytest.raises(VlaError, match=r"series of token_entropy. 4 trajectory files .*No such file"):
        report("--stop-when=token_entropy>0.3")
    report("--format=html", "--pictures=2", "-o", "report.html")
    assert Path("report.html").read_text().count("without paths") == 1
