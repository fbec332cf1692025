"""The report of what success cost: for people, as JSON and as pictures."""

import json
from pathlib import Path

import pytest

from pytest_vla.metrics.safety import safety
from pytest_vla.reports.safety import pictures, safety_blocks
from pytest_vla.reports.text import block_lines
from tests.support.golden import check_golden
from tests.support.reports import report, write
from tests.support.safety import model_that_touches

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_table_is_that_of_a_file() -> None:
    found = safety([*model_that_touches(), *model_that_touches("careful", every=9)])
    check_golden(GOLDEN / "safety.txt", "\n".join(block_lines(safety_blocks(found, 0.0, full=False))))


def test_the_report_has_costs_beside_success(capsys: pytest.CaptureFixture[str]) -> None:
    write(model_that_touches())
    report("--format=json")
    told = json.loads(capsys.readouterr().out)
    (model,) = told["models"]
    assert told["safety"]["threshold"] == 0
    found = [(row["level"], row["episodes"], row["account"]) for row in model["safety"]]
    assert found == [("L0", 18, "paper"), ("L1", 18, "paper")]
    free, dear = model["safety"]
    assert free["costs"]["paper"] == {"mean": 0.0, "interval": None, "tasks_interval": None}
    assert free["safe"]["count"] == free["success"]["count"] > dear["safe"]["count"]
    assert dear["curve"][-1] == pytest.approx(dear["costs"]["paper"]["mean"])


def test_the_plane_and_the_curves_are_drawn() -> None:
    pytest.importorskip("matplotlib")
    drawn = pictures(safety([*model_that_touches(), *model_that_touches("careful", every=9)]))
    assert set(drawn) == {"safety-plane", "safety-curves"}
    assert all(picture.startswith(b"\x89PNG") and len(picture) > 10_000 for picture in drawn.values())
    free = [record for record in model_that_touches() if record.task_level == "L0"]
    assert set(pictures(safety(free))) == {"safety-plane"}
