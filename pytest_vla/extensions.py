"""Who adds what: collects what `pytest_vla.hookspecs` describes, once, by name, with where it is from.

Nothing is looked for until something is asked for, so that a project that runs no episode pays nothing.
"""

import functools
import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import pluggy

from pytest_vla import hookspecs
from pytest_vla.entries import (
    CommandEntry,
    ImporterEntry,
    ListEntry,
    MetricEntry,
    PolicyEntry,
    SectionEntry,
    SuiteEntry,
    VariationEntry,
)
from pytest_vla.errors import VlaError
from pytest_vla.util.text import did_you_mean
from pytest_vla.util.tracebacks import describe

if TYPE_CHECKING:
    from pytest_vla.records.record import Record

GROUP = "pytest_vla"
"""The entry-point group of installed packages: each entry names a module with hooks."""

NO_ENTRY_POINTS = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"
"""pytest's variable: where it is set, only modules named by ``-p`` add something."""

_OURS = "pytest-vla"
_CONFTEST = "conftest"
_NAME = r"[A-Za-z0-9][\w.-]*"

_Function = TypeVar("_Function", bound=Callable[..., Any])


def suites() -> Mapping[str, SuiteEntry]:
    """All suites by name. Raises VlaError, as all functions of this page: a package cannot be used, or two clash."""
    return _by_name("pytest_vla_suites", (SuiteEntry,), "suite")


def policies() -> Mapping[str, PolicyEntry]:
    """All kinds of ``--vla-model`` by name."""
    return _by_name("pytest_vla_policies", (PolicyEntry,), "kind of policy")


def variations() -> tuple[VariationEntry, ...]:
    """All groups of kinds of variation, in the order in which the parts of a joint one are done."""
    found = [each for each in _variations().values() if isinstance(each, VariationEntry)]
    return tuple(sorted(found, key=lambda entry: entry.order))


def lists() -> Mapping[str, ListEntry]:
    """By name what suites consist of that are varied by themselves."""
    return {name: each for name, each in _variations().items() if isinstance(each, ListEntry)}


def metrics() -> Mapping[str, MetricEntry]:
    """All further numbers of an episode by name."""
    return _by_name("pytest_vla_metrics", (MetricEntry,), "metric")


def sections() -> tuple[SectionEntry, ...]:
    """All parts of a report in their order."""
    found = _by_name("pytest_vla_sections", (SectionEntry,), "section of the report")
    return tuple(sorted(found.values(), key=lambda entry: entry.order))


def importers() -> Mapping[str, ImporterEntry]:
    """All importers by name."""
    return _by_name("pytest_vla_importers", (ImporterEntry,), "importer")


def commands() -> Mapping[str, CommandEntry]:
    """All commands by name."""
    return _by_name("pytest_vla_commands", (CommandEntry,), "command")


def user_files() -> tuple[str, ...]:
    """Names and patterns of the files that variations are read from, in a user's data folder."""
    return tuple(dict.fromkeys(file for entry in _variations().values() for file in entry.files))


def hooks_meant(name: str) -> str:
    """Which hooks may be meant by a name that is none."""
    known = [hook for hook in vars(hookspecs) if hook.startswith(hookspecs.PREFIX)]
    return did_you_mean(name, known, hookspecs.PREFIX) or f" Known: {', '.join(known)}."


def episode_finished(record: "Record") -> tuple[str, ...]:
    """Tell all who want to know. Returns what went wrong with them, a line each."""
    troubles = []
    for plugin in _plugins("pytest_vla_episode_finished"):
        try:
            plugin.function(record=record) if plugin.arguments else plugin.function()
        except Exception as error:
            troubles.append(f"{plugin.origin}: pytest_vla_episode_finished raised {_described(error)}")
    return tuple(troubles)


def load(entry: Any) -> Any:
    """What an entry names by its `load`. Raises VlaError, which names the entry and who gave it."""
    module, colon, attribute = str(entry.load).partition(":")
    whose = f"{entry.name}, of {entry.origin}"
    if not (colon and attribute):
        raise VlaError(f"{whose}: load is {entry.load!r}, expected package.module:attribute")
    try:
        found: Any = importlib.import_module(module) if module else _givers[entry.origin]
        for part in attribute.split("."):
            found = getattr(found, part)
    except VlaError:
        raise
    except (Exception, SystemExit) as error:
        raise VlaError(f"{whose}: loading {entry.load} raised {_described(error)}. Mend or uninstall it") from error
    return found


