"""Similarity of a paraphrase and its original: S_K by content words, S_T by dependency trees, and their parts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import fsum
from typing import TYPE_CHECKING, Protocol

from pytest_vla.util.extras import required

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Parsed instructions, as every parser of ours returns them.

CONTENT = frozenset(("NOUN", "VERB", "ADJ", "ADV", "PROPN"))
"""Parts of speech whose words carry meaning: what S_K compares (LIBERO-Para, arXiv 2603.28301)."""


@dataclass(frozen=True)
class Token:
    """A word or punctuation mark in a sentence.

    Attributes:
        text: lower-cased.
        lemma: its dictionary form.
        pos: universal part of speech, ``VERB``.
        dep: dependency label in spaCy's English (ClearNLP) scheme, ``dobj``; ``ROOT`` for the sentence's root.
        head: index of its head in the sentence; its own for the root.
    """

    text: str
    lemma: str
    pos: str
    dep: str
    head: int


Sentence = tuple[Token, ...]


@dataclass(frozen=True)
class Parsed:
    """A parsed text: its sentences in order, none for a text without words."""

    text: str
    sentences: tuple[Sentence, ...]


class Parser(Protocol):
    """A parser of instructions.

    Attributes:
        name: the backend's, for records and tables.
        version: identifies its parts; another version may give other trees.
    """

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    def parse(self, texts: Sequence[str]) -> list[Parsed]:
        """Parse the texts, lower-cased; one call for many texts is faster than many calls."""


# Dependency trees, and S_T: the similarity of two instructions' trees.


@dataclass(frozen=True)
class Tree:
    """A node: its label (dependency, part of speech), and its children in the order of their labels."""

    label: tuple[str, str]
    children: tuple["Tree", ...] = ()


@dataclass(frozen=True)
class TreeComparison:
    """The trees of two instructions side by side.

    Attributes:
        original: the first sentence of the original; empty for a text without words.
        paraphrase: the first sentence of the paraphrase.
        edit_distance: the least number of nodes to insert, remove and rename.
    """

    original: Sentence
    paraphrase: Sentence
    edit_distance: int

    @property
    def similarity(self) -> float:
        """S_T = 1 - distance / (n1 + n2), 0..1; two texts without words are alike."""
        nodes = len(self.original) + len(self.paraphrase)
        return 1 - self.edit_distance / nodes if nodes else 1.0


def compare_trees(original: Parsed, paraphrase: Parsed) -> TreeComparison:
    """Compare the first sentences of two texts, as the paper does; other sentences do not count.

    Raises:
        VlaError: zss is not installed.
        ValueError: a sentence's heads form no tree.
    """
    first, second = (parsed.sentences[0] if parsed.sentences else () for parsed in (original, paraphrase))
    if not first or not second:
        return TreeComparison(first, second, len(first) + len(second))
    return TreeComparison(first, second, tree_edit_distance(ordered_tree(first), ordered_tree(second)))


def ordered_tree(sentence: Sentence) -> Tree:
    """Return a sentence's tree with siblings sorted by label, so that word order does not matter.

    Raises:
        ValueError: the heads form no tree.
    """
    children = children_of(sentence)
    roots = [index for index, token in enumerate(sentence) if token.head == index]
    if len(roots) != 1:
        raise ValueError(f"{_shown(sentence)}: {len(roots)} roots in one sentence")
    # From the leaves up: a child comes after its head in `order`.
    order = list(roots)
    for index in order:
        order.extend(children[index])
    if len(order) != len(sentence):
        raise ValueError(f"{_shown(sentence)}: the heads form a cycle")
    trees: dict[int, Tree] = {}
    for index in reversed(order):
        token = sentence[index]
        trees[index] = Tree((token.dep, token.pos), tuple(trees[child] for child in children[index]))
    return trees[roots[0]]


def children_of(sentence: Sentence) -> list[list[int]]:
    """Return the indices of each token's children, sorted by label; equal labels stay in the text's order.

    Raises:
        ValueError: a head is outside the sentence.
    """
    children: list[list[int]] = [[] for _ in sentence]
    for index, token in enumerate(sentence):
        if not 0 <= token.head < len(sentence):
            raise ValueError(f"{_shown(sentence)}: the head of {token.text!r} is outside the sentence")
        if token.head != index:
            children[token.head].append(index)
    for each in children:
        each.sort(key=lambda index: (sentence[index].dep, sentence[index].pos))
    return children


@lru_cache(maxsize=65536)
def tree_edit_distance(first: Tree, second: Tree) -> int:
    """Compute Zhang and Shasha's distance: to insert, remove or rename a node costs 1. Raises VlaError without zss."""
    zss = required("zss")
    # Never zss's default label distance: with the package editdist installed it compares letters.
    distance = zss.distance(
        *(first, second),
        get_children=lambda node: node.children,
        insert_cost=lambda node: 1,
        remove_cost=lambda node: 1,
        update_cost=lambda one, other: int(one.label != other.label),
    )
    return int(distance)


