"""Rates over episodes that come in clusters: against Wilson's interval, survey statistics' formula, and themselves."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_vla.metrics.clustered import (
    FEWEST_TASKS,
    crossed_spread,
    rate_interval,
    rate_intervals,
    student_quantile,
)
from pytest_vla.metrics.statistics import score_interval, wilson_interval
from tests.support.examples import scaled

OUTCOMES = st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.integers(0, 3)), min_size=1, max_size=40)


def blocks(rates: Sequence[int], size: int) -> tuple[list[float], list[int]]:
    """Clusters of so many episodes, of which so many succeed."""
    success = [float(place < done) for done in rates for place in range(size)]
    return success, [number for number in range(len(rates)) for _ in range(size)]


@given(st.lists(st.booleans(), min_size=1, max_size=60))
def test_episodes_that_are_clusters_by_themselves_have_wilsons_interval(outcomes: list[bool]) -> None:
    expected = wilson_interval(sum(outcomes), len(outcomes))
    assert rate_interval([float(each) for each in outcomes], range(len(outcomes))) == expected


def test_a_few_clusters_by_hand() -> None:
    """Korn and Graubard's effective size, with the variance of the mean of four clusters and of one that is alike."""
    success, clusters = blocks([9, 6, 10, 3], 10)
    means, rate = np.array([0.9, 0.6, 1.0, 0.3]), 0.7
    variance = ((means - rate) ** 2).sum() / 4**2 + rate * (1 - rate) / 4 / 4
    expected = score_interval(rate, rate * (1 - rate) / variance, float(stats.t.ppf(0.975, 3)))
    assert rate_interval(success, clusters) == pytest.approx(expected)


def test_weights_are_those_of_a_ratio() -> None:
    """Linearised: sum(w (y - P)) of a cluster, over the sum of all weights."""
    generator = np.random.default_rng(0)
    success, weights = (generator.random(60) < 0.6).astype(float), generator.uniform(0.1, 1, 60)
    clusters = np.repeat(np.arange(20), 3)
    rate = float((weights * success).sum() / weights.sum())
    errors = np.bincount(clusters, weights * (success - rate)) / weights.sum()
    shares = np.bincount(clusters, weights) / weights.sum()
    variance = (errors**2).sum() + rate * (1 - rate) * (shares**2).sum() / 20
    expected = score_interval(rate, rate * (1 - rate) / variance, float(stats.t.ppf(0.975, 1 / (shares**2).sum() - 1)))
    found = rate_interval(success.tolist(), clusters.tolist(), weights=weights.tolist())
    assert found == pytest.approx(expected)
    doubled = rate_interval(success.tolist(), clusters.tolist(), weights=(2 * weights).tolist())
    assert doubled == pytest.approx(expected)


def test_a_cluster_that_is_most_of_all_leaves_few_degrees_of_freedom() -> None:
    """Nine seeds run once and one under twenty kinds tell less than ten seeds of three kinds do."""
    success = [1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, *[1.0, 0.0] * 10]
    uneven = rate_interval(success, [*range(9), *[9] * 20])
    even = rate_interval(success, [number % 10 for number in range(29)])
    assert uneven is not None
    assert even is not None
    assert uneven[1] - uneven[0] > 1.3 * (even[1] - even[0])


def test_clusters_that_are_all_alike_are_worth_one_episode_each() -> None:
    success, clusters = blocks([10, 0, 10, 10, 0, 10, 10, 10], 10)
    low, high = rate_interval(success, clusters) or (0, 0)
    wilson = wilson_interval(6, 8)
    assert low < wilson[0] < wilson[1] < high, "a little wider, since the variance is estimated"
    all_done = rate_interval([1.0] * 50, clusters[:50])
    assert all_done == pytest.approx(wilson_interval(5, 5))


def test_clusters_that_agree_by_chance_are_not_certain() -> None:
    """Ten tasks of which each is done seven times of ten: no more precise than independent episodes."""
    success, clusters = blocks([7] * 10, 10)
    low, high = rate_interval(success, clusters) or (0, 0)
    independent = wilson_interval(70, 100)
    assert high - low > independent[1] - independent[0]


def test_one_cluster_tells_nothing_of_others() -> None:
    assert rate_interval([1.0, 0.0, 1.0], ["a"] * 3) is None
    assert rate_interval([1.0], ["a"]) == wilson_interval(1, 1)


