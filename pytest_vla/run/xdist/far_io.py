"""A connection to a worker on another machine, as execnet wants one."""

import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any


class FarIO:
    """Reads and writes a socket.

    Args:
        connection: connected, blocking; belongs to this object.
        execmodel: execnet's.
        kill: ends what is at the other end.
    """

    def __init__(self, connection: socket.socket, execmodel: Any, kill: Callable[[], None]) -> None:
        self.execmodel, self.kill = execmodel, kill
        self._connection, self._stream = connection, connection.makefile("rb")

    def read(self, numbytes: int) -> bytes:
        """So many bytes. Raises EOFError: the other end is gone."""
        try:
            found = self._stream.read(numbytes)
        except (OSError, ValueError) as error:
            raise EOFError(f"the connection is broken: {error}") from error
        if len(found) < numbytes:
            raise EOFError(f"expected {numbytes} bytes, got {len(found)}")
        return found

    def write(self, data: bytes) -> None:
        """Sends all of it. Raises OSError."""
        self._connection.sendall(data)

    def close_read(self) -> None:
        """Nothing more is read."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RD)

    def close_write(self) -> None:
        """Nothing more is written."""
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)

    def wait(self) -> None:
        """Its process is waited for by who started it."""
