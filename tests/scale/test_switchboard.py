"""Workers of other machines call, and are told apart by what they know."""

import queue
import socket
from contextlib import suppress

import pytest

from pytest_vla.errors import WireError
from pytest_vla.scale.ray_hosts import Switchboard, call


@pytest.fixture
def answered() -> "queue.SimpleQueue[tuple[str, socket.socket]]":
    return queue.SimpleQueue()


def test_a_caller_is_known_by_name_and_what_it_sends_arrives(
    answered: "queue.SimpleQueue[tuple[str, socket.socket]]",
) -> None:
    board = Switchboard("127.0.0.1", lambda name, connection: answered.put((name, connection)))
    callers = {f"gw{number}": call("127.0.0.1", board.port, board.secret, f"gw{number}") for number in range(5)}
    for name, caller in callers.items():
        caller.sendall(name.encode())
    for _ in range(5):
        name, connection = answered.get()
        with connection, callers.pop(name) as caller:
            caller.shutdown(socket.SHUT_WR)
            assert connection.makefile("rb").read() == name.encode()
    assert not callers
    board.close()


def test_whoever_does_not_know_the_secret_gets_nobody(
    answered: "queue.SimpleQueue[tuple[str, socket.socket]]",
) -> None:
    board = Switchboard("127.0.0.1", lambda name, connection: answered.put((name, connection)))
    with pytest.raises(WireError, match="refused"):
        call("127.0.0.1", board.port, b"x" * 32, "gw0")
    with socket.create_connection(("127.0.0.1", board.port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n" + b"x" * 10_000)
        # It is sent away, with a refusal at most.
        with suppress(ConnectionResetError):
            while stranger.recv(4096):
                pass
    with call("127.0.0.1", board.port, board.secret, "gw1"):
        assert answered.get()[0] == "gw1"
    assert answered.empty()
    board.close()


def test_nobody_listens_after_the_end() -> None:
    board = Switchboard("127.0.0.1", lambda name, connection: connection.close())
    board.close()
    while True:
        try:
            socket.create_connection(("127.0.0.1", board.port), 1.0).close()
        except OSError:
            break
