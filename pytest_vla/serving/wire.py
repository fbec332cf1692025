"""Messages between workers and the policy's process: msgpack with pictures in shared memory or compressed.

The memory has no name: it is passed as an open file, so that a killed process leaves nothing behind.
"""

import contextlib
import importlib.util
import math
import mmap
import os
import socket
import struct
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgpack
import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError, WireError
from pytest_vla.policies.base import Answer
from pytest_vla.policies.msgpack_arrays import check_elements
from pytest_vla.policies.tokens import PER_TOKEN, check_token_statistics, statistics_of, statistics_table

PROTOCOL = 4

WAIT = {"wait": True}
"""The message to a worker now and then while it waits for an answer."""

HEARD = {"heard": True}
"""The message to a worker that asked to be informed when its arrays have arrived."""

LONGEST_MESSAGE = 64 * 1024 * 1024
_HEAD = struct.Struct(">I")
_ALIGNMENT = 64


def send(connection: socket.socket, message: Mapping[str, Any], files: tuple[int, ...] = ()) -> None:
    """Send one message, with open files beside it.

    Args:
        connection: a Unix-domain stream socket if there are files.
        message: numbers, texts, bytes, lists and tables of these.
        files: descriptors, which stay open here.

    Raises:
        WireError: the other side is gone.
    """
    try:
        if files:
            head, body = (whole := framed(message))[: _HEAD.size], whole[_HEAD.size :]
            socket.send_fds(connection, [head], list(files))
            connection.sendall(body)
        else:
            connection.sendall(framed(message))
    except OSError as error:
        if _ran_out(error):
            raise
        raise WireError(f"the connection is broken: {error}") from error


def framed(message: Mapping[str, Any] | bytes) -> bytes:
    """Return the bytes of a message on the connection; a message in bytes is packed already."""
    body = message if isinstance(message, bytes) else msgpack.packb(message, use_bin_type=True)
    return _HEAD.pack(len(body)) + body


class Inbox:
    """The received bytes of a non-blocking connection, until they form whole messages."""

    def __init__(self, trusted: bool = False, longest: int = LONGEST_MESSAGE) -> None:
        """Start empty.

        Args:
            trusted: whether the sender is ours, so that sizes are not checked.
            longest: the most bytes in a message.
        """
        self._bytes, self._trusted, self._longest = bytearray(), trusted, longest
        self._files: list[int] = []

    def add(self, data: bytes, files: Sequence[int] = ()) -> None:
        """Add received bytes and open files; the consumer of the messages closes the files."""
        self._bytes += data
        self._files += files

    def messages(self) -> Iterator[tuple[dict[str, Any], list[int]]]:
        """Yield the complete messages, each with the files received by then. Raises WireError."""
        while len(self._bytes) >= _HEAD.size:
            (length,) = _HEAD.unpack_from(self._bytes)
            _check_length(length, self._longest)
            end = _HEAD.size + length
            if len(self._bytes) < end:
                return
            body = bytes(memoryview(self._bytes)[_HEAD.size : end])
            message = _table(_unpacked(body, self._trusted))
            del self._bytes[:end]
            files, self._files = self._files, []
            yield message, files

    @property
    def is_empty(self) -> bool:
        """Whether all that was received has been consumed."""
        return not self._bytes and not self._files

    def close(self) -> None:
        """Close the files that were not consumed."""
        _close(self._files)
        self._files = []


def receive(
    connection: socket.socket, files: int = 0, longest: int = LONGEST_MESSAGE
) -> tuple[dict[str, Any], list[int]]:
    """Wait for one message.

    Args:
        connection: a stream socket.
        files: the most open files that may come with it.
        longest: the most bytes that it may have.

    Returns:
        The message, and descriptors that the caller has to close.

    Raises:
        WireError: the other side is gone, or sent an invalid message.
        TimeoutError: the socket's timeout passed.
    """
    descriptors: list[int] = []
    try:
        if files:
            head, descriptors, _, _ = socket.recv_fds(connection, _HEAD.size, files)
            head += _exactly(connection, _HEAD.size - len(head))
        else:
            head = _exactly(connection, _HEAD.size)
        (length,) = _HEAD.unpack(head)
        _check_length(length, longest)
        return _table(_unpacked(_exactly(connection, length))), descriptors
    except OSError as error:
        _close(descriptors)
        if _ran_out(error):
            raise
        raise WireError(f"the connection is broken: {error}") from error
    except BaseException:
        _close(descriptors)
        raise


def _ran_out(error: OSError) -> bool:
    """Whether the error is the socket's own timeout; the system's error for a host that is gone has a number."""
    return isinstance(error, TimeoutError) and error.errno is None


