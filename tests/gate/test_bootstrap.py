"""Bootstraps: beside Student's t and scipy's BCa, how often they hold, and what they must not depend on."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_vla.gate.measures import FEWEST_CLUSTERS, flip_bounds, mean_bounds
from tests.support.examples import scaled


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_of_normal_differences_it_is_students_t() -> None:
    values = generator(3).normal(1.0, 2.0, 60)
    found = mean_bounds(values.tolist(), range(60), generator(), draws=20_000)
    assert found is not None
    half = stats.t.ppf(0.95, 59) * values.std(ddof=1) / np.sqrt(60)
    assert found == pytest.approx((values.mean() - half, values.mean() + half), abs=0.1 * half)


def test_pairs_of_one_cluster_count_once() -> None:
    values = generator(6).normal(0, 1, 20)
    once = mean_bounds(values.tolist(), range(20), generator())
    often = mean_bounds(np.repeat(values, 5).tolist(), np.repeat(np.arange(20), 5).tolist(), generator())
    assert often == pytest.approx(once)


@settings(max_examples=scaled(30))
@given(st.integers(0, 2**31), st.integers(FEWEST_CLUSTERS, 25), st.integers(1, 3))
def test_same_seed_same_bounds_and_scale_only_scales(seed: int, number: int, each: int) -> None:
    values = generator(seed).exponential(1, number * each) - 0.8
    clusters = [("task", index // each) for index in range(number * each)]
    found = mean_bounds(values.tolist(), clusters, generator(seed), draws=300)
    assert found is not None
    assert found[0] <= values.mean() <= found[1]
    assert mean_bounds(values.tolist(), clusters, generator(seed), draws=300) == found
    scaled = mean_bounds((10 * values).tolist(), clusters, generator(seed), draws=300)
    assert scaled == pytest.approx((10 * found[0], 10 * found[1]))
    turned = mean_bounds((-values).tolist(), clusters, generator(seed), draws=300)
    assert turned == pytest.approx((-found[1], -found[0]), abs=0.1 * (found[1] - found[0]))


@pytest.mark.parametrize(("number", "empty"), [(12, 0.0), (30, 0.5), (40, 0.0)])
def test_skewed_means_are_held(number: int, empty: float) -> None:
    """Of 600 experiments each bound misses in 5%, three standard errors are 2.7 points: what costs look like."""
    source, misses = generator(7), np.zeros(2)
    for _ in range(600):
        values = source.exponential(1.0, number) * (source.random(number) >= empty) - (1 - empty)
        found = mean_bounds(values.tolist(), range(number), source, draws=500)
        if found is not None:
            misses += found[0] > 0, found[1] < 0
    assert (misses / 600 < 0.05 + 0.027).all(), misses / 600


def test_where_most_pairs_do_not_differ_bounds_are_wide() -> None:
    found = mean_bounds([5.0] + [0.0] * 19, range(20), generator())
    assert found is not None
    assert found[1] > 5.0


def test_nothing_is_said_of_few_clusters_or_of_none_that_strays() -> None:
    assert mean_bounds([1.0, 2.0, 3.0, 4.0], range(4), generator()) is None
    assert mean_bounds([2.0] * 10, range(10), generator()) is None


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="expected as many"):
        mean_bounds([1.0], [], generator())
    with pytest.raises(ValueError, match="2 weights of 8 differences"):
        mean_bounds([1.0] * 8, range(8), generator(), weights=[1.0, 2.0])
    with pytest.raises(ValueError, match="a number between 0 and"):
        mean_bounds([1.0] * 8, range(8), generator(), alpha=0.5)


@settings(max_examples=scaled(30))
@given(st.lists(st.integers(-6, 6), min_size=2, max_size=9), st.sampled_from([0.05, 0.2]))
def test_bounds_of_flips_are_where_every_flip_counted_out_says_alpha(values: list[int], alpha: float) -> None:
    signs = np.array([*product((-1, 1), repeat=len(values))])

    def p(null: float) -> float:
        """The share of flips whose sum lies as far above the null."""
        away = np.array(values) - null
        return float((signs @ away >= away.sum() - 1e-9).mean())

    lower, upper = flip_bounds(values, range(len(values)), generator(), alpha)
    assert upper == -flip_bounds([-each for each in values], range(len(values)), generator(), alpha)[0]
    if np.isfinite(lower):
        assert p(lower - 1e-6) <= alpha
        assert p(lower + 1e-6) > alpha
    else:
        assert 0.5 ** len(values) > alpha


@pytest.mark.slow
@pytest.mark.parametrize("free", [0.5, 0.9])
@pytest.mark.parametrize("alpha", [0.05, 0.005])
def test_of_what_mostly_costs_nothing_flips_err_at_most_as_often_as_they_say(free: float, alpha: float) -> None:
    """Two policies that cost alike, in 40 episodes: the bootstrap errs in 11% of runs, or 2% where .5% is meant."""
    source, wrong, runs = generator(9), 0, 1500
    for _ in range(runs):
        costs = (source.random((2, 40)) >= free) * source.exponential(10, (2, 40))
        wrong += flip_bounds((costs[1] - costs[0]).tolist(), range(40), source, alpha)[0] > 0
    assert wrong / runs <= alpha + 3 * np.sqrt(alpha * (1 - alpha) / runs)


def test_weights_and_clusters_of_flips() -> None:
    """Of a weighted mean; pairs of a cluster are flipped together."""
    found = flip_bounds([1.0, 3.0, 2.0, 2.0], ["a", "a", "b", "c"], generator(), 0.3, weights=[1.0, 3.0, 1.0, 1.0])
    assert found == (2.0, 2.4), "of the means 2, 2, 2, 2.33, 2.4, 2.4 and 2.5 of all subsets"
    many = generator(1).normal(1.0, 1.0, 200)
    lower, upper = flip_bounds(many.tolist(), range(200), generator(), 0.05)
    half = stats.t.ppf(0.95, 199) * many.std(ddof=1) / np.sqrt(200)
    assert (lower, upper) == pytest.approx((many.mean() - half, many.mean() + half), abs=0.15 * half)
    with pytest.raises(ValueError, match="expected"):
        flip_bounds([1.0], ["a"], generator(), weights=[0.0])
