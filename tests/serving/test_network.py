"""The policy's process over TCP: answers as by its own host's socket, and nothing for who is not of the run."""

import errno
import selectors
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError, VlaError, WireError
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.serving import handshake
from pytest_vla.serving.client import ServedPolicy
from pytest_vla.serving.handshake import HELLO_SECONDS, LONGEST_HELLO, Door, greet
from pytest_vla.serving.network import NetworkAddress, bound, connect, is_this_host, reachable
from pytest_vla.serving.process import PolicyAddress, PolicyProcess
from pytest_vla.serving.replicas import Replicas
from pytest_vla.serving.wire import PROTOCOL, Inbox, framed, receive, send
from tests.support.policy_processes import POLICIES, episode, run, seen, start
from tests.support.waiting import HANG, RUN_OUT, until

HERE = "127.0.0.1"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PolicyProcess]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "served_policies.py").write_text(POLICIES)
    (folder / "run_out.py").write_text(RUN_OUT)
    process = start("served_policies:counting", folder, 8, listen=HERE)
    yield process
    process.close()


# Its address outlives each test here.
@pytest.fixture(autouse=True)
def addresses() -> None: ...


def network_of(process: PolicyProcess) -> NetworkAddress:
    assert process.network is not None
    return process.network


def test_answers_are_what_they_are_on_the_same_host(served: PolicyProcess) -> None:
    near = run(ServedPolicy(served.address, HANG), 1, 5)
    assert np.array_equal(run(ServedPolicy(network_of(served), HANG), 1, 5), near)
    assert near[:, 0, 0].tolist() == [1, 2, 3, 4, 5]


def test_of_two_addresses_the_one_is_taken_that_can_be_reached(served: PolicyProcess, tmp_path: Path) -> None:
    far = network_of(served)
    elsewhere = PolicyAddress(tmp_path / "of another host", served.address.secret)
    for places, near in (((served.address, far), True), ((elsewhere, far), False)):
        policy = ServedPolicy(places, HANG)
        assert run(policy, 1, 2)[:, 0, 0].tolist() == [1, 2]
        assert policy._is_near is near


def test_an_address_crosses_and_keeps_its_secret_to_itself(served: PolicyProcess) -> None:
    far = network_of(served)
    assert NetworkAddress.of(far.table()) == far
    assert far.secret.hex() not in repr(far)
    assert repr(far.secret) not in repr(far)
    assert str(far) == f"{HERE}:{far.port}"
    assert str(NetworkAddress("::1", 5, b"")) == "[::1]:5"
    assert [reachable(host) for host in (HERE, "0.0.0.0")] == [HERE, socket.gethostname()]


def test_a_worker_without_the_secret_is_refused_by_name(served: PolicyProcess) -> None:
    far = network_of(served)
    wrong = NetworkAddress(far.host, far.port, b"guess")
    with pytest.raises(
        EpisodeError, match=rf"reached at {far}: .*refused this worker: .*not this run's secret"
    ) as error:
        ServedPolicy(wrong, HANG)(episode(0))
    assert error.value.reason == "policy-server-died"
    with pytest.raises(VlaError, match=r"did not come back within 0 s: .*not this run's secret"):
        ServedPolicy(wrong, HANG, patience=0.0).recover("policy-server-died")


class Between:
    """Passes on what a worker and a desk say to each other, and keeps it."""

    def __init__(self, to: NetworkAddress) -> None:
        self.heard = bytearray()
        self._listener = bound(HERE, 0)
        self._listener.listen()
        self.address = NetworkAddress(HERE, self._listener.getsockname()[1], to.secret)
        threading.Thread(target=self._run, args=(to,), daemon=True).start()

    def _run(self, to: NetworkAddress) -> None:
        with self._listener, self._listener.accept()[0] as worker, connect(to, HANG) as desk:
            ways = [threading.Thread(target=self._pass, args=each) for each in ((worker, desk), (desk, worker))]
            for way in ways:
                way.start()
            for way in ways:
                way.join()

    def _pass(self, source: socket.socket, target: socket.socket) -> None:
        while data := source.recv(1 << 16):
            self.heard += data
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def test_the_secret_does_not_cross_and_what_crossed_is_of_no_use_again(served: PolicyProcess) -> None:
    far = network_of(served)
    between = Between(far)
    policy = ServedPolicy(between.address, HANG)
    assert run(policy, 1, 2)[:, 0, 0].tolist() == [1, 2]
    policy.close()
    heard = bytes(between.heard)
    assert b"do it" in heard
    assert far.secret not in heard
    inbox = Inbox()
    inbox.add(heard[heard.index(framed({})[:2]) :])
    proofs = [message for message, _ in inbox.messages() if {"proof", "number"} <= set(message)]
    assert len(proofs) == 1
    with connect(far, HANG) as connection:
        receive(connection)
        send(connection, proofs[0])
        assert "not this run's secret" in receive(connection)[0]["refused"]