def file_of(entry: Any) -> Path | None:
    """The file of the module that an entry's `load` names; None: it is not imported, or has none."""
    module = str(entry.load).partition(":")[0]
    file = getattr(sys.modules.get(module) if module else _givers.get(entry.origin), "__file__", None)
    return Path(file) if file else None


def adopt(manager: pluggy.PluginManager) -> Callable[[], None]:
    """From now on the plugins of this manager count too, those of a project's ``conftest.py`` among them.

    Returns:
        What takes that back.
    """
    _adopted.append(manager)
    forget()

    def leave() -> None:
        if manager in _adopted:
            _adopted.remove(manager)
        forget()

    return leave


def consent(modules: Sequence[str], folder: Path) -> None:
    """Import these modules, and take what their hooks give: the user names them by ``-p``.

    Args:
        modules: their names.
        folder: whose ``conftest.py`` is meant by ``conftest``.

    Raises:
        VlaError: one cannot be imported.
    """
    for name in modules:
        if name in _consented:
            continue
        try:
            _consented[name] = imported(name, folder)
        except (Exception, SystemExit) as error:
            raise VlaError(f"-p {name}: importing it raised {_described(error)}") from error
        forget()


def imported(name: str, folder: Path) -> Any:
    """A module by its name, imported where it is not yet; of ``conftest`` the one of a folder.

    pytest imports each ``conftest.py`` under that name, pytest-vla's own where its suites lie in a checkout, and Python
    knows the last one only. The one of the nearest folder above counts too, where pytest has read it.

    Raises whatever importing raises.
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
    """What an error about a name that nobody has is to add, where a ``conftest.py`` that was not read may have it."""
    file = Path(f"{_CONFTEST}.py")
    if _adopted or _CONFTEST in _consented or not file.is_file():
        return ""
    if hookspecs.PREFIX.encode() not in file.read_bytes():
        return ""
    return f" The {file} of this folder may have it: it is read where you say so, pytest-vla -p {_CONFTEST} ..."


def consented() -> tuple[str, ...]:
    """The modules that were named by ``-p``, here or to pytest, for another process: those that have our hooks."""
    return tuple(_named())


def is_built_in(entry: Any) -> bool:
    """Whether what a hook gave comes with pytest-vla, and not from another package or a project."""
    return str(entry.origin).startswith(f"{_OURS} (")


def reaches_processes(origin: str) -> bool:
    """Whether who gave an entry is there in the policy's process too: a ``conftest.py`` that no ``-p`` names is not."""
    _, origins = _own_manager()
    files = {getattr(module, "__file__", name) for name, module in _named().items()}
    return origin in origins.values() or origin in files


def until_changed(function: _Function) -> _Function:
    """As `functools.cache`, until other plugins are there."""
    cached = functools.cache(function)
    _forgetful.append(cached.cache_clear)
    return cast("_Function", cached)


def forget() -> None:
    """Look for everything anew, when it is asked for."""
    _entries.clear()
    _installed.clear()
    for clear in _forgetful:
        clear()


@dataclass(frozen=True)
class _Plugin:
    """A hook of one plugin: who that is, and what is called."""

    origin: str
    giver: object
    function: Callable[..., Any]
    arguments: tuple[str, ...]


