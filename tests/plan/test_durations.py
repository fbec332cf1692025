"""Estimated times: from a case's own earlier ones to a mere order; and the wall time of many on several workers."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.plan.case import Case
from pytest_vla.plan.durations import (
    LONGEST_SECONDS,
    DurationEstimate,
    EndedEpisode,
    ExpectedEpisode,
    estimate,
    learned_seconds,
    time_left,
    total_seconds,
)

STEPS = {"short": 100, "long": 500, "other": 200}
CASE = Case("short", "push", 0)

Row = tuple[str, str, int, float]


def estimated(*measured: Row, case: Case = CASE) -> DurationEstimate:
    (expected,) = estimate([case], measured, STEPS)
    return expected


@pytest.mark.parametrize(
    ("measured", "seconds"),
    [
        ([("short", "push", 0, 4.0), ("short", "push", 0, 6.0), ("short", "push", 1, 90.0)], 5.0),
        ([("short", "push", 1, 4.0), ("short", "push", 2, 8.0), ("short", "pull", 0, 90.0)], 6.0),
        ([("short", "pull", 0, 7.0), ("short", "lift", 0, 9.0), ("long", "push", 0, 90.0)], 8.0),
        ([("long", "push", 0, 10.0)], 2.0),
        ([("long", "push", 0, 10.0), ("other", "push", 0, 8.0)], 3.0),
        ([("gone", "push", 0, 90.0), ("long", "push", 0, 10.0)], 2.0),
    ],
    ids=["own", "task", "suite", "another suite by steps", "other suites by steps", "a suite that is no more"],
)
def test_the_nearest_times_count(measured: list[Row], seconds: float) -> None:
    assert estimated(*measured) == DurationEstimate(pytest.approx(seconds), True)


def test_without_any_time_the_step_budget_orders_cases() -> None:
    cases = [Case("short", "push", 0), Case("long", "push", 0), Case("other", "push", 0)]
    short, long, other = estimate(cases, [("gone", "push", 0, 5.0)], STEPS)
    assert long.seconds / short.seconds == pytest.approx(5)
    assert short.seconds < other.seconds < long.seconds
    assert not any(expected.measured for expected in (short, long, other))


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf, 1e308])
def test_what_is_no_time_is_left_out(seconds: float) -> None:
    assert estimated(("short", "push", 0, seconds), ("short", "push", 0, 3.0)) == DurationEstimate(3.0, True)
    assert not estimated(*[("short", "push", 0, seconds)] * 2).measured


def test_a_suite_without_a_budget_is_refused() -> None:
    with pytest.raises(KeyError, match="unknown"):
        estimated(case=Case("unknown", "push", 0))


TIMES = st.floats(min_value=0, max_value=1e6)
ROWS = st.lists(
    st.tuples(
        st.sampled_from([*STEPS, "gone"]),
        st.sampled_from(["push", "pull"]),
        st.integers(min_value=0, max_value=2),
        TIMES,
    )
)
CASES = st.lists(
    st.builds(
        Case, st.sampled_from(list(STEPS)), st.sampled_from(["push", "lift"]), st.integers(min_value=0, max_value=2)
    )
)


@given(CASES, ROWS)
def test_every_case_has_a_time_within_what_was_measured(cases: list[Case], rows: list[Row]) -> None:
    estimates = estimate(cases, rows, STEPS)
    assert len(estimates) == len(cases)
    for case, expected in zip(cases, estimates, strict=True):
        own = [seconds for suite, *_, seconds in rows if suite == case.suite]
        assert expected.measured == any(suite in STEPS for suite, *_ in rows)
        assert math.isfinite(expected.seconds)
        if own:
            assert min(own) * (1 - 1e-9) <= expected.seconds <= max(own) * (1 + 1e-9)


@given(CASES, ROWS, st.randoms(use_true_random=False))
def test_the_order_of_earlier_episodes_does_not_matter(cases: list[Case], rows: list[Row], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    for one, other in zip(estimate(cases, rows, STEPS), estimate(cases, shuffled, STEPS), strict=True):
        assert one == DurationEstimate(pytest.approx(other.seconds), other.measured)


SECONDS = st.lists(TIMES, max_size=50)


def test_the_total_is_what_the_longest_first_takes() -> None:
    assert total_seconds([2, 3, 4, 5], 2) == 7
    assert total_seconds([1, 1, 10], 2) == 10
    assert total_seconds([], 3) == 0


@given(SECONDS, st.integers(min_value=1, max_value=70))
def test_the_total_lies_between_the_bounds(seconds: list[float], workers: int) -> None:
    at_least = max(sum(seconds) / workers, max(seconds, default=0.0))
    total = total_seconds(seconds, workers)
    # Graham's bounds: no schedule is shorter, and this one is less than the longest item longer.
    assert at_least * (1 - 1e-9) <= total <= sum(seconds) / workers + max(seconds, default=0.0) + 1e-6
    assert total_seconds(seconds, workers + 1) <= total * (1 + 1e-9)


@given(SECONDS)
def test_one_worker_takes_the_sum(seconds: list[float]) -> None:
    assert total_seconds(seconds, 1) == pytest.approx(sum(seconds))


def test_no_worker_is_refused() -> None:
    with pytest.raises(ValueError, match="0 workers"):
        total_seconds([1.0], 0)


def ended(kind: str, seconds: float, whole: float, task: str = "push", expected: float = 1.0) -> EndedEpisode:
    return EndedEpisode(ExpectedEpisode(expected, "short", kind, task), seconds, whole)


def to_come(kind: str, task: str = "push", expected: float = 1.0) -> ExpectedEpisode:
    return ExpectedEpisode(expected, "short", kind, task)


def test_before_the_first_end_nothing_is_known() -> None:
    assert time_left([to_come("")], [], 1, math.nan) is None
    assert time_left([], [ended("", 3.0, 3.0)], 1, 0.0) == 0.0


def test_a_kind_takes_what_its_own_episodes_took() -> None:
    """Benign episodes succeed in 3 s, those of one kind fail after 18 s: one ratio would be off by three both ways."""
    some = [ended("", 3.0, 18.0, f"task_{number}") for number in range(20)]
    some += [ended("noise.gaussian", 18.0, 18.0, f"task_{number}") for number in range(20)]
    slow, quick = (to_come(kind, "task_0") for kind in ("noise.gaussian", ""))
    assert learned_seconds([slow], some)[0] == pytest.approx(18.0, rel=0.1)
    assert learned_seconds([quick], some)[0] == pytest.approx(3.0, rel=0.5)
    assert 4.0 < learned_seconds([to_come("camera.distance", "task_0")], some)[0] < 18.0, "it may fail as well"


def test_a_task_takes_what_its_own_episodes_took() -> None:
    some = [ended("", seconds, seconds, task) for task, seconds in (("push", 2.0), ("lift", 10.0)) for _ in range(10)]
    push, lift, other = learned_seconds([to_come("", task) for task in ("push", "lift", "other")], some)
    assert (push, lift) == (pytest.approx(2.0, rel=0.3), pytest.approx(10.0, rel=0.1))
    assert push < other < lift


def test_the_start_up_does_not_come_again_and_loading_scenes_does() -> None:
    """Ten episodes of 2 s, with a second between them; what came before the first one's end is not in the sum."""
    some = [ended("", 2.0, 2.0) for _ in range(10)]
    left = [to_come("")] * 10
    assert time_left(left, some[:1], 1, 0.0) == pytest.approx(20.0)
    assert time_left(left, some, 1, 9 * 3.0) == pytest.approx(30.0, rel=0.05)
    assert time_left(left, some, 2, 9 * 1.5) == pytest.approx(15.0, rel=0.1)
    assert time_left(left[:1], some, 8, 0.0) == pytest.approx(2.0), "one episode needs one worker"


