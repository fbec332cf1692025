"""Processes that are watched: one that dies is started again once, one that gave up a call however often."""

import dataclasses
import itertools
import socket
import types
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.base import Episode
from pytest_vla.policies.generators import noise_generator
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.serving import client
from pytest_vla.serving.client import ServedPolicy
from pytest_vla.serving.process import PolicyAddress
from pytest_vla.serving.replicas import Replicas, lost_file
from pytest_vla.util import processes
from tests.support.waiting import HANG, RUN_OUT, until

POLICY = """
import os, signal, time
import numpy as np
from run_out import run_out

class Troubled:
    max_batch, reads = 4, ("state",)

    def begin(self, episode):
        if episode.instruction == "hang":
            run_out()
            time.sleep(7200)
        if episode.instruction == "die":
            os._exit(3)
        if episode.instruction == "freeze":
            os.kill(os.getpid(), signal.SIGSTOP)
        return episode

    def act(self, states, observations):
        return [np.zeros(7) for state in states]

policy = Troubled()
"""
EPISODE = Episode("c", "s", "t", "do it", 0, noise_generator(0, "c"))


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def replicas(tmp_path: Path, notices: list[str]) -> Iterator[Replicas]:
    (tmp_path / "troubled.py").write_text(POLICY)
    (tmp_path / "run_out.py").write_text(RUN_OUT)
    spec = ModelSpec("troubled:policy", tmp_path, timeout=HANG)
    started = Replicas(spec, ("cpu", "cuda:1"), 4, notice=notices.append)
    yield started
    started.close()
    assert not any(address.path.parent.exists() for address in started.addresses)


def tell(replicas: Replicas, instruction: str, worker: int = 0) -> str:
    """The reason for which an episode breaks off."""
    policy = ServedPolicy(replicas.address_of(worker), HANG)
    with pytest.raises(EpisodeError) as raised:
        policy(dataclasses.replace(EPISODE, instruction=instruction))
    return raised.value.reason


def test_one_that_gives_up_a_call_is_replaced_however_often(replicas: Replicas, notices: list[str]) -> None:
    policy = ServedPolicy(replicas.address_of(0), HANG)
    for times in (1, 2, 3):
        assert tell(replicas, "hang") == "policy-timeout"
        until(lambda times=times: len(notices) == times)  # type: ignore[misc]
        assert notices[-1].startswith("the policy's process on cpu gave up a call that took too long (--vla-policy-tim")
        until(lambda: policy.recover("policy-server-died"))
        policy.close()
    assert policy(EPISODE)({"state": np.zeros(8)}).actions.shape == (1, 7)


def test_one_that_dies_is_replaced_once_and_the_others_stay(replicas: Replicas, notices: list[str]) -> None:
    other = ServedPolicy(replicas.address_of(1), HANG)
    session = other(EPISODE)
    assert tell(replicas, "die") == "policy-server-died"
    policy = ServedPolicy(replicas.address_of(0), HANG)
    until(lambda: notices)
    assert notices == [
        "the policy's process on cpu ended with exit code 3; it is restarted, and its open episodes run again"
    ]
    assert policy.recover("policy-server-died")
    policy.close()
    assert tell(replicas, "die") == "policy-server-died"
    until(lambda: lost_file(replicas.addresses[0]).exists())
    with pytest.raises(VlaError, match="ended with exit code 3, for the second time"):
        policy.recover("policy-server-died")
    assert session({"state": np.zeros(8)}).actions.shape == (1, 7)
    assert not policy.recover("policy-nan")


def test_one_that_is_frozen_is_killed_and_replaced_however_often(
    replicas: Replicas, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = itertools.count(step=3600)
    monkeypatch.setattr(processes, "MOST_OF_A_LOOK", 1e9)
    monkeypatch.setattr(processes, "time", types.SimpleNamespace(monotonic=lambda: float(next(hours))))
    policy = ServedPolicy(replicas.address_of(0), HANG)
    for times in (1, 2):
        # The connection breaks where the process is killed.
        assert tell(replicas, "freeze") == "policy-server-died"
        until(lambda times=times: sum("on cpu gave no sign" in notice for notice in notices) == times)  # type: ignore[misc]
        assert policy.recover("policy-server-died")
        policy.close()
    told = f"on cpu gave no sign of life for {HANG + 15:g} s, 15 s beyond --vla-policy-timeout, and was killed"
    assert any(told in notice for notice in notices)
    assert policy(EPISODE)({"state": np.zeros(8)}).actions.shape == (1, 7)


@pytest.fixture
def frozen() -> Iterator[PolicyAddress]:
    """Where a process listens that never answers."""
    address = PolicyAddress.new()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(address.path))
        listener.listen()
        yield address
    address.remove()


def test_a_connect_that_times_out_is_a_timeout(frozen: PolicyAddress, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_GRACE_SECONDS", 0.01)
    for _ in range(2):
        with pytest.raises(EpisodeError, match=r"no sign of life from the policy's process in 0\.01 s") as raised:
            ServedPolicy(frozen, 0.01)(EPISODE)
        assert raised.value.reason == "policy-timeout"


def test_one_that_never_comes_back_is_not_waited_for_for_ever(
    frozen: PolicyAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_GRACE_SECONDS", 0.01)
    with pytest.raises(VlaError, match="did not come back within 0 s: no sign of life"):
        ServedPolicy(frozen, 0.01, patience=0.05).recover("policy-server-died")


def test_workers_are_shared_out(replicas: Replicas) -> None:
    assert [replicas.address_of(worker) for worker in range(4)] == [*replicas.addresses, *replicas.addresses]


def test_what_each_has_seen_is_known_here(replicas: Replicas) -> None:
    assert [each.questions for each in replicas.seen()] == [0, 0]
    assert replicas.about.most == 4
    policy = ServedPolicy(replicas.address_of(1), HANG)
    session = policy(EPISODE)
    for _ in range(3):
        session({"state": np.zeros(8)})
    until(lambda: replicas.seen()[1].questions == 3)
    assert replicas.seen()[1].calls[1][0] == 3
    assert replicas.seen()[0].questions == 0
