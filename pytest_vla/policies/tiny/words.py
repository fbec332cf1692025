"""tiny's reading: an instruction as numbers of words that it has learned."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

NOTHING, UNKNOWN = 0, 1
"""Numbers of no word, and of a word that was never learned."""
LONGEST = 32
"""Words that are read; what follows is not."""
_WORD = re.compile(r"[^\W\d_]+|\d+")
_APOSTROPHES = str.maketrans("", "", "'\N{RIGHT SINGLE QUOTATION MARK}")


def tokens(instruction: str) -> list[str]:
    """Its words, of any script, in lower case and without accents, and its numbers; an apostrophe joins.

    All else parts words. Texts that are the same by Unicode's compatibility (NFKC) give the same words.
    """
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", instruction).lower())
    # Marks of all kinds: some scripts write vowels as marks, which must not part a word either.
    letters = "".join(character for character in apart if not unicodedata.category(character).startswith("M"))
    return _WORD.findall(unicodedata.normalize("NFC", letters).translate(_APOSTROPHES))


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
