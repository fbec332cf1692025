"""LIBERO-Para's published paraphrases with their similarities, from the user's ``libero_para_metadata.csv``."""

import csv
import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain, product
from math import isnan, nan
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.metrics.pride import ACTION_TYPES, NONE, OBJECT_TYPES
from pytest_vla.plan.manifests import load_suite, variable_folders
from pytest_vla.plan.task import Task

FILE = "libero_para_metadata.csv"

SUITE = "libero_para"
"""The suite that is this list."""

# How many are published of each task, and of each object type with the action types in their order.
_OF_TASKS = (416, 410, 406, 386, 403, 410, 411, 413, 423, 414)
_OF_CELLS = (
    (0, 100, 79, 74, 98, 75, 93, 88, 93, 83, 87),
    (98, 100, 100, 100, 100, 100, 99, 100, 100, 99, 99),
    (87, 100, 100, 100, 100, 99, 100, 96, 100, 100, 94),
    (74, 100, 98, 100, 97, 94, 95, 98, 100, 100, 95),
)
_NAMED = 3
_REMEDY = f"correct it, or use {FILE} as LIBERO-Para publishes it"

_COLUMNS = ("high", "low", "eval", "batch_idx", "new_instruction", "original_instruction")
_SIMILARITIES = ("structural_similarity", "keyword_similarity")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Published values are of float32 arithmetic.
_MOST = 1 + 1e-6


def cell_counts() -> dict[tuple[str, str], int]:
    """Return the number of published paraphrases by object type and action type: LIBERO-Para's Table 8."""
    rows = zip(OBJECT_TYPES, _OF_CELLS, strict=True)
    return {(kind, action): count for kind, row in rows for action, count in zip(ACTION_TYPES, row, strict=True)}


@dataclass(frozen=True)
class PublishedParaphrase:
    """A row of the CSV.

    Attributes:
        object_type: one of `OBJECT_TYPES`.
        action_type: one of `ACTION_TYPES`.
        task: LIBERO-Para's number (``eval``), 0..9, as in `numbered_tasks`.
        batch_idx: number within cell and task.
        instruction: the paraphrase.
        original: the task's own instruction.
        keyword: published S_K; up to 1.2e-7 above 1; nan for a text of the user's own.
        structural: published S_T; nan for a text of the user's own.
    """

    object_type: str
    action_type: str
    task: int
    batch_idx: int
    instruction: str
    original: str
    keyword: float
    structural: float

    @property
    def key(self) -> tuple[str, str, int, int]:
        """The identity of a row; texts do not identify rows, because 203 repeat a text in another cell."""
        return self.object_type, self.action_type, self.task, self.batch_idx

    @property
    def is_own(self) -> bool:
        """Whether it is a text of the user's own, so that no similarity is published."""
        return isnan(self.keyword)


@dataclass(frozen=True)
class Published:
    """The published paraphrases in the CSV.

    Attributes:
        version: identifies its content.
        rows: in the file's order.
        by_key: by (object type, action type, task, batch_idx).
        by_texts: by `texts_key` of original and paraphrase.
    """

    version: str
    rows: tuple[PublishedParaphrase, ...]
    by_key: Mapping[tuple[str, str, int, int], PublishedParaphrase]
    by_texts: Mapping[tuple[str, str], PublishedParaphrase]


def texts_key(original: str, paraphrase: str) -> tuple[str, str]:
    """Return two texts normalised for scores: lower-cased, with single spaces."""
    return " ".join(original.lower().split()), " ".join(paraphrase.lower().split())


def cell_of(high: str, low: str) -> tuple[str, str] | None:
    """Return object type and action type for upstream's ``act``, ``obj`` or ``comp`` with its types, or None."""
    object_type, action_type = {"act": (NONE, low), "obj": (low, NONE)}.get(high, (NONE, NONE))
    if high == "comp":
        object_type, _, action_type = low.partition("+")
        if NONE in (object_type, action_type):
            return None
    known = object_type in OBJECT_TYPES and action_type in ACTION_TYPES and (object_type, action_type) != (NONE, NONE)
    return (object_type, action_type) if known else None


