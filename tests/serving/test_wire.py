"""Messages and memory between processes: what goes in comes out, and what is no message is refused."""

import os
import socket
import struct
from collections.abc import Iterator

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from pytest_vla.errors import WireError
from pytest_vla.policies.base import Answer
from pytest_vla.policies.generators import pack_noise, set_noise
from pytest_vla.policies.tokens import PER_TOKEN, token_statistics
from pytest_vla.serving.wire import LONGEST_MESSAGE, SharedPictures, allocate, pack_answer, receive, send, unpack_answer

Pair = tuple[socket.socket, socket.socket]
texts = st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | texts | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


@pytest.fixture
def pair() -> Iterator[Pair]:
    one, other = socket.socketpair(socket.AF_UNIX)
    one.settimeout(5)
    other.settimeout(5)
    yield one, other
    one.close()
    other.close()


@given(st.dictionaries(texts, values, max_size=4))
def test_a_message_comes_as_it_was_sent(message: dict[str, object]) -> None:
    one, other = socket.socketpair(socket.AF_UNIX)
    with one, other:
        send(one, message)
        assert receive(other) == (message, [])


def test_messages_follow_each_other(pair: Pair) -> None:
    for number in range(3):
        send(pair[0], {"number": number})
    assert [receive(pair[1])[0]["number"] for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (struct.pack(">I", LONGEST_MESSAGE + 1), "was announced"),
        (struct.pack(">I", 1) + b"\x01", "expected a table"),
        (struct.pack(">I", 2) + b"\xc1\xc1", "no message"),
        (struct.pack(">I", 9) + b"abc", "closed the connection"),
        (b"", "closed the connection"),
    ],
)
def test_what_is_no_message_is_refused(pair: Pair, said: bytes, reason: str) -> None:
    pair[0].sendall(said)
    pair[0].shutdown(socket.SHUT_WR)
    with pytest.raises(WireError, match=reason):
        receive(pair[1])


def test_waiting_has_an_end(pair: Pair) -> None:
    pair[1].settimeout(0.05)
    with pytest.raises(TimeoutError):
        receive(pair[1])


def test_both_sides_see_the_same_pictures_without_any_name(pair: Pair) -> None:
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    descriptor = allocate(1 << 20)
    send(pair[0], {"hello": 1}, (descriptor,))
    mine = SharedPictures(descriptor)
    _, files = receive(pair[1], files=1)
    theirs = SharedPictures(files[0])
    picture = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    state = np.linspace(0, 1, 8)
    places = mine.write({"picture": picture, "state": state})
    seen = theirs.read(places)
    assert np.array_equal(seen["picture"], picture)
    assert np.array_equal(seen["state"], state)
    if before:
        assert set(os.listdir("/dev/shm")) <= before


@given(
    st.dictionaries(
        texts,
        arrays.arrays(st.sampled_from([np.uint8, np.float32, np.float64, np.int64, np.bool_]), arrays.array_shapes()),
        max_size=4,
    )
)
def test_arrays_of_any_kind_and_shape_come_as_they_were(written: dict[str, np.ndarray]) -> None:
    memory = SharedPictures(allocate(1 << 16))
    seen = memory.read(memory.write(written))
    assert list(seen) == list(written)
    for name, array in written.items():
        assert (seen[name].dtype, seen[name].shape) == (array.dtype, array.shape)
        assert seen[name].tobytes() == array.tobytes()


def test_what_is_held_of_a_memory_that_was_closed_can_still_be_read() -> None:
    # As of a batch's pictures that a policy keeps, where larger ones come and their memory is another one.
    memory = SharedPictures(allocate(1 << 20))
    held = memory.read(memory.write({"picture": np.arange(1 << 18, dtype=np.uint8)}))["picture"]
    memory.close()
    # Another mapping may come to lie where the closed one lay.
    assert SharedPictures(allocate(1 << 20)).size == 1 << 20
    assert held[-1] == 255


def test_too_much_for_the_memory_is_refused() -> None:
    with pytest.raises(WireError, match="'b' does not fit"):
        SharedPictures(allocate(4096)).write({"a": np.zeros(4000, np.uint8), "b": np.zeros(100, np.uint8)})


@pytest.mark.parametrize(
    "place",
    [[0, "<f8", [1000]], [-8, "<f8", [1]], [0, "|O", [1]], [0, "<f8", [-1]], [0, "nonsense", [1]], [0], None, "abc"],
)
def test_a_place_outside_the_memory_or_of_objects_is_refused(place: object) -> None:
    with pytest.raises(WireError, match="'x' is not at"):
        SharedPictures(allocate(4096)).read({"x": place})


def test_a_generator_goes_on_over_there_as_it_stands_here() -> None:
    mine, theirs = np.random.Generator(np.random.PCG64(7)), np.random.Generator(np.random.PCG64(0))
    mine.integers(0, 5, 3, dtype=np.uint32)
    set_noise(theirs, pack_noise(mine))
    assert np.array_equal(mine.normal(size=10), theirs.normal(size=10))
    assert np.array_equal(mine.integers(0, 9, 3, dtype=np.uint32), theirs.integers(0, 9, 3, dtype=np.uint32))
    with pytest.raises(WireError, match="no state of a generator"):
        set_noise(theirs, [1, 2])


def test_an_answer_comes_as_it_was_given() -> None:
    chunk, told = np.ones((2, 7)), token_statistics([[0.0, 1.0, 2.0], [5.0, 1.0, 2.0]])
    for answer in (
        Answer(chunk),
        Answer(chunk, np.zeros((3, 2, 7))),
        Answer(chunk, token_probabilities=np.array([0.5])),
        Answer(chunk, None, told.first, told),
        Answer(chunk, seconds=0.25),
    ):
        found = unpack_answer(msgpack.unpackb(msgpack.packb(pack_answer(answer))))
        assert (found.is_bare, found.seconds) == (answer.is_bare, answer.seconds)
        for name in ("actions", "samples", "token_probabilities"):
            assert (getattr(found, name) is None) == (getattr(answer, name) is None)
        assert np.array_equal(found.actions, chunk)
        if answer.token_statistics is None:
            assert found.token_statistics is None
            continue
        assert found.token_statistics is not None
        assert found.token_statistics.vocabulary == 3
        for name in PER_TOKEN:
            assert np.array_equal(getattr(found.token_statistics, name), getattr(told, name))


@pytest.mark.parametrize(
    "told",
    [
        {"token_statistics": 3},
        {"token_statistics": {}},
        {"token_statistics": {name: [[1], b"12345678"] for name in PER_TOKEN} | {"vocabulary": 1}},
        {"token_statistics": {name: [[2], b"12345678"] for name in PER_TOKEN} | {"vocabulary": 9}},
        {"actions": 3},
        {"rewards": [[1], b"12345678"]},
    ],
)
def test_what_is_no_answer_is_refused(told: dict[str, object]) -> None:
    with pytest.raises(WireError, match="no answer"):
        unpack_answer({"actions": [[1, 7], bytes(56)], **told})
