"""A policy server that speaks openpi's protocol as openpi's own does, in a thread; with an encoder of its own."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import msgpack
import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

Infer = Callable[[dict[str, Any]], Any]


class Died(Exception):
    """Raised by a policy: the server's process is gone, without a goodbye."""


@dataclass
class OpenpiServer:
    """What the server saw.

    Attributes:
        port: on 127.0.0.1.
        connections: of each connection, in the order in which they were made: its requests.
        headers: ``Authorization`` of each attempt to connect.
        closed: how many connections are over.
    """

    port: int = 0
    connections: list[list[dict[str, Any]]] = field(default_factory=list)
    headers: list[str | None] = field(default_factory=list)
    closed: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def requests(self) -> list[dict[str, Any]]:
        return [request for requests in self.connections for request in requests]


def encoded(value: Any) -> bytes:
    def array(value: Any) -> Any:
        return {
            b"__ndarray__": True,
            b"data": value.tobytes(),
            b"dtype": value.dtype.str,
            b"shape": value.shape,
        }

    return msgpack.packb(value, default=array)


def decoded(data: str | bytes) -> Any:
    def array(table: dict[Any, Any]) -> Any:
        if b"__ndarray__" not in table:
            return table
        return np.ndarray(buffer=table[b"data"], dtype=np.dtype(table[b"dtype"]), shape=table[b"shape"])

    assert isinstance(data, bytes), "a request is binary"
    return msgpack.unpackb(data, object_hook=array)


@contextmanager
def serving(infer: Infer, *, metadata: Any = None, key: str | None = None, port: int = 0) -> Iterator[OpenpiServer]:
    """A server that answers requests with `infer`.

    Args:
        infer: returns a reply: a dict; a text: sent as a text frame, as a traceback is; bytes: sent as they are. An
            exception ends the connection as openpi's server ends it, by a text frame; `Died` without one.
        metadata: sent first, in place of an empty dict; a text or bytes as they are.
        key: the key that is asked for.
        port: where it listens; 0: at a free one.
    """
    seen = OpenpiServer()

    def admit(connection: ServerConnection, request: Request) -> Response | None:
        header = request.headers.get("Authorization")
        with seen.lock:
            seen.headers.append(header)
        if key is not None and header != f"Api-Key {key}":
            return connection.respond(HTTPStatus.UNAUTHORIZED, "no\n")
        return None

    def talk(connection: ServerConnection) -> None:
        requests: list[dict[str, Any]] = []
        with seen.lock:
            seen.connections.append(requests)
        try:
            connection.send(metadata if isinstance(metadata, str | bytes) else encoded(metadata or {}))
            for frame in connection:
                requests.append(decoded(frame))
                try:
                    reply = infer(requests[-1])
                except Died:
                    connection.close_socket()
                    return
                except Exception as error:
                    connection.send(f"Traceback (most recent call last):\n  ...\n{type(error).__name__}: {error}\n")
                    connection.close(1011, "Internal server error. Traceback included in previous frame.")
                    return
                connection.send(reply if isinstance(reply, str | bytes) else encoded(reply))
        except ConnectionClosed:
            pass
        finally:
            with seen.lock:
                seen.closed += 1

    server: Server = serve(talk, "127.0.0.1", port, compression=None, max_size=None, process_request=admit)
    seen.port = server.socket.getsockname()[1]
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield seen
    finally:
        server.shutdown()
        thread.join()
