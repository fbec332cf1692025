"""Machine code of functions that numba compiles: made once, by one process, and stored under a hash of its inputs.

numba's own cache applies to one processor and one location of the source, and every process that misses it compiles:
all workers of a run at once. Here code is compiled for a pinned target, any processor of the architecture, by a process
of its own, while others wait. It is searched for in the code shipped with the package (`SHIPPED`, made when the wheel
is built) and in the machine's own folder, ``machine_code`` beside the compiled scenes. Code for another Python, numba
or processor architecture, or from a changed source, has a different name, and is not found. Code is unpickled, as in
numba's own cache: a folder that other users may write is not read. If none can be made, numba compiles in the process
that needs it.
"""

import contextlib
import hashlib
import importlib
import inspect
import os
import pickle
import subprocess
import sys
import sysconfig
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.util.files import USER, cache_folder, exclusive, is_trusted, trusted_content, whole_file
from pytest_vla.util.live_line import preparing

SHIPPED = Path(__file__).parents[1] / "compiled"
"""Code that came with the package. It is as trusted as the package's sources beside it."""

SUFFIX = ".code"

_FORMAT = "pytest-vla machine code 1"
# The target is any processor of the architecture: SSE2 on x86-64. Results do not depend on it, since LLVM neither
# reorders nor fuses here; Intel's vector functions, which round differently, are disabled.
_TARGET = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_DISABLE_INTEL_SVML": "1"}
_COMPILE = "import sys; from pytest_vla.util.machine_code import compile_here; compile_here(*sys.argv[1:])"

# The most files of one function and signature in one folder.
_KEPT_AT_MOST = 8

_compiling = False
_kept: dict[str, "_Kept"] = {}


