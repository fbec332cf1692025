"""Batches: what waits goes together, nobody pays for another's trouble, one thread only calls the policy."""

import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import EpisodeError
from pytest_vla.policies.base import Episode, Observation, is_batch_policy
from pytest_vla.serving import batching
from pytest_vla.serving.batching import Batcher
from pytest_vla.serving.returns import Returns
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
    monkeypatch.setattr(batching, "time", clock)
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
    assert policy.batches == [1, 2, 1, 1, 1]


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


def waiting_time(answered: int, away: float, fixed: float, each: float) -> float:
    """How long a batch of one waits, where `answered` others were just answered and are usually away so long."""
    returns = Returns()
    for moment in range(20):
        for size in (1, 2, 4):
            returns.took(size, fixed + size * each)
        returns.answered("one", moment)
        returns.asked("one", moment + away)
    for number in range(answered):
        returns.answered(number, 100.0)
    return returns.worth_waiting(1, 31, 100.0, 100.0) - 100.0


def test_it_is_waited_for_those_who_come_soon_while_a_batch_of_their_own_would_cost_more() -> None:
    assert waiting_time(1, away=0.01, fixed=0.1, each=0.0) >= 0.01
    assert waiting_time(1, away=0.2, fixed=0.1, each=0.0) == 0.0
    # Where each question costs its time, a batch saves nothing.
    assert waiting_time(1, away=0.01, fixed=0.0, each=0.1) == pytest.approx(0.0, abs=1e-6)
    assert waiting_time(0, away=0.01, fixed=0.1, each=0.0) == 0.0


def test_nobody_is_waited_for_who_is_later_than_usual_has_ended_or_finds_no_room() -> None:
    returns = Returns()
    for moment in range(20):
        returns.took(1, 0.1)
        returns.answered("a", moment)
        returns.asked("a", moment + 0.01)
    returns.answered("a", 100.0)
    assert returns.worth_waiting(1, 7, 100.0, 100.0) > 100.0
    assert returns.worth_waiting(1, 0, 100.0, 100.0) == 100.0
    assert returns.worth_waiting(1, 7, 100.5, 100.5) == 100.5
    returns.forget("a")
    assert returns.worth_waiting(1, 7, 100.0, 100.0) == 100.0


def test_one_who_was_long_away_does_not_change_when_the_others_are_expected() -> None:
    returns = Returns()
    for moment in range(50):
        returns.took(1, 0.1)
        returns.answered("a", moment)
        returns.asked("a", moment + (5.0 if moment == 40 else 0.01))
    returns.answered("a", 100.0)
    assert 100.01 <= returns.worth_waiting(1, 7, 100.0, 100.0) < 100.1


@pytest.mark.parametrize("before", [0.0, 0.001, 1.0])
def test_where_all_are_longer_or_shorter_away_than_before_it_is_soon_known(before: float) -> None:
    returns = Returns()
    for moment in range(200):
        returns.took(1, 0.1)
        returns.answered("a", 10.0 * moment)
        returns.asked("a", 10.0 * moment + (before if moment < 100 else 0.05))
    returns.answered("a", 5000.0)
    assert 5000.05 <= returns.worth_waiting(1, 7, 5000.0, 5000.0) <= 5000.1


@given(
    st.lists(st.tuples(st.integers(1, 32), st.floats(0.0, 10.0)), max_size=20),
    st.lists(st.floats(0.0, 10.0), max_size=20),
    st.integers(0, 8),
    st.integers(1, 32),
)
def test_nobody_waits_for_others_longer_than_a_batch_takes(
    batches: list[tuple[int, float]], away: list[float], answered: int, size: int
) -> None:
    returns = Returns()
    for number, seconds in batches:
        returns.took(number, seconds)
    for seconds in away:
        returns.answered("a", 0.0)
        returns.asked("a", seconds)
    for session in range(answered):
        returns.answered(session, 99.5)
    longest = batches[-1][1] if batches else 0.0
    until = returns.worth_waiting(size, 32 - size, 100.0, 100.0)
    assert until <= 100.0 + longest
    if not answered:
        assert until <= 100.0


def rate(away: Callable[[random.Random], float], wait: bool, sessions: int = 8, fixed: float = 0.04) -> float:
    """Questions a second, in simulated time, of sessions that ask again `away` after each answer."""
    returns, generator = Returns(), random.Random(0)
    coming = [(away(generator), session) for session in range(sessions)]
    waiting: list[tuple[float, int]] = []
    now, idle, answered = 0.0, 0.0, 0
    while now < 60.0:
        while coming and min(coming)[0] <= now:
            waiting.append(min(coming))
            coming.remove(waiting[-1])
            returns.asked(waiting[-1][1], waiting[-1][0])
        if not waiting:
            now = min(coming)[0]
            continue
        until = returns.worth_waiting(len(waiting), sessions, max(idle, waiting[0][0]), now) if wait else now
        if until > now:
            now = min([until, *(moment for moment, _ in coming)])
            continue
        now += fixed
        returns.took(len(waiting), fixed)
        for _, session in waiting:
            returns.answered(session, now)
            coming.append((now + away(generator), session))
        answered, idle = answered + len(waiting), now
        waiting.clear()
    return answered / now


def test_sessions_that_ask_again_at_once_fill_batches_and_others_lose_nothing_by_it() -> None:
    def at_once(generator: random.Random) -> float:
        return generator.uniform(0.0005, 0.003)

    # 8 in 43 ms at best.
    assert rate(at_once, wait=True) > 0.97 * 8 / 0.043
    assert rate(at_once, wait=False) < 0.6 * 8 / 0.043
    for mean in (0.02, 0.06, 0.2):

        def after(generator: random.Random, mean: float = mean) -> float:
            return mean * generator.uniform(0.7, 1.3)

        assert rate(after, wait=True) > 0.93 * rate(after, wait=False)


@pytest.mark.parametrize("patience", [HANG, 0.0])
def test_a_batch_waits_for_others_as_long_as_that_is_worth_it(monkeypatch: pytest.MonkeyPatch, patience: float) -> None:
    """How long that is, in simulated time, see above."""
    monkeypatch.setattr(Returns, "worth_waiting", lambda returns, size, room, since, now: now + patience)
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
    assert "gone" not in batcher._returns._answered
    assert "first" in batcher._returns._answered
