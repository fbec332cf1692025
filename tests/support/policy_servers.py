"""Servers of GR00T (ZeroMQ) and X-VLA (HTTP) in threads, written from their sources' formats; starVLA's is openpi's."""

import io
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgpack
import numpy as np

from tests.support.openpi_server import Died

Answer = Callable[[dict[str, Any]], Any]


@dataclass
class Seen:
    """What a server saw.

    Attributes:
        port: on 127.0.0.1.
        requests: in order.
        connections: how many there were.
    """

    port: int = 0
    requests: list[dict[str, Any]] = field(default_factory=list)
    connections: int = 0

    @property
    def where(self) -> str:
        return f"127.0.0.1:{self.port}"


@dataclass(frozen=True)
class OnTheWire:
    """An answer that is sent as it is, without ZeroMQ's frames."""

    data: bytes


def npy(array: Any, **options: Any) -> dict[str, Any]:
    """An array as GR00T's servers send it."""
    file = io.BytesIO()
    np.save(file, array, **{"allow_pickle": False, **options})
    return {"__ndarray_class__": True, "as_npy": file.getvalue()}


def groot_encoded(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value, default=npy)
    return packed


def groot_decoded(data: bytes) -> Any:
    def array(table: dict[Any, Any]) -> Any:
        if "__ndarray_class__" not in table:
            return table
        return np.load(io.BytesIO(table["as_npy"]), allow_pickle=False)

    return msgpack.unpackb(data, object_hook=array)


GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL" + bytes(16) + b"\0" + bytes(31)
READY = b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03REP"


@contextmanager
def zeromq(answer: Answer, *, greeting: bytes = GREETING, ready: bytes = READY, port: int = 0) -> Iterator[Seen]:
    """A server of ZMTP 3.1's frames.

    Args:
        answer: returns a reply, which is encoded as GR00T does it, or sent as it is if it is bytes or `OnTheWire`. It
            raises `Died` to end the connection.
        greeting: sent first, 64 bytes of a sound server.
        ready: sent after the client's greeting.
        port: where it listens; 0: at a free one.
    """
    seen = Seen()
    listening = socket.create_server(("127.0.0.1", port))
    seen.port = listening.getsockname()[1]
    open_: list[socket.socket] = []

    def exactly(connection: socket.socket, size: int) -> bytes:
        data = connection.recv(size, socket.MSG_WAITALL)
        if len(data) < size:
            raise EOFError
        return data

    def talk(connection: socket.socket) -> None:
        with suppress(OSError, EOFError, Died), connection:
            connection.sendall(greeting)
            assert exactly(connection, 64)[:12] == b"\xff" + bytes(8) + b"\x7f\x03\0"
            connection.sendall(ready)
            parts: list[bytes] = []
            while True:
                flags = exactly(connection, 1)[0]
                parts.append(exactly(connection, int.from_bytes(exactly(connection, 8 if flags & 2 else 1))))
                if flags & 1:
                    continue
                command, *body = parts
                parts = []
                if flags & 4:
                    assert command == b"\x05READY\x0bSocket-Type\0\0\0\x03REQ"
                    continue
                assert (command, len(body)) == (b"", 1), "an envelope, and one part"
                seen.requests.append(groot_decoded(body[0]))
                reply = answer(seen.requests[-1])
                if isinstance(reply, OnTheWire):
                    connection.sendall(reply.data)
                    continue
                reply = reply if isinstance(reply, bytes) else groot_encoded(reply)
                connection.sendall(b"\x01\x00\x02" + len(reply).to_bytes(8, "big") + reply)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                seen.connections += 1
                open_.append(connection)
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        for each in (listening, *open_):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        thread.join()


@contextmanager
def libzmq(answer: Answer) -> Iterator[Seen]:
    """A server by pyzmq, as GR00T's own is."""
    import zmq

    seen, over = Seen(), threading.Event()
    served = zmq.Context.instance().socket(zmq.REP)
    served.linger = 0
    seen.port = served.bind_to_random_port("tcp://127.0.0.1")

    def serve() -> None:
        while not over.is_set():
            if served.poll(20):
                seen.requests.append(groot_decoded(served.recv()))
                served.send(groot_encoded(answer(seen.requests[-1])))

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()
        served.close()


@contextmanager
def http(answer: Answer, *, get: int = 405, port: int = 0) -> Iterator[Seen]:
    """A server with ``/act``, as X-VLA's is.

    Args:
        answer: returns a reply, or a status and a reply; bytes are sent as they are.
        get: the status of a GET; of a redirect it is one to another path of this server.
        port: where it listens; 0: at a free one.
    """
    seen = Seen()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            seen.connections += 1
            self.say(get, b"{}")

        def do_POST(self) -> None:
            assert self.path == "/act"
            assert self.headers["Content-Type"] == "application/json"
            seen.requests.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            try:
                told = answer(seen.requests[-1])
            except Died:
                return
            status, reply = told if isinstance(told, tuple) else (200, told)
            self.say(status, reply if isinstance(reply, bytes) else json.dumps(reply).encode())

        def say(self, status: int, body: bytes) -> None:
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    seen.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
