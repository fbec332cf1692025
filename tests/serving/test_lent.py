"""A policy that answers in the thread that has it, and a worker that asks."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from pytest_vla.errors import POLICY_TIMEOUT, EpisodeError, VlaError
from pytest_vla.policies.base import Episode
from pytest_vla.policies.generators import noise_generator
from pytest_vla.policies.in_memory import LivePolicy
from pytest_vla.serving.client import ServedPolicy
from pytest_vla.serving.in_caller import Lending, LentPolicy
from pytest_vla.serving.process import PolicyAddress
from tests.support.waiting import HANG


class Here:
    """Answers with the thread that it is asked in, and what it was told of the episode; waits at the gate."""

    max_batch = 4
    reads: Sequence[str] = ("state",)

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.closed = 0

    def begin(self, episode: Episode) -> Any:
        policy = self

        class State:
            size = episode.action_size

            def close(self) -> None:
                policy.closed += 1

        return State()

    def act(self, states: Sequence[Any], observations: Any) -> list[Any]:
        self.gate.wait(HANG)
        return [np.full(state.size, threading.get_ident() % 1000) for state in states]


@contextmanager
def lending(policy: Here) -> Iterator[tuple[Lending, PolicyAddress]]:
    address = PolicyAddress.new()
    lent = Lending(policy, address, 4)
    try:
        yield lent, address
    finally:
        lent.stop()
        lent.close()
        address.remove()


def episode() -> Episode:
    return Episode("s/t[seed0]", "s", "t", "do it", 0, noise_generator(0, "s/t[seed0]"), action_size=2)


SEEN = {"state": np.zeros(8)}


def test_the_policy_answers_in_the_thread_that_waits() -> None:
    policy, found = Here(), []
    with lending(policy) as (lent, address):

        def ask() -> None:
            asked = ServedPolicy(address, HANG)
            session = asked(episode())
            found.append(session(SEEN).actions)
            session.close()
            # One more, which nobody ends.
            asked(episode())
            lent.stop()

        worker = threading.Thread(target=ask)
        worker.start()
        lent.answer(HANG)
        worker.join()
    assert lent.lost == ""
    assert np.array_equal(found, [[[threading.get_ident() % 1000] * 2]])
    assert policy.closed == 2


def test_a_call_that_takes_too_long_is_told_and_goes_on() -> None:
    policy, found = Here(), list[Any]()
    policy.gate.clear()
    with lending(policy) as (lent, address):

        def ask() -> None:
            session = ServedPolicy(address, HANG)(episode())
            try:
                session(SEEN)
            except EpisodeError as error:
                found.append(error.reason)
            policy.gate.set()
            found.append(session(SEEN).actions.shape)
            lent.stop()

        worker = threading.Thread(target=ask)
        worker.start()
        lent.answer(0.05)
        worker.join()
    assert found == [POLICY_TIMEOUT, (1, 2)]


def test_a_desk_that_dies_is_told_to_those_who_wait() -> None:
    found: list[str] = []
    with lending(Here()) as (lent, address):

        def ask() -> None:
            asked = ServedPolicy(address, HANG)
            session = asked(episode())
            lent._desk._process.kill()
            try:
                session(SEEN)
            except EpisodeError as error:
                try:
                    asked.recover(error.reason)
                except VlaError as lost:
                    found.append(str(lost))

        worker = threading.Thread(target=ask)
        worker.start()
        lent.answer(HANG)
        worker.join()
        assert "(the process that serves the workers) has ended" in lent.lost
    assert found == [lent.lost]


def test_what_pytest_sees_of_it() -> None:
    live = LivePolicy("x", "/nowhere/s", "00ff", {"digest": "d", "replan": 3, "traits": {"chunk": 8}, "most": 4})
    seen = LentPolicy(live)
    assert (seen.about.digest, seen.about.replan, seen.about.most) == ("d", 3, 4)
    assert seen.address_of(0) == seen.address_of(5)
    assert seen.address_of(0).secret == b"\x00\xff"
