"""A digest of a policy in memory, which may be in the middle of its training.

Records with the same name and digest count as the same policy, and only the first of repeated episodes counts: a digest
that did not change with the weights would hide later checkpoints behind the first. If the digest is uncertain, each
call counts as a new policy.

The digest covers all that can change a policy's actions: its attributes and those of the objects it refers to, arrays
and tensors by content, classes and functions by their code and file. A part that cannot be read, such as an object of a
compiled library that cannot be pickled, raises an error: a digest without it could be equal for two policies.
"""

import copyreg
import functools
import hashlib
import logging
import random
import secrets
import sys
import threading
import types
import weakref
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np

from pytest_vla.errors import VlaError
from pytest_vla.policies.spec import module_digest
from pytest_vla.util.warnings import describe

# Read by their text; objects of other types are read by content.
_PLAIN = (type(None), bool, int, float, complex, str, bytes, range, type(...), type(NotImplemented))


# They do not affect a policy's actions.
_SILENT = (type(threading.Lock()), type(threading.RLock()), logging.Logger, logging.Handler)


_OF_C = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)


_CONTAINERS = (dict, list, tuple, set, frozenset, deque, bytearray, str, bytes, int, float, complex)


_CACHED = type(functools.lru_cache(lambda: None))


_COMPILED = (".so", ".pyd", ".dylib")


# Attributes of a package's objects that do not affect their answers: how a module is saved, loaded and trained (hooks
# of its answers are read), and the last input of a processor.
_NOT_OF_ANSWERS = {
    "torch": (
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
        "_backward_hooks",
        "_backward_pre_hooks",
    ),
    "lerobot": ("_current_transition",),
}


def content_digest(*values: Any) -> str:
    """Compute the sha256 (hex) of everything that values consist of; equal in every process that made them alike.

    Raises:
        TypeError: a part is of a kind whose content cannot be known.
        Exception: any error raised while reading a part, such as a tensor on the meta device.
    """
    reader = _Reader()
    reader.read(values)
    return reader.digest()


def array_content(value: Any) -> tuple[str, tuple[int, ...], str]:
    """Return the type, shape and sha256 (hex) of a numeric array or a tensor on any device.

    Raises:
        TypeError: it is neither.
    """
    torch = _torch_of(value)
    if torch is not None:
        flat = value.detach().cpu().contiguous().reshape(-1)
        # numpy knows no bfloat16.
        data = flat.view(torch.uint8).numpy().data
        return str(value.dtype), tuple(value.shape), hashlib.sha256(data).hexdigest()
    array = numbers_of(value)
    return str(array.dtype), array.shape, hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


def numbers_of(value: Any) -> np.ndarray[Any, Any]:
    """Return a value as a numeric array. Raises TypeError if it is not one."""
    array = np.asarray(value)
    if array.dtype.kind not in "buifc":
        raise TypeError(f"{type(value).__name__} is no array of numbers")
    return array


def is_tensor(value: Any) -> bool:
    """Whether a value is a torch tensor; torch is not imported for this."""
    return _torch_of(value) is not None


def _torch_of(value: Any) -> Any:
    """Return torch if a value is a tensor, else None."""
    torch: Any = sys.modules.get("torch")
    return torch if torch is not None and isinstance(value, torch.Tensor) else None


