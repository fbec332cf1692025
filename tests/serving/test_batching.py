"""Batches: what waits goes together, nobody pays for another's trouble, one thread only calls the policy."""

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError
from pytest_vla.policies.base import Episode, Observation, is_batch_policy
from pytest_vla.serving import websocket
from pytest_vla.serving.batch_former import Dispatch
from pytest_vla.serving.websocket import Batcher
from tests.support.waiting import HANG, until


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
        self.gate.wait(HANG)
        self.batches.append(len(states))
        self.threads.add(threading.get_ident())
        for observation in observations:
            if np.isnan(observation["state"]).any():
                raise ZeroDivisionError("nan")
        pairs = zip(states, observations, strict=True)
        return [np.full(7, state + observation["state"][0]) for state, observation in pairs]


def until_busy(batcher: Batcher) -> None:
    until(lambda: batcher.busy_since is not None)


class Clock:
    """Stands in for `time` in the batcher: goes only where it is told to, and counts how often it was looked at."""

    def __init__(self) -> None:
        self.now, self.looks = 1000.0, 0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """The watch sleeps between two looks."""
        self.looks += 1
        time.sleep(0.001)

    def until_looked_at(self) -> None:
        """Returns after the watch has looked at what is the case now."""
        before = self.looks
        until(lambda: self.looks >= before + 2)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(websocket, "time", clock)
    return clock


def seen(value: float) -> dict[str, Any]:
    return {"state": np.array([value])}


def test_questions_that_wait_while_the_policy_is_busy_make_the_next_batch() -> None:
    policy = Adding()
    batcher = Batcher(policy, 4)
    answers = [batcher.ask(10.0 * number, seen(number)) for number in range(10)]
    policy.gate.set()
    assert [answer.result(HANG).actions[0, 0] for answer in answers] == [11.0 * number for number in range(10)]
    batcher.close()
    assert sum(policy.batches) == 10
    assert max(policy.batches) == 4
    assert len(policy.threads) == 1
    assert sum(size * count for size, count in batcher.sizes.items()) == 10


def test_a_lone_question_waits_for_nobody() -> None:
    policy = Adding()
    policy.gate.set()
    batcher = Batcher(policy, 4)
    assert batcher.ask(1.0, seen(1.0)).result(HANG).actions[0, 0] == 2.0
    batcher.close()
    assert policy.batches == [1]


def test_trouble_in_a_batch_is_told_to_all_in_it_since_nobody_knows_whose_it_is() -> None:
    policy = Adding()
    batcher = Batcher(policy, 8)
    first = batcher.ask(5.0, seen(0.0))
    until_busy(batcher)
    answers = [batcher.ask(0.0, seen(value)) for value in (1.0, np.nan, 3.0)]
    policy.gate.set()
    assert first.result(HANG).actions[0, 0] == 5.0
    for answer in answers:
        with pytest.raises(EpisodeError, match=r"on a batch of 3 the policy raised ZeroDivisionError: nan") as raised:
            answer.result(HANG)
        assert raised.value.reason == "policy-batch-failed"
    batcher.close()
    assert policy.batches == [1, 3], "nobody is asked again with a state that may be half changed"


def test_one_that_is_to_be_alone_is_in_no_batch() -> None:
    policy = Adding()
    batcher = Batcher(policy, 8)
    first = batcher.ask(0.0, seen(0.0))
    until_busy(batcher)
    ways = ((1.0, False), (2.0, False), (np.nan, True), (4.0, False), (5.0, True))
    answers = [batcher.ask(0.0, seen(value), alone=alone) for value, alone in ways]
    policy.gate.set()
    first.result(HANG)
    with pytest.raises(ZeroDivisionError, match="nan"):
        answers[2].result(HANG)
    assert [answers[number].result(HANG).actions[0, 0] for number in (0, 1, 3, 4)] == [1.0, 2.0, 4.0, 5.0]
    batcher.close()
    assert policy.batches == [1, 3, 1, 1]


def test_a_call_that_takes_too_long_is_told_to_who_is_in_it_and_to_nobody_else(clock: Clock) -> None:
    policy, hung = Adding(), threading.Event()
    policy.max_batch = 1
    batcher = Batcher(policy, 8, limit=0.2, hung=hung.set)
    clock.now += 1.0
    clock.until_looked_at()
    stuck, waits = batcher.ask(0.0, seen(0.0)), batcher.ask(0.0, seen(1.0))
    until_busy(batcher)
    clock.now += 0.19
    clock.until_looked_at()
    assert not stuck.done()
    clock.now += 0.02
    with pytest.raises(EpisodeError, match=r"no answer of the policy in 0.2 s \(--vla-policy-timeout\)") as raised:
        stuck.result(HANG)
    assert raised.value.reason == "policy-timeout"
    assert hung.wait(HANG)
    assert not waits.done()
    policy.gate.set()
    assert waits.result(HANG).actions[0, 0] == 1.0
    batcher.close()


