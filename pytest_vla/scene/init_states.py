"""Init states from untrusted files, read as data: nothing in them is ever imported or called.

LIBERO's ``.pruned_init`` is made by ``torch.save`` from a numpy array: a zip with a pickle in it. The pickle is
interpreted here, by a stack machine that knows the few instructions and the five names that an array needs. These names
stand for records of this module, not for numpy's own reconstructors, so that a claimed shape allocates nothing.
"""

import os
import pickletools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import SceneError
from pytest_vla.util.arrays import (
    NPY_MAGIC,
    ZIP_MAGIC,
    ArrayBlock,
    Unfit,
    array_of,
    claimed_block,
    open_zip,
    parse_npy,
    read_bytes,
    shown,
    unpack,
)

MAX_BYTES = 64 * 1024 * 1024  # LIBERO's largest file has 56 thousand
MAX_INSTRUCTIONS = 100_000  # an array takes about 40

_ADVICE = "give a .pruned_init of LIBERO, or a float64 array saved by numpy.save"


def read_init_states(path: str | os.PathLike[str], member: str | None = None) -> NDArray[np.float64]:
    """Read the init states in `path`: (n, 1 + nq + nv) float64, each row time, qpos and qvel.

    The array is fresh and writable. Reads ``.pruned_init`` and ``.init`` (``torch.save`` of an array, or of a list of
    vectors as in VLA-Arena), ``.npy`` and ``.npz``; the format is recognised by the content. `member` names the array
    in an ``.npz`` that holds several. A single vector is one state, (1, D). Only float64 is accepted, of either byte
    order: a rounded state would be a different episode.

    Raises SceneError, its message starting with the file's name, for anything else: missing or truncated files, pickles
    that name anything but an array's parts, values that are not finite, more than `MAX_BYTES`.
    """
    name = os.fspath(path)
    try:
        return _states(_read_content(read_bytes(path, MAX_BYTES), member))
    except Unfit as error:
        raise SceneError(f"{name}: {error}; {_ADVICE}") from error


def _read_content(data: bytes, member: str | None) -> list[ArrayBlock]:
    if not data.startswith(ZIP_MAGIC):
        if member is not None:
            raise Unfit(f"expected an .npz with the array {member!r}, found a file without named arrays")
        if data.startswith(NPY_MAGIC):
            return [parse_npy(data)]
        raise Unfit(f"expected a zip or .npy file, found one that starts with {data[:8]!r}")
    return _read_zip(data, member)


def _read_zip(data: bytes, member: str | None) -> list[ArrayBlock]:
    with open_zip(data) as archive:
        names = archive.namelist()
        pickles = [name for name in names if name == "data.pkl" or name.endswith("/data.pkl")]
        arrays = [name for name in names if name.endswith(".npy")]
        if len(pickles) == 1 and member is None:
            return _read_pickle(unpack(archive, pickles[0], MAX_BYTES))
        if member is None and len(arrays) == 1:
            return [parse_npy(unpack(archive, arrays[0], MAX_BYTES))]
        if member is not None and f"{member}.npy" in arrays:
            return [parse_npy(unpack(archive, f"{member}.npy", MAX_BYTES))]
    if arrays and member is None:
        first = shown(arrays[0].removesuffix(".npy"))
        raise Unfit(f"expected one array, found {len(arrays)}, the first {first}; name the member to read")
    wanted = "one data.pkl" if member is None else f"the array {member!r}"
    raise Unfit(f"expected {wanted} in this zip, found {len(names)} members: {', '.join(map(shown, names[:3]))}")


def _states(blocks: list[ArrayBlock]) -> NDArray[np.float64]:
    # The blocks of a list may share their bytes, but the rows will not.
    if sum(len(block.data) for block in blocks) > MAX_BYTES:
        raise Unfit(f"expected up to {MAX_BYTES} bytes of init states, found more")
    rows = [_array(block) for block in blocks]
    if len(rows) > 1 and any(row.ndim != 1 or row.shape != rows[0].shape for row in rows):
        raise Unfit(f"expected vectors of one length in the list, found shapes {[row.shape for row in rows[:5]]}")
    states = np.stack(rows) if len(rows) > 1 else np.atleast_2d(rows[0])
    wrong = np.argwhere(~np.isfinite(states))
    if len(wrong):
        row, column = wrong[0]
        raise Unfit(f"expected finite numbers, found {states[row, column]} in state {row}, column {column}")
    return states


