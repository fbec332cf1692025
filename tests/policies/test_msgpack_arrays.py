"""openpi's encoding of arrays: its bytes, the way back, and what is refused of a server's bytes."""

import tracemalloc
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pytest_vla.policies.msgpack_arrays import MAX_ELEMENTS, check_elements, pack, unpack

# Made with openpi-client 0.1.2: msgpack_numpy.packb.
ACTIONS = (
    b"\x81\xa7actions\x84\xc4\x0b__ndarray__\xc3\xc4\x04data\xc4\x08\x00\x00\xc0?\x00\x00\x00\xc0\xc4\x05dtype\xa3<f4"
    b"\xc4\x05shape\x92\x01\x02"
)
MIXED = (
    b"\x84\xa1x\xcb?\xe0\x00\x00\x00\x00\x00\x00\xa1n\x83\xc4\r__npgeneric__\xc3\xc4\x04data\x03\xc4\x05dtype\xa3<i8"
    b"\xa1p\xa2hi\xa1u\x84\xc4\x0b__ndarray__\xc3\xc4\x04data\xc4\x03\x00\x01\x02\xc4\x05dtype\xa3|u1\xc4\x05shape\x91"
    b"\x03"
)

numbers = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(sizes=(16, 32, 64), endianness="?"),
)
sendable = hnp.arrays(
    st.one_of(numbers, hnp.byte_string_dtypes(min_len=1), hnp.unicode_string_dtypes(min_len=1)),
    hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)


def test_the_bytes_are_those_of_openpis_client() -> None:
    assert pack({"actions": np.array([[1.5, -2.0]], dtype="<f4")}) == ACTIONS
    mixed = {"x": np.float64(0.5), "n": np.int64(3), "p": "hi", "u": np.arange(3, dtype=np.uint8)}
    assert pack(mixed) == MIXED
    back = unpack(MIXED)
    assert (back["x"], back["n"], type(back["n"]), back["p"]) == (0.5, 3, np.int64, "hi")
    assert back["u"].tolist() == [0, 1, 2]


@given(sendable)
def test_an_array_comes_back_as_it_was(array: Any) -> None:
    back = unpack(pack({"array": array}))["array"]
    assert (back.dtype, back.shape, back.tobytes()) == (array.dtype, array.shape, array.tobytes())


@given(hnp.arrays(numbers, (6, 4)))
def test_an_array_that_is_not_in_one_piece_comes_back_too(array: Any) -> None:
    for part in (array.T, array[::-1, ::-1], array[::2, 1:3]):
        back = unpack(pack(part))
        assert back.shape == part.shape
        assert back.tobytes() == part.tobytes()


@given(hnp.from_dtype(np.dtype("<f4")) | hnp.from_dtype(np.dtype("<u2")) | hnp.from_dtype(np.dtype("?")))
def test_a_scalar_comes_back_as_it_was(scalar: Any) -> None:
    back = unpack(pack(scalar))
    assert (back.dtype, back.tobytes()) == (scalar.dtype, scalar.tobytes())


@pytest.mark.parametrize(
    "value",
    [
        np.array([{}], dtype=object),
        np.zeros(2, dtype=[("a", "<f4")]),
        np.array(["2020-01-01"], dtype="M8[D]"),
        np.zeros(1, dtype=complex),
        {"a": {1, 2}},
        object(),
    ],
)
def test_what_has_no_bytes_of_its_own_is_not_sent(value: Any) -> None:
    with pytest.raises(TypeError, match="cannot be sent"):
        pack(value)


