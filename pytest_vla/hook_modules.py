"""The modules with our hooks: pytest-vla's rooms, installed packages, a project's ``conftest.py``, modules of ``-p``.

Nothing is searched before a hook is needed, so that a project that runs no episode pays nothing.
"""

import functools
import hashlib
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, TypeVar, cast

import pluggy

from pytest_vla import hookspecs
from pytest_vla.errors import VlaError
from pytest_vla.util.text import did_you_mean
from pytest_vla.util.warnings import describe

GROUP = "pytest_vla"
"""The entry-point group of installed packages: each entry names a module with hooks."""

NO_ENTRY_POINTS = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
"""pytest's variable: where it is set, only modules named by ``-p`` add something."""

OURS = "pytest-vla"
"""How the origins of our own rooms begin."""

_CONFTEST = "conftest"
_TESTING = "pytest_vla.testing"

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class HookFunction:
    """A plugin's function for a hook, with the plugin and its origin."""

    origin: str
    giver: object
    function: Callable[..., Any]
    arguments: tuple[str, ...]


def functions_of(hook: str) -> Iterator[HookFunction]:
    """Yield the functions for a hook, from pytest-vla's own rooms, installed packages, ``-p`` and pytest's plugins."""
    manager, origins = _own_manager()
    known: set[object] = set()
    for implementation in getattr(manager.hook, hook).get_hookimpls():
        known.add(_same(implementation.plugin))
        yield _plugin(implementation, hook, origins[implementation.plugin_name])
    for adopted in _adopted:
        caller = getattr(adopted.hook, hook, None)
        for implementation in caller.get_hookimpls() if caller is not None else ():
            if _same(implementation.plugin) not in known:
                known.add(_same(implementation.plugin))
                yield _plugin(implementation, hook, _origin_in(adopted, implementation))


def functions_of_rooms(hook: str) -> Iterator[HookFunction]:
    """Yield the functions for a hook from pytest-vla's own rooms, which work whatever packages are installed."""
    for name in _modules_of_rooms():
        room = importlib.import_module(name)
        if (function := getattr(room, hook, None)) is not None:
            yield HookFunction(f"{OURS} ({name})", room, function, ())


def hooks_meant(name: str) -> str:
    """Return a hint with the hooks that an unknown name may mean."""
    known = [hook for hook in vars(hookspecs) if hook.startswith(hookspecs.PREFIX)]
    return did_you_mean(name, known, hookspecs.PREFIX) or f" Known: {', '.join(known)}."


def adopt(manager: pluggy.PluginManager) -> Callable[[], None]:
    """Include the plugins of this manager from now on, also a project's ``conftest.py``.

    Returns:
        A function that undoes it.
    """
    _adopted.append(manager)
    forget()

    def leave() -> None:
        if manager in _adopted:
            _adopted.remove(manager)
        forget()

    return leave


def consent(modules: Sequence[str], folder: Path) -> None:
    """Import modules that the user names by ``-p``, and include their hooks.

    Args:
        modules: their names.
        folder: the folder whose ``conftest.py`` is meant by ``conftest``.

    Raises:
        VlaError: one cannot be imported.
    """
    for name in modules:
        if name in _consented:
            continue
        try:
            _consented[name] = module = imported(name, folder)
            if name == _TESTING:
                # pytest calls it by a hook of its own.
                module.replace_simulator()
        except (Exception, SystemExit) as error:
            raise VlaError(f"-p {name}: importing it raised {describe(error)}") from error
        forget()


def imported(name: str, folder: Path) -> Any:
    """Return a module by its name, and import it if necessary; ``conftest`` means that of a folder.

    pytest imports each ``conftest.py`` under that name, also pytest-vla's own if its suites lie in a checkout, and
    Python knows only the last one. The one of the nearest folder above counts too, if pytest has read it.

    Raises the exceptions of the import.
    """
    if name != _CONFTEST:
        return importlib.import_module(name)
    read = [
        plugin
        for manager in _adopted
        for plugin in manager.get_plugins()
        if Path(str(getattr(plugin, "__file__", None))).name == f"{_CONFTEST}.py"
    ]
    for place in (folder, *folder.parents):
        file = place / f"{_CONFTEST}.py"
        found = next((each for each in (*read, sys.modules.get(name)) if _is_of(each, file)), None)
        if found is not None:
            sys.modules[name] = found
            return found
        if place == folder and file.is_file():
            return _imported_from(file, name)
    return importlib.import_module(name)


