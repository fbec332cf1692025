"""Resampling and DTW against their definitions, and against upstream's distances."""

import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.metrics.dtw import POINTS, exact_dtw, fast_dtw, resample
from tests.support.examples import scaled

Path = NDArray[np.float64]

COORDINATES = st.floats(-2, 2, allow_nan=False, width=32)
PATHS = st.integers(1, 12).flatmap(lambda n: arrays(np.float64, (n, 3), elements=COORDINATES))


def distance(path: Path, other: Path) -> float:
    return float(exact_dtw(path[None], other).distances[0])


def by_definition(path: Path, other: Path) -> float:
    """The recursion over both paths' ends, written down as it is in textbooks."""

    @cache
    def least(i: int, j: int) -> float:
        cost = float(np.linalg.norm(path[i] - other[j]))
        if i == j == 0:
            return cost
        before = [(i - 1, j - 1), (i - 1, j), (i, j - 1)]
        return cost + min(least(a, b) for a, b in before if a >= 0 and b >= 0)

    return least(len(path) - 1, len(other) - 1)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """The first call compiles, or reads machine code: longer than Hypothesis lets an example take."""
    exact_dtw(np.zeros((1, 1, 3)), np.zeros((1, 3)))


@given(PATHS, PATHS)
def test_exact_dtw_is_the_textbook_s(path: Path, other: Path) -> None:
    assert distance(path, other) == pytest.approx(by_definition(path, other), rel=1e-12, abs=1e-12)


@given(PATHS, PATHS, st.integers(1, 4))
def test_without_numba_the_results_are_the_same_to_the_bit(path: Path, other: Path, count: int) -> None:
    paths = np.stack([path * (1 + k) - k for k in range(count)])
    compiled = exact_dtw(paths, other)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pytest_vla.metrics.dtw_kernel", None)
        plain = exact_dtw(paths, other)
    np.testing.assert_array_equal(plain.distances, compiled.distances)
    np.testing.assert_array_equal(plain.lengths, compiled.lengths)


@given(PATHS, PATHS)
def test_dtw_is_symmetric_and_zero_on_a_path_itself_however_slow(path: Path, other: Path) -> None:
    assert distance(path, other) == pytest.approx(distance(other, path), rel=1e-12, abs=1e-12)
    assert distance(np.repeat(path, 3, axis=0), path) == 0.0


@given(PATHS, PATHS)
def test_as_many_points_are_matched_as_a_way_through_the_grid_can_have(path: Path, other: Path) -> None:
    length = exact_dtw(path[None], other).lengths[0]
    assert max(len(path), len(other)) <= length <= len(path) + len(other) - 1


@given(st.lists(arrays(np.float64, (4, 3), elements=COORDINATES), min_size=1, max_size=5), PATHS)
def test_many_paths_at_once_are_those_one_by_one(paths: list[Path], other: Path) -> None:
    together = exact_dtw(np.stack(paths), other)
    assert together.distances.tolist() == [distance(path, other) for path in paths]


def test_a_case_by_hand() -> None:
    """0 1 3 onto 0 3: 0-0, 1-0 and 3-3 cost 1."""
    path, other = np.array([[0.0], [1.0], [3.0]]), np.array([[0.0], [3.0]])
    found = exact_dtw(path[None], other)
    assert (found.distances[0], found.lengths[0]) == (1.0, 3)


def test_of_equal_warpings_the_one_that_steps_in_both_is_counted() -> None:
    """Upstream's distance per matched pair depends on it."""
    assert exact_dtw(np.zeros((1, 4, 3)), np.zeros((4, 3))).lengths[0] == 4
    assert exact_dtw(np.zeros((1, 6, 3)), np.zeros((4, 3))).lengths[0] == 6


def test_resampling_by_hand() -> None:
    path = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [1.0, 4.0, 1.0]])
    expected = [[0, 0, 1], [0.5, 0, 1], [1, 0, 1], [1, 2, 1], [1, 4, 1]]
    np.testing.assert_allclose(resample(path, 5), expected, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(resample(path[:1]), np.repeat(path[:1], POINTS, axis=0))
    np.testing.assert_array_equal(resample(path, 3), path)


@given(PATHS, st.integers(2, 60))
def test_resampling_keeps_both_ends_and_stays_between(path: Path, points: int) -> None:
    found = resample(path, points)
    assert found.shape == (points, 3)
    np.testing.assert_array_equal(found[0], path[0])
    np.testing.assert_array_equal(found[-1], path[-1])
    assert (found >= path.min(axis=0) - 1e-12).all()
    assert (found <= path.max(axis=0) + 1e-12).all()


@pytest.mark.parametrize("path", [np.zeros((0, 3)), np.zeros(3), np.array([[0.0, np.nan, 0.0]])])
def test_a_path_that_is_none(path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected \(n, d\), n >= 1, of finite numbers"):
        resample(path)


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="at least 2"):
        resample(np.zeros((3, 3)), 1)
    for paths, other in [((3, 3), (3, 3)), ((1, 3, 3), (3, 2)), ((1, 0, 3), (3, 3)), ((1, 3, 3), (0, 3))]:
        with pytest.raises(ValueError, match="expected"):
            exact_dtw(np.zeros(paths), np.zeros(other))


@settings(max_examples=scaled(50))
@given(st.integers(0, 2**32 - 1))
def test_fastdtw_is_never_below_the_exact_distance(seed: int) -> None:
    pytest.importorskip("fastdtw")
    walks = np.random.default_rng(seed).normal(size=(2, POINTS, 3)).cumsum(axis=1)
    fast, exact = fast_dtw(walks[:1], walks[1]), exact_dtw(walks[:1], walks[1])
    assert exact.distances[0] * (1 - 1e-12) <= fast.distances[0] <= 1.5 * exact.distances[0]


def test_fastdtw_matches_by_the_euclidean_distance() -> None:
    """Its default, the norm of order 1, would find 7."""
    pytest.importorskip("fastdtw")
    assert fast_dtw(np.zeros((1, 1, 3)), np.array([[3.0, 4.0, 0.0]])).distances[0] == 5.0


def test_without_fastdtw_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastdtw", None)
    with pytest.raises(VlaError, match=r"fastdtw, which is not installed: pip install 'pytest-vla\[language\]'"):
        fast_dtw(np.zeros((1, 2, 3)), np.zeros((2, 3)))