def find_csv(data: Path) -> Path | None:
    """Return the CSV in a data folder or a LIBERO-Para checkout, or the file itself; None if it does not exist."""
    if data.is_file():
        return data
    places = (data / FILE, data / SUITE / FILE)
    found = [path for path in places if path.is_file()]
    if not found and data.is_dir():
        found = sorted(data.glob(f"*/{FILE}"))
    return found[0] if found else None


def csv_of(data: Path | None) -> Path | None:
    """Return the CSV in the folder given by ``--data`` or ``PYTEST_VLA_DATA``, or None if there is none.

    Raises:
        VlaError: the folder given by ``--data`` has none.
    """
    if data is not None:
        found = find_csv(data)
        if found is None:
            raise VlaError(f"--data={data} has no {FILE}; give LIBERO-Para's checkout, or the file itself")
        return found
    return next(filter(None, map(find_csv, variable_folders())), None)


@cache
def numbered_tasks() -> tuple[Task, ...]:
    """Return LIBERO-Para's tasks by its numbers: LIBERO-Goal's ten, in alphabetical order of their instructions."""
    return tuple(sorted(load_suite(SUITE).tasks, key=lambda task: task.language))


def missing_paraphrases(published: Published) -> str | None:
    """Return a line on the tasks and cells with too few paraphrases in a CSV, or None if it is complete."""
    languages = [task.language for task in numbered_tasks()]
    of_tasks = Counter(row.original for row in published.rows)
    of_cells = Counter((row.object_type, row.action_type) for row in published.rows)
    tasks = [
        f"{of_tasks[language]} of {count} of {language!r}"
        for language, count in zip(languages, _OF_TASKS, strict=True)
        if of_tasks[language] < count
    ]
    cells = [
        f"{of_cells[cell]} of {count} of {'+'.join(cell)}"
        for cell, count in zip(product(OBJECT_TYPES, ACTION_TYPES), chain(*_OF_CELLS), strict=True)
        if of_cells[cell] < count
    ]
    if not tasks and not cells:
        return None
    listed = "; ".join(_shortened(parts, what) for parts, what in ((tasks, "tasks"), (cells, "cells")) if parts)
    return (
        f"{len(published.rows)} of {sum(_OF_TASKS)} published paraphrases: {listed}. Rates cover only these; "
        "download the file again unless this is intended"
    )


def _shortened(parts: list[str], what: str) -> str:
    more = f" and {len(parts) - _NAMED} more {what}" if len(parts) > _NAMED else ""
    return ", ".join(parts[:_NAMED]) + more


def load_published(file: Path) -> Published:
    """Read the CSV.

    Raises:
        VlaError: it cannot be read or is not as published by LIBERO-Para; names the line. Missing rows do not raise:
            `missing_paraphrases` reports them.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise VlaError(f"{file} cannot be read: {error.strerror}; expected LIBERO-Para's {FILE}") from error
    lines = csv_lines(file, content)
    _, header = next(lines, (0, []))
    # A sheet of own texts (`pytest-vla own-texts`) has no similarities, which are found when they are reported.
    needed = _COLUMNS if not {*_SIMILARITIES} & {*header} else (*_COLUMNS, *_SIMILARITIES)
    missing = [name for name in needed if name not in header]
    if missing:
        raise VlaError(f"{file}: no column {', '.join(missing)}; expected LIBERO-Para's {FILE}")
    rows: dict[int, PublishedParaphrase] = {}
    for number, values in lines:
        if len(values) != len(header):
            raise _refused(file, number, f"too few or too many columns: {len(values)}, expected {len(header)}")
        rows[number] = _paraphrase(dict(zip(header, values, strict=True)), file, number)
    if not rows:
        raise VlaError(f"{file} has no paraphrase; expected LIBERO-Para's {FILE}")
    _check_tasks(file, rows)
    by_key: dict[tuple[str, str, int, int], PublishedParaphrase] = {}
    by_texts: dict[tuple[str, str], PublishedParaphrase] = {}
    places: dict[tuple[str, str, int, int], int] = {}
    for number, row in rows.items():
        first = places.setdefault(row.key, number)
        if by_key.setdefault(row.key, row) is not row:
            raise _refused(
                file, number, f"eval, types and batch_idx are those of line {first}, expected another batch_idx"
            )
        if row.is_own:
            continue
        same = by_texts.setdefault(texts_key(row.original, row.instruction), row)
        if (same.keyword, same.structural) != (row.keyword, row.structural):
            first = places[same.key]
            raise _refused(file, number, f"two scores for {row.instruction!r}, expected those of line {first}")
    return Published(f"csv {hashlib.sha256(content).hexdigest()[:8]}", tuple(rows.values()), by_key, by_texts)


def csv_lines(file: Path, content: bytes) -> Iterator[tuple[int, list[str]]]:
    """Yield a CSV's rows, each with its first line number. Raises VlaError."""
    try:
        text = content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise VlaError(
            f"{file}:{line}: cannot be read: byte {content[error.start]:#04x} is not UTF-8; save the file as UTF-8, or "
            f"use {FILE} as LIBERO-Para publishes it"
        ) from error
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        line = reader.line_num + 1
        try:
            values = next(reader, None)
        except csv.Error as error:
            raise _refused(
                file, line, f"the row that begins here cannot be read: {error}; a quotation mark may not be closed"
            ) from error
        if values is None:
            return
        if values:
            yield line, values


