"""Init states from files of others, read as data: nothing in them is ever imported or called.

LIBERO's ``.pruned_init`` is what ``torch.save`` makes of a numpy array: a zip with a pickle in it. The pickle is
interpreted here, by a stack machine that knows the few instructions and the five names that an array needs. These
names stand for records of this module, not for numpy's own reconstructors, so that a claimed shape allocates nothing.
"""

import ast
import io
import math
import os
import pickletools
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import SceneError

MAX_BYTES = 64 * 1024 * 1024  # LIBERO's largest file has 56 thousand
MAX_INSTRUCTIONS = 100_000  # an array takes about 40

_NPY_MAGIC = b"\x93NUMPY"
_ZIP_MAGIC = b"PK"
_MAX_HEADER = 10_000  # numpy's own bound
_ADVICE = "give a .pruned_init of LIBERO, or a float64 array saved by numpy.save"


class _Unfit(Exception):
    """Why the content of a file is no array of init states."""


@dataclass(frozen=True)
class _Block:
    """An array as a file claims it: `shape`, numpy's name of the element type, and the bytes."""

    shape: tuple[int, ...]
    dtype: str
    fortran_order: bool
    data: bytes | memoryview


def read_init_states(path: str | os.PathLike[str], member: str | None = None) -> NDArray[np.float64]:
    """The init states in `path`: (n, 1 + nq + nv) float64, a row each of time, qpos, qvel; a fresh, writable array.

    Reads ``.pruned_init`` and ``.init`` (``torch.save`` of an array, or of a list of vectors as VLA-Arena's are),
    ``.npy`` and ``.npz``; the content tells which. `member` names the array in an ``.npz`` that holds several. One
    vector alone is one state, (1, D). Only float64 is taken, of either byte order: a rounded state is another episode.

    Raises SceneError, its message starting with the file's name, for anything else: what is not there or cut off,
    pickles that name anything but an array's parts, values that are not finite, more than `MAX_BYTES`.
    """
    name = os.fspath(path)
    try:
        with Path(path).open("rb") as file:
            # No more than there is: read() makes room for all that it is asked for.
            data = file.read(min(os.fstat(file.fileno()).st_size, MAX_BYTES) + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SceneError(f"{name}: cannot read these init states: {reason}; {_ADVICE}") from error
    try:
        return _states(_read_content(data, member))
    except _Unfit as error:
        raise SceneError(f"{name}: {error}; {_ADVICE}") from error


def _read_content(data: bytes, member: str | None) -> list[_Block]:
    if len(data) > MAX_BYTES:
        raise _Unfit(f"expected up to {MAX_BYTES} bytes of init states, found more")
    if not data.startswith(_ZIP_MAGIC):
        if member is not None:
            raise _Unfit(f"expected an .npz with the array {member!r}, found a file without named arrays")
        if data.startswith(_NPY_MAGIC):
            return [_read_npy(data)]
        raise _Unfit(f"expected a zip or .npy file, found one that starts with {data[:8]!r}")
    return _read_zip(data, member)


def _read_zip(data: bytes, member: str | None) -> list[_Block]:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            pickles = [name for name in names if name == "data.pkl" or name.endswith("/data.pkl")]
            arrays = [name for name in names if name.endswith(".npy")]
            if len(pickles) == 1 and member is None:
                return _read_pickle(_unpack(archive, pickles[0]))
            if member is None and len(arrays) == 1:
                return [_read_npy(_unpack(archive, arrays[0]))]
            if member is not None and f"{member}.npy" in arrays:
                return [_read_npy(_unpack(archive, f"{member}.npy"))]
    except _Unfit:
        raise
    except Exception as error:
        # zipfile and its codecs raise a dozen types on damaged archives; each means the same here.
        raise _Unfit(f"damaged or cut off, cannot be unpacked ({type(error).__name__}: {str(error)[:200]})") from error
    if arrays and member is None:
        first = _shown(arrays[0].removesuffix(".npy"))
        raise _Unfit(f"expected one array, found {len(arrays)}, the first {first}; name the member to read")
    wanted = "one data.pkl" if member is None else f"the array {member!r}"
    raise _Unfit(f"expected {wanted} in this zip, found {len(names)} members: {', '.join(map(_shown, names[:3]))}")


def _unpack(archive: zipfile.ZipFile, name: str) -> bytes:
    # Read with a limit as well: what the directory says of a size is a claim.
    with archive.open(name) as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise _Unfit(f"expected up to {MAX_BYTES} bytes in {name!r}, found more")
    return data


def _states(blocks: list[_Block]) -> NDArray[np.float64]:
    # The blocks of a list may share their bytes, but the rows will not.
    if sum(len(block.data) for block in blocks) > MAX_BYTES:
        raise _Unfit(f"expected up to {MAX_BYTES} bytes of init states, found more")
    rows = [_array(block) for block in blocks]
    if len(rows) > 1 and any(row.ndim != 1 or row.shape != rows[0].shape for row in rows):
        raise _Unfit(f"expected vectors of one length in the list, found shapes {[row.shape for row in rows[:5]]}")
    states = np.stack(rows) if len(rows) > 1 else np.atleast_2d(rows[0])
    wrong = np.argwhere(~np.isfinite(states))
    if len(wrong):
        row, column = wrong[0]
        raise _Unfit(f"expected finite numbers, found {states[row, column]} in state {row}, column {column}")
    return states


def _array(block: _Block) -> NDArray[np.float64]:
    if block.dtype not in ("<f8", ">f8"):
        raise _Unfit(f"expected float64 (<f8), found elements of type {block.dtype!r}")
    if len(block.shape) not in (1, 2):
        raise _Unfit(f"expected the shape (states, 1 + nq + nv), found {len(block.shape)} dimensions")
    if not all(0 < size <= MAX_BYTES for size in block.shape):
        raise _Unfit("expected the shape (states, 1 + nq + nv), found an empty one or one that cannot be")
    size = math.prod(block.shape) * 8
    if size != len(block.data):
        raise _Unfit(f"expected {size} bytes for the shape {block.shape}, found {len(block.data)}")
    flat = np.frombuffer(block.data, dtype=block.dtype)
    shaped = flat.reshape(block.shape, order="F" if block.fortran_order else "C")
    return np.array(shaped, dtype=np.float64, order="C")


def _read_npy(data: bytes) -> _Block:
    """The array of an .npy file, versions 1 to 3; its header is a literal that `ast` reads."""
    if not data.startswith(_NPY_MAGIC):
        raise _Unfit("expected an .npy array, found something else")
    form, start = {1: ("<H", 10), 2: ("<I", 12), 3: ("<I", 12)}.get(data[6] if len(data) > 6 else 0, ("", 0))
    if not form or len(data) < start:
        raise _Unfit("expected an .npy header of version 1 to 3, found none")
    end = start + struct.unpack_from(form, data, 8)[0]
    if end > len(data) or end - start > _MAX_HEADER:
        raise _Unfit("the .npy header is cut off or too long")
    try:
        header = ast.literal_eval(data[start:end].decode("utf-8").strip())
        shape, dtype, fortran_order = header["shape"], header["descr"], header["fortran_order"]
    except Exception as error:
        # A header of any text: besides SyntaxError and ValueError, the compiler's own limits.
        raise _Unfit("the .npy header is not the dictionary that numpy writes") from error
    return _block(shape, dtype, fortran_order, memoryview(data)[end:])


def _block(shape: object, dtype: object, fortran_order: object, data: object) -> _Block:
    """Checks types only; `_array` checks what they say."""
    if not isinstance(shape, tuple) or not all(type(size) is int for size in shape):
        raise _Unfit("expected a shape of integers, found another one")
    if not isinstance(dtype, str) or not isinstance(fortran_order, bool) or not isinstance(data, bytes | memoryview):
        raise _Unfit(f"expected plain float64 data, found elements of type {_shown(dtype)} in {type(data).__name__}")
    return _Block(shape, dtype, fortran_order, data)


def _shown(value: object) -> str:
    # Of texts only, and of these the start: tuples from a pickle can be exponentially long.
    return repr(value[:80]) if isinstance(value, str) else type(value).__name__


# --- the pickle ---


class _Name:
    """A name that a pickle may use; it can be called only where `call` is given."""

    def __init__(self, call: Callable[..., object] | None = None) -> None:
        self.call = call


class _Dtype:
    """numpy.dtype("f8"), and the state that gives its byte order."""

    def __init__(self, name: object, *_: object) -> None:
        self.name = name
        self.order: object = "<"

    def build(self, state: tuple[object, ...]) -> None:
        self.order = state[1]

    def text(self) -> str:
        name = self.name.lstrip("<>=|") if isinstance(self.name, str) else _shown(self.name)
        return f"{self.order}{name}" if self.order in ("<", ">") else name


class _Array:
    """numpy's array under reconstruction, and the state that gives its content."""

    def __init__(self, *_: object) -> None:
        self.block: _Block | None = None

    def build(self, state: tuple[object, ...]) -> None:
        _, shape, dtype, fortran_order, data = state
        if not isinstance(dtype, _Dtype):
            raise _Unfit("expected an array with an element type, found none")
        if not isinstance(data, bytes):
            raise _Unfit(f"expected float64 (<f8), found elements of type {dtype.text()!r} kept in {_shown(data)}")
        self.block = _block(shape, dtype.text(), fortran_order, data)


def _encode(text: object, encoding: object) -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise _Unfit("expected bytes written as latin1 text")
    return text.encode("latin1")


_NAMES = {
    "numpy.core.multiarray._reconstruct": _Name(_Array),
    "numpy._core.multiarray._reconstruct": _Name(_Array),
    "numpy.ndarray": _Name(),
    "numpy.dtype": _Name(_Dtype),
    "_codecs.encode": _Name(_encode),
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_VALUES = frozenset({
    "BININT", "BININT1", "BININT2", "LONG1", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES",
    "SHORT_BINBYTES", "BINBYTES8",
})  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MARK = object()


def _read_pickle(data: bytes) -> list[_Block]:
    try:
        result = _interpret(data)
    except _Unfit:
        raise
    except Exception as error:
        # Instructions without their operands, arguments that do not fit: whatever breaks, breaks as a bad file.
        raise _Unfit(f"the pickle is damaged or cut off ({type(error).__name__}: {str(error)[:200]})") from error
    arrays = result if isinstance(result, list) else [result]
    blocks = [item.block for item in arrays if isinstance(item, _Array) and item.block is not None]
    if not blocks or len(blocks) != len(arrays):
        raise _Unfit(f"expected an array or a list of vectors, found {type(result).__name__.lstrip('_')}")
    return blocks


def _interpret(data: bytes) -> object:
    """Runs the instructions of a pickle, as far as arrays of numbers need any."""
    stack: list[object] = []
    memo: dict[object, object] = {}
    encoded = 0
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if count == MAX_INSTRUCTIONS:
            raise _Unfit(f"expected a pickle of up to {MAX_INSTRUCTIONS} instructions, found more")
        match opcode.name:
            case "PROTO" | "FRAME":
                pass
            case "GLOBAL":
                stack.append(_name(str(argument).replace(" ", ".", 1)))
            case "STACK_GLOBAL":
                attribute, module = stack.pop(), stack.pop()
                if not isinstance(module, str) or not isinstance(attribute, str):
                    raise _Unfit("expected a pickle that spells the names it uses")
                stack.append(_name(f"{module}.{attribute}"))
            case "REDUCE":
                arguments, function = stack.pop(), stack.pop()
                if not isinstance(function, _Name) or function.call is None or not isinstance(arguments, tuple):
                    raise _Unfit("expected a pickle that calls numpy's reconstructors only")
                stack.append(function.call(*arguments))
                # One long text can be encoded over and over.
                encoded += len(stack[-1]) if isinstance(stack[-1], bytes) else 0
                if encoded > MAX_BYTES:
                    raise _Unfit(f"expected up to {MAX_BYTES} bytes of init states, found more")
            case "BUILD":
                state = stack.pop()
                if not isinstance(stack[-1], _Array | _Dtype) or not isinstance(state, tuple):
                    raise _Unfit("expected a pickle that fills arrays only")
                stack[-1].build(state)
            case "MARK":
                stack.append(_MARK)
            case "TUPLE":
                stack.append(tuple(_above_mark(stack)))
            case "TUPLE1" | "TUPLE2" | "TUPLE3" as name:
                size = _TUPLES[name]
                stack[-size:] = [tuple(stack[-size:])]
            case "EMPTY_LIST":
                stack.append([])
            case "APPEND" | "APPENDS" as name:
                items = _above_mark(stack) if name == "APPENDS" else [stack.pop()]
                if not isinstance(stack[-1], list):
                    raise _Unfit("expected a pickle that appends to lists only")
                stack[-1].extend(items)
            case "BINPUT" | "LONG_BINPUT":
                memo[argument] = stack[-1]
            case "MEMOIZE":
                memo[len(memo)] = stack[-1]
            case "BINGET" | "LONG_BINGET":
                stack.append(memo[argument])
            case "STOP":
                return stack.pop()
            case name if name in _CONSTANTS:
                stack.append(_CONSTANTS[name])
            case name if name in _VALUES:
                stack.append(argument)
            case name:
                raise _Unfit(f"the pickle uses the instruction {name}, which no array of numbers needs; it is refused")
    raise _Unfit("the pickle is cut off")


def _name(full: str) -> _Name:
    if full not in _NAMES:
        raise _Unfit(f"the pickle names {_shown(full)}, which init states do not need; it is refused and was not run")
    return _NAMES[full]


def _above_mark(stack: list[object]) -> list[object]:
    items = []
    while (item := stack.pop()) is not _MARK:
        items.append(item)
    return items[::-1]
