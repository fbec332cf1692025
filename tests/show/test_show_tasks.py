"""Recorded states are shown as they were, without physics."""

from typing import Any

import mujoco
import numpy as np
import pytest

from pytest_vla import VlaError, World
from pytest_vla.sim.cameras import Cameras
from tests.support.worlds import world_of


@pytest.fixture
def world() -> World:
    return world_of("libero_goal", "turn_on_the_stove")


def _run(world: World, actions: np.ndarray) -> np.ndarray:
    rows = []
    for action in actions:
        world.step(action)
        rows.append(np.concatenate([world.data.qpos, world.data.qvel]))
    return np.array(rows)


def _actions(steps: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (steps, 7))


@pytest.mark.slow
def test_a_recorded_state_is_shown_as_it_was(world: World) -> None:
    """Bit for bit the picture of that state by MuJoCo's whole forward pass, and nearly the one that a policy saw."""
    observation = world.reset(init_state=2, scene_seed=5)
    seen, states = [], []
    for action in _actions(12, seed=2):
        observation = world.step(action)
        seen.append(observation["agentview_image"].astype(int))
        states.append(world.data.qpos.copy())
    world.reset(init_state=2, scene_seed=5, settle=False)
    shown = [world.show(state)["agentview_image"].astype(int) for state in states]
    # A policy sees a substep or two before the step's end: much less than a step.
    for step in range(1, len(seen)):
        assert np.abs(shown[step] - seen[step]).mean() < 0.5 * np.abs(shown[step] - shown[step - 1]).mean()
    data = mujoco.MjData(world.model)
    cameras = Cameras(world.model, 256, 256)
    try:
        for state, picture in zip(states, shown, strict=True):
            data.qpos[:] = state
            mujoco.mj_forward(world.model, data)
            assert np.array_equal(cameras.picture(data, "agentview"), picture)
    finally:
        cameras.close()


def test_showing_touches_nothing_and_needs_a_reset_after_it(world: World) -> None:
    actions = _actions(10, seed=6)
    world.reset(init_state=1, scene_seed=1)
    expected = _run(world, actions)
    observation = world.step(actions[0])
    data, alphas, verdicts = world.data.qpos.copy(), world.model.site_rgba.copy(), world.predicates()
    state = world.init_states[7][1 : 1 + world.model.nq].copy()
    state[world.model.joint("flat_stove_1_button").qposadr[0]] = 1.0
    shown = world.show(state)
    assert shown["agentview_image"].shape == (256, 256, 3)
    assert np.array_equal(shown["robot0_joint_pos"], state[:7])
    assert (world.steps, world.predicates()) == (11, verdicts)
    assert np.array_equal(world.data.qpos, data)
    assert np.array_equal(world.model.site_rgba, alphas)
    with pytest.raises(VlaError, match="before the world moved on"):
        observation["agentview_image"]
    for use in (lambda: world.step(np.zeros(7)), world.save):
        with pytest.raises(VlaError, match="reset the world"):
            use()
    world.reset(init_state=1, scene_seed=1)
    assert np.array_equal(_run(world, actions), expected)


def test_a_shown_stove_glows_while_its_knob_is_on(world: World) -> None:
    off = world.init_states[0].copy()
    on = off.copy()
    on[1 + world.model.joint("flat_stove_1_button").qposadr[0]] = 1.0
    for state in (off, on, off):
        expected = world.reset(init_state=state, settle=False)["agentview_image"]
        world.reset(init_state=0, settle=False)
        assert np.array_equal(world.show(state[1 : 1 + world.model.nq])["agentview_image"], expected)


def test_shown_fixtures_stand_where_the_last_reset_put_them(world: World) -> None:
    state = world.init_states[0][1 : 1 + world.model.nq]
    pictures = []
    for seed in (1, 2, 1):
        world.reset(init_state=4, scene_seed=seed, settle=False)
        pictures.append(world.show(state)["agentview_image"])
    assert np.array_equal(pictures[0], pictures[2])
    assert not np.array_equal(pictures[0], pictures[1])


@pytest.mark.parametrize("wrong", [np.zeros(5), np.zeros((2, 2)), None, "x", 1.0, np.full(41, np.nan)])
def test_only_a_state_of_the_scene_can_be_shown(world: World, wrong: Any) -> None:
    assert world.model.nq == 41
    with pytest.raises(VlaError, match="a recorded state is qpos of 41 finite numbers, got"):
        world.show(wrong)
