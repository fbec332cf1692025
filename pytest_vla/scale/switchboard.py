"""Where workers on other hosts call the process that holds the session: one listening socket for all of them."""

import secrets
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from pytest_vla.util.handshake import keep_alive, prove

_LONGEST_NAME = 64

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
        self._answer = answer
        self._listener = socket.create_server((host, 0), backlog=1024)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._run, name="vla-switchboard", daemon=True).start()

    def close(self) -> None:
        """Listens no more; what is connected stays."""
        # Wakes the thread that accepts, which closing alone does not.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._receive, args=(connection,), name="vla-call", daemon=True).start()

    def _receive(self, connection: socket.socket) -> None:
        try:
            prove(connection, self.secret, listens=True)
            keep_alive(connection)
            connection.settimeout(10.0)
            (length,) = connection.recv(1) or b"\0"
            name = connection.recv(min(length, _LONGEST_NAME), socket.MSG_WAITALL).decode("ascii", "replace")
            connection.settimeout(None)
        except (OSError, ValueError):
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
        seconds: for which it is tried.

    Raises:
        OSError: it cannot be reached, or is another one.
    """
    said = name.encode("ascii")
    assert 0 < len(said) <= _LONGEST_NAME
    connection = socket.create_connection((host, port), seconds)
    try:
        prove(connection, secret, listens=False)
        keep_alive(connection)
        connection.settimeout(None)
        connection.sendall(bytes([len(said)]) + said)
    except BaseException:
        connection.close()
        raise
    return connection
