"""The script of docs/how-to/training.md: lerobot's own training loop, whose policy in memory is evaluated."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.records.store import open_store
from tests.support.data import REPOSITORY
from tests.support.lerobot_models import PICTURE, mend_torchvision_of_processes, save_act
from tests.support.pages import blocks
from tests.support.runs import records_of, run_names

pytest.importorskip("lerobot", reason="lerobot is not installed (make lerobot)")

STEPS, SAVE_EVERY = 4, 2
PAGE = REPOSITORY / "docs" / "how-to" / "training.md"
# lerobot's own training as it is, for comparison.
ALONE = "from lerobot.scripts.lerobot_train import main\n\nif __name__ == '__main__':\n    main()\n"


def save_dataset(folder: Path) -> None:
    """Two random episodes in LeRobot's format."""
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    cameras = ("observation.images.image", "observation.images.image2")
    features: dict[str, Any] = {
        name: {"dtype": "image", "shape": (PICTURE, PICTURE, 3), "names": ["height", "width", "channels"]}
        for name in cameras
    }
    features["observation.state"] = {"dtype": "float32", "shape": (8,), "names": None}
    features["action"] = {"dtype": "float32", "shape": (7,), "names": None}
    made = LeRobotDataset.create("pytest-vla/random", 20, features, root=folder, use_videos=False)
    drawn = np.random.default_rng(0)
    for _ in range(2):
        for _ in range(8):
            frame: dict[str, Any] = {
                name: drawn.integers(0, 256, (PICTURE, PICTURE, 3), dtype=np.uint8) for name in cameras
            }
            frame["observation.state"] = drawn.normal(size=8).astype(np.float32)
            frame["action"] = drawn.uniform(-1, 1, 7).astype(np.float32)
            made.add_frame(frame | {"task": "turn on the stove"})
        made.save_episode()
    made.finalize()


def trained(script: str, folder: Path, output: str) -> bytes:
    """Trains a small ACT, which draws noise and drops out at random; the weights at the end."""
    (folder / "train.py").write_text(script)
    small = {"dim_model": 32, "n_heads": 2, "dim_feedforward": 32, "n_encoder_layers": 1, "n_vae_encoder_layers": 1}
    policy = {**small, "latent_dim": 8, "chunk_size": 6, "n_action_steps": 6, "device": "cpu", "push_to_hub": "false"}
    command = [
        *(sys.executable, "train.py", "--policy.type=act", "--policy.pretrained_backbone_weights=null"),
        *(f"--policy.{name}={value}" for name, value in policy.items()),
        *("--dataset.repo_id=pytest-vla/random", "--dataset.root=dataset", f"--output_dir={output}"),
        *(f"--steps={STEPS}", f"--save_freq={SAVE_EVERY}", "--eval_freq=0", "--log_freq=1", "--seed=3"),
        *("--batch_size=2", "--num_workers=0", "--wandb.enable=false"),
    ]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    last = folder / output / "checkpoints" / f"{STEPS:06}" / "pretrained_model"
    return (last / "model.safetensors").read_bytes()


def test_lerobots_training_loop_evaluates_what_it_has_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mend_torchvision_of_processes(tmp_path / "site", monkeypatch)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY), prepend=os.pathsep)
    data = tmp_path / "data"
    for kind in ("assets", "bddl_files", "init_files"):
        (data / kind).mkdir(parents=True)
    monkeypatch.setenv("PYTEST_VLA_DATA", str(data))
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p pytest_vla.testing -p no:hypothesispytest\n")
    save_dataset(tmp_path / "dataset")

    (script,) = [block.text for block in blocks(PAGE) if block.title == "train_and_evaluate.py"]
    asked = 'suite="libero_spatial", episodes=5, workers=8'
    assert asked in script
    script = script.replace(asked, 'suite="libero_goal", tasks="turn_on", episodes=2, workers=1, batch=1')
    # Not a bit of the training is another one for being evaluated.
    assert trained(script, tmp_path, "out") == trained(ALONE, tmp_path, "alone")

    results = tmp_path / ".vla"
    runs = run_names(results)
    with open_store(results, create=False) as store:
        assert [store.run(name).model for name in runs] == ["live:step 2", "live:step 4"]
    found = {name: records_of(results, name) for name in runs}
    assert all(record.outcome in ("success", "failure") for records in found.values() for record in records)
    assert len({record.policy_digest for records in found.values() for record in records}) == 2
    assert {record.replan for records in found.values() for record in records} == {6}

    # What was in memory is what was saved; a batch of others would change the order of floats.
    command = [sys.executable, "-m", "pytest", "--vla-suite=libero_goal", "--vla-tasks=turn_on", "--vla-episodes=2"]
    model = f"--vla-model=lerobot:out/checkpoints/{STEPS:06}/pretrained_model"
    # What is in memory implies no evaluator; a checkpoint of lerobot's would imply lerobot's.
    more = ("--vla-device=cpu", "-n1", "--vla-max-batch=1", "--vla-results=saved", "--vla-evaluator=ours")
    subprocess.run([*command, model, *more], cwd=tmp_path, check=False)
    saved = {record.case: record.digest for record in records_of(tmp_path / "saved")}
    assert {record.case: record.digest for record in found[runs[-1]]} == saved
    assert len({record.digest for records in found.values() for record in records}) == 4


def test_a_policy_in_memory(tmp_path: Path) -> None:
    from pytest_vla.policies.in_memory_digest import live_digest
    from pytest_vla.policies.lerobot import load, of_policy
    from tests.support.lerobot_answers import alone

    loaded = load(str(save_act(tmp_path)), "cpu")
    model, before, after = loaded._model, loaded._before, loaded._after
    live = of_policy(model, before, after)
    assert (live.reads, live.replan, live.manner) == (loaded.reads, loaded.replan, loaded.manner)
    assert np.array_equal(alone(live, 0), alone(loaded, 0))
    assert of_policy(model, before, after, replan=2).replan == 2

    import torch

    first, digest = alone(live, 0), live_digest(live)
    assert digest == live_digest(of_policy(model, before, after))
    with torch.no_grad():
        for weights in model.parameters():
            weights.add_(0.1)
    assert live_digest(live) != digest
    assert not np.array_equal(alone(live, 0), first)
    model.train()
    with pytest.raises(VlaError, match=r"ACTPolicy is in training mode, .* Call policy\.eval\(\) first"):
        of_policy(model, before, after)
    with pytest.raises(VlaError, match=r"Linear is not a lerobot policy. If it is wrapped, unwrap it first"):
        of_policy(torch.nn.Linear(1, 1), before, after)


def test_weights_of_torch_are_hashed_by_their_content() -> None:
    import torch

    from pytest_vla.policies.in_memory_digest import live_digest, weights_digest

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    before = weights_digest(model)
    assert before == weights_digest(model.state_dict())
    assert live_digest(None, model) == live_digest(None, model)
    assert before != weights_digest(model.to(torch.bfloat16))
    found = {"scalar": torch.tensor(3.0), "columns": torch.arange(6.0).reshape(2, 3).T, "none": torch.zeros(0)}
    assert weights_digest(found) != weights_digest({**found, "scalar": torch.tensor(4.0)})
    assert weights_digest(found) == weights_digest({**found, "columns": found["columns"].contiguous()})


def test_torchs_generators_are_put_back() -> None:
    import torch

    from pytest_vla.policies.generators import all_globals_put_back, seed_globals

    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    with all_globals_put_back():
        seed_globals([np.random.default_rng(1)])
        torch.rand(5)
    assert torch.equal(torch.rand(3), expected)