def _check_length(length: int, longest: int) -> None:
    if length > longest:
        raise WireError(f"a message of {length} bytes was announced, more than {longest}")


def _table(message: object) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise WireError(f"expected a table, got {type(message).__name__}")
    return message


def _unpacked(body: bytes, trusted: bool = False) -> Any:
    try:
        if not trusted:
            check_elements(body)
        return msgpack.unpackb(body, raw=False, strict_map_key=False)
    except Exception as error:
        # msgpack raises half a dozen types on what is no msgpack.
        raise WireError(f"no message: {type(error).__name__}: {error}") from error


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = connection.recv(min(count - len(parts), 1 << 20))
        if not part:
            raise WireError("the other side closed the connection")
        parts += part
    return bytes(parts)


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def pack_answer(answer: Answer) -> dict[str, Any]:
    """Return a checked answer as a message."""
    arrays = {name: getattr(answer, name) for name in _ARRAYS}
    message: dict[str, Any] = {name: _packed(array) for name, array in arrays.items() if array is not None}
    if answer.token_statistics is not None:
        table = statistics_table(answer.token_statistics)
        message[_STATISTICS] = {name: _packed(table[name]) for name in PER_TOKEN} | {_SIZE: table[_SIZE]}
    if answer.seconds is not None:
        message[_TOOK] = answer.seconds
    return message


def unpack_answer(message: Mapping[str, Any]) -> Answer:
    """Read an answer from a message. Raises WireError if it is invalid."""
    try:
        given = dict(message)
        table, statistics, seconds = given.pop(_STATISTICS, None), None, given.pop(_TOOK, None)
        if table is not None:
            numbers = {name: _unpacked_array(table[name]) for name in PER_TOKEN}
            statistics = check_token_statistics(statistics_of({**numbers, _SIZE: table[_SIZE]}))
        arrays = {name: _unpacked_array(packed) for name, packed in given.items()}
        return Answer(**arrays, token_statistics=statistics, seconds=None if seconds is None else float(seconds))
    except (TypeError, ValueError, KeyError, EpisodeError) as error:
        raise WireError(f"no answer: {error}") from error


_ARRAYS = ("actions", "samples", "token_probabilities")
_STATISTICS, _SIZE, _TOOK = "token_statistics", "vocabulary", "seconds"


def _packed(array: NDArray[Any]) -> list[Any]:
    return [list(array.shape), np.ascontiguousarray(array, np.float64).tobytes()]


def _unpacked_array(packed: Any) -> NDArray[np.float64]:
    shape, data = packed
    return np.frombuffer(data, np.float64).reshape(shape).copy()


