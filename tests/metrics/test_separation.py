"""How a metric's values lie by outcome: every episode is in a bin, and quartiles over time are numpy's."""

import numpy as np
import pytest

from pytest_vla.metrics.failure_prediction import BINS, TIMES, Watched, separations


def watched(seed: int, failed: bool, level: float, steps: int = 200) -> Watched:
    return Watched(failed, ("a_task", seed), 200, {"entropy": np.full(steps, level)})


def test_failures_and_successes_lie_in_bins_of_one_range() -> None:
    episodes = [watched(seed, False, 0.2 + seed / 100) for seed in range(10)]
    episodes += [watched(seed, True, 0.8) for seed in range(10, 14)]
    # Over by a quarter of the budget: it is in no bin.
    episodes.append(watched(14, False, 0.5, steps=20))
    (found,) = separations(episodes)
    assert (found.metric, found.beyond) == ("entropy", 0)
    assert (found.low, found.high) == (pytest.approx(0.2), pytest.approx(0.8))
    assert (sum(found.failures.counts), sum(found.successes.counts)) == (4, 10)
    assert len(found.failures.counts) == BINS
    assert (found.failures.counts[-1], found.successes.counts[-1]) == (4, 0)
    assert (found.failures.median, found.successes.median) == (pytest.approx(0.8), pytest.approx(0.245))


def test_a_value_far_out_does_not_hide_the_others() -> None:
    episodes = [watched(seed, seed % 2 == 0, 0.1 + seed / 1000) for seed in range(300)] + [watched(300, True, 1e6)]
    (found,) = separations(episodes)
    assert found.high < 0.5
    # The one far out, and of the others the first hundredth and the last.
    assert found.beyond == 6
    assert sum(found.failures.counts) + sum(found.successes.counts) == 301


def test_equal_values_have_a_bin() -> None:
    (found,) = separations([watched(seed, seed < 3, 0.0) for seed in range(6)])
    assert found.low < 0 < found.high
    assert max(found.failures.counts) == 3


def test_over_time_are_those_that_run_still() -> None:
    rng = np.random.default_rng(0)
    episodes = [Watched(True, ("a_task", seed), 200, {"entropy": rng.normal(size=200)}) for seed in range(5)]
    episodes += [Watched(False, ("a_task", seed), 200, {"entropy": rng.normal(size=100)}) for seed in range(5, 9)]
    episodes += [Watched(False, ("a_task", 9), 200, {"entropy": np.full(200, np.nan)})]
    (found,) = separations(episodes)
    assert len(found.failures_course.quartiles) == TIMES
    means = [each.series["entropy"][30:40].mean() for each in episodes[:5]]
    assert found.failures_course.quartiles[3] == pytest.approx(np.quantile(means, (0.25, 0.5, 0.75)))
    assert [each is None for each in found.successes_course.quartiles] == [False] * 10 + [True] * 10


def test_without_a_value_there_is_nothing() -> None:
    assert separations([]) == ()
    assert separations([Watched(True, ("a_task", 0), 200, {"entropy": np.full(200, np.nan)})]) == ()
