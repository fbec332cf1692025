"""Pictures of episodes: which and how many, and the notes if there is nothing to draw."""

import argparse
import base64
import dataclasses
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from pytest_vla.commands.report import _policies
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.records.load import open_runs
from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import Trajectory
from pytest_vla.reports.html.media import MediaShown, media_of, videos_of
from pytest_vla.reports.html.page import twin_places
from pytest_vla.reports.loaded import load
from pytest_vla.run.html_report import report_run
from pytest_vla.show.occlusion import Occlusion
from tests.support.page import Parsed, page
from tests.support.records import record_of
from tests.support.reports import RESULTS, report, write
from tests.support.varied import varied


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class Pool:
    """Draws nothing."""

    def close(self) -> None: ...


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pictures without a simulator; episodes of seed 9 cannot be drawn."""

    def pictures(pool: Pool, run: Any, record: Record, folder: Path, drawing: Any) -> list[tuple[str, Any]]:
        if record.seed == 9:
            raise VlaError("its assets are not here")
        return [("step 0", np.zeros((32, 48, 3), np.uint8)), (record.outcome, np.full((32, 48, 3), 200, np.uint8))]

    def video(pool: Pool, run: Any, record: Record, folder: Path, file: Path, drawing: Any) -> None:
        file.write_bytes(b"a video")

    monkeypatch.setattr("pytest_vla.show.tasks.open_pool", lambda drawing: Pool())
    monkeypatch.setattr("pytest_vla.show.runs.episode_pictures", pictures)

    def objects(pool: Pool, run: Any, record: Record, folder: Path, drawing: Any, rows: Sequence[int]) -> Any:
        # It rests, and is lifted at the end.
        return {"bowl_1": np.array([[0.1, 0.2, 0.9 + 0.1 * (row == rows[-1])] for row in rows])}

    monkeypatch.setattr("pytest_vla.show.runs.episode_video", video)
    monkeypatch.setattr("pytest_vla.show.runs.episode_objects", objects)


def episodes(outcomes: Sequence[str]) -> None:
    path = np.linspace([0.0, 0.0, 1.0], [0.3, 0.1, 1.2], 301)
    states = np.zeros((301, 9))
    trajectory = Trajectory(states, states, path, np.zeros((300, 7)))
    write([(record_of(seed, outcome), trajectory) for seed, outcome in enumerate(outcomes)])


def test_what_did_not_succeed_comes_first(drawn: None) -> None:
    episodes(["success", "failure", "success", "error"])
    found = page("--pictures=2", "--videos=failed:1").data["media"]
    assert sorted(found) == ["1", "3"]
    assert ("video" in found["1"], "video" in found["3"]) == (True, False)
    start, end = found["1"]["pictures"]
    assert (start["label"], end["label"]) == ("step 0", "failure")
    picture = Image.open(io.BytesIO(base64.b64decode(end["src"].removeprefix("data:image/webp;base64,"))))
    assert picture.size == (48, 32)
    path, bowl = found["1"]["paths"]
    assert bowl == {"name": "bowl_1", "points": [[0.1, 0.2, 0.9], [0.1, 0.2, 1.0]]}
    assert path["name"] == "hand"
    assert len(path["points"]) <= 62
    assert (path["points"][0], path["points"][-1]) == ([0, 0, 1], [0.3, 0.1, 1.2])
    assert "2 of 4 episodes have pictures" in Path("report.html").read_text()


def test_a_runs_own_page_has_as_many_as_are_asked_for(drawn: None) -> None:
    """Check ``--vla-report-pictures``."""
    episodes(["success", "failure"])
    for number, expected in ((0, []), (1, ["1"])):
        report_run(RESULTS / "a-run", Path("report.html"), None, number)
        assert [*Parsed(Path("report.html").read_text()).data["media"]] == expected


def test_none_is_drawn_where_none_is_wanted() -> None:
    """Check that no simulator is needed."""
    episodes(["success"])
    assert page("--pictures=0").data["media"] == {}


def test_what_cannot_be_drawn_is_said(drawn: None) -> None:
    episodes(["failure"] * 10)
    found = page()
    assert [place for place, shown in found.data["media"].items() if "pictures" not in shown] == ["9"]
    assert "1 episode without pictures: its assets are not here" in Path("report.html").read_text()


def test_records_without_trajectories_have_numbers_alone() -> None:
    write([record_of(0)])
    assert page().data["media"] == {}


def test_a_damaged_trajectory_is_said(drawn: None) -> None:
    episodes(["failure"])
    (file,) = RESULTS.rglob("*.npz")
    file.write_bytes(b"no zip")
    loaded = load([], RESULTS)
    media, told = media_of(loaded.records, {}, loaded.folders, MediaShown())
    assert (media, told) == ({}, [])
    page()
    assert "1 episode without paths" in Path("report.html").read_text()


def test_maps_of_where_a_policy_looks_are_of_those_that_failed(
    drawn: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    episodes(["success", "failure", "failure"])
    asked = []

    def maps(pool: Pool, run: Any, record: Record, folder: Path, data: Path | None, policy: Any) -> Any:
        asked.append((record.seed, policy))
        if record.seed == 2:
            raise EpisodeError("policy-raised", "it is broken")
        return [Occlusion("agentview", np.zeros((32, 48, 3), np.uint8), np.eye(8) / 3, 0.0)]

    monkeypatch.setattr("pytest_vla.show.occlusion.episode_occlusions", maps)
    loaded = load([], RESULTS)
    (run,) = (run for _, runs in open_runs([], RESULTS) for run in runs)
    wanted = MediaShown(pictures=0, occlusions=5, policy_of=lambda run, record: run.model)
    media, told = media_of(loaded.records, {run.name: run}, loaded.folders, wanted)
    assert asked == [(1, run.model), (2, run.model)]
    (told_of,) = media[1]["looks"]
    assert (told_of["camera"], told_of["floor"], told_of["changes"][2][2]) == ("agentview", 0.0, 0.333)
    assert told == ["1 episode without occlusion map: policy-raised: it is broken"]
    report("--format=json", "--occlusion=failed", "--section=occlusion", "--vla-model=random")
    (one,) = json.loads(capsys.readouterr().out)["occlusion"]["maps"]
    assert (one["camera"], one["floor"]) == ("agentview", 0.0)
    assert one["changes"][2] == [0, 0, 0.333, 0, 0, 0, 0, 0]
    report("--format=csv", "--occlusion=failed", "--section=occlusion", "--vla-model=random")
    assert f"{one['case']},agentview,3,0.0,0.0,0.0,0.333,0.0" in capsys.readouterr().out


def test_a_policy_that_changed_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that no map is drawn with a policy other than the one that failed."""
    monkeypatch.setattr("pytest_vla.policies.load.digest_of", lambda policy, spec: "1" * 64)
    write([(dataclasses.replace(record_of(0, "failure"), policy="random", policy_digest="0" * 64), None)])
    (run,) = (run for _, runs in open_runs([], RESULTS) for run in runs)
    (record,) = load([], RESULTS).records
    options = argparse.Namespace(vla_model=None, vla_device=None)
    with pytest.raises(VlaError, match="has changed since run a-run"):
        _policies(options, {run.name: RESULTS / run.name}, {})(run, record)
    options.vla_model = "random"
    assert callable(_policies(options, {run.name: RESULTS / run.name}, {})(run, record))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("none", (0, True)),
        ("failed", (20, True)),
        ("failed:3", (3, True)),
        ("all:50", (50, False)),
        ("all", (20, False)),
    ],
)
def test_videos_are_of_so_many(text: str, found: tuple[int, bool]) -> None:
    assert videos_of(text) == found


