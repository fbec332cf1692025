"""A question's pictures in fewer bytes, without loss, for networks that are slower than a processor.

What goes through the codec is differences of bytes: to the row above, or to the picture of the question before, which
is much less where the camera stands still. docs/explanation/scale.md has the figures.
"""

import importlib.util
import math
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import WireError
from pytest_vla.serving.wire import LONGEST_MESSAGE, number_type, side

CODECS = ("zstd", "zlib")
"""By preference; zstd is there where the package zstandard is."""

ROWS, LAST = "rows", "last"
"""What the differences are to."""

_LEAST = 4096  # Bytes of an array that is worth it.
_MOST_ROWS = 8192
_TRIALS = 64  # Questions between two in which all differences are tried.

_Bytes = NDArray[np.uint8]


def known_codecs() -> tuple[str, ...]:
    """Those that can be used here, by preference."""
    return CODECS if importlib.util.find_spec("zstandard") is not None else CODECS[1:]


class Squeezer:
    """A worker's side of one connection; both sides keep what went last.

    Attributes:
        codec: of `CODECS`.
    """

    def __init__(self, codec: str) -> None:
        """Nothing has gone yet."""
        self.codec = codec
        self._compress = _compressor(codec)
        self._last: dict[str, NDArray[Any]] = {}
        self._ways: dict[str, str] = {}
        self._count = 0

    def squeezed(self, arrays: Mapping[str, NDArray[Any]], is_first: bool) -> dict[str, list[Any]]:
        """Arrays as a message holds them, for the other side's `Unsqueezer`.

        Args:
            arrays: of a question.
            is_first: whether it is its episode's first, whose pictures are unlike the last ones.
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
        # Another one's memory may be drawn into again.
        self._last[name] = array.copy()
        ways = [ROWS] if last is None or is_first else [ROWS, LAST] if tries_all else [self._ways.get(name, ROWS)]
        data, way = min(
            ((self._compress(_difference(array, way, last)), way) for way in ways), key=lambda found: len(found[0])
        )
        if len(ways) > 1:
            self._ways[name] = way
        return [*plain, data, self.codec, way]


class Unsqueezer:
    """The desk's side of one connection."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self._last: dict[str, NDArray[Any]] = {}

    def read(self, packed: Any) -> dict[str, NDArray[Any]]:
        """Arrays that `Squeezer` or `pytest_vla.serving.wire.inlined` packed, not to be written to.

        Raises:
            WireError: they are none; or more than a message may hold, which is known before there is room for them.
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
            # Faster than numpy's accumulate, which goes down the columns.
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
    """Row by row."""
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
    """Exactly so many bytes. Raises ValueError: the data are others, or more, of which no more than one is made."""
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
