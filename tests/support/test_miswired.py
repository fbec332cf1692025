"""Each wrong wiring changes what a policy gets or gives, and nothing of the form of it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pytest_vla.doctor.findings import CODES
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.base import Episode, Observations
from pytest_vla.policies.fit import traits_of
from pytest_vla.policies.load import load_policy
from pytest_vla.policies.tiny.network import rotation_of
from pytest_vla.policies.view import centre_crop
from tests.support.miswired import BY_NAME, MISWIRINGS, SCENE, STATE, WRIST, Miswiring, pairs, together

# What one frame by itself does not show.
_ONLY_LATER = {"stale"}
_ONLY_HOW_MUCH = {"whole-chunk", "one-step"}

_TASK = load_suite("tabletop").tasks[1]
_TURN = np.array([2.9, 0.4, -0.3])
_MATRIX = np.array([[0.955, 0.25, -0.16], [0.27, -0.954, 0.13], [-0.12, -0.167, -0.979]])


def _observation(seed: int) -> dict[str, Any]:
    drawn = np.random.default_rng(seed)
    coarse = drawn.integers(0, 200, (2, 16, 16, 3), dtype=np.uint8).repeat(16, axis=1).repeat(16, axis=2)
    fine = coarse + drawn.integers(0, 50, coarse.shape, dtype=np.uint8)
    state = np.concatenate([[-0.1, 0.05, 1.1], _TURN, [0.03, -0.03]]) + drawn.normal(0, 0.005, 8)
    return {
        SCENE: fine[0],
        WRIST: fine[1],
        STATE: state,
        "robot0_joint_pos": drawn.normal(0, 1, 7),
        "controller_pos": state[:3] + 0.001,
        "controller_mat": np.linalg.qr(_MATRIX)[0],
    }


def _episode(replan: int | None = None) -> Episode:
    rng = np.random.default_rng(0)
    return Episode("case", "tabletop", _TASK.name, _TASK.language, 0, rng, replan=replan)


class _Listening:
    """A policy that remembers what it gets, and answers by it."""

    max_batch, reads, replan, digest = 8, (SCENE, WRIST, STATE), 4, "listening"
    traits = traits_of(load_policy("tiny"))

    def __init__(self) -> None:
        self.got: list[Any] = []

    def begin(self, episode: Episode) -> Episode:
        return episode

    def act(self, states: Sequence[Episode], observations: Observations) -> list[Any]:
        self.got += zip(states, observations, strict=True)
        return [_chunk(observation[STATE]) for observation in observations]


def _chunk(state: Any) -> Any:
    drawn = np.random.default_rng(7)
    chunk = np.round(drawn.uniform(-0.9, 0.9, (8, 7)), 3)
    chunk[:, 6] = [-1, -1, 1, 1, 1, -1, 1, 1]
    chunk[:, 0] = np.tanh(np.abs(state).sum())
    return chunk


def _asked(policy: Any, seeds: Sequence[int]) -> list[Any]:
    """One episode's answers to some frames, one after the other."""
    session = policy.begin(_episode(policy.replan))
    return [policy.act([session], Observations([_observation(seed)]))[0] for seed in seeds]


def _forms(observation: Mapping[str, Any]) -> dict[str, Any]:
    return {name: (observation[name].shape, observation[name].dtype) for name in _Listening.reads}


@pytest.mark.parametrize(
    "miswiring", [each for each in MISWIRINGS if each.part != "weights"], ids=lambda each: each.name
)
def test_changes_what_a_policy_gets_or_gives(miswiring: Miswiring) -> None:
    plain, inner = _Listening(), _Listening()
    wrapped = miswiring.wrap(inner)
    right, wrong = _asked(plain, (1, 2)), _asked(wrapped, (1, 2))
    assert miswiring.can_wrap(inner)
    for (_, expected), (_, got) in zip(plain.got, inner.got, strict=True):
        assert set(got) == set(_Listening.reads)
        assert _forms(got) == _forms(expected)
    for expected, got in zip(right, wrong, strict=True):
        assert got.dtype == expected.dtype
        assert np.isfinite(got).all()
        assert got.shape == ((4, 7) if miswiring.name == "every-second" else expected.shape)

    def differs(question: int) -> bool:
        (episode, expected), (told, got) = plain.got[question], inner.got[question]
        same = [np.array_equal(expected[name], got[name]) for name in got]
        return told.instruction != episode.instruction or not all(
            [*same, np.array_equal(right[question], wrong[question])]
        )

    assert differs(1) != (miswiring.name in _ONLY_HOW_MUCH)
    assert differs(0) != (miswiring.name in _ONLY_HOW_MUCH | _ONLY_LATER)
    assert (wrapped.replan != plain.replan) == (miswiring.name in _ONLY_HOW_MUCH)
    # What is executed is not what the policy is told of.
    assert inner.got[0][0].replan == 4


