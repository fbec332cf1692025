"""The policy's process over a network: where it listens, and connections that notice when a host is gone.

Nothing is encrypted: what crosses is pictures and actions. The run's secret does not (`pytest_vla.serving.hello`).
"""

import errno
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

CONNECT_SECONDS = 10.0
"""After which a host that does not answer at all is given up."""

_IDLE, _PAUSE, _PROBES = 10, 5, 3  # Seconds without traffic, then between so many probes: a host is gone in 25 s.
_UNHEARD = 25_000  # Milliseconds for which what was sent may stay without an acknowledgement.
_BIND_SECONDS, _AGAIN_SECONDS = 5.0, 0.1
_EVERYWHERE = ("0.0.0.0", "::", "")


@dataclass(frozen=True)
class NetworkAddress:
    """Where a policy's process listens for workers of other hosts.

    Attributes:
        host: name or number.
        port: of TCP.
        secret: what a worker has to know.
    """

    host: str
    port: int
    secret: bytes = field(repr=False)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def table(self) -> dict[str, Any]:
        """Of texts and numbers, as it goes to another process; it has the secret."""
        return {"host": self.host, "port": self.port, "secret": self.secret.hex()}

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "NetworkAddress":
        """What `table` made a table of."""
        return cls(table["host"], table["port"], bytes.fromhex(table["secret"]))


def reachable(host: str) -> str:
    """The name by which others reach what listens on `host`: this machine's own, where that is all of its addresses."""
    return socket.gethostname() if host in _EVERYWHERE else host


def bound(host: str, port: int, patience: float = 0.0) -> socket.socket:
    """A TCP socket that is bound and does not listen yet: who connects is refused until it does.

    Args:
        host: name or number of an address of this machine; ``0.0.0.0`` and ``::``: all of them.
        port: 0: a free one.
        patience: seconds for which a port in use is tried again, as who had it may be about to go.

    Raises:
        OSError: it cannot be; UnicodeError: the host is no name.
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
    """As `bound`, where the process that had the port may just have been killed."""
    return bound(host, port, _BIND_SECONDS)


def connect(address: NetworkAddress, timeout: float) -> socket.socket:
    """A connection whose reads and writes may take so many seconds. Raises OSError."""
    connection = socket.create_connection((address.host, address.port), min(timeout, CONNECT_SECONDS))
    tune(connection)
    connection.settimeout(timeout)
    return connection


def tune(connection: socket.socket) -> None:
    """Small messages go at once, and a host that is gone without a word ends the connection within half a minute."""
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
        # What a system does not know only makes it slower to notice.
        if hasattr(socket, name):
            with suppress(OSError):
                connection.setsockopt(level, getattr(socket, name), value)


def is_this_host(connection: socket.socket) -> bool:
    """Whether both ends of a TCP connection are on this machine."""
    with suppress(OSError):
        return bool(connection.getpeername()[0] == connection.getsockname()[0])
    return False
