"""The command ``pytest-vla own-texts``: own paraphrases in LIBERO-Para's cells, checked, and verified by two raters.

It reads a CSV with ``original_instruction`` and ``new_instruction``, and writes a sheet: the CSV of LIBERO-Para without
similarities, with columns for the answers of two raters. The same command reads a filled-in sheet. The suite
``libero_para`` runs a sheet as it runs LIBERO-Para's own file: ``--vla-data=SHEET``.
"""

import argparse
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.language.grammar import read
from pytest_vla.language.published import cell_of, csv_lines, numbered_tasks, texts_key
from pytest_vla.metrics.discrimination import gwet_ac1
from pytest_vla.metrics.pride import ACTION_TYPES, NONE, OBJECT_TYPES
from pytest_vla.util.documents import read_plain
from pytest_vla.util.files import whole_file
from pytest_vla.util.text import counted, did_you_mean

NEEDED = ("original_instruction", "new_instruction")
TYPES: Mapping[str, Sequence[str]] = {"object_type": OBJECT_TYPES, "action_type": ACTION_TYPES}
QUESTIONS = {"same_task": "does the text ask for the same task?", "right_cell": "are both types right?"}
"""What raters answer with yes or no, by the beginning of its columns' names."""

RATERS = ("1", "2")
SHEET = ("high", "low", "eval", "batch_idx", *NEEDED, "types_by")
ANSWERS = tuple(f"{question}_{rater}" for rater in RATERS for question in QUESTIONS)
_YES_OR_NO = {"yes": True, "y": True, "1": True, "no": False, "n": False, "0": False}

MOST_CHARACTERS = 500
"""Of one text."""


@dataclass(frozen=True)
class OwnText:
    """A paraphrase of one's own.

    Attributes:
        line: in the file.
        task: LIBERO-Para's number.
        original: the task's own instruction.
        text: the paraphrase.
        types: its object type and its action type.
        by_rule: whether one of them was found by `object_type` or `action_type`, as the file has none.
        answers: of the raters, by column, None where a cell is empty; no column if the file is no sheet.
    """

    line: int
    task: int
    original: str
    text: str
    types: tuple[str, str]
    by_rule: bool
    answers: Mapping[str, bool | None]


# The types of a text, as far as words show them. On LIBERO-Para's 4,092 texts the rules give 1,850 object types, 92% of
# them right, and 3,351 action types, 93% right (tests/suites/libero_para/test_own_texts.py). They cannot tell a
# contextual replacement from a habitual one.

_ACTIONS = (
    (
        "permission_directive",
        r"^(may|might|can|could) (i|we)\b|\b(allowed|permission|permitted|okay|alright)\b.* (if|to)\b",
    ),
    (
        "embedded_imperative",
        r"\b(can|could|would|will|won't) you\b|\bif you (can|could|would)\b|^would it be possible\b",
    ),
    ("question_directive", r"\?$|^(is|are|do|does|did|should|shouldn't|has|have|isn't|where|why|how)\b"),
    ("need_statement", r"\b(i|we)('d| would)? (really )?(need|want|require|wish|like|prefer)\b|\bneeds? to\b|\bmust\b"),
    (
        "subordination",
        r"^(after|once|when|having|before|while|if|as soon|with|upon|now that|since|because|to)\b"
        r"|\b(so that|so|in order|until|which|because|such that|by \w+ing)\b",
    ),
)
_ADVERBS = r"\w+ly|please|just"
_SUBJECTS = ("the", "a", "there", "i", "it", "this", "that", "my", "we", "someone", "our")
_SMALL = "the a an that this its my our your to of in on at into onto and with put is has have had"
"""Words before a noun that add nothing to it."""


def object_type(original: str, text: str) -> str | None:
    """Return `NONE` or the type of an addition if the text has the original's nouns; None if one is replaced."""
    clauses = read(original).clauses
    things = [thing for each in clauses for thing in (each.thing, each.place.landmark if each.place else None) if thing]
    words, known = _words(text), {*_words(original), *_words(_SMALL)}
    if not {part for thing in things for part in thing.noun.split()} <= {*words, *(each.rstrip("s") for each in words)}:
        return None
    firsts = {thing.noun.split()[0] for thing in things}
    added = any(noun in firsts and before not in known for before, noun in pairwise(words))
    return OBJECT_TYPES[1] if added else NONE


