"""What other packages may add to pytest-vla: a hook for each sort of thing; `pytest_vla.entries` has what they give.

A hook gives declarations: names and one line of help, cheap to make. What is heavy is named by a text,
``package.module:attribute``, and imported when it is used; ``:attribute`` is of the module that has the hook. Hooks are
found in three places: installed packages (entry points of the group ``pytest_vla``, each of which names a module),
pytest's plugins with a project's ``conftest.py``, and modules named by ``-p``. pytest-vla's own rooms register the same
way, by their modules ``extension.py``.
"""

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_vla.entries import (
        CommandEntry,
        ImporterEntry,
        ListEntry,
        MetricEntry,
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
    """Further suites."""


@hookspec
def pytest_vla_workspaces() -> "Sequence[WorkspaceEntry]":  # type: ignore[empty-body]
    """Further problem classes of task files."""


@hookspec
def pytest_vla_policies() -> "Sequence[PolicyEntry]":  # type: ignore[empty-body]
    """Further kinds of ``--vla-model``."""


@hookspec
def pytest_vla_variations() -> "Sequence[VariationEntry | ListEntry]":  # type: ignore[empty-body]
    """Further variations, and what suites consist of that are varied by themselves."""


@hookspec
def pytest_vla_metrics() -> "Sequence[MetricEntry]":  # type: ignore[empty-body]
    """Further numbers of each episode."""


@hookspec
def pytest_vla_sections() -> "Sequence[SectionEntry]":  # type: ignore[empty-body]
    """Further parts of ``pytest-vla report``."""


@hookspec
def pytest_vla_importers() -> "Sequence[ImporterEntry]":  # type: ignore[empty-body]
    """Further logs that ``pytest-vla import`` reads."""


@hookspec
def pytest_vla_commands() -> "Sequence[CommandEntry]":  # type: ignore[empty-body]
    """Further commands: ``pytest-vla NAME``."""


@hookspec
def pytest_vla_trackers() -> "Sequence[TrackerEntry]":  # type: ignore[empty-body]
    """Further trackers of experiments: ``--vla-track=NAME``."""


@hookspec
def pytest_vla_episode_finished(record: "Record") -> None:
    """An episode of this run has ended, and its record is kept.

    Called once an episode, in the process that was started by hand: with workers not in theirs. What it raises is told
    as a warning, and the run goes on.
    """
