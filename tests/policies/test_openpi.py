"""The client of openpi's protocol, against a server of that protocol in a thread."""

import dataclasses
import hashlib
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.http11 import Request
from websockets.server import ServerProtocol

from pytest_vla.episode.result import Rollout
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies import openpi, openpi_connection, servers
from pytest_vla.policies import openpi_connection as openpi_protocol
from pytest_vla.policies.base import Episode
from pytest_vla.policies.openpi_connection import FIRST_ANSWER, KEY, AnswerLimit, parse_address
from pytest_vla.policies.policy_servers import check_server, server_policies
from pytest_vla.policies.view import policy_view, resize_with_padding
from pytest_vla.records.counting import SAID
from pytest_vla.testing import World
from tests.support.openpi_server import Died, OpenpiServer, encoded, serving
from tests.support.waiting import HANG, until

CHUNK = np.tile(np.array([0.1, 0, 0, 0, 0, 0, -1], dtype=np.float32), (10, 1))
EPISODE = Episode("libero_goal/a[seed0]", "libero_goal", "a", "do it", 0, np.random.default_rng(0))
TASK = load_suite("libero_goal").task("turn_on_the_stove")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.delenv(KEY, raising=False)


def chunks(request: dict[str, Any]) -> Any:
    return {"actions": CHUNK, "server_timing": {"infer_ms": 1.0}}


def an_observation(height: int = 256, width: int = 256) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    names = ("agentview_image", "robot0_eye_in_hand_image")
    pictures = {name: rng.integers(0, 256, (height, width, 3), dtype=np.uint8) for name in names}
    return {**pictures, "state": np.arange(8.0)}


def run(server: OpenpiServer | str, max_steps: int = 20, limit: float = HANG, **conditions: Any) -> Rollout:
    where = server if isinstance(server, str) else f"127.0.0.1:{server.port}"
    task = dataclasses.replace(TASK, protocol=dataclasses.replace(TASK.protocol, max_steps=max_steps))
    case = Case("libero_goal", "turn_on_the_stove", 0)
    return run_episode(
        case, task, server_policies("openpi", where, limit), World, Conditions(f"openpi:{where}", **conditions)
    )


def a_closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


@contextmanager
def a_silent_server() -> Iterator[int]:
    """Takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_request_is_what_openpis_libero_client_sends() -> None:
    observation = an_observation()
    with serving(chunks) as server:
        session = server_policies("openpi", f"127.0.0.1:{server.port}")(EPISODE)
        actions = session(observation)
        session.close()  # type: ignore[attr-defined]
    assert np.array_equal(actions, CHUNK)
    (request,) = server.requests
    assert set(request) == {"observation/image", "observation/wrist_image", "observation/state", "prompt"}
    assert request["prompt"] == "do it"
    assert request["observation/state"].dtype == np.float64
    assert request["observation/state"].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    for sent, name in (("image", "agentview_image"), ("wrist_image", "robot0_eye_in_hand_image")):
        picture = request[f"observation/{sent}"]
        assert (picture.dtype, picture.shape) == (np.uint8, (224, 224, 3))
        assert np.array_equal(picture, resize_with_padding(observation[name], 224, 224))


def test_pictures_are_mujocos_raw_ones_turned_by_180_degrees() -> None:
    """What openpi's client does: resize_with_pad(raw[::-1, ::-1], 224, 224)."""
    raw = an_observation()
    # A world's pictures are upright, which is the raw ones with their rows turned around.
    upright = {name: value[::-1] if value.ndim == 3 else value for name, value in raw.items()}
    seen = policy_view(upright, TASK.protocol)
    sent = openpi.libero_request(seen, "do it")
    for name, picture in (("image", raw["agentview_image"]), ("wrist_image", raw["robot0_eye_in_hand_image"])):
        turned = np.ascontiguousarray(picture[::-1, ::-1])
        assert np.array_equal(sent[f"observation/{name}"], resize_with_padding(turned, 224, 224))
        assert not np.array_equal(sent[f"observation/{name}"], resize_with_padding(picture[::-1].copy(), 224, 224))


