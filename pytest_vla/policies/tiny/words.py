"""tiny's reading: an instruction as numbers of words that it has learned."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

NOTHING, UNKNOWN = 0, 1
"""Numbers of no word, and of a word that was never learned."""
LONGEST = 32
"""Words that are read; what follows is not."""
_WORD = re.compile(r"[a-z]+|[0-9]+")


def tokens(instruction: str) -> list[str]:
    """Its words in lower case and its numbers; all else parts them, but an apostrophe joins."""
    return _WORD.findall(instruction.lower().replace("'", "").replace("\N{RIGHT SINGLE QUOTATION MARK}", ""))


def vocabulary_of(instructions: Iterable[str], least: int = 1) -> tuple[str, ...]:
    """The words that occur at least so often, sorted; the places of `NOTHING` and `UNKNOWN` are empty texts."""
    counts = Counter(word for instruction in instructions for word in tokens(instruction))
    return ("", "", *sorted(word for word, count in counts.items() if count >= least))


def places_of(vocabulary: Iterable[str]) -> dict[str, int]:
    """The number of each word of a vocabulary."""
    return {word: place for place, word in enumerate(vocabulary) if word}


def numbered(instruction: str, places: Mapping[str, int], longest: int = LONGEST) -> npt.NDArray[np.int64]:
    """An instruction as numbers of words (longest,).

    A word that was never learned is `UNKNOWN`; after the last word stands `NOTHING`; an instruction without words is
    `NOTHING` throughout.
    """
    found = [places.get(word, UNKNOWN) for word in tokens(instruction)[:longest]]
    return np.array(found + [NOTHING] * (longest - len(found)), dtype=np.int64)
