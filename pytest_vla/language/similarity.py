"""S_K: how many of an instruction's content words come again; and a pair's similarities with their parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import TYPE_CHECKING

from pytest_vla.language.parsed import CONTENT, Parsed
from pytest_vla.language.trees import TreeComparison

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Match:
    """A content word of the original, and the paraphrase's that is most like it.

    Attributes:
        word: the original's.
        best: the paraphrase's; empty where the template backend finds none.
        cosine: of the two.
    """

    word: str
    best: str
    cosine: float


@dataclass(frozen=True)
class WordComparison:
    """The words of two instructions side by side, without a parser.

    Attributes:
        original: the original's words, those with a meaning as ``*``.
        paraphrase: the paraphrase's.
        edit_distance: words to insert, remove and replace, at least.
    """

    original: tuple[str, ...]
    paraphrase: tuple[str, ...]
    edit_distance: int

    @property
    def similarity(self) -> float:
        """1 - distance / (n1 + n2), 0..1; two texts without words are alike."""
        words = len(self.original) + len(self.paraphrase)
        return 1 - self.edit_distance / words if words else 1.0


@dataclass(frozen=True)
class Similarity:
    """A paraphrase against its original.

    Attributes:
        original: as it was given.
        paraphrase: as it was given.
        keyword: S_K, 0..1; a published one up to 1.2e-7 above.
        structural: S_T, 0..1.
        backend: name and version of what made both.
        matches: what S_K is the mean of; None where it was published without.
        structure: what S_T is made of; None where it was published without.
    """

    original: str
    paraphrase: str
    keyword: float
    structural: float
    backend: str
    matches: tuple[Match, ...] | None = None
    structure: TreeComparison | WordComparison | None = None


def content_lemmas(parsed: Parsed) -> tuple[str, ...]:
    """The dictionary forms of a text's content words, of all its sentences."""
    return tuple(token.lemma for sentence in parsed.sentences for token in sentence if token.pos in CONTENT)


def best_matches(
    original: Sequence[str], paraphrase: Sequence[str], vectors: "Mapping[str, NDArray[np.float64]]"
) -> tuple[Match, ...]:
    """For each content word of the original the best one of the paraphrase; none where either has none.

    Args:
        original: its content lemmas.
        paraphrase: its content lemmas.
        vectors: the unit vector of each lemma.
    """
    if not paraphrase:
        return ()

    def cosine(word: str, other: str) -> float:
        # Equal words are exactly 1, whatever the last digit of a vector's length.
        return 1.0 if word == other else min(1.0, float(vectors[word] @ vectors[other]))

    scored = ([(other, cosine(word, other)) for other in paraphrase] for word in original)
    best = (max(found, key=lambda pair: pair[1]) for found in scored)
    return tuple(Match(word, *each) for word, each in zip(original, best, strict=True))


def keyword_similarity(matches: Sequence[Match]) -> float:
    """S_K: the mean cosine of the original's words; 0 where either text has no content word."""
    return fsum(match.cosine for match in matches) / len(matches) if matches else 0.0