def action_type(original: str, text: str) -> str | None:
    """Return the type that the form of a text shows, or None for a replaced verb."""
    low = " ".join(text.lower().split())
    if found := next((name for name, pattern in _ACTIONS if re.search(pattern, low)), None):
        return found
    steps = low.count(" and ") + low.count("then ") + len(re.findall(r"[.;] ", low))
    if steps > original.lower().count(" and "):
        return "coordination"
    words = _words(text)
    plain = [word for word in words if not re.fullmatch(_ADVERBS, word)]
    if len(plain) < len(words):
        return "addition_deletion"
    if plain[:1] == _words(original)[:1]:
        return NONE
    return "hint" if plain[:1] and plain[0] in _SUBJECTS else None


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z']+", text.lower())


# Files.


def read_texts(file: Path) -> tuple[OwnText, ...]:
    """Read own texts, or a sheet of them.

    Raises:
        VlaError: the file cannot be read, or a line is not as it should be; names the line, and what to change.
    """
    try:
        content = read_plain(file)
    except OSError as error:
        raise VlaError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise VlaError(f"{file} cannot be read: {error}") from error
    lines = csv_lines(file, content)
    _, header = next(lines, (0, []))
    if missing := [name for name in NEEDED if name not in header]:
        raise VlaError(
            f"{file}: no column {', '.join(missing)} in its first line; expected {', '.join(NEEDED)}, and, if types "
            f"are known, {' and '.join(TYPES)}"
        )
    tasks = {texts_key("", task.language)[1]: number for number, task in enumerate(numbered_tasks())}
    found: list[OwnText] = []
    seen: dict[tuple[int, str], int] = {}
    for line, values in lines:
        if len(values) != len(header):
            raise VlaError(f"{file}:{line}: {len(values)} columns, expected {len(header)}, as in the first line")
        each = _own_text(dict(zip(header, values, strict=True)), f"{file}:{line}", line, tasks)
        key = each.task, texts_key("", each.text)[1]
        if (first := seen.setdefault(key, line)) != line:
            raise VlaError(f"{file}:{line}: {each.text!r} is also on line {first}. Take one of them out")
        found.append(each)
    if not found:
        raise VlaError(f"{file} has no text below its first line")
    return tuple(found)


def _own_text(row: Mapping[str, str], place: str, line: int, tasks: Mapping[str, int]) -> OwnText:
    original, text = (row[name].strip() for name in NEEDED)
    (key, new) = texts_key(original, text)
    if key not in tasks:
        raise VlaError(
            f"{place}: {original!r} is no instruction of LIBERO-Goal.{did_you_mean(key, tasks)} Expected one of: "
            f"{', '.join(tasks)}"
        )
    if not new or new == key or len(text) > MOST_CHARACTERS or not text.isprintable():
        raise VlaError(
            f"{place}: new_instruction is {text[:60]!r}; expected another text than the original, of 1 to "
            f"{MOST_CHARACTERS} characters in one line"
        )
    types, by_rule = _types(row, original, text, place)
    return OwnText(line, tasks[key], original, text, types, by_rule, _answers(row, place))


def _types(row: Mapping[str, str], original: str, text: str, place: str) -> tuple[tuple[str, str], bool]:
    if row.get("high") and (of_sheet := cell_of(row["high"], row.get("low", ""))) is not None:
        return of_sheet, row.get("types_by") == "rule"
    given = {name: row.get(name, "").strip() for name in TYPES}
    for name, known in TYPES.items():
        if given[name] and given[name] not in known:
            raise VlaError(
                f"{place}: {name} is {given[name]!r}.{did_you_mean(given[name], known)} Expected {', '.join(known)}"
            )
    found = (
        given["object_type"] or object_type(original, text),
        given["action_type"] or action_type(original, text),
    )
    for name, each in zip(TYPES, found, strict=True):
        if each is None:
            what = "noun" if name == "object_type" else "verb"
            raise VlaError(
                f"{place}: {text!r} replaces a {what}, and rules cannot tell how. Write same_polarity_contextual or "
                f"same_polarity_habitual in the column {name}"
            )
    types = str(found[0]), str(found[1])
    if types == (NONE, NONE):
        raise VlaError(
            f"{place}: {text!r} changes neither object nor action, by its types. Name them, or change the text"
        )
    return types, not all(given.values())