def test_a_stranger_who_listens_there_is_told_apart() -> None:
    def pretend() -> None:
        with listener, listener.accept()[0] as connection:
            send(connection, {"protocol": PROTOCOL, "number": b"1" * 32})
            # It gives the worker's own proof back.
            send(connection, {"proof": receive(connection)[0]["proof"], "reads": []})

    listener = bound(HERE, 0)
    listener.listen()
    address = NetworkAddress(HERE, listener.getsockname()[1], b"secret")
    threading.Thread(target=pretend, daemon=True).start()
    with pytest.raises(EpisodeError, match="what listens there does not know this run's secret"):
        ServedPolicy(address, HANG)(episode(0))


def test_a_desk_of_another_version_is_told_apart() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send(theirs, {"protocol": 99, "number": b"1" * 32})
        with pytest.raises(WireError, match=f"it speaks protocol 99, where this worker speaks {PROTOCOL}"):
            greet(ours, b"secret")


@pytest.mark.parametrize(
    "said",
    [
        struct.pack(">I", 64 * 1024 * 1024),
        struct.pack(">I", LONGEST_HELLO + 1) + bytes(100),
        struct.pack(">I", LONGEST_HELLO) + bytes(LONGEST_HELLO + 100),
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        framed({"do": "begin"}),
        framed({"protocol": PROTOCOL, "number": b"1" * 32, "proof": "no bytes"}),
        framed({"protocol": PROTOCOL, "number": 5, "proof": b"x" * 32}),
        framed(b"\xc1"),
    ],
)
def test_what_is_no_hello_is_refused(served: PolicyProcess, said: bytes) -> None:
    with connect(network_of(served), HANG) as connection:
        receive(connection)
        connection.sendall(said)
        assert set(receive(connection)[0]) == {"refused"}
        with pytest.raises(WireError):
            receive(connection)
    assert run(ServedPolicy(network_of(served), HANG), 1, 1)[0, 0, 0] == 1


def test_a_hello_has_nothing_behind_it(served: PolicyProcess) -> None:
    far = network_of(served)
    with connect(far, HANG) as connection:
        theirs = receive(connection)[0]["number"]
        proof = handshake._proof(far.secret, handshake._WORKER, theirs, b"mine")
        said = framed({"protocol": PROTOCOL, "number": b"mine", "proof": proof})
        connection.sendall(said + framed({"do": "harm"}))
        assert set(receive(connection)[0]) == {"refused"}


@pytest.fixture
def door() -> Iterator[tuple[Door, NetworkAddress, list[socket.socket], selectors.BaseSelector]]:
    admitted: list[socket.socket] = []
    listener = bound(HERE, 0)
    with selectors.DefaultSelector() as selector:
        door = Door(selector, [listener], b"secret", ["state"], admitted.append)
        yield door, NetworkAddress(HERE, listener.getsockname()[1], b"secret"), admitted, selector
        door.close()
    for connection in admitted:
        connection.close()


def tended(selector: selectors.BaseSelector) -> None:
    for key, _ in selector.select(0.01):
        key.data()


