"""Arrays from untrusted .npy and .npz files, read as data: no claim in a file allocates memory, and no code is run.

numpy's own reader allocates whatever shape a file claims, decompresses without limit, and raises a dozen types of
errors.
"""

import ast
import io
import math
import os
import re
import struct
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.util.documents import read_plain
from pytest_vla.util.files import is_trusted, whole_file

MAX_BYTES = 256 * 1024 * 1024
"""The most bytes of a file, and of its unpacked content. An episode of 600 steps has half a million."""

MAX_MEMBERS = 1000
NPY_MAGIC, ZIP_MAGIC = b"\x93NUMPY", b"PK"
_ZIP_ENTRY = b"PK\x01\x02"
_MAX_HEADER = 10_000  # numpy's own bound
_NUMBERS = re.compile(r"[<>|=]?(?:b1|[iu][1248]|f[248])")
_TEXTS = re.compile(r"[<>|=]?U[0-9]{1,4}")


class Unfit(Exception):
    """The error for a file whose content is not the expected array or arrays."""


@dataclass(frozen=True)
class ArrayBlock:
    """An array as a file claims it: `shape`, numpy's name of the element type, and the bytes."""

    shape: tuple[int, ...]
    dtype: str
    fortran_order: bool
    data: bytes | memoryview


def read_npz(
    path: str | os.PathLike[str],
    names: Sequence[str],
    limit: int = MAX_BYTES,
    *,
    also: Callable[[str], bool] | None = None,
) -> dict[str, NDArray[Any]]:
    """Return the named arrays of an .npz file: numbers, booleans, or texts of fixed length; fresh and writable.

    Args:
        path: the file.
        names: the required arrays.
        limit: the largest number of bytes after decompression.
        also: whether to read a further array, by its name; these are read in the order of names.

    Raises:
        Unfit: there is no such file or array, it is damaged, holds anything else, or more than `limit` bytes.
    """
    return unpacked_npz(read_bytes(path, limit), names, limit, also=also)


def unpacked_npz(
    data: bytes, names: Sequence[str], limit: int = MAX_BYTES, *, also: Callable[[str], bool] | None = None
) -> dict[str, NDArray[Any]]:
    """Return the named arrays of an .npz file's content; see `read_npz`."""
    if not data.startswith(ZIP_MAGIC):
        raise Unfit(f"expected a zip file, found one that starts with {data[:8]!r}")
    found: dict[str, NDArray[Any]] = {}
    with open_zip(data) as archive:
        members = set(archive.namelist())
        others = sorted(name.removesuffix(".npy") for name in members if name.endswith(".npy")) if also else []
        for name in [*names, *(name for name in others if name not in names and also is not None and also(name))]:
            if f"{name}.npy" not in members:
                raise Unfit(f"it has no array {name!r}")
            content = unpack(archive, f"{name}.npy", limit)
            limit -= len(content)
            try:
                found[name] = array_of(parse_npy(content))
            except Unfit as error:
                raise Unfit(f"{name}: {error}") from error
    return found