def _answers(row: Mapping[str, str], place: str) -> dict[str, bool | None]:
    found: dict[str, bool | None] = {}
    for name in ANSWERS if any(each in row for each in ANSWERS) else ():
        given = row.get(name, "").strip().lower()
        if given and given not in _YES_OR_NO:
            raise VlaError(f"{place}: {name} is {given[:20]!r}, expected yes or no")
        found[name] = _YES_OR_NO[given] if given else None
    return found


def sheet_text(texts: Sequence[OwnText], is_rated: bool = False) -> str:
    """Return a sheet, with or without columns for raters; texts of a cell and task are numbered in their order."""
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*SHEET, *(() if is_rated else ANSWERS)])
    numbers: Counter[tuple[tuple[str, str], int]] = Counter()
    for each in texts:
        kind, action = each.types
        high, low = (
            ("act", action) if kind == NONE else ("obj", kind) if action == NONE else ("comp", f"{kind}+{action}")
        )
        number = numbers[each.types, each.task]
        numbers[each.types, each.task] += 1
        row = [high, low, each.task, number, each.original, each.text, "rule" if each.by_rule else "author"]
        writer.writerow(row + [""] * len(ANSWERS) * (not is_rated))
    return stream.getvalue()


def agreement_lines(file: Path, texts: Sequence[OwnText]) -> Iterator[str]:
    """Yield a line for each question: how often both raters say yes, agree, and Gwet's AC1.

    Raises:
        VlaError: an answer is missing; names the first line, its empty columns, and how many other lines have some.
    """
    if missing := {each.line: names for each in texts if (names := [n for n in ANSWERS if each.answers[n] is None])}:
        line, names = next(iter(missing.items()))
        raise VlaError(
            f"{file}:{line}: no answer in {', '.join(names)}. {counted(len(missing), 'text')} of {len(texts)} "
            f"{'lacks' if len(missing) == 1 else 'lack'} answers of the raters. Fill in yes or no in the columns "
            f"{', '.join(ANSWERS)} of each line, then run the command again. Nothing was written"
        )
    for question, about in QUESTIONS.items():
        pairs = [(bool(each.answers[f"{question}_1"]), bool(each.answers[f"{question}_2"])) for each in texts]
        same = sum(one == other for one, other in pairs) / len(pairs)
        both = sum(one and other for one, other in pairs)
        yield (
            f"{question} ({about}): both yes for {both} of {len(pairs)}; observed agreement {same:.3f}, "
            f"Gwet's AC1 {gwet_ac1(pairs):.3f}"
        )


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "FILE has the columns original_instruction and new_instruction, and may have object_type and action_type. "
        "Empty types are found by rules, except for replaced nouns and verbs. The sheet has four columns that two "
        "raters fill in with yes or no: "
        + "; ".join(f"{name}_1, {name}_2: {about}" for name, about in QUESTIONS.items())
        + " Given "
        "a filled-in sheet, the command prints the agreement (Gwet's AC1) and writes the texts that both accept. Run "
        "them: pytest --vla-suite=libero_para --vla-data=SHEET."
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="a CSV of your texts, or a sheet that raters filled in")
    parser.add_argument(
        *("-o", "--output"),
        metavar="FILE",
        type=Path,
        help="CSV to write (default: NAME-sheet.csv beside FILE, or NAME-verified.csv for a filled-in sheet)",
    )


def run(options: argparse.Namespace) -> None:
    """Check the texts, and write a sheet; or print the agreement of a filled-in sheet, and write what both accept."""
    texts = read_texts(options.file)
    is_rated = any(each.answers for each in texts)
    kept = [each for each in texts if all(each.answers.values())] if is_rated else texts
    if is_rated:
        print("\n".join(agreement_lines(options.file, texts)))
    cells = len({each.types for each in kept})
    by_rule = sum(each.by_rule for each in kept)
    output = options.output or options.file.with_name(f"{options.file.stem}-{'verified' if is_rated else 'sheet'}.csv")
    if not is_rated and output.is_file() and any({*each.answers.values()} - {None} for each in read_texts(output)):
        raise VlaError(f"{output} has answers of raters, which would be lost. Name another sheet with -o FILE")
    with whole_file(output) as stream:
        stream.write(sheet_text(kept, is_rated).encode())
    print(f"{output}: {counted(len(kept), 'text')} in {cells} of 43 cells; types of {by_rule} found by rules")


COMMAND = Command(declare, run)