class SharedPictures:
    """Memory for the arrays of one question at a time, mapped by both sides.

    Attributes:
        size: bytes.
    """

    def __init__(self, descriptor: int) -> None:
        """Map memory that `allocate` made, and close the descriptor."""
        try:
            self.size = os.fstat(descriptor).st_size
            self._memory = mmap.mmap(descriptor, self.size)
            # For each `read`, the array that its results are views of.
            self._lent: list[weakref.ref[NDArray[np.uint8]]] = []
        except (OSError, ValueError) as error:
            raise WireError(f"the shared memory cannot be mapped: {error}") from error
        finally:
            os.close(descriptor)

    def write(self, arrays: Mapping[str, NDArray[Any]], offset: int = 0) -> dict[str, list[Any]]:
        """Copy arrays into the memory, starting at this byte.

        Returns:
            The place, dtype and shape of each, for the other side's `read`.

        Raises:
            WireError: the memory is too small.
        """
        places: dict[str, list[Any]] = {}
        for name, array in arrays.items():
            if offset + array.nbytes > self.size:
                raise WireError(f"{name!r} does not fit: {offset + array.nbytes} bytes of {self.size}")
            view = np.ndarray(array.shape, array.dtype, self._memory, offset)
            view[...] = array
            places[name] = [offset, array.dtype.str, list(array.shape)]
            offset += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
        return places

    def read(self, places: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
        """Return the arrays at these places, as views that may be held for ever, but change with the next write.

        Raises:
            WireError: a place is not in this memory.
        """
        # An `np.ndarray` of the memory itself would not keep it mapped: reading a view later would crash.
        memory, arrays = np.frombuffer(self._memory, np.uint8), {}
        self._lent = [lent for lent in self._lent if lent() is not None] + [weakref.ref(memory)]
        for name, place in places.items():
            try:
                offset, kind, shape = place
                sides = tuple(side(length) for length in shape)
                arrays[name] = np.ndarray(sides, number_type(kind), memory, side(offset))
            except (TypeError, ValueError) as error:
                raise WireError(f"{name!r} is not at {place!r}: {error}") from error
        return arrays

    @property
    def is_held(self) -> bool:
        """Whether this process still holds a view of arrays that were read."""
        return any(lent() is not None for lent in self._lent)

    @property
    def address(self) -> int:
        """The address of the memory in this process."""
        return int(np.frombuffer(self._memory, np.uint8).ctypes.data)

    def close(self) -> None:
        """Release the memory as soon as no view of it is left."""
        # If a view is still held, the memory is released with it.
        with contextlib.suppress(BufferError):
            self._memory.close()


def allocate(size: int) -> int:
    """Return an open file of this size without a name: in memory, or in the folder for temporary files.

    Raises:
        OSError: there is not enough room. This is checked now, since a later write to missing memory would kill
            the process.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("pytest-vla")
    else:
        descriptor, name = tempfile.mkstemp(prefix="pytest-vla-")
        os.unlink(name)
    try:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, size)
        else:
            os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def inlined(arrays: Mapping[str, NDArray[Any]]) -> dict[str, list[Any]]:
    """Return arrays as values for a message, without shared memory; `outlined` reads them."""
    return {name: [array.dtype.str, list(array.shape), array.tobytes()] for name, array in arrays.items()}


def outlined(packed: Any) -> dict[str, NDArray[Any]]:
    """Return read-only arrays from the result of `inlined`. Raises WireError."""
    try:
        arrays = {}
        for name, (kind, shape, data) in packed.items():
            dtype = number_type(kind)
            arrays[name] = np.frombuffer(data, dtype).reshape([side(length) for length in shape])
        return arrays
    except (TypeError, ValueError, AttributeError) as error:
        raise WireError(f"no arrays: {error}") from error


def number_type(kind: object) -> np.dtype[Any]:
    """Return the dtype of an array in a message. Raises TypeError or ValueError."""
    dtype = np.dtype(kind)  # type: ignore[call-overload]
    if dtype.kind not in "buif":
        raise ValueError(f"{dtype} is no type of numbers")
    return dtype  # type: ignore[no-any-return]


def side(length: object) -> int:
    """Return a length in the shape of an array in a message. Raises ValueError."""
    if type(length) is not int or length < 0:
        raise ValueError(f"{length!r} is no length")
    return length


# Lossless compression of a question's pictures, for networks that are slower than a processor.
#
# The codec gets differences of bytes: to the row above, or to the picture of the previous question, which is much
# smaller if the camera does not move. docs/explanation/scale.md has the figures.

CODECS = ("zstd", "zlib")
"""In order of preference; zstd needs the package zstandard."""

ROWS, LAST = "rows", "last"
"""The reference of the differences: the row above, or the previous picture."""

_LEAST = 4096  # The fewest bytes of an array that is compressed.
_MOST_ROWS = 8192
_TRIALS = 64  # Questions between two trials of all differences.

_Bytes = NDArray[np.uint8]


def known_codecs() -> tuple[str, ...]:
    """Return the available codecs, in order of preference."""
    return CODECS if importlib.util.find_spec("zstandard") is not None else CODECS[1:]


class ImageCompressor:
    """The worker's side of a compressed connection; both sides keep the previous pictures.

    Attributes:
        codec: one of `CODECS`.
    """

    def __init__(self, codec: str) -> None:
        self.codec = codec
        self._compress = _compressor(codec)
        self._last: dict[str, NDArray[Any]] = {}
        self._ways: dict[str, str] = {}
        self._count = 0

    def squeezed(self, arrays: Mapping[str, NDArray[Any]], is_first: bool) -> dict[str, list[Any]]:
        """Return compressed arrays as values for a message, for the other side's `ImageDecompressor`.

        Args:
            arrays: a question's.
            is_first: whether the question is the first of its episode, whose pictures differ from the previous
                ones.
        """
        tries_all = self._count < 2 or not self._count % _TRIALS
        self._count += 1
        return {name: self._packed(name, array, is_first, tries_all) for name, array in arrays.items()}

    def _packed(self, name: str, array: NDArray[Any], is_first: bool, tries_all: bool) -> list[Any]:
        plain = [array.dtype.str, list(array.shape)]
        if not _is_worth_it(array.nbytes, array.shape):
            return [*plain, array.tobytes()]
        array = np.ascontiguousarray(array)
        last = self._last.get(name)
        if last is not None and (last.dtype, last.shape) != (array.dtype, array.shape):
            last = None
        # A copy, since the array's memory may be reused.
        self._last[name] = array.copy()
        ways = [ROWS] if last is None or is_first else [ROWS, LAST] if tries_all else [self._ways.get(name, ROWS)]
        data, way = min(
            ((self._compress(_difference(array, way, last)), way) for way in ways), key=lambda found: len(found[0])
        )
        if len(ways) > 1:
            self._ways[name] = way
        return [*plain, data, self.codec, way]


class ImageDecompressor:
    """The batch server's side of a compressed connection."""

    def __init__(self) -> None:
        self._last: dict[str, NDArray[Any]] = {}

    def read(self, packed: Any) -> dict[str, NDArray[Any]]:
        """Return read-only arrays that `ImageCompressor` or `pytest_vla.serving.wire.inlined` packed.

        Raises:
            WireError: they are invalid, or larger than a message may be, which is checked before memory is
                allocated.
        """
        try:
            arrays, rest = {}, LONGEST_MESSAGE
            for name, (kind, shape, data, *how) in packed.items():
                dtype, sides = number_type(kind), tuple(side(length) for length in shape)
                size = dtype.itemsize * math.prod(sides)
                rest -= size
                if rest < 0:
                    raise WireError(f"arrays of more than {LONGEST_MESSAGE} bytes are announced")
                if how:
                    codec, way = how
                    array = self._restored(name, dtype, sides, _decompressed(codec, data, size), way)
                    self._last[name] = array
                else:
                    array = np.frombuffer(data, dtype).reshape(sides)
                arrays[name] = array
            return arrays
        except WireError:
            raise
        except (TypeError, ValueError, AttributeError, KeyError) as error:
            raise WireError(f"no arrays: {type(error).__name__}: {error}") from error

    def _restored(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], data: bytes, way: str) -> NDArray[Any]:
        if not _is_worth_it(len(data), shape):
            raise ValueError(f"nobody squeezes {len(data)} bytes of {shape}")
        differences = np.frombuffer(data, np.uint8).reshape(shape[0], -1)
        whole = np.empty_like(differences)
        if way == ROWS:
            whole[0] = differences[0]
            # Faster than numpy's accumulate, which iterates along the columns.
            for row in range(1, len(whole)):
                np.add(differences[row], whole[row - 1], out=whole[row])
        elif way == LAST:
            last = self._last[name]
            if (last.dtype, last.shape) != (dtype, shape):
                raise ValueError(f"the last {name!r} was {last.dtype} {last.shape}, not {dtype} {shape}")
            np.add(differences, _bytes_of(last), out=whole)
        else:
            raise ValueError(f"{way!r} is nothing that differences are to")
        return whole.reshape(-1).view(dtype).reshape(shape)


