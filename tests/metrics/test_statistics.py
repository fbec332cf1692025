"""Wilson's interval against published values and against its definition; that of a median."""

from math import isclose, sqrt
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.metrics.statistics import difference_interval, median_interval, wilson_interval

COUNTS = st.integers(min_value=1, max_value=5000).flatmap(
    lambda n: st.tuples(st.integers(min_value=0, max_value=n), st.just(n))
)
LEVELS = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])


# Newcombe 1998, Statistics in Medicine 17, 857-872, table I: method 3 (score, no continuity correction), 95%.
@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_published_intervals(successes: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(successes, n) == pytest.approx((low, high), abs=5e-5)


@given(COUNTS, LEVELS)
def test_the_bounds_solve_wilsons_equation(counts: tuple[int, int], confidence: float) -> None:
    """Seen from a bound, the observed rate is z standard errors away."""
    successes, n = counts
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    low, high = wilson_interval(successes, n, confidence)
    assert 0.0 <= low <= successes / n <= high <= 1.0
    for bound, trivial in ((low, successes == 0), (high, successes == n)):
        if not trivial:
            assert isclose(abs(successes / n - bound), z * sqrt(bound * (1 - bound) / n), rel_tol=1e-6, abs_tol=1e-12)


@given(COUNTS, LEVELS)
def test_failures_are_successes_seen_from_the_other_side(counts: tuple[int, int], confidence: float) -> None:
    successes, n = counts
    low, high = wilson_interval(successes, n, confidence)
    assert wilson_interval(n - successes, n, confidence) == pytest.approx((1 - high, 1 - low), abs=1e-12)


@given(COUNTS)
def test_more_confidence_is_wider_and_more_trials_narrower(counts: tuple[int, int]) -> None:
    successes, n = counts
    low, high = wilson_interval(successes, n)
    wide = wilson_interval(successes, n, 0.99)
    more = wilson_interval(4 * successes, 4 * n)
    assert wide[1] - wide[0] > high - low > more[1] - more[0]


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (1, 0), (-1, 5), (6, 5)])
def test_counts_that_cannot_be(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="expected 0 <= successes <= n"):
        wilson_interval(successes, n)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -0.5, 95.0, float("nan")])
def test_confidence_that_cannot_be(confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        wilson_interval(1, 2, confidence)


def test_the_interval_of_a_median_by_hand() -> None:
    assert median_interval([1.0, 2, 3, 4, 5]) is None
    assert median_interval([3.0, -1, 2, 9, 4, 5]) == (-1, 9)
    # Of 20 the 6th and the 15th: Conover's table of the sign test.
    assert median_interval([float(n) for n in range(1, 21)]) == (6.0, 15.0)


def test_the_interval_of_a_difference_is_newcombes() -> None:
    """Method 10 of Newcombe 1998, Statistics in Medicine 17, 873-890, Table II: 56/70 less 48/80."""
    low, high = difference_interval(56 / 70, wilson_interval(56, 70), 48 / 80, wilson_interval(48, 80))
    assert (round(low, 4), round(high, 4)) == (0.0524, 0.3339)
