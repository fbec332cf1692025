"""lerobot's policies are loaded from where they are saved, and an episode runs with one."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.policies.base import Episode
from pytest_vla.policies.lerobot import check, digest, load
from pytest_vla.policies.load import load_policy
from pytest_vla.policies.spec import ModelSpec
from tests.support import lerobot_models
from tests.support.lerobot_answers import alone
from tests.support.lerobot_models import save_smolvla

pytest.importorskip("lerobot", reason="lerobot is not installed (make lerobot)")
lerobot_models.mend_torchvision()

import torch  # noqa: E402


@pytest.fixture(scope="module")
def smolvla(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_smolvla(tmp_path_factory.mktemp("smolvla"))


@pytest.fixture(scope="module")
def policy(smolvla: Path) -> Any:
    return load(str(smolvla), "cpu")


def test_a_saved_policy_answers_as_the_one_that_was_saved(tmp_path: Path) -> None:
    from lerobot.policies.factory import make_pre_post_processors
    from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy

    saved = load(str(save_smolvla(tmp_path, seed=3)), "cpu")
    again = lerobot_models.save(
        tmp_path / "again",
        saved._model,
        *make_pre_post_processors(saved._model.config, pretrained_path=str(tmp_path / "policy")),
    )
    loaded = load(str(again), "cpu")
    assert isinstance(loaded._model, SmolVLAPolicy)
    assert np.array_equal(alone(loaded, 0), alone(saved, 0))
    other = load(str(save_smolvla(tmp_path / "other", seed=4)), "cpu")
    assert not np.array_equal(alone(other, 0), alone(saved, 0))


def test_a_training_runs_output_folder_is_its_last_checkpoint(smolvla: Path, tmp_path: Path) -> None:
    shutil.copytree(smolvla, tmp_path / "run" / "checkpoints" / "last" / "pretrained_model")
    assert load("run", "cpu", folder=tmp_path).replan == 5
    assert load("run", "cpu", folder=tmp_path, replan=3).replan == 3


def test_a_policys_digest_names_its_weights_and_its_statistics(smolvla: Path, tmp_path: Path) -> None:
    shutil.copytree(smolvla, tmp_path / "copy")
    assert digest("copy", tmp_path) == digest(str(smolvla)) is not None
    weights = tmp_path / "copy" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    assert digest("copy", tmp_path) != digest(str(smolvla))
    assert digest("nowhere", tmp_path) is None


def test_what_the_hub_has_is_named_where_it_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(
        VlaError, match=r"https://huggingface.co/lerobot/pi05_libero_finetuned \(config.json, model.safe"
    ):
        load_policy(ModelSpec("pi05", tmp_path, "cpu"))
    with pytest.raises(VlaError, match=r"hf download some/thing --local-dir DIR.*--vla-model=lerobot:DIR"):
        load("some/thing@main", "cpu", folder=tmp_path)
    assert digest("some/thing", tmp_path) is None


def test_a_model_of_the_hub_is_loaded_from_its_cache_by_its_name_and_revision(
    smolvla: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import huggingface_hub.constants

    commit = "0123456789abcdef0123456789abcdef01234567"
    cached = tmp_path / "hub" / "models--some--thing"
    shutil.copytree(smolvla, cached / "snapshots" / commit)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(commit)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    here = load(str(smolvla), "cpu")
    for where in ("some/thing", f"some/thing@{commit}"):
        assert np.array_equal(alone(load(where, "cpu", folder=tmp_path), 1), alone(here, 1))
        assert digest(where, tmp_path) == digest(str(smolvla))
    with pytest.raises(VlaError, match="could not be downloaded"):
        load("some/thing@v2", "cpu", folder=tmp_path)


def test_what_is_no_policy_is_said_to_be_none(smolvla: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    check(str(smolvla))
    check("some/thing", tmp_path)
    for refuse in (check, lambda where, folder: load(where, "cpu", folder=folder)):
        with pytest.raises(VlaError, match=r"there is no folder .*nowhere; expected a folder, or OWNER/NAME"):
            refuse("nowhere", tmp_path)
        with pytest.raises(VlaError, match=r"empty has no config.json; expected the folder that save_pretrained wrote"):
            refuse("empty", tmp_path)
    with pytest.raises(VlaError, match=r"device 'cuda:77' is not available|device 'tpu' is not available"):
        load(str(smolvla), "tpu")
    for name, message in (
        ("model.safetensors", "has no model.safetensors"),
        ("policy_preprocessor.json", "migrate_policy_normalization"),
    ):
        shutil.copytree(smolvla, tmp_path / name)
        (tmp_path / name / name).unlink()
        with pytest.raises(VlaError, match=message):
            load(name, "cpu", folder=tmp_path)
        with pytest.raises(VlaError, match=message):
            check(name, tmp_path)


def test_a_config_that_this_lerobot_cannot_read_or_serve_is_refused(smolvla: Path, tmp_path: Path) -> None:
    def changed(name: str, **changes: Any) -> str:
        shutil.copytree(smolvla, tmp_path / name)
        config = json.loads((tmp_path / name / "config.json").read_text())
        (tmp_path / name / "config.json").write_text(json.dumps(config | changes))
        return name

    with pytest.raises(VlaError, match=r"lerobot [\d.]+ cannot read .*saved by another version"):
        load(changed("newer", unheard_of=1), "cpu", folder=tmp_path)
    with pytest.raises(VlaError, match="Merge it into its base model first"):
        load(changed("adapter", use_peft=True), "cpu", folder=tmp_path)
    with pytest.raises(VlaError, match=r"actions have shape \(6,\)"):
        load(changed("arm", output_features={"action": {"type": "ACTION", "shape": [6]}}), "cpu", folder=tmp_path)
    with pytest.raises(VlaError, match=r"smolvla could not be loaded \(it also reads .*gone.*hf download"):
        load(changed("base", vlm_model_name=str(tmp_path / "gone")), "cpu", folder=tmp_path)


def test_auto_is_a_device_that_is_there(smolvla: Path) -> None:
    chosen = load(str(smolvla)).device.type
    assert chosen == ("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")


# In a world


def test_an_episode_runs_on_its_chunks_and_repeats(policy: Any) -> None:
    import dataclasses

    from pytest_vla import World, load_suite
    from pytest_vla.episode.rollout import Conditions, run_episode
    from pytest_vla.plan.case import Case

    def in_process(begun: Episode) -> Any:
        session = policy.begin(begun)
        return lambda seen: policy.act([session], [seen])[0].clip(-1, 1)

    in_process.replan = policy.replan  # type: ignore[attr-defined]
    task = load_suite("tabletop").task("turn_on_the_stove")
    task = dataclasses.replace(task, protocol=dataclasses.replace(task.protocol, max_steps=8))
    case = Case("tabletop", task.name, 0)
    first, second = (run_episode(case, task, in_process, World, Conditions("lerobot")) for _ in range(2))
    assert (first.record.outcome, first.steps, first.record.replan) == ("failure", 8, 5)
    assert first.record.digest == second.record.digest
