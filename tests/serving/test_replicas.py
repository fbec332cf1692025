"""Processes that are watched: one that dies is started again once, one that gave up a call however often."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.base import Episode
from pytest_vla.policies.noise import noise_generator
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.serving.client import ServedPolicy
from pytest_vla.serving.replicas import Replicas, lost_file
from tests.support.waiting import HANG, RUN_OUT, until

POLICY = """
import os, time
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
        "the policy's process on cpu ended with exit code 3; it is started again, and its open episodes run again"
    ]
    assert policy.recover("policy-server-died")
    policy.close()
    assert tell(replicas, "die") == "policy-server-died"
    until(lambda: lost_file(replicas.addresses[0]).exists())
    with pytest.raises(VlaError, match="ended with exit code 3, for the second time"):
        policy.recover("policy-server-died")
    assert session({"state": np.zeros(8)}).actions.shape == (1, 7)
    assert not policy.recover("policy-nan")


def test_workers_are_shared_out(replicas: Replicas) -> None:
    assert [replicas.address_of(worker) for worker in range(4)] == [*replicas.addresses, *replicas.addresses]
