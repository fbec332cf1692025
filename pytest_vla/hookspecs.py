"""The hooks by which other packages extend pytest-vla, one for each kind of entry; see `pytest_vla.entries`.

A hook returns declarations: names and one line of help, cheap to make. Heavy parts are named by a text,
``package.module:attribute``, and imported when they are used; ``:attribute`` is in the module with the hook. Hooks are
found in three places: installed packages (entry points of the group ``pytest_vla``, each of which names a module),
pytest's plugins with a project's ``conftest.py``, and modules named by ``-p``. pytest-vla's own rooms register the same
way, by their modules ``extension.py``.
"""

import sys
from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vla.entries import (
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
    from pytest_vla.records.record import Record

PREFIX = "pytest_vla_"
"""How the names of all of them begin."""

hookspec = pluggy.HookspecMarker("pytest")


@hookspec
def pytest_vla_suites() -> "Sequence[SuiteEntry]":  # type: ignore[empty-body]
    """Return suites."""


@hookspec
def pytest_vla_workspaces() -> "Sequence[WorkspaceEntry]":  # type: ignore[empty-body]
    """Return problem classes of task files."""


@hookspec
def pytest_vla_policies() -> "Sequence[PolicyEntry]":  # type: ignore[empty-body]
    """Return kinds of ``--vla-model``."""


@hookspec
def pytest_vla_variations() -> "Sequence[VariationEntry | ListEntry]":  # type: ignore[empty-body]
    """Return variations, and lists of varied tasks."""


@hookspec
def pytest_vla_metrics() -> "Sequence[MetricEntry]":  # type: ignore[empty-body]
    """Return metrics of an episode."""


@hookspec
def pytest_vla_sections() -> "Sequence[SectionEntry]":  # type: ignore[empty-body]
    """Return parts of ``pytest-vla report``."""


@hookspec
def pytest_vla_papers() -> "Sequence[PaperEntry]":  # type: ignore[empty-body]
    """Return papers for ``pytest-vla report --paper`` and ``pytest-vla reproduce``."""


@hookspec
def pytest_vla_importers() -> "Sequence[ImporterEntry]":  # type: ignore[empty-body]
    """Return importers for ``pytest-vla import``."""


@hookspec
def pytest_vla_commands() -> "Sequence[CommandEntry]":  # type: ignore[empty-body]
    """Return commands ``pytest-vla NAME``."""


@hookspec
def pytest_vla_trackers() -> "Sequence[TrackerEntry]":  # type: ignore[empty-body]
    """Return experiment trackers for ``--vla-track``."""


@hookspec
def pytest_vla_episode_finished(record: "Record") -> None:
    """Take the record of an episode that has ended, after it is stored.

    Called once per episode, in the process that was started by hand, never in a worker. Its exceptions become warnings,
    and the run continues.
    """


class HookPlugin:
    """Declares the hooks to pytest; a plugin of its own (``vla_hooks``), so that ``-p no:vla`` leaves them known.

    Without it, pytest would refuse every ``conftest.py`` that has one of them.
    """

    @staticmethod
    def pytest_addhooks(pluginmanager: pluggy.PluginManager) -> None:
        """Declare the hooks, unless that was done."""
        known = getattr(pluginmanager.hook, "pytest_vla_suites", None)
        # A plugin that was loaded before may have the hook.
        if known is None or known.spec is None:
            pluginmanager.add_hookspecs(sys.modules[__name__])