def _check_tasks(file: Path, rows: Mapping[int, PublishedParaphrase]) -> None:
    """Raise VlaError for an instruction that belongs to another task than the row's ``eval``."""
    languages = [task.language for task in numbered_tasks()]
    numbers = {language: number for number, language in enumerate(languages)}
    found: dict[int, dict[str, int]] = {}
    for line, row in rows.items():
        known = numbers.setdefault(row.original, row.task)
        if known != row.task:
            raise _refused(
                file,
                line,
                f"original_instruction is {row.original!r}, which is that of eval {known}; eval is {row.task}",
            )
        found.setdefault(row.task, {}).setdefault(row.original, line)
    for number, lines in found.items():
        right = languages[number] if languages[number] in lines else next(iter(lines))
        for original, line in lines.items():
            if original != right:
                why = f"original_instruction is {original!r}, expected {right!r}, which eval {number} is on line"
                raise _refused(file, line, f"{why} {lines[right]}")


def _paraphrase(text: Mapping[str, str], file: Path, line: int) -> PublishedParaphrase:
    cell = cell_of(text["high"], text["low"])
    if cell is None:
        raise _refused(file, line, f"there is no cell with high {text['high']!r} with low {text['low']!r}")
    for name in ("new_instruction", "original_instruction"):
        if not text[name].strip():
            raise _refused(file, line, f"{name} is empty, expected an instruction")
        if control := _CONTROL.search(text[name]):
            raise _refused(file, line, f"{name} has the control character {control[0]!r}, expected text in one line")
    return PublishedParaphrase(
        *cell,
        task=_number(text, "eval", file, line, len(_OF_TASKS) - 1),
        batch_idx=_number(text, "batch_idx", file, line, 999_999),
        instruction=text["new_instruction"],
        original=text["original_instruction"],
        keyword=_similarity(text, "keyword_similarity", file, line),
        structural=_similarity(text, "structural_similarity", file, line),
    )


def _number(text: Mapping[str, str], name: str, file: Path, line: int, last: int) -> int:
    if re.fullmatch("[0-9]{1,6}", text[name]) is None or int(text[name]) > last:
        raise _refused(file, line, f"{name} is {text[name]!r}, expected a whole number, 0 to {last}")
    return int(text[name])


def _similarity(text: Mapping[str, str], name: str, file: Path, line: int) -> float:
    if name not in text:
        return nan
    try:
        value = float(text[name])
    except ValueError:
        value = -1.0
    if not 0 <= value <= _MOST:
        raise _refused(file, line, f"{name} is {text[name]!r}, expected a number from 0 to 1")
    return value


def _refused(file: Path, line: int, why: str) -> VlaError:
    return VlaError(f"{file}:{line}: {why}; {_REMEDY}")
