"""``--vla-model=openpi:HOST:PORT``: a policy behind openpi's websocket protocol, run by another process or machine."""

import os
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.address import KEY, Address, parse_address
from pytest_vla.policies.base import Episode, Observation, Session
from pytest_vla.policies.msgpack_arrays import pack, unpack
from pytest_vla.policies.view import resize_with_padding

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

T = TypeVar("T")

DEFAULT_PORT = 8000
REPLAN = 5
"""Steps of a chunk that openpi's LIBERO client executes before it asks again."""

IMAGE_SIZE = 224
"""Height and width of the pictures that the server gets, pixels."""

REQUEST_TIMEOUT = 60.0
"""Seconds that connecting, or one request, may take in an episode: a server's first inference compiles the model."""

CHECK_TIMEOUT = 10.0
"""Seconds that the server may take to answer before the first episode."""

MAX_REPLY = 16 * 1024 * 1024
"""Bytes that one reply may have."""

_CLOSE_TIMEOUT = 1.0  # A server that is inferring for somebody else does not answer a goodbye.
_LONGEST_TEXT = 20_000


@dataclass(frozen=True)
class OpenpiPolicy:
    """A policy behind openpi's websocket protocol; each episode has a connection of its own.

    The protocol knows no beginning and no end of an episode, and no seed. What follows: a server that keeps state
    between requests keeps it between episodes too, and mixes those of several workers; and what it draws at random is
    its own, so that episodes repeat only where the server's policy is deterministic. On this side nothing outlives an
    episode.

    A request is what openpi's LIBERO client sends: ``observation/image`` and ``observation/wrist_image`` (224, 224, 3)
    uint8, ``observation/state`` (8,), ``prompt``. That client turns MuJoCo's raw pictures by 180 degrees, which is the
    suite's ``image_transform = "rotate_180"``: pictures are sent as the suite gives them to any policy.

    Episodes end with EpisodeError ``policy-connection`` (no server, or it is gone), ``policy-timeout`` (no reply within
    `REQUEST_TIMEOUT`), ``policy-raised`` (the server's traceback) or ``policy-protocol`` (another kind of reply).

    Attributes:
        address: of the server. A key is read from the environment variable `KEY`.
        replan: how many steps of a chunk are executed, unless ``--vla-replan`` says otherwise.
    """

    address: Address
    replan: int = REPLAN

    def __call__(self, episode: Episode) -> Session:
        """Connect for an episode."""
        return _Session(self.address, episode.instruction)


def openpi_policy(where: str) -> OpenpiPolicy:
    """The policy of the server at `where`: HOST, HOST:PORT or a URL. Connects to nothing yet. Raises VlaError."""
    _websockets()
    return OpenpiPolicy(parse_address("openpi", where, DEFAULT_PORT))


def check_openpi(where: str) -> None:
    """Connect once, and leave. Raises VlaError: a package is missing, or no such server answers in `CHECK_TIMEOUT`."""
    policy = openpi_policy(where)
    try:
        _connect(policy.address, CHECK_TIMEOUT).close()
    except EpisodeError as error:
        raise VlaError(
            f"--vla-model={policy.address.model}: {error.message}. Expected openpi's policy server there "
            "(scripts/serve_policy.py of openpi, or another server of its protocol): start it first, and look at host "
            "and port"
        ) from error


def libero_request(observation: Observation, instruction: str) -> dict[str, Any]:
    """The request that openpi's LIBERO client makes of an observation; see `OpenpiPolicy`."""
    return {
        "observation/image": resize_with_padding(observation["agentview_image"], IMAGE_SIZE, IMAGE_SIZE),
        "observation/wrist_image": resize_with_padding(observation["robot0_eye_in_hand_image"], IMAGE_SIZE, IMAGE_SIZE),
        "observation/state": np.asarray(observation["state"], dtype=np.float64),
        "prompt": instruction,
    }


class _Session:
    def __init__(self, address: Address, instruction: str) -> None:
        self._address, self._instruction = address, instruction
        self._connection = _connect(address, REQUEST_TIMEOUT)

    def __call__(self, observation: Observation) -> Any:
        request = pack(libero_request(observation, self._instruction))
        connection = self._connection

        def ask(left: Callable[[], float]) -> str | bytes:
            connection.send(request)
            return connection.recv(timeout=left())

        reply = _table(_guarded(ask, self._address, REQUEST_TIMEOUT), self._address)
        if "actions" not in reply:
            listed = ", ".join(sorted(map(str, reply)))[:200] or "nothing"
            raise EpisodeError("policy-protocol", f"{self._address} replied without actions; the reply has {listed}")
        return reply["actions"]

    def close(self) -> None:
        # What a goodbye runs into changes nothing about the episode.
        with suppress(Exception):
            self._connection.close()