class _Manager(pluggy.PluginManager):
    """Takes every function of a plugin that is named as one of our hooks, and leaves pytest's own alone."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        method = getattr(plugin, name, None) if name.startswith(hookspecs.PREFIX) else None
        if not inspect.isroutine(method):
            return None
        plain = dict.fromkeys(("wrapper", "hookwrapper", "optionalhook", "tryfirst", "trylast"), False)
        return super().parse_hookimpl_opts(plugin, name) or {**plain, "specname": None}


# Of this process: pytest's managers, with the newest last; what -p named to us; what was found so far.
_adopted: list[pluggy.PluginManager] = []
_consented: dict[str, object] = {}
_entries: dict[str, Mapping[str, Any]] = {}
_givers: dict[str, object] = {}
_installed: list[tuple[_Manager, Mapping[str, str]]] = []
_forgetful: list[Callable[[], None]] = []


def _variations() -> Mapping[str, VariationEntry | ListEntry]:
    return _by_name("pytest_vla_variations", (VariationEntry, ListEntry), "variation")


def _by_name(hook: str, types: tuple[type[Any], ...], what: str) -> Mapping[str, Any]:
    if hook not in _entries:
        found: dict[str, Any] = {}
        for plugin in _plugins(hook):
            for entry in _given(plugin, hook, types):
                if (other := found.get(entry.name)) is not None:
                    raise VlaError(
                        f"two packages have a {what} {entry.name!r}: {other.origin} and {entry.origin}. Uninstall one "
                        "of them, or have it renamed"
                    )
                found[entry.name] = entry
        _entries[hook] = found
    return _entries[hook]


def _given(plugin: _Plugin, hook: str, types: tuple[type[Any], ...]) -> Iterator[Any]:
    """What one plugin's hook gives, checked."""
    where = f"{plugin.origin}: {hook}"
    try:
        given = plugin.function()
        entries = list(given if given is not None else ())
    except VlaError:
        raise
    except Exception as error:
        raise VlaError(f"{where} raised {_described(error)}. Mend or uninstall it") from error
    expected = " or ".join(each.__name__ for each in types)
    for entry in entries:
        if not isinstance(entry, types):
            raise VlaError(f"{where} gives {type(entry).__name__}, expected a list of {expected}")
        if not isinstance(entry.name, str) or re.fullmatch(_NAME, entry.name) is None:
            raise VlaError(f"{where}: {entry.name!r} is no name: expected letters, digits, _ - and .")
        _givers[plugin.origin] = plugin.giver
        yield replace(entry, origin=plugin.origin)


def _plugins(hook: str) -> Iterator[_Plugin]:
    """Who has a hook: pytest-vla's own rooms, installed packages, what -p named, and then pytest's plugins."""
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


def _named() -> Mapping[str, object]:
    """The modules that were named by ``-p`` and have our hooks."""
    packages = _modules_of_packages() if _adopted else ()
    read = {
        name: plugin
        for manager in _adopted
        for name, plugin in manager.list_name_plugin()
        if getattr(plugin, "__name__", None) == name and name not in packages and _has_hooks(plugin)
    }
    return {**read, **_consented}


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
    """Equal for a module that was imported twice, as pytest does with a ``conftest.py`` that -p names."""
    return getattr(plugin, "__file__", None) or id(plugin)


def _plugin(implementation: pluggy.HookImpl, hook: str, origin: str) -> _Plugin:
    if implementation.hookwrapper or implementation.wrapper:
        raise VlaError(f"{origin}: {hook} is a wrapper; expected a function that gives what the package adds")
    return _Plugin(origin, implementation.plugin, implementation.function, tuple(implementation.argnames))


def _origin_in(manager: pluggy.PluginManager, implementation: pluggy.HookImpl) -> str:
    for plugin, package in manager.list_plugin_distinfo():
        if plugin is implementation.plugin:
            return f"{package.project_name} {package.version} ({implementation.plugin_name})"
    return str(getattr(implementation.plugin, "__file__", None) or implementation.plugin_name)


def _own_manager() -> tuple[_Manager, Mapping[str, str]]:
    """The manager of what is there without pytest, and the origins of its plugins by their names."""
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
        yield f"{_OURS} ({name})", importlib.import_module(name)
    for entry in _entry_points():
        yield _origin(entry), _loaded(entry)
    for name, module in _consented.items():
        yield f"-p {name}", module


def _modules_of_rooms() -> list[str]:
    """Every room's ``extension.py``, and every suite's, in the order of their names."""
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
        raise VlaError(f"{_origin(entry)}: importing it raised {_described(error)}. Mend or uninstall it") from error


def _origin(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version} ({entry.value})" if entry.dist else entry.value


def _described(error: BaseException) -> str:
    # It brings pytest with it, which commands do without.

    return describe(error)


def _has_hooks(plugin: object) -> bool:
    return any(name.startswith(hookspecs.PREFIX) for name in dir(plugin))