def read_bytes(path: str | os.PathLike[str], limit: int) -> bytes:
    """Return the content of a plain file. Raises Unfit if it cannot be read, is no plain file or is too large."""
    try:
        return read_plain(path, limit)
    except OSError as error:
        raise Unfit(f"it cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise Unfit(str(error)) from error


def open_zip(data: bytes) -> zipfile.ZipFile:
    """Open the archive. Raises Unfit if it is damaged or has too many members."""
    if data.count(_ZIP_ENTRY) > MAX_MEMBERS:
        raise Unfit(f"expected a zip file of up to {MAX_MEMBERS} members, found more")
    try:
        return zipfile.ZipFile(io.BytesIO(data))
    except Exception as error:
        raise _damaged(error) from error


def unpack(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """Return the content of a member. Raises Unfit if it is damaged, compressed by an unusual method or too large."""
    try:
        # Other methods may allocate gigabytes before they unpack a byte; numpy and torch do not use them.
        if archive.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Unfit(f"{name!r:.90} is packed by another method than deflate")
        # Read with a limit, because the directory's size is only a claim.
        with archive.open(name) as file:
            data = file.read(limit + 1)
    except Unfit:
        raise
    except Exception as error:
        # zipfile and its codecs raise a dozen types on damaged archives; each means the same here.
        raise _damaged(error) from error
    if len(data) > limit:
        raise Unfit(f"expected up to {limit} bytes in {name!r:.90}, found more")
    return data


def parse_npy(data: bytes) -> ArrayBlock:
    """Parse an .npy file of versions 1 to 3, whose header is a literal that `ast` reads. Raises Unfit."""
    if not data.startswith(NPY_MAGIC):
        raise Unfit("expected an .npy array, found something else")
    form, start = {1: ("<H", 10), 2: ("<I", 12), 3: ("<I", 12)}.get(data[6] if len(data) > 6 else 0, ("", 0))
    if not form or len(data) < start:
        raise Unfit("expected an .npy header of version 1 to 3, found none")
    end = start + struct.unpack_from(form, data, 8)[0]
    if end > len(data) or end - start > _MAX_HEADER:
        raise Unfit("the .npy header is cut off or too long")
    try:
        shape, dtype, fortran_order = _header_of(data[start:end])
    except Exception as error:
        # A header of any text: besides SyntaxError and ValueError, the compiler's own limits.
        raise Unfit("the .npy header is not the dictionary that numpy writes") from error
    return claimed_block(shape, dtype, fortran_order, memoryview(data)[end:])


@lru_cache(maxsize=256)
def _header_of(text: bytes) -> tuple[object, object, object]:
    """Return the claimed shape, element type and order. Cached: the files of a run have few different headers."""
    header = ast.literal_eval(text.decode("utf-8").strip())
    return header["shape"], header["descr"], header["fortran_order"]


def claimed_block(shape: object, dtype: object, fortran_order: object, data: object) -> ArrayBlock:
    """Return the claimed array after checking types only; `array_of` checks the values. Raises Unfit."""
    if not isinstance(shape, tuple) or not all(type(size) is int for size in shape):
        raise Unfit("expected a shape of integers, found another one")
    if not isinstance(dtype, str) or not isinstance(fortran_order, bool) or not isinstance(data, bytes | memoryview):
        raise Unfit(f"expected plain numbers, found elements of type {shown(dtype)} in {type(data).__name__}")
    return ArrayBlock(shape, dtype, fortran_order, data)


def array_of(claimed: ArrayBlock) -> NDArray[Any]:
    """Return the array in native byte order. Raises Unfit if the number of bytes differs from the claim."""
    if not _NUMBERS.fullmatch(claimed.dtype) and not _TEXTS.fullmatch(claimed.dtype):
        raise Unfit(f"expected numbers, found elements of type {shown(claimed.dtype)}")
    kind = np.dtype(claimed.dtype)
    if len(claimed.shape) > 8 or not all(0 <= size <= MAX_BYTES for size in claimed.shape):
        raise Unfit("it has a shape that cannot be")
    size = math.prod(claimed.shape) * kind.itemsize
    if size != len(claimed.data):
        raise Unfit(f"expected {size} bytes for the shape {claimed.shape}, found {len(claimed.data)}")
    flat = np.frombuffer(claimed.data, dtype=kind) if size else np.zeros(0, dtype=kind)
    shaped = flat.reshape(claimed.shape, order="F" if claimed.fortran_order else "C")
    return np.array(shaped, dtype=kind.newbyteorder("="), order="C")


def shown(value: object) -> str:
    """Return the start of a text, or a type's name: the repr of a tuple from a pickle can be exponentially long."""
    return repr(value[:80]) if isinstance(value, str) else type(value).__name__


def _damaged(error: Exception) -> Unfit:
    return Unfit(f"damaged or cut off, cannot be unpacked ({type(error).__name__}: {str(error)[:200]})")


# Arrays that are kept for the next time, in the folder of the cache.


def read_cached(file: Path, limit: int) -> NDArray[np.float64] | None:
    """Return the finite numbers of a .npy file that only this user can write, or None: they have to be made again.

    Args:
        file: which may not exist.
        limit: the most bytes.
    """
    if not (is_trusted(file.parent) and is_trusted(file)):
        return None
    try:
        values = array_of(parse_npy(read_bytes(file, limit)))
    except Unfit:
        return None
    return np.asarray(values, dtype=np.float64) if values.dtype.kind == "f" and np.isfinite(values).all() else None


def write_cached(file: Path, values: NDArray[np.float64]) -> None:
    """Write an array for the next time, as a whole; if that fails, it is made again then."""
    with suppress(OSError, VlaError):
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with whole_file(file) as stream:
            np.save(stream, values)
        file.chmod(0o644)
