"""lerobot itself loads an exported data set, with `LeRobotDataset`, and works on with it."""

from contextlib import closing
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.records.store import open_store
from pytest_vla.reports.dataset.frames import choose, frames_of
from pytest_vla.reports.dataset.lerobot import write_dataset
from pytest_vla.reports.export import ALL, IMAGE, NO_PICTURES, VIDEO
from tests.support.dataset_runs import PLATE, STEPS, STOVE, Kept
from tests.support.lerobot_models import mend_torchvision

pytest.importorskip("lerobot", reason="lerobot is not installed (make lerobot)")

ENDED = (f"tabletop/{STOVE}[seed2]", f"tabletop/{STOVE}[camera.azimuth-L2-seed0]", f"tabletop/{PLATE}[seed1]")
CAMERAS = ("agentview", "wrist")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep packages from looking for files on the network."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    mend_torchvision()


def exported(kept: Kept, folder: Path, pictures: str) -> Path:
    folder.mkdir()
    with open_store(kept.results, create=False) as store, closing(WorldPool(False)) as pool:
        chosen = choose(store, store.runs(), ALL, None)
        episodes = ((e.record, frames_of(pool, e, pictures=pictures != NO_PICTURES)) for e in chosen.episodes)
        write_dataset(folder, episodes, chosen.layout, pictures=pictures)
    return folder


def loaded(folder: Path, **options: Any) -> Any:
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    return LeRobotDataset("pytest-vla/exported", root=folder, **options)


def decode(video: Path, timestamps: list[float], tolerance: float, backend: str | None = None) -> Any:
    """Return the frames nearest to these times (s), (n, 3, H, W) in [0, 1].

    It replaces lerobot's own, which needs torchcodec with FFmpeg's libraries, or a torchvision that still decodes.
    """
    import torch

    with av.open(str(video)) as container:
        shown = {float(frame.time or 0): frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)}
    times = [min(shown, key=lambda time: abs(time - wanted)) for wanted in timestamps]
    assert np.abs(np.subtract(times, timestamps)).max() < tolerance
    return torch.from_numpy(np.stack([shown[time] for time in times])).permute(0, 3, 1, 2) / 255


@pytest.mark.parametrize("pictures", [IMAGE, VIDEO])
def test_each_item_is_what_the_policy_was_shown_and_did(
    kept: Kept, tmp_path: Path, pictures: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lerobot.datasets import lerobot_dataset

    monkeypatch.setattr(lerobot_dataset, "decode_video_frames", decode)
    dataset = loaded(exported(kept, tmp_path / "out", pictures))
    assert (len(dataset), dataset.num_episodes, dataset.fps) == (STEPS * len(ENDED), len(ENDED), 20)
    assert dataset.meta.camera_keys == [f"observation.images.{name}" for name in CAMERAS]
    for episode, case in enumerate(ENDED):
        record, seen = kept.told[case]
        for step, shown in enumerate(seen):
            item = dataset[episode * STEPS + step]
            assert item["task"] == record.instruction.encode(errors="backslashreplace").decode()
            assert np.array_equal(item["observation.state"], shown.state.astype(np.float32))
            assert np.array_equal(item["action"], np.clip(shown.action, -1, 1).astype(np.float32))
            assert (int(item["episode_index"]), int(item["frame_index"])) == (episode, step)
            assert float(item["timestamp"]) == pytest.approx(step / 20)
            assert bool(item["next.success"]) == (record.outcome == "success" and step == STEPS - 1)
            for name in CAMERAS:
                picture = item[f"observation.images.{name}"].permute(1, 2, 0).numpy() * 255
                apart = np.abs(picture - getattr(shown, name))
                assert apart.max() < 1e-3 if pictures == IMAGE else apart.mean() < 4


def test_chunks_of_actions_and_some_episodes_only(kept: Kept, tmp_path: Path) -> None:
    times = {"action": [step / 20 for step in range(4)]}
    dataset = loaded(exported(kept, tmp_path / "out", IMAGE), episodes=[1], delta_timestamps=times)
    _, seen = kept.told[ENDED[1]]
    item = dataset[STEPS - 2]
    wanted = [np.clip(seen[min(step, STEPS - 1)].action, -1, 1) for step in range(STEPS - 2, STEPS + 2)]
    assert np.array_equal(item["action"], np.array(wanted, dtype=np.float32))
    assert item["action_is_pad"].tolist() == [False, False, True, True]


def test_policies_are_made_for_it(kept: Kept, tmp_path: Path) -> None:
    from lerobot.datasets.utils import dataset_to_policy_features

    meta = loaded(exported(kept, tmp_path / "out", VIDEO)).meta
    features = dataset_to_policy_features(meta.features)
    found = {name: (feature.type.value, tuple(feature.shape)) for name, feature in features.items()}
    assert found == {
        **{f"observation.images.{name}": ("VISUAL", (3, 256, 256)) for name in CAMERAS},
        "observation.state": ("STATE", (8,)),
        "action": ("ACTION", (7,)),
    }
    for name, (kind, (size, *_)) in found.items():
        wanted = (3, 1, 1) if kind == "VISUAL" else (size,)
        assert {meta.stats[name][of].shape for of in ("min", "max", "mean", "std", "q01", "q99")} == {wanted}


def test_lerobot_joins_two_of_them(kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lerobot.datasets import lerobot_dataset
    from lerobot.datasets.aggregate import aggregate_datasets

    monkeypatch.setattr(lerobot_dataset, "decode_video_frames", decode)
    folders = [exported(kept, tmp_path / name, VIDEO) for name in ("one", "two")]
    together = tmp_path / "together"
    aggregate_datasets(["a/one", "a/two"], "a/together", roots=folders, aggr_root=together)
    dataset = loaded(together)
    rows = STEPS * len(ENDED)
    assert (dataset.num_episodes, len(dataset), dataset.meta.total_tasks) == (2 * len(ENDED), 2 * rows, len(ENDED))
    for number in (0, rows - 1):
        once, again = dataset[number], dataset[rows + number]
        for name in ("action", "observation.state"):
            assert np.array_equal(once[name], again[name])
        assert (once["observation.images.wrist"] - again["observation.images.wrist"]).abs().max() < 1e-6
