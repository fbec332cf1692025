"""An instruction as a parser sees it; what every parser of ours gives."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

CONTENT = frozenset(("NOUN", "VERB", "ADJ", "ADV", "PROPN"))
"""Parts of speech whose words carry meaning: what S_K compares (LIBERO-Para, arXiv 2603.28301)."""


@dataclass(frozen=True)
class Token:
    """A word or a mark of a sentence.

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
    """A text, parsed: its sentences in order; none for a text without words."""

    text: str
    sentences: tuple[Sentence, ...]


class Parser(Protocol):
    """Parses instructions.

    Attributes:
        name: of the backend, for records and tables.
        version: of what it is made of; another version may give other trees.
    """

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    def parse(self, texts: Sequence[str]) -> list[Parsed]:
        """The texts, lower-cased and parsed; many at once are quicker than one by one."""
