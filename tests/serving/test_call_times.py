"""The table of what calls take: what was measured is what it says, between and beyond it is drawn straight."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.serving.batch_former import CallTimes, call_times_of

TABLE = {1: 61.0, 2: 59.0, 4: 59.0, 8: 76.0, 16: 126.0, 32: 238.0}


def test_what_was_never_measured_takes_nothing() -> None:
    assert CallTimes().seconds(4) == 0.0


def test_sizes_that_were_measured_are_what_they_took() -> None:
    times = call_times_of({size: (10, took) for size, took in TABLE.items()})
    assert {size: times.seconds(size) for size in TABLE} == TABLE
    assert times.seconds(12) == pytest.approx((76 + 126) / 2)


def test_beyond_what_was_measured_it_goes_on_as_steep_as_the_whole_is() -> None:
    assert call_times_of({2: (5, 14.0), 4: (5, 18.0)}).seconds(8) == pytest.approx(26.0)
    # A device that takes as long for more: it is worth a try.
    assert call_times_of({1: (5, 50.0), 2: (5, 50.0)}).seconds(32) == pytest.approx(50.0)
    assert call_times_of({4: (5, 20.0), 8: (5, 40.0)}).seconds(1) == pytest.approx(5.0)


def test_one_call_that_was_held_up_does_not_count_and_two_do() -> None:
    times = CallTimes()
    for _ in range(5):
        times.took(4, 1.0)
    times.took(8, 60.0)
    assert times.seconds(8) == pytest.approx(1.0)
    for _ in range(30):
        times.took(8, 5.0)
    assert times.seconds(8) == pytest.approx(5.0)


@pytest.mark.parametrize("first", [1, 8])
def test_first_calls_that_compile_do_not_count_once_another_call_shows_it(first: int) -> None:
    times = CallTimes()
    times.took(first, 20.0)
    # Each size once, as a run's first questions come, and a large one again.
    for size in (2, 3, 4, 6):
        times.took(size, 3.0)
    for _ in range(2):
        times.took(7, 0.7)
    assert [times.seconds(size) for size in (2, 4, 7)] == pytest.approx([0.2, 0.4, 0.7])
    counted = call_times_of({1: (1, 20.0), 2: (1, 3.0), 4: (40, 0.5), 8: (9, 0.9)})
    assert [counted.seconds(size) for size in (4, 6)] == pytest.approx([0.5, 0.7])
    assert counted.seconds(1) < 0.5


def test_every_size_may_be_held_up_once() -> None:
    times = CallTimes()
    for size in (1, 2, 4):
        for _ in range(5):
            times.took(size, 1.0)
    for size in (1, 2, 4):
        times.took(size, 60.0)
    assert [times.seconds(size) for size in (1, 2, 4)] == [1.0, 1.0, 1.0]


def test_what_has_changed_is_soon_known_and_what_is_old_is_forgotten() -> None:
    times = CallTimes()
    for _ in range(50):
        times.took(1, 1.0)
    times.took(2, 1.5)
    for _ in range(600):
        times.took(1, 2.0)
    assert times.seconds(1) == pytest.approx(2.0, rel=0.05)
    assert times.seconds(2) == pytest.approx(times.seconds(1)), "measured once, long ago"


@given(st.lists(st.tuples(st.integers(1, 32), st.floats(1e-6, 1e3)), min_size=1, max_size=50), st.integers(1, 64))
def test_any_size_takes_some_time_and_no_less_than_nothing(calls: list[tuple[int, float]], size: int) -> None:
    times = CallTimes()
    for number, took in calls:
        times.took(number, took)
    assert times.seconds(size) >= 0.0
