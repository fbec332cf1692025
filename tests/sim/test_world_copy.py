"""A rehearsal goes as the world would go, bit for bit, and leaves the world alone."""

import mujoco
import numpy as np
from numpy.typing import NDArray

from pytest_vla.scene.panda import REST_JOINTS
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.world import World
from pytest_vla.sim.world_state import WorldCopy
from tests.support.worlds import tabletop

ACTIONS = np.random.default_rng(7).uniform(-1, 1, (30, 7))


def stand(data: mujoco.MjData) -> NDArray[np.float64]:
    return np.concatenate([[data.time], data.qpos, data.qvel, data.qacc_warmstart, data.ctrl])


def after(world: World, count: int) -> World:
    world.reset(3, scene_seed=3)
    for action in ACTIONS[:count]:
        world.step(action)
    return world


def test_a_rehearsal_is_bitwise_what_the_world_then_does() -> None:
    world = after(tabletop("turn_on_the_stove"), 5)
    rehearsal = WorldCopy(world)
    for action in ACTIONS[5:]:
        assert rehearsal.step(action)
    rehearsed = stand(rehearsal.data)
    for action in ACTIONS[5:]:
        world.step(action)
    assert np.array_equal(stand(world.data), rehearsed)
    assert rehearsal.predicates() == world.predicates()


def test_a_rehearsal_begins_with_the_stale_first_substep_of_a_fresh_reset() -> None:
    world = tabletop("turn_on_the_stove")
    world.reset(0, settle=False)
    rehearsal = WorldCopy(world)
    rehearsal.step(ACTIONS[0])
    world.step(ACTIONS[0])
    assert np.array_equal(stand(world.data), stand(rehearsal.data))


def test_a_rehearsal_keeps_to_the_pose_that_the_arm_rests_in() -> None:
    world = tabletop("turn_on_the_stove")
    elsewhere = tuple(rest + 0.1 for rest in REST_JOINTS)
    assert world.switch(world.task, Variation("arm", "robot", "elsewhere", rest_joints=elsewhere))
    world.reset(settle=False)
    rehearsal = WorldCopy(world)
    for _ in range(2):
        for action in ACTIONS[:3]:
            assert rehearsal.step(action)
            world.step(action)
        assert np.array_equal(stand(world.data), stand(rehearsal.data))
        assert world.switch(world.task)
        world.reset(settle=False)
        rehearsal.begin()


def test_the_world_stays_as_it_is() -> None:
    world = after(tabletop("turn_on_the_stove"), 5)
    before, poses = stand(world.data), world.model.body_pos.copy()
    rehearsal = WorldCopy(world)
    for action in ACTIONS:
        rehearsal.step(action)
    assert np.array_equal(stand(world.data), before)
    assert np.array_equal(world.model.body_pos, poses)
    assert world.steps == 5


def test_a_saved_moment_comes_back_with_the_controllers_state() -> None:
    rehearsal = WorldCopy(after(tabletop("turn_on_the_stove"), 5))
    saved = rehearsal.save()
    for action in ACTIONS[:10]:
        rehearsal.step(action)
    first = stand(rehearsal.data)
    rehearsal.restore(saved)
    for action in ACTIONS[:10]:
        rehearsal.step(action)
    assert np.array_equal(stand(rehearsal.data), first)


def test_broken_physics_is_told_and_can_be_left_behind() -> None:
    rehearsal = WorldCopy(after(tabletop("turn_on_the_stove"), 1))
    saved = rehearsal.save()
    rehearsal.data.qvel[:] = np.nan
    assert not rehearsal.step(ACTIONS[0])
    rehearsal.restore(saved)
    assert rehearsal.step(ACTIONS[0])
    assert np.isfinite(rehearsal.data.qpos).all()