def _connect(address: Address, timeout: float) -> "ClientConnection":
    """A connection whose server has sent its metadata. Raises EpisodeError."""
    connect = _websockets()
    key = os.environ.get(KEY, "").strip()

    def open_connection(left: Callable[[], float]) -> "ClientConnection":
        opening = connect(
            address.url,
            additional_headers={"Authorization": f"Api-Key {key}"} if key else None,
            compression=None,
            max_size=MAX_REPLY,
            open_timeout=left(),
            # The server infers in the loop that would answer a ping.
            ping_interval=None,
            close_timeout=_CLOSE_TIMEOUT,
        )
        # From websockets 17.1 on, a connection that is not entered warns.
        connection = opening.__enter__()
        try:
            _limit_sending(connection)
            _table(connection.recv(timeout=left()), address)
        except BaseException:
            connection.close()
            raise
        return connection

    try:
        return _guarded(open_connection, address, timeout)
    except EpisodeError as error:
        if error.reason != "policy-timeout":
            raise
        raise EpisodeError("policy-connection", f"{error.message} to a new connection") from error


def _websockets() -> "Callable[..., ClientConnection]":
    try:
        from websockets.sync.client import connect
    except ImportError as error:
        raise VlaError(
            f"--vla-model=openpi needs the package websockets ({error}): pip install 'pytest-vla[remote]'"
        ) from error
    return connect


def _guarded(talk: Callable[[Callable[[], float]], T], address: Address, timeout: float) -> T:
    """What `talk` returns, which is told how many seconds are left; what goes wrong on the way is an EpisodeError."""
    from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

    deadline = time.monotonic() + timeout
    late = EpisodeError("policy-timeout", f"{address} gave no answer within {timeout:g} s")
    try:
        return talk(lambda: max(deadline - time.monotonic(), 0.0))
    except EpisodeError:
        raise
    except TimeoutError as error:
        raise late from error
    except ConnectionRefusedError as error:
        raise EpisodeError("policy-connection", f"nothing listens at {address}") from error
    except InvalidStatus as error:
        raise EpisodeError("policy-connection", _refusal(address, error.response.status_code)) from error
    except ConnectionClosed as error:
        if time.monotonic() >= deadline:
            # Sending took too long.
            raise late from error
        raise EpisodeError("policy-connection", f"{address} ended the connection: {error}") from error
    except (OSError, EOFError, ValueError, ImportError, WebSocketException) as error:
        text = f"{type(error).__name__}: {error}"
        raise EpisodeError("policy-connection", f"no connection to {address}: {text}") from error


def _refusal(address: Address, status: int) -> str:
    if status in (401, 403):
        given = "the key in" if os.environ.get(KEY, "").strip() else "a connection without a key; give it in"
        return f"{address} refuses {given} the environment variable {KEY} (HTTP {status})"
    return f"{address} is no websocket server (HTTP {status})"


def _limit_sending(connection: "ClientConnection") -> None:
    """Let a send fail after `REQUEST_TIMEOUT`, where nobody takes the bytes; receiving has a limit of its own."""
    import socket

    timeout = struct.pack("ll", int(REQUEST_TIMEOUT), int(REQUEST_TIMEOUT % 1 * 1e6))
    with suppress(OSError, AttributeError):
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)


class _ServerTraceback(Exception):
    """The cause of ``policy-raised``: what the server said, shown with the item."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def _table(frame: str | bytes, address: Address) -> Mapping[Any, Any]:
    """The dict of a binary frame; a text frame is the server's traceback. Raises EpisodeError."""
    if isinstance(frame, str):
        lines = [line for line in frame.splitlines() if line.strip()] or ["(an empty text)"]
        raise EpisodeError("policy-raised", f"{address}: {lines[-1].strip()[:500]}") from _ServerTraceback(
            frame[-_LONGEST_TEXT:]
        )
    try:
        table = unpack(frame)
    except ValueError as error:
        raise EpisodeError(
            "policy-protocol", f"{address} sent {len(frame)} bytes that are no reply: {error}"
        ) from error
    if not isinstance(table, dict):
        raise EpisodeError("policy-protocol", f"{address} sent {type(table).__name__}, and not a dict")
    return table