def _is_worth_it(size: int, shape: tuple[int, ...]) -> bool:
    return size >= _LEAST and len(shape) > 1 and shape[0] <= _MOST_ROWS


def _difference(array: NDArray[Any], way: str, last: NDArray[Any] | None) -> _Bytes:
    whole = _bytes_of(array)
    if way == LAST:
        assert last is not None
        return whole - _bytes_of(last)
    differences = whole.copy()
    differences[1:] -= whole[:-1]
    return differences


def _bytes_of(array: NDArray[Any]) -> _Bytes:
    """Return an array's bytes, one row of them per row of the array."""
    return array.reshape(-1).view(np.uint8).reshape(array.shape[0], -1)


def _compressor(codec: str) -> Callable[[_Bytes], bytes]:
    if codec == "zstd":
        import zstandard

        compressor = zstandard.ZstdCompressor(level=1)
        return lambda data: bytes(compressor.compress(data))
    return lambda data: zlib.compress(data.data, 1)


@cache
def _zstd() -> Any:
    import zstandard

    return zstandard


def _decompressed(codec: object, data: bytes, size: int) -> bytes:
    """Return exactly `size` bytes. Raises ValueError for invalid or longer data.

    At most one byte more than `size` is decompressed.
    """
    if codec == "zlib":
        try:
            stream = zlib.decompressobj()
            found = stream.decompress(data, max(size, 1))
            more = stream.decompress(stream.unconsumed_tail, 1)
        except zlib.error as error:
            raise ValueError(str(error)) from error
        if len(found) != size or more or not stream.eof or stream.unused_data:
            raise ValueError(f"the data are not {size} bytes")
        return found
    if codec != "zstd":
        raise ValueError(f"{codec!r} is no codec")
    try:
        zstandard = _zstd()
    except ImportError as error:
        raise ValueError(f"zstd cannot be read here: {error}") from error
    try:
        if zstandard.frame_content_size(data) != size:
            raise ValueError(f"the data are not {size} bytes")
        return bytes(zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False))
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
