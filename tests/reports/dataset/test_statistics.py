"""Statistics of a data set are numpy's, over all of its values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.reports.dataset.lerobot import QUANTILES, histogram_of, picture_stats, stats_of

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("rows", [RNG.normal(size=(57, 8)).astype(np.float32), RNG.random((1, 1)) < 0.5])
def test_of_vectors(rows: np.ndarray) -> None:
    found = stats_of(rows)
    values = rows.astype(np.float64)
    for name in ("min", "max", "mean", "std"):
        assert found[name] == pytest.approx(getattr(values, name)(axis=0))
    for name, share in QUANTILES.items():
        assert found[name] == pytest.approx(np.quantile(values, share, axis=0))
    assert found["count"] == [len(rows)]


@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 7), st.integers(0, 2**32 - 1), st.integers(1, 256))
def test_of_pictures(count: int, height: int, width: int, seed: int, values: int) -> None:
    pictures = np.random.default_rng(seed).integers(0, values, (count, height, width, 3), dtype=np.uint8)
    found = picture_stats(sum(map(histogram_of, pictures)), count)
    flat = pictures.reshape(-1, 3) / 255
    expected = {name: getattr(flat, name)(axis=0) for name in ("min", "max", "mean", "std")}
    expected |= {name: np.quantile(flat, share, axis=0) for name, share in QUANTILES.items()}
    for name, each in expected.items():
        assert np.shape(found[name]) == (3, 1, 1)
        assert np.ravel(found[name]) == pytest.approx(each, abs=1e-12), name
    assert found["count"] == [count]