def of_a_conftest() -> str:
    """Return a hint for unknown names if a ``conftest.py`` that was not read may define them; else an empty text."""
    file = Path(f"{_CONFTEST}.py")
    if _adopted or _CONFTEST in _consented or not file.is_file():
        return ""
    if hookspecs.PREFIX.encode() not in file.read_bytes():
        return ""
    return f" The {file} of this folder may define it; load it with pytest-vla -p {_CONFTEST} ..."


def consented() -> tuple[str, ...]:
    """Return the modules with our hooks that were named by ``-p``, here or to pytest, for another process."""
    return tuple(_named())


@dataclass(frozen=True)
class ReadFile:
    """The file of a module with our hooks that this process read.

    Attributes:
        module: the module's name, such as ``conftest``.
        file: its absolute path.
        digest: sha256 (hex) of its content.
    """

    module: str
    file: str
    digest: str


def read_files() -> tuple[ReadFile, ...]:
    """Return the files of the modules with our hooks that pytest has read: those of ``-p``, and each ``conftest.py``.

    Raises VlaError if one cannot be read any more.
    """
    plugins = [plugin for manager in _adopted for plugin in manager.get_plugins() if _has_hooks(plugin)]
    conftests = [each for each in plugins if Path(str(getattr(each, "__file__", None))).name == f"{_CONFTEST}.py"]
    modules = {_same(each): each for each in (*_named().values(), *conftests)}
    return tuple(
        ReadFile(str(getattr(each, "__name__", None)), str(file), _digest(file))
        for each in modules.values()
        if (file := Path(os.path.abspath(str(getattr(each, "__file__", None))))).suffix == ".py"
    )


def consent_as(files: Sequence[ReadFile]) -> None:
    """Import the modules that another process has read (`read_files`), and include their hooks.

    Raises:
        VlaError: a file is missing here or has a different content, of which nothing is imported; or its import fails.
    """
    for each in files:
        if _digest(Path(each.file)) != each.digest:
            raise VlaError(
                f"{each.file}: its content differs (by sha256): copy the project to each machine, or share it"
            )
    for each in files:
        try:
            if Path(each.file).name == f"{_CONFTEST}.py":
                _consented[each.file] = _imported_from(Path(each.file), each.module)
            else:
                _consented[each.module] = importlib.import_module(each.module)
        except (Exception, SystemExit) as error:
            raise VlaError(f"{each.file}: importing it raised {describe(error)}") from error
        forget()


def reaches_processes(origin: str) -> bool:
    """Whether an entry's origin is also loaded in the policy's process; a ``conftest.py`` without ``-p`` is not."""
    _, origins = _own_manager()
    files = {getattr(module, "__file__", name) for name, module in _named().items()}
    return origin in origins.values() or origin in files


def until_changed(function: _Function) -> _Function:
    """Cache a function's results, as `functools.cache`, until the plugins change."""
    cached = functools.cache(function)
    _forgetful.append(cached.cache_clear)
    return cast("_Function", cached)


def forget() -> None:
    """Drop all cached results, as the plugins have changed."""
    _installed.clear()
    for clear in _forgetful:
        clear()


# Of this process: pytest's managers, with the newest last; what -p named to us; what was found so far.
_adopted: list[pluggy.PluginManager] = []
_consented: dict[str, object] = {}
_installed: list[tuple["_Manager", Mapping[str, str]]] = []
_forgetful: list[Callable[[], None]] = []


