"""The delta method over clusters, against scipy's t interval, a ratio by hand, and itself."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from pytest_vla.metrics.clustered import linearised_intervals

Array = NDArray[np.float64]


def itself(means: Array) -> tuple[Array, Array]:
    return means, np.eye(len(means))


def ratio(means: Array) -> tuple[Array, Array]:
    return means[:1] / means[1:], np.array([[1 / means[1], -means[0] / means[1] ** 2]])


def test_of_a_mean_it_is_students_interval() -> None:
    values = np.random.default_rng(0).normal(3, 2, 25)
    (found,) = linearised_intervals(values[:, None], range(25), itself) or []
    assert found == pytest.approx(stats.t.interval(0.95, 24, values.mean(), stats.sem(values)))


def test_of_clusters_it_is_that_of_their_means() -> None:
    values = np.repeat(np.random.default_rng(1).normal(size=12), 5)
    (found,) = linearised_intervals(values[:, None], np.repeat(np.arange(12), 5).tolist(), itself) or []
    (alone,) = linearised_intervals(values[::5, None], range(12), itself) or []
    assert found == pytest.approx(alone)


def test_of_a_ratio_it_covers_about_as_often_as_it_says() -> None:
    generator, held = np.random.default_rng(2), 0
    for _ in range(300):
        rows = np.exp(0.3 * generator.normal(size=(60, 2))) * [2.0, 1.0]
        ((low, high),) = linearised_intervals(rows, range(60), ratio) or []
        held += low <= 2 <= high
    assert 0.92 <= held / 300 <= 0.98


def test_what_is_added_makes_rates_at_an_end_stray() -> None:
    rows = np.ones((20, 1))
    (certain,) = linearised_intervals(rows, range(20), itself) or []
    (stray,) = linearised_intervals(rows, range(20), itself, added=1) or []
    assert certain == (1, 1)
    # A success and a failure more of twenty: 21 of 22.
    assert stray[0] < 21 / 22 < 1 < stray[1]
    (several,) = linearised_intervals(np.ones((80, 1)), [n // 4 for n in range(80)], itself, added=1) or []
    assert several == pytest.approx(stray), "four of each of twenty clusters are twenty"


def test_one_cluster_has_no_interval() -> None:
    assert linearised_intervals(np.ones((5, 1)), [0] * 5, itself) is None