@pytest.mark.parametrize(
    "arguments", [["--videos=some"], ["--occlusion=5"], ["--videos=failed:x"], ["--pictures=-1"], ["--pictures=\u0663"]]
)
def test_other_numbers_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        report(*arguments)
    assert "expected" in capsys.readouterr().err


def test_a_benign_twin_is_beside_what_is_varied(drawn: None) -> None:
    rows = np.zeros((11, 3))
    trajectory = Trajectory(rows, rows, rows, np.zeros((10, 7)))
    records = [
        varied("", True, "a_task", 0),
        varied("", True, "a_task", 0, run_seed=1),
        varied("camera.distance-L1", False, "a_task", 0),
        varied("camera.distance-L2", False, "a_task", 0, policy="other:policy"),
        varied("camera.distance-L1", False, "a_task", 1),
        varied("", False, "b_task", 0),
    ]
    write([(record, trajectory) for record in records])
    found = page("--pictures=3", "--videos=failed:1").data
    # Of the same model, seed and run seed, or of none.
    assert found["twins"] == {"2": 0}
    assert sorted(found["media"]) == ["0", "2", "3", "4"]
    assert [place for place, shown in found["media"].items() if "video" in shown] == ["2", "0"]


def test_of_several_twins_that_which_counts_is_beside() -> None:
    records = [varied("", "error", "a_task"), varied("", True, "a_task"), varied("light.specular-L1", True, "a_task")]
    assert twin_places(records) == {2: 1}
    assert twin_places(records[:2]) == {}
