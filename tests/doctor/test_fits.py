"""Fits of answers: dimensions that do not move say nothing, and poses are made relative under a shift, too."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pytest_vla.doctor.answers import ask
from pytest_vla.doctor.fits import as_executed, gain_of, mendings, relative, score, skill_of
from pytest_vla.doctor.wirings import composed
from tests.support.knowing import KnowingPolicy, made_windows
from tests.support.miswired import BY_NAME

WINDOWS = made_windows()
ANSWERS = ask(KnowingPolicy(WINDOWS), WINDOWS, composed([]))
WRONG = ask(BY_NAME["gripper-sign"].wrap(KnowingPolicy(WINDOWS)), WINDOWS, composed([]))


def test_explained_variance_and_correlation_by_another_formula() -> None:
    pairs = WRONG.pairs(4)
    answered, shown = np.clip(pairs.answered, -1, 1), pairs.shown
    shares = 1 - np.mean((answered - shown) ** 2, axis=0) / shown.var(axis=0)
    assert np.allclose(as_executed(pairs).by_dimension(), np.maximum(shares, -1))
    wanted = [abs(np.corrcoef(pairs.answered[:, each], shown[:, each])[0, 1]) for each in range(7)]
    assert np.allclose(skill_of(pairs).by_dimension(), wanted)


def test_the_interval_of_a_gain_is_that_of_blocks_drawn_again() -> None:
    right, wrong = ANSWERS.pairs(4), WRONG.pairs(4)
    gain = gain_of(as_executed(right), as_executed(wrong), np.random.default_rng(0))
    generator, draws = np.random.default_rng(1), []
    about = right.shown.mean(axis=0)
    for _ in range(500):
        some = np.concatenate(
            [np.flatnonzero(right.block == each) for each in generator.integers(0, right.blocks, right.blocks)]
        )
        total = ((right.shown[some] - about) ** 2).sum(axis=0)
        means = [
            np.maximum(1 - ((np.clip(each.answered[some], -1, 1) - each.shown[some]) ** 2).sum(axis=0) / total, -1)
            for each in (right, wrong)
        ]
        draws.append(means[0].mean() - means[1].mean())
    assert np.allclose((gain.low, gain.high), np.quantile(draws, [0.025, 0.975]), atol=0.01)


def test_what_does_not_move_is_not_mended() -> None:
    still = [replace(each, actions=each.actions * [1, 1, 1, 0, 0, 0, 1]) for each in WINDOWS]
    pairs = ask(KnowingPolicy(WINDOWS), still, composed([])).pairs(4)
    gains = {
        each.name: score(as_executed(each.apply(pairs)), each.dimensions) for each in mendings(pairs) if each.dimensions
    }
    assert np.isnan(gains["yaw inverted"])


@pytest.mark.parametrize("lag", [-3, -1, 0, 2])
def test_poses_become_relative_under_a_shift(lag: int) -> None:
    poses = ask(BY_NAME["absolute"].wrap(KnowingPolicy(WINDOWS)), WINDOWS, composed([]))
    found, wanted = relative(poses.pairs(4, lag)), ANSWERS.pairs(4, lag).answered
    # Where poses before are left out, it is their mean.
    assert np.abs(found - wanted).max() < (0.5 if lag < 0 else 1e-6)
    assert (np.abs(found - wanted).max(axis=1) > 1e-6).sum() <= len(WINDOWS) * (lag < 0)


def test_noise_is_no_other_scale() -> None:
    """Least squares makes answers with noise smaller. That mends nothing; twice the scale is found under it."""
    pairs = ANSWERS.pairs(4)
    noise = np.random.default_rng(0).normal(0, 0.3, pairs.answered.shape) * [1, 1, 1, 1, 1, 1, 0]

    def gained(answered: Any, code: str) -> float:
        some = pairs.with_answers(answered)
        found = [each for each in mendings(some) if each.code == code]
        return max(0.0, *(score(as_executed(each.apply(some))) - score(as_executed(some)) for each in found))

    assert gained(pairs.answered + noise, "VLA-D043") == 0
    assert gained(pairs.answered + noise, "VLA-D044") < 0.02
    assert gained(2 * pairs.answered + noise, "VLA-D044") > 0.3
    assert gained(2 * pairs.answered, "VLA-D043") > 0.3


def test_a_scale_under_noise_is_between_both_regressions_and_nearer_the_true_one_than_least_squares() -> None:
    pairs = ANSWERS.pairs(4)
    noise = np.random.default_rng(0).normal(0, 0.25, pairs.answered.shape) * [1, 1, 1, 1, 1, 1, 0]
    (found,) = (
        each
        for each in mendings(pairs.with_answers((pairs.shown + noise) / 20))
        if "least_factor" in each.numbers and len(each.dimensions) == 6
    )
    least, most, factor = (found.numbers[name] for name in ("least_factor", "most_factor", "factor"))
    assert least < factor < most
    assert abs(factor - 20) < abs(least - 20)


def test_metres_and_radians_are_the_controllers_scale() -> None:
    """Of two factors none of which is fitted; least squares of each dimension would gain as much."""
    pairs = ANSWERS.pairs(4)
    metres = pairs.with_answers(pairs.answered * [*[0.05] * 3, *[0.5] * 3, 1])
    (found,) = (each for each in mendings(metres) if "from metres" in each.name)
    assert np.allclose(found.apply(metres).answered, pairs.answered)
    assert (found.code, found.cost) == ("VLA-D043", 0)
