"""All extensions: collects the entries that `pytest_vla.hookspecs` describes, once, by name, with their origins.

Nothing is searched before an entry is needed, so that a project that runs no episode pays nothing. Every function of
this module raises VlaError if a package cannot be used, or if two clash.
"""

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_vla.entries import (
    NAMES,
    CommandEntry,
    ImporterEntry,
    ListEntry,
    MetricEntry,
    PaperEntry,
    PolicyEntry,
    SectionEntry,
    SuiteEntry,
    TrackerEntry,
    VariationEntry,
    WorkspaceEntry,
)
from pytest_vla.errors import VlaError
from pytest_vla.hook_modules import OURS, HookFunction, functions_of, functions_of_rooms, until_changed
from pytest_vla.util.warnings import describe

if TYPE_CHECKING:
    from pytest_vla.records.record import Record

_NAME = r"[A-Za-z0-9][\w.-]*"


def suites() -> Mapping[str, SuiteEntry]:
    """Return all suites by name. Raises VlaError."""
    return _by_name("pytest_vla_suites", (SuiteEntry,), "suite")


@until_changed
def suite_aliases() -> Mapping[str, tuple[str, ...]]:
    """Return the names of the suites that each alias means."""
    found: dict[str, tuple[str, ...]] = {}
    known = suites()
    for name, entry in known.items():
        for alias in entry.aliases:
            if alias in known:
                raise VlaError(
                    f"{entry.origin}: the suite {name} has the alias {alias!r}, which is a suite of "
                    f"{known[alias].origin}. Give it another"
                )
            others = found.get(alias, ())
            if others and known[others[0]].origin != entry.origin:
                both = f"{known[others[0]].origin} and {entry.origin}"
                raise VlaError(f"two packages have a suite with the alias {alias!r}: {both}. Have one renamed")
            found[alias] = (*others, name)
    return found


def workspaces() -> Mapping[str, WorkspaceEntry]:
    """Return all problem classes by name, without the scene's own."""
    return _by_name("pytest_vla_workspaces", (WorkspaceEntry,), "problem class")


def policies() -> Mapping[str, PolicyEntry]:
    """Return all kinds of ``--vla-model`` by name."""
    return _by_name("pytest_vla_policies", (PolicyEntry,), "kind of policy")


def variations() -> tuple[VariationEntry, ...]:
    """Return all groups of kinds of variation, in the order in which the parts of a joint variation are made."""
    found = [each for each in _variations().values() if isinstance(each, VariationEntry)]
    return tuple(sorted(found, key=lambda entry: entry.order))


def lists() -> Mapping[str, ListEntry]:
    """Return all lists of varied tasks by name."""
    return {name: each for name, each in _variations().items() if isinstance(each, ListEntry)}


def metrics() -> Mapping[str, MetricEntry]:
    """Return all metrics by name."""
    return _by_name("pytest_vla_metrics", (MetricEntry,), "metric")


def sections() -> tuple[SectionEntry, ...]:
    """Return all parts of a report in their order."""
    found = _by_name("pytest_vla_sections", (SectionEntry,), "section of the report")
    return tuple(sorted(found.values(), key=lambda entry: entry.order))


def papers() -> Mapping[str, PaperEntry]:
    """Return all papers by name."""
    return _by_name("pytest_vla_papers", (PaperEntry,), "paper")


def importers() -> Mapping[str, ImporterEntry]:
    """Return all importers by name."""
    return _by_name("pytest_vla_importers", (ImporterEntry,), "importer")


def commands() -> Mapping[str, CommandEntry]:
    """Return all commands by name."""
    return _by_name("pytest_vla_commands", (CommandEntry,), "command")


def trackers() -> Mapping[str, TrackerEntry]:
    """Return all experiment trackers by name."""
    return _by_name("pytest_vla_trackers", (TrackerEntry,), "tracker")


def usable_commands() -> tuple[Mapping[str, CommandEntry], tuple[VlaError, ...]]:
    """Return the usable commands by name, and the errors of the others; if two have one name, the first is usable.

    If a package cannot be used at all, these are pytest-vla's own commands.
    """
    hook, types = "pytest_vla_commands", (CommandEntry,)
    try:
        return _collected(functions_of(hook), hook, types, "command")
    except VlaError as error:
        found, troubles = _collected(functions_of_rooms(hook), hook, types, "command")
        return found, (error, *troubles)