LABELS = st.tuples(
    st.sampled_from(["short", "long"]), st.sampled_from(["", "noise"]), st.sampled_from(["push", "lift"])
)


def episodes(seconds: st.SearchStrategy[float]) -> st.SearchStrategy[list[ExpectedEpisode]]:
    return st.lists(st.builds(lambda seconds, labels: ExpectedEpisode(seconds, *labels), seconds, LABELS))


# None is below a tenth of any mean.
EPISODES = episodes(st.floats(1, 10))


@given(EPISODES, EPISODES.filter(bool), st.floats(1e-2, 1e2), st.integers(1, 20))
def test_a_run_that_is_slower_throughout_is_told_exactly(
    left: list[ExpectedEpisode], done: list[ExpectedEpisode], slower: float, workers: int
) -> None:
    some = [EndedEpisode(each, slower * each.seconds, slower * each.seconds) for each in done]
    expected = total_seconds([slower * each.seconds for each in left], workers)
    assert time_left(left, some, workers, 0.0) == pytest.approx(expected)


@given(EPISODES, st.lists(st.tuples(EPISODES.filter(bool), st.floats(0, 1e4)), min_size=1), st.floats(0, 1e4))
def test_the_time_left_is_within_what_was_measured(
    left: list[ExpectedEpisode], done: list[tuple[list[ExpectedEpisode], float]], since: float
) -> None:
    some = [EndedEpisode(each, seconds, 2 * seconds) for group, seconds in done for each in group]
    ratios = [each.seconds / each.expected.seconds for each in some]
    for each, seconds in zip(left, learned_seconds(left, some), strict=True):
        assert min(ratios) * each.seconds * (1 - 1e-9) <= seconds <= 2 * max(ratios) * each.seconds * (1 + 1e-9)
    told = time_left(left, some, 1, since)
    if not any(each.seconds for each in some):
        assert told is None
        return
    assert told is not None
    assert math.isfinite(told)
    assert told >= 0
    assert left or not told


