"""AUROC as a predictor of failure: what it is, whom a moment looks at, and how often its intervals hold."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.metrics.failure_prediction import Watched, auroc, auroc_intervals, auroc_within, foretelling, value_at

PAIRS = st.lists(st.tuples(st.integers(-9, 9), st.booleans()), min_size=2, max_size=30)


@given(PAIRS)
def test_it_is_how_many_pairs_lie_so(pairs: list[tuple[int, bool]]) -> None:
    failures = [value for value, failed in pairs if failed]
    successes = [value for value, failed in pairs if not failed]
    found = auroc(*zip(*pairs, strict=True))
    if not failures or not successes:
        assert found is None
        return
    won = sum((a > b) + 0.5 * (a == b) for a in failures for b in successes)
    assert found == pytest.approx(won / (len(failures) * len(successes)))
    # Only the order counts, and turned round it is its complement.
    assert auroc([3 * value + 1 for value, _ in pairs], [failed for _, failed in pairs]) == pytest.approx(found)
    assert auroc([-value for value, _ in pairs], [failed for _, failed in pairs]) == pytest.approx(1 - found)


@given(PAIRS)
def test_intervals_hold_the_value_and_stay_within_0_and_1(pairs: list[tuple[int, bool]]) -> None:
    values, failed = zip(*pairs, strict=True)
    units = [(f"task {index % 6}", index) for index in range(len(pairs))]
    area = auroc(values, failed)
    for interval in auroc_intervals(values, failed, units):
        if interval is not None:
            assert area is not None
            assert 0 <= interval[0] <= area <= interval[1] <= 1


def test_groups_that_lie_apart_are_not_sure_for_ever() -> None:
    units = [(f"task {index % 6}", index) for index in range(12)]
    (low, high), wide = auroc_intervals([0] * 6 + [1] * 6, [False] * 6 + [True] * 6, units)  # type: ignore[misc]
    assert high == 1
    assert 0.5 < low < 0.7
    assert wide is not None
    assert wide[0] <= low


def test_of_one_task_nothing_is_said_of_tasks_like_these() -> None:
    interval, wide = auroc_intervals([1, 2, 3, 4], [False, True, False, True], [("t", seed) for seed in range(4)])
    assert interval is not None
    assert wide is None
    assert auroc_intervals([1, 2], [True, True], [("t", 0), ("t", 1)]) == (None, None)


def test_intervals_hold_simulated_truths() -> None:
    """Of tasks that differ in how hard they are and in what the metric says of them all alike."""
    generator, held = np.random.default_rng(3), 0

    def draw(tasks: int, seeds: int) -> tuple[Any, Any, Any]:
        failed = generator.random((tasks, seeds)) < 1 / (1 + np.exp(-generator.normal(size=(tasks, 1))))
        shared, own = generator.normal(size=(tasks, 1)), generator.normal(size=(tasks, seeds))
        values = 0.5 * shared + 0.8 * own + failed
        return values.ravel(), failed.ravel(), [(str(task), seed) for task in range(tasks) for seed in range(seeds)]

    values, failed, _ = draw(20_000, 5)
    truth = auroc(values, failed)
    assert truth is not None
    for _ in range(200):
        _, interval = auroc_intervals(*draw(10, 8))
        assert interval is not None
        held += interval[0] <= truth <= interval[1]
    assert 0.9 <= held / 200 <= 0.995


@given(PAIRS)
def test_within_tasks_it_is_over_pairs_of_one_task(pairs: list[tuple[int, bool]]) -> None:
    values, failed = zip(*pairs, strict=True)
    units = [(f"task {index % 4}", index) for index in range(len(pairs))]
    each = list(zip(values, failed, units, strict=True))
    met = [(a, b) for a, x, s in each for b, y, t in each if x and not y and s[0] == t[0]]
    found = auroc_within(values, failed, units)
    if not met:
        assert found is None
        return
    assert found is not None
    area, interval, number = found
    assert number == len(met)
    assert area == pytest.approx(sum((a > b) + 0.5 * (a == b) for a, b in met) / number)
    assert interval is None or 0 <= interval[0] <= area + 1e-12 <= interval[1] + 2e-12 <= 1 + 2e-12
    # Of one task it is that over all pairs.
    alone = auroc_within(values, failed, [("t", index) for index in range(len(pairs))])
    assert alone is not None
    assert alone[0] == pytest.approx(auroc(values, failed))
    assert alone[1] == pytest.approx(auroc_intervals(values, failed, [("t", n) for n in range(len(pairs))])[0])


def test_what_a_task_is_like_foretells_over_all_pairs_and_not_within_tasks() -> None:
    """The hard task is calm, the easy one wild, and within each the metric tells nothing."""
    rng = np.random.default_rng(4)
    hard = rng.random(600) < 0.5
    failed = rng.random(600) < np.where(hard, 0.9, 0.1)
    values = np.where(hard, 0.0, 3.0) + rng.normal(size=600)
    units = [("hard" if each else "easy", seed) for seed, each in enumerate(hard)]
    found = auroc_within(values, failed, units)
    area = auroc(values, failed)
    assert area is not None
    assert found is not None
    assert area < 0.2
    assert found[1] is not None
    assert found[1][0] < 0.5 < found[1][1]


def test_the_length_of_an_episode_foretells_nothing() -> None:
    """A clock, whose mean grows with what is looked at, is the same for all that are looked at."""
    rng = np.random.default_rng(6)
    episodes = [
        Watched(index % 2 == 0, (f"t{index % 3}", index), 40, {"clock": np.arange(float(steps))})
        for index, steps in enumerate(np.where(np.arange(60) % 2 == 0, 40, rng.integers(2, 40, 60)))
    ]
    for each in foretelling(episodes):
        assert each.auroc is not None
        assert each.auroc.value == 0.5
        assert each.within is not None
        assert each.within.value == 0.5


def test_intervals_within_tasks_hold_simulated_truths() -> None:
    generator, held = np.random.default_rng(8), 0

    def draw(tasks: int, seeds: int, shape: np.random.Generator) -> tuple[Any, Any, Any]:
        hard, like = shape.normal(size=(tasks, 1)), 2 * shape.normal(size=(tasks, 1))
        failed = generator.random((tasks, seeds)) < 1 / (1 + np.exp(-hard))
        values = like + generator.normal(size=(tasks, seeds)) + 0.8 * failed
        return values.ravel(), failed.ravel(), [(str(task), seed) for task in range(tasks) for seed in range(seeds)]

    truth = auroc_within(*draw(10, 3000, np.random.default_rng(1)))
    assert truth is not None
    for _ in range(200):
        found = auroc_within(*draw(10, 12, np.random.default_rng(1)))
        assert found is not None
        assert found[1] is not None
        held += found[1][0] <= truth[0] <= found[1][1]
    assert 0.9 <= held / 200 <= 0.995


def episode(failed: bool, values: list[float], task: int) -> Watched:
    return Watched(failed, (str(task), 0), 20, {"token_entropy": np.array(values)})


def test_a_moment_looks_at_what_is_still_running_and_at_nothing_later() -> None:
    nan = float("nan")
    episodes = [
        *(episode(True, [nan] + [1.0] * 9 + [0.0] * 10, task) for task in range(3)),
        *(episode(False, [nan] + [0.5] * 9 + [9.0] * 2, task) for task in range(3, 6)),
        # Over before the second moment, and unsure as no other.
        *(episode(False, [nan] + [5.0] * 4, task) for task in range(6, 9)),
    ]
    early, middle, late = foretelling(episodes, (0.1, 0.5, 0.75))
    assert (early.failures, early.successes, early.over) == (3, 6, 0)
    assert early.auroc is not None
    assert early.auroc.value == pytest.approx(0.5)
    assert (middle.failures, middle.successes, middle.over) == (3, 3, 3)
    assert middle.auroc is not None
    assert middle.auroc.value == 1
    assert (late.failures, late.successes, late.over, late.auroc) == (3, 0, 6, None)
    # One that succeeds in just this step is over; one that fails in the last is not.
    (last,) = foretelling(episodes, (1.0,))
    assert (last.failures, last.over) == (3, 6)


def test_what_has_no_value_is_in_no_number() -> None:
    assert value_at([np.nan, np.nan, 1.0], 2) is None
    assert value_at([np.nan, 3.0, 1.0], 2) == 3.0
    assert foretelling([]) == ()
    (found,) = foretelling([episode(True, [np.nan] * 20, 0)], (0.5,))
    assert (found.failures, found.auroc, found.unknown) == (0, None, 1)
    with pytest.raises(VlaError, match="above 0 and at most 1"):
        foretelling([], (0.0,))
    with pytest.raises(VlaError, match="finite numbers"):
        auroc([np.nan], [True])
