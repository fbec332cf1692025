"""The files of a data set hold what the policy was shown and did, and say where it is."""

import io
import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.errors import VlaError
from pytest_vla.records.store import open_store
from pytest_vla.reports.dataset.frames import Layout, choose, frames_of
from pytest_vla.reports.dataset.lerobot import QUANTILES, write_dataset
from pytest_vla.reports.export import ALL, IMAGE, NO_PICTURES, PICTURES, VIDEO
from tests.support.dataset_runs import PLATE, STEPS, STOVE, Kept, Seen
from tests.support.slow import all_slow_but
from tests.support.videos import read

AGENTVIEW, WRIST = CAMERAS = ("observation.images.agentview", "observation.images.wrist")
FPS = 20

Export = Callable[..., Path]


@pytest.fixture(scope="module")
def export(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> Export:
    """Export the stored run as a data set, once of each kind."""
    made: dict[Any, Path] = {}

    def exported(pictures: str, most_mb: tuple[float, float] = (100, 200)) -> Path:
        if (pictures, most_mb) not in made:
            made[pictures, most_mb] = folder = tmp_path_factory.mktemp(pictures)
            with open_store(kept.results, create=False) as store, closing(WorldPool(False)) as pool:
                chosen = choose(store, store.runs(), ALL, None)
                episodes = ((e.record, frames_of(pool, e, pictures=pictures != NO_PICTURES)) for e in chosen.episodes)
                frames = write_dataset(folder, episodes, chosen.layout, pictures=pictures, most_mb=most_mb)
                assert frames == STEPS * len(chosen.episodes)
        return made[pictures, most_mb]

    return exported


@pytest.fixture(scope="module")
def seen(kept: Kept) -> list[Seen]:
    """Return the observations and actions of the whole data set, in order."""
    # By the suite's order of tasks, then as they are before what is varied.
    ended = [
        f"tabletop/{STOVE}[seed2]",
        f"tabletop/{STOVE}[camera.azimuth-L2-seed0]",
        f"tabletop/{PLATE}[seed1]",
    ]
    assert len(ended) == len(kept.told) - 1 == 3
    return [each for case in ended for each in kept.told[case][1]]


def rows_of(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "data").rglob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def info_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "meta" / "info.json").read_text())
    return found


@pytest.mark.parametrize("pictures", all_slow_but(["image"], PICTURES))
def test_rows_are_control_steps(export: Export, seen: list[Seen], pictures: str) -> None:
    folder = export(pictures)
    rows, info = rows_of(folder), info_of(folder)
    assert len(rows) == len(seen) == info["total_frames"]
    for number, (row, each) in enumerate(zip(rows, seen, strict=True)):
        episode, frame = divmod(number, STEPS)
        assert row["observation.state"] == each.state.astype(np.float32).tolist()
        assert row["action"] == np.clip(each.action, -1, 1).astype(np.float32).tolist()
        assert row["timestamp"] == np.float32(frame / FPS)
        assert (row["index"], row["episode_index"], row["frame_index"]) == (number, episode, frame)
        assert row["next.success"] == (number == len(rows) - 1), "the last episode's last step"
    assert [row["task_index"] for row in rows] == sorted(row["task_index"] for row in rows)
    assert set(rows[0]) == set(info["features"]) - (set(CAMERAS) if pictures == VIDEO else set())


def test_pictures_in_tables_are_what_was_shown(export: Export, seen: list[Seen]) -> None:
    for row, each in zip(rows_of(export(IMAGE)), seen, strict=True):
        for key, shown in ((AGENTVIEW, each.agentview), (WRIST, each.wrist)):
            assert np.array_equal(np.asarray(Image.open(io.BytesIO(row[key]["bytes"]))), shown)


def test_videos_are_close_to_what_was_shown(export: Export, seen: list[Seen]) -> None:
    for key, shown in ((AGENTVIEW, "agentview"), (WRIST, "wrist")):
        frames, rate = read(export(VIDEO) / "videos" / key / "chunk-000" / "file-000.mp4")
        assert (len(frames), rate) == (len(seen), FPS)
        apart = [
            np.abs(frame.astype(int) - getattr(each, shown)).mean() for frame, each in zip(frames, seen, strict=True)
        ]
        assert max(apart) < 4, "of 255"