def tree_lines(sentence: Sentence) -> Sequence[str]:
    """Format a sentence's tree, one line per node, ``word dep POS``, siblings in the order of the comparison."""
    children = children_of(sentence)
    lines: list[str] = []
    stack = [(index, 0) for index, token in enumerate(sentence) if token.head == index]
    while stack:
        index, depth = stack.pop()
        token = sentence[index]
        lines.append(f"{'  ' * depth}{token.text}  {token.dep} {token.pos}")
        stack.extend((child, depth + 1) for child in reversed(children[index]))
    return lines


def _shown(sentence: Sentence) -> str:
    return repr(" ".join(token.text for token in sentence))


@dataclass(frozen=True)
class Match:
    """A content word of the original, with the most similar one of the paraphrase.

    Attributes:
        word: the original's.
        best: the paraphrase's; empty if the template backend finds none.
        cosine: their similarity.
    """

    word: str
    best: str
    cosine: float


@dataclass(frozen=True)
class WordComparison:
    """The words of two instructions side by side, without a parser.

    Attributes:
        original: the original's words, content words as ``*``.
        paraphrase: the paraphrase's words, content words as ``*``.
        edit_distance: the least number of words to insert, remove and replace.
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
    """The similarities of a paraphrase and its original.

    Attributes:
        original: as given.
        paraphrase: as given.
        keyword: S_K, 0..1; a published one up to 1.2e-7 above.
        structural: S_T, 0..1.
        backend: name and version of the backend for both.
        matches: the matches whose mean is S_K; None for published values.
        structure: the comparison behind S_T; None for published values.
    """

    original: str
    paraphrase: str
    keyword: float
    structural: float
    backend: str
    matches: tuple[Match, ...] | None = None
    structure: TreeComparison | WordComparison | None = None


def content_lemmas(parsed: Parsed) -> tuple[str, ...]:
    """Return the dictionary forms of a text's content words, in all its sentences."""
    return tuple(token.lemma for sentence in parsed.sentences for token in sentence if token.pos in CONTENT)


def best_matches(
    original: Sequence[str], paraphrase: Sequence[str], vectors: "Mapping[str, NDArray[np.float64]]"
) -> tuple[Match, ...]:
    """Return each content word of the original with its best match in the paraphrase; empty if either has none.

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
    """Compute S_K: the mean cosine of the original's words; 0 if either text has no content word."""
    return fsum(match.cosine for match in matches) / len(matches) if matches else 0.0


# Similarities without any package, of low fidelity: words compared as they are written, and in their order.

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
    """Compare the first sentences of two texts by Levenshtein distance over words; all content words count as equal."""
    first, second = _frame(original), _frame(paraphrase)
    return WordComparison(first, second, _edit_distance(first, second))


def match_words(original: str, paraphrase: str) -> tuple[Match, ...]:
    """Match each content word of the original with one of the paraphrase: 1 for the same stem, otherwise `UNLIKE`."""
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
