"""Tests of 2x2 tables against published values, against scipy, and against their definitions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_vla.metrics.statistics import chi_square, chi_square_p, holm, smallest_expected
from tests.support.examples import scaled

COUNT = st.integers(0, 200)
TABLE = st.tuples(COUNT, COUNT, COUNT, COUNT)
P_VALUES = st.lists(st.floats(0, 1), max_size=12)


@given(TABLE)
def test_chi_square_is_scipys(table: tuple[int, int, int, int]) -> None:
    a, b, c, d = table
    rows = ((a, b), (c, d))
    statistic = chi_square(rows)
    if not (a + b and c + d and a + c and b + d):
        assert statistic is None
        return
    assert statistic is not None
    expected = stats.chi2_contingency(rows, correction=False)
    assert statistic == pytest.approx(expected.statistic, rel=1e-9, abs=1e-12)
    assert chi_square_p(statistic) == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-300)
    corrected, default = chi_square(rows, yates=True), stats.chi2_contingency(rows)
    assert corrected is not None
    assert corrected == pytest.approx(default.statistic, rel=1e-9, abs=1e-9), "scipy's default"
    assert chi_square_p(corrected) == pytest.approx(default.pvalue, rel=1e-6, abs=1e-300)
    assert smallest_expected(rows) == pytest.approx(expected.expected_freq.min())


def test_published_chi_squares() -> None:
    # The quantiles that every table has, and a table by hand: 100 (10 x 40 - 30 x 20)^2 / (40 x 60 x 30 x 70).
    assert chi_square_p(3.841459) == pytest.approx(0.05, abs=1e-7)
    assert chi_square_p(6.634897) == pytest.approx(0.01, abs=1e-7)
    assert chi_square(((10, 30), (20, 40))) == pytest.approx(100 * 200**2 / (40 * 60 * 30 * 70))
    assert smallest_expected(((0, 0), (0, 0))) == 0


def test_holm_by_hand() -> None:
    # 0.01 x 4, 0.013 x 3, 0.014 x 2 and 0.19 x 1, none below the one before.
    assert holm([0.01, 0.013, 0.014, 0.19]) == pytest.approx((0.04, 0.04, 0.04, 0.19))
    assert holm([0.04, 0.01, 0.03, 0.005]) == pytest.approx((0.06, 0.03, 0.06, 0.02)), "in the order given"
    assert holm([0.7, 0.6]) == (1.0, 1.0)
    assert holm([]) == ()


@given(P_VALUES)
def test_holm_is_between_the_p_and_bonferronis(p_values: list[float]) -> None:
    adjusted = holm(p_values)
    for p, each in zip(p_values, adjusted, strict=True):
        assert p <= each <= min(1, len(p_values) * p)
    assert [i for _, i in sorted(zip(p_values, range(len(p_values)), strict=True))] == sorted(
        range(len(p_values)), key=lambda i: (adjusted[i], p_values[i], i)
    )


@settings(max_examples=scaled(30))
@given(P_VALUES, st.randoms())
def test_holm_does_not_hang_on_the_order(p_values: list[float], randoms: object) -> None:
    order = list(range(len(p_values)))
    randoms.shuffle(order)  # type: ignore[attr-defined]
    adjusted = holm(p_values)
    assert holm([p_values[i] for i in order]) == tuple(adjusted[i] for i in order)


def test_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="expected counts"):
        chi_square(((1, -1), (0, 2)))
    with pytest.raises(ValueError, match=r"expected numbers within 0\.\.1"):
        holm([0.5, float("nan")])
