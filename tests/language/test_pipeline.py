"""spaCy pipelines as parsers: sentences, heads and lemmas; and the one that the published values were made with."""

import hashlib
from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.language import models
from pytest_vla.language.backends import parse_texts
from pytest_vla.language.models import PipelineParser, english_parser
from pytest_vla.language.similarity import Parsed, Token, ordered_tree
from tests.support.parsers import english


def test_without_spacy_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_version", lambda package: None)
    with pytest.raises(VlaError, match=r"spaCy is not installed: pip install 'pytest-vla\[language\]'"):
        english_parser()


def test_without_the_model_the_error_says_how_to_come_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_version", lambda package: "3.8.0")
    monkeypatch.setattr(models, "SPACY_NAME", "no_such_pipeline")
    monkeypatch.setattr(models, "_COPY", "no_such_copy")
    with pytest.raises(VlaError, match="no_such_pipeline is not installed: python -m spacy download"):
        english_parser()


def test_a_copy_that_is_not_the_same_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in models._COPY_SHA256:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"other weights")
    assert hashlib.sha256(b"other weights").hexdigest() not in models._COPY_SHA256.values()
    monkeypatch.setattr(models, "_version", lambda package: "3.8.0")
    monkeypatch.setattr(models, "SPACY_NAME", "no_such_pipeline")
    monkeypatch.setattr(models, "_copied", lambda: tmp_path)
    with pytest.raises(VlaError, match="tokenizer is not no_such_pipeline's"):
        english_parser()


def test_any_pipeline_is_a_parser() -> None:
    spacy = pytest.importorskip("spacy", reason="spaCy is not installed (make language)")
    from spacy.tokens import Doc

    english = spacy.blank("en")

    def annotate(doc: Doc) -> Doc:
        """Every sentence hangs from its first word; sentences end at full stops."""
        words = [token.text for token in doc]
        heads, start = [], 0
        for index, word in enumerate(words):
            heads.append(start)
            start = index + 1 if word == "." else start
        return Doc(
            doc.vocab,
            words=words,
            spaces=[bool(token.whitespace_) for token in doc],
            heads=heads,
            deps=["ROOT" if head == index else "dep" for index, head in enumerate(heads)],
            pos=["PUNCT" if word == "." else "VERB" for word in words],
            lemmas=["" if word == "bowl" else f"{word} lemma" for word in words],
        )

    spacy.Language.component("pytest_vla_flat", func=annotate)
    english.add_pipe("pytest_vla_flat")
    parser = PipelineParser("flat", "1", lambda: english)
    one, none = parser.parse(["Open Bowl. Put it", "  "])
    assert one == Parsed(
        "open bowl. put it",
        (
            (
                Token("open", "open lemma", "VERB", "ROOT", 0),
                Token("bowl", "bowl", "VERB", "dep", 0),
                Token(".", ". lemma", "PUNCT", "dep", 0),
            ),
            (Token("put", "put lemma", "VERB", "ROOT", 0), Token("it", "it lemma", "VERB", "dep", 0)),
        ),
    )
    assert none == Parsed("  ", ())


def test_en_core_web_sm_parses_as_the_paper_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path))
    parser = english()
    assert parser.name == "en_core_web_sm"
    (stove,) = parser.parse(["Turn on the stove"])
    ((turn, on, _, found),) = stove.sentences
    # It reads a preposition with its object here, no particle.
    assert (turn.dep, on.dep, found.dep, found.head) == ("ROOT", "prep", "pobj", 1)
    cached = parse_texts(parser, ["Turn on the stove", "It is cold. Turn it on."])
    again = parse_texts(parser, list(cached))
    assert again == cached
    assert len(cached["It is cold. Turn it on."].sentences) == 2
    assert ordered_tree(stove.sentences[0]).label == ("ROOT", "VERB")
