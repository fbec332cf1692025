"""A policy offered to other machines gets nonsense, browsers and strangers: each is told, and nobody else is hurt."""

import errno
import http.client
import itertools
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from pytest_vla.policies.generators import pack_noise
from pytest_vla.policies.openpi_connection import OURS
from pytest_vla.serving import websocket
from pytest_vla.serving.websocket import BadRequest, read_libero_request, read_observation, read_request
from tests.support.openpi_server import decoded, encoded
from tests.support.waiting import HANG, until
from tests.support.websocket_policies import PICTURE, REQUEST, Wandering, asked, client, closing_code, serving

BEGIN = {
    OURS: "begin",
    "case_id": "s/t[seed0]",
    "suite": "s",
    "task": "t",
    "instruction": "do it",
    "seed": 0,
    "wishes": {"samples": 0, "token_probabilities": False},
    "noise": pack_noise(np.random.Generator(np.random.PCG64(0))),
}


@pytest.mark.parametrize(
    ("frame", "complaint"),
    [
        ("hello", "a request is a binary frame of msgpack; this one is text"),
        (b"\xc1\xc1", "2 bytes that are no request"),
        (b"", "0 bytes that are no request"),
        (b"\x91" * 100_000, "no request"),
        ([1, 2], "a request is a dict, not list"),
        ({}, "lacks observation/image, observation/state, prompt; it has []"),
        ({**REQUEST, "prompt": 3}, "prompt: expected a text of up to 10000 characters, got 3"),
        ({**REQUEST, "prompt": "x" * 10_001}, "prompt: expected a text"),
        (
            {**REQUEST, "observation/image": PICTURE.astype(np.float32)},
            "(H, W, 3) of uint8, sides up to 4096, got float32",
        ),
        ({**REQUEST, "observation/image": PICTURE.transpose(2, 0, 1)}, "got uint8 (3, 224, 224)"),
        ({**REQUEST, "observation/image": np.zeros((5000, 1, 3), np.uint8)}, "got uint8 (5000, 1, 3)"),
        ({**REQUEST, "observation/image": np.zeros((0, 1, 3), np.uint8)}, "got uint8 (0, 1, 3)"),
        ({**REQUEST, "observation/image": [[0]]}, "'observation/image': expected a picture"),
        (
            {**REQUEST, "observation/state": np.zeros(7)},
            "'observation/state': expected 8 or 10 real numbers, got float64 (7,)",
        ),
        ({**REQUEST, "observation/state": np.array(["x"] * 8)}, "expected 8 or 10 real numbers, got <U1 (8,)"),
        ({"observation/image": {b"__ndarray__": True, b"dtype": "|O"}}, "not of dtype '|O'"),
        ({OURS: "harm"}, "expected one of begin, act, end, got 'harm'"),
        ({OURS: {}}, "expected one of begin, act, end"),
        ({OURS: "act"}, "a question before the episode's begin"),
        ({OURS: "begin"}, "case_id: expected a text"),
        ({**BEGIN, "seed": 1.5}, "seed: expected an integer, got 1.5"),
        ({**BEGIN, "noise": [b"", b"", 0]}, "noise: no state of a generator"),
        ({**BEGIN, "noise": [bytes([255] * 100), b"", 0, 0]}, "noise: no state of a generator"),
        ({**BEGIN, "replan": 0}, "replan: expected a number of steps, or none, got 0"),
        ({**BEGIN, "replan": True}, "replan: expected a number of steps, or none, got True"),
        ({**BEGIN, "late": -1}, "late: expected a number of steps, or none, got -1"),
        ({**BEGIN, "wishes": {"samples": 10**9, "token_probabilities": True}}, "wishes: expected up to 1000 samples"),
    ],
)
def test_nonsense_is_told_what_it_is_and_hurts_nobody_else(frame: Any, complaint: str) -> None:
    told: list[str] = []
    with serving(Wandering(), told=told.append) as server, client(server) as whole:
        asked(whole)
        with client(server) as connection:
            connection.send(frame if isinstance(frame, str | bytes) else encoded(frame))
            text = connection.recv(10, decode=True)
            assert complaint in text
            assert len(text) < 500
            assert closing_code(connection) == 1008
        assert round(100 * asked(whole)["actions"][0, 3]) == 2
        until(lambda: len(told) == 1)
    assert complaint in told[0]


@pytest.mark.parametrize(
    ("observed", "complaint"),
    [
        (None, "observation: expected a dict of arrays, got None"),
        ({"state": np.zeros(8)}, "observation: expected agentview_image, state, got ['state']"),
        ({"agentview_image": PICTURE, "state": np.zeros((2, 4))}, "'state': expected 8 or 10 real numbers"),
        (
            {"agentview_image": np.zeros((4, 4, 4), np.uint8), "state": np.zeros(8)},
            "'agentview_image': expected a picture",
        ),
    ],
)
def test_a_client_of_ours_that_asks_nonsense_is_told_so(observed: Any, complaint: str) -> None:
    with serving(Wandering()) as server, client(server) as connection:
        assert asked(connection, BEGIN) == {}
        connection.send(encoded({OURS: "act", "noise": BEGIN["noise"], "observation": observed}))
        assert complaint in connection.recv(HANG)
        until(lambda: server.batcher.sessions == 0)