# sha256 of what openpi-client 0.1.2's image_tools.resize_with_pad makes of them, with Pillow 13.0.
@pytest.mark.parametrize(
    ("shape", "digest"),
    [
        ((256, 256), "a1ce26690e92ac09dd38ae95c9c313a7567f982806895cbec30b153b53c91a91"),
        ((360, 480), "4b837d2e2d53409a07dba1a45be9056892bd5f2b74ff9d576d55bcab765057a0"),
        ((480, 360), "4091541c0c4b2b39c79204fc17243de25372ad118a88b054653d43f6eb584c93"),
        ((128, 128), "768d09c9c466804d3584747c1ef7a6c6cc0a4d021abc49309e1d62484c84572f"),
        ((224, 224), "5e35972ee234348f2cacbee1512b27f07f62ff5cde3dd5f470a924fd6dc70b58"),
    ],
)
def test_resizing_is_bit_for_bit_openpis(shape: tuple[int, int], digest: str) -> None:
    picture = np.random.Generator(np.random.PCG64(0)).integers(0, 256, (*shape, 3), dtype=np.uint8)
    resized = resize_with_padding(picture, 224, 224)
    assert hashlib.sha256(resized.tobytes()).hexdigest() == digest


@given(st.integers(8, 300), st.integers(8, 300))
def test_resizing_keeps_the_aspect_and_pads_with_black(height: int, width: int) -> None:
    padded = resize_with_padding(np.full((height, width, 3), 255, dtype=np.uint8), 64, 64)
    rows, columns = padded.any(axis=(1, 2)).sum(), padded.any(axis=(0, 2)).sum()
    assert max(rows, columns) == 64
    assert abs(rows / columns - height / width) <= (height / width) / min(rows, columns)
    assert set(np.unique(padded)) <= {0, 255}


@pytest.mark.parametrize(("typed", "asked", "recorded"), [(None, 4, 5), (2, 10, 2), (8, 3, 8), (99, 2, 99)])
def test_five_steps_of_a_chunk_are_executed_unless_another_number_is_given(
    typed: int | None, asked: int, recorded: int
) -> None:
    with serving(chunks) as server:
        ended = run(server, replan=typed)
    assert (ended.record.outcome, ended.steps, ended.record.replan) == ("failure", 20, recorded)
    assert len(server.requests) == asked
    assert np.array_equal(ended.trajectory.actions, np.tile(CHUNK, (2, 1)))


def test_an_episode_has_a_connection_of_its_own_that_ends_with_it() -> None:
    with serving(chunks) as server:
        for _ in range(3):
            assert run(server).record.outcome == "failure"
        until(lambda: server.closed == 6)
        assert threading.active_count() < 10
    # Before its first episode each policy asks who serves.
    assert [len(requests) for requests in server.connections] == [0, 4, 0, 4, 0, 4]
    assert {request["prompt"] for request in server.requests} == {"turn on the stove"}


def test_the_servers_traceback_is_an_error_with_its_text() -> None:
    def infer(request: dict[str, Any]) -> Any:
        raise RuntimeError("CUDA out of memory")

    with serving(infer) as server:
        ended = run(server)
    assert (ended.record.outcome, ended.record.reason) == ("error", "policy-raised")
    assert ended.record.message == f"ws://127.0.0.1:{server.port}: RuntimeError: CUDA out of memory"
    assert "Traceback (most recent call last):\n  ...\nRuntimeError: CUDA out of memory" in ended.details


def test_a_server_that_dies_within_an_episode_is_an_error_and_the_next_episode_is_not() -> None:
    asked = iter([None, Died, None])

    def infer(request: dict[str, Any]) -> Any:
        if next(asked, None) is Died:
            raise Died
        return chunks(request)

    with serving(infer) as server:
        broken, whole = run(server), run(server)
    assert (broken.record.outcome, broken.record.reason, broken.steps) == ("error", "policy-connection", 5)
    assert f"ws://127.0.0.1:{server.port} ended the connection" in str(broken.record.message)
    assert (whole.record.outcome, whole.steps) == ("failure", 20)


