"""LIBERO-PRO's semantic paraphrases as variations of LIBERO's tasks, from the user's ``ood_language.yaml``."""

import hashlib
import importlib
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.suite import Task, did_you_mean
from pytest_vla.variation import Variation
from pytest_vla.vary.given import find_given, first_at
from pytest_vla.vary.language import DIMENSION, generator_of

FILE = "ood_language.yaml"

# A data folder's, a checkout's, and a checkout's in a data folder.
_PLACES = (FILE, f"libero_pro/{FILE}", f"libero_ood/{FILE}", f"*/{FILE}", f"*/libero_ood/{FILE}")


@dataclass(frozen=True)
class Paraphrases:
    """The YAML, by (suite, task).

    Attributes:
        digest: of the file: the first 16 digits of its SHA-256.
        texts: of each task whose entries are all texts, in the file's order.
        malformed: of each other task, what is wrong with which entry.
    """

    digest: str
    texts: Mapping[tuple[str, str], tuple[str, ...]]
    malformed: Mapping[tuple[str, str], tuple[str, ...]]


def paraphrase(task: Task, label: str, seed: int) -> Variation:
    """One of the task's paraphrases, drawn by the seed as upstream draws it; as upstream's BDDL reader gives it.

    Raises:
        VlaError: the YAML is nowhere, cannot be read, or has no task of this name, or one of the task's entries is
            malformed, whichever is drawn.
    """
    file = _find(task.data)
    found = _loaded(file, file.stat().st_mtime_ns)
    key = (task.files, task.name)
    if wrong := found.malformed.get(key):
        raise VlaError(
            f"{label}: {file} is malformed at {'/'.join(key)}: {'; '.join(wrong)}. Mend it in a copy of the file, or "
            "select other tasks by --vla-tasks"
        )
    if key not in found.texts:
        known = [name for suite, name in (*found.texts, *found.malformed) if suite == task.files]
        raise VlaError(f"{label}: {file} has no task {'/'.join(key)}.{did_you_mean(task.name, known)}")
    texts = found.texts[key]
    index = generator_of(task, label, seed).randrange(len(texts))
    parameters = {"file": file.name, "digest": found.digest, "index": index, "original": task.language}
    return Variation(label, DIMENSION, "libero-pro", parameters=parameters, instruction=texts[index])


def load_paraphrases(file: Path) -> Paraphrases:
    """Reads the YAML, ``suite: {task: [text, ...]}``.

    Raises:
        VlaError: it cannot be read, is not of that form, or PyYAML is not installed. Malformed entries do not raise.
    """
    yaml = _yaml()
    try:
        content = file.read_bytes()
        read = yaml.safe_load(content)
    except OSError as error:
        raise VlaError(f"{file} cannot be read: {error.strerror}; expected LIBERO-PRO's {FILE}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise VlaError(f"{file} cannot be read as YAML: {reason}; expected LIBERO-PRO's {FILE}") from error
    if not _is_table(read) or not all(map(_is_table, read.values())):
        raise VlaError(f"{file}: expected LIBERO-PRO's {FILE}: suites, each with tasks, each with a list of texts")
    texts: dict[tuple[str, str], tuple[str, ...]] = {}
    malformed: dict[tuple[str, str], tuple[str, ...]] = {}
    for suite, tasks in read.items():
        for name, entries in tasks.items():
            wrong = _wrong(entries)
            if wrong:
                malformed[suite, name] = wrong
            else:
                texts[suite, name] = tuple(as_bddl(text) for text in entries)
    return Paraphrases(hashlib.sha256(content).hexdigest()[:16], texts, malformed)


def as_bddl(text: str) -> str:
    """What upstream's BDDL reader makes of a text in ``:language``: lower-cased, with single spaces."""
    return " ".join(text.lower().split())


def _find(data: Path | None) -> Path:
    return find_given(data, first_at(_PLACES), "LIBERO-PRO", FILE)


@cache
def _loaded(file: Path, changed: int) -> Paraphrases:
    return load_paraphrases(file)


def _yaml() -> Any:
    try:
        return importlib.import_module("yaml")
    except ImportError as error:
        raise VlaError(f"{FILE} cannot be read without PyYAML ({error}): pip install pyyaml") from error


def _is_table(value: object) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(key, str) for key in value)


def _wrong(entries: object) -> tuple[str, ...]:
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
        return f"is no text: {reprlib.repr(entry)}"
    return "has ( or ) or ;, which no BDDL text can" if set(entry) & set("();") else ""