class _Manager(pluggy.PluginManager):
    """A plugin manager for our hooks: takes every function with the name of one, and ignores pytest's."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        method = getattr(plugin, name, None) if name.startswith(hookspecs.PREFIX) else None
        if not inspect.isroutine(method):
            return None
        plain = dict.fromkeys(("wrapper", "hookwrapper", "optionalhook", "tryfirst", "trylast"), False)
        return super().parse_hookimpl_opts(plugin, name) or {**plain, "specname": None}


def _named() -> Mapping[str, object]:
    """Return the modules with our hooks that were named by ``-p``."""
    packages = _modules_of_packages() if _adopted else ()
    read = {
        name: plugin
        for manager in _adopted
        for name, plugin in manager.list_name_plugin()
        if getattr(plugin, "__name__", None) == name and name not in packages and _has_hooks(plugin)
    }
    return {**read, **_consented}


def _digest(file: Path) -> str:
    """Return the sha256 (hex) of a file. Raises VlaError if it cannot be read."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise VlaError(f"{file}: cannot be read: {error.strerror}") from error


def _is_of(module: object, file: Path) -> bool:
    """Whether a module was imported from a file."""
    own = getattr(module, "__file__", None)
    return own is not None and Path(own).resolve() == file.resolve()


def _imported_from(file: Path, name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, "it ends with .py"
    assert spec.loader is not None, "it ends with .py"
    before, module = sys.modules.get(name), importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        if before is not None:
            sys.modules[name] = before
        raise
    return module


def _same(plugin: object) -> object:
    """Return a key of a plugin, equal for a module that was imported twice, as pytest does with a conftest.py of -p."""
    return getattr(plugin, "__file__", None) or id(plugin)


def _plugin(implementation: pluggy.HookImpl, hook: str, origin: str) -> HookFunction:
    if implementation.hookwrapper or implementation.wrapper:
        raise VlaError(f"{origin}: {hook} is a wrapper; expected a function that returns entries")
    return HookFunction(origin, implementation.plugin, implementation.function, tuple(implementation.argnames))


def _origin_in(manager: pluggy.PluginManager, implementation: pluggy.HookImpl) -> str:
    for plugin, package in manager.list_plugin_distinfo():
        if plugin is implementation.plugin:
            return f"{package.project_name} {package.version} ({implementation.plugin_name})"
    return str(getattr(implementation.plugin, "__file__", None) or implementation.plugin_name)


def _own_manager() -> tuple[_Manager, Mapping[str, str]]:
    """Return the manager of the plugins that exist without pytest, and their origins by name."""
    if not _installed:
        manager, origins = _Manager("pytest"), dict[str, str]()
        manager.add_hookspecs(hookspecs)
        for origin, plugin in _without_pytest():
            if manager.is_registered(plugin):
                continue
            name = f"{len(origins)} {origin}"
            origins[name] = origin
            try:
                manager.register(plugin, name)
                manager.check_pending()
            except pluggy.PluginValidationError as error:
                unknown = re.match(r"unknown hook '(\w+)'", str(error))
                meant = hooks_meant(unknown[1]) if unknown else ""
                raise VlaError(f"{origin}: {error}.{meant} The hooks are in pytest_vla.hookspecs") from error
        _installed.append((manager, origins))
    return _installed[0]


def _without_pytest() -> Iterator[tuple[str, Any]]:
    for name in _modules_of_rooms():
        yield f"{OURS} ({name})", importlib.import_module(name)
    for entry in _entry_points():
        yield _origin(entry), _loaded(entry)
    for name, module in _consented.items():
        yield f"-p {name}", module


def _modules_of_rooms() -> list[str]:
    """Return the name of every room's and every suite's ``extension.py``, sorted."""
    import pytest_vla

    home = Path(str(pytest_vla.__file__)).parent
    files = sorted([*home.glob("*/extension.py"), *home.glob("suites/*/extension.py")])
    return [".".join(("pytest_vla", *file.relative_to(home).with_suffix("").parts)) for file in files]


def _entry_points() -> tuple[EntryPoint, ...]:
    return () if os.environ.get(NO_ENTRY_POINTS) else tuple(entry_points(group=GROUP))


def _modules_of_packages() -> set[str]:
    return {entry.module for entry in _entry_points()}


def _loaded(entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except VlaError:
        raise
    except (Exception, SystemExit) as error:
        raise VlaError(f"{_origin(entry)}: importing it raised {describe(error)}. Mend or uninstall it") from error


def _origin(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version} ({entry.value})" if entry.dist else entry.value


def _has_hooks(plugin: object) -> bool:
    return any(name.startswith(hookspecs.PREFIX) for name in dir(plugin))