def array_table(**changes: Any) -> bytes:
    table = {b"__ndarray__": True, b"data": bytes(8), b"dtype": "<f4", b"shape": [1, 2]}
    table |= {name.encode(): value for name, value in changes.items()}
    return bytes(msgpack.packb(table))


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (array_table(dtype="|O"), "not of dtype '|O'"),
        (array_table(dtype="O8"), "not of dtype 'O8'"),
        (array_table(dtype="<f4,<f4"), "not of dtype"),
        (array_table(dtype="f4" * 1000), "not of dtype"),
        (array_table(dtype=[["a", "O"]]), "not of dtype"),
        (array_table(dtype=None), "not of dtype None"),
        (array_table(dtype="|S0"), "not of dtype"),
        (array_table(dtype="<M8[D]"), "not of dtype"),
        (array_table(shape=[1, 3]), r"an array \[1, 3\] of <f4 has not 8 bytes"),
        (array_table(shape=[2**60]), "cannot have the shape"),
        (array_table(shape=[2**60, 0], data=b""), "cannot have the shape"),
        (array_table(shape=[-1, -2]), "cannot have the shape"),
        (array_table(shape=[True, 2]), "cannot have the shape"),
        (array_table(shape=[1] * 1000), "a list of 8 lengths at most"),
        (array_table(shape=None), "a list of 8 lengths at most"),
        (array_table(data="text"), "an array's data are bytes, not str"),
        (msgpack.packb({b"__ndarray__": True}), "not of dtype None"),
        (msgpack.packb({b"__npgeneric__": True, b"data": "3", b"dtype": "<i8"}), "str is no scalar of <i8"),
        (msgpack.packb({b"__npgeneric__": True, b"data": 300, b"dtype": "|u1"}), r"300 is no scalar of \|u1"),
        (b"\xc1", "FormatError"),
        (b"\x91" * 100_000, "."),
        (b"\xdd\xff\xff\xff\xff", "."),
        (b"", "."),
        (ACTIONS + b"\x00", "."),
    ],
)
def test_what_no_array_can_be_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        unpack(data)


tables = st.fixed_dictionaries(
    {},
    optional={
        b"__ndarray__": st.booleans(),
        b"__npgeneric__": st.booleans(),
        b"data": st.binary(max_size=16) | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(max_size=3),
        b"dtype": st.sampled_from(["<f4", "|u1", "<U2", "|S3", "|O", "V8", ">i2", "<f16", "|b1"]) | st.text(max_size=6),
        b"shape": st.lists(st.integers(-1, 2**40), max_size=10) | st.integers(0, 99),
    },
)


@given(tables.map(msgpack.packb) | st.binary(max_size=64))
def test_any_bytes_are_a_value_or_a_value_error(data: bytes) -> None:
    try:
        value = unpack(data)
    except ValueError:
        return
    if isinstance(value, np.ndarray):
        assert value.nbytes <= len(data)
        assert value.dtype.kind in "biufSU"


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3), inner, max_size=20),
)


@given(values | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=40)))
def test_what_is_within_bounds_is_counted_through_to_its_end(value: Any) -> None:
    data = msgpack.packb(value)
    check_elements(data)
    if len(data) > 1:
        # Not one byte less: what is skipped is what is there.
        with pytest.raises(ValueError, match=r".*"):
            unpack(data[:-1])


def test_lists_and_tables_of_all_lengths_are_counted() -> None:
    for number in (0, 15, 16, 65_535, 65_536):
        check_elements(msgpack.packb([0] * number))
        unpack(msgpack.packb([{"": 0}] * (number // 4)))
    unpack(msgpack.packb([0] * (MAX_ELEMENTS - 1)))
    for value in ([0] * MAX_ELEMENTS, [[]] * MAX_ELEMENTS, {str(i): i for i in range(MAX_ELEMENTS // 2)}):
        with pytest.raises(ValueError, match="more than 100000 elements"):
            unpack(msgpack.packb(value))


SIZE = 16 * 1024 * 1024


@pytest.mark.parametrize(
    "frame",
    [
        b"\xdd" + (SIZE - 5).to_bytes(4) + b"\x90" * (SIZE - 5),
        b"\xdd" + (SIZE - 5).to_bytes(4) + b"\x80" * (SIZE - 5),
        b"\xdf" + (SIZE // 4).to_bytes(4) + b"\xa1a\xa1b" * (SIZE // 4),
        b"\xdc\xff\xff" + (b"\xdc\x00\xff" + b"\x01" * 255) * 65_000,
        b"\x91" * SIZE,
        b"\xdd\xff\xff\xff\xff",
    ],
    ids=["lists", "tables", "texts", "lists of lists", "deep", "a claim"],
)
def test_a_frame_that_would_be_gigabytes_takes_nothing(frame: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="elements"):
            unpack(frame)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
