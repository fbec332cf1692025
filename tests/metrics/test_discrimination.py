"""Correlation, Mann-Whitney and A12: scipy's own numbers, and what cannot be said."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_vla.errors import VlaError
from pytest_vla.metrics.discrimination import (
    correlation,
    correlation_band,
    correlation_p,
    discrimination,
    effect_category,
    timings,
)

NUMBERS = st.lists(st.integers(-50, 50), min_size=3, max_size=20)


@given(NUMBERS, NUMBERS)
def test_it_is_scipys_mann_whitney(group: list[int], other: list[int]) -> None:
    found = discrimination(group, other)
    assert found is not None
    ranks = stats.rankdata([*group, *other])[: len(group)].sum()
    n, m = len(group), len(other)
    assert found.a12 == pytest.approx((ranks - n * (n + 1) / 2) / (n * m))
    if len({*group, *other}) == n + m or min(n, m) > 8:
        expected = stats.mannwhitneyu(group, other).pvalue
        assert found.p == pytest.approx(1.0 if np.isnan(expected) else expected)
    assert 0 < found.p <= 1
    back = discrimination(other, group)
    assert back is not None
    assert back.a12 == pytest.approx(1 - found.a12)
    assert back.p == pytest.approx(found.p)


FEW = st.lists(st.integers(0, 3), min_size=3, max_size=5)


@given(FEW, FEW)
def test_with_ties_the_p_of_few_is_that_of_all_ways_to_part_them(group: list[int], other: list[int]) -> None:
    found = discrimination(group, other)
    assert found is not None
    ranks, n = stats.rankdata([*group, *other]), len(group)
    expected = n * ranks.mean()
    sums = np.array([sum(chosen) for chosen in combinations(ranks, n)])
    far = np.abs(sums - expected) >= abs(ranks[:n].sum() - expected) - 1e-9
    assert found.p == pytest.approx(far.mean())


def test_the_p_of_few_is_not_a_normals() -> None:
    found = discrimination([1, 1, 2], [2, 3, 4])
    assert found is not None
    # Of 20 ways to part them two sums are as far below, and two as far above.
    assert found.p == pytest.approx(4 / 20)
    many = discrimination([0] * 9, [0] * 9)
    assert many is not None
    assert many.p == 1.0


@pytest.mark.parametrize("n", [3, 4, 5, 8])
def test_of_few_labels_p_is_the_share_of_orders(n: int) -> None:
    found = correlation(range(n), [value**3 for value in range(n)])
    assert found is not None
    # One of n! orders is this one, and one its reverse.
    assert (found.rho, found.p) == (pytest.approx(1.0), pytest.approx(2 / factorial(n)))
    # Of 3 or 4 none is telling.
    assert found.band == (None if n < 5 else "high")


def test_of_few_labels_in_few_classes_no_order_is_telling() -> None:
    found = correlation([1, 1, 1, 1, 3], [0.5, 0.4, 0.3, 0.2, 0.9])
    assert found is not None
    assert (found.p, found.band) == (pytest.approx(2 / 5), None)


@given(NUMBERS)
def test_a_monotone_change_of_the_values_changes_no_correlation(values: list[int]) -> None:
    labels = [1, 2, 3, *(k % 3 + 1 for k in range(len(values) - 3))]
    few = len(values) <= 8
    found, cubed = correlation(labels, values), correlation(labels, [value**3 + 7 for value in values])
    assert (found is None) == (len(set(values)) == 1)
    if found is not None and cubed is not None:
        assert found.rho == pytest.approx(cubed.rho)
        expected = stats.spearmanr(labels, values)
        assert found.rho == pytest.approx(expected.statistic)
        assert found.p == cubed.p
        assert few or found.p == pytest.approx(expected.pvalue, abs=1e-12)


def test_bands() -> None:
    rhos = (0.0, 0.10, -0.11, 0.29, 0.3, -0.49, 0.5, -1.0)
    assert [*map(correlation_band, rhos)] == [*("none",) * 2, "low", "low", "medium", "medium", "high", "high"]
    a12s = (0.5, 0.57, 0.43, 0.6, 0.66, 0.7, 0.73, 0.74, 0.2)
    assert [*map(effect_category, a12s)] == ["n", "n", "n", "s", "s", "m", "m", "L", "L"]


def test_of_too_few_nothing_is_said() -> None:
    assert discrimination([1, 2], [3, 4, 5]) is None
    assert discrimination([1, 2, 3], []) is None
    assert correlation([1, 2], [3, 4]) is None
    assert correlation([1, 2, 3], [4, 4, 4]) is None
    with pytest.raises(VlaError, match="3 labels and 2 values"):
        correlation([1, 2, 3], [1, 2])
    with pytest.raises(VlaError, match="finite"):
        discrimination([1, np.nan, 3], [1, 2, 3])
    with pytest.raises(VlaError, match=r"rho 1\.5 of 9"):
        correlation_p(1.5, 9)


def test_times_have_a_sample_s_deviation() -> None:
    assert timings([1.0, 2.0, 3.0]) == (2.0, 1.0)
    with pytest.raises(VlaError, match="2 or more"):
        timings([1.0])


def test_the_papers_sign_is_the_other_one() -> None:
    """Table III: positive where a lower metric goes with a higher quality."""
    labels, values = [1, 1, 2, 2, 3, 3], [0.9, 0.7, 0.8, 0.6, 0.2, 0.3]
    ours, papers = correlation(labels, values), correlation(labels, values, "paper")
    assert ours is not None
    assert papers is not None
    assert (papers.rho, papers.p, papers.band) == (-ours.rho, ours.p, ours.band)
    assert papers.rho > 0.8


def test_an_effect_that_chance_makes_has_no_letter() -> None:
    few, more = discrimination([1, 2, 3], [4, 5, 6]), discrimination([1, 2, 3, 4], [5, 6, 7, 8])
    assert few is not None
    assert more is not None
    assert (few.a12, few.p, few.category) == (0.0, pytest.approx(0.1), None)
    assert (more.a12, more.p, more.category) == (0.0, pytest.approx(2 / 70), "L")