@dataclass(frozen=True, eq=False)
class MachineCode:
    """Machine code of one function for one signature.

    Attributes:
        module: the dotted name of the module that called `keep`.
        function: the function's name.
        number: the index of the signature, from 0.
        about: what the function does, for the line about its compilation.
        signature: numba's types of its arguments.
        sources: the source files that the code is compiled from.
        dispatcher: numba's dispatcher.
    """

    module: str
    function: str
    number: int
    about: str
    signature: tuple[Any, ...]
    sources: tuple[Path, ...]
    dispatcher: Any

    @property
    def name(self) -> str:
        """The name by which other processes find it."""
        return f"{self.module}:{self.function}:{self.number}"

    @cached_property
    def key(self) -> str:
        """A hash (64 hex digits) of everything that the code depends on. Raises OSError if a source cannot be read."""
        import llvmlite
        import numba
        import numpy as np

        parts = [
            *(_FORMAT, self.name, str(self.signature), llvmlite.binding.get_process_triple(), *_TARGET.values()),
            *(str(sys.implementation.cache_tag), str(sysconfig.get_config_var("EXT_SUFFIX"))),
            # numba's implementation of numpy's functions depends on numpy's minor version.
            *(numba.__version__, llvmlite.__version__, *np.__version__.split(".")[:2]),
            *(hashlib.sha256(path.read_bytes()).hexdigest() for path in self.sources),
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    @property
    def file(self) -> str:
        """The name of its file. Raises OSError if a source cannot be read."""
        return f"{self.function}-{self.number}-{self.key[:32]}{SUFFIX}"


def keep(
    module: str, function: Any, signatures: Iterable[Sequence[Any]], *, about: str, uses: Sequence[Any] = ()
) -> Any:
    """Return the jitted function unchanged, after registering it so that its machine code is shipped or cached.

    Called with arguments of other types, it is compiled by numba as usual, in the calling process.

    Args:
        module: the caller's own ``__name__``.
        function: a dispatcher of numba, which may be from another module.
        signatures: for each, numba's types of all arguments.
        about: what it does, such as ``the native step``.
        uses: dispatchers of other modules that are compiled into it.
    """
    if hasattr(function, "_cache"):
        kept = _Kept(module, function, signatures, about, uses)
        function._cache = _kept[f"{module}:{function.py_func.__name__}"] = kept
    # Without _cache numba is disabled, or has a different kind of cache, and code cannot be stored.
    return function


def codes(function: Any) -> tuple[MachineCode, ...]:
    """Return the registered codes of a function, in the order of its signatures; empty if numba is disabled."""
    kept = getattr(function, "_cache", None)
    return kept.codes if isinstance(kept, _Kept) else ()


def codes_of(module: str) -> tuple[MachineCode, ...]:
    """Import a module, and return all codes that it registers."""
    importlib.import_module(module)
    return tuple(code for kept in _kept.values() for code in kept.codes if code.module == module)


def make_ready(wanted: Sequence[MachineCode]) -> None:
    """Load code into this process; missing code is compiled first, by one process, or by this one if that fails."""
    missing = [code for code in wanted if code.signature not in code.dispatcher.overloads]
    lacking = make(missing)
    with preparing(f"compiling {_about(lacking)} in this process") if lacking else contextlib.nullcontext():
        for code in missing:
            code.dispatcher.compile(code.signature)


def make(wanted: Sequence[MachineCode]) -> list[MachineCode]:
    """Compile missing code in a separate process, one at a time on this machine, and return the code still missing.

    Code stays missing if no process can be started, no folder can be written, or numba refuses.
    """
    missing = _missing(wanted)
    folder = _folder_to_write() if missing else None
    if folder is None:
        return missing
    began, failure = time.time(), folder / "failed"
    # Nothing is loaded under the lock: waiting processes would wait for that too, one after the other.
    with preparing(f"compiling {_about(missing)}, once on this machine"), exclusive(folder / "compiling.lock"):
        still = _missing(missing)
        if still and not _newer(failure, began) and not _start_compiler(folder, still):
            # Waiting processes need not try again.
            with contextlib.suppress(OSError):
                failure.touch()
    return _missing(missing)


def require(wanted: Sequence[MachineCode]) -> None:
    """Compile missing code as `make` does. Raises VlaError if some cannot be compiled."""
    if lacking := make(wanted):
        names = ", ".join(code.name for code in lacking)
        raise VlaError(
            f"cannot compile {names}: numba must work, and {next(_folders())} must be writable. PYTEST_VLA_CACHE sets "
            "another folder"
        )


def ship(wanted: Sequence[MachineCode], folder: Path) -> None:
    """Copy code into a folder, compiling missing code first, and remove other code from it. Raises VlaError."""
    require(wanted)
    folder.mkdir(parents=True, exist_ok=True)
    for code in wanted:
        if (payload := _read(code)) is not None:
            _write(folder / code.file, code, payload)
    names = {code.file for code in wanted}
    for other in folder.glob(f"*{SUFFIX}"):
        if other.name not in names:
            other.unlink()


def held() -> dict[Path, tuple[int, int]]:
    """Return the number of files and of bytes, for each of this machine's folders that has machine code."""
    sizes: dict[Path, list[int]] = {}
    for path in _own_files():
        sizes.setdefault(path.parent, []).append(path.stat().st_size)
    return {folder: (len(each), sum(each)) for folder, each in sizes.items()}


def clear() -> int:
    """Remove the machine code in this machine's folders, and return the number of freed bytes."""
    freed = 0
    for path in _own_files():
        with contextlib.suppress(OSError):
            size = path.stat().st_size
            path.unlink()
            freed += size
    return freed


def compile_here(folder: str, *names: str) -> None:
    """Compile code by its names, and write it into a folder; the entry point of the compiling process.

    Raises VlaError: the target is not the pinned one, the code cannot be kept, or the folder cannot be written.
    """
    global _compiling
    from numba import config

    processor, features = config.CPU_NAME, config.CPU_FEATURES
    if (processor, features) != (_TARGET["NUMBA_CPU_NAME"], _TARGET["NUMBA_CPU_FEATURES"]):
        raise VlaError(f"numba compiles for {processor!r} with {features!r}: expected {_TARGET['NUMBA_CPU_NAME']}")
    _compiling = True
    for name in names:
        module, function, number = name.split(":")
        importlib.import_module(module)
        code = _kept[f"{module}:{function}"].codes[int(number)]
        _write(Path(folder) / code.file, code, _compiled(code))
        # Files of older sources and other environments; each has some 100 kB.
        others = sorted(Path(folder).glob(f"{code.function}-{code.number}-*{SUFFIX}"), key=os.path.getmtime)
        for other in others[:-_KEPT_AT_MOST]:
            other.unlink(missing_ok=True)


class _Kept:
    """The replacement of numba's cache for one function (`numba.core.caching._Cache`)."""

    def __init__(
        self, module: str, dispatcher: Any, signatures: Iterable[Sequence[Any]], about: str, uses: Sequence[Any]
    ) -> None:
        functions = [each.py_func for each in (dispatcher, *uses)]
        sources = tuple(dict.fromkeys(Path(inspect.getfile(each)) for each in functions))
        self.codes = tuple(
            MachineCode(module, functions[0].__name__, number, about, tuple(signature), sources, dispatcher)
            for number, signature in enumerate(signatures)
        )
        # numba's own cache, for other types of arguments.
        self._others = dispatcher._cache

    @property
    def cache_path(self) -> Any:
        return self._others.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return numba's compile result, or None to let numba compile."""
        code = self._code(sig)
        if code is None:
            return self._others.load_overload(sig, target_context)
        if _compiling:
            return None
        make([code])
        payload = _read(code)
        if payload is None:
            return None
        from numba.core.compiler import CompileResult

        target_context.refresh()
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(zlib.decompress(payload)))
        except Exception:
            # If this numba rejects the code, it compiles.
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save nothing for registered signatures: code compiled here is for this processor only."""
        if self._code(sig) is None:
            self._others.save_overload(sig, data)

    def enable(self) -> None:
        self._others.enable()

    def disable(self) -> None:
        self._others.disable()

    def flush(self) -> None:
        self._others.flush()

    def _code(self, sig: Any) -> MachineCode | None:
        types = tuple(getattr(sig, "args", sig))
        return next((code for code in self.codes if code.signature == types), None)


def _compiled(code: MachineCode) -> bytes:
    from numba.core.serialize import dumps

    code.dispatcher.compile(code.signature)
    result = code.dispatcher.overloads[code.signature]
    if result.lifted or result.library.has_dynamic_globals:
        raise VlaError(f"{code.name}: its machine code holds addresses of this process")
    return zlib.compress(dumps(result._reduce()))


def _write(path: Path, code: MachineCode, payload: bytes) -> None:
    with whole_file(path) as file:
        file.write(_head(code) + hashlib.sha256(payload).digest() + payload)
    path.chmod(0o644)


def _head(code: MachineCode) -> bytes:
    return f"{_FORMAT}\n{code.key}\n".encode()


def _read(code: MachineCode) -> bytes | None:
    """Return the stored code, or None if no whole, trusted file for this code exists."""
    try:
        name, head = code.file, _head(code)
    except OSError:
        # Without a source the code cannot be verified.
        return None
    for folder in (SHIPPED, *_folders()):
        content = _content(folder / name) if folder == SHIPPED or is_trusted(folder) else b""
        digest, payload = content[len(head) : len(head) + 32], content[len(head) + 32 :]
        if content.startswith(head) and hashlib.sha256(payload).digest() == digest:
            return payload
    return None


def _content(path: Path) -> bytes:
    """Return a file's content, or nothing if it is missing or writable by other users."""
    if path.parent != SHIPPED:
        return trusted_content(path)
    # A package's files may be links.
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


