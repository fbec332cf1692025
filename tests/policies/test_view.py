"""Pictures as OpenVLA's evaluation makes them, against what TensorFlow makes (tests/support/openvla_pictures.py)."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.policies import view
from tests.support.openvla_pictures import LARGER, SMALLER, pictures

GOLDEN = Path(__file__).with_name("golden") / "openvla_pictures.npz"


@pytest.mark.parametrize("name", ["smooth", "noise"])
@pytest.mark.parametrize(
    ("made", "by", "levels"),
    [
        ("coded", view.jpeg_coded, 0),
        ("smaller", lambda picture: view.resize_lanczos(picture, *SMALLER), 1),
        ("larger", lambda picture: view.resize_lanczos(picture, *LARGER), 1),
        ("cropped", view.centre_crop, 1),
        ("shown", lambda picture: view.openvla_picture(picture, 18), 2),
    ],
)
def test_it_is_what_tensorflow_makes(name: str, made: str, by: Callable[[Any], Any], levels: int) -> None:
    with np.load(GOLDEN) as golden:
        picture, expected = golden[name], golden[f"{name}_{made}"]
    # A golden of another picture would be compared with nothing.
    assert np.array_equal(picture, pictures()[name])
    found = by(picture)
    assert (found.dtype, found.shape) == (np.uint8, expected.shape)
    away = np.abs(found.astype(int) - expected)
    assert away.max() <= levels
    # Rounding alone: one value in fifty at most.
    assert (away > 0).mean() < 0.02


@given(st.integers(7, 40), st.integers(7, 40), st.integers(0, 255), st.integers(1, 50), st.integers(1, 50))
def test_an_even_picture_stays_even(height: int, width: int, level: int, wanted: int, other: int) -> None:
    even = np.full((height, width, 3), level, np.uint8)
    assert np.array_equal(view.resize_lanczos(even, wanted, other), np.full((wanted, other, 3), level, np.uint8))
    assert np.array_equal(view.centre_crop(even), even)


def test_a_crop_keeps_the_centre_and_is_mirrored_with_its_picture() -> None:
    picture = pictures()["noise"]
    assert np.array_equal(view.centre_crop(picture[:, ::-1]), view.centre_crop(picture)[:, ::-1])
    ramp = np.broadcast_to(np.linspace(0, 250, 101)[:, None, None], (101, 5, 3)).astype(np.uint8)
    first, middle, last = view.centre_crop(ramp)[[0, 50, 100], 0, 0]
    margin = (1 - np.sqrt(0.9)) / 2 * 250
    assert abs(float(first) - margin) <= 1
    assert abs(float(middle) - 125) <= 1
    assert abs(float(last) - (250 - margin)) <= 1


def test_without_its_package_a_picture_is_refused_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    with pytest.raises(VlaError, match=r"pytest-vla\[openvla\]"):
        view.jpeg_coded(pictures()["smooth"])
