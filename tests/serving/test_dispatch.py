"""When a batch goes: it gives what the best schedule chosen beforehand gives, and waits for nobody who is gone."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.serving.batch_former import Dispatch, candidates
from pytest_vla.serving.simulated import AtLeast, Load, simulate
from tests.support.examples import scaled

PI0 = {1: 61, 2: 59, 4: 59, 8: 76, 16: 126, 32: 238}
"""Milliseconds of calls of pi0's shape on an H100 (gpu_machine.md)."""
CALLS = {"pi0": PI0, "launches": {1: 50, 32: 50}, "each": {1: 10, 32: 320}}
SHARE = {"pi0": 0.9, "launches": 0.9, "each": 0.97}


class Planning(Dispatch):
    """Plans whenever a call has ended, as its users do while the next one runs."""

    def took(self, size: int, seconds: float) -> None:
        super().took(size, seconds)
        for _ in range(20):
            self.plan()


def load_of(name: str, thinking: float, **more: float) -> Load:
    table = CALLS[name]
    times = tuple(np.linspace(0.7, 1.3, 101) * thinking)
    return Load(lambda size: float(np.interp(size, list(table), list(table.values()))) / 1000, 32, times, **more)  # type: ignore[arg-type]


def best_static(load: Load, workers: int, episodes: int | None = None) -> float:
    rates = [
        simulate(load, workers, AtLeast(number, workers), np.random.default_rng(1), episodes=episodes, questions=1500)
        for number in candidates(workers, load.most)
    ]
    return max(each.questions_per_second for each in rates)


@pytest.mark.parametrize(
    ("name", "workers", "thinking"),
    [
        *[
            (name, workers, thinking)
            for name in ("pi0", "launches")
            for workers in (4, 16)
            for thinking in (0.02, 0.09)
        ],
        *[("pi0", 1, 0.02), ("pi0", 64, 0.2), ("each", 16, 0.09)],
    ],
)
def test_it_gives_what_the_best_static_schedule_gives(name: str, workers: int, thinking: float) -> None:
    load = load_of(name, thinking)
    found = simulate(load, workers, Planning(load.most), np.random.default_rng(1), questions=1500)
    assert found.questions_per_second >= SHARE[name] * best_static(load, workers)


@pytest.mark.parametrize("workers", [8, 32])
def test_resets_early_ends_shared_cores_and_the_end_of_a_run_are_no_trouble(workers: int) -> None:
    load = load_of("launches", 0.06, away=(0.3, 0.6), questions=20, cores=8)
    found = simulate(load, workers, Planning(load.most, 8), np.random.default_rng(1), episodes=100)
    assert found.questions_per_second >= 0.9 * best_static(load, workers, episodes=100)


def test_a_policy_whose_time_depends_on_the_question_is_served_as_well_as_its_mean_allows() -> None:
    load = load_of("pi0", 0.05)

    def unsteady(seed: int) -> Load:
        drawn = np.random.default_rng(seed)
        # Half of all calls take less than 0.6 of the mean, one of twenty more than three times.
        return replace(load, call_seconds=lambda size: load.call_seconds(size) * float(drawn.lognormal(-0.5, 1.0)))

    rates = [
        simulate(unsteady(2), 16, AtLeast(number, 16), np.random.default_rng(1), questions=3000)
        for number in candidates(16, load.most)
    ]
    found = simulate(unsteady(2), 16, Planning(load.most), np.random.default_rng(1), questions=3000)
    assert found.questions_per_second >= 0.85 * max(each.questions_per_second for each in rates)


def test_sizes_that_compile_at_their_first_call_are_not_shunned_for_ever() -> None:
    load, called = load_of("each", 0.1), set[int]()

    def compiled(size: int) -> float:
        is_new = size not in called
        called.add(size)
        return 3.0 if is_new else load.call_seconds(size)

    rule = Planning(load.most)
    simulate(replace(load, call_seconds=compiled), 8, rule, np.random.default_rng(4), questions=1500)
    number = AtLeast(rule.questions, 8)
    rate = simulate(load, 8, number, np.random.default_rng(5), questions=1500).questions_per_second
    # It was half of it: batches waited for seven, as only these were known to be quick.
    assert rate >= 0.95 * best_static(load, 8)