@pytest.mark.parametrize("most_mb", [(100, 200), (0.0, 0.0)], ids=["one file", "a file an episode"])
def test_episodes_say_where_they_are(export: Export, seen: list[Seen], most_mb: tuple[float, float]) -> None:
    folder = export(VIDEO, most_mb)
    info = info_of(folder)
    episodes = pq.read_table(folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet").to_pylist()
    end = 0
    for number, episode in enumerate(episodes):
        assert (episode["episode_index"], episode["length"]) == (number, STEPS)
        assert (episode["dataset_from_index"], episode["dataset_to_index"]) == (end, end + STEPS)
        data = info["data_path"].format(chunk_index=episode["data/chunk_index"], file_index=episode["data/file_index"])
        found = [row for row in pq.read_table(folder / data).to_pylist() if row["episode_index"] == number]
        assert [row["index"] for row in found] == list(range(end, end + STEPS))
        for key, shown in ((AGENTVIEW, "agentview"), (WRIST, "wrist")):
            place = {name: episode[f"videos/{key}/{name}"] for name in ("chunk_index", "file_index")}
            frames, _ = read(folder / info["video_path"].format(video_key=key, **place))
            first = round(episode[f"videos/{key}/from_timestamp"] * FPS)
            assert round(episode[f"videos/{key}/to_timestamp"] * FPS) == first + STEPS
            apart = frames[first].astype(int) - getattr(seen[end], shown)
            assert np.abs(apart).mean() < 4
        end += STEPS
    assert len(episodes) == info["total_episodes"] == 3
    assert info["splits"] == {"train": "0:3"}
    assert len(list(folder.rglob("*.mp4"))) == (2 if most_mb[1] else 6)


def test_statistics_are_of_what_is_there(export: Export, seen: list[Seen]) -> None:
    for pictures in (IMAGE, VIDEO):
        folder = export(pictures)
        stats = json.loads((folder / "meta" / "stats.json").read_text())
        assert set(stats) == set(info_of(folder)["features"])
        shown = np.stack([each.wrist for each in seen]).reshape(-1, 3) / 255
        states = np.stack([each.state for each in seen]).astype(np.float32).astype(np.float64)
        for name in ("min", "max", "mean", "std"):
            assert np.shape(stats[WRIST][name]) == (3, 1, 1)
            assert np.ravel(stats[WRIST][name]) == pytest.approx(getattr(shown, name)(axis=0))
            assert stats["observation.state"][name] == pytest.approx(getattr(states, name)(axis=0))
        assert stats["observation.state"]["q99"] == pytest.approx(np.quantile(states, 0.99, axis=0))
        assert stats[AGENTVIEW]["count"] == stats["action"]["count"] == [len(seen)]
        (first, *_) = pq.read_table(folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet").to_pylist()
        assert first["stats/observation.state/max"] == pytest.approx(states[:STEPS].max(axis=0))
        assert np.shape(first[f"stats/{WRIST}/q50"]) == (3, 1, 1)
        assert {name.rpartition("/")[2] for name in first if name.startswith("stats/")} == {
            *("min", "max", "mean", "std", "count"),
            *QUANTILES,
        }


def test_tasks_are_what_the_policy_was_told(export: Export, kept: Kept) -> None:
    folder = export(NO_PICTURES)
    table = pq.read_table(folder / "meta" / "tasks.parquet")
    assert json.loads(table.schema.metadata[b"pandas"])["index_columns"] == ["task"]
    tasks = {row["task_index"]: row["task"] for row in table.to_pylist()}
    assert (tasks[0], tasks[2]) == ("turn on the stove", "put the bowl on the plate")
    assert tasks[1] == 'turn\non, "the" \x00 stove\r\n=1+1 \\ud800 ü'
    episodes = pq.read_table(folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet").to_pylist()
    assert [episode["tasks"] for episode in episodes] == [[tasks[number]] for number in range(3)]
    sources = [json.loads(line) for line in (folder / "meta" / "pytest_vla.jsonl").read_text().splitlines()]
    for number, source in enumerate(sources):
        record, _ = kept.told[source["case"]]
        assert (source["episode_index"], source["digest"]) == (number, record.digest)
        assert (source["instruction"], source["outcome"]) == (record.instruction, record.outcome)
    assert info_of(folder)["total_tasks"] == 3


def test_the_same_run_gives_the_same_files(export: Export, kept: Kept, tmp_path: Path) -> None:
    with open_store(kept.results, create=False) as store, closing(WorldPool(False)) as pool:
        chosen = choose(store, store.runs(), ALL, None)
        episodes = ((e.record, frames_of(pool, e, pictures=True)) for e in chosen.episodes)
        write_dataset(tmp_path, episodes, chosen.layout, pictures=VIDEO)
    files = sorted(file.relative_to(tmp_path) for file in tmp_path.rglob("*") if file.is_file())
    assert len(files) == 8
    for file in files:
        assert (tmp_path / file).read_bytes() == (export(VIDEO) / file).read_bytes(), file


def test_odd_pictures_are_no_video(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match=r"pictures of 63x64 pixels cannot be a video, .* --pictures=image"):
        write_dataset(tmp_path, [], Layout(FPS, (63, 64), ("agentview",)), pictures=VIDEO)
    assert not list(tmp_path.iterdir())
