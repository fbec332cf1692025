"""tiny's weights: a file of arrays that is checked before it is used."""

import hashlib
import io
import json
import re
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_vla.errors import VlaError
from pytest_vla.policies.tiny.network import Weights, shapes_of
from pytest_vla.util.arrays import Unfit, read_bytes, unpacked_npz
from pytest_vla.util.files import whole_file

# tiny's reading: an instruction as numbers of learned words.

NOTHING, UNKNOWN = 0, 1
"""The numbers for padding, and for a word that was never learned."""
LONGEST = 32
"""The most words that are read; later words are ignored."""
_WORD = re.compile(r"[^\W\d_]+|\d+")
_APOSTROPHES = str.maketrans("", "", "'\N{RIGHT SINGLE QUOTATION MARK}")


def tokens(instruction: str) -> list[str]:
    """Return an instruction's words and numbers, in lower case and without accents; an apostrophe joins.

    Words may be in any script; every other character separates them. Texts that are equal by Unicode's compatibility
    (NFKC) give the same words.
    """
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", instruction).lower())
    # Marks of all kinds: some scripts write vowels as marks, which must not split a word either.
    letters = "".join(character for character in apart if not unicodedata.category(character).startswith("M"))
    return _WORD.findall(unicodedata.normalize("NFC", letters).translate(_APOSTROPHES))


def vocabulary_of(instructions: Iterable[str], least: int = 1) -> tuple[str, ...]:
    """Return the words that occur at least `least` times, sorted.

    Two empty texts stand before them, for `NOTHING` and `UNKNOWN`.
    """
    counts = Counter(word for instruction in instructions for word in tokens(instruction))
    return ("", "", *sorted(word for word, count in counts.items() if count >= least))


def places_of(vocabulary: Iterable[str]) -> dict[str, int]:
    """Return the number of each word of a vocabulary."""
    return {word: place for place, word in enumerate(vocabulary) if word}


def numbered(instruction: str, places: Mapping[str, int], longest: int = LONGEST) -> npt.NDArray[np.int64]:
    """Return an instruction as numbers of words (longest,).

    A word that was never learned is `UNKNOWN`. `NOTHING` fills the places after the last word.
    """
    found = [places.get(word, UNKNOWN) for word in tokens(instruction)[:longest]]
    return np.array(found + [NOTHING] * (longest - len(found)), dtype=np.int64)


CHECKPOINTS = {"": "final.npz", "early": "early.npz"}
"""The files that ship, by the text after the @ in ``tiny@early``."""

DIGESTS = {
    "": "04061fbabc0e72ffe2f237927bb83a2493da8354c927f552f3584205ece53533",
    "early": "1700633813bd1f9375766174bade5e5e1bfc9c4d818851dcf82a1be6088ca3b7",
}
"""sha256 of those files, also listed in docs/explanation/tiny.md."""

_WORDS, _ABOUT = "words", "about"
_LIMIT = 64 * 1024 * 1024


@dataclass(frozen=True)
class Trained:
    """A trained checkpoint of tiny.

    Attributes:
        weights: by name, float32, see `pytest_vla.policies.tiny.network`.
        places: the number of each learned word.
        about: a description of the training.
        digest: the sha256 (hex) of the file.
    """

    weights: Weights
    places: Mapping[str, int]
    about: Mapping[str, Any]
    digest: str


def shipped(checkpoint: str) -> Path:
    """Return the file of a checkpoint that ships: one of `CHECKPOINTS`."""
    return Path(__file__).parent / CHECKPOINTS[checkpoint]


def load_shipped(checkpoint: str) -> Trained:
    """Load a checkpoint that ships. Raises VlaError if its file is not the one that the documentation evaluates."""
    path, expected = shipped(checkpoint), DIGESTS[checkpoint]
    found = load_weights(path)
    if found.digest != expected:
        raise VlaError(
            f"{path}: its sha256 is {found.digest[:8]}, expected {expected[:8]}: it is not the file that ships. "
            "Reinstall pytest-vla, or use your own weights: --vla-model=tiny:PATH.npz"
        )
    return found


def load_weights(path: Path, parts: tuple[str, ...] = ("",)) -> Trained:
    """Load a checkpoint from its file.

    Args:
        path: the file.
        parts: prefixes of the weights to load; by default all.

    Raises:
        VlaError: the file does not exist, or is truncated, changed, or not a checkpoint.
    """
    mend = "expected an .npz written by scripts/train_tiny.py; for the files that ship, reinstall pytest-vla"
    if not path.is_file():
        raise VlaError(f"{path}: there is no such file; {mend}")
    try:
        content = read_bytes(path, _LIMIT)
        texts = unpacked_npz(content, (_WORDS, _ABOUT), _LIMIT)
        vocabulary = [str(word) for word in np.atleast_1d(texts[_WORDS])]
        about = json.loads(str(np.atleast_1d(texts[_ABOUT])[0]))
        shapes = {name: shape for name, shape in shapes_of(len(vocabulary)).items() if name.startswith(parts)}
        arrays = unpacked_npz(content, tuple(shapes), _LIMIT)
    except (Unfit, ValueError) as error:
        raise VlaError(f"{path}: {error}; {mend}") from error
    if not isinstance(about, dict):
        raise VlaError(f"{path}: {_ABOUT} is not a table; {mend}")
    if len(vocabulary) < 2 or vocabulary[NOTHING] or vocabulary[UNKNOWN]:
        raise VlaError(
            f"{path}: {_WORDS} begins with {vocabulary[:2]}, expected two empty texts, for padding and for an unknown "
            f"word; {mend}"
        )
    weights: dict[str, npt.NDArray[np.float32]] = {}
    for name, shape in shapes.items():
        array = arrays[name]
        if array.shape != shape or array.dtype.kind != "f":
            raise VlaError(f"{path}: {name} is {array.dtype} {array.shape}, expected floats of shape {shape}; {mend}")
        weights[name] = np.ascontiguousarray(array, dtype=np.float32)
        if not np.isfinite(weights[name]).all():
            raise VlaError(f"{path}: {name} has values that are not finite; {mend}")
    return Trained(weights, places_of(vocabulary), about, hashlib.sha256(content).hexdigest())


def save_weights(path: Path, weights: Weights, vocabulary: Sequence[str], about: Mapping[str, Any]) -> None:
    """Write a checkpoint atomically; the same content gives the same bytes.

    Args:
        path: the file.
        weights: by name; stored as float16.
        vocabulary: the words in the order of their numbers.
        about: a description of the training, as JSON values.
    """
    arrays: dict[str, npt.NDArray[Any]] = {
        _WORDS: np.array(vocabulary),
        _ABOUT: np.array([json.dumps(about, sort_keys=True)]),
        **{name: np.asarray(weights[name], dtype=np.float16) for name in shapes_of(len(vocabulary))},
    }
    with whole_file(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, member.getvalue())