@pytest.mark.parametrize(
    ("reply", "reason", "message"),
    [
        ({"actions": np.zeros((10, 8))}, "policy-shape", "(10, 8)"),
        ({"actions": np.zeros((1, 10, 7))}, "policy-shape", "(1, 10, 7)"),
        ({"actions": np.zeros((0, 7))}, "policy-shape", "(0, 7)"),
        ({"actions": np.full((1, 7), np.nan)}, "policy-nan", "nan"),
        ({"actions": "none"}, "policy-dtype", "numbers"),
        ({"action": np.zeros(7), "state": 1}, "policy-protocol", "without actions; the reply has action, state"),
        ([1, 2], "policy-protocol", "sent list, and not a dict"),
        (b"\xc1", "policy-protocol", "1 bytes that are no reply"),
        (encoded({"actions": {b"__ndarray__": True, b"dtype": "|O"}}), "policy-protocol", "not of dtype '|O'"),
        ("", "policy-raised", "(an empty text)"),
        (bytes(openpi_connection.MAX_REPLY + 1), "policy-connection", "ended the connection"),
    ],
)
def test_a_reply_that_is_none_is_an_error_that_says_what_it_is(reply: Any, reason: str, message: str) -> None:
    with serving(lambda request: reply) as server:
        ended = run(server)
    assert (ended.record.outcome, ended.record.reason) == ("error", reason), ended.record.message
    assert message in str(ended.record.message)