class _Reader:
    """A reader that visits objects once, in an order that the objects determine."""

    def __init__(self) -> None:
        self._told = hashlib.sha256()
        # The objects that were read, by identity. They are kept, since the identity of a deleted object can be reused.
        self._seen: dict[int, tuple[int, Any]] = {}
        self._modules: dict[str, bool] = {}
        self._contents: dict[tuple[Any, ...], tuple[str, tuple[int, ...], str]] = {}

    def digest(self) -> str:
        return self._told.hexdigest()

    def read(self, value: Any) -> None:
        kind = type(value)
        if value.__class__ is not kind:
            raise TypeError(f"a {kind.__qualname__} that stands for something else")
        if kind in _PLAIN:
            self._tell(kind.__name__, hashlib.sha256(value).digest() if kind is bytes else value)
        elif isinstance(value, Enum):
            self._tell("member", value.name)
            self._class(kind)
            self.read(value.value)
        elif isinstance(value, types.ModuleType):
            self._tell("module", value.__name__)
            self._module(value.__name__)
        elif kind.__module__ == "typing":
            self._tell("type", repr(value))
        elif isinstance(value, _SILENT):
            self._tell("silent", kind.__name__)
        elif isinstance(value, _OF_C):
            self._tell("of C", value.__objclass__.__module__, value.__qualname__)
        elif kind in (tuple, frozenset) or isinstance(value, np.generic | np.dtype):
            # Whether two equal ones are the same object is chance.
            self._content(value)
        elif id(value) in self._seen:
            self._tell("again", self._seen[id(value)][0])
        else:
            self._seen[id(value)] = len(self._seen), value
            self._content(value)

    def _tell(self, *words: Any) -> None:
        self._told.update(repr(words).encode(errors="surrogatepass") + b"\n")

    def _read_all(self, name: str, values: Iterable[Any]) -> None:
        """Read values under a name and with their number, so that nested lists have different digests."""
        listed = list(values)
        self._tell(name, len(listed))
        for each in listed:
            self.read(each)

    def _read_table(self, table: Mapping[Any, Any]) -> None:
        self._tell("table", len(table))
        for name, value in table.items():
            self.read(name)
            self.read(value)

    def _content(self, value: Any) -> None:
        """Read a value that is neither plain nor already seen."""
        kind = type(value)
        if isinstance(value, type):
            self._class(value)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.CodeType):
            self._code(value)
        elif isinstance(value, types.MethodType):
            self._read_all("method", (value.__func__, value.__self__))
        elif isinstance(value, types.BuiltinFunctionType | types.MethodWrapperType):
            self._tell("of C", getattr(value, "__module__", None), value.__qualname__)
            self.read(value.__self__)
        elif kind.__name__ == "cython_function_or_method":
            self._global(value, value.__qualname__)
        elif isinstance(value, property):
            self._read_all("property", (kind, value.fget, value.fset, getattr(value, "__dict__", None)))
        elif isinstance(value, staticmethod | classmethod):
            self._read_all("method of the class", (kind, value.__func__, vars(value)))
        elif isinstance(value, _CACHED):
            self._read_all("cached", (value.__wrapped__,))
        elif isinstance(value, weakref.ref):
            self._read_all("weak", (value(),))
        elif isinstance(value, types.MappingProxyType):
            self._read_table(value)
        elif isinstance(value, PurePath):
            self._tell(kind.__name__, str(value))
        elif kind is random.Random:
            self._read_all("random", value.getstate())
        elif self._is_array(value):
            self._array(value)
        else:
            self._object(value)

    def _is_array(self, value: Any) -> bool:
        if type(value) in (np.ndarray, np.memmap):
            return True
        torch = _torch_of(value)
        if torch is not None:
            # Of another class it may be a cover for tensors that cannot be seen.
            if type(value) not in (torch.Tensor, getattr(getattr(torch, "nn", None), "Parameter", None)):
                raise TypeError(f"a tensor of the class {type(value).__qualname__}")
            return True
        return type(value).__module__.partition(".")[0] in ("jax", "jaxlib") and hasattr(value, "__array__")

    def _array(self, value: Any) -> None:
        if isinstance(value, np.ndarray) and value.dtype == object:
            self._tell("array", value.shape)
            self._read_all("objects", value.ravel().tolist())
            return
        place = _place(value)
        found = self._contents.get(place) if place else None
        if found is None:
            found = array_content(value)
            if place:
                self._contents[place] = found
        self._tell("array", *found)
        if type(value) is not np.memmap and getattr(value, "__dict__", None):
            self._read_table(vars(value))

    def _object(self, value: Any) -> None:
        """Read attributes, slots, and the parts that the object's class stores elsewhere."""
        kind = type(value)
        self._tell("object")
        self._whole_class(kind)
        # Of others, such as aliases of types, it is that of something else. It may be made here, which is pickled then.
        attributes = value.__dict__ if kind.__dictoffset__ else {}
        if isinstance(value, _CONTAINERS):
            self._contained(value)
        elif _keeps_elsewhere(kind):
            # Attributes are read as well: an array of a class of one's own is pickled without them.
            self._pickled(value)
        packages = {base.__module__.partition(".")[0] for base in kind.__mro__}
        without = {name for package in packages for name in _NOT_OF_ANSWERS.get(package, ())}
        self._read_table({name: each for name, each in attributes.items() if name not in without})
        for name, slot in _slots(kind):
            try:
                found = slot.__get__(value, kind)
            except AttributeError:
                continue
            self._tell("slot", name)
            self.read(found)

    def _contained(self, value: Any) -> None:
        if isinstance(value, dict):
            self._read_table(dict(dict.items(value)))
            if isinstance(value, defaultdict):
                self.read(value.default_factory)
        elif isinstance(value, set | frozenset):
            # In the order of their digests, since the order of a set is random.
            self._tell("set", sorted(content_digest(each) for each in value))
        elif isinstance(value, deque):
            self._tell("at most", value.maxlen)
            self._read_all("items", deque.__iter__(value))
        elif isinstance(value, list | tuple):
            of = list if isinstance(value, list) else tuple
            self._read_all("items", of.__iter__(value))  # type: ignore[arg-type]
        else:
            of_it = next(each for each in _CONTAINERS if isinstance(value, each))
            self._tell("as", of_it.__name__, of_it.__repr__(value))

    def _pickled(self, value: Any) -> None:
        """Read the values that pickle would rebuild an object of a C class from.

        Raises:
            TypeError: the class gives no such values, or possibly only some of them.
        """
        kind = type(value)
        ways = (kind.__reduce_ex__, kind.__reduce__, getattr(kind, "__getstate__", None))
        if any(isinstance(each, types.FunctionType) for each in ways):
            raise TypeError(f"an object of {kind.__module__}.{kind.__qualname__}, which may keep something to itself")
        reduce = copyreg.dispatch_table.get(kind)
        made_of: Any = value.__reduce_ex__(4) if reduce is None else reduce(value)
        if isinstance(made_of, str):
            self._global(value, made_of)
            return
        called, arguments, state, items, table = (*made_of, None, None, None)[:5]
        self._read_all("made of", (called, arguments, state, list(items or ()), list(table or ())))

    def _global(self, value: Any, name: str) -> None:
        """Read the name of a value in a C module. Raises TypeError if the module has a different value there."""
        module = getattr(value, "__module__", None) or type(value).__module__
        if _named(module, name) is not value:
            raise TypeError(f"{name}, which is not in {module}")
        self._tell("named", module, name)

    def _function(self, value: types.FunctionType) -> None:
        home = value.__globals__.get("__name__", "")
        self._tell("function", home, value.__qualname__)
        self._module(home)
        self._code(value.__code__)
        self._read_all("defaults", (value.__defaults__, value.__kwdefaults__))
        # What it was made with, such as the numbers of a closure.
        for cell in value.__closure__ or ():
            try:
                self._read_all("cell", (cell.cell_contents,))
            except ValueError:
                self._tell("empty cell")
        self._read_table(vars(value))

    def _code(self, code: types.CodeType) -> None:
        self._tell("code", code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_flags)
        self._read_all("constants", code.co_consts)

    def _class(self, kind: type) -> None:
        """Read a class by its name if it can be imported by it, otherwise by its content."""
        if _named(kind.__module__, kind.__qualname__) is kind:
            self._tell("class", kind.__module__, kind.__qualname__)
            self._module(kind.__module__)
        else:
            self._whole_class(kind)

    def _whole_class(self, kind: type) -> None:
        """Read a class and its bases by content: methods and attributes."""
        for each in kind.__mro__[:-1]:
            key = -id(each)
            self._tell("class", each.__module__, each.__qualname__)
            if key in self._seen:
                self._tell("again", self._seen[key][0])
                continue
            self._seen[key] = len(self._seen), each
            if not self._module(each.__module__):
                continue
            for name, value in vars(each).items():
                is_named = name.startswith("__") and name.endswith("__") and not callable(value)
                if is_named or name in ("__class__", "_abc_impl") or _is_of_namedtuple(value):
                    continue
                self._tell("of the class", name)
                self.read(value)

    def _module(self, name: str) -> bool:
        """Read a module's file and the version of its package; return whether it is written in Python.

        Raises:
            TypeError: the module's code cannot be known, as in a notebook.
        """
        if name not in self._modules:
            top = name.partition(".")[0]
            package = sys.modules.get(top)
            version = getattr(package, "__version__", None)
            file = getattr(sys.modules.get(name), "__file__", None) or ""
            found = None if file.endswith(_COMPILED) else module_digest(name)
            known = found or top in sys.stdlib_module_names - {"__main__"} or getattr(package, "__file__", None)
            if not known or (name == "__main__" and not found):
                raise TypeError(f"{name} has no file")
            self._tell("module", name, found, version if isinstance(version, str) else None)
            self._modules[name] = found is not None
        return self._modules[name]


