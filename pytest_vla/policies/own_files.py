"""The user's own files that a policy is made of: modules of the project that it imports, and files read as it loads.

The digest of a policy that has none of its own (`Policy.digest`) is made of them. They are found by reading the imports
of the policy's module, so that the same files are found in a worker, in the policy's process and in pytest itself,
whatever else is imported there. What they cannot show: a module imported under a computed name, and a file that is read
after loading, or by a compiled library. So equal digests mean that these files are equal, not that the policy is.
"""

import ast
import hashlib
import json
import os
import site
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from pytest_vla.policies.spec import ModelSpec, file_digest

_WEIGHTS = (".bin", ".ckpt", ".gguf", ".h5", ".npy", ".npz", ".onnx", ".pkl", ".pt", ".pth", ".safetensors")
"""The endings of files that count wherever they lie; others count inside the project only."""

_CODE = (".py", ".pyc", ".pyi", ".so", ".pyd", ".nbi", ".nbc")

# What was read while a policy was loaded. Its module may be imported already when it is loaded again.
_read: dict[tuple[str, Path], set[Path]] = {}
_noting: list[tuple[set[Path], set[Path]]] = []
_lock = threading.Lock()


@contextmanager
def reads_noted(spec: ModelSpec) -> Iterator[None]:
    """Note the files that this process opens to read within the block, as those of a policy."""
    _hook()
    read, written = set[Path](), set[Path]()
    with _lock:
        _noting.append((read, written))
    try:
        yield
    finally:
        with _lock:
            _noting.remove((read, written))
            _read.setdefault((spec.text, spec.folder), set()).update(read - written)


@cache
def _hook() -> None:
    # A hook cannot be removed; without a block above it costs a comparison.
    sys.addaudithook(_heard)


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    if not _noting or event != "open":
        return
    path, mode, flags = arguments
    if not isinstance(path, str | bytes):
        return
    name = os.path.abspath(os.fsdecode(path))
    if name.endswith(_CODE):
        return
    writes = bool(int(flags) & (os.O_WRONLY | os.O_RDWR)) if isinstance(flags, int) else mode not in ("r", "rb", None)
    for read, written in list(_noting):
        (written if writes else read).add(Path(name))


def own_files_digest(spec: ModelSpec, module: object) -> str | None:
    """Return the sha256 (hex) over a loaded policy's own files, or None if its module is None or has no file.

    It is that of the module's file if there are no others.
    """
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return None
    name, folder = str(getattr(module, "__name__", "")), spec.folder
    modules = own_modules(name, Path(os.path.abspath(file)), folder)
    first = file_digest(modules.pop(name))
    others = {name: file_digest(file) for name, file in modules.items()}
    data = {
        _name(file, folder): file_digest(file) for file in _read.get((spec.text, folder), ()) if _is_data(file, folder)
    }
    if first is None or not (others or data):
        return first
    return hashlib.sha256(json.dumps([first, others, data], sort_keys=True).encode()).hexdigest()


def _name(file: Path, folder: Path) -> str:
    """Return a data file's name that is equal on another machine: from the project, or its last part."""
    return file.relative_to(folder).as_posix() if file.is_relative_to(folder) else file.name


def _is_data(file: Path, folder: Path) -> bool:
    inside = file.is_relative_to(folder)
    parts = file.relative_to(folder).parts if inside else ()
    if inside and not any(part.startswith(".") or part == "__pycache__" for part in parts):
        return file.is_file() and not _is_installed(file)
    return file.suffix.lower() in _WEIGHTS and file.is_file() and not _is_installed(file)


def own_modules(module: str, file: Path, folder: Path) -> dict[str, Path]:
    """Return the files, by name, of a module and of all modules of the user's that it imports, also indirectly.

    Modules of installed packages are left out, except for those of the module's own package.
    """
    found = {module: file}
    package = module.partition(".")[0]
    todo = [*_imports(file, module)]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        other, _ = _found(name, folder)
        if other is not None and (name.partition(".")[0] == package or not _is_installed(other)):
            found[name] = other
            todo += _imports(other, name)
    return found


def _imports(file: Path, name: str) -> Iterable[str]:
    """Yield the names of all modules that a file may import, also inside functions; empty for compiled modules."""
    if file.suffix != ".py":
        return
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            if start:
                yield from _with_parents(start)
                yield from (f"{start}.{alias.name}" for alias in node.names)


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[: end + 1]) for end in range(len(parts)))


def _found(name: str, folder: Path) -> tuple[Path | None, Sequence[str]]:
    """Return a module's file and the folders of its submodules, without importing it."""
    loaded = sys.modules.get(name)
    if loaded is not None:
        file = getattr(loaded, "__file__", None)
        return Path(os.path.abspath(file)) if isinstance(file, str) else None, list(getattr(loaded, "__path__", ()))
    parent = name.rpartition(".")[0]
    places = _found(parent, folder)[1] if parent else [str(folder), *sys.path]
    try:
        spec = PathFinder.find_spec(name, places) if places else None
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        return None, ()
    file = os.path.abspath(spec.origin) if spec.has_location and spec.origin else None
    return Path(file) if file else None, list(spec.submodule_search_locations or ())


def _is_installed(file: Path) -> bool:
    """Whether a file belongs to Python, to an installed package, or to pytest-vla."""
    return any(file.is_relative_to(place) for place in _installed_places())


@cache
def _installed_places() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    places = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[1])}
    return tuple(sorted({Path(os.path.abspath(place)) for place in places} | {Path(each).resolve() for each in places}))
