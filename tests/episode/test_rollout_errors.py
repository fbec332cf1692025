"""The episode loop where something breaks: whose error it is, where it was raised, and what is kept."""

import signal
from typing import Any

import numpy as np
import pytest

from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.task import Task
from pytest_vla.policies.base import Episode
from pytest_vla.policies.random_and_replay import random_policy
from pytest_vla.scene.variation import Variation
from pytest_vla.testing import World
from tests.support.point_episodes import CASE, SLOW, a_policy, a_task, run


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (lambda o: np.zeros(6), "policy-shape", "(6,)"),
        (lambda o: np.zeros((2, 2, 7)), "policy-shape", "(2, 2, 7)"),
        (lambda o: np.zeros((0, 7)), "policy-shape", "(0, 7)"),
        (lambda o: np.zeros(()), "policy-shape", "()"),
        (lambda o: None, "policy-dtype", "NoneType"),
        (lambda o: [True] * 7, "policy-dtype", "bool"),
        (lambda o: [[1.0] * 7, [1.0] * 6], "policy-dtype", "no array"),
        (lambda o: np.array([[0.0] * 7, [0.0] * 6 + [np.nan]]), "policy-nan", "action 1 of the chunk of 2"),
        (lambda o: np.full(7, np.inf), "policy-nan", "inf"),
        (lambda o: 1 / 0, "policy-raised", "ZeroDivisionError: division by zero"),
        (lambda o: o["wrist_image"], "policy-raised", "no 'wrist_image'; it has agentview_image"),
    ],
)
def test_a_policy_that_breaks_is_an_error_with_a_code(answer: Any, reason: str, words: str) -> None:
    ended = run(a_policy(answer))
    assert (ended.record.outcome, ended.record.reason, ended.steps) == ("error", reason, 0)
    assert words in str(ended.record.message)


def test_an_exception_says_where_it_was_raised() -> None:
    def begin(episode: Episode) -> Any:
        raise ImportError("no torch")

    ended = run(begin)
    assert ended.record.reason == "policy-raised"
    assert f"at the episode's begin: ImportError: no torch ({__file__}:" in str(ended.record.message)


def _exits(observation: Any) -> Any:
    raise SystemExit(3)


class _Unspeakable(RuntimeError):
    def __str__(self) -> str:
        raise ValueError("no text")


def _unspeakable(observation: Any) -> Any:
    raise _Unspeakable


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (_exits, "SystemExit: 3"),
        (lambda o: pytest.skip("not today"), "Skipped: not today"),
        (lambda o: pytest.fail("Timeout >5.0s"), "Failed: Timeout >5.0s"),
        (_unspeakable, "_Unspeakable: (its text raises ValueError)"),
    ],
)
def test_whatever_a_policy_raises_leaves_a_record(answer: Any, words: str) -> None:
    ended = run(a_policy(answer))
    assert (ended.record.outcome, ended.record.reason) == ("error", "policy-raised")
    assert words in str(ended.record.message)
    assert "Traceback (most recent call last)" in ended.details


def test_an_exit_of_pytest_ends_the_run_and_not_the_episode() -> None:
    def answer(observation: Any) -> Any:
        raise pytest.exit.Exception("enough")

    with pytest.raises(pytest.exit.Exception):
        run(a_policy(answer))


def test_the_place_of_an_error_is_the_users_own_line() -> None:
    def answer(observation: Any) -> Any:
        return observation["no such thing"]

    line = answer.__code__.co_firstlineno + 1
    ended = run(a_policy(answer))
    assert f"({__file__}:{line})" in str(ended.record.message)
    assert "view.py" in ended.details


def test_a_policy_that_returns_no_session_is_told_the_protocol() -> None:
    ended = run(lambda episode: SLOW)
    assert ended.record.reason == "policy-protocol"
    assert "this one returned ndarray" in str(ended.record.message)


@pytest.mark.parametrize(
    ("component", "reason", "words"),
    [(5, "physics-nan", "bad acceleration at step 3"), (4, "world-raised", "ZeroDivisionError: a defect of ours")],
)
def test_a_world_that_breaks_is_an_error_and_what_was_seen_is_kept(component: int, reason: str, words: str) -> None:
    bad = np.zeros(7)
    bad[component] = 1.0
    ended = run(a_policy(lambda observation: np.array([SLOW, SLOW, SLOW, bad, SLOW])))
    assert (ended.record.outcome, ended.record.reason, ended.steps) == ("error", reason, 3)
    assert words in str(ended.record.message)
    assert ended.trajectory.actions.shape == (3, 7)
    assert ended.trajectory.qpos.shape == (4, 3)


def test_a_world_that_cannot_be_built_is_an_error() -> None:
    def open_world(task: Task, variation: Variation | None) -> World:
        raise VlaError("plate.xml: not found")

    ended = run_episode(CASE, a_task(), random_policy, open_world, Conditions("random"))
    assert (ended.record.outcome, ended.record.reason) == ("error", "world-unusable")
    assert ended.record.message == "plate.xml: not found"
    assert ended.record.eef_pos is None
    assert ended.trajectory.actions.shape == (0, 7)
    assert "numpy" in ended.record.provenance


def test_an_interrupt_is_not_an_outcome() -> None:
    def interrupt(observation: Any) -> Any:
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run(a_policy(interrupt))
    assert signal.getsignal(signal.SIGINT) is before


def test_a_keyboard_interrupt_that_no_signal_caused_is_the_policys_error() -> None:
    """A policy that raises it where it would fail must not have its episode run again as if it had been stopped."""

    def raising(observation: Any) -> Any:
        raise KeyboardInterrupt("mine")

    record = run(a_policy(raising)).record
    assert (record.outcome, record.reason) == ("error", "policy-raised")
    assert "KeyboardInterrupt: mine" in str(record.message)
    # One that comes later is an interrupt again.
    with pytest.raises(KeyboardInterrupt):
        run(a_policy(lambda observation: signal.raise_signal(signal.SIGINT)))


class Closing:
    def __init__(self, answer: Any, fault: Exception | None = None) -> None:
        self.closed, self.answer, self.fault = 0, answer, fault

    def __call__(self, observation: Any) -> Any:
        return self.answer()

    def close(self) -> None:
        self.closed += 1
        if self.fault:
            raise self.fault


@pytest.mark.parametrize("answer", [lambda: SLOW, lambda: None])
def test_a_session_is_closed_once_however_it_ended(answer: Any) -> None:
    session = Closing(answer)
    run(lambda episode: session)
    assert session.closed == 1


def test_a_session_that_cannot_be_closed_is_an_error() -> None:
    ended = run(lambda episode: Closing(lambda: SLOW, OSError("lost")))
    assert (ended.record.outcome, ended.record.reason) == ("error", "policy-raised")
    assert "at the episode's end: OSError: lost" in str(ended.record.message)


def test_what_broke_first_is_told() -> None:
    def answer() -> Any:
        raise RuntimeError("the real cause")

    session = Closing(answer, OSError("lost"))
    ended = run(lambda episode: session)
    assert "the real cause" in str(ended.record.message)
    assert session.closed == 1


def test_a_policys_own_code_is_kept() -> None:
    def answer(observation: Any) -> Any:
        raise EpisodeError("policy-timeout", "no answer in 5 s")

    assert run(a_policy(answer)).record.reason == "policy-timeout"
