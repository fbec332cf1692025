"""When to go: past what moves, as its motion says where it will be."""

import itertools

import numpy as np
import pytest

from pytest_vla.expert.routes import HORIZON, Passing, step_by_step

SMALL = [(np.full(3, -0.02), np.full(3, 0.02))]
WAY = np.array([[0.0, -0.3, 1.0], [0.0, 0.3, 1.0]])


def cart(speed: float, start: float) -> Passing:
    """A box of 10 cm that goes along x, m a step, for ever."""
    middle = np.zeros((HORIZON, 1, 3))
    middle[:, 0, 0], middle[:, 0, 2] = start + speed * np.arange(HORIZON), 1.0
    return Passing(middle - 0.05, middle + 0.05)


def meets(passing: Passing, points: np.ndarray, delay: int) -> bool:
    """Whether the small box meets the cart, step by step, after a wait at the first point."""
    places = np.concatenate([np.repeat(points[:1], delay, axis=0), points])
    return any(
        bool(((place + 0.02 > low[0]) & (place - 0.02 < high[0])).all())
        for place, low, high in zip(places, passing.low, passing.high, strict=False)
    )


def test_nothing_in_the_way_is_no_reason_to_wait() -> None:
    assert cart(0.01, 2.0).delay(step_by_step(WAY), SMALL, 0.03) == 0


@pytest.mark.parametrize("start", [-0.3, -0.5, -0.2])
def test_it_waits_until_what_comes_has_passed(start: float) -> None:
    passing, points = cart(0.01, start), step_by_step(WAY)
    delay = passing.delay(points, SMALL, 0.03)
    assert not meets(passing, points, delay)
    for shift in range(max(-3, -delay), 4):
        assert not meets(passing, points, delay + shift), "nor some steps earlier or later than foreseen"


def test_it_does_not_wait_where_what_comes_comes_to_it() -> None:
    passing, points = cart(0.01, -0.6), step_by_step(WAY - WAY[0] + np.array([0.0, 0.0, 1.0]))
    assert meets(passing, points, 60), "who stays is run over"
    assert not meets(passing, points, passing.delay(points, SMALL, 0.03))


def test_steps_follow_the_way_at_the_hands_speed() -> None:
    fast, slow = step_by_step(WAY), step_by_step(WAY, 0.5, stay=10)
    assert len(slow) > 1.7 * len(fast)
    assert np.allclose(fast[0], WAY[0])
    assert np.allclose(slow[-10:], WAY[-1])
    strides = [np.linalg.norm(after - before) for before, after in itertools.pairwise(fast)]
    assert max(strides) <= 0.0121
