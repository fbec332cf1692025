"""Committed files held against what their scripts make: equal up to the last digit, which a processor may round."""

import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def assert_made_alike(made: Path, committed: Path) -> None:
    """A PNG file of ours, a mesh or another text says the same as the committed one."""
    if made.suffix == ".png":
        assert np.abs(pixels(made) - pixels(committed)).max() <= 1, committed.name
        return
    (plain, numbers), (wanted, wanted_numbers) = words(made), words(committed)
    assert plain == wanted, committed.name
    np.testing.assert_allclose(numbers, wanted_numbers, atol=2e-3 if made.suffix == ".obj" else 2e-5)


def pixels(file: Path) -> NDArray[np.int16]:
    """The rows of a PNG file as scripts/tabletop_textures.py writes it: no filter, one chunk of pixels."""
    content = file.read_bytes()
    start = content.index(b"IDAT")
    size = int.from_bytes(content[start - 4 : start], "big")
    return np.frombuffer(zlib.decompress(content[start + 4 : start + 4 + size]), np.uint8).astype(np.int16)


def words(file: Path) -> tuple[list[str], NDArray[np.float64]]:
    """What a text file says, and its numbers apart."""
    plain, numbers = [], []
    for word in file.read_text().replace('"', " ").replace("/", " ").split():
        try:
            numbers.append(float(word))
        except ValueError:
            plain.append(word)
    return plain, np.array(numbers)
