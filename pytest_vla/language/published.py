"""LIBERO-Para's published paraphrases with their similarities, from the user's ``libero_para_metadata.csv``."""

import csv
import hashlib
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.metrics.pride import ACTION_TYPES, NONE, OBJECT_TYPES

FILE = "libero_para_metadata.csv"

_COLUMNS = ("high", "low", "eval", "batch_idx", "new_instruction", "original_instruction")
_SIMILARITIES = ("structural_similarity", "keyword_similarity")
# Published values are of float32 arithmetic.
_MOST = 1 + 1e-6


@dataclass(frozen=True)
class Paraphrase:
    """A row of the CSV.

    Attributes:
        object_type: one of `OBJECT_TYPES`.
        action_type: one of `ACTION_TYPES`.
        task: LIBERO-Para's number (``eval``), 0..9: its ten instructions in alphabetical order, not LIBERO-Goal's.
        batch_idx: number within cell and task.
        instruction: the paraphrase.
        original: the task's own instruction.
        keyword: published S_K; up to 1.2e-7 above 1.
        structural: published S_T.
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
        """What tells rows apart; texts do not: 203 rows repeat a text in another cell."""
        return self.object_type, self.action_type, self.task, self.batch_idx


@dataclass(frozen=True)
class Published:
    """The CSV.

    Attributes:
        version: names its content.
        rows: in the file's order.
        by_key: by (object type, action type, task, batch_idx).
        by_texts: by `texts_key` of original and paraphrase.
    """

    version: str
    rows: tuple[Paraphrase, ...]
    by_key: Mapping[tuple[str, str, int, int], Paraphrase]
    by_texts: Mapping[tuple[str, str], Paraphrase]


def texts_key(original: str, paraphrase: str) -> tuple[str, str]:
    """Two texts as scores see them: lower-cased, with single spaces."""
    return " ".join(original.lower().split()), " ".join(paraphrase.lower().split())


def cell_of(high: str, low: str) -> tuple[str, str] | None:
    """Object type and action type of upstream's ``act``, ``obj`` or ``comp`` with its types; None for no such cell."""
    object_type, action_type = {"act": (NONE, low), "obj": (low, NONE)}.get(high, (NONE, NONE))
    if high == "comp":
        object_type, _, action_type = low.partition("+")
        if NONE in (object_type, action_type):
            return None
    known = object_type in OBJECT_TYPES and action_type in ACTION_TYPES and (object_type, action_type) != (NONE, NONE)
    return (object_type, action_type) if known else None


def find_csv(data: Path) -> Path | None:
    """The CSV in a folder of data or a LIBERO-Para checkout, or the file itself; None where it is not there."""
    if data.is_file():
        return data
    places = (data / FILE, data / "libero_para" / FILE)
    found = [path for path in places if path.is_file()]
    if not found and data.is_dir():
        found = sorted(data.glob(f"*/{FILE}"))
    return found[0] if found else None


def load_published(file: Path) -> Published:
    """Reads the CSV.

    Raises:
        VlaError: it cannot be read or is not what LIBERO-Para publishes; names the line.
    """
    try:
        content = file.read_bytes()
        lines = csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        missing = [name for name in (*_COLUMNS, *_SIMILARITIES) if name not in (lines.fieldnames or ())]
        if missing:
            raise VlaError(f"{file}: no column {', '.join(missing)}; expected LIBERO-Para's {FILE}")
        rows = tuple(_paraphrase(line, f"{file}:{lines.line_num}") for line in lines)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise VlaError(f"{file} cannot be read: {error}; expected LIBERO-Para's {FILE}") from error
    if not rows:
        raise VlaError(f"{file} has no paraphrase; expected LIBERO-Para's {FILE}")
    by_key: dict[tuple[str, str, int, int], Paraphrase] = {}
    by_texts: dict[tuple[str, str], Paraphrase] = {}
    for row in rows:
        if by_key.setdefault(row.key, row) is not row:
            raise VlaError(f"{file} has {row.key} twice; expected LIBERO-Para's {FILE}")
        same = by_texts.setdefault(texts_key(row.original, row.instruction), row)
        if (same.keyword, same.structural) != (row.keyword, row.structural):
            raise VlaError(f"{file} has two scores for {row.instruction!r}; expected LIBERO-Para's {FILE}")
    return Published(f"csv {hashlib.sha256(content).hexdigest()[:8]}", rows, by_key, by_texts)


def _paraphrase(line: Mapping[str, str | None], place: str) -> Paraphrase:
    values = {name: line[name] for name in (*_COLUMNS, *_SIMILARITIES)}
    if None in values.values() or None in line:
        raise VlaError(f"{place}: too few or too many columns; expected LIBERO-Para's {FILE}")
    text = {name: str(value) for name, value in values.items()}
    cell = cell_of(text["high"], text["low"])
    if cell is None:
        raise VlaError(f"{place}: no cell has high {text['high']!r} with low {text['low']!r}")
    for name in ("new_instruction", "original_instruction"):
        if not text[name].strip():
            raise VlaError(f"{place}: {name} is empty")
    return Paraphrase(
        *cell,
        task=_number(text["eval"], "eval", place),
        batch_idx=_number(text["batch_idx"], "batch_idx", place),
        instruction=text["new_instruction"],
        original=text["original_instruction"],
        keyword=_similarity(text["keyword_similarity"], "keyword_similarity", place),
        structural=_similarity(text["structural_similarity"], "structural_similarity", place),
    )


def _number(text: str, name: str, place: str) -> int:
    if re.fullmatch("[0-9]{1,6}", text) is None:
        raise VlaError(f"{place}: {name} is {text!r}, expected a whole number")
    return int(text)


def _similarity(text: str, name: str, place: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= _MOST:
        raise VlaError(f"{place}: {name} is {text!r}, expected a number from 0 to 1")
    return value
