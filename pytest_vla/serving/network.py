"""The policy's process over a network: its address, and connections that notice when a host is gone."""

import errno
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

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
