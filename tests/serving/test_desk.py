"""The desk and the policy's side of it, in this process: batches lie as one array, and no memory is no trouble."""

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError, WireError
from pytest_vla.policies.base import Episode, Observations
from pytest_vla.policies.generators import noise_generator
from pytest_vla.serving import batch_server as arena
from pytest_vla.serving import client
from pytest_vla.serving.batch_server import BatchServer
from pytest_vla.serving.client import ServedPolicy
from pytest_vla.serving.computing import Computer
from pytest_vla.serving.process import PolicyAddress
from pytest_vla.serving.stats import ServingStats
from tests.support.waiting import HANG, until


class Summing:
    """Answers with the mean of each picture; keeps what it was given; waits at the gate."""

    max_batch, reads = 8, ("agentview_image", "state")

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.kept: list[np.ndarray] = []
        self.shapes: list[Any] = []
        self.stacked = True

    def begin(self, episode: Episode) -> Any:
        return episode.seed

    def act(self, states: Sequence[Any], observations: Observations) -> Sequence[Any]:
        self.gate.wait(HANG)
        try:
            pictures = list(observations.stacked("agentview_image"))
            self.shapes.append((len(pictures), *pictures[0].shape))
        except EpisodeError:
            pictures = [each["agentview_image"] for each in observations]
            self.shapes.append([picture.shape for picture in pictures])
        self.kept += [each["agentview_image"] for each in observations]
        return [
            np.array([picture.mean(), state, *observation["state"][:5]])
            for state, picture, observation in zip(states, pictures, observations, strict=True)
        ]


@contextmanager
def desk_of(policy: Summing, tmp_path: Path, beat: Any = lambda seen: None, most: int = 8) -> Iterator[PolicyAddress]:
    ours, theirs = socket.socketpair()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    address = PolicyAddress(tmp_path / "s", b"secret")
    listener.bind(str(address.path))
    desk = BatchServer(theirs, listener, b"secret", policy.reads, most, beat=beat)
    computer = Computer(policy, ours)

    def run(what: Any) -> None:
        with suppress(WireError, OSError):
            what.run()

    threads = [threading.Thread(target=run, args=(what,)) for what in (desk, computer)]
    for thread in threads:
        thread.start()
    try:
        yield address
    finally:
        ours.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(HANG)
        ours.close()
        theirs.close()


@pytest.fixture
def policy() -> Summing:
    return Summing()


def seen(value: int, side: int = 16) -> dict[str, Any]:
    return {"agentview_image": np.full((side, side, 3), value, np.uint8), "state": np.full(8, value / 2)}


def begin(address: PolicyAddress, seed: int, alone: bool = False) -> Any:
    name = f"s/t[seed{seed}]"
    return ServedPolicy(address, HANG)(Episode(name, "s", "t", "do it", seed, noise_generator(0, name), alone=alone))


def ask_together(policy: Summing, sessions: Sequence[Any], sights: Sequence[Any]) -> list[Any]:
    """The answers to questions that all wait while the policy is at the first one."""
    answers: list[Any] = [None] * len(sessions)

    def ask(number: int) -> None:
        answers[number] = sessions[number](sights[number]).actions[0]

    before = len(policy.shapes)
    policy.gate.clear()
    threads = [threading.Thread(target=ask, args=(number,)) for number in range(len(sessions))]
    for thread in threads:
        thread.start()
    policy.gate.set()
    for thread in threads:
        thread.join(HANG)
    assert len(policy.shapes) > before
    return answers


def test_a_batch_is_one_array_and_what_is_kept_of_it_stays(policy: Summing, tmp_path: Path) -> None:
    with desk_of(policy, tmp_path) as address:
        sessions = [begin(address, seed) for seed in range(6)]
        for turn in range(5):
            answers = ask_together(policy, sessions, [seen(10 * turn + number) for number in range(6)])
            assert [answer[0] for answer in answers] == [10 * turn + number for number in range(6)]
            assert [answer[1] for answer in answers] == [*range(6)]
            assert [answer[2] for answer in answers] == [5 * turn + number / 2 for number in range(6)]
    assert sum(shape[0] for shape in policy.shapes) == 30
    assert {shape[1:] for shape in policy.shapes} == {(16, 16, 3)}
    assert sorted(int(each.flat[0]) for each in policy.kept) == sorted(
        10 * turn + n for turn in range(5) for n in range(6)
    )
    assert all((each == each.flat[0]).all() for each in policy.kept)


def test_an_answer_says_how_long_the_policy_took_for_it(policy: Summing, tmp_path: Path) -> None:
    with desk_of(policy, tmp_path) as address:
        began = time.monotonic()
        took = begin(address, 0)(seen(3)).seconds
        assert 0 <= took <= time.monotonic() - began


def test_pictures_of_other_sizes_in_one_batch_cross_too(policy: Summing, tmp_path: Path) -> None:
    with desk_of(policy, tmp_path) as address:
        sessions = [begin(address, seed) for seed in range(4)]
        for turn in range(4):
            sides = [16, 64, 16, 8 * (turn + 1)]
            answers = ask_together(policy, sessions, [seen(turn + n, side) for n, side in enumerate(sides)])
            assert [answer[0] for answer in answers] == [turn, turn + 1, turn + 2, turn + 3]


