"""Where success halves: the monotone fit against scipy's, the level by hand, and where it is not determined."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from pytest_vla.metrics.clustered import Unit
from pytest_vla.metrics.robustness_curves import FEWEST, Halving, falling_fit, halving
from tests.support.examples import scaled

Rows = list[tuple[Unit, int, bool]]


def rows_of(rates: dict[int, float], units: int = 40) -> Rows:
    """At each level the first so many of the units succeed."""
    return [((f"task {n % 10}", n), level, n < rate * units) for level, rate in rates.items() for n in range(units)]


def found(rows: Rows) -> Halving:
    return halving(rows, np.random.default_rng(0))


@given(st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1)), min_size=1, max_size=7))
def test_the_fit_is_pooled_adjacent_violators(levels: list[tuple[int, float]]) -> None:
    episodes = np.array([n for n, _ in levels], float)
    successes = np.array([round(n * rate) for n, rate in levels], float)
    expected = isotonic_regression(successes / episodes, weights=episodes, increasing=False).x
    np.testing.assert_allclose(falling_fit(successes, episodes), expected, atol=1e-12)


def test_the_level_is_on_straight_lines_between_levels() -> None:
    halved = found(rows_of({0: 1.0, 1: 0.8, 2: 0.6, 3: 0.4, 4: 0.2, 5: 0.0}))
    assert halved.level == pytest.approx(2.5)
    assert halved.interval is not None
    assert 1.5 < halved.interval[0] < 2.5 < halved.interval[1] < 3.5
    assert halved.why == ""


def test_a_curve_that_rises_again_is_pooled_first() -> None:
    """30% at the second level is chance where it is 90% at the third: together they are 60%, and not yet half."""
    halved = found(rows_of({0: 0.8, 1: 0.7, 2: 0.3, 3: 0.9, 4: 0.1}))
    assert halved.level == pytest.approx(3 + (0.6 - 0.4) / (0.6 - 0.1))


def test_levels_that_were_not_run_are_interpolated_over() -> None:
    assert found(rows_of({0: 1.0, 1: 0.8, 3: 0.2, 5: 0.1})).level == pytest.approx(2)


@pytest.mark.parametrize(
    ("rates", "why"),
    [
        ({0: 0.9, 1: 0.9, 5: 0.8}, "not reached up to L5"),
        ({0: 0.0, 1: 0.0}, "benign success is 0"),
        ({1: 0.9, 2: 0.1}, "no benign twin was measured"),
        ({0: 0.9}, "no level was measured"),
    ],
)
def test_where_it_does_not(rates: dict[int, float], why: str) -> None:
    assert found(rows_of(rates)) == Halving(None, None, why)


def test_where_it_is_not_determined() -> None:
    """At the last level success is just about half: the resamples do not agree that it is reached."""
    halved = found(rows_of({0: 0.9, 1: 0.9, 2: 0.85, 3: 0.5}))
    assert (halved.level, halved.interval) == (None, None)
    assert halved.why.startswith("not determined, beyond L2.")


def test_a_few_episodes_do_not_tell() -> None:
    rates = {0: 1.0, 1: 0.0}
    assert found(rows_of(rates, FEWEST)).level is not None
    assert found(rows_of(rates, FEWEST - 1)).why == f"not determined: fewer than {FEWEST} episodes at a level"
    several = [row for row in rows_of(rates, FEWEST - 1) for _ in range(3)]
    assert found(several).level is None, "three kinds of nineteen tasks and seeds"


@settings(max_examples=scaled(20))
@given(st.lists(st.integers(0, 30), min_size=2, max_size=6))
def test_the_halving_level_is_on_the_fit(successes: list[int]) -> None:
    halved = found([((f"task {n}", n), level, n < done) for level, done in enumerate(successes) for n in range(30)])
    fit = falling_fit(np.array(successes, float), np.full(len(successes), 30.0))
    if halved.level is None:
        assert halved.why
        return
    assert np.interp(halved.level, range(len(successes)), fit) == pytest.approx(fit[0] / 2)
    assert halved.interval is not None
    assert halved.interval[0] <= halved.level <= halved.interval[1]


def test_equal_generators_give_equal_intervals() -> None:
    rows = rows_of({0: 0.9, 1: 0.7, 2: 0.2})
    assert found(rows) == found(rows)
