"""LIBERO-Plus's list of tasks, ``task_classification.json``, and the checkout around it, from the user's folders."""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.data_roots import find_given, first_at
from pytest_vla.plan.manifests import given_folders
from pytest_vla.plan.task import Task
from pytest_vla.suites.libero_plus.names import CATEGORIES, SUITES, PlusTask, parse_name

FILE = "task_classification.json"
LIST = f"benchmark/{FILE}"
"""In the package of a checkout."""

# Of a checkout, of the package in it, and of a checkout in a data folder.
_CHECKOUTS = (f"libero/libero/{LIST}", LIST, f"libero_plus/libero/libero/{LIST}", f"*/libero/libero/{LIST}")
_ALONE = (FILE, f"libero_plus/{FILE}")


@dataclass(frozen=True)
class Given:
    """What the user has of LIBERO-Plus.

    Attributes:
        file: the list.
        package: the folder of ``bddl_files``, ``init_files`` and ``assets``; None: the list is all there is.
    """

    file: Path
    package: Path | None

    def bddl(self, entry: PlusTask) -> Path | None:
        """The file that upstream opens for a task; None where it is not there."""
        return self._file(f"bddl_files/{entry.suite}/{entry.file}.bddl")

    def init_states(self, entry: PlusTask) -> Path | None:
        """The state that upstream starts a task with another layout from; None where it is not there."""
        return self._file(f"init_files/libero_newobj/{entry.suite}/{entry.file}.pruned_init")

    def asset(self, name: str) -> Path | None:
        """A file of its assets, by its name with forward slashes; None where it is not there."""
        return self._file(f"assets/{name}")

    def _file(self, name: str) -> Path | None:
        path = self.package / name if self.package is not None else None
        return path if path is not None and path.is_file() else None


def find_checkout(data: Path | None) -> Given:
    """A checkout of LIBERO-Plus, whose BDDL files have its rewrites. Raises VlaError: there is none; what to give."""
    folders = given_folders(data)
    for checkout in filter(None, map(first_at(_CHECKOUTS), folders)):
        return _given(checkout)
    for alone in filter(None, map(first_at(_ALONE), folders)):
        raise VlaError(
            f"{alone} is LIBERO-Plus's list of tasks alone: its rewritten instructions are in the BDDL files of its "
            "checkout (libero/libero/bddl_files). Give the whole checkout by --vla-data or PYTEST_VLA_DATA"
        )
    looked = ", ".join(map(str, folders))
    raise VlaError(
        f"LIBERO-Plus's libero/libero/{LIST} was not found: give a checkout of LIBERO-Plus, with its BDDL files, by "
        f"--vla-data or PYTEST_VLA_DATA.{f' Looked in {looked}.' if looked else ''}"
    )


def find_list(data: Path | None) -> Given:
    """A checkout of LIBERO-Plus, or its list alone. Raises VlaError where neither is there, saying what to give."""
    for folder in given_folders(data):
        if (found := first_at(_CHECKOUTS)(folder)) is not None:
            return _given(found)
    return _given(find_given(data, first_at(_ALONE), "LIBERO-Plus", FILE))


def section_of(bddl: Path, name: str) -> str | None:
    """The words of a section of a BDDL file; None where it has to be parsed to be known.

    Thousands of files are read at collection, and each is parsed when its scene is built.
    """
    try:
        text = bddl.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
    found = re.findall(rf"\(\s*{name}\s([^()]*)\)", text, re.IGNORECASE)
    return " ".join(found[0].split()) if len(found) == 1 and ";" not in text else None


def _given(file: Path) -> Given:
    package = file.parent.parent if file.parent.name == "benchmark" else None
    return Given(file, package)


def entries_of(given: Given, task: Task) -> Sequence[PlusTask]:
    """What the list has of a task of LIBERO, in its order; the file is read once. Raises VlaError as `read_list`."""
    return _by_task(given.file, given.file.stat().st_mtime_ns).get((task.files, task.name), ())


def read_list(file: Path) -> Mapping[str, tuple[PlusTask, ...]]:
    """The tasks of each suite, with their difficulties, in the list's order.

    Raises:
        VlaError: the file cannot be read, is not LIBERO-Plus's list, or an entry is not as its name says; it names the
            file, the entry, and what was expected.
    """
    try:
        suites = json.loads(file.read_bytes())
    except OSError as error:
        raise VlaError(f"{file} cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise _refused(file, f"line {error.lineno}, column {error.colno} is no JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise _refused(file, "it is not UTF-8, as JSON is") from error
    except (ValueError, RecursionError) as error:
        raise _refused(file, "its lists are too deep, or a number in it too long, to be JSON of such a list") from error
    if not isinstance(suites, dict) or not all(isinstance(tasks, list) for tasks in suites.values()):
        raise _refused(file, "expected suites, each with a list of tasks")
    if unknown := sorted(set(suites) - set(SUITES)):
        raise _refused(file, f"its suite {unknown[0]!r} is none of {', '.join(SUITES)}")
    found = {}
    for suite, tasks in suites.items():
        parsed = tuple(_entry(file, suite, number, table) for number, table in enumerate(tasks, 1))
        names: dict[str, int] = {}
        for number, entry in enumerate(parsed, 1):
            first = names.setdefault(entry.name, number)
            if first != number:
                raise _refused(file, f"{suite}, entries {first} and {number} are both {entry.name!r}")
        found[suite] = parsed
    return found


def _entry(file: Path, suite: str, number: int, table: Any) -> PlusTask:
    where = f"{suite}, entry {number}"
    if not isinstance(table, dict):
        raise _refused(file, f"{where}: expected name, category and difficulty_level, found {table!r:.200}")
    for key in ("name", "category", "difficulty_level"):
        if key not in table:
            raise _refused(file, f"{where} has no {key!r}: {table!r:.200}")
    name, category, difficulty = table["name"], table["category"], table["difficulty_level"]
    if not isinstance(name, str):
        raise _refused(file, f"{where}: expected a text as its name, found {name!r:.200}")
    try:
        entry = parse_name(name)
    except VlaError as error:
        raise _refused(file, f"{where}: {error}") from error
    if entry.suite != suite:
        raise _refused(file, f"{where}: {name!r} is of {entry.suite}")
    if not isinstance(category, str) or entry.dimension != CATEGORIES.get(category):
        expected = next((text for text, ours in CATEGORIES.items() if ours == entry.dimension), None)
        raise _refused(file, f"{where}: the category of {name!r} is {category!r}, expected {expected or 'one of one'}")
    if difficulty is not None and (type(difficulty) is not int or not 1 <= difficulty <= 5):
        raise _refused(file, f"{where}: the difficulty_level of {name!r} is {difficulty!r}, expected 1 to 5 or null")
    return dataclasses.replace(entry, difficulty=difficulty)


def _refused(file: Path, why: str) -> VlaError:
    return VlaError(f"{file} is not LIBERO-Plus's list of tasks: {why}. Take that of its checkout")


@cache
def _by_task(file: Path, changed: int) -> Mapping[tuple[str, str], tuple[PlusTask, ...]]:
    found: dict[tuple[str, str], list[PlusTask]] = {}
    for suite, entries in read_list(file).items():
        for entry in entries:
            found.setdefault((suite, entry.base), []).append(entry)
    return {key: tuple(entries) for key, entries in found.items()}