def test_one_that_is_alone_is_in_no_batch(policy: Summing, tmp_path: Path) -> None:
    with desk_of(policy, tmp_path) as address:
        sessions = [begin(address, seed, alone=seed == 2) for seed in range(4)]
        for _ in range(3):
            assert ask_together(policy, sessions, [seen(n) for n in range(4)])[2][0] == 2
    assert max(shape[0] for shape in policy.shapes) <= 3


def test_a_worker_that_goes_while_it_waits_leaves_the_others_their_answers(policy: Summing, tmp_path: Path) -> None:
    with desk_of(policy, tmp_path) as address:
        sessions = [begin(address, seed) for seed in range(4)]
        policy.gate.clear()
        threads = [
            threading.Thread(target=_ignoring, args=(session, seen(n))) for n, session in enumerate(sessions[:2])
        ]
        for thread in threads:
            thread.start()
        gone = sessions[1]._policy._connection
        gone.shutdown(socket.SHUT_RDWR)
        policy.gate.set()
        for thread in threads:
            thread.join(HANG)
        assert [answer[0] for answer in ask_together(policy, sessions[2:], [seen(7), seen(8)])] == [7, 8]


def _ignoring(session: Any, sight: Any) -> None:
    with suppress(EpisodeError):
        session(sight)


@pytest.mark.parametrize("where", [client, arena])
def test_where_no_memory_is_to_be_had_pictures_go_by_message(
    policy: Summing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: Any
) -> None:
    def full(size: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(where, "allocate", full)
    with desk_of(policy, tmp_path) as address:
        session = begin(address, 1)
        if where is client:
            with pytest.warns(UserWarning, match="no memory can be shared with the policy's process"):
                assert session(seen(3)).actions[0, 0] == 3
        for value in (4, 5):
            assert session(seen(value)).actions[0, 0] == value


def test_larger_pictures_get_larger_memory(policy: Summing, tmp_path: Path) -> None:
    with desk_of(policy, tmp_path) as address:
        session = begin(address, 1)
        for side in (8, 128, 16, 512):
            assert session(seen(side // 8, side)).actions[0, 0] == side // 8


def test_what_was_seen_is_told(policy: Summing, tmp_path: Path) -> None:
    told: list[ServingStats] = []
    with desk_of(policy, tmp_path, beat=told.append) as address:
        session = begin(address, 1)
        for _ in range(3):
            session(seen(1))
        session.close()
        session = session._policy(Episode("s/t[seed2]", "s", "t", "do", 2, noise_generator(0, "s/t[seed2]")))
        session(seen(1))
        until(lambda: bool(told) and told[-1].questions == 4)
    last = told[-1]
    assert (last.episodes, last.workers, last.calls[1][0], len(last.thinking), len(last.away)) == (1, 1, 4, 2, 1)
    assert 0 < last.busy < last.seconds


def test_a_question_without_what_the_policy_reads_ends_the_connection(policy: Summing, tmp_path: Path) -> None:
    with desk_of(policy, tmp_path) as address:
        session = begin(address, 1)
        session._policy._reads = ("state",)
        with pytest.raises(EpisodeError, match="gone"):
            session(seen(1))
        assert begin(address, 2)(seen(9)).actions[0, 0] == 9


def test_those_who_are_alone_do_not_keep_others_waiting(policy: Summing, tmp_path: Path) -> None:
    with desk_of(policy, tmp_path) as address:
        sessions = [begin(address, seed, alone=seed < 3) for seed in range(5)]
        asked, over = [0] * 5, threading.Event()

        def ask(number: int) -> None:
            while not over.is_set() and asked[number] < 1000:
                sessions[number](seen(number))
                asked[number] += 1

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        until(lambda: min(asked) >= 20)
        over.set()
        for thread in threads:
            thread.join(HANG)
    assert max(asked) < 1000, "all of them in turn"


class Keeping(Summing):
    """Keeps what is stacked, and parts of it."""

    def __init__(self) -> None:
        super().__init__()
        self.stacks: list[tuple[np.ndarray, np.ndarray]] = []

    def act(self, states: Sequence[Any], observations: Observations) -> Sequence[Any]:
        stack = observations.stacked("agentview_image")
        self.stacks.append((stack[0], stack[0].copy()))
        return super().act(states, observations)


def test_what_is_kept_of_a_stack_stays_as_it_was(tmp_path: Path) -> None:
    policy = Keeping()
    with desk_of(policy, tmp_path) as address:
        session = begin(address, 1)
        for value in range(12):
            assert session(seen(value)).actions[0, 0] == value
            if value == 6:
                del policy.stacks[2:5]
    assert len(policy.stacks) == 9
    assert all(np.array_equal(kept, copy) for kept, copy in policy.stacks)


def test_memory_is_used_again_where_nobody_keeps_it(policy: Summing, tmp_path: Path) -> None:
    sizes: list[int] = []
    plain, arena.allocate = arena.allocate, lambda size: sizes.append(size) or plain(size)  # type: ignore[func-returns-value]
    try:
        with desk_of(policy, tmp_path) as address:
            session = begin(address, 1)
            for value in range(12):
                session(seen(value))
    finally:
        arena.allocate = plain
    assert len(sizes) <= 3, "of two batches in turn, the first of which grew"
