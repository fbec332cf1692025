"""lerobot's policies are loaded from where they are saved, and an episode runs with one."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.policies import lerobot
from pytest_vla.policies.base import Episode
from pytest_vla.policies.generators import reseed
from pytest_vla.policies.lerobot import check, digest, load
from pytest_vla.policies.load import check_model, load_policy
from pytest_vla.policies.spec import ModelSpec
from tests.support import lerobot_models
from tests.support.lerobot_answers import alone, episode
from tests.support.lerobot_models import observation, save_lora, save_smolvla, save_xvla

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
    with pytest.raises(VlaError, match=r"VLA-P001: the shape of the policy's actions is \(6, 2\)"):
        load(changed("arm", output_features={"action": {"type": "ACTION", "shape": [6, 2]}}), "cpu", folder=tmp_path)
    with pytest.raises(VlaError, match=r"smolvla could not be loaded \(it also reads .*gone.*hf download"):
        load(changed("base", vlm_model_name=str(tmp_path / "gone")), "cpu", folder=tmp_path)


def test_auto_is_a_device_that_is_there(smolvla: Path) -> None:
    chosen = load(str(smolvla)).device.type
    assert chosen == ("cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu")


# Adapters


@pytest.fixture(scope="module")
def lora(smolvla: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_lora(tmp_path_factory.mktemp("lora") / "adapter", smolvla)


def test_an_adapter_answers_as_it_does_in_lerobot_eval(smolvla: Path, lora: Path, policy: Any) -> None:
    from lerobot.configs.policies import PreTrainedConfig
    from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy
    from peft import PeftModel

    loaded = load(str(lora), "cpu")
    answer = alone(loaded, 0)
    assert np.abs(answer - alone(policy, 0)).max() > 1e-3, "it is not the base"
    assert loaded.manner == policy.manner
    config = PreTrainedConfig.from_pretrained(lora)
    base = SmolVLAPolicy.from_pretrained(smolvla, config=config)
    loaded._model = PeftModel.from_pretrained(base, lora).eval()
    assert np.array_equal(alone(loaded, 0), answer)


def test_the_base_of_an_adapter_may_be_typed_and_is_part_of_its_digest(
    smolvla: Path, lora: Path, tmp_path: Path
) -> None:
    table = json.loads((lora / "adapter_config.json").read_text())
    shutil.copytree(lora, tmp_path / "adapter")
    named = tmp_path / "adapter" / "adapter_config.json"
    named.write_text(json.dumps(table | {"base_model_name_or_path": "someone/base"}))
    for refuse in (check, lambda where, folder: load(where, "cpu", folder=folder)):
        with pytest.raises(VlaError, match=r"base is someone/base, .*lerobot:PATH\?base=WHERE"):
            refuse("adapter", tmp_path)
    spec = ModelSpec(f"lerobot:adapter?base={smolvla}", tmp_path, "cpu")
    check_model(spec)
    assert np.array_equal(alone(load_policy(spec), 1), alone(load(str(lora), "cpu"), 1))
    other = save_smolvla(tmp_path / "other", seed=5)
    digests = {digest("adapter", tmp_path, base=str(base)) for base in (smolvla, other)}
    assert len(digests) == 2
    assert None not in digests
    with pytest.raises(VlaError, match="is for an adapter"):
        check(str(smolvla), base=str(other))
    shutil.copytree(smolvla, tmp_path / "near" / "base")
    shutil.copytree(lora, tmp_path / "near" / "adapter")
    relative = tmp_path / "near" / "adapter" / "adapter_config.json"
    relative.write_text(json.dumps(table | {"base_model_name_or_path": "../base"}))
    check("near/adapter", tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"peft_type": "LOHA"}, "peft_type is 'LOHA', expected 'LORA'"),
        # peft imports what it names.
        ({"megatron_config": {"a": 1}, "megatron_core": "antigravity"}, "megatron_config is .* which is not supported"),
        ({"r": "4"}, "r is '4'"),
        ({"layer_replication": [[0, 1]]}, "layer_replication"),
    ],
)
def test_what_an_adapters_file_asks_for_beside_lora_is_refused(
    lora: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    shutil.copytree(lora, tmp_path / "adapter")
    file = tmp_path / "adapter" / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    for refuse in (check, lambda where, folder: load(where, "cpu", folder=folder)):
        with pytest.raises(VlaError, match=message):
            refuse("adapter", tmp_path)


def test_weights_that_do_not_fit_and_those_of_pickle_are_refused(smolvla: Path, lora: Path, tmp_path: Path) -> None:
    save_lora(tmp_path / "adapter", smolvla, target_modules=r".*q_proj")
    table = json.loads((lora / "adapter_config.json").read_text())
    (tmp_path / "adapter" / "adapter_config.json").write_text(json.dumps(table))
    with pytest.raises(VlaError, match=r"do not fit the policy: \d+ weights"):
        load("adapter", "cpu", folder=tmp_path)
    weights = tmp_path / "adapter" / "adapter_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(VlaError, match=r"has no adapter_model.safetensors"):
        check("adapter", tmp_path)


def test_without_peft_the_message_says_what_to_install(lora: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = lerobot.find_spec
    monkeypatch.setattr(lerobot, "find_spec", lambda name: None if name == "peft" else real(name))
    with pytest.raises(VlaError, match="pip install peft"):
        check(str(lora))


# X-VLA


@pytest.mark.parametrize("at_eval", [True, False])
def test_x_vla_is_asked_as_lerobot_eval_asks_it(at_eval: bool, tmp_path: Path) -> None:
    from lerobot.policies.factory import make_pre_post_processors
    from lerobot.policies.xvla.modeling_xvla import XVLAPolicy
    from lerobot.policies.xvla.processor_xvla import make_xvla_libero_pre_post_processors

    folder = save_xvla(tmp_path, at_eval=at_eval)
    loaded = load(str(folder), "cpu")
    assert (loaded.traits.action_convention, loaded.replan, loaded.max_batch) == ("absolute", 4, 1)
    seen = observation(0)
    answer = alone(loaded, 0)
    assert answer.shape == (6, 7)
    assert set(np.unique(answer[:, 6])) <= {-1.0, 1.0}
    # The same by lerobot's own parts, from what MuJoCo draws: ours are turned by 180 degrees.
    model = XVLAPolicy.from_pretrained(folder)
    before, after = make_pre_post_processors(model.config, pretrained_path=str(folder))
    env_before, env_after = make_xvla_libero_pre_post_processors()
    raw = {name: seen[name][::-1, ::-1].copy() for name in seen if name.endswith("_image")}
    pictures = {
        f"observation.images.{key}": torch.from_numpy(raw[name]).permute(2, 0, 1)[None].float() / 255
        for key, name in (("image", "agentview_image"), ("image2", "robot0_eye_in_hand_image"))
    }
    hand = {
        "pos": torch.from_numpy(seen["robot0_eef_pos"])[None],
        "mat": torch.from_numpy(seen["controller_mat"])[None],
    }
    asked = {**pictures, "observation.robot_state": {"eef": hand}, "task": [episode(0).instruction]}
    if not at_eval:
        # Two normalisations, which its second refuses: lerobot-eval cannot run such a checkpoint.
        env_before.steps = env_before.steps[:1]
    rng = episode(0).rng
    reseed(rng, 0, episode(0).case_id, 0)
    torch.manual_seed(int(rng.integers(2**63)))
    with torch.no_grad():
        chunk = model.predict_action_chunk(before(env_before(asked)))
    expected = [env_after({"action": after(chunk[:, step])})["action"][0].numpy() for step in range(6)]
    assert np.array_equal(answer, np.array(expected, dtype=np.float64))


def test_x_vlas_wrist_picture_is_as_rendered_under_every_evaluator(tmp_path: Path) -> None:
    loaded = load(str(save_xvla(tmp_path)), "cpu")
    seen, answers = observation(0), []
    for turn, wrist in (
        ("rotate_180", seen["robot0_eye_in_hand_image"]),
        ("raw", seen["robot0_eye_in_hand_image"][::-1, ::-1]),
        ("none", seen["robot0_eye_in_hand_image"][:, ::-1]),
    ):
        begun = dataclasses.replace(episode(0), wrist_transform=turn)
        reseed(begun.rng, 0, begun.case_id, 0)
        answers += loaded.act([loaded.begin(begun)], [seen | {"robot0_eye_in_hand_image": wrist}])
    assert np.array_equal(answers[0], answers[1])
    assert np.array_equal(answers[0], answers[2])


def test_an_episode_of_x_vla_is_one_of_poses(tmp_path: Path) -> None:
    from pytest_vla import World, load_suite
    from pytest_vla.episode.rollout import Conditions, run_episode
    from pytest_vla.plan.case import Case
    from pytest_vla.plan.task import with_protocol
    from pytest_vla.policies.base import one_by_one

    loaded = load(str(save_xvla(tmp_path)), "cpu")
    task = with_protocol(load_suite("tabletop").task("turn_on_the_stove"), max_steps=5)
    ended = run_episode(Case("tabletop", task.name, 0), task, one_by_one(loaded), World, Conditions("xvla"))
    assert (ended.record.outcome, ended.steps) == ("failure", 5), ended.record.message
    assert ended.record.protocol["control"] == "absolute"


# In a world


def test_an_episode_runs_on_its_chunks_and_repeats(policy: Any) -> None:
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
