"""Parsers: one of few words, for tests without spaCy, and the installed pipeline."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.language.models import PipelineParser, english_parser
from pytest_vla.language.similarity import Parsed, Sentence, Token

POS = {
    **dict.fromkeys(("open", "turn", "put", "close"), "VERB"),
    **dict.fromkeys(("the", "a"), "DET"),
    **dict.fromkeys(("drawer", "stove", "bowl", "cupboard", "cabinet"), "NOUN"),
    **dict.fromkeys(("on", "of"), "ADP"),
    "gently": "ADV",
}
DEP = {"VERB": "ROOT", "DET": "det", "NOUN": "dobj", "ADP": "prep", "ADV": "advmod", "X": "dep"}


@dataclass(frozen=True)
class FlatParser:
    """Hangs every word from its sentence's first one; counts the texts that it is asked for."""

    name: str = "flat"
    version: str = "1"
    asked: list[str] = field(default_factory=list)

    def parse(self, texts: Sequence[str]) -> list[Parsed]:
        self.asked.extend(texts)
        return [parsed(text) for text in texts]


def parsed(text: str) -> Parsed:
    """Sentences end at full stops, which are no words of theirs."""
    sentences = [part.split() for part in text.lower().split(".")]
    return Parsed(text.lower(), tuple(flat(words) for words in sentences if words))


def flat(words: Sequence[str]) -> Sentence:
    """A sentence whose first word is the root of all others."""
    tags = [POS.get(word, "X") for word in words]
    return tuple(
        Token(word, word, pos, "ROOT" if index == 0 else DEP[pos], 0)
        for index, (word, pos) in enumerate(zip(words, tags, strict=True))
    )


def english() -> PipelineParser:
    """The installed en_core_web_sm; skips the test where there is none."""
    try:
        return english_parser()
    except VlaError as error:
        pytest.skip(f"{error} (make language)")
