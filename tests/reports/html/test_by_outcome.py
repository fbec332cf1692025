"""Drawings of metrics by outcome: what stands in them is the report's, and they say it to those who do not see them."""

import json
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.records.trajectory import Trajectory
from pytest_vla.reports.html.svg import courses, distributions
from tests.support.page import page
from tests.support.reports import report, write
from tests.support.varied import varied


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def test_a_page_shows_the_values_of_both_outcomes() -> None:
    rows, episodes = np.zeros((301, 3)), []
    for seed in range(12):
        done = seed % 3 > 0
        series = {"token_entropy": np.full(300, (0.2 if done else 0.7) + seed / 100)}
        record = varied("", done, seed=seed, metrics={"token_entropy": 0.5})
        episodes.append((record, Trajectory(rows, rows, rows, np.zeros((300, 7)), series)))
    write(episodes)
    # Without its trajectory it is in no drawing.
    write([varied("", True, seed=99, metrics={"token_entropy": 0.5})], "b-run")
    found = page()
    report("-o", "report.json")
    (told,) = json.loads(Path("report.json").read_text())["models"][0]["separation"]
    assert (sum(told["failures"]["counts"]), sum(told["successes"]["counts"])) == (4, 8)
    labels = [about["aria-label"] for tag, about in found.elements if tag == "svg" and "aria-label" in about]
    assert "token_entropy by outcome, 0.21 to 0.79: 4 failures, median 0.745; 8 successes, median 0.26" in labels
    assert any(label.startswith("token_entropy over time: failures from") for label in labels)
    text = Path("report.html").read_text()
    assert ["token_entropy", "5%"] in [row[:2] for row in found.rows]
    assert "AUROC within tasks 1.00, over all 1.00" in text


def test_a_drawing_is_as_large_with_many_episodes() -> None:
    told = {
        "metric": "entropy",
        "low": 0.0,
        "high": 1.0,
        "beyond": 0,
        "failures": {"counts": [100] * 24, "median": 0.5, "quartiles": [(0.1, 0.2, 0.3)] * 20},
        "successes": {"counts": [0] * 24, "median": None, "quartiles": [None] * 20},
    }
    drawn = distributions(told, "")
    assert len(drawn) < 3000
    assert drawn.count("M") == 24
    over_time = courses(told)
    assert over_time is not None
    assert over_time.count('class="band') == 1
    assert courses(told | {"failures": told["successes"]}) is None