def test_more_bytes_than_a_request_may_have_end_the_connection() -> None:
    with serving(Wandering()) as server, client(server) as connection:
        with suppress(ConnectionClosedError):
            connection.send(bytes(17 * 1024 * 1024))
        assert closing_code(connection) == 1009
        with client(server) as other:
            assert asked(other)["actions"].shape == (5, 7)


def read_or_refusal(read: Callable[..., Any], *given: Any) -> Any:
    try:
        return read(*given)
    except BadRequest as error:
        text = str(error)
    assert len(text) < 400
    return text


@given(st.binary(max_size=200))
def test_any_bytes_are_a_table_or_refused(data: bytes) -> None:
    assert isinstance(read_or_refusal(read_request, data), dict | str)


NONSENSE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=9)
    | st.binary(max_size=9)
    | st.sampled_from([np.zeros(8), np.zeros((2, 2, 3), np.uint8), np.float32(1), PICTURE]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9) | st.binary(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from([*REQUEST, "observation", b"x"]), NONSENSE),
    st.sampled_from([None, ("state",), ("a",)]),
)
def test_any_table_is_a_request_or_refused(request: dict[Any, Any], reads: Sequence[str] | None) -> None:
    for read in (read_libero_request, read_observation):
        assert isinstance(read_or_refusal(read, request, reads), dict | tuple | str)


def test_a_key_is_asked_for_but_not_for_the_servers_health() -> None:
    told: list[str] = []
    with serving(Wandering(), key="s3cret", told=told.append) as server:
        for headers in (
            [],
            [("Authorization", "Api-Key s3cre")],
            [("Authorization", "s3cret")],
            [("Authorization", "Api-Key s3cret")] * 2,
        ):
            with pytest.raises(InvalidStatus) as refused, client(server, additional_headers=headers):
                pass
            assert refused.value.response.status_code == 401
        with client(server, additional_headers=[("Authorization", "Api-Key s3cret")]) as connection:
            assert asked(connection)["actions"].shape == (5, 7)
        health = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG)
        health.request("GET", "/healthz")
        answer = health.getresponse()
        assert (answer.status, answer.read()) == (200, b"OK\n")
        health.close()
    assert [line.partition(": ")[2] for line in told] == [
        "refused, no key",
        *["refused, wrong key"] * 3,
    ]
    assert "s3cre" not in " ".join(told)


def test_a_web_page_in_a_browser_is_refused() -> None:
    with (
        serving(Wandering()) as server,
        pytest.raises(InvalidStatus) as refused,
        client(server, origin="https://example.org"),
    ):
        pass
    assert refused.value.response.status_code == 403


@pytest.mark.parametrize(
    "said", [b"", b"\x00" * 5000, b"GET / HTTP/1.1\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n", b"GET /" + b"x" * 20_000]
)
def test_who_speaks_no_websocket_hurts_nobody(said: bytes) -> None:
    with serving(Wandering()) as server, socket.create_connection(("127.0.0.1", server.port), HANG) as stranger:
        stranger.sendall(said)
        stranger.shutdown(socket.SHUT_WR)
        with client(server) as connection:
            assert asked(connection)["actions"].shape == (5, 7)


def test_no_free_descriptors_are_a_pause_and_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    troubles = [OSError(errno.EMFILE, "too many open files"), TimeoutError(), OSError(errno.ECONNABORTED, "gone")]

    class Troubled:
        """Takes the place of `socket.socket`'s own accept."""

        def __call__(self, listener: socket.socket) -> Any:
            if troubles:
                raise troubles.pop(0)
            return accept(listener)

    accept = socket.socket.accept
    monkeypatch.setattr(websocket, "_POLL_SECONDS", 0.01)
    monkeypatch.setattr(socket.socket, "accept", lambda listener: Troubled()(listener))
    with serving(Wandering()) as server, client(server) as connection:
        assert asked(connection)["actions"].shape == (5, 7)
    assert not troubles


def test_a_request_in_very_many_pieces_is_refused_and_one_in_some_is_not() -> None:
    whole = encoded(REQUEST)
    with serving(Wandering()) as server:
        with client(server) as connection:
            connection.send(whole[at : at + 4096] for at in range(0, len(whole), 4096))
            assert "actions" in decoded(connection.recv(HANG))
        with client(server) as connection:
            with suppress(ConnectionClosedError):
                connection.send(itertools.repeat(b"", 3000))
            assert "up to 1000 pieces" in connection.recv(HANG)
            assert closing_code(connection) == 1008