def asked_and_answered(rule: Dispatch, sessions: str, thinking: float, times: int = 60) -> float:
    """Sessions that come back together, time after time; returns when they were answered last."""
    now = 0.0
    rule.took(1, 0.05)
    for _ in range(times):
        for session in sessions:
            rule.asked(session, now)
        rule.until(len(sessions), now)
        now += 0.05
        rule.took(len(sessions), 0.05)
        for session in sessions:
            rule.answered(session, now)
        while rule.plan():
            pass
        now += thinking
    return now - thinking


def test_a_batch_waits_for_those_who_come_together_and_for_nobody_who_is_late_has_ended_or_is_gone() -> None:
    rule = Dispatch(32)
    now = asked_and_answered(rule, "abcd", 0.01)
    assert rule.questions == 4
    now += 0.009
    rule.asked("a", now)
    until = rule.until(1, now)
    assert now < until < now + 0.1, "the others are about to come"
    rule.ended("b", now)
    rule.gone("c", now)
    assert rule.until(1, now) > now, "there is d"
    assert rule.until(1, until) <= until, "who is late"
    rule.ended("d", now)
    assert rule.until(1, now) == now


def test_one_alone_waits_for_nobody() -> None:
    rule = Dispatch(32)
    now = asked_and_answered(rule, "a", 0.01) + 0.01
    rule.asked("a", now)
    assert rule.until(1, now) == now


def test_a_full_batch_goes() -> None:
    rule = Dispatch(4)
    now = asked_and_answered(rule, "abcdefgh", 0.01) + 0.01
    assert rule.until(4, now) == now


def test_what_is_measured_is_the_processors_time_where_more_think_than_there_are_cores() -> None:
    rule = Dispatch(32, cores=2)
    for session in "abcd":
        rule.answered(session, 0.0)
    for session in "abcd":
        # Four on two cores: half of the pace.
        rule.asked(session, 1.0)
    assert next(iter(rule.thinking)) == pytest.approx(0.5)


def test_the_way_to_the_next_episode_is_no_thinking() -> None:
    rule = Dispatch(32)
    for session in "ab":
        rule.answered(session, 0.0)
    rule.ended("a", 0.5)
    rule.asked("b", 1.0)
    rule.asked("a", 4.0)
    assert ([*rule.thinking], [*rule.away]) == ([1.0], [4.0])


@given(workers=st.integers(1, 100), most=st.integers(1, 64), present=st.integers(1, 64))
def test_numbers_that_are_tried_can_be_waited_for(workers: int, most: int, present: int) -> None:
    numbers = candidates(workers, most, present)
    assert numbers == sorted({*numbers})
    assert 1 in numbers
    assert max(numbers) == min(workers, most)


@settings(max_examples=scaled(40))
@given(
    st.lists(
        st.tuples(st.sampled_from(["asked", "answered", "ended", "gone"]), st.integers(0, 5), st.floats(0.0, 2.0)),
        max_size=60,
    ),
    st.integers(1, 8),
)
def test_whatever_happens_it_says_a_moment(events: list[tuple[str, int, float]], waiting: int) -> None:
    rule, now = Dispatch(8, 2), 100.0
    for name, session, passed in events:
        now += passed
        getattr(rule, name)(session, now)
        rule.took(1 + session, passed)
        until = rule.until(waiting, now)
        assert math.isfinite(until)
        rule.plan()


def test_what_is_told_of_thinking_is_all_of_it_and_what_is_waited_for_the_usual() -> None:
    rule, now = Dispatch(32), 0.0
    for turn in range(20):
        rule.answered("a", now)
        now += 10.0 if turn == 10 else 0.1
        rule.asked("a", now)
    assert max(rule.thinking) == pytest.approx(10.0)
    assert max(rule._usual) < 1.0
