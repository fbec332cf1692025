"""The arm's pose at the beginning."""

import dataclasses
import math

import mujoco
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla import load_suite
from pytest_vla.errors import RedrawError
from pytest_vla.scene.panda import JOINT_LIMITS, MOUNT, REST_JOINTS, hand_of
from pytest_vla.scene.variation import Variation
from pytest_vla.scene.workspaces import workspace
from pytest_vla.vary.axes.robot import KINDS
from pytest_vla.vary.kind import Draw
from tests.support.arena import arena_task
from tests.support.worlds import tabletop

(joints,) = (kind.make for kind in KINDS)
TASK = load_suite("tabletop").task("turn_on_the_stove")


def draw(level: int, seed: int, time: int = 0) -> Draw:
    return Draw(TASK, f"robot.joints-L{level}", seed, level, time=time)


@given(st.integers(1, 5), st.integers(0, 999))
def test_the_offset_is_as_long_as_the_level_says_and_no_joint_leaves_its_limits(level: int, seed: int) -> None:
    variation = joints(draw(level, seed))
    assert variation.rest_joints is not None
    assert math.dist(variation.rest_joints, REST_JOINTS) == pytest.approx(0.1 * level, abs=1e-6)
    assert all(
        lowest < angle < highest for angle, (lowest, highest) in zip(variation.rest_joints, JOINT_LIMITS, strict=True)
    )
    offset = np.subtract(variation.rest_joints, REST_JOINTS)
    assert offset == pytest.approx(variation.parameters["offset"], abs=2e-8)


def test_it_is_the_robot_s_own_rest_that_is_left() -> None:
    """VLA-Arena's arm on the floor rests elsewhere, with a joint 0.27 rad from its limit."""
    task = arena_task("generalization_unseen_objects", 0, "pick_up_the_cake_and_place_it_in_the_box")
    place = workspace("floor_manipulation", "")
    for seed in range(20):
        pose = joints(Draw(task, "robot.joints-L5", seed, 5)).rest_joints
        assert pose is not None
        assert math.dist(pose, place.rest_joints) == pytest.approx(0.5, abs=1e-6)
        assert all(lowest < angle < highest for angle, (lowest, highest) in zip(pose, JOINT_LIMITS, strict=True))


@given(st.integers(0, 999), st.integers(0, 9))
def test_levels_differ_in_how_far_only(seed: int, time: int) -> None:
    first, *others = (np.array(joints(draw(level, seed, time)).parameters["offset"]) for level in range(1, 6))
    for level, other in enumerate(others, 2):
        assert other == pytest.approx(level * first, abs=1e-7)


def test_a_draw_repeats_and_another_time_gives_another() -> None:
    first = joints(draw(3, 1))
    assert joints(draw(3, 1)).rest_joints == first.rest_joints
    assert first.redraw is not None
    assert first.redraw(1).rest_joints == joints(draw(3, 1, time=1)).rest_joints != first.rest_joints


def test_the_facts_of_the_arm_are_the_compiled_models() -> None:
    from pytest_vla.sim import arm

    assert tuple(arm.REST_JOINTS) == REST_JOINTS
    model = tabletop(TASK.name).model
    limits = [model.joint(f"robot0_joint{number}").range.tolist() for number in range(1, 8)]
    assert limits == [list(pair) for pair in JOINT_LIMITS]


def test_the_state_begins_there_and_nothing_else_of_it_changes() -> None:
    world = tabletop(TASK.name)
    world.reset(0, settle=False)
    state = np.array(world.init_states[0])
    variation = clear(1, 0)
    variation.state[0](world.model, world.scene, state)
    assert tuple(state[1:8]) == variation.rest_joints
    assert (state[8:] == world.init_states[0][8:]).all()


def test_a_pose_in_an_object_is_drawn_anew() -> None:
    world = tabletop(TASK.name)
    world.reset(0, settle=False)
    state = np.array(world.init_states[0])
    address = 1 + world.model.joint(world.scene.body("bottle_1").joints[-1]).qposadr[0]
    state[address : address + 3] = world.data.site("gripper0_grip_site").xpos
    with pytest.raises(RedrawError, match="begin in bottle_1"):
        clear(1, 0).state[0](world.model, world.scene, state)


def placed(variation: Variation) -> str:
    """Why the variation cannot begin from the task's first state; empty: it can."""
    world = tabletop(TASK.name)
    world.reset(0, settle=False)
    try:
        variation.state[0](world.model, world.scene, np.array(world.init_states[0]))
    except RedrawError as error:
        return str(error)
    return ""


def clear(level: int, seed: int) -> Variation:
    """As it is drawn in the end."""
    draws = (joints(draw(level, seed, time)) for time in range(10))
    return next(variation for variation in draws if not placed(variation))


def test_the_hand_is_in_the_picture_at_every_level_and_moves_evenly() -> None:
    moved = []
    world = tabletop(TASK.name)
    for seed in range(6):
        rows = []
        for variation in [None, *(clear(level, seed) for level in range(1, 6))]:
            assert world.switch(TASK, variation)
            world.reset(0, settle=False)
            rows.append(world.data.site("gripper0_grip_site").xpos.copy())
            picture = world.segmentation("agentview")
            hand = [i for i in range(world.model.nbody) if world.model.body(i).name.startswith("gripper0")]
            assert np.isin(picture, hand).sum() > 500
        moved.append([np.linalg.norm(row - rows[0]) for row in rows[1:]])
    steps = np.diff(np.mean(moved, axis=0), prepend=0.0)
    assert steps == pytest.approx(np.full(5, steps.mean()), rel=0.1)
    assert 0.05 < np.mean(moved, axis=0)[4] < 0.2


def test_a_direction_is_every_level_s_or_none_s() -> None:
    """So that an episode's levels differ in how far only, however often they are drawn."""
    whys = []
    for time in range(10):
        why = {placed(joints(draw(level, 0, time))).partition(": ")[2] for level in range(1, 6)}
        assert len(why) == 1
        whys += why
    assert "" in whys
    assert any("begin in" in why for why in whys)


@given(st.lists(st.floats(-1, 1), min_size=7, max_size=7))
def test_where_the_hand_is_follows_from_the_joints_as_in_the_compiled_model(offsets: list[float]) -> None:
    world = tabletop(TASK.name)
    pose = np.add(REST_JOINTS, offsets)
    data = mujoco.MjData(world.model)
    data.qpos[:7] = pose
    mujoco.mj_kinematics(world.model, data)
    base = data.body("robot0_base").xpos
    hand, grip = hand_of(pose.tolist())
    assert data.body("robot0_right_hand").xpos - base == pytest.approx(np.array(hand), abs=1e-6)
    assert data.site("gripper0_grip_site").xpos - base == pytest.approx(np.array(grip), abs=1e-6)
    assert base == pytest.approx(np.array([-0.66, 0.0, MOUNT]), abs=1e-6)


def test_without_the_task_s_file_any_direction_is_one() -> None:
    """It can be collected without data, and not run."""
    bare = dataclasses.replace(TASK, name="no_such_task")
    assert joints(Draw(bare, "robot.joints-L3", 0, 3)).rest_joints is not None


def test_the_kind_is_graded() -> None:
    assert KINDS[0].labels((1, 5)) == ("robot.joints-L1", "robot.joints-L5")
