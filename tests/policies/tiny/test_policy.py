"""tiny as a policy, on weights that nobody trained."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.base import NO_WISHES, Answer, Episode, Wishes
from pytest_vla.policies.fit import check_fit, check_replan
from pytest_vla.policies.generators import noise_generator
from pytest_vla.policies.load import check_model, digest_of, load_policy
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.policies.tiny.network import REPLAN
from pytest_vla.policies.tiny.policy import TinyPolicy, TinySession
from pytest_vla.policies.tiny.weights import load_weights
from tests.support.tiny_weights import written_weights


@pytest.fixture(name="policy")
def a_policy(tmp_path: Path) -> TinyPolicy:
    return TinyPolicy(load_weights(written_weights(tmp_path / "a.npz")))


def an_episode(number: int = 0, wishes: Wishes = NO_WISHES, instruction: str = "put the bowl on the plate") -> Episode:
    case = f"a[{number}]"
    return Episode(case, "tabletop", "t", instruction, number, noise_generator(0, case), wishes)


def an_observation(seed: int, side: int = 256) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {
        "agentview_image": rng.integers(0, 256, (side, side, 3), dtype=np.uint8),
        "robot0_eye_in_hand_image": rng.integers(0, 256, (side, side, 3), dtype=np.uint8),
        "state": np.concatenate([rng.uniform(-0.3, 1, 3), rng.uniform(-1, 1, 3), [0.04, -0.04]]),
    }


def asked(policy: TinyPolicy, numbers: list[int], times: int = 2) -> dict[int, list[Answer]]:
    """The answers of episodes that are asked together."""
    sessions = [policy.begin(an_episode(number, Wishes(2, True))) for number in numbers]
    rounds = [policy.act(sessions, [an_observation(10 * number + turn) for number in numbers]) for turn in range(times)]
    return {number: [answers[place] for answers in rounds] for place, number in enumerate(numbers)}


@pytest.mark.parametrize("together", [[3, 1], [0, 1, 2, 3, 4, 5, 6, 7]])
def test_an_answer_is_the_same_bit_for_bit_in_whatever_batch(policy: TinyPolicy, together: list[int]) -> None:
    for number, answers in asked(policy, together).items():
        for alone, batched in zip(asked(policy, [number])[number], answers, strict=True):
            assert alone.actions.tobytes() == batched.actions.tobytes()
            assert alone.samples is not None
            assert batched.samples is not None
            assert alone.samples.tobytes() == batched.samples.tobytes()
            assert np.array_equal(alone.token_probabilities, batched.token_probabilities)  # type: ignore[arg-type]


def test_a_chunk_is_in_range_and_its_gripper_opens_or_closes(policy: TinyPolicy) -> None:
    (answer,) = policy.act([policy.begin(an_episode())], [an_observation(0)])
    assert answer.is_bare
    assert answer.actions.shape == (8, 7)
    assert (np.abs(answer.actions) <= 1).all()
    assert set(answer.actions[:, 6]) <= {-1.0, 1.0}


def test_samples_differ_and_repeat_by_the_episodes_noise_alone(policy: TinyPolicy) -> None:
    first, again = (asked(policy, [2], 1)[2][0] for _ in range(2))
    other = asked(policy, [3], 1)[3][0]
    assert first.samples is not None
    assert again.samples is not None
    assert other.samples is not None
    assert first.samples.shape == (2, 8, 7)
    assert np.array_equal(first.samples, again.samples)
    assert not np.array_equal(first.samples[0], first.samples[1])
    (bare,) = policy.act([policy.begin(an_episode(2))], [an_observation(20)])
    assert np.array_equal(bare.actions, first.actions)


def test_token_probabilities_are_of_the_likeliest_of_256_bins(policy: TinyPolicy) -> None:
    found = asked(policy, [1], 1)[1][0].token_probabilities
    assert found is not None
    assert found.shape == (7,)
    assert ((found > 1 / 256) & (found <= 1)).all()
    statistics = asked(policy, [1], 1)[1][0].token_statistics
    assert statistics is not None
    assert statistics.vocabulary == 256
    assert np.array_equal(statistics.first, found)
    assert (statistics.second <= statistics.first).all()


def test_the_hand_and_its_command_are_remembered_from_question_to_question(policy: TinyPolicy) -> None:
    fresh, used = policy.begin(an_episode()), policy.begin(an_episode())
    (first,) = policy.act([used], [an_observation(1)])
    assert used.gripper == first.actions[REPLAN - 1, 6]
    assert np.array_equal(used.before, an_observation(1)["state"])  # type: ignore[arg-type]
    after, anew = policy.act([used, fresh], [an_observation(2), an_observation(2)])
    assert not np.array_equal(after.actions, anew.actions)


@pytest.mark.parametrize(("replan", "executed"), [(None, 4), (1, 1), (8, 8), (20, 8)])
def test_it_goes_by_the_steps_that_are_executed(policy: TinyPolicy, replan: int | None, executed: int) -> None:
    session = policy.begin(dataclasses.replace(an_episode(), replan=replan))
    (answer,) = policy.act([session], [an_observation(1)])
    assert session.gripper == answer.actions[executed - 1, 6]
    assert session.steps == executed


def test_another_instruction_gives_another_chunk_and_unknown_words_are_one_word(policy: TinyPolicy) -> None:
    def chunk(instruction: str) -> bytes:
        session = policy.begin(an_episode(instruction=instruction))
        return policy.act([session], [an_observation(0)])[0].actions.tobytes()

    assert chunk("put the bowl") != chunk("put the plate")
    assert chunk("put the zvork") == chunk("Put the, vlaim")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("agentview_image", np.zeros((200, 200, 3), np.uint8), "multiple of 128"),
        ("agentview_image", np.zeros((0, 0, 3), np.uint8), r"multiple of 128; this one is uint8 \(0, 0, 3\)"),
        ("agentview_image", np.uint8(3), "square of uint8 colours .* this one is uint8"),
        ("agentview_image", np.array(3, np.uint8), r"this one is uint8 \(\)"),
        ("agentview_image", [[[0, 0, 0]]], "square of uint8 colours .* this one is list"),
        ("robot0_eye_in_hand_image", None, "square of uint8 colours .* this one is NoneType"),
        ("agentview_image", np.zeros((256, 128, 3), np.uint8), "square"),
        ("robot0_eye_in_hand_image", np.zeros((256, 256, 3), np.float32), "float32"),
        ("state", np.zeros(9), r"state \(8,\)"),
        ("state", [0.0, [1.0]], r"state \(8,\) of numbers; this one is list"),
        ("state", "eight numbers", r"state \(8,\) of numbers; this one is str"),
        ("state", ["1"] * 8, r"state \(8,\) of numbers; this one is <U1 \(8,\)"),
        ("state", np.array([np.nan] + [0.0] * 7), r"finite numbers; this one is \[nan, "),
        ("state", np.array([0.0] * 7 + [-np.inf]), r"finite numbers; .*-inf\]"),
    ],
)
def test_pictures_and_states_that_it_does_not_take_end_the_episode_with_an_error(
    policy: TinyPolicy, name: str, value: Any, said: str
) -> None:
    session: TinySession = policy.begin(an_episode())
    with pytest.raises(EpisodeError, match=said) as caught:
        policy.act([session], [{**an_observation(0), name: value}])
    assert caught.value.reason == "policy-input"
    assert session.before is None, "it has answered nothing"


@pytest.mark.parametrize("name", TinyPolicy.reads)
def test_what_is_missing_is_named(policy: TinyPolicy, name: str) -> None:
    observation = an_observation(0)
    del observation[name]
    with pytest.raises(EpisodeError, match=f"tiny takes agentview_image, .* this observation has no {name}") as caught:
        policy.act([policy.begin(an_episode())], [observation])
    assert caught.value.reason == "policy-input"


def test_a_file_is_named_after_the_colon_and_its_digest_is_the_policys(tmp_path: Path) -> None:
    path = written_weights(tmp_path / "mine.npz")
    spec = ModelSpec("tiny:mine.npz", tmp_path)
    check_model(spec)
    policy = load_policy(spec)
    assert isinstance(policy, TinyPolicy)
    assert digest_of(policy, spec) == load_weights(path).digest


@pytest.mark.parametrize(
    "text", ["tiny@late", "tiny@", "random@early", "nobody@early", "tiny@late:x", "random@early?a=b"]
)
def test_a_checkpoint_that_is_none_is_told_which_there_are(tmp_path: Path, text: str) -> None:
    with pytest.raises(VlaError, match=r"no such checkpoint\. Known: tiny@early"):
        check_model(ModelSpec(text, tmp_path))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tiny?x=1", "tiny takes no arguments; write --vla-model=tiny, tiny@early, tiny:PATH"),
        ("tiny:a.npz?x=1", "tiny takes no arguments"),
        ("tiny@early?x=1", "tiny@early takes no arguments; write --vla-model=tiny@early"),
        ("tiny@early?", "tiny@early takes no arguments"),
        ("tiny@early:foo", "tiny@early takes nothing after it; write --vla-model=tiny@early"),
        ("tiny@early:", "tiny@early takes nothing after it"),
        ("tiny:", "PATH is missing"),
        ("tiny:sub", "sub is a folder; expected an .npz written by scripts/train_tiny.py"),
    ],
)
def test_what_it_does_not_take_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "sub").mkdir()
    with pytest.raises(VlaError) as refused:
        check_model(ModelSpec(text, tmp_path))
    assert str(refused.value).startswith(f"--vla-model={text}: ")
    assert said in str(refused.value)


def test_a_file_may_be_in_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    written_weights(tmp_path / "mine.npz")
    assert isinstance(load_policy(ModelSpec("tiny:~/mine.npz", Path("elsewhere"))), TinyPolicy)


def test_what_it_does_not_fit_is_known_before_an_episode() -> None:
    suite = load_suite("tabletop")
    small = dataclasses.replace(suite.protocol, image_size=(200, 200))
    assert check_fit(TinyPolicy.traits, suite) == ()
    assert [finding.code for finding in check_fit(TinyPolicy.traits, ("small", small))] == ["VLA-P006"]
    assert check_replan(TinyPolicy.traits, 8) == ()
    assert [finding.code for finding in check_replan(TinyPolicy.traits, 9)] == ["VLA-P013"]


def test_a_file_that_is_not_there_is_refused_early(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match=r"there is no file .*none\.npz"):
        check_model(ModelSpec("tiny:none.npz", tmp_path))
