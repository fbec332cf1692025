"""Calibration of a confidence: by hand, what always holds, and how often its intervals hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.metrics.calibration import calibration, confidence_at
from pytest_vla.metrics.failure_prediction import Watched


def units(number: int) -> list[tuple[str, int]]:
    return [(f"t{index % 5}", index) for index in range(number)]


def test_by_hand() -> None:
    found = calibration([0.95, 0.95, 0.85, 0.25], [1, 0, 1, 0], units(4), np.random.default_rng(0))
    assert found.episodes == 4
    assert found.brier.value == pytest.approx((0.0025 + 0.9025 + 0.0225 + 0.0625) / 4)
    assert found.base == 0.25
    # Bins of 0.95 (one of two), 0.85 (one of one) and 0.25 (none of one).
    assert found.error == pytest.approx((2 * 0.45 + 0.15 + 0.25) / 4)
    assert [(each.low, each.episodes, each.success.value) for each in found.bins] == [
        (0.2, 1, 0.0),
        (0.8, 1, 1.0),
        (0.9, 2, 0.5),
    ]


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40))
def test_what_always_holds(pairs: list[tuple[float, bool]]) -> None:
    sure, done = zip(*pairs, strict=True)
    found = calibration(sure, done, units(len(pairs)), np.random.default_rng(0))
    assert 0 <= found.error <= 1
    # Brier's score is at least the square of the error (Jensen).
    assert found.brier.value >= found.error**2 - 1e-12
    assert sum(each.episodes for each in found.bins) == len(pairs)
    assert 0 <= found.error_by_chance <= 1
    assert abs(found.gap.value) <= found.error + 1e-12
    again = calibration(sure, done, units(len(pairs)), np.random.default_rng(0))
    assert again == found


def test_a_calibrated_forecast_is_told_from_a_vain_one() -> None:
    rng = np.random.default_rng(1)
    sure = rng.random(4000)
    honest = calibration(sure, rng.random(4000) < sure, units(4000), rng)
    vain = calibration(0.5 + sure / 2, rng.random(4000) < sure, units(4000), rng)
    assert honest.error < 0.05 < 0.2 < vain.error
    assert honest.brier.value < honest.base < vain.brier.value
    assert honest.error < honest.error_by_chance < 0.05
    assert vain.error > vain.error_by_chance
    assert vain.gap.interval is not None
    assert 0.2 < vain.gap.interval[0] < 0.25 < vain.gap.interval[1]


def test_of_a_calibrated_policy_the_error_is_beyond_chance_as_seldom_as_said() -> None:
    rng, beyond = np.random.default_rng(3), 0
    for _ in range(200):
        sure = rng.beta(4, 5, size=60)
        found = calibration(sure, rng.random(60) < sure, units(60), rng)
        beyond += found.error > found.error_by_chance
    assert beyond / 200 <= 0.1


def test_variations_of_one_seed_are_no_further_observations() -> None:
    """A calibrated policy, whose four variations of a seed come out alike."""
    rng, beyond = np.random.default_rng(4), 0
    of = [(str(task), seed) for task in range(10) for seed in range(6) for _ in range(4)]
    for _ in range(100):
        sure = np.repeat(rng.beta(4, 4, size=60), 4)
        found = calibration(sure, np.repeat(rng.random(60), 4) < sure, of, rng)
        beyond += found.error > found.error_by_chance
    assert beyond / 100 <= 0.1


def test_intervals_of_briers_score_and_of_the_gap_hold_simulated_truths() -> None:
    """Tasks differ in how hard they are, and the confidence does not know it."""
    rng, held, told = np.random.default_rng(2), 0, 0
    hard = rng.random(10)
    truth = float(np.mean(hard * 0.2**2 + (1 - hard) * 0.8**2))
    for _ in range(200):
        done = (rng.random((10, 8)) < hard[:, None]).ravel()
        of = [(str(task), seed) for task in range(10) for seed in range(8)]
        found = calibration([0.8] * 80, done, of, rng)
        assert found.brier.interval is not None
        assert found.gap.interval is not None
        held += found.brier.interval[0] <= truth <= found.brier.interval[1]
        told += found.gap.interval[0] <= 0.8 - hard.mean() <= found.gap.interval[1]
    assert min(held, told) / 200 >= 0.9


def test_a_moment_looks_at_what_is_still_running() -> None:
    def episode(failed: bool, steps: int, task: int, told: bool = True) -> Watched:
        confidence = np.concatenate([np.full(5, 0.9), np.full(steps - 5, 0.1)])
        return Watched(failed, (str(task), 0), 20, {}, confidence if told else None)

    episodes = [episode(True, 20, task) for task in range(3)] + [episode(False, 8, task) for task in range(3, 6)]
    episodes.append(episode(False, 8, 7, told=False))
    ((moment, found),) = confidence_at(episodes, np.random.default_rng(0), (0.25, 0.5))
    assert (moment, found.episodes) == (0.25, 6)
    (only,) = found.bins
    assert only.confidence == pytest.approx(0.9)


def test_bad_input_is_said() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(VlaError, match="from 0 to 1"):
        calibration([1.5], [1], units(1), rng)
    with pytest.raises(VlaError, match="expected"):
        calibration([], [], [], rng)
    with pytest.raises(VlaError, match="expected"):
        calibration([0.5], [1, 0], units(1), rng)
