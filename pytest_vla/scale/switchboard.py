"""Where workers on other hosts call the process that holds the session: one listening socket for all of them."""

import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable

from pytest_vla.serving.hello import Door, greet
from pytest_vla.serving.network import bound, tune

_LONGEST_NAME = 64
_NAME_SECONDS = 10.0

Answer = Callable[[str, socket.socket], None]
"""Called with who calls and the connection, in a thread of its own; the connection is whoever's it is given to."""


class Switchboard:
    """Listens, and hands each connection of one that knows the secret to `answer`.

    Attributes:
        port: where it listens.
        secret: what a caller has to know; of this object alone.
    """

    def __init__(self, host: str, answer: Answer) -> None:
        """Starts to listen.

        Args:
            host: address of this machine by which the others reach it.
            answer: takes the calls.

        Raises:
            OSError: it cannot listen there.
        """
        self.secret = secrets.token_bytes(32)
        self._answer, self._closing = answer, threading.Event()
        listener = bound(host, 0)
        self.port: int = listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._door = Door(self._selector, [listener], self.secret, (), self._admit)
        threading.Thread(target=self._run, name="vla-switchboard", daemon=True).start()

    def close(self) -> None:
        """Listens no more, within a second; what is connected stays."""
        self._closing.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            for key, _ in self._selector.select(1.0):
                key.data()
            self._door.look_at_clock(time.monotonic())
        self._door.close()
        self._selector.close()

    def _admit(self, connection: socket.socket) -> None:
        threading.Thread(target=self._receive, args=(connection,), name="vla-call", daemon=True).start()

    def _receive(self, connection: socket.socket) -> None:
        try:
            connection.settimeout(_NAME_SECONDS)
            (length,) = connection.recv(1) or b"\0"
            name = connection.recv(min(length, _LONGEST_NAME), socket.MSG_WAITALL).decode("ascii", "replace")
            connection.settimeout(None)
        except OSError:
            connection.close()
            return
        self._answer(name, connection)


def call(host: str, port: int, secret: bytes, name: str, seconds: float = 30.0) -> socket.socket:
    """Calls a switchboard.

    Args:
        host: where it listens.
        port: likewise.
        secret: what it knows.
        name: who calls, of ASCII letters, at most 64.
        seconds: for which each answer is waited for.

    Raises:
        OSError: it cannot be reached; WireError: it is another one.
    """
    said = name.encode("ascii")
    assert 0 < len(said) <= _LONGEST_NAME
    connection = socket.create_connection((host, port), seconds)
    try:
        tune(connection)
        greet(connection, secret)
        connection.sendall(bytes([len(said)]) + said)
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection
