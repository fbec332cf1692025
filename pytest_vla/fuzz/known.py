"""Failures that searches found before, kept beside the results, a file of cases a task: tried first in the next search.

Not Hypothesis's database: this one can be read, and run as it is with ``--vla-cases``.
"""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.case_file import ListedCase, read_cases, write_cases
from pytest_vla.plan.task import Task
from pytest_vla.util.told import warn

FOLDER = "fuzz"
"""In the results."""

MOST_KNOWN = 10
"""Of a task, the last that were found: each costs an episode of every search."""


def known_file(results: Path, task: Task) -> Path:
    """Where the failures of a task are kept."""
    return results / FOLDER / task.suite / f"{task.key}.toml"


def known_failures(results: Path, task: Task) -> tuple[ListedCase, ...]:
    """The failures of a task that were found before, the last ones first; none where the file cannot be used any more.

    Args:
        results: folder of all runs.
        task: as it is run.
    """
    file = known_file(results, task)
    if not file.is_file():
        return ()
    try:
        found = read_cases(file, task.data)
    except VlaError as error:
        # Of another version, or of files that are gone.
        warn(f"{error}; no failure that was found before is tried first")
        return ()
    own = [each for each in found if each.candidate.task.id == task.id]
    return tuple(replace(each, candidate=replace(each.candidate, task=task)) for each in own)


def remember_failures(results: Path, task: Task, found: Iterable[ListedCase], before: Iterable[ListedCase]) -> None:
    """Keep what was found, and of what was known before as much as there is room for, also what passes now.

    Args:
        results: folder of all runs.
        task: whose they are.
        found: now.
        before: of `known_failures`.

    Raises:
        VlaError: the file cannot be written.
    """
    by_candidate: dict[tuple[int, str], ListedCase] = {}
    for each in (*found, *before):
        by_candidate.setdefault(_name(each.candidate), each)
    if not by_candidate:
        return
    file = known_file(results, task)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VlaError(f"{file.parent}: no folder can be made there: {error.strerror}") from error
    write_cases(file, list(by_candidate.values())[:MOST_KNOWN])


def _name(candidate: Candidate) -> tuple[int, str]:
    return candidate.seed, candidate.label
