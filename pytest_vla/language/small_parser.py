"""The parser that ships: a small spaCy pipeline, trained on synthetic sentences only (``scripts/train_parser.py``)."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.language.morphology import lemma
from pytest_vla.language.notation import tokens_of
from pytest_vla.language.parsed import Parsed, Sentence, Token
from pytest_vla.util.extras import required

NAME = "pytest-vla-small"
MODEL = Path(__file__).parent / "parser_model"
ENDS = frozenset((".", "?", "!"))
"""A sentence is over behind one of these."""


@dataclass(frozen=True)
class SmallParser:
    """A `pytest_vla.language.parsed.Parser`.

    Attributes:
        name: `NAME`.
        version: the first 12 digits of the sha256 of the weights.
        pipeline: spaCy's; its tags are ``POS|Penn tag``.
    """

    name: str
    version: str
    pipeline: Any

    def parse(self, texts: Sequence[str]) -> list[Parsed]:
        """The texts, lower-cased, cut into sentences and parsed."""
        cut = [sentences_of(text) for text in texts]
        docs = self.pipeline.pipe([document(self.pipeline.vocab, words) for rows in cut for words in rows])
        return [
            Parsed(text.lower(), tuple(_sentence(next(docs)) for _ in rows))
            for text, rows in zip(texts, cut, strict=True)
        ]


def load(folder: Path = MODEL) -> SmallParser:
    """The parser whose weights lie in a folder, read once a process.

    Raises VlaError where spaCy is not installed, there are no weights, or spaCy does not take them.
    """
    return _load(folder)


@cache
def _load(folder: Path) -> SmallParser:
    spacy = required("spacy")
    version = weights_digest(folder)[:12]
    try:
        pipeline = spacy.load(folder)
    except Exception as error:
        raise VlaError(
            f"{folder}: spaCy {spacy.__version__} cannot read the parser ({error}). Install pytest-vla again, or make "
            "the weights anew: python scripts/train_parser.py"
        ) from error
    return SmallParser(NAME, version, pipeline)


def weights_digest(folder: Path) -> str:
    """The sha256 of all files in a folder, by name. Raises VlaError where there are none."""
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
    if not files:
        raise VlaError(f"{folder}: expected the parser's weights. Make them: python scripts/train_parser.py")
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def sentences_of(text: str) -> list[list[str]]:
    """The words of a text's sentences, lower-cased; a sentence is over behind a full stop, ``?`` or ``!``."""
    sentences: list[list[str]] = [[]]
    for word in tokens_of(text):
        if sentences[-1] and sentences[-1][-1] in ENDS and word not in ENDS:
            sentences.append([])
        sentences[-1].append(word)
    return [words for words in sentences if words]


def document(vocab: Any, words: Sequence[str]) -> Any:
    """One sentence as a spaCy document: the parser is not asked where sentences begin."""
    starts = [index == 0 for index in range(len(words))]
    return required("spacy.tokens").Doc(vocab, words=list(words), sent_starts=starts)


def _sentence(doc: Any) -> Sentence:
    tokens = []
    for token in doc:
        pos, tag = token.tag_.split("|")
        tokens.append(Token(token.text, lemma(token.text, pos, tag), pos, token.dep_, token.head.i))
    return tuple(tokens)