@pytest.fixture
def connects_at_leisure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits are those of questions alone."""
    connecting = openpi_connection.open_connection

    def connect(address: Any, timeout: float, greet: Any) -> Any:
        connection, metadata = connecting(address, HANG, greet)
        openpi_connection.limit_sending(connection, timeout)
        return connection, metadata

    monkeypatch.setattr(openpi_connection, "open_connection", connect)


def test_a_slow_reply_is_waited_for() -> None:
    def infer(request: dict[str, Any]) -> Any:
        time.sleep(0.3)
        return chunks(request)

    with serving(infer) as server:
        ended = run(server)
    assert (ended.record.outcome, ended.steps) == ("failure", 20)


@pytest.mark.usefixtures("connects_at_leisure")
def test_a_slow_reply_is_waited_for_up_to_the_limit() -> None:
    released = threading.Event()

    def infer(request: dict[str, Any]) -> Any:
        released.wait(HANG)
        return chunks(request)

    with serving(infer) as server:
        ended = run(server, limit=0.03)
        released.set()
    assert (ended.record.outcome, ended.record.reason, ended.steps) == ("error", "policy-timeout", 0)
    told = f"ws://127.0.0.1:{server.port} gave no answer within {0.03 * FIRST_ANSWER:g} s "
    assert str(ended.record.message).startswith(told)
    assert "--vla-policy-timeout" in str(ended.record.message)


def test_a_first_answer_may_take_longer_and_so_may_that_of_a_server_that_was_restarted() -> None:
    limit, address = AnswerLimit(7.0), parse_address("openpi", "127.0.0.1:1", 8000)

    def left() -> float:
        return limit.asked(lambda left: left(), address)

    assert [round(left()), round(left()), round(left())] == [7 * FIRST_ANSWER, 7, 7]
    limit.renew()

    def late(_: object) -> float:
        raise TimeoutError

    with pytest.raises(EpisodeError, match=r"gave no answer within 70 s .*--vla-policy-timeout"):
        limit.asked(late, address)
    # It has still not answered.
    assert [round(left()), round(left())] == [7 * FIRST_ANSWER, 7]
    with pytest.raises(EpisodeError, match=r"gave no answer within 7 s \(--vla-policy-timeout\)"):
        limit.asked(late, address)


@pytest.mark.usefixtures("connects_at_leisure")
def test_a_server_that_takes_no_bytes_is_given_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the network goes away: a send would wait for as long as the system tries."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    released = threading.Event()

    def greet(last: bool) -> None:
        connection, _ = listener.accept()
        with connection:
            protocol = ServerProtocol()
            protocol.receive_data(connection.recv(4096))
            (request,) = protocol.events_received()
            assert isinstance(request, Request)
            protocol.send_response(protocol.accept(request))
            protocol.send_binary(encoded({}))
            connection.sendall(b"".join(protocol.data_to_send()))
            if last:
                released.wait(HANG)

    # Before its first episode the policy asks who serves.
    thread = threading.Thread(target=lambda: [greet(last) for last in (False, True)])
    thread.start()
    # More than the system's buffers take.
    monkeypatch.setattr(openpi, "IMAGE_SIZE", 2000)
    with listener:
        ended = run(f"127.0.0.1:{listener.getsockname()[1]}", limit=0.2)
        released.set()
        thread.join()
    assert (ended.record.outcome, ended.record.reason) == ("error", "policy-timeout"), ended.record.message


def test_the_wall_limit_of_an_episode_stops_the_waiting() -> None:
    released = threading.Event()

    def infer(request: dict[str, Any]) -> Any:
        released.wait(HANG)
        return chunks(request)

    with serving(infer) as server:
        ended = run(server, timeout=0.5)
        released.set()
    assert (ended.record.outcome, ended.record.reason) == ("error", "timeout")


def test_the_key_of_the_environment_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(chunks, key="s3cret") as server:
        where = f"127.0.0.1:{server.port}"
        with pytest.raises(
            VlaError, match=r"refuses a connection without a key; .* PYTEST_VLA_POLICY_KEY \(HTTP 401\)"
        ):
            check_server("openpi", where)
        monkeypatch.setenv(KEY, "wrong")
        ended = run(server)
        assert ended.record.reason == "policy-connection"
        assert "refuses the key in the environment variable PYTEST_VLA_POLICY_KEY" in str(ended.record.message)
        monkeypatch.setenv(KEY, "s3cret\n")
        check_server("openpi", where)
        ended = run(server)
    assert ended.record.outcome == "failure"
    assert server.headers == [None, "Api-Key wrong", *["Api-Key s3cret"] * 3]
    assert "s3cret" not in repr(ended.record)


def test_a_server_that_is_not_there_is_refused_before_the_first_episode() -> None:
    port = a_closed_port()
    with pytest.raises(VlaError) as refused:
        check_server("openpi", f"127.0.0.1:{port}")
    assert not isinstance(refused.value, EpisodeError)
    assert str(refused.value) == (
        f"--vla-model=openpi:127.0.0.1:{port}: nothing listens at ws://127.0.0.1:{port}. Expected an openpi "
        "policy server (openpi's scripts/serve_policy.py, `pytest-vla serve`, or another server of its protocol) "
        "there. Start it first, and check host and port"
    )
    ended = run(f"127.0.0.1:{port}")
    assert (ended.record.outcome, ended.record.reason) == ("error", "policy-connection")


def test_a_server_that_says_nothing_is_refused_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "CHECK_TIMEOUT", 0.3)
    with a_silent_server() as port, pytest.raises(VlaError, match=r"gave no answer within 0\.3 s to a new connection"):
        check_server("openpi", f"127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("metadata", "complaint"),
    [
        ("Traceback ...\nValueError: no checkpoint", "ValueError: no checkpoint"),
        (b"\xc1", "are no reply"),
        (encoded([1]), "sent list, and not a dict"),
    ],
)
def test_a_server_without_metadata_is_refused(metadata: str | bytes, complaint: str) -> None:
    with (
        serving(chunks, metadata=metadata) as server,
        pytest.raises(VlaError, match=rf"^--vla-model=openpi:127.*{complaint}"),
    ):
        check_server("openpi", f"127.0.0.1:{server.port}")


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        ({"protocol": 2}, "speaks version 2 of pytest-vla's protocol, and this is version 1: install the same"),
        (
            {"protocol": 1, "reads": None, "replan": 0, "digest": None, "traits": {}},
            "replan is 0, and no number of steps",
        ),
        ({"protocol": 1, "reads": None, "traits": {"gripper": "shut"}}, "a policy's traits: gripper is 'shut'"),
    ],
)
def test_a_server_of_ours_that_cannot_be_understood_is_refused(table: Any, complaint: str) -> None:
    with serving(chunks, metadata={openpi_protocol.OURS: table}) as server:
        with pytest.raises(VlaError, match=complaint):
            check_server("openpi", f"127.0.0.1:{server.port}")
        ended = run(server)
    assert (ended.record.outcome, ended.record.reason, ended.steps) == ("error", "policy-protocol", 0)


@pytest.mark.parametrize(
    ("reply", "reason", "message"),
    [
        ({"actions": np.zeros((2, 8))}, "policy-shape", "(2, 8)"),
        ({"actions": np.zeros((2, 7)), "samples": np.zeros((1, 3, 7))}, "policy-shape", "samples of a chunk (2, 7)"),
        ({}, "policy-protocol", "without actions; the reply has nothing"),
        ({"reason": "policy-nan", "message": "action 0 is bad"}, "policy-nan", "action 0 is bad"),
    ],
)
def test_what_a_server_of_ours_replies_is_not_trusted_either(reply: Any, reason: str, message: str) -> None:
    metadata = openpi_protocol.ServerInfo(("state",)).metadata()
    with serving(lambda request: {} if request["pytest_vla"] != "act" else reply, metadata=metadata) as server:
        ended = run(server)
    assert (ended.record.outcome, ended.record.reason) == ("error", reason), ended.record.message
    assert message in str(ended.record.message)
    assert [request["pytest_vla"] for request in server.requests] == ["begin", "act", "end"]


def test_metadata_may_hold_arrays() -> None:
    with serving(chunks, metadata={"reset_pose": np.zeros(7), "name": np.array(["pi0"])}) as server:
        check_server("openpi", f"127.0.0.1:{server.port}")
        until(lambda: server.closed == 1)
    assert server.connections == [[]]


def test_another_kind_of_server_is_refused_with_what_it_says() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    thread = threading.Thread(target=answer)
    thread.start()
    with listener, pytest.raises(VlaError, match=r"is no websocket server \(HTTP 404\)"):
        check_server("openpi", f"127.0.0.1:{listener.getsockname()[1]}")
    thread.join()


@contextmanager
def answering(text: str) -> Iterator[int]:
    """Answers each connection's request with `text`, as a web server or a proxy does; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(HANG)

        def answer() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection:
                        if not connection.recv(4096):
                            return
                        connection.sendall(text.encode())

        thread = threading.Thread(target=answer)
        thread.start()
        port = listener.getsockname()[1]
        try:
            yield port
        finally:
            socket.create_connection(("127.0.0.1", port)).close()
            thread.join()