def test_crossing_clusters_add_up() -> None:
    """Texts that differ, seeds that differ, and both: V1 + V2 - V12 (Cameron, Gelbach and Miller)."""
    generator = np.random.default_rng(1)
    texts, seeds = np.repeat(np.arange(30), 6), np.tile(np.arange(6), 30)
    influence = generator.normal(size=180) + generator.normal(size=30)[texts] + generator.normal(size=6)[seeds]
    influence = (influence - influence.mean()) / 180
    first, second = (np.bincount(way, influence) for way in (texts, seeds))
    shares = [1 / 180] * 180
    ways = [texts.tolist(), seeds.tolist()]
    both = crossed_spread(influence.tolist(), shares, 0.0, ways)
    assert both is not None
    expected = 30 / 29 * (first**2).sum() + 6 / 5 * (second**2).sum() - 180 / 179 * (influence**2).sum()
    assert both.variance == pytest.approx(expected)
    assert 5 < both.freedom < 34
    alone = crossed_spread(influence.tolist(), shares, 0.0, [texts.tolist(), [0] * 180])
    assert alone is not None
    assert (alone.variance, alone.freedom) == (pytest.approx(30 / 29 * (first**2).sum()), 29), "one seed is passed over"
    assert crossed_spread([0.0, 0.0], [0.5, 0.5], 0.1, [[0, 0]]) is None


_IN_TURN = [(0, 0), (0, 1), (0, 1), (0, 2), (0, 2), (0, 2), (1, 1), (1, 1), (1, 2), (2, 1)]
ROUNDED = [(number > 1, *clusters) for number, clusters in enumerate(_IN_TURN)]
"""The second kind of clusters adds no variance here but what is rounded."""


@settings(max_examples=scaled(60))
@given(OUTCOMES)
@example(ROUNDED)
def test_any_clusters_have_an_interval_that_holds_the_rate(outcomes: list[tuple[bool, int, int]]) -> None:
    success = [float(done) for done, _, _ in outcomes]
    clusters, crossed = [each for _, each, _ in outcomes], [each for _, _, each in outcomes]
    found = rate_interval(success, clusters, crossed)
    rate = sum(success) / len(success)
    if found is None:
        assert len(set(clusters)) == len(set(crossed)) == 1
        return
    assert 0 <= found[0] <= rate + 1e-9
    assert rate - 1e-9 <= found[1] <= 1
    turned = rate_interval([1 - each for each in success], clusters, crossed)
    assert turned == pytest.approx((1 - found[1], 1 - found[0])), "failures are successes from the other side"
    order = list(reversed(range(len(success))))
    again = rate_interval([success[i] for i in order], [clusters[i] for i in order], [crossed[i] for i in order])
    assert again == pytest.approx(found), "whatever the order"


def test_tasks_like_these_need_several() -> None:
    units = [(f"task {task}", seed) for task in range(FEWEST_TASKS) for seed in range(4)]
    these, like = rate_intervals([1.0, 0.0] * 10, units)
    assert these == wilson_interval(10, 20)
    assert like is not None
    assert rate_intervals([1.0, 0.0] * 8, units[:16])[1] is None


@given(OUTCOMES)
def test_of_tasks_like_these_no_more_is_known_than_of_these(rows: list[tuple[bool, int, int]]) -> None:
    units = [(f"task {task}", seed) for _, task, seed in rows]
    these, like = rate_intervals([float(success) for success, _, _ in rows], units)
    if like is not None:
        assert these is not None
        assert like[0] <= these[0] < these[1] <= like[1]


def test_quantiles_are_students() -> None:
    for freedom in (1, 4.5, 30):
        assert student_quantile(freedom) == pytest.approx(float(stats.t.ppf(0.975, freedom)))
    assert student_quantile(float("inf")) == pytest.approx(1.959964, abs=1e-6)
    with pytest.raises(ValueError, match="between 0 and 1"):
        student_quantile(3, 95)


def test_what_does_not_fit_is_refused() -> None:
    for success, clusters, crossed in (([], [], None), ([1.0], [1, 2], None), ([1.0], [1], [1, 2])):
        with pytest.raises(ValueError, match="expected as many, at least 1"):
            rate_interval(success, clusters, crossed)
