"""The handshake of a worker and a batch server: both prove that they know the run's secret, without sending it.

Each side sends a fresh random number, and answers the other's with an HMAC. Before that, the batch server reads at most
a few hundred bytes from any client, for a few seconds, and stores nothing else.
"""

import errno
import hmac
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pytest_vla.errors import WireError
from pytest_vla.serving.network import tune
from pytest_vla.serving.wire import PROTOCOL, Inbox, framed, known_codecs, receive, send

# The policy's process over a network: its address, and connections that notice when a host is gone.
#
# Nothing is encrypted: pictures and actions are sent in the clear, but never the run's secret.


LONGEST_HELLO = 512
"""The most bytes that a client may send before it has proved that it knows the secret."""

HELLO_SECONDS = 10.0
"""Seconds within which a client has to prove it."""

_LONGEST_ANSWER = 1 << 16
_MOST_GUESTS = 256
_NUMBER_BYTES = 32
_WORKER, _DESK = b"pytest-vla worker", b"pytest-vla desk"
_REFUSED = "another protocol, or not this run's secret"


@dataclass(frozen=True)
class Welcome:
    """The reply to a worker that is admitted.

    Attributes:
        reads: the observations that the policy needs.
        codecs: the codecs for pictures, in order of preference.
    """

    reads: tuple[str, ...]
    codecs: tuple[str, ...]


def greet(connection: socket.socket, secret: bytes) -> Welcome:
    """Perform the worker's side of the handshake.

    Args:
        connection: a new connection to a batch server.
        secret: the run's.

    Raises:
        WireError: the server refused this worker, or does not belong to this run.
        TimeoutError: the server does not answer.
    """
    hello, _ = receive(connection, longest=LONGEST_HELLO)
    theirs, ours = hello.get("number"), secrets.token_bytes(_NUMBER_BYTES)
    if hello.get("protocol") != PROTOCOL or not isinstance(theirs, bytes):
        raise WireError(f"it speaks protocol {hello.get('protocol')!r}, where this worker speaks {PROTOCOL}")
    send(connection, {"protocol": PROTOCOL, "number": ours, "proof": _proof(secret, _WORKER, theirs, ours)})
    answer, _ = receive(connection, longest=_LONGEST_ANSWER)
    if "refused" in answer:
        raise WireError(f"the policy's process refused this worker: {answer['refused']}")
    if not _is_proof(answer.get("proof"), _proof(secret, _DESK, theirs, ours)):
        raise WireError("what listens there does not know this run's secret")
    try:
        return Welcome(tuple(answer["reads"]), tuple(answer["codecs"]))
    except (KeyError, TypeError) as error:
        raise WireError(f"it does not say what it reads, and how: {error}") from error


@dataclass(eq=False)
class _Guest:
    """A client that has not yet proved that it knows the secret."""

    connection: socket.socket
    came: float
    number: bytes = field(default_factory=partial(secrets.token_bytes, _NUMBER_BYTES))
    inbox: Inbox = field(default_factory=partial(Inbox, longest=LONGEST_HELLO))
    read: int = 0


class Door:
    """The server's side of the handshake: accepts connections, and admits those that know the secret."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        listeners: Sequence[socket.socket],
        secret: bytes,
        reads: Sequence[str],
        admit: Callable[[socket.socket], None],
    ) -> None:
        """Start to listen.

        Args:
            selector: gets functions as its keys' data, which are to be called on events.
            listeners: bound stream sockets, Unix-domain or TCP.
            secret: the secret that workers authenticate with.
            reads: the observations that the policy needs, for the worker.
            admit: gets each admitted connection, which does not block, and which the caller closes.
        """
        self._selector, self._listeners, self._secret = selector, listeners, secret
        self._told, self._admit = {"reads": list(reads), "codecs": known_codecs()}, admit
        self._guests: dict[_Guest, None] = {}
        for listener in listeners:
            listener.setblocking(False)
            listener.listen(256)
            selector.register(listener, selectors.EVENT_READ, partial(self._accept, listener))

    def look_at_clock(self, now: float) -> None:
        """Disconnect clients that have been silent for too long."""
        for guest in [each for each in self._guests if now - each.came > HELLO_SECONDS]:
            self._send_away(guest)

    def close(self) -> None:
        """Disconnect all clients that are not admitted yet, and stop listening."""
        for guest in [*self._guests]:
            self._send_away(guest)
        for listener in self._listeners:
            listener.close()

    def _accept(self, listener: socket.socket) -> None:
        try:
            connection, _ = listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE) and self._guests:
                self._send_away(next(iter(self._guests)))
            return
        if len(self._guests) >= _MOST_GUESTS:
            self._send_away(next(iter(self._guests)))
        connection.setblocking(False)
        if listener.family != socket.AF_UNIX:
            tune(connection)
        guest = _Guest(connection, time.monotonic())
        self._guests[guest] = None
        self._selector.register(connection, selectors.EVENT_READ, partial(self._hear, guest))
        self._say(guest, {"protocol": PROTOCOL, "number": guest.number})

    def _hear(self, guest: _Guest) -> None:
        if guest not in self._guests:
            # The client was disconnected after this event was reported.
            return
        try:
            data = guest.connection.recv(LONGEST_HELLO + 1 - guest.read)
            guest.read += len(data)
            guest.inbox.add(data)
            for message, _ in guest.inbox.messages():
                self._judge(guest, message)
                return
            if not data or guest.read > LONGEST_HELLO:
                raise WireError("no hello")
        except BlockingIOError:
            pass
        except OSError:
            self._send_away(guest)
        except WireError:
            self._refuse(guest)

    def _judge(self, guest: _Guest, message: dict[str, Any]) -> None:
        ours = message.get("number")
        if message.get("protocol") != PROTOCOL or not isinstance(ours, bytes):
            raise WireError("another protocol")
        if not _is_proof(message.get("proof"), _proof(self._secret, _WORKER, guest.number, ours)):
            raise WireError("another secret")
        if not guest.inbox.is_empty:
            raise WireError("more than a hello")
        self._say(guest, {"proof": _proof(self._secret, _DESK, guest.number, ours), **self._told})
        del self._guests[guest]
        self._selector.unregister(guest.connection)
        self._admit(guest.connection)

    def _refuse(self, guest: _Guest) -> None:
        self._say(guest, {"refused": _REFUSED})
        self._send_away(guest)

    def _say(self, guest: _Guest, message: dict[str, Any]) -> None:
        # So few bytes fit into the buffer; a client that is gone is noticed at the next read.
        with suppress(OSError):
            guest.connection.send(framed(message))

    def _send_away(self, guest: _Guest) -> None:
        del self._guests[guest]
        self._selector.unregister(guest.connection)
        guest.connection.close()


def _proof(secret: bytes, side: bytes, desk: bytes, worker: bytes) -> bytes:
    """Return the proof of one side: it covers both numbers, so that it cannot be replayed or reflected."""
    return hmac.digest(secret, side + b"\0" + desk + b"\0" + worker, "sha256")


def _is_proof(said: object, expected: bytes) -> bool:
    return isinstance(said, bytes) and hmac.compare_digest(said, expected)