def user_files() -> tuple[str, ...]:
    """Return names and patterns of the files in a user's data folder that variations read."""
    return tuple(dict.fromkeys(file for entry in _variations().values() for file in entry.files))


def are_told_of_episodes() -> bool:
    """Whether any plugin has a hook for ended episodes."""
    return next(functions_of("pytest_vla_episode_finished"), None) is not None


def episode_finished(record: "Record") -> tuple[str, ...]:
    """Call the hooks for an ended episode. Returns their errors, a line each."""
    troubles = []
    for plugin in functions_of("pytest_vla_episode_finished"):
        try:
            plugin.function(record=record) if plugin.arguments else plugin.function()
        except Exception as error:
            troubles.append(f"{plugin.origin}: pytest_vla_episode_finished raised {describe(error)}")
    return tuple(troubles)


def load(entry: Any) -> Any:
    """Load the object that an entry's `load` names. Raises VlaError, which names the entry and its origin."""
    return load_named(entry, entry.load)


def load_named(entry: Any, text: object) -> Any:
    """Load the object that a text of an entry names. Raises VlaError, which names the entry and its origin."""
    module, colon, attribute = str(text).partition(":")
    whose = f"{entry.name}, of {entry.origin}"
    if not (colon and attribute):
        raise VlaError(f"{whose}: load is {text!r}, expected package.module:attribute")
    try:
        found: Any = importlib.import_module(module) if module else _givers[entry.origin]
        for part in attribute.split("."):
            found = getattr(found, part)
    except VlaError:
        raise
    except (Exception, SystemExit) as error:
        raise VlaError(f"{whose}: loading {text} raised {describe(error)}. Mend or uninstall it") from error
    return found


def module_of(entry: Any) -> object:
    """Return the module that an entry's `load` names, or what gave it; None if it is not imported."""
    module = str(entry.load).partition(":")[0]
    return sys.modules.get(module) if module else _givers.get(entry.origin)


def is_built_in(entry: Any) -> bool:
    """Whether an entry comes with pytest-vla, and not from another package or a project."""
    return str(entry.origin).startswith(f"{OURS} (")


# Of this process: who gave what, by origin.
_givers: dict[str, object] = {}


def _variations() -> Mapping[str, VariationEntry | ListEntry]:
    return _by_name("pytest_vla_variations", (VariationEntry, ListEntry), "variation")


@until_changed
def _by_name(hook: str, types: tuple[type[Any], ...], what: str) -> Mapping[str, Any]:
    found, troubles = _collected(functions_of(hook), hook, types, what)
    for trouble in troubles:
        raise trouble
    return found


def _collected(
    plugins: Iterable[HookFunction], hook: str, types: tuple[type[Any], ...], what: str
) -> tuple[dict[str, Any], tuple[VlaError, ...]]:
    found: dict[str, Any] = {}
    troubles: list[VlaError] = []
    for plugin in plugins:
        for entry in _given(plugin, hook, types):
            if isinstance(entry, VlaError):
                troubles.append(entry)
            elif (other := found.get(entry.name)) is not None:
                both = f"{other.origin} and {entry.origin}"
                troubles.append(
                    VlaError(
                        f"two packages have a {what} {entry.name!r}: {both}. Uninstall one of them, or have it renamed"
                    )
                )
            else:
                found[entry.name] = entry
    return found, tuple(troubles)


def _given(plugin: HookFunction, hook: str, types: tuple[type[Any], ...]) -> Iterator[Any]:
    """Yield the entries of one plugin's hook, with an error in place of each entry that cannot be used."""
    where = f"{plugin.origin}: {hook}"
    try:
        given = plugin.function()
        entries = list(given if given is not None else ())
    except VlaError as error:
        yield error
        return
    except Exception as error:
        trouble = VlaError(f"{where} raised {describe(error)}. Mend or uninstall it")
        trouble.__cause__ = error
        yield trouble
        return
    expected = " or ".join(each.__name__ for each in types)
    for entry in entries:
        if not isinstance(entry, types):
            yield VlaError(f"{where} gives {type(entry).__name__}, expected a list of {expected}")
        elif not isinstance(entry.name, str) or re.fullmatch(_NAME, entry.name, re.ASCII) is None:
            yield VlaError(f"{where}: {entry.name!r} is no name: expected {NAMES}")
        else:
            _givers[plugin.origin] = plugin.giver
            yield replace(entry, origin=plugin.origin)