def _named(module: str | None, name: str) -> Any:
    found: Any = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _slots(kind: type) -> list[tuple[str, Any]]:
    slotted = [base for base in kind.__mro__ if "__slots__" in vars(base)]
    found = [(name, each) for base in slotted for name, each in vars(base).items()]
    return [(name, each) for name, each in found if isinstance(each, types.MemberDescriptorType)]


def _keeps_elsewhere(kind: type) -> bool:
    """Whether objects of a C class have parts that are neither attributes nor slots; pickle uses the same test."""
    pointers = len(_slots(kind)) + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return bool(kind.__itemsize__) or kind.__basicsize__ > object.__basicsize__ + 8 * pointers


def _is_of_namedtuple(value: Any) -> bool:
    """Whether a value is the generated ``__new__`` of a namedtuple, which follows from the fields."""
    return isinstance(value, types.FunctionType) and value.__globals__.get("__name__", "").startswith("namedtuple_")


def _place(value: Any) -> tuple[Any, ...] | None:
    """Return the memory location of an array's numbers, so that weights with several names are read once."""
    if isinstance(value, np.ndarray):
        pointer = value.__array_interface__["data"][0]
        return pointer, str(value.dtype), value.shape, value.strides
    if not hasattr(value, "data_ptr"):
        return None
    # Views that are conjugate or negative share a place with what is not.
    flags = [getattr(value, name)() for name in ("is_conj", "is_neg") if hasattr(value, name)]
    return value.data_ptr(), str(value.dtype), tuple(value.shape), value.stride(), str(value.device), *flags