@pytest.mark.parametrize("miswiring", MISWIRINGS, ids=lambda each: each.name)
def test_a_batch_is_answered_as_each_alone(miswiring: Miswiring) -> None:
    policy = load_policy("tiny")
    wrapped = miswiring.wrap(policy)
    seeds = (3, 4)
    apart = [_asked(wrapped, (seed,))[0] for seed in seeds]
    sessions = [wrapped.begin(_episode(wrapped.replan)) for _ in seeds]
    both = wrapped.act(sessions, Observations([_observation(seed) for seed in seeds]))
    for one, other in zip(apart, both, strict=True):
        np.testing.assert_array_equal(one.actions, other.actions)
    assert wrapped.max_batch == policy.max_batch
    assert wrapped.digest != policy.digest
    assert replace(traits_of(wrapped), reads=None) == replace(traits_of(policy), reads=None)


@pytest.mark.parametrize("name", [each.name for each in MISWIRINGS if each.part == "weights"])
def test_other_weights_give_other_actions(name: str) -> None:
    policy = load_policy("tiny")
    (right,), (wrong,) = _asked(policy, (1,)), _asked(BY_NAME[name].wrap(policy), (1,))
    assert not np.array_equal(right.actions, wrong.actions)


def test_a_policy_that_is_called_once_an_episode_is_wrapped_as_such() -> None:
    def policy(episode: Episode) -> Any:
        return lambda observation: _chunk(observation[STATE])[0]

    wrapped = BY_NAME["gripper-sign"].wrap(policy)
    session, plain = wrapped(_episode()), policy(_episode())
    observation = _observation(1)
    assert session(observation).tolist() == [*plain(observation)[:6], -plain(observation)[6]]
    zero = BY_NAME["state-zero"].wrap(policy)(_episode())
    assert zero(observation).tolist() == _chunk(np.zeros(8))[0].tolist()


def test_a_crop_mends_a_missing_crop() -> None:
    inner, picture = _Listening(), np.zeros((256, 256, 3), dtype=np.uint8)
    place = np.arange(256)
    picture[..., 0], picture[..., 1] = place[:, None], 128 + 100 * np.sin(place / 20)
    wrapped = BY_NAME["crop-missing"].wrap(inner)
    wrapped.act([wrapped.begin(_episode())], Observations([_observation(1) | {SCENE: picture}]))
    mended = centre_crop(inner.got[0][1][SCENE])
    assert np.abs(mended.astype(int) - picture).max() <= 3


def test_turns_of_the_state_are_the_same_turn_where_they_should_be() -> None:
    def turned(name: str) -> Any:
        inner = _Listening()
        _asked(BY_NAME[name].wrap(inner), (1,))
        return inner.got[0][1][STATE][3:6]

    turn = _observation(1)[STATE][3:6]
    other = turned("state-antipodal")
    np.testing.assert_allclose(rotation_of(other), rotation_of(turn), atol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(other) + np.linalg.norm(turn), 2 * np.pi)
    matrix = rotation_of(_observation(1)[STATE][3:6])
    roll, pitch, yaw = turned("state-euler")
    about = [rotation_of(angle * axis) for angle, axis in zip((roll, pitch, yaw), np.eye(3), strict=True)]
    np.testing.assert_allclose(about[2] @ about[1] @ about[0], matrix, atol=1e-9)
    np.testing.assert_allclose(rotation_of(turned("state-controller")), np.linalg.qr(_MATRIX)[0], atol=1e-9)


def test_absolute_actions_are_the_poses_that_relative_ones_lead_to() -> None:
    (poses,) = _asked(BY_NAME["absolute"].wrap(_Listening()), (1,))
    state, chunk = _observation(1)[STATE], _chunk(_observation(1)[STATE])
    np.testing.assert_allclose(poses[-1, :3], state[:3] + 0.05 * chunk[:, :3].sum(axis=0))
    matrix = rotation_of(state[3:6])
    for action in chunk:
        matrix = rotation_of(0.5 * action[3:6]) @ matrix
    np.testing.assert_allclose(rotation_of(poses[-1, 3:6]), matrix, atol=1e-9)


def test_pairs_are_an_input_and_an_output_each() -> None:
    drawn = pairs(0)
    assert len(drawn) == 20
    assert len({(one.name, other.name) for one, other in drawn}) == 20
    assert pairs(0) == drawn
    assert pairs(1) != drawn
    for one, other in drawn:
        assert one.part in ("pictures", "state", "language")
        assert other.part in ("actions", "chunks")
    both = together(BY_NAME["state-zero"], BY_NAME["absolute"])
    inner = _Listening()
    (poses,) = _asked(both.wrap(inner), (1,))
    assert not inner.got[0][1][STATE].any()
    # The output's wiring reads the true state.
    assert np.abs(poses[0, :3] - _observation(1)[STATE][:3]).max() < 0.06


def test_names_are_unique_and_there_are_enough() -> None:
    assert len(BY_NAME) == len(MISWIRINGS) >= 34
    assert {code for each in MISWIRINGS for code in each.acceptable} <= CODES.keys()
    assert all(each.acceptable for each in MISWIRINGS)
