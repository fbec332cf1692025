"""msgpack with openpi's encoding of numpy arrays, safe for bytes from an untrusted server."""

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

MAX_DIMENSIONS = 8
MAX_LENGTH = 2**24
"""The longest dimension; an array that is not empty is bounded by the number of its bytes."""

MAX_ELEMENTS = 100_000
"""The most values in a message, nested ones included: each takes one byte on the wire, and some hundred in memory."""

# Truth values, integers, floats, texts and bytes: no objects, structures or dates. Texts by their length.
_DTYPE = re.compile(r"[<>=|]?(?:b1|[iu][1248]|f[248]|[SU][1-9][0-9]{0,5})")
# For msgpack's first bytes from 0xC4: the number of bytes of the length, of further fixed bytes, and, for lists and
# tables, the number of values per unit of length.
_HEADS: Mapping[int, tuple[int, int, int]] = {
    **{0xC4: (1, 0, 0), 0xC5: (2, 0, 0), 0xC6: (4, 0, 0)},  # bytes
    **{0xC7: (1, 1, 0), 0xC8: (2, 1, 0), 0xC9: (4, 1, 0)},  # extensions
    **{0xCA: (0, 4, 0), 0xCB: (0, 8, 0)},  # floats
    **{0xCC: (0, 1, 0), 0xCD: (0, 2, 0), 0xCE: (0, 4, 0), 0xCF: (0, 8, 0)},  # integers
    **{0xD0: (0, 1, 0), 0xD1: (0, 2, 0), 0xD2: (0, 4, 0), 0xD3: (0, 8, 0)},
    **{0xD4: (0, 2, 0), 0xD5: (0, 3, 0), 0xD6: (0, 5, 0), 0xD7: (0, 9, 0), 0xD8: (0, 17, 0)},  # extensions
    **{0xD9: (1, 0, 0), 0xDA: (2, 0, 0), 0xDB: (4, 0, 0)},  # texts
    **{0xDC: (2, 0, 1), 0xDD: (4, 0, 1), 0xDE: (2, 0, 2), 0xDF: (4, 0, 2)},  # lists and tables
}
_SCALARS: Mapping[str, tuple[type, ...]] = {"b": (bool,), "i": (int,), "u": (int,), "f": (int, float), "S": (bytes,)}


def pack(value: object, *, text_keys: bool = False) -> bytes:
    """Encode a value of dicts, lists, texts, numbers and arrays as msgpack.

    Args:
        value: the value.
        text_keys: whether an array's own fields have texts as names, as in vla-eval's protocol, instead of bytes.

    Raises:
        TypeError: the value contains something else, such as an array of objects, structures or dates.
    """
    import msgpack

    def with_text_keys(value: object) -> object:
        return {name.decode(): part for name, part in _encoded(value).items()}

    packed: bytes = msgpack.packb(value, default=with_text_keys if text_keys else _encoded)
    return packed


def unpack(data: bytes) -> Any:
    """Decode msgpack bytes; arrays are read-only, and the names of their fields may be bytes or texts.

    The length of `data` and `MAX_ELEMENTS` bound the allocated memory and the time. Nothing is unpickled or evaluated.

    Raises:
        ValueError: not msgpack, too many elements, or an array whose dtype, shape and bytes do not match.
    """
    import msgpack

    check_elements(data)
    try:
        return msgpack.unpackb(data, object_hook=_decoded)
    except Exception as error:
        # msgpack's own errors are of several types, and some have no text.
        raise ValueError(str(error) or type(error).__name__) from error


def check_elements(data: bytes) -> None:
    """Refuse msgpack bytes with more than `MAX_ELEMENTS`, before anything is decoded.

    Raises:
        ValueError: too many elements, or more elements are announced than there are bytes for.
    """
    at, left, count = 0, 1, 0
    while left:
        left -= 1
        count += 1
        if at >= len(data):
            raise ValueError("it is cut off")
        first = data[at]
        at += 1
        if first < 0x80 or first >= 0xE0:
            continue
        if first < 0xA0:
            left += (first & 15) * (2 if first < 0x90 else 1)
        elif first < 0xC0:
            at += first & 31
        else:
            width, fixed, contained = _HEADS.get(first, (0, 0, 0))
            size = int.from_bytes(data[at : at + width])
            at += width + fixed + (0 if contained else size)
            left += size * contained
        if count + left > MAX_ELEMENTS:
            raise ValueError(f"it has more than {MAX_ELEMENTS} elements")


def _encoded(value: object) -> dict[bytes, object]:
    if isinstance(value, np.ndarray | np.generic) and _DTYPE.fullmatch(value.dtype.str):
        if isinstance(value, np.ndarray):
            return {
                b"__ndarray__": True,
                b"data": value.tobytes(),
                b"dtype": value.dtype.str,
                b"shape": value.shape,
            }
        return {b"__npgeneric__": True, b"data": value.item(), b"dtype": value.dtype.str}
    kind = f"an array of {value.dtype}" if isinstance(value, np.ndarray) else type(value).__name__
    raise TypeError(f"{kind} cannot be sent")


def _decoded(table: dict[Any, Any]) -> Any:
    if "__ndarray__" in table:
        table = {name.encode() if isinstance(name, str) else name: value for name, value in table.items()}
    if b"__ndarray__" in table:
        data, shape, dtype = table.get(b"data"), table.get(b"shape"), _dtype(table)
        if not isinstance(data, bytes):
            raise ValueError(f"an array's data are bytes, not {type(data).__name__}")
        if not isinstance(shape, list) or len(shape) > MAX_DIMENSIONS:
            raise ValueError(f"an array's shape is a list of {MAX_DIMENSIONS} lengths at most, not {_short(shape)}")
        if not all(type(length) is int and 0 <= length <= MAX_LENGTH for length in shape):
            raise ValueError(f"an array cannot have the shape {_short(shape)}")
        if math.prod(shape) * dtype.itemsize != len(data):
            raise ValueError(f"an array {_short(shape)} of {dtype.str} has not {len(data)} bytes")
        return np.frombuffer(data, dtype).reshape(shape)
    if b"__npgeneric__" in table:
        data, dtype = table.get(b"data"), _dtype(table)
        if type(data) not in _SCALARS.get(dtype.kind, (str,)):
            raise ValueError(f"{type(data).__name__} is no scalar of {dtype.str}")
        try:
            return dtype.type(data)
        except OverflowError as error:
            raise ValueError(f"{_short(data)} is no scalar of {dtype.str}") from error
    return table


def _dtype(table: Mapping[Any, Any]) -> "np.dtype[Any]":
    name = table.get(b"dtype")
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise ValueError(f"arrays are of numbers, texts or bytes, not of dtype {_short(name)}")
    return np.dtype(name)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
