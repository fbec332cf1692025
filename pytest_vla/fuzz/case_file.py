"""Files of cases, ``--vla-cases=FILE``: tasks with seeds and changes, with all parameters in the file.

Such a file has everything that an episode depends on beside the policy and the run's options: the same file gives the
same episode, bit for bit.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.plan.case import Case, parts_of
from pytest_vla.plan.manifests import load_suite, suite_names
from pytest_vla.plan.task import Task, check_unvaried
from pytest_vla.util.documents import TableLines, read_toml_with_lines
from pytest_vla.util.files import whole_file
from pytest_vla.util.text import LAST_SEED, did_you_mean
from pytest_vla.util.warnings import warn
from pytest_vla.vary.chosen import Change, change_of
from pytest_vla.vary.registry import check_joint, find_variation, kind_named, params_fault

SCHEMA = 1
MOST_CASES = 100_000

_HEAD = """\
# Cases of pytest-vla: pytest --vla-cases={name} --vla-model=... runs them.
schema = {schema}
"""
_FIRST = _HEAD.partition("{")[0].encode()
_KEYS = ("suite", "task", "seed", "about", "changes")


@dataclass(frozen=True)
class ListedCase:
    """A case of a file.

    Attributes:
        candidate: that is run.
        about: the file's comment on it, or an empty text.
    """

    candidate: Candidate
    about: str = ""


def read_cases(file: Path, data: Path | None = None) -> tuple[ListedCase, ...]:
    """Read the cases of a file, in its order.

    Args:
        file: TOML.
        data: folder that is searched first for the suites' files.

    Raises:
        VlaError: it cannot be read, or has an unknown or wrong entry; the message has the place and the expected value.
    """
    try:
        table, lines = read_toml_with_lines(file, "case")
    except OSError as error:
        raise VlaError(f"{file}: cases cannot be read: {error.strerror}; --vla-cases needs one TOML file") from error
    except ValueError as error:
        raise VlaError(f"{file}: not valid TOML: {error}") from error
    if unknown := [key for key in table if key not in ("schema", "case")]:
        raise VlaError(f"{lines.where()}unknown key {unknown[0]!r}: expected schema = {SCHEMA} and [[case]] tables")
    if "schema" not in table:
        raise VlaError(f"{lines.where()}expected schema = {SCHEMA} before the first [[case]], found none")
    if table["schema"] != SCHEMA:
        raise VlaError(f"{lines.where()}expected schema = {SCHEMA}, found {table['schema']!r}, of another version")
    entries = table.get("case")
    if not isinstance(entries, list) or not entries or not all(isinstance(entry, dict) for entry in entries):
        raise VlaError(f"{lines.where()}expected one [[case]] table or more, each with suite, task and seed")
    if len(entries) > MOST_CASES:
        raise VlaError(f"{lines.where()}{len(entries)} cases, expected up to {MOST_CASES}")
    found = tuple(_case(entry, number, lines, data) for number, entry in enumerate(entries))
    first: dict[str, int] = {}
    for number, each in enumerate(found):
        earlier = first.setdefault(each.candidate.case.id, number)
        if earlier != number:
            raise VlaError(f"{lines.where(number)}duplicate of case[{earlier}]: leave one of them out")
    return found


def is_case_file(file: Path) -> bool:
    """Whether a file is one that `write_cases` wrote, by its first words."""
    try:
        # A pipe would wait for its writer.
        with (file if file.is_file() else Path(os.devnull)).open("rb") as stream:
            return stream.read(len(_FIRST)) == _FIRST
    except OSError:
        return False


def listed_cases(file: Path, data: Path | None = None) -> tuple[Case, ...]:
    """Return the cases of a file, to be run; this process then knows their variations. Raises as `read_cases`."""
    return tuple(replace(each.candidate.case, given=True) for each in read_cases(file, data))


def write_cases(file: Path, cases: Iterable[ListedCase]) -> None:
    """Write a file that `read_cases` reads; the old one stays if that fails. Raises VlaError."""
    text = _HEAD.format(name=file.name, schema=SCHEMA) + "".join(map(_written, cases))
    with whole_file(file) as stream:
        stream.write(text.encode())


def _written(listed: ListedCase) -> str:
    candidate = listed.candidate
    lines = ["", "[[case]]", *(_line(*pair) for pair in _said(listed))]
    for change in candidate.changes:
        lines += [f"[case.changes.{json.dumps(change.kind)}]", *(_line(*pair) for pair in change.params.items())]
    return "\n".join(lines) + "\n"


def _said(listed: ListedCase) -> list[tuple[str, Any]]:
    task = listed.candidate.task
    pairs = [("suite", task.suite), ("task", task.key), ("seed", listed.candidate.seed)]
    return [*pairs, *([("about", listed.about)] if listed.about else [])]


def _line(name: str, value: Any) -> str:
    key = name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else json.dumps(name)
    # What JSON writes of texts, numbers, booleans and lists is TOML too, but for DEL.
    return f"{key} = {json.dumps(value, allow_nan=False, ensure_ascii=False)}".replace("\x7f", "\\u007f")


def _case(entry: Mapping[str, Any], number: int, lines: TableLines, data: Path | None) -> ListedCase:
    def wrong(key: str, text: str, kind: str = "") -> VlaError:
        return VlaError(f"{lines.where(number, key, kind)}{text}")

    for key in entry:
        if key not in _KEYS:
            raise wrong(key, f"unknown key {key!r}: expected {', '.join(_KEYS)}.{did_you_mean(key, _KEYS)}")
    for key in ("suite", "task"):
        if not isinstance(entry.get(key), str):
            raise wrong(key, f"expected {key} = a text, found {entry.get(key, 'none')!r:.60}")
    seed, about, changes = entry.get("seed"), entry.get("about", ""), entry.get("changes", {})
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= LAST_SEED:
        raise wrong("seed", f"expected seed = a whole number from 0 to {LAST_SEED}, found {entry.get('seed')!r:.60}")
    if not isinstance(about, str):
        raise wrong("about", f"expected a text, found {about!r:.60}")
    if not isinstance(changes, dict) or not all(isinstance(each, dict) for each in changes.values()):
        raise wrong("changes", 'expected tables [case.changes."KIND"] with the parameters of each kind')
    if entry["suite"] not in suite_names():
        close = did_you_mean(entry["suite"], suite_names())
        raise wrong("suite", f"there is no suite {entry['suite']!r}.{close}")
    try:
        task = load_suite(entry["suite"], data=data).task(entry["task"])
    except VlaError as error:
        raise wrong("task", str(error)) from error
    candidate = Candidate(task, seed, _changes(task, changes, wrong))
    try:
        find_variation(task, candidate.label, seed)
    except EpisodeError:
        # The kind is at fault, and not the file.
        raise
    except VlaError as error:
        raise wrong("changes", str(error)) from error
    return ListedCase(candidate, about)


def _changes(task: Task, table: Mapping[str, Mapping[str, Any]], wrong: Any) -> tuple[Change, ...]:
    found = []
    for name, params in table.items():
        try:
            fault, at = params_fault(kind_named(name), task, params)
        except EpisodeError:
            raise
        except VlaError as error:
            raise wrong("changes", str(error), name) from error
        if fault:
            raise wrong(at or "changes", fault, name)
        found.append(change_of(name, params))
    changes = tuple(found)
    try:
        if changes:
            check_unvaried(task)
        label = Candidate(task, 0, changes).label
        check_joint(label, parts_of(label))
    except VlaError as error:
        raise wrong("changes", str(error)) from error
    return changes


# Failures that searches found before, kept beside the results, a file of cases a task: tried first in the next
# search.
#
# Not Hypothesis's database: this one can be read, and run as it is with ``--vla-cases``.

FOLDER = "fuzz"
"""In the results."""

MOST_KNOWN = 10
"""Of a task, the last that were found: each costs an episode of every search."""


def known_file(results: Path, task: Task) -> Path:
    """Return the file with the known failures of a task."""
    return results / FOLDER / task.suite / f"{task.key}.toml"


def known_failures(results: Path, task: Task) -> tuple[ListedCase, ...]:
    """Return the known failures of a task, the last ones first; empty if the file cannot be used any more.

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
        warn(f"{error}; known failures of this task are not tried first")
        return ()
    own = [each for each in found if each.candidate.task.id == task.id]
    return tuple(replace(each, candidate=replace(each.candidate, task=task)) for each in own)


def remember_failures(results: Path, task: Task, found: Iterable[ListedCase], before: Iterable[ListedCase]) -> None:
    """Store new failures, then earlier ones while there is room, even if they pass now.

    Args:
        results: folder of all runs.
        task: whose they are.
        found: the new failures.
        before: the result of `known_failures`.

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
        raise VlaError(f"{file.parent}: cannot create the folder: {error.strerror}") from error
    write_cases(file, list(by_candidate.values())[:MOST_KNOWN])


def _name(candidate: Candidate) -> tuple[int, str]:
    return candidate.seed, candidate.label
