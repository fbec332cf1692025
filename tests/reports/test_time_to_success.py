"""The section on the steps to success: each model's, and two models beside the paired test."""

from pathlib import Path

import pytest

from pytest_vla.reports.loaded import load
from pytest_vla.reports.text import block_lines
from pytest_vla.reports.time_to_success import make_times, time_blocks
from tests.support.reports import RESULTS, models_of, write
from tests.support.varied import varied

PROTOCOL = {"max_steps": 300}


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def test_two_models_have_their_times_and_both_tests(capsys: pytest.CaptureFixture[str]) -> None:
    write(
        varied("", True, f"task_{t}", s, policy=policy, protocol=PROTOCOL, success_step=step + s)
        for policy, step in (("fast", 50), ("slow", 150))
        for t in range(2)
        for s in range(8)
    )
    fast, slow = (model["time_to_success"] for model in models_of(capsys, "--section=time-to-success"))
    assert (fast["n"], fast["successes"], fast["quartiles"]) == (16, 16, [51, 53, 55])
    assert slow["quartiles"] == [151, 153, 155]
    (compared,) = fast["compared"]
    assert (compared["other"], compared["pairs"], compared["paired_difference"]) == ("slow", 16, 0)
    assert compared["log_rank_p"] < 1e-4, "both always succeed; one takes longer"
    assert compared["paired_p"] == pytest.approx(1)
    assert slow["compared"] == []
    lines = [*block_lines(time_blocks(make_times(load([], RESULTS))))]
    assert any(line.split()[:3] == ["fast", "slow", "libero_goal"] for line in lines)


def test_failures_are_censored_and_without_steps_there_is_no_such_section(capsys: pytest.CaptureFixture[str]) -> None:
    write(varied("", s < 2, seed=s, protocol=PROTOCOL, success_step=10 if s < 2 else None, steps=300) for s in range(8))
    (found,) = models_of(capsys, "--section=time-to-success")
    assert found["time_to_success"]["quartiles"] == [10, None, None]
    assert found["time_to_success"]["curve"] == [{"steps": 10, "share": 0.25}]
    write([varied("", True, seed=3, protocol=PROTOCOL)], run="b-run")
    assert make_times(load(["b-run"], RESULTS)) == ()