def test_waiting_for_others_is_no_time_of_ones_own(clock: Clock) -> None:
    policy, hung = Adding(), threading.Event()
    policy.max_batch = 1
    policy.gate.set()
    act = policy.act

    def take_time(states: Sequence[Any], observations: Sequence[Observation]) -> Sequence[Any]:
        clock.now += 0.9
        clock.until_looked_at()
        return act(states, observations)

    policy.act = take_time  # type: ignore[method-assign]
    batcher = Batcher(policy, 8, limit=1.0, hung=hung.set)
    answers = [batcher.ask(0.0, seen(0.0)) for _ in range(15)]
    for answer in answers:
        answer.result(HANG)
    batcher.close()
    assert not hung.is_set()


def test_an_answer_that_is_no_chunk_of_actions_is_an_error_with_its_reason() -> None:
    policy = Adding()
    policy.gate.set()
    policy.act = lambda states, observations: [np.zeros((2, 3, 7))] * len(states)  # type: ignore[method-assign]
    batcher = Batcher(policy, 1)
    with pytest.raises(EpisodeError) as raised:
        batcher.ask(0.0, seen(0.0)).result(HANG)
    assert raised.value.reason == "policy-shape"
    batcher.close()


def test_answers_that_are_too_few_are_nobodys() -> None:
    policy = Adding()
    policy.gate.set()
    policy.act = lambda states, observations: []  # type: ignore[method-assign]
    batcher = Batcher(policy, 1)
    with pytest.raises(EpisodeError, match="an answer to each question of a batch; this one gave 0 to 1") as raised:
        batcher.ask(0.0, seen(0.0)).result(HANG)
    assert raised.value.reason == "policy-protocol"
    batcher.close()


def test_other_calls_are_made_by_the_same_thread_between_batches() -> None:
    policy = Adding()
    batcher = Batcher(policy, 8)
    before = batcher.ask(1.0, seen(0.0))
    policy.gate.set()
    assert batcher.call(threading.get_ident).result(HANG) in policy.threads
    assert before.done()
    with pytest.raises(KeyError):
        batcher.call(lambda: {}["x"]).result(HANG)
    batcher.close()


def test_the_policys_own_limit_holds() -> None:
    policy = Adding()
    policy.max_batch = 1
    batcher = Batcher(policy, 8)
    answers = [batcher.ask(0.0, seen(0.0)) for _ in range(5)]
    policy.gate.set()
    for answer in answers:
        answer.result(HANG)
    batcher.close()
    assert policy.batches == [1] * 5


def test_a_batch_policy_is_told_by_what_it_has() -> None:
    assert is_batch_policy(Adding())
    assert not is_batch_policy(lambda episode: None)


@pytest.mark.parametrize("patience", [HANG, 0.0])
def test_a_batch_waits_for_others_as_long_as_that_is_worth_it(monkeypatch: pytest.MonkeyPatch, patience: float) -> None:
    """How long that is, in simulated time, see test_dispatch.py."""
    monkeypatch.setattr(Dispatch, "until", lambda rule, waiting, now: now + patience)
    policy = Adding()
    policy.gate.set()
    batcher = Batcher(policy, 4)

    def live(session: str) -> None:
        batcher.begin(session)
        for _ in range(20):
            batcher.ask(1.0, seen(1.0), session).result(HANG)
        batcher.end(session)

    names = "abcd" if patience else "a"
    threads = [threading.Thread(target=live, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG)
    batcher.close()
    assert batcher.sessions == 0
    assert policy.batches == [len(names)] * 20


def test_a_session_that_ends_while_its_question_waits_is_not_expected_back() -> None:
    policy = Adding()
    batcher = Batcher(policy, 8)
    first = batcher.ask(1.0, seen(1.0), "first")
    given_up = batcher.ask(1.0, seen(1.0), "gone")
    batcher.end("gone")
    policy.gate.set()
    first.result(HANG), given_up.result(HANG)
    batcher.close()
    assert "gone" not in batcher._rule._thinking
    assert "first" in batcher._rule._thinking
