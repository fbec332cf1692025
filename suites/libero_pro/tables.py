"""LIBERO-PRO's five ``ood_*.yaml``, as users have them: typed by task, with what is malformed beside it."""

import hashlib
import os
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pytest_vla.errors import VlaError
from pytest_vla.plan.data_roots import find_given, first_at
from pytest_vla.plan.task import Task
from pytest_vla.util.documents import read_plain, read_yaml
from pytest_vla.util.text import did_you_mean

Name = Literal["object", "swap", "semantic", "task", "environment"]

FILES: Mapping[Name, str] = {
    "object": "ood_object.yaml",
    "swap": "ood_spatial_relation.yaml",
    "semantic": "ood_language.yaml",
    "task": "ood_task.yaml",
    "environment": "ood_environment.yaml",
}
"""What each kind is read from."""

OURS = "ours"
"""The parameter ``source`` where LIBERO-PRO's files say nothing."""

# A data folder's, a checkout's, and a checkout's in a data folder.
_PLACES = ("{}", "libero_pro/{}", "libero_ood/{}", "*/{}", "*/libero_ood/{}")
# What a word of a BDDL text cannot have.
_NOT_IN_TEXT = frozenset("();")


@dataclass(frozen=True)
class NewTask:
    """An entry of ``ood_task.yaml``: instruction, goal as BDDL text, and objects of interest."""

    instruction: str
    goal: str
    objects_of_interest: tuple[str, ...]


@dataclass(frozen=True)
class OodTable:
    """One of the files, by (suite, task).

    Attributes:
        file: where it was read.
        digest: of the file: the first 16 digits of its SHA-256.
        entries: of each well-formed task: texts (semantic), workspaces (environment), `NewTask`s (task), or names each
            with a tuple of names (object: categories and replacements; swap: objects and partners).
        malformed: of each other task, what is wrong with which entry.
    """

    file: Path
    digest: str
    entries: Mapping[tuple[str, str], tuple[Any, ...]]
    malformed: Mapping[tuple[str, str], tuple[str, ...]]

    @property
    def source(self) -> str:
        """The source as named in parameters."""
        return f"LIBERO-PRO's {self.file.name}"


def table_of(task: Task, name: Name) -> OodTable | None:
    """Return the user's file for a kind, or None if there is none, or none for the task's suite.

    Raises:
        VlaError: it cannot be read.
    """
    file = _found(task.data, os.environ.get("PYTEST_VLA_DATA", ""), name)
    if file is None:
        return None
    table = _loaded(name, file, file.stat().st_mtime_ns)
    suites = {suite for suite, _ in (*table.entries, *table.malformed)}
    return table if task.files in suites else None


def entries_of(table: OodTable, task: Task) -> tuple[Any, ...]:
    """Return a task's entries. Raises VlaError if there is none, or any of them is malformed."""
    key = (task.files, task.name)
    if wrong := table.malformed.get(key):
        raise VlaError(
            f"{table.file} is malformed at {'/'.join(key)}: {'; '.join(wrong)}. Mend it in a copy of the "
            "file, or select other tasks by --vla-tasks"
        )
    if key not in table.entries:
        known = [name for suite, name in (*table.entries, *table.malformed) if suite == task.files]
        raise VlaError(f"{table.file} has no task {'/'.join(key)}.{did_you_mean(task.name, known)}")
    return table.entries[key]


def source_of(table: OodTable | None) -> dict[str, Any]:
    """Return the recorded parameters that name the source."""
    return {"source": OURS} if table is None else {"source": table.source, "digest": table.digest}


def load_table(name: Name, file: Path) -> OodTable:
    """Read a file, ``suite: {task: ...}``.

    Raises:
        VlaError: it cannot be read, or does not have that form. Malformed entries do not raise.
    """
    try:
        content, read = read_plain(file), read_yaml(file)
    except OSError as error:
        raise VlaError(f"{file} cannot be read: {error.strerror}; expected LIBERO-PRO's {FILES[name]}") from error
    except ValueError as error:
        raise VlaError(f"{file} cannot be read as YAML: {error}; expected LIBERO-PRO's {FILES[name]}") from error
    if not _is_table(read) or not all(map(_is_table, read.values())):
        raise VlaError(f"{file}: expected LIBERO-PRO's {FILES[name]}: suites, each with tasks, each with its entries")
    wrong, typed = _FORMS[name]
    entries: dict[tuple[str, str], tuple[Any, ...]] = {}
    malformed: dict[tuple[str, str], tuple[str, ...]] = {}
    for suite, tasks in read.items():
        for task, value in tasks.items():
            complaints = wrong(value)
            if complaints:
                malformed[suite, task] = complaints
            else:
                entries[suite, task] = typed(value)
    return OodTable(file, hashlib.sha256(content).hexdigest()[:16], entries, malformed)


