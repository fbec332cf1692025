"""The report of labels: its table, its JSON, and labels of cases that are not there."""

from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from tests.support.reports import models_of, report, write
from tests.support.varied import varied


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTEST_VLA_DATA", raising=False)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def test_which_metrics_go_with_labels_and_how_far_two_agree(capsys: pytest.CaptureFixture[str]) -> None:
    records = [varied("", seed < 9, seed=seed, metrics={"hand_jerk": 10.0 - seed}) for seed in range(13)]
    write(records)
    classes = ["low"] * 3 + ["medium"] * 3 + ["high"] * 3
    rows = [f"{record.case},{label},me" for record, label in zip(records, classes, strict=False)]
    rows += [f"{records[0].case},low,you", f"{records[3].case},high,you"]
    Path("labels.csv").write_text("case,label,by\n" + "\n".join(rows))
    (model,) = models_of(capsys, "--labels=labels.csv")
    told = model["labels"]
    assert (sum(told["episodes"].values()), told["failures"]) == (9, 4)
    (two,) = told["agreements"]
    assert (two["episodes"], two["observed"]) == (2, 0.5)
    (jerk,) = told["metrics"]
    assert jerk["correlation"]["rho"] < -0.9
    assert jerk["correlation"]["band"] == "strong"
    assert jerk["against_failures"]["low"]["a12"] == 1.0
    report("--labels=labels.csv")
    text = " ".join(capsys.readouterr().out.split())
    assert "me and you agree on 50% of 2 episodes, Cohen's kappa" in text
    assert "metric rho p low medium high hand_jerk -0.9" in text


def test_labels_of_failures_alone_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    record = varied("", False, seed=0, metrics={"hand_jerk": 1.0})
    write([record])
    Path("labels.csv").write_text(f"case,label,by\n{record.case},low,me\n")
    report("--labels=labels.csv")
    assert "no success of these runs has a label" in capsys.readouterr().out


def test_a_label_of_a_case_that_is_not_there_is_refused() -> None:
    write([varied("", True, seed=0, metrics={"hand_jerk": 1.0})])
    Path("labels.csv").write_text("case,label,by\nlibero_goal/nothing[seed0],low,me\n")
    with pytest.raises(VlaError, match=r"labels.csv, line 2: there is no episode 'libero_goal/nothing\[seed0\]'"):
        report("--labels=labels.csv")
