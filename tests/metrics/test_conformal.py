"""The conformal threshold: by hand, its promise on simulated successes, and that held-out seeds are held out."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.metrics.alarms import AlarmRule, first_alarm
from pytest_vla.metrics.calibration import conformal, conformal_threshold, fewest_successes, score
from pytest_vla.metrics.failure_prediction import Watched


def test_it_is_an_order_statistic() -> None:
    assert conformal_threshold(range(1, 10), 0.1) == 9
    assert conformal_threshold(range(1, 9), 0.1) is None
    assert conformal_threshold(range(1, 20), 0.1) == 18
    assert conformal_threshold([], 0.5) is None
    with pytest.raises(VlaError, match="above 0 and below 1"):
        conformal_threshold([1.0], 1.0)
    with pytest.raises(VlaError, match="expected"):
        conformal_threshold([math.nan], 0.5)


@pytest.mark.parametrize(("alpha", "fewest"), [(0.05, 19), (0.1, 9), (0.2, 4), (0.5, 1)])
def test_how_many_successes_a_threshold_needs(alpha: float, fewest: int) -> None:
    assert fewest_successes(alpha) == fewest
    assert conformal_threshold(range(fewest), alpha) is not None
    assert conformal_threshold(range(fewest - 1), alpha) is None


@given(st.lists(st.sampled_from([0.0, 1.0, 2.0, math.nan]), max_size=10), st.integers(1, 3))
def test_an_alarm_rings_where_the_score_is_beyond_and_nowhere_else(values: list[float], steps: int) -> None:
    for threshold in (-0.5, 0.5, 1.0, 2.0):
        rings = first_alarm(values, AlarmRule("m", ">", threshold, steps)) is not None
        assert rings == (score(values, steps) > threshold)


def test_of_one_more_success_it_rings_as_seldom_as_promised() -> None:
    """Over many draws of 19 successes and one more, the mean is what the theorem says: alpha, no ties."""
    rng = np.random.default_rng(5)
    drawn = rng.gumbel(size=(20_000, 20))
    thresholds = np.array([conformal_threshold(row[:19], 0.1) for row in drawn])
    assert (drawn[:, 19] > thresholds).mean() == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(("clusters", "size", "least"), [(11, 10, 0.13), (14, 5, 0.11), (20, 8, 0.08)])
def test_of_one_more_cluster_it_rings_as_seldom_as_promised(clusters: int, size: int, least: float) -> None:
    """Successes of one task and seed are alike: taken for independent they cut up to a fifth instead of a tenth."""
    rng = np.random.default_rng(6)
    of = np.repeat(np.arange(clusters), size)
    kept, naive, times = 0, 0, 1500
    for _ in range(times):
        scores = rng.normal(size=clusters + 1).repeat(size) + 0.1 * rng.normal(size=(clusters + 1) * size)
        known, new = scores[:-size], scores[-1]
        by_cluster, taken_alone = conformal_threshold(known, 0.1, of), conformal_threshold(known, 0.1)
        assert by_cluster is not None
        assert taken_alone is not None
        kept += new > by_cluster
        naive += new > taken_alone
    # .1, and three standard deviations of 1,500.
    assert kept / times < 0.123
    assert naive / times >= kept / times
    assert naive / times > least


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=40), st.sampled_from([0.05, 0.1, 0.3]))
def test_copies_of_clusters_change_nothing(scores: list[int], alpha: float) -> None:
    alone = conformal_threshold(scores, alpha)
    assert conformal_threshold(scores, alpha, range(len(scores))) == alone
    assert conformal_threshold(scores * 3, alpha, [*range(len(scores))] * 3) == alone


def watched(seed: int, failed: bool, top: float) -> Watched:
    return Watched(failed, ("t", seed), 10, {"m": np.array([0.0, top, 0.0, 0.0])})


def test_other_seeds_judge_it() -> None:
    # Of even seeds successes reach 1 to 20; of odd ones 0.5 more, and failures 30.
    episodes = [watched(2 * number, False, number + 1.0) for number in range(19)]
    episodes += [watched(2 * number + 1, False, number + 1.5) for number in range(19)]
    episodes += [watched(1, True, 30.0), watched(0, True, 99.0)]
    found = conformal(episodes, "m", 0.1)
    assert (found.calibrating, found.threshold) == (19, 18.0)
    assert found.held_out is not None
    assert found.held_out.cut is not None
    assert found.held_out.caught is not None
    assert (found.held_out.successes, found.held_out.cut.value) == (19, pytest.approx(2 / 19))
    assert (found.held_out.failures, found.held_out.caught.value) == (1, 1.0)
    few = conformal(episodes[:3], "m", 0.1)
    assert (few.threshold, few.held_out) == (None, None)
    assert conformal([], "m").calibrating == 0
    # Over seeds with something varied too.
    pinned = [Watched(False, ("t", (seed, "camera")), 10, {"m": np.zeros(4)}) for seed in range(12)]
    assert conformal(pinned, "m", 0.5).threshold == 0.0