_LONGEST = 200


def live_digest(policy: object, given: object = None) -> str:
    """Return the digest for the records of a policy in memory.

    Args:
        policy: the policy.
        given: a text that identifies the weights in memory; arrays or tensors by name, which are hashed; a
            torch module, which is hashed completely; or None. With None, a policy that has its weights as an
            attribute ``weights``, or that is a torch module, is hashed completely, see `content_digest`; any
            other policy is identified by its text ``digest`` alone, which it must keep up to date. If there is
            no such text, or a part cannot be read, the digest is a random text that no other call gets.

    Raises:
        VlaError: `given` is none of these.
    """
    if isinstance(given, str):
        if not given.strip() or len(given) > _LONGEST or not given.isprintable():
            expected = f"expected a text of 1 to {_LONGEST} printable characters"
            raise VlaError(f"evaluate: digest is {given!r:.60}, {expected}")
        return given
    if given is not None and not is_torch_module(given):
        try:
            return weights_digest(given)
        except Exception as error:
            expected = "expected a text, a torch module, or arrays or tensors by name"
            raise VlaError(f"evaluate: digest is {type(given).__name__}, {expected}: {describe(error)}") from error
    try:
        if given is not None:
            return content_digest(given)
        weights = getattr(policy, "weights", None)
        if weights is not None or is_torch_module(policy):
            shown = weights if weights is None or is_torch_module(weights) else _by_name(weights)
            return content_digest(policy, shown, getattr(policy, "digest", None))
    except Exception:
        # A part cannot be read, so whether it changes is not known.
        return secrets.token_hex(32)
    own = getattr(policy, "digest", None)
    return own if isinstance(own, str) and own else secrets.token_hex(32)


def weights_digest(weights: Any) -> str:
    """Compute the sha256 (hex) over names, types, shapes and content of weights on any device.

    Args:
        weights: arrays or tensors by name, or an object with a ``state_dict``.

    Raises:
        TypeError: `weights` is something else, or contains something else.
    """
    table = _by_name(weights)
    content = hashlib.sha256()
    for name in sorted(table, key=str):
        content.update(repr((str(name), *array_content(table[name]))).encode())
    return content.hexdigest()


def _by_name(weights: Any) -> dict[Any, Any]:
    """Return weights as a table. Raises TypeError if they are not weights by name."""
    table = weights.state_dict() if hasattr(weights, "state_dict") else weights
    if not isinstance(table, Mapping) or not table:
        raise TypeError(f"{type(weights).__name__} has no weights by name")
    for value in table.values():
        if not is_tensor(value):
            numbers_of(value)
    return dict(table)


def is_torch_module(policy: object) -> bool:
    """Whether a policy is a ``torch.nn.Module``; torch is not imported for this."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and hasattr(torch, "nn") and isinstance(policy, torch.nn.Module)
