"""A connection to a server of openpi's websocket protocol: one question and one answer at a time, each with a limit."""

import os
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.policies.address import KEY, Address
from pytest_vla.policies.msgpack_arrays import pack, unpack
from pytest_vla.util.tracebacks import ServerTraceback

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection
    from websockets.sync.connection import Connection

T = TypeVar("T")

MAX_REPLY = 16 * 1024 * 1024
"""Bytes that one reply may have."""

_CLOSE_TIMEOUT = 1.0  # A server that is inferring for somebody else does not answer a goodbye.
_LONGEST_TEXT = 20_000


class OpenpiConnection:
    """A connection whose server has sent its metadata.

    Every method but `close` raises EpisodeError: ``policy-connection`` (no server, or it is gone), ``policy-timeout``
    (no reply in time), ``policy-raised`` (the server's traceback) or ``policy-protocol`` (another kind of reply).

    Attributes:
        address: of the server.
        metadata: what the server sent first.
        is_sound: whether no question is open or has failed.
    """

    def __init__(self, address: Address, timeout: float) -> None:
        """Connects, with the key of the environment variable `KEY`.

        Args:
            address: of the server.
            timeout: seconds that connecting, or one question, may take.
        """
        self.address, self._timeout = address, timeout
        self.is_sound = True
        self._socket, self.metadata = _open(address, timeout)

    def ask(self, request: Mapping[str, Any]) -> Mapping[Any, Any]:
        """The reply to a request."""
        packed = pack(request)
        socket = self._socket

        def ask(left: Callable[[], float]) -> str | bytes:
            socket.send(packed)
            return socket.recv(timeout=left())

        self.is_sound = False
        reply = _table(_guarded(ask, self.address, self._timeout), self.address)
        self.is_sound = True
        return reply

    def close(self) -> None:
        """Leaves. What a goodbye runs into changes nothing about the episode."""
        with suppress(Exception):
            self._socket.close()


def require_websockets(needed_by: str) -> None:
    """Raises VlaError, where the package websockets is missing, with what needs it and how to install it."""
    try:
        import websockets.sync.client
        import websockets.sync.server  # noqa: F401
    except ImportError as error:
        raise VlaError(
            f"{needed_by} needs the package websockets ({error}): pip install 'pytest-vla[remote]'"
        ) from error


def limit_sending(connection: "Connection", seconds: float) -> None:
    """Let a send fail where nobody takes the bytes; receiving has a limit of its own."""
    import socket

    timeout = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    with suppress(OSError, AttributeError):
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)


def _open(address: Address, timeout: float) -> tuple["ClientConnection", Mapping[Any, Any]]:
    """A connection, and its server's metadata."""
    from websockets.sync.client import connect

    key = os.environ.get(KEY, "").strip()

    def open_connection(left: Callable[[], float]) -> tuple["ClientConnection", Mapping[Any, Any]]:
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
            limit_sending(connection, timeout)
            return connection, _table(connection.recv(timeout=left()), address)
        except BaseException:
            connection.close()
            raise

    try:
        return _guarded(open_connection, address, timeout)
    except EpisodeError as error:
        if error.reason != "policy-timeout":
            raise
        raise EpisodeError("policy-connection", f"{error.message} to a new connection") from error


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


def _table(frame: str | bytes, address: Address) -> Mapping[Any, Any]:
    """The dict of a binary frame; a text frame is the server's traceback. Raises EpisodeError."""
    if isinstance(frame, str):
        lines = [line for line in frame.splitlines() if line.strip()] or ["(an empty text)"]
        raise EpisodeError("policy-raised", f"{address}: {lines[-1].strip()[:500]}") from ServerTraceback(
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
