"""Procedural textures: the same for equal arguments, of any size, without a seam, and of the two colours given."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.vary.effects import textures
from pytest_vla.vary.effects.textures import FAMILIES, SIDE, stretched, texture
from tests.support.examples import scaled

COLOURS = ((200, 150, 90), (40, 30, 60))

channels = st.integers(0, 255)
colours = st.tuples(*[st.tuples(channels, channels, channels)] * 2)


# The first one makes arrays that the others find in the cache.
@settings(max_examples=scaled(40))
@given(
    st.sampled_from(FAMILIES), colours, st.integers(1, 4), st.integers(0, 2**31), st.integers(1, 70), st.integers(1, 70)
)
def test_a_texture_is_of_its_size_and_between_its_colours_and_always_the_same(
    family: str, pair: tuple[tuple[int, ...], ...], repeats: int, seed: int, height: int, width: int
) -> None:
    pixels = texture(family, pair, repeats, seed, height, width)
    assert (pixels.shape, pixels.dtype) == ((height, width, 3), np.dtype(np.uint8))
    low, high = np.min(pair, axis=0), np.max(pair, axis=0)
    assert (pixels >= low).all()
    assert (pixels <= high).all()
    textures._pattern.cache_clear()
    assert np.array_equal(texture(family, pair, repeats, seed, height, width), pixels)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_texture_shows_both_colours_and_another_seed_gives_another(family: str) -> None:
    pixels = texture(family, COLOURS, 1, 5)
    distances = [np.abs(pixels.astype(int) - colour).sum(axis=2).min() for colour in COLOURS]
    assert max(distances) < 0.4 * np.abs(np.subtract(*COLOURS)).sum()
    assert pixels.std() > 8
    assert not np.array_equal(texture(family, COLOURS, 1, 6), pixels)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_texture_repeats_without_a_seam(family: str) -> None:
    pixels = texture(family, COLOURS, 1, 3).astype(float)
    for axis in (0, 1):
        steps = np.abs(np.diff(pixels, axis=axis)).mean(axis=(1 - axis, 2))
        seam = np.abs(pixels.take(0, axis=axis) - pixels.take(-1, axis=axis)).mean()
        # No rougher than the roughest step within.
        assert seam <= steps.max() + 1


def test_repeats_are_copies_side_by_side() -> None:
    once, thrice = texture("stone", COLOURS, 1, 1), texture("stone", COLOURS, 3, 1, 3 * SIDE, 3 * SIDE)
    assert np.array_equal(thrice, np.tile(once, (3, 3, 1)))


def test_no_such_family() -> None:
    with pytest.raises(KeyError):
        texture("velvet", COLOURS, 1, 0)


def test_a_picture_of_the_same_size_is_itself() -> None:
    pixels = texture("wood", COLOURS, 1, 0)
    assert stretched(pixels, SIDE, SIDE) is pixels
    assert stretched(pixels, 2 * SIDE, 10).shape == (2 * SIDE, 10, 3)
