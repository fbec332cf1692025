"""Ways around boxes: free where there is a free way, short, within reach, and always the same."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.expert.routes import KeepOutBoxes, Reach, cost, crosses, find_way, joined, sampled
from tests.support.examples import scaled

REACH = Reach(np.array([0.0, 0.0, 1.0]), length=3.0, nearest=0.0)
START, END = np.array([-0.3, 0.0, 1.0]), np.array([0.3, 0.0, 1.0])


def boxes(*parts: tuple[tuple[float, ...], tuple[float, ...]], weight: float = 20.0) -> KeepOutBoxes:
    low, high = (np.array([part[side] for part in parts]).reshape(-1, 3) for side in (0, 1))
    return KeepOutBoxes(low, high, np.full(len(parts), weight))


def length(way: np.ndarray) -> float:
    return float(np.linalg.norm(np.diff(way, axis=0), axis=1).sum())


def test_where_nothing_stands_the_way_is_straight() -> None:
    assert find_way(START, END, boxes(), REACH).tolist() == [START.tolist(), END.tolist()]


def test_over_what_is_low_it_goes_up_across_and_down() -> None:
    wall = boxes(((-0.02, -1.0, 0.5), (0.02, 1.0, 1.1)))
    way = find_way(START, END, wall, REACH)
    assert not crosses(way, wall)
    assert way[:, 2].max() <= 1.1 + 0.04, "no higher than it has to"
    assert np.allclose(way[:, 1], 0.0)


def test_around_what_is_high_it_goes_beside() -> None:
    pillar = boxes(((-0.05, -0.08, 0.5), (0.05, 0.06, 2.5)))
    way = find_way(START, END, pillar, REACH)
    assert not crosses(way, pillar)
    assert length(way) < 0.75, "a short way, not the grid's stairs"
    assert way[1:-1, 1].min() > 0, "on the side that is nearer"


def test_where_no_way_is_free_it_takes_the_one_that_is_in_the_way_least() -> None:
    wall = boxes(((-0.05, -9.0, -9.0), (0.05, 9.0, 9.0)))
    heavy = boxes(((-0.05, -0.2, -9.0), (0.05, 9.0, 9.0)), weight=60.0)
    way = find_way(START, END, joined([wall, heavy]), REACH)
    assert np.array_equal(way[0], START)
    assert np.array_equal(way[-1], END)
    within = heavy.at(sampled(way)[0])
    assert not within.any(), "through what weighs less"


def test_it_does_not_leave_the_arms_reach_to_go_over_something() -> None:
    reach = Reach(np.array([0.0, 0.0, 1.0]), wrist=0.2, length=0.6, nearest=0.0)
    wall = boxes(((-0.02, -0.1, 0.5), (0.02, 0.1, 1.5)))
    way = find_way(START, END, wall, reach)
    assert not crosses(way, wall)
    assert not reach.beyond(sampled(way)[0]).any()


NUMBERS = st.floats(-0.25, 0.25)


@settings(max_examples=scaled(25))
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, st.floats(0.02, 0.1), st.floats(0.02, 0.1), st.floats(0.9, 1.4)), max_size=5)
)
def test_a_way_is_never_worse_than_any_it_starts_from_and_repeats(stands: list[tuple[float, ...]]) -> None:
    free = [each for each in stands if abs(each[0]) + each[2] < 0.29]
    around = boxes(*(((x - a, y - b, 0.5), (x + a, y + b, top)) for x, y, a, b, top in free))
    way = find_way(START, END, around, REACH)
    assert np.array_equal(way, find_way(START, END, around, REACH))
    assert cost(way, around, REACH) <= cost(np.array([START, END]), around, REACH) + 1e-9
    assert not crosses(way, around), "one over all of it is within reach"