@given(
    episodes(st.floats(0, LONGEST_SECONDS)), episodes(st.floats(0, LONGEST_SECONDS)).filter(bool), st.floats(1e-2, 1e2)
)
def test_no_expected_time_tells_more_than_was_measured(
    left: list[ExpectedEpisode], done: list[ExpectedEpisode], took: float
) -> None:
    """Each took the same: those to come take 11 times that on average at most, a mean and its tenth over a tenth."""
    told = time_left(left, [EndedEpisode(each, took, took) for each in done], 1, 0.0)
    assert told is not None
    assert 0 <= told <= 11 * took * (len(left) + len(done)) * (1 + 1e-9)


def test_an_expected_time_near_0_tells_no_ratio() -> None:
    some = [EndedEpisode(ExpectedEpisode(seconds, suite), 5.0, 5.0) for seconds, suite in ((0.001, "a"), (10.0, "b"))]
    left = [ExpectedEpisode(10.0, "a")] * 9
    told = time_left(left, some, 1, 5.0)
    assert told is not None
    assert 9 * 5.0 < told < 10 * 9 * 5.0
    assert learned_seconds([ExpectedEpisode(0.0)] * 3, [ended("", 5.0, 5.0, expected=0.0)]) == (5.0, 5.0, 5.0)


def test_episodes_that_took_no_time_tell_none() -> None:
    left = [to_come("")] * 99
    assert time_left(left, [ended("", 0.0, 0.0)], 1, 0.0) is None
    assert time_left(left, [ended("", 0.0, 0.0), ended("", 4.0, 4.0)], 1, 4.0) == pytest.approx(99 * 2.0)


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0, 1e308])
def test_episodes_whose_time_is_none_tell_none(seconds: float) -> None:
    left, broken, fine = [to_come("")] * 9, ended("", seconds, seconds), ended("", 4.0, 4.0)
    assert time_left(left, [broken], 1, 0.0) is None
    assert time_left(left, [broken, fine], 1, 4.0) == pytest.approx(36.0)
    assert time_left(left, [fine, broken, fine], 1, 4.0) == pytest.approx(36.0)
    assert time_left([to_come("", expected=seconds)] * 9, [fine], 1, 0.0) == pytest.approx(36.0)
