"""Policies that are offered to other machines, and who asks them: episodes of ours, and a client as openpi's."""

import dataclasses
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from websockets.exceptions import ConnectionClosedError
from websockets.sync.client import ClientConnection, connect

from pytest_vla.episode.result import Rollout
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.base import Answer, Episode, Observation, Policy, Wishes
from pytest_vla.policies.generators import noise_generator
from pytest_vla.policies.openpi import OpenpiPolicy
from pytest_vla.policies.openpi_connection import OURS
from pytest_vla.policies.policy_servers import server_policies
from pytest_vla.policies.tokens import TokenStatistics
from pytest_vla.serving.websocket import WebsocketServer, as_batch_policy
from pytest_vla.testing import World
from tests.support.openpi_server import decoded, encoded
from tests.support.waiting import HANG

STATISTICS = TokenStatistics(
    np.array([0.25, 0.5]), np.array([0.25, 0.1]), np.array([0.25, 0.3]), np.array([1.3, 1.0]), 4
)

TASK = load_suite("libero_goal").task("turn_on_the_stove")
PICTURE = np.arange(224 * 224 * 3, dtype=np.uint8).reshape(224, 224, 3)
REQUEST = {
    "observation/image": PICTURE,
    "observation/wrist_image": PICTURE,
    "observation/state": np.arange(8.0),
    "prompt": "do it",
}


class Wandering:
    """Goes by its noise, its state and all that it sees; has troubles on demand; remembers what was closed."""

    def __init__(self, max_batch: int = 8, replan: int | None = 3) -> None:
        self.max_batch, self.replan = max_batch, replan
        self.reads: Sequence[str] = ("agentview_image", "state")
        self.traits = {"control_freq": 20}
        self.gate = threading.Event()
        self.gate.set()
        self.episodes: list[Episode] = []
        self.seen: list[dict[str, Any]] = []
        self.batches: list[int] = []
        self.closed = 0

    def begin(self, episode: Episode) -> Any:
        self.episodes.append(episode)
        if episode.instruction == "refuse":
            raise ValueError("no such task")
        return _Walk(self, episode)

    def act(self, states: Sequence[Any], observations: Sequence[Observation]) -> Sequence[Any]:
        self.gate.wait(HANG)
        self.batches.append(len(states))
        return [state.answer(observation) for state, observation in zip(states, observations, strict=True)]


class _Walk:
    def __init__(self, policy: Wandering, episode: Episode) -> None:
        self.policy, self.episode, self.steps = policy, episode, 0

    def answer(self, observation: Observation) -> Any:
        self.policy.seen.append(dict(observation))
        if self.episode.instruction == "raise":
            raise KeyError("nothing here")
        if self.episode.instruction == "raise \\udcff":
            raise ValueError("a file \udcff")
        if self.episode.instruction == "nan":
            return np.full((2, 7), np.nan)
        self.steps += 1
        chunk = np.zeros((5, 7))
        chunk[:, :3] = 0.02 * self.episode.rng.normal(size=(5, 3))
        chunk[:, 3] = 0.01 * self.steps
        chunk[:, 4] = observation["agentview_image"].mean() / 1000
        chunk[:, 5] = observation["state"].sum() / 100
        if not self.episode.wishes.samples:
            return chunk
        return Answer(chunk, np.stack([chunk] * self.episode.wishes.samples), np.array([0.25, 0.5]), STATISTICS)

    def close(self) -> None:
        self.policy.closed += 1
        if self.episode.instruction == "close badly":
            raise OSError("no place to say goodbye")


def plain(episode: Episode) -> Any:
    """As people write policies; reads what it likes, and changes what it gets."""
    steps = 0

    def session(observation: Observation) -> Any:
        nonlocal steps
        steps += 1
        wrist = observation["robot0_eye_in_hand_image"]
        wrist += 1
        return np.array(
            [episode.rng.normal() * 0.02, *observation["robot0_eef_pos"] / 100, steps / 100, wrist[0, 0, 0] / 999, 1]
        )

    return session


@contextmanager
def serving(policy: Any, port: int = 0, **options: Any) -> Iterator[WebsocketServer]:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    server = WebsocketServer(as_batch_policy(policy), listener, **{"most": 8, **options})
    try:
        yield server
    finally:
        assert server.close(HANG)


def policy_of(server: WebsocketServer, timeout: float = HANG) -> OpenpiPolicy:
    return server_policies("openpi", f"127.0.0.1:{server.port}", timeout)


@contextmanager
def client(server: WebsocketServer, **options: Any) -> Iterator[ClientConnection]:
    """As openpi's client connects; its metadata are received."""
    with connect(f"ws://127.0.0.1:{server.port}", compression=None, max_size=None, **options) as connection:
        assert OURS in decoded(connection.recv(HANG))
        yield connection


def asked(connection: ClientConnection, request: Any = None) -> Any:
    connection.send(encoded(REQUEST if request is None else request))
    return decoded(connection.recv(HANG))


def closing_code(connection: ClientConnection) -> int:
    with pytest.raises(ConnectionClosedError) as closed:
        connection.recv(HANG)
    assert closed.value.rcvd is not None
    return closed.value.rcvd.code


def episode(seed: int = 0, instruction: str = "do it", wishes: Wishes | None = None) -> Episode:
    case = f"s/t[seed{seed}]"
    return Episode(case, "s", "t", instruction, seed, noise_generator(0, case), wishes or Wishes())


def observation(value: int = 7) -> dict[str, Any]:
    return {"agentview_image": np.full((256, 200, 3), value, np.uint8), "state": np.arange(8.0)}


def run(policy: Policy, seed: int, **conditions: Any) -> Rollout:
    task = dataclasses.replace(TASK, protocol=dataclasses.replace(TASK.protocol, max_steps=20))
    case = Case("libero_goal", "turn_on_the_stove", seed)
    return run_episode(case, task, policy, World, Conditions("the policy", run_seed=5, **conditions))


def run_at_once(policy_for: Callable[[], Policy], count: int = 8) -> dict[int, Rollout]:
    ended: dict[int, Rollout] = {}

    def work(seed: int) -> None:
        ended[seed] = run(policy_for(), seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return ended
