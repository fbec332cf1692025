"""lerobot's own classes behind `BatchPolicy`: what they are given, what they draw, and what batches change."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from contextlib import closing
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla import evaluate
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.base import Wishes, is_batch_policy
from pytest_vla.policies.fit import check_fit
from pytest_vla.policies.generators import reseed
from pytest_vla.policies.lerobot import load
from pytest_vla.policies.view import policy_view
from pytest_vla.testing import point_suite
from tests.support import lerobot_models
from tests.support.lerobot_answers import alone, ask, episode
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
    given = policy._batch([policy.begin(episode(0))], [policy_view(upright, load_suite("libero_goal").protocol)])
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


def test_repeated_noise_is_one_further_question_and_leaves_the_chunk_as_it_is(
    policy: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wishing = [dataclasses.replace(episode(number), wishes=Wishes(4 * (number < 2), True)) for number in range(3)]
    plain = [episode(number) for number in range(3)]
    expected = ask(policy, plain, [policy.begin(one) for one in plain])
    asked: list[int] = []
    real = policy._model.predict_action_chunk
    monkeypatch.setattr(
        policy._model,
        "predict_action_chunk",
        lambda batch, noise: asked.append(len(noise)) or real(batch, noise=noise),
    )
    one, other, third = ask(policy, wishing, [policy.begin(each) for each in wishing])
    assert asked == [3, 4, 4]
    for given, chunk in zip((one, other), expected, strict=False):
        assert np.array_equal(given.actions, chunk)
        assert given.samples.shape == (4, 12, 7)
        assert given.token_statistics is None
        # Draws differ from one another and from the chunk, as other noise makes other chunks.
        assert all(np.abs(first - second).max() > 0.01 for first, second in combinations([chunk, *given.samples], 2))
    assert np.array_equal(third, expected[2])
    # A sample is what the policy answers to that noise: the second draw of the episode's generator.
    reseed(plain[0].rng, 0, plain[0].case_id, 0)
    plain[0].rng.standard_normal((12, 32), dtype=np.float32)
    (second,) = policy.act([policy.begin(plain[0])], [observation(0)])
    assert np.abs(second - one.samples[0]).max() < BATCH_TOLERANCE


def test_a_policy_that_draws_nothing_batches_without_noise(tmp_path: Path) -> None:
    act = load(str(save_act(tmp_path)), "cpu")
    assert (act.manner.noise, act.manner.apart, act.max_batch > 1, act.replan) == (None, False, True, 6)
    expected = [alone(act, number) for number in range(3)]
    wishing = dataclasses.replace(episode(0), wishes=Wishes(4))
    (answer,) = ask(act, [wishing], [act.begin(wishing)])
    assert np.array_equal(answer, expected[0]), "it has no samples, which would all be alike"
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
    with pytest.raises(VlaError, match="smolvla on cpu: the policy keeps episode state that cannot be separated"):
        load(str(smolvla), "cpu")


def test_a_policy_of_another_robot_runs_on_a_suite_of_its_sizes(tmp_path: Path) -> None:
    """As lerobot's checkpoints for Meta-World, PushT and ALOHA do; one picture, named by ?cameras=."""
    from lerobot.configs.types import FeatureType, PolicyFeature

    inputs = {
        "observation.image": PolicyFeature(FeatureType.VISUAL, (3, 32, 48)),
        "observation.state": PolicyFeature(FeatureType.STATE, (2,)),
    }
    output = {"action": PolicyFeature(FeatureType.ACTION, (2,))}
    folder = save_act(tmp_path, input_features=inputs, output_features=output)
    loaded = load(str(folder), "cpu", cameras={"image": "front_image"})
    assert (loaded.traits.action_size, loaded.traits.state_size) == (2, 2)
    assert check_fit(loaded.traits, point_suite()) == ()
    with closing(WorldPool(allow_versions=True)) as pool:
        shown = pool(point_suite().tasks[0]).reset(0, 0)
        (chunk,) = loaded.act([loaded.begin(episode(0))], [shown])
    assert np.asarray(chunk).shape == (6, 2)
    with pytest.raises(VlaError, match="VLA-P001"):
        evaluate(loaded, suite="tabletop", episodes=1, results=tmp_path / "results", progress=False)
