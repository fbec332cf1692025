"""Similarities without any package, of low fidelity: words compared as they are written, and in their order."""

import re
from collections.abc import Sequence

from pytest_vla.language.similarity import Match, WordComparison

VERSION = "1"

UNLIKE = 0.45
"""What the best of a paraphrase's words counts that is another word; on LIBERO-Para's tasks 0-5 about its cosine."""

_FUNCTION_WORDS = frozenset(
    word
    for line in (
        "a an the this that these those some any each every no",
        "i you he she it we they me him her us them my your his its our their who what which there someone something",
        "am is are was were be been being do does did have has had can could will would shall should may might must",
        "of in on at to from with into onto inside for by over under upon off out up down through toward towards",
        "within near across against along around behind below beneath beside between about as",
        "and or but so if when while because after before until since once not please",
    )
    for word in line.split()
)
_ENDINGS = ("ing", "ed", "es", "s", "e")


def compare_words(original: str, paraphrase: str) -> WordComparison:
    """The first sentences of two texts by Levenshtein's distance over words, in which all content words are alike."""
    first, second = _frame(original), _frame(paraphrase)
    return WordComparison(first, second, _edit_distance(first, second))


def match_words(original: str, paraphrase: str) -> tuple[Match, ...]:
    """For each content word of the original one of the paraphrase: of the same stem 1, else `UNLIKE`."""
    words, others = (
        [word for word in _words(text) if _is_word(word) and word not in _FUNCTION_WORDS]
        for text in (original, paraphrase)
    )
    if not others:
        return ()
    stems = {_stem(other): other for other in reversed(others)}
    return tuple(
        Match(word, stems[stem], 1.0) if (stem := _stem(word)) in stems else Match(word, "", UNLIKE) for word in words
    )


def _words(text: str) -> list[str]:
    return re.findall(r"\w+(?:['\u2019-]\w+)*|[^\w\s]", text.lower())


def _is_word(word: str) -> bool:
    return word[0].isalnum() or word[0] == "_"


def _frame(text: str) -> tuple[str, ...]:
    first = re.split(r"(?<=[.!?])\s+", text.strip())[0]
    return tuple(word if word in _FUNCTION_WORDS else "*" if _is_word(word) else "." for word in _words(first))


def _stem(word: str) -> str:
    return next((word[: -len(e)] for e in _ENDINGS if word.endswith(e) and len(word) - len(e) >= 3), word)


def _edit_distance(first: Sequence[str], second: Sequence[str]) -> int:
    row = list(range(len(second) + 1))
    for number, word in enumerate(first, 1):
        diagonal, row[0] = row[0], number
        for index, other in enumerate(second, 1):
            diagonal, row[index] = row[index], min(row[index] + 1, row[index - 1] + 1, diagonal + (word != other))
    return row[-1]