def test_who_says_nothing_is_sent_away(door: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    door, address, admitted, selector = door
    monkeypatch.setattr(handshake, "_MOST_GUESTS", 3)
    silent = [connect(address, HANG) for _ in range(5)]
    # The first to come have to go where there are too many.
    until(lambda: tended(selector) or gone(silent[1]))  # type: ignore[func-returns-value]
    door.look_at_clock(time.monotonic() + HELLO_SECONDS - 5)
    assert len(door._guests) == 3
    door.look_at_clock(time.monotonic() + HELLO_SECONDS + 1)
    assert not door._guests
    assert not admitted
    assert len(selector.get_map()) == 1
    for connection in silent:
        until(lambda connection=connection: gone(connection))  # type: ignore[misc]
        connection.close()


def gone(connection: socket.socket) -> bool:
    connection.settimeout(0.01)
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def test_who_is_let_in_has_shown_that_he_knows(door: Any) -> None:
    door, address, admitted, selector = door
    reads: list[Any] = []

    def ask() -> None:
        with connect(address, HANG) as connection:
            reads.append(greet(connection, b"secret").reads)

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: tended(selector) or admitted)  # type: ignore[func-returns-value]
    thread.join(HANG)
    assert reads == [("state",)]
    assert not door._guests


def test_a_host_that_is_gone_is_no_slow_answer() -> None:
    class Gone:
        def recv(self, count: int) -> bytes:
            raise OSError(errno.ETIMEDOUT, "Connection timed out")

        sendall = recv

    with pytest.raises(WireError, match="Connection timed out"):
        receive(Gone())  # type: ignore[arg-type]
    with pytest.raises(WireError, match="Connection timed out"):
        send(Gone(), {})  # type: ignore[arg-type]


def test_connections_notice_that_a_host_is_gone(served: PolicyProcess) -> None:
    with connect(network_of(served), HANG) as connection:
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 25_000
        assert is_this_host(connection)


def test_where_another_process_took_its_place_it_is_asked(folder: Path) -> None:
    places: list[Any] = [()]
    first = start("served_policies:counting", folder, 8, listen=HERE)
    policy = ServedPolicy(network_of(first), HANG, where=lambda: places[0])
    session = policy(episode(1, "die"))
    with pytest.raises(EpisodeError, match="is gone") as error:
        session(seen(0))
    first.close()
    with pytest.raises(EpisodeError, match="it listens nowhere yet"):
        policy(episode(1))
    second = start("served_policies:counting", folder, 8, listen=HERE)
    waiting = threading.Thread(target=lambda: policy.recover(error.value.reason))
    waiting.start()
    places[0] = network_of(second)
    waiting.join(HANG)
    assert run(policy, 1, 2)[:, 0, 0].tolist() == [1, 2]
    policy.close()
    second.close()


def test_one_that_is_lost_for_good_is_not_waited_for(tmp_path: Path) -> None:
    def lost() -> Any:
        raise VlaError("it died twice")

    policy = ServedPolicy((), HANG, where=lost)
    for _ in range(2):
        with pytest.raises(EpisodeError) as error:
            policy(episode(0))
        assert error.value.reason == "policy-server-died"
    assert "it died twice" in error.value.message
    with pytest.raises(VlaError, match="it died twice"):
        policy.recover("policy-server-died")


def test_one_that_is_started_again_listens_at_the_same_port(folder: Path, tmp_path: Path) -> None:
    model = ModelSpec("served_policies:counting", folder, timeout=HANG)
    replicas = Replicas(model, ["cpu"], 8, log=tmp_path / "log", listen=HERE)
    try:
        policy = ServedPolicy(replicas.network[0], HANG)
        with pytest.raises(EpisodeError) as error:
            policy(episode(1, "die"))(seen(0))
        assert policy.recover(error.value.reason)
        assert run(policy, 1, 2)[:, 0, 0].tolist() == [1, 2]
        assert replicas.lost(0) is None
        with pytest.raises(EpisodeError):
            policy(episode(1, "die"))(seen(0))
        until(lambda: replicas.lost(0))
        assert "for the second time" in (replicas.lost(0) or "")
    finally:
        replicas.close()


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host at all"])
def test_an_address_that_is_not_this_machines_is_named(folder: Path, host: str) -> None:
    with pytest.raises(VlaError, match=rf"cannot listen at {host}, port any: .*use an address of this machine"):
        start("served_policies:counting", folder, 8, listen=host)


def test_a_port_that_is_taken_is_waited_for_a_while() -> None:
    with bound(HERE, 0) as listener:
        listener.listen()
        with pytest.raises(OSError, match="in use"):
            bound(HERE, listener.getsockname()[1], patience=0.2)
