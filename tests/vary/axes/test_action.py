"""Late and noisy actions."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla import load_suite
from pytest_vla.scene.variation import Variation
from pytest_vla.testing import PointWorld
from pytest_vla.vary.axes.action import KINDS
from pytest_vla.vary.kind import Draw

delay, noise, latency = (kind.make for kind in KINDS)
TASK = load_suite("tabletop").task("turn_on_the_stove")
LEVELS = st.integers(1, 5)
ACTIONS = st.lists(st.lists(st.floats(-1, 1), min_size=7, max_size=7), min_size=1, max_size=12)


def draw(level: int, seed: int = 3) -> Draw:
    return Draw(TASK, f"action.x-L{level}", seed, level)


def executed(variation: Variation, actions: list[list[float]]) -> np.ndarray:
    (begin,) = variation.actions
    change = begin()
    return np.array([change(np.array(action)) for action in actions])


@given(LEVELS, ACTIONS)
def test_actions_come_as_many_steps_late_as_the_level_says(level: int, actions: list[list[float]]) -> None:
    first = [list(TASK.protocol.settle_action)] * level
    assert executed(delay(draw(level)), actions).tolist() == [*first, *actions][: len(actions)]


def test_a_delay_is_told_in_milliseconds_too() -> None:
    assert [delay(draw(level)).parameters["milliseconds"] for level in (1, 5)] == [50, 250]


@given(LEVELS, ACTIONS, st.integers(0, 9))
def test_noise_stays_in_range_and_leaves_the_gripper(level: int, actions: list[list[float]], seed: int) -> None:
    given_ = np.array(actions)
    got = executed(noise(draw(level, seed)), actions)
    assert (np.abs(got) <= 1).all()
    assert (got[:, 6] == given_[:, 6]).all()
    assert (got[:, :6] != given_[:, :6]).any()


@pytest.mark.parametrize("level", range(1, 6))
def test_noise_grows_evenly_with_the_level(level: int) -> None:
    got = executed(noise(draw(level)), [[0.0] * 7] * 2000)
    assert got[:, :6].std() == pytest.approx(0.05 * level, rel=0.05)
    assert abs(got[:, :6].mean()) < 0.01


@given(LEVELS, st.integers(0, 9))
def test_levels_of_noise_differ_in_how_much_only(level: int, seed: int) -> None:
    actions = [[0.0] * 7] * 20
    lowest, got = executed(noise(draw(1, seed)), actions), executed(noise(draw(level, seed)), actions)
    assert got == pytest.approx(np.clip(level * lowest, -1, 1))


def test_each_episode_of_a_draw_has_the_same_noise_and_another_seed_has_another() -> None:
    actions = [[0.0] * 7] * 5
    variation = noise(draw(2))
    assert (executed(variation, actions) == executed(variation, actions)).all()
    assert (executed(variation, actions) != executed(noise(draw(2, seed=4)), actions)).any()


@pytest.mark.parametrize("make", [delay, noise])
def test_the_policys_own_array_is_not_written_in(make) -> None:  # type: ignore[no-untyped-def]
    action = np.full(7, 0.5)
    change = make(draw(1)).actions[0]()
    change(action)[:] = 9
    change(action)
    assert (action == 0.5).all()


def test_every_level_says_what_it_is() -> None:
    for kind in KINDS:
        variation = kind.make(Draw(TASK, kind.labels()[2], 0, 3))
        assert (variation.dimension, f"{variation.dimension}.{variation.kind}") == ("action", kind.name)
        assert variation.level == 3
        assert variation.changes_world


def test_of_unscaled_actions_noise_is_a_share_of_the_range_and_a_delay_begins_with_the_first() -> None:
    bounds = ((0.0, 512.0), (-1.0, 3.0))
    task = replace(TASK, world=PointWorld, protocol=replace(
        TASK.protocol, out_of_range="unscaled", action_size=2, action_bounds=bounds
    ))  # fmt: skip
    got = executed(noise(replace(draw(2), task=task)), [[500.0, 0.0]] * 2000)
    assert got.std(axis=0) == pytest.approx([0.1 * 256, 0.1 * 2], rel=0.1)
    assert got.max() > 512
    late = executed(delay(replace(draw(2), task=task)), [[7.0, 1.0], [8.0, 2.0], [9.0, 3.0], [10.0, 4.0]])
    assert late.tolist() == [[7, 1], [7, 1], [7, 1], [8, 2]]
