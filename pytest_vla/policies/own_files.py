"""The user's own files that a policy is made of: modules of the project that it imports, and files that it reads.

The digest of a policy that has none of its own (`Policy.digest`) is made of them. Modules, and weights and settings
whose names stand in them, are found by reading the modules' text, so that the same files are found in a worker, in the
policy's process and in pytest itself, whatever was imported there before. Other files are those that Python opens while
the policy loads. What neither shows: a module or a file under a computed name that was read before, later, or by a
compiled library. So equal digests mean that these files are equal, not that the policy is.
"""

import ast
import hashlib
import json
import os
import re
import site
import sys
import sysconfig
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NamedTuple

from pytest_vla.policies.spec import ModelSpec, file_digest

_WEIGHTS = (".bin", ".ckpt", ".gguf", ".h5", ".npy", ".npz", ".onnx", ".pkl", ".pt", ".pth", ".safetensors")
"""The endings of files that count wherever they lie; others count inside the project only."""

_NAMED = (".bin", ".ckpt", ".gguf", ".h5", ".onnx", ".pt", ".pth", ".safetensors", ".toml", ".yaml", ".yml")
"""The endings of files that count if a module names them: what a policy reads and, as a rule, does not write."""

_WRITING = re.compile(r"save|dump|write|to_|imwrite|mimsave")
"""How the names of functions begin that write a file: what is named for them is no part of the policy."""

_CODE = (".py", ".pyc", ".pyi", ".so", ".pyd", ".nbi", ".nbc")

# Of a project's top folder.
_MARKS = (".git", "pyproject.toml", "setup.py", "setup.cfg", "pytest.ini", "tox.ini")

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
    # A memory map opens its file as "rb+", and reads it.
    changes = os.O_WRONLY | os.O_TRUNC | os.O_CREAT | os.O_APPEND
    writes = not mode.startswith("r") if isinstance(mode, str) else isinstance(flags, int) and bool(flags & changes)
    for read, written in list(_noting):
        (written if writes else read).add(Path(name))


def own_files_digest(spec: ModelSpec, module: object) -> str | None:
    """Return the sha256 (hex) over a loaded policy's own files, or None if its module is None or has no file.

    It is that of the module's file if there are no others.
    """
    place = getattr(module, "__file__", None)
    if not isinstance(place, str):
        return None
    name, file = str(getattr(module, "__name__", "")), Path(os.path.abspath(place))
    modules = own_modules(name, file, spec.folder)
    root = _root_of(name, file)
    project = next((each for each in (root, *root.parents) if any((each / mark).exists() for mark in _MARKS)), root)
    read = {each for each in _read.get((spec.text, spec.folder), ()) if _is_data(each, project)}
    for each in modules.values():
        read |= _named_files(each, (each.parent, root, spec.folder))
    # Two files of one name, in two folders outside of the project, are two entries.
    data = sorted((_name(each, root), str(file_digest(each))) for each in read)
    first = file_digest(modules.pop(name))
    others = {name: file_digest(each) for name, each in modules.items()}
    if first is None or not (others or data):
        return first
    return hashlib.sha256(json.dumps([first, others, data], sort_keys=True).encode()).hexdigest()


def _root_of(name: str, file: Path) -> Path:
    """Return the folder that holds a module's top package, or the module itself."""
    parts = name.count(".") + (file.name == "__init__.py")
    return file.parents[min(parts, len(file.parents) - 1)]


def _named_files(module: Path, folders: Sequence[Path]) -> set[Path]:
    """Return the files whose names stand in a module, except in calls that write, as found from one of the folders."""
    found = set()
    for name in _contents(module).names:
        for folder in folders:
            # A text need not be a path at all.
            with suppress(OSError, ValueError):
                if (folder / name).is_file():
                    found.add(Path(os.path.abspath(folder / name)))
                    break
    return found


class _Contents(NamedTuple):
    """The imports of a module, each with its level and the names that it takes, and the files that it names."""

    imports: tuple[tuple[int, str, tuple[str, ...]], ...]
    names: frozenset[str]


def _contents(file: Path) -> _Contents:
    """Return the contents of a module, empty for a compiled one and for one that cannot be read."""
    try:
        about = file.stat()
        return _parsed(file, about.st_mtime_ns, about.st_size) if file.suffix == ".py" else _Contents((), frozenset())
    except (OSError, SyntaxError, ValueError):
        return _Contents((), frozenset())


@lru_cache(4096)
def _parsed(file: Path, mtime: int, size: int) -> _Contents:
    imports, names = list[tuple[int, str, tuple[str, ...]]](), set[str]()
    todo: list[tuple[ast.AST, bool]] = [(ast.parse(file.read_bytes()), True)]
    while todo:
        node, counts = todo.pop()
        if isinstance(node, ast.Import):
            imports += [(0, alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports.append((node.level, node.module or "", tuple(alias.name for alias in node.names)))
        elif isinstance(node, ast.Call):
            first = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
            if _called(node) in ("import_module", "__import__") and isinstance(first, str):
                imports.append((0, first, ()))
            counts = counts and not _writes(node)
        elif isinstance(node, ast.Constant) and counts and isinstance(node.value, str):
            names |= {node.value} if node.value.lower().endswith(_NAMED) else set()
        todo += [(child, counts) for child in ast.iter_child_nodes(node)]
    return _Contents(tuple(imports), frozenset(names))


def _writes(call: ast.Call) -> bool:
    """Whether a call writes a file, by its function's name or by the mode in which it opens one."""
    modes = [each.value for each in [*call.args, *(k.value for k in call.keywords)] if isinstance(each, ast.Constant)]
    opens = _called(call) == "open" and any(str(mode)[:1] in ("w", "a", "x") and len(str(mode)) < 4 for mode in modes)
    return opens or bool(_WRITING.match(_called(call)))


def _called(call: ast.Call) -> str:
    """Return the last part of the name that is called, or an empty text."""
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _name(file: Path, root: Path) -> str:
    """Return a data file's name that is equal on another machine: from the policy's folder, or its last two parts."""
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else "/".join(file.parts[-2:])


def _is_data(file: Path, project: Path) -> bool:
    inside = file.is_relative_to(project)
    parts = file.relative_to(project).parts if inside else ()
    if inside and not any(part.startswith(".") or part == "__pycache__" for part in parts):
        return file.is_file() and not is_installed(file)
    return file.suffix.lower() in _WEIGHTS and file.is_file() and not is_installed(file)


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
        if other is not None and (name.partition(".")[0] == package or not is_installed(other)):
            found[name] = other
            todo += _imports(other, name)
    return found


def _imports(file: Path, name: str) -> Iterable[str]:
    """Yield the names of all modules that a file may import, also inside functions."""
    package = name if file.name == "__init__.py" else name.rpartition(".")[0]
    for level, module, taken in _contents(file).imports:
        base = package.split(".")[: len(package.split(".")) - level + 1] if level else []
        start = ".".join([*base, *([module] if module else [])])
        if start:
            yield from _with_parents(start)
            yield from (f"{start}.{each}" for each in taken)


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


def is_installed(file: Path) -> bool:
    """Whether a file belongs to Python, to an installed package, or to pytest-vla."""
    in_library = {"site-packages", "dist-packages"} & {*file.parts}
    return bool(in_library) or any(file.is_relative_to(place) for place in _installed_places())


@cache
def _installed_places() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    places = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    places |= {*site.getsitepackages(), site.getusersitepackages(), str(Path(__file__).parents[1])}
    return tuple(sorted({Path(os.path.abspath(place)) for place in places} | {Path(each).resolve() for each in places}))
