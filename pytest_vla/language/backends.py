"""Backends that compare a paraphrase with its original: published values, a parser, or words alone; best first."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_vla.errors import UnloadedError, VlaError
from pytest_vla.language import models as embeddings
from pytest_vla.language import models as pipeline
from pytest_vla.language import models as small_parser
from pytest_vla.language import similarity
from pytest_vla.language import similarity as template
from pytest_vla.language.models import cached_values
from pytest_vla.language.published import Published, load_published, texts_key
from pytest_vla.language.similarity import Parsed, Parser, Similarity, Token, compare_trees
from pytest_vla.util.extras import INSTALL, is_installed

Pair = tuple[str, str]
"""An original instruction and a paraphrase of it."""

PUBLISHED, ENGLISH, SMALL, TEMPLATE = "published", pipeline.SPACY_NAME, small_parser.SMALL_NAME, "template"
NAMES = (PUBLISHED, ENGLISH, SMALL, TEMPLATE)
"""Of the backends, best first."""

LONGEST = 1000
"""Characters of a text that is compared; instructions have a tenth of it."""


@dataclass(frozen=True)
class Backend:
    """A method that computes both similarities of a pair.

    Attributes:
        name: one of `NAMES`.
        version: the version of everything that the numbers depend on.
        low_fidelity: whether its numbers are approximations, to be marked as such wherever they are shown.
        compare: the similarities of pairs, in their order; one call for many pairs is faster than many calls. Raises
            VlaError.
    """

    name: str
    version: str
    low_fidelity: bool
    compare: Callable[[Sequence[Pair]], list[Similarity]]

    def __str__(self) -> str:
        return backend_text(self.name, self.version, self.low_fidelity)


@dataclass(frozen=True)
class BackendChoice:
    """The chosen backend, and the reason against each better one, by name."""

    backend: Backend
    passed_over: dict[str, str]


def choose_backend(
    prefer: str | None = None, csv: Path | None = None, pairs: Sequence[Pair] = (), *, loading: bool = True
) -> BackendChoice:
    """Return the best backend that is available and can compare all pairs, so that one score never mixes two.

    Args:
        prefer: one of `NAMES`: only this backend is considered.
        csv: LIBERO-Para's ``libero_para_metadata.csv``, or None if the published values are not available.
        pairs: the pairs to compare.
        loading: whether parsers and embedding models may be loaded; as for `parser_backend`.

    Raises:
        VlaError: there is no such backend, the preferred one is unavailable, or the CSV is invalid.
    """
    if prefer is not None and prefer not in NAMES:
        from pytest_vla.util.text import did_you_mean

        raise VlaError(f"there is no backend {prefer!r}, only {', '.join(NAMES)}.{did_you_mean(prefer, NAMES)}")
    known = load_published(csv) if csv is not None else None
    makers: dict[str, Callable[[], Backend]] = {
        PUBLISHED: lambda: _published(known, pairs),
        ENGLISH: lambda: parser_backend(pipeline.english_parser(), loading=loading),
        SMALL: lambda: parser_backend(_small_parser(), loading=loading),
        TEMPLATE: template_backend,
    }
    passed_over: dict[str, str] = {}
    for name in [prefer] if prefer is not None else NAMES:
        try:
            return BackendChoice(makers[name](), passed_over)
        except VlaError as error:
            if prefer is not None:
                raise VlaError(f"the backend {name} is not available: {error}") from error
            passed_over[name] = str(error)
    raise AssertionError("the template backend needs nothing")


def published_backend(published: Published) -> Backend:
    """Return the backend of published values. Its `compare` raises VlaError for an unpublished pair."""
    version = f"libero-para {published.version}"

    def compare(pairs: Sequence[Pair]) -> list[Similarity]:
        rows = [published.by_texts.get(texts_key(*pair)) for pair in pairs]
        text = backend_text(PUBLISHED, version)
        found = [
            Similarity(*pair, row.keyword, row.structural, text)
            for pair, row in zip(pairs, rows, strict=True)
            if row is not None
        ]
        if len(found) < len(pairs):
            first = next(pair for pair, row in zip(pairs, rows, strict=True) if row is None)
            raise VlaError(
                f"{len(pairs) - len(found)} of {len(pairs)} pairs were never published, such as {first[1]!r} for "
                f"{first[0]!r}"
            )
        return found

    return Backend(PUBLISHED, version, False, compare)


def parser_backend(parser: Parser, *, loading: bool = True) -> Backend:
    """Return the backend that uses a parser's dependency trees and embeddings of content lemmas, both cached.

    Args:
        parser: parses the texts.
        loading: whether the parser and the embedding model may be loaded; if not, a pair that is not in the cache
            raises UnloadedError.

    Raises:
        VlaError: zss, sentence-transformers or the embedding model is missing.
    """
    missing = [name for name in ("zss", "sentence_transformers") if not is_installed(name)]
    if missing:
        raise VlaError(f"{' and '.join(missing)} not installed: {INSTALL}")
    embeddings.find_model()
    version = f"{parser.version}, {embeddings.VERSION}"
    parses = parser if loading else _Unloaded(parser.name, parser.version)

    def compare(pairs: Sequence[Pair]) -> list[Similarity]:
        keys = [texts_key(*pair) for pair in pairs]
        parsed = parse_texts(parses, [text for key in keys for text in key])
        lemmas = {text: similarity.content_lemmas(each) for text, each in parsed.items()}
        vectors = embeddings.embed((lemma for each in lemmas.values() for lemma in each), loading=loading)
        text = backend_text(parser.name, version)
        known: dict[Pair, Similarity] = {}
        for original, paraphrase in dict.fromkeys(keys):
            matches = similarity.best_matches(lemmas[original], lemmas[paraphrase], vectors)
            structure = compare_trees(parsed[original], parsed[paraphrase])
            keyword = similarity.keyword_similarity(matches)
            found = Similarity(original, paraphrase, keyword, structure.similarity, text, matches, structure)
            known[original, paraphrase] = found
        return [
            replace(known[key], original=pair[0], paraphrase=pair[1]) for key, pair in zip(keys, pairs, strict=True)
        ]

    return Backend(parser.name, version, False, compare)


def template_backend() -> Backend:
    """Return the backend that compares words alone: low fidelity, no packages needed."""

    def compare(pairs: Sequence[Pair]) -> list[Similarity]:
        text = backend_text(TEMPLATE, template.VERSION, low_fidelity=True)
        found = []
        for pair in pairs:
            key = texts_key(*pair)
            for each in key:
                _check_length(each)
            matches, structure = template.match_words(*key), template.compare_words(*key)
            keyword = similarity.keyword_similarity(matches)
            found.append(Similarity(*pair, keyword, structure.similarity, text, matches, structure))
        return found

    return Backend(TEMPLATE, template.VERSION, True, compare)


def backend_text(name: str, version: str, low_fidelity: bool = False) -> str:
    """Format a backend for records and tables."""
    return f"{name} {version}{' (low fidelity)' if low_fidelity else ''}"


def parse_texts(parser: Parser, texts: Sequence[str]) -> dict[str, Parsed]:
    """Return the parsed texts, from the cache or the parser. Raises VlaError for a text that is no instruction."""
    for text in texts:
        _check_length(text)
    return cached_values(f"parses {parser.name} {parser.version}", texts, parser.parse, _encode, _decode)


def _check_length(text: str) -> None:
    if len(text) > LONGEST:
        raise VlaError(f"{len(text)} characters are too many for an instruction (at most {LONGEST}): {text[:60]!r}...")


def _published(known: Published | None, pairs: Sequence[Pair]) -> Backend:
    if known is None:
        raise VlaError("LIBERO-Para's libero_para_metadata.csv was not given")
    backend = published_backend(known)
    backend.compare(pairs)
    return backend


@dataclass(frozen=True)
class _SmallParser:
    """Our own parser, loaded at its first use: importing spaCy takes two seconds."""

    name: str
    version: str

    def parse(self, texts: Sequence[str]) -> list[Parsed]:
        return small_parser.load().parse(texts)


@dataclass(frozen=True)
class _Unloaded:
    """A parser that is limited to cached trees."""

    name: str
    version: str

    def parse(self, texts: Sequence[str]) -> list[Parsed]:
        raise UnloadedError(f"{self.name} is not loaded, and its cache has no parse of {texts[0]!r}")


def _small_parser() -> Parser:
    version = f"{small_parser.weights_digest(small_parser.MODEL)[:12]} spacy {pipeline.spacy_version()}"
    return _SmallParser(small_parser.SMALL_NAME, version)


def _encode(parsed: Parsed) -> bytes:
    sentences = [[[t.text, t.lemma, t.pos, t.dep, t.head] for t in sentence] for sentence in parsed.sentences]
    return json.dumps([parsed.text, sentences]).encode()


def _decode(value: bytes) -> Parsed:
    try:
        text, sentences = json.loads(value)
        return Parsed(text, tuple(tuple(Token(*token) for token in sentence) for sentence in sentences))
    except (TypeError, UnicodeDecodeError) as error:
        raise ValueError("no parse") from error
