"""The report of whether a policy looks: its sentences, its tables and its JSON, alone and beside others."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.metrics.visual_grounding import Looked
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import Trajectory
from pytest_vla.reports.json_schema import written
from pytest_vla.reports.loaded import Loaded, load
from pytest_vla.reports.looking import _MODELS, looking_blocks, make_looking
from pytest_vla.reports.robustness import make_robustness
from pytest_vla.reports.text import block_lines
from tests.support.golden import check_golden
from tests.support.looking import AT, ELSEWHERE, PLACE, line, probe
from tests.support.reports import RESULTS, models_of, report, write
from tests.support.varied import varied


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path / "cache"))


def looking_table(found: Looked) -> list[dict[str, Any]]:
    table: list[dict[str, Any]] = written(_MODELS, found)["looking"]
    return table


Episode = tuple[Record, Trajectory]


def moved(record: Record, path: np.ndarray) -> Episode:
    rows = len(path)
    return record, Trajectory(np.zeros((rows, 1)), np.zeros((rows, 1)), path, np.zeros((rows - 1, 7)))


def run_of(goes: bool = True, with_wrist: int = 10, seeds: int = 10) -> list[Episode]:
    """Return seeds of one task, with paths: seen as they are, without the object, and without the wrist's pictures."""
    found = []
    for seed in range(seeds):
        end = np.array(PLACE) + 0.02 * np.sin(seed)
        found += [
            moved(varied("", seed < 9, seed=seed), line(end)),
            moved(probe("removed", False, seed, metrics=AT), line(end if goes else ELSEWHERE)),
            moved(probe("wrist", seed < with_wrist, seed), line(end)),
        ]
    return found


def loaded(records: Sequence[Record | Episode]) -> Loaded:
    write(records)
    return load([], RESULTS)


def told(records: Sequence[Record | Episode]) -> str:
    return " ".join("\n".join(block_lines(looking_blocks(make_looking(loaded(records))))).split())


def test_it_is_told_in_words_what_a_policy_does_that_does_not_look() -> None:
    text = told(run_of(goes=True))
    assert "With the target object removed, the hand took its usual path in 10/10 [72%, 100%]" in text
    assert "the hand went to the object's usual place in 9/9 [70%, 100%]: the policy mostly ignores" in text
    assert "Without the wrist's pictures the policy succeeded in 10/10 [72%, 100%], with them in 9/10" in text
    assert "no evidence that it needs them" in text
    assert "Probes are in no success rate" in text


def test_and_what_one_does_that_looks_and_needs_its_wrist() -> None:
    text = told(run_of(goes=False, with_wrist=0))
    assert "the hand took its usual path in 0/10 [0%, 28%]" in text
    assert "in 0/9 [0%, 30%]: the policy mostly checks whether it is there" in text
    assert "Without the wrist's pictures the policy succeeded in 0/10 [0%, 28%], with them in 9/10" in text
    assert "it needs them" in text
    assert "no evidence" not in text


def test_the_whole_report(capsys: pytest.CaptureFixture[str]) -> None:
    write(run_of())
    report()
    text = capsys.readouterr().out
    check_golden(Path(__file__).with_name("golden") / "looking.txt", text)
    assert max(map(len, text.splitlines())) <= 100


def test_few_episodes_determine_nothing() -> None:
    assert "not determined whether the policy looks" in told(run_of(seeds=2))


def test_json_has_every_number(capsys: pytest.CaptureFixture[str]) -> None:
    write(run_of())
    (model,) = models_of(capsys)
    wrist, gone = model["looking"]
    assert (wrist["probe"], gone["probe"]) == ("blackout, wrist", "object removed")
    assert wrist["right"] == {"count": 9, "of": 10, "interval": pytest.approx([59.6, 98.2], abs=0.1)}
    assert wrist["difference"]["value"] == pytest.approx(10.0)
    assert (gone["difference"], gone["blind"]["of"], gone["went"]["count"]) == (None, 0, 9)
    assert gone["apart"]["value"] < gone["usual"]
    report("--format=json")
    assert json.loads(capsys.readouterr().out)["looking"]["over"] == "these tasks"


def test_probes_are_in_no_rate_and_no_dimension_of_harm() -> None:
    records = [*run_of(), *(varied("camera.azimuth-L1", seed < 5, seed=seed) for seed in range(10))]
    there = loaded(records)
    (found,) = make_robustness(there)
    assert [(cell.kind, cell.rate.counted) for cell in found.cells] == [("azimuth", 10)]
    assert "20 probes left out: probes measure no loss" in found.left_out
    assert "level steps are even in the amount, not in the picture: camera.azimuth" in found.left_out
    (model,) = make_looking(there)
    assert [row["pairs"] for row in looking_table(model)] == [10, 10]


def test_a_trajectory_that_cannot_be_read_is_told() -> None:
    there = loaded(run_of())
    record = next(record for record in there.records if record.variation.get("kind") == "removed" and record.seed == 3)
    (RESULTS / "a-run" / str(record.arrays)).write_bytes(b"no archive")
    (model,) = make_looking(there)
    assert any(str(record.arrays) in note for note in model.left_out)
    assert looking_table(model)[1]["same"]["of"] == 9


def test_without_probes_there_is_no_such_section() -> None:
    assert make_looking(loaded([varied("", True), varied("camera.azimuth-L1", False)])) == ()