def _array(claimed: ArrayBlock) -> NDArray[np.float64]:
    if claimed.dtype not in ("<f8", ">f8"):
        raise Unfit(f"expected float64 (<f8), found elements of type {claimed.dtype!r}")
    if len(claimed.shape) not in (1, 2):
        raise Unfit(f"expected the shape (states, 1 + nq + nv), found {len(claimed.shape)} dimensions")
    if not all(0 < size <= MAX_BYTES for size in claimed.shape):
        raise Unfit("expected the shape (states, 1 + nq + nv), found an empty one or one that cannot be")
    return array_of(claimed)


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
        name = self.name.lstrip("<>=|") if isinstance(self.name, str) else shown(self.name)
        return f"{self.order}{name}" if self.order in ("<", ">") else name


class _Array:
    """numpy's array under reconstruction, and the state that gives its content."""

    def __init__(self, *_: object) -> None:
        self.block: ArrayBlock | None = None

    def build(self, state: tuple[object, ...]) -> None:
        _, shape, dtype, fortran_order, data = state
        if not isinstance(dtype, _Dtype):
            raise Unfit("expected an array with an element type, found none")
        if not isinstance(data, bytes):
            raise Unfit(f"expected float64 (<f8), found elements of type {dtype.text()!r} kept in {shown(data)}")
        self.block = claimed_block(shape, dtype.text(), fortran_order, data)


def _encode(text: object, encoding: object) -> bytes:
    if not isinstance(text, str) or encoding != "latin1":
        raise Unfit("expected bytes written as latin1 text")
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


def _read_pickle(data: bytes) -> list[ArrayBlock]:
    try:
        result = _interpret(data)
    except Unfit:
        raise
    except Exception as error:
        # Missing operands, arguments that do not fit: any exception means a bad file.
        raise Unfit(f"the pickle is damaged or cut off ({type(error).__name__}: {str(error)[:200]})") from error
    arrays = result if isinstance(result, list) else [result]
    blocks = [item.block for item in arrays if isinstance(item, _Array) and item.block is not None]
    if not blocks or len(blocks) != len(arrays):
        raise Unfit(f"expected an array or a list of vectors, found {type(result).__name__.lstrip('_')}")
    return blocks


def _interpret(data: bytes) -> object:
    """Run the instructions of a pickle, as far as arrays of numbers need any."""
    stack: list[object] = []
    memo: dict[object, object] = {}
    encoded = 0
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        if count == MAX_INSTRUCTIONS:
            raise Unfit(f"expected a pickle of up to {MAX_INSTRUCTIONS} instructions, found more")
        match opcode.name:
            case "PROTO" | "FRAME":
                pass
            case "GLOBAL":
                stack.append(_name(str(argument).replace(" ", ".", 1)))
            case "STACK_GLOBAL":
                attribute, module = stack.pop(), stack.pop()
                if not isinstance(module, str) or not isinstance(attribute, str):
                    raise Unfit("expected a pickle that spells the names it uses")
                stack.append(_name(f"{module}.{attribute}"))
            case "REDUCE":
                arguments, function = stack.pop(), stack.pop()
                if not isinstance(function, _Name) or function.call is None or not isinstance(arguments, tuple):
                    raise Unfit("expected a pickle that calls numpy's reconstructors only")
                stack.append(function.call(*arguments))
                # One long text can be encoded over and over.
                encoded += len(stack[-1]) if isinstance(stack[-1], bytes) else 0
                if encoded > MAX_BYTES:
                    raise Unfit(f"expected up to {MAX_BYTES} bytes of init states, found more")
            case "BUILD":
                state = stack.pop()
                if not isinstance(stack[-1], _Array | _Dtype) or not isinstance(state, tuple):
                    raise Unfit("expected a pickle that fills arrays only")
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
                    raise Unfit("expected a pickle that appends to lists only")
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
                raise Unfit(f"the pickle uses the instruction {name}, which no array of numbers needs; it is refused")
    raise Unfit("the pickle is cut off")


def _name(full: str) -> _Name:
    if full not in _NAMES:
        raise Unfit(f"the pickle names {shown(full)}, which init states do not need; it is refused and was not run")
    return _NAMES[full]


def _above_mark(stack: list[object]) -> list[object]:
    items = []
    while (item := stack.pop()) is not _MARK:
        items.append(item)
    return items[::-1]
