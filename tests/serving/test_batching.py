"""Batches: what waits goes together, nobody pays for another's trouble, one thread only calls the policy."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError
from pytest_vla.policies.base import Episode, Observation, is_batch_policy
from pytest_vla.serving.batching import Batcher


class Adding:
    """Answers with its state added to what it sees; waits at the gate; breaks on nan."""

    max_batch, reads = 8, ("state",)

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.batches: list[int] = []
        self.threads: set[int] = set()

    def begin(self, episode: Episode) -> Any:
        return float(episode.seed)

    def act(self, states: Sequence[Any], observations: Sequence[Observation]) -> Sequence[Any]:
        self.gate.wait(10)
        self.batches.append(len(states))
        self.threads.add(threading.get_ident())
        for observation in observations:
            if np.isnan(observation["state"]).any():
                raise ZeroDivisionError("nan")
        pairs = zip(states, observations, strict=True)
        return [np.full(7, state + observation["state"][0]) for state, observation in pairs]


def seen(value: float) -> dict[str, Any]:
    return {"state": np.array([value])}


def test_questions_that_wait_while_the_policy_is_busy_make_the_next_batch() -> None:
    policy = Adding()
    batcher = Batcher(policy, 4)
    answers = [batcher.ask(10.0 * number, seen(number)) for number in range(10)]
    policy.gate.set()
    assert [answer.result(5)[0, 0] for answer in answers] == [11.0 * number for number in range(10)]
    batcher.close()
    assert sum(policy.batches) == 10
    assert max(policy.batches) == 4
    assert len(policy.threads) == 1
    assert sum(size * count for size, count in batcher.sizes.items()) == 10


def test_a_lone_question_waits_for_nobody() -> None:
    policy = Adding()
    policy.gate.set()
    batcher = Batcher(policy, 4)
    assert batcher.ask(1.0, seen(1.0)).result(5)[0, 0] == 2.0
    batcher.close()
    assert policy.batches == [1]


def test_one_episodes_trouble_is_not_the_others() -> None:
    policy = Adding()
    batcher = Batcher(policy, 8)
    answers = [batcher.ask(0.0, seen(value)) for value in (0.0, 1.0, np.nan, 3.0)]
    policy.gate.set()
    assert [answers[number].result(5)[0, 0] for number in (0, 1, 3)] == [0.0, 1.0, 3.0]
    with pytest.raises(ZeroDivisionError, match="nan"):
        answers[2].result(5)
    batcher.close()


def test_an_answer_that_is_no_chunk_is_an_error_with_its_reason() -> None:
    policy = Adding()
    policy.gate.set()
    policy.act = lambda states, observations: [np.zeros(3)] * len(states)  # type: ignore[method-assign]
    batcher = Batcher(policy, 1)
    with pytest.raises(EpisodeError) as raised:
        batcher.ask(0.0, seen(0.0)).result(5)
    assert raised.value.reason == "policy-shape"
    batcher.close()


def test_answers_that_are_too_few_are_nobodys() -> None:
    policy = Adding()
    policy.gate.set()
    policy.act = lambda states, observations: []  # type: ignore[method-assign]
    batcher = Batcher(policy, 1)
    with pytest.raises(ValueError, match="0 answers to a batch of 1"):
        batcher.ask(0.0, seen(0.0)).result(5)
    batcher.close()


def test_other_calls_are_made_by_the_same_thread_between_batches() -> None:
    policy = Adding()
    batcher = Batcher(policy, 8)
    before = batcher.ask(1.0, seen(0.0))
    policy.gate.set()
    assert batcher.call(threading.get_ident) in policy.threads
    assert before.done()
    with pytest.raises(KeyError):
        batcher.call(lambda: {}["x"])
    batcher.close()


def test_the_policys_own_limit_holds() -> None:
    policy = Adding()
    policy.max_batch = 1
    batcher = Batcher(policy, 8)
    answers = [batcher.ask(0.0, seen(0.0)) for _ in range(5)]
    policy.gate.set()
    for answer in answers:
        answer.result(5)
    batcher.close()
    assert policy.batches == [1] * 5


def test_a_batch_policy_is_told_by_what_it_has() -> None:
    assert is_batch_policy(Adding())
    assert not is_batch_policy(lambda episode: None)