def as_bddl(text: str) -> str:
    """Normalise a text as upstream's BDDL reader does in ``:language``: lower-cased, with single spaces."""
    return " ".join(text.lower().split())


def _find(data: Path | None, name: Name) -> Path:
    places = tuple(place.format(FILES[name]) for place in _PLACES)
    return find_given(data, first_at(places), "LIBERO-PRO", FILES[name])


# Collection asks for every case, and folders of data are wide.
@cache
def _found(data: Path | None, environment: str, name: Name) -> Path | None:
    try:
        return _find(data, name)
    except VlaError:
        return None


@cache
def _loaded(name: Name, file: Path, changed: int) -> OodTable:
    return load_table(name, file)


def _is_table(value: object) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(key, str) for key in value)


def _wrong_texts(entries: object) -> tuple[str, ...]:
    if not isinstance(entries, list) or not entries:
        return (f"expected a list of texts, found {reprlib.repr(entries)}",)
    return tuple(
        f"entry {number} of {len(entries)} {complaint}"
        for number, entry in enumerate(entries, 1)
        if (complaint := _complaint(entry))
    )


def _complaint(entry: object) -> str:
    if isinstance(entry, dict):
        return f"is a mapping, as ': ' stands in a text without quotes: {reprlib.repr(entry)}"
    if not isinstance(entry, str) or not entry.strip():
        return f"is not a text: {reprlib.repr(entry)}"
    return "has ( or ) or ;, which no BDDL text can" if _NOT_IN_TEXT & set(entry) else ""


def _texts(entries: list[str]) -> tuple[str, ...]:
    return tuple(as_bddl(text) for text in entries)


def _wrong_names(entries: object) -> tuple[str, ...]:
    if isinstance(entries, dict) and _is_table(entries):
        return tuple(f"{name}: {complaint}" for name, listed in entries.items() for complaint in _wrong_texts(listed))
    return (f"expected names, each with a list of names, found {reprlib.repr(entries)}",)


def _names(entries: dict[str, list[str]]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((as_bddl(name), _texts(listed)) for name, listed in entries.items())


def _wrong_tasks(entries: object) -> tuple[str, ...]:
    if not isinstance(entries, dict) or not _is_table(entries):
        return (f"expected instructions, each with goal and obj_of_interest, found {reprlib.repr(entries)}",)
    found = []
    for instruction, entry in entries.items():
        if complaint := _complaint(instruction):
            found.append(f"the instruction {instruction!r} {complaint}")
        if not isinstance(entry, dict) or set(entry) != {"goal", "obj_of_interest"}:
            found.append(f"{instruction!r}: expected goal and obj_of_interest, found {reprlib.repr(entry)}")
        elif not isinstance(entry["goal"], str):
            found.append(f"{instruction!r}: its goal is no text: {reprlib.repr(entry['goal'])}")
        else:
            found += [f"{instruction!r}: obj_of_interest: {each}" for each in _wrong_texts(entry["obj_of_interest"])]
    return tuple(found)


def _tasks(entries: dict[str, dict[str, Any]]) -> tuple[NewTask, ...]:
    return tuple(
        NewTask(as_bddl(text), entry["goal"], _texts(entry["obj_of_interest"])) for text, entry in entries.items()
    )


_FORMS: Mapping[Name, tuple[Callable[[object], tuple[str, ...]], Callable[[Any], tuple[Any, ...]]]] = {
    "object": (_wrong_names, _names),
    "swap": (_wrong_names, _names),
    "semantic": (_wrong_texts, _texts),
    "task": (_wrong_tasks, _tasks),
    "environment": (_wrong_texts, _texts),
}
