"""``--vla-model=openpi:HOST:PORT``: a policy behind openpi's websocket protocol, run by other processes or machines."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.base import NO_WISHES, Answer, Episode, Observation, Session
from pytest_vla.policies.fit import Traits
from pytest_vla.policies.generators import pack_noise
from pytest_vla.policies.openpi_connection import (
    OBSERVATIONS,
    OURS,
    PROMPT,
    Address,
    OpenpiConnection,
    ServerInfo,
)
from pytest_vla.policies.servers import OneServer, Said
from pytest_vla.policies.tokens import statistics_of
from pytest_vla.policies.view import resize_with_padding
from pytest_vla.util.warnings import ServerTraceback

REPLAN = 5
"""Steps of a chunk that openpi's LIBERO client executes before it asks again."""

IMAGE_SIZE = 224
"""Height and width of the pictures that openpi's own server gets, pixels."""


@dataclass(frozen=True)
class OpenpiPolicy(OneServer):
    """A policy behind openpi's websocket protocol; each episode has a connection of its own.

    openpi's protocol has no begin, end or seed of an episode. Consequently, a server that keeps state between requests
    also keeps it between episodes, and mixes the states of several workers. Its random draws are its own, so episodes
    are reproducible only if the server's policy is deterministic. On this side nothing outlives an episode.

    A request is the one of openpi's LIBERO client: ``observation/image`` and ``observation/wrist_image`` (224, 224, 3)
    uint8, ``observation/state`` (8,), ``prompt``. That client turns MuJoCo's raw pictures by 180 degrees, which is the
    suite's ``image_transform = "rotate_180"``: pictures are sent in the form that the suite gives to any policy.

    A server started by ``pytest-vla serve`` identifies itself in its metadata. An episode's begin, end and noise
    are then sent too, and pictures without resizing: the episode is bit for bit the same as with the policy in
    this process.

    Episodes end with the EpisodeErrors of `OpenpiConnection`, and with those of a policy behind ``pytest-vla serve``.
    """

    def ask(self, timeout: float) -> Said:
        """Connect, and return the server's metadata, its first message. Raises EpisodeError."""
        connection = OpenpiConnection(self.address, timeout)
        try:
            _served(connection.metadata, self.address)
            return connection.metadata
        finally:
            connection.close()

    @cached_property
    def served(self) -> ServerInfo | None:
        """The policy's description if the server is ``pytest-vla serve``, else None. Raises as `said`."""
        return _served(self.said, self.address)

    @property
    def replan(self) -> int | None:
        """The number of steps of a chunk that are executed, unless ``--vla-replan`` overrides it. Raises as `said`."""
        return REPLAN if self.served is None else self.served.replan

    @property
    def digest(self) -> str | None:
        """The digest of the policy's content, or else of the server's metadata; None if unknown. Raises as `said`."""
        return super().digest if self.served is None else self.served.digest

    @property
    def traits(self) -> Traits:
        """The policy's traits; empty for a server that does not report them. Raises as `said`."""
        return Traits() if self.served is None else self.served.traits

    def __call__(self, episode: Episode) -> Session:
        """Connect for an episode."""
        expected = self.served
        # A server of ours has a time limit of its own for a call of the policy.
        connection = OpenpiConnection(self.address, self.timeout, self.limit if expected is None else None)
        try:
            self.check_alike(connection.metadata)
            if expected is None:
                return _Session(connection, episode)
            return _OwnSession(connection, expected, episode)
        except BaseException:
            connection.close()
            raise


def libero_request(observation: Observation, instruction: str) -> dict[str, Any]:
    """Return the request that openpi's LIBERO client would send for an observation; see `OpenpiPolicy`."""
    request: dict[str, Any] = {}
    for sent, name in OBSERVATIONS.items():
        if name.endswith("_image"):
            request[sent] = resize_with_padding(observation[name], IMAGE_SIZE, IMAGE_SIZE)
        else:
            request[sent] = np.asarray(observation[name], dtype=np.float64)
    return {**request, PROMPT: instruction}


def _served(metadata: Said, address: Address) -> ServerInfo | None:
    """Return the policy's description if the server is ``pytest-vla serve``, else None. Raises EpisodeError."""
    try:
        return ServerInfo.of(metadata)
    except (ValueError, VlaError) as error:
        raise EpisodeError("policy-protocol", f"{address}: {error}") from error


class _Session:
    """An episode on a server that speaks openpi's protocol only."""

    def __init__(self, connection: OpenpiConnection, episode: Episode) -> None:
        self._connection, self._instruction, self._wishes = connection, episode.instruction, episode.wishes

    def __call__(self, observation: Observation) -> Any:
        reply = self._connection.ask(libero_request(observation, self._instruction))
        # Fields that openpi does not define, and other servers may use differently, are read only if requested.
        return _actions(reply, self._connection) if self._wishes == NO_WISHES else _answer(reply, self._connection)

    def close(self) -> None:
        self._connection.close()


class _OwnSession:
    """An episode on a ``pytest-vla serve``: see `pytest_vla.serving.websocket`."""

    def __init__(self, connection: OpenpiConnection, served: ServerInfo, episode: Episode) -> None:
        self._connection, self._reads, self._noise = connection, served.reads, episode.rng
        self._ask(
            {
                OURS: "begin",
                "case_id": episode.case_id,
                "suite": episode.suite,
                "task": episode.task,
                "instruction": episode.instruction,
                "seed": episode.seed,
                "wishes": asdict(episode.wishes),
                "alone": episode.alone,
                "replan": episode.replan,
                "prompt": episode.prompt,
                "late": episode.late,
                "noise": pack_noise(episode.rng),
            }
        )

    def __call__(self, observation: Observation) -> Answer:
        names = tuple(observation) if self._reads is None else self._reads
        wanted = {name: np.asarray(observation[name]) for name in names}
        reply = self._ask({OURS: "act", "noise": pack_noise(self._noise), "observation": wanted})
        return _answer(reply, self._connection)

    def close(self) -> None:
        """End the episode on the server too, unless a question to it failed."""
        try:
            if self._connection.is_sound:
                self._ask({OURS: "end"})
        finally:
            self._connection.close()

    def _ask(self, request: Mapping[str, Any]) -> Mapping[Any, Any]:
        reply = self._connection.ask(request)
        if "reason" in reply:
            reason, message, details = (str(reply.get(name, "")) for name in ("reason", "message", "details"))
            raise EpisodeError(reason, message) from (ServerTraceback(details) if details else None)
        return reply


def _answer(reply: Mapping[Any, Any], connection: OpenpiConnection) -> Answer:
    actions, statistics = _actions(reply, connection), reply.get("token_statistics")
    try:
        told = None if statistics is None else statistics_of(statistics)
    except ValueError as error:
        raise EpisodeError("policy-protocol", f"{connection.address}: {error}") from error
    return Answer(actions, reply.get("samples"), reply.get("token_probabilities"), told)


def _actions(reply: Mapping[Any, Any], connection: OpenpiConnection) -> Any:
    if "actions" not in reply:
        listed = ", ".join(sorted(map(str, reply)))[:200] or "nothing"
        raise EpisodeError("policy-protocol", f"{connection.address} replied without actions; the reply has {listed}")
    return reply["actions"]
