"""lerobot's own classes behind `BatchPolicy`: what they are given, what they draw, and what batches change."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.policies.base import Episode, is_batch_policy
from pytest_vla.policies.lerobot import check, digest, load
from pytest_vla.policies.load import load_policy
from pytest_vla.policies.noise import noise_generator, reseed
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.policies.view import policy_view
from tests.support import lerobot_models
from tests.support.lerobot_models import INSTRUCTIONS, observation, save_act, save_diffusion, save_smolvla

pytest.importorskip("lerobot", reason="lerobot is not installed (make lerobot)")
lerobot_models.mend_torchvision()

import torch  # noqa: E402

# SmolVLA on CPU in float32, four steps of denoising: 8 asked together against each asked alone. Measured: 2.4e-7.
BATCH_TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def smolvla(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_smolvla(tmp_path_factory.mktemp("smolvla"))


@pytest.fixture(scope="module")
def policy(smolvla: Path) -> Any:
    return load(str(smolvla), "cpu")


def episode(number: int) -> Episode:
    case = f"suite/task[seed{number}]"
    return Episode(case, "suite", "task", INSTRUCTIONS[number % 4], number, noise_generator(0, case))


def ask(policy: Any, episodes: Sequence[Episode], sessions: Sequence[Any], step: int = 0) -> list[NDArray[np.float64]]:
    """The answers at a control step; every episode sees its own picture, as the plugin asks."""
    for one in episodes:
        reseed(one.rng, 0, one.case_id, step)
    return list(policy.act(sessions, [observation(100 * one.seed + step) for one in episodes]))


def alone(policy: Any, number: int, step: int = 0) -> NDArray[np.float64]:
    one = episode(number)
    (answer,) = ask(policy, [one], [policy.begin(one)], step)
    return answer


# What the policy is given


def test_a_policy_is_given_what_lerobots_own_libero_environment_gives_it(policy: Any) -> None:
    from lerobot.envs.utils import preprocess_observation
    from lerobot.processor.env_processor import LiberoProcessorStep

    drawn = np.random.default_rng(0)
    raw = {name: drawn.integers(0, 256, (48, 48, 3), dtype=np.uint8) for name in policy.reads if name != "state"}
    theirs = preprocess_observation(
        {"pixels": {"image": raw["agentview_image"], "image2": raw["robot0_eye_in_hand_image"]}}
    )
    theirs = LiberoProcessorStep().observation(theirs)
    # A world's pictures are upright: MuJoCo's raw one has its origin at the bottom.
    upright = {name: picture[::-1] for name, picture in raw.items()} | {"state": np.arange(8.0)}
    given = policy._batch([policy.begin(episode(0))], [policy_view(upright, "rotate_180")])
    for key in ("observation.images.image", "observation.images.image2"):
        assert given[key].dtype == torch.float32
        assert given[key].shape == (1, 3, 48, 48)
        assert torch.equal(given[key], theirs[key])
    by_hand = raw["agentview_image"][::-1, ::-1].transpose(2, 0, 1).astype(np.float32) / np.float32(255)
    assert np.array_equal(given["observation.images.image"][0].numpy(), by_hand)
    assert torch.equal(given["observation.state"], torch.arange(8.0)[None])
    assert given["task"] == [INSTRUCTIONS[0]]


def test_normalisation_is_that_of_the_data_set_saved_with_the_policy(policy: Any) -> None:
    one = episode(0)
    reseed(one.rng, 0, one.case_id, 0)
    noise = one.rng.standard_normal((12, 32), dtype=np.float32)
    seen, stats = observation(0), lerobot_models.dataset_stats()
    model = policy._model
    tokens = model.model.vlm_with_expert.processor.tokenizer(INSTRUCTIONS[0] + "\n", return_tensors="pt")
    state = torch.tensor(seen["state"], dtype=torch.float32)
    batch = {
        f"observation.images.{key}": torch.tensor(seen[name]).permute(2, 0, 1)[None].float() / 255
        for key, name in (("image", "agentview_image"), ("image2", "robot0_eye_in_hand_image"))
    }
    batch |= {
        "observation.state": ((state - stats["observation.state"]["mean"]) / stats["observation.state"]["std"])[None],
        "observation.language.tokens": tokens["input_ids"],
        "observation.language.attention_mask": tokens["attention_mask"].bool(),
    }
    with torch.no_grad():
        raw = model.predict_action_chunk(batch, noise=torch.from_numpy(noise)[None])
    by_hand = (raw * stats["action"]["std"] + stats["action"]["mean"])[0].numpy()
    answer = alone(policy, 0)
    assert answer.shape == (12, 7)
    assert answer.dtype == np.float64
    assert np.abs(answer - by_hand).max() < 1e-5
    assert np.abs(answer - raw[0].numpy()).max() > 0.1, "statistics that change nothing would show nothing"


def test_a_key_that_the_preprocessor_renames_reaches_the_policy(tmp_path: Path) -> None:
    pictures = {"observation.images.camera1": None, "observation.images.camera2": None}
    renames = {"observation.images.image": "observation.images.camera1"}
    renamed = load(str(save_smolvla(tmp_path / "a", pictures=pictures, renames=renames)), "cpu")
    plain = load(str(save_smolvla(tmp_path / "b", pictures=pictures)), "cpu")
    assert set(renamed._inputs.pictures) == {"observation.images.image", "observation.images.camera2"}
    assert np.array_equal(alone(renamed, 0), alone(plain, 0))


# Batches, noise, sessions


def test_a_flow_matching_policy_batches_and_is_handed_its_noise(policy: Any) -> None:
    assert is_batch_policy(policy)
    assert policy.manner.noise == (12, 32)
    assert policy.max_batch > 1
    assert policy.reads == ("agentview_image", "robot0_eye_in_hand_image", "state")
    assert policy.replan == 5


def test_answers_are_the_same_alone_and_among_eight_up_to_float_order(
    policy: Any, record_property: Callable[[str, object], None]
) -> None:
    expected = [alone(policy, number) for number in range(8)]
    episodes = [episode(number) for number in range(8)]
    together = ask(policy, episodes, [policy.begin(one) for one in episodes])
    apart = max(np.abs(a - b).max() for a, b in zip(expected, together, strict=True))
    spread = np.abs(expected[0] - expected[1]).max()
    record_property("largest_difference", float(apart))
    print(f"batch 1 against 8: {apart:.2e}; one episode against another: {spread:.2e}")
    assert apart <= BATCH_TOLERANCE < spread / 1000


def test_answers_do_not_depend_on_the_order_in_a_batch_or_of_batches(policy: Any) -> None:
    episodes = [episode(number) for number in range(4)]
    forward = ask(policy, episodes, [policy.begin(one) for one in episodes])
    backward = ask(policy, episodes[::-1], [policy.begin(one) for one in episodes[::-1]])[::-1]
    assert max(np.abs(a - b).max() for a, b in zip(forward, backward, strict=True)) <= BATCH_TOLERANCE
    singly = [alone(policy, number) for number in (2, 0, 3, 1)]
    again = [alone(policy, number) for number in (0, 1, 2, 3)]
    assert all(np.array_equal(singly[at], again[number]) for at, number in enumerate((2, 0, 3, 1)))


def test_noise_is_the_episodes_and_the_steps_and_not_torchs(policy: Any) -> None:
    torch.manual_seed(1)
    first = alone(policy, 0)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    assert np.array_equal(alone(policy, 0), first)
    assert torch.equal(torch.get_rng_state(), state), "a user's own draws are not disturbed"
    one = episode(0)
    session = policy.begin(one)
    reseed(one.rng, 0, one.case_id, 7)
    (other_step,) = policy.act([session], [observation(0)])
    assert np.abs(other_step - first).max() > 0.01


def test_an_episode_does_not_show_that_another_was_in_between(policy: Any) -> None:
    one, other = episode(0), episode(1)
    session, intruder = policy.begin(one), policy.begin(other)
    mixed = []
    for step in (0, 5, 10):
        mixed += ask(policy, [one], [session], step)
        ask(policy, [other], [intruder], step)
    session = policy.begin(one)
    assert all(np.array_equal(*ask(policy, [one], [session], step), mixed[at]) for at, step in enumerate((0, 5, 10)))


def test_a_policy_that_draws_nothing_batches_without_noise(tmp_path: Path) -> None:
    act = load(str(save_act(tmp_path)), "cpu")
    assert (act.manner.noise, act.manner.apart, act.max_batch > 1, act.replan) == (None, False, True, 6)
    expected = [alone(act, number) for number in range(3)]
    episodes = [episode(number) for number in range(3)]
    together = ask(act, episodes, [act.begin(one) for one in episodes])
    assert max(np.abs(a - b).max() for a, b in zip(expected, together, strict=True)) <= BATCH_TOLERANCE
    assert np.abs(expected[0] - expected[1]).max() > 10 * BATCH_TOLERANCE


def test_a_backbones_own_weights_are_not_downloaded_where_the_policys_replace_them(tmp_path: Path) -> None:
    plain = save_act(tmp_path)
    shutil.copytree(plain, tmp_path / "pretrained")
    config = json.loads((plain / "config.json").read_text())
    config["pretrained_backbone_weights"] = "ResNet18_Weights.IMAGENET1K_V1"
    (tmp_path / "pretrained" / "config.json").write_text(json.dumps(config))
    assert np.array_equal(alone(load("pretrained", "cpu", folder=tmp_path), 0), alone(load(str(plain), "cpu"), 0))


def test_a_history_belongs_to_its_session_and_is_asked_step_by_step(tmp_path: Path) -> None:
    pytest.importorskip("diffusers", reason="diffusers is not installed")
    diffusion = load(str(save_diffusion(tmp_path)), "cpu")
    assert (diffusion.max_batch, diffusion.replan, diffusion.manner.chunks) == (1, 1, False)
    one, other = episode(0), episode(1)
    session, intruder = diffusion.begin(one), diffusion.begin(other)
    mixed = []
    for step in range(6):
        mixed += ask(diffusion, [one], [session], step)
        ask(diffusion, [other], [intruder], step)
    session = diffusion.begin(one)
    undisturbed = [ask(diffusion, [one], [session], step)[0] for step in range(6)]
    assert all(answer.shape == (1, 7) for answer in mixed)
    assert np.array_equal(mixed, undisturbed)
    assert not np.array_equal(alone(diffusion, 0, step=4), undisturbed[4]), "it has a history"


def test_a_class_that_ignores_the_noise_that_it_takes_is_seeded_and_asked_one_at_a_time(
    smolvla: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy

    real = SmolVLAPolicy.predict_action_chunk
    # As X-VLA's does.
    monkeypatch.setattr(SmolVLAPolicy, "predict_action_chunk", lambda self, batch, noise=None: real(self, batch))
    drawing = load(str(smolvla), "cpu")
    assert (drawing.manner.noise, drawing.manner.apart, drawing.max_batch) == (None, True, 1)
    first, second = alone(drawing, 0), alone(drawing, 1)
    torch.manual_seed(3)
    assert np.array_equal(alone(drawing, 0), first)
    assert np.abs(first - second).max() > 0.01


def test_what_a_class_remembers_in_itself_is_kept_apart_and_what_it_hides_is_refused(
    smolvla: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lerobot.policies.smolvla.modeling_smolvla import SmolVLAPolicy

    real = SmolVLAPolicy.predict_action_chunk

    def counting(where: Callable[[Any], Any]) -> Callable[..., Any]:
        def predict(self: Any, batch: Any, noise: Any = None) -> Any:
            owner = where(self)
            owner.asked = getattr(owner, "asked", 0) + 1
            return real(self, batch, noise=noise) + owner.asked

        return predict

    reset = SmolVLAPolicy.reset

    def resetting(self: Any) -> None:
        reset(self)
        self.asked = 0

    monkeypatch.setattr(SmolVLAPolicy, "reset", resetting)
    monkeypatch.setattr(SmolVLAPolicy, "predict_action_chunk", counting(lambda policy: policy))
    remembering = load(str(smolvla), "cpu")
    assert (remembering.manner.apart, remembering.max_batch) == (True, 1)
    one, other = episode(0), episode(1)
    session, intruder = remembering.begin(one), remembering.begin(other)
    mixed = []
    for _ in range(2):
        mixed += ask(remembering, [one], [session])
        ask(remembering, [other], [intruder])
    # Unnormalised, one more is one deviation more.
    deviation = lerobot_models.dataset_stats()["action"]["std"].numpy()
    assert np.allclose(mixed[1] - mixed[0], deviation, atol=1e-4)
    monkeypatch.setattr(SmolVLAPolicy, "predict_action_chunk", counting(lambda policy: policy.model))
    with pytest.raises(VlaError, match="smolvla on cpu: the policy keeps what it knows of an episode where it cannot"):
        load(str(smolvla), "cpu")


# Loading


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
    with pytest.raises(VlaError, match="could not be fetched"):
        load("some/thing@v2", "cpu", folder=tmp_path)


def test_what_is_no_policy_is_said_to_be_none(smolvla: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    check(str(smolvla))
    check("some/thing", tmp_path)
    for refuse in (check, lambda where, folder: load(where, "cpu", folder=folder)):
        with pytest.raises(VlaError, match=r"there is no folder .*nowhere; expected one, or OWNER/NAME"):
            refuse("nowhere", tmp_path)
        with pytest.raises(VlaError, match=r"empty has no config.json; expected the folder that save_pretrained wrote"):
            refuse("empty", tmp_path)
    with pytest.raises(VlaError, match=r"there is no device 'cuda:77'|there is no device 'tpu'"):
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
    with pytest.raises(VlaError, match="merge it into its base first"):
        load(changed("adapter", use_peft=True), "cpu", folder=tmp_path)
    with pytest.raises(VlaError, match=r"actions are \(6,\)"):
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
