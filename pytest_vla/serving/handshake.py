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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pytest_vla.errors import WireError
from pytest_vla.serving.wire import PROTOCOL, Inbox, framed, known_codecs, receive, send

# The policy's process over a network: its address, and connections that notice when a host is gone.
#
# Nothing is encrypted: pictures and actions are sent in the clear, but never the run's secret.

CONNECT_SECONDS = 10.0
"""Seconds after which an attempt to connect to a silent host fails."""

_IDLE, _PAUSE, _PROBES = (
    10,
    5,
    3,
)  # Seconds without traffic, seconds between probes, and their number: a gone host is detected in 25 s.
_UNHEARD = 25_000  # Milliseconds that sent data may stay unacknowledged.
_BIND_SECONDS, _AGAIN_SECONDS = 5.0, 0.1
_EVERYWHERE = ("0.0.0.0", "::", "")


@dataclass(frozen=True)
class NetworkAddress:
    """The address where a policy's process listens for workers on other hosts.

    Attributes:
        host: name or number.
        port: the TCP port.
        secret: the secret that workers authenticate with.
    """

    host: str
    port: int
    secret: bytes = field(repr=False)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def table(self) -> dict[str, Any]:
        """Return the address as texts and numbers, for another process; it contains the secret."""
        return {"host": self.host, "port": self.port, "secret": self.secret.hex()}

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "NetworkAddress":
        """Read the result of `table`."""
        return cls(table["host"], table["port"], bytes.fromhex(table["secret"]))


def reachable(host: str) -> str:
    """Return the name by which other hosts reach `host`: this machine's own name for a wildcard address."""
    return socket.gethostname() if host in _EVERYWHERE else host


def bound(host: str, port: int, patience: float = 0.0) -> socket.socket:
    """Return a TCP socket that is bound but does not listen yet: connections are refused until it does.

    Args:
        host: name or number of an address of this machine; ``0.0.0.0`` or ``::`` for all of them.
        port: the port, or 0 for a free one.
        patience: seconds for which a port in use is retried, since its process may be about to end.

    Raises:
        OSError: the address cannot be bound.
        UnicodeError: the host is not a name.
    """
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    end = time.monotonic() + patience
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        while True:
            try:
                listener.bind(address)
            except OSError as error:
                if error.errno != errno.EADDRINUSE or time.monotonic() > end:
                    raise
                time.sleep(_AGAIN_SECONDS)
            else:
                return listener
    except BaseException:
        listener.close()
        raise


def bound_again(host: str, port: int) -> socket.socket:
    """Return a bound socket as `bound`, if the previous process on the port may just have been killed."""
    return bound(host, port, _BIND_SECONDS)


def connect(address: NetworkAddress, timeout: float) -> socket.socket:
    """Connect to a policy's process, with a timeout in seconds for reads and writes. Raises OSError."""
    connection = socket.create_connection((address.host, address.port), min(timeout, CONNECT_SECONDS))
    tune(connection)
    connection.settimeout(timeout)
    return connection


def tune(connection: socket.socket) -> None:
    """Send small messages at once, and let the connection end within half a minute if the host is gone."""
    wanted = [
        (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", _IDLE),
        (socket.IPPROTO_TCP, "TCP_KEEPALIVE", _IDLE),  # macOS calls it so.
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", _PAUSE),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", _PROBES),
        (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", _UNHEARD),
    ]
    for level, name, value in wanted:
        # A system without an option only notices later.
        if hasattr(socket, name):
            with suppress(OSError):
                connection.setsockopt(level, getattr(socket, name), value)


def is_this_host(connection: socket.socket) -> bool:
    """Whether both ends of a TCP connection are on this machine."""
    with suppress(OSError):
        return bool(connection.getpeername()[0] == connection.getsockname()[0])
    return False


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
