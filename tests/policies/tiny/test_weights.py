"""Files of tiny's weights, and what is said of those that are none."""

import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.policies.tiny.weights import load_weights, save_weights
from tests.support.tiny_weights import VOCABULARY, drawn_weights, written_weights


def test_what_is_written_is_read_and_the_same_content_is_the_same_file(tmp_path: Path) -> None:
    weights = drawn_weights()
    first, second = written_weights(tmp_path / "a.npz"), written_weights(tmp_path / "b.npz")
    found = load_weights(first)
    assert first.read_bytes() == second.read_bytes()
    assert found.digest == load_weights(second).digest
    assert found.about == {"name": "drawn"}
    assert found.places == {word: place for place, word in enumerate(VOCABULARY) if word}
    for name, array in weights.items():
        assert found.weights[name].dtype == np.float32
        np.testing.assert_array_equal(found.weights[name], array)


@pytest.mark.parametrize("words", [("put", "the", *VOCABULARY[2:]), ("",), ("", "put")])
def test_a_vocabulary_without_its_first_places_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    path = written_weights(tmp_path / "a.npz")
    rewritten(path, "words", np.array(words))
    rewritten(path, "text.embedding", np.zeros((len(words), 48), np.float16))
    with pytest.raises(VlaError, match=r"a\.npz: words begins with .*, expected two empty texts"):
        load_weights(path)


def test_the_digest_is_of_the_bytes_that_were_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written_weights(tmp_path / "a.npz")
    content = path.read_bytes()

    def once(file: Path, limit: int) -> bytes:
        file.unlink()
        return content

    monkeypatch.setattr("pytest_vla.policies.tiny.weights.read_bytes", once)
    assert load_weights(path).digest == hashlib.sha256(content).hexdigest()


def test_a_file_that_is_not_there_says_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(
        VlaError, match=r"none\.npz: there is no such file; expected an \.npz written by scripts/train_tiny"
    ):
        load_weights(tmp_path / "none.npz")


def test_a_weight_of_another_shape_is_named(tmp_path: Path) -> None:
    path = written_weights(tmp_path / "a.npz")
    rewritten(path, "control.out.weight", np.zeros((3, 4), np.float16))
    with pytest.raises(VlaError, match=r"a\.npz: control\.out\.weight is float16 \(3, 4\), expected .*\(384, 56\)"):
        load_weights(path)


def test_a_weight_that_is_not_finite_is_named(tmp_path: Path) -> None:
    weights = drawn_weights()
    weights["view.out.bias"][3] = np.nan
    with pytest.raises(VlaError, match=r"view\.out\.bias has values that are not finite"):
        load_weights(written_weights(tmp_path / "a.npz", weights))


def test_a_weight_that_is_missing_is_named(tmp_path: Path) -> None:
    path = written_weights(tmp_path / "a.npz")
    rewritten(path, "text.out.bias", None)
    with pytest.raises(VlaError, match=r"text\.out\.bias"):
        load_weights(path)


@pytest.mark.parametrize("seed", range(8))
def test_a_file_that_is_cut_or_changed_is_an_error_and_never_other_weights(tmp_path: Path, seed: int) -> None:
    path = written_weights(tmp_path / "a.npz")
    content, rng = bytearray(path.read_bytes()), np.random.default_rng(seed)
    if seed % 2:
        content = content[: int(rng.integers(len(content)))]
    else:
        # In the first member's data, whose checksum then fails.
        content[200] ^= 1 + int(rng.integers(255))
    path.write_bytes(bytes(content))
    with pytest.raises(VlaError, match=r"a\.npz: .*; expected an \.npz"):
        load_weights(path)


def test_nothing_is_left_half_written(tmp_path: Path) -> None:
    weights = drawn_weights()
    del weights["control.0.bias"]
    with pytest.raises(KeyError):
        save_weights(tmp_path / "a.npz", weights, VOCABULARY, {})
    assert not list(tmp_path.iterdir())


def rewritten(path: Path, name: str, array: np.ndarray | None) -> None:
    """The file with another array of a name, or without it."""
    with zipfile.ZipFile(path) as archive:
        members = {entry: archive.read(entry) for entry in archive.namelist() if entry != f"{name}.npy"}
    with zipfile.ZipFile(path, "w") as archive:
        for entry, content in members.items():
            archive.writestr(entry, content)
        if array is not None:
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array)
