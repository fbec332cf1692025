"""The script that trains tiny, from beginning to end by the least of everything, where torch is: `make lerobot`."""

import dataclasses
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.policies.tiny.network import PROPRIOCEPTION, SCENE, VIEW, WRIST, control, perceive, read_text
from pytest_vla.policies.tiny.weights import Trained, load_weights, numbered
from tests.support.data import REPOSITORY

torch = pytest.importorskip("torch", reason="torch is needed to train tiny (make lerobot)")

# The two whose episodes are shortest; where the first begins, drawers are closed.
TASKS = ("turn_on_the_stove", "close_the_bottom_drawer_of_the_cabinet")
STAGES = (
    *("plan.json", "words.npz", "states-0.npz", "states-1.npz", "times.json"),
    *(f"round-{number}/shard-0000.npz" for number in range(4)),
    *(f"control-{name}.pt" for name in ("0", "1", "2", "3", "early")),
    *(f"perception-{name}.pt" for name in ("1", "2")),
    *("control-0-None.npz", "control-1-perception-1.npz", "control-2-perception-2.npz"),
)
CHECKPOINTS = ("early", "final")


@pytest.mark.slow
@pytest.mark.study
def test_all_stages_run_once_and_their_checkpoints_are_read(tmp_path: Path) -> None:
    from scripts.train_tiny import Training, train

    plan = least()
    torch.set_num_threads(1)
    train(Training(tmp_path / "a", plan, 2, TASKS))
    made = contents(tmp_path / "a")
    assert set(made) == {*STAGES, *(f"{name}.npz" for name in CHECKPOINTS)}
    trained = {name: load_weights(tmp_path / "a" / f"{name}.npz") for name in CHECKPOINTS}
    assert {name: each.about["name"] for name, each in trained.items()} == {name: name for name in CHECKPOINTS}
    assert len({each.digest for each in trained.values()}) == len(CHECKPOINTS)
    rounds = {name: each.about["outcomes"] for name, each in trained.items()}
    assert [len(each) for each in rounds.values()] == [1, 4]
    for outcomes in rounds["final"]:
        assert set(outcomes) == set(TASKS)
        assert all(told["episodes"] == 1 and told["done"] in (0, 1) for told in outcomes.values())
    with np.load(tmp_path / "a" / "round-2" / "shard-0000.npz") as shard:
        assert len(shard["views"]) == len(shard["scenes"]) > 0, "all rows have pictures where eyes learn from them"
    with np.load(tmp_path / "a" / "round-3" / "shard-0000.npz") as shard:
        assert not len(shard["views"]), "none has where hands alone are taught"
        assert len(shard["seen"]) == len(shard["seen_rows"])
    assert {name: senses(each) for name, each in trained.items()} == dict.fromkeys(CHECKPOINTS, (True, True))

    started = time.time_ns()
    train(Training(tmp_path / "a", plan, 2, TASKS))
    assert contents(tmp_path / "a") == made
    assert max(path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*")) < started, "nothing was done again"

    # What a learner saw as it drove is added to what is seen of pictures, and no row is added twice.
    training = Training(tmp_path / "a", plan, 2, TASKS)
    rows = training.rows(3, pictures=True)
    places, told = training.perceived(rows, "perception-2")
    assert len(rows.seen)
    assert len(places.unique()) == len(places) == len(told) > len(rows.rows)

    hands = dataclasses.replace(plan, shown=0.0, told=(0.0,), seen_rounds=0)
    train(Training(tmp_path / "c", hands, 2, TASKS, tmp_path / "a" / "final.npz"))
    taught = load_weights(tmp_path / "c" / "final.npz")
    assert taught.about["eyes"]["digest"] == trained["final"].digest
    same = {name for name, value in taught.weights.items() if np.array_equal(value, trained["final"].weights[name])}
    assert {name.split(".")[0] for name in same} == {"view", "wrist"}, "the eyes are as they were"
    assert same == {name for name in taught.weights if name.startswith(("view.", "wrist."))}
    with pytest.raises(VlaError, match="another plan: eyes"):
        Training(tmp_path / "c", hands, 2, TASKS)

    train(Training(tmp_path / "b", plan, 1, TASKS), "control-0")
    again = contents(tmp_path / "b")
    again.pop("times.json")
    assert {name: made[name] == content for name, content in again.items()} == dict.fromkeys(again, True)
    assert "control-0.pt" in again


def test_a_folder_keeps_its_plan_and_refuses_another(tmp_path: Path) -> None:
    from scripts.train_tiny import Training

    Training(tmp_path, least(), 2, TASKS)
    kept = (tmp_path / "plan.json").read_bytes()
    Training(tmp_path, least(), 1, TASKS)
    with pytest.raises(VlaError, match=r"plan\.json: .* another plan: pool 2, not 3; name another folder with --out"):
        Training(tmp_path, dataclasses.replace(least(), pool=3), 2, TASKS)
    with pytest.raises(VlaError, match=r"another plan: tasks \['turn.*', 'close.*'\], not \['turn_on_the_stove'\]; "):
        Training(tmp_path, least(), 2, TASKS[:1])
    assert (tmp_path / "plan.json").read_bytes() == kept
    for content in ("{", "[]"):
        (tmp_path / "plan.json").write_text(content, encoding="utf-8")
        with pytest.raises(VlaError, match=r"plan\.json: expected the plan of the files beside it.*; name another"):
            Training(tmp_path, least(), 2, TASKS)


@pytest.mark.slow
def test_the_script_says_in_a_line_that_a_folder_is_of_another_plan(tmp_path: Path) -> None:
    from scripts.train_tiny import Training

    Training(tmp_path, least(), 1, TASKS)
    script = str(REPOSITORY / "scripts" / "train_tiny.py")
    told = subprocess.run([sys.executable, script, "--out", str(tmp_path)], capture_output=True, text=True)
    assert told.returncode == 1
    assert "Traceback" not in told.stderr
    assert "the files beside it follow from another plan" in told.stderr


@pytest.mark.slow
def test_the_script_runs_as_a_file_from_any_folder(tmp_path: Path) -> None:
    script = str(REPOSITORY / "scripts" / "train_tiny.py")
    told = subprocess.run([sys.executable, script, "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert "--eyes" in told.stdout


def least() -> Any:
    """Two steps a fit, and a shard a round."""
    from scripts.train_tiny import Plan

    rounds: dict[str, Any] = {"told": (1.0,), "told_shards": 1, "seen_rounds": 1, "seen_shards": 1}
    rounds |= {"demonstrations": 1, "acted": (1,)}
    return Plan(**rounds, control=(2, 3), early=2, perception=(2, 3), pool=2)


def contents(folder: Path) -> dict[str, bytes]:
    """Files by their names."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def senses(trained: Trained) -> tuple[bool, bool]:
    """Whether what a checkpoint does goes by the text, and by pictures."""
    rng = np.random.default_rng(0)
    arm = rng.normal(size=PROPRIOCEPTION).astype(np.float32)
    scenes = [
        perceive(trained.weights, *(np.full((side, side, 3), shade, np.uint8) for side in (VIEW, WRIST)), arm)
        for shade in (0, 200)
    ]
    texts = [
        read_text(trained.weights, numbered(text, trained.places))
        for text in ("turn on the stove", "close the bottom drawer of the cabinet")
    ]
    scene = rng.normal(size=SCENE).astype(np.float32)
    heard = [control(trained.weights, scene, arm, text)[0].tobytes() for text in texts]
    seen = [control(trained.weights, each, arm, texts[0])[0].tobytes() for each in scenes]
    return heard[0] != heard[1], seen[0] != seen[1]