def _about(wanted: Iterable[MachineCode]) -> str:
    return " and ".join(dict.fromkeys(code.about for code in wanted))


def _missing(wanted: Iterable[MachineCode]) -> list[MachineCode]:
    return [code for code in wanted if _read(code) is None]


def _folders() -> Iterator[Path]:
    """Yield the machine's code folders: the shared one, this user's, and a temporary one."""
    with contextlib.suppress(VlaError):
        yield cache_folder() / "machine_code"
        yield cache_folder() / f"machine_code-{USER}"
    with contextlib.suppress(OSError):
        yield Path(tempfile.gettempdir()) / f"pytest-vla-machine_code-{USER}"


def _own_files() -> list[Path]:
    return [path for folder in _folders() if is_trusted(folder) for path in folder.glob(f"*{SUFFIX}")]


def _folder_to_write() -> Path | None:
    """Return the first folder that exists or can be created, is trusted and is writable, or None."""
    for folder in _folders():
        with contextlib.suppress(OSError):
            folder.parent.mkdir(parents=True, exist_ok=True)
            folder.mkdir(mode=0o755, exist_ok=True)
            if is_trusted(folder) and os.access(folder, os.W_OK):
                return folder
    return None


def _newer(path: Path, moment: float) -> bool:
    try:
        return path.stat().st_mtime >= moment
    except OSError:
        return False


def _start_compiler(folder: Path, wanted: Sequence[MachineCode]) -> bool:
    """Compile in a new process, wait for it, and return whether it succeeded.

    A separate process has the pinned target whatever numba's settings are here, and frees its memory.
    """
    environ = {
        name: text for name, text in os.environ.items() if not name.startswith("NUMBA_") and name != "PYTHONWARNINGS"
    }
    environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-P", "-c", _COMPILE, str(folder), *(code.name for code in wanted)]
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(prefix="pytest-vla-numba-") as private:
        # A private folder for numba's other compilations. Nothing is drawn.
        environ |= _TARGET | {"NUMBA_CACHE_DIR": private, "MUJOCO_GL": "disable"}
        done = subprocess.run(command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        return done.returncode == 0
    return False