def test_a_redirect_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server than the one that the user named would get the key, and answer."""
    monkeypatch.setenv(KEY, "s3cret")
    with serving(chunks) as other:
        to = f"HTTP/1.1 302 Found\r\nLocation: ws://127.0.0.1:{other.port}/\r\nContent-Length: 0\r\n\r\n"
        for kind in ("openpi", "vla-eval"):
            with answering(to) as port, pytest.raises(EpisodeError) as error:
                server_policies(kind, f"127.0.0.1:{port}").reach()  # type: ignore[attr-defined]
            assert error.value.reason == "policy-connection"
            assert f"redirects to ws://127.0.0.1:{other.port}/ (HTTP 302)" in error.value.message
    assert other.headers == []


def test_a_proxy_of_the_environment_is_for_other_machines_and_named_if_it_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("no_proxy")
    with answering("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n") as port, serving(chunks) as server:
        monkeypatch.setenv("http_proxy", f"http://user:s3cret@127.0.0.1:{port}")
        for host in ("127.0.0.1", "localhost"):
            check_server("openpi", f"{host}:{server.port}")
        with pytest.raises(EpisodeError) as error:
            server_policies("openpi", "gpu.invalid:8000").reach()
        assert (
            f"no connection to ws://gpu.invalid:8000 through the proxy http://127.0.0.1:{port} " in error.value.message
        )
        assert "s3cret" not in error.value.message
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{a_closed_port()}")
        with pytest.raises(
            EpisodeError, match=r"nothing listens at the proxy http://127\.0\.0\.1:\d+ .*, on the way to"
        ):
            server_policies("openpi", "gpu.invalid:8000").reach()


def test_a_digest_is_that_of_the_metadata_where_the_server_knows_no_other() -> None:
    digests = []
    for metadata in (
        {"checkpoint": "a", "reset": np.zeros(2)},
        {"reset": np.zeros(2), "checkpoint": "a"},
        {"checkpoint": "b"},
        {},
    ):
        with serving(chunks, metadata=metadata) as server:
            digests.append(server_policies("openpi", f"127.0.0.1:{server.port}").digest)
    assert digests[0] == digests[1] != digests[2]
    assert all(str(digest).endswith(SAID) for digest in digests[:3])
    assert digests[3] is None


def test_a_missing_package_is_named_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "websockets.sync.client", None)
    with pytest.raises(VlaError, match=r"needs the package websockets .*: pip install 'pytest-vla\[remote\]'"):
        server_policies("openpi", "gpu")
