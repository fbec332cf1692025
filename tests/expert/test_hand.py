"""The hand's motions on real physics, and the geometry of its rotations."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.expert.hand import (
    CLOSED,
    OPEN,
    Hand,
    Motion,
    action_towards,
    angle_between,
    facing,
    grip,
    move,
    nearest_turn,
    rotation_vector,
)
from pytest_vla.sim.world import World
from tests.support.worlds import tabletop

DOWN = np.array([0.0, 0.0, -1.0])
directions = st.tuples(*[st.floats(-1, 1)] * 3).map(np.array).filter(lambda v: np.linalg.norm(v) > 0.1)


def run(world: World, motion: Motion, most: int = 100) -> int:
    for steps, action in enumerate(motion):
        assert np.abs(action).max() <= 1.0
        world.step(action)
        assert steps < most
    return steps + 1


def opening(world: World) -> float:
    """Between the fingers, m."""
    return float(world.data.qpos[7] - world.data.qpos[8])


@pytest.fixture
def world() -> World:
    world = tabletop("turn_on_the_stove")
    world.reset(0)
    return world


def test_the_hand_comes_to_a_pose(world: World) -> None:
    hand = Hand(world.model, world.data)
    goal = hand.position + np.array([0.12, -0.1, -0.05])
    rotation = facing(DOWN, np.array([1.0, 0.0, 0.0]))
    run(world, move(hand, goal, nearest_turn(rotation, hand.rotation), OPEN))
    assert np.linalg.norm(hand.position - goal) < 0.015
    assert abs(hand.rotation[0, 0]) > 0.99


def test_the_fingers_close_and_open(world: World) -> None:
    hand = Hand(world.model, world.data)
    run(world, grip(hand, CLOSED, hand.position, hand.rotation))
    assert opening(world) < 0.005
    run(world, grip(hand, OPEN, hand.position, hand.rotation))
    assert opening(world) > 0.02


def test_a_motion_that_gets_no_nearer_ends(world: World) -> None:
    hand = Hand(world.model, world.data)
    beneath_the_table = np.append(hand.position[:2], 0.5)
    run(world, move(hand, beneath_the_table, hand.rotation, OPEN), most=150)
    assert hand.position[2] > 0.85


def test_where_the_hand_is_no_action_moves_it(world: World) -> None:
    hand = Hand(world.model, world.data)
    assert np.allclose(action_towards(hand, hand.position, hand.rotation, OPEN), [0, 0, 0, 0, 0, 0, -1], atol=1e-9)


@given(directions, directions)
def test_facing_gives_a_rotation_whose_last_column_is_the_approach(approach: np.ndarray, fingers: np.ndarray) -> None:
    unit = approach / np.linalg.norm(approach)
    if np.linalg.norm(fingers - unit * (fingers @ unit)) < 0.05:
        return
    rotation = facing(approach, fingers)
    assert np.allclose(rotation.T @ rotation, np.eye(3), atol=1e-9)
    assert np.isclose(np.linalg.det(rotation), 1.0)
    assert np.allclose(rotation[:, 2], unit)


@given(st.floats(-3.1, 3.1))
def test_a_turn_of_the_two_equal_fingers_is_never_more_than_a_quarter(angle: float) -> None:
    current = facing(DOWN, np.array([1.0, 0.0, 0.0]))
    wanted = facing(DOWN, np.array([np.cos(angle), np.sin(angle), 0.0]))
    assert angle_between(nearest_turn(wanted, current), current) <= np.pi / 2 + 1e-6


@given(directions, st.floats(0.01, 3.1))
def test_a_rotation_vector_is_axis_times_angle(axis: np.ndarray, angle: float) -> None:
    import mujoco

    unit = axis / np.linalg.norm(axis)
    quaternion, matrix = np.zeros(4), np.zeros(9)
    mujoco.mju_axisAngle2Quat(quaternion, unit, angle)
    mujoco.mju_quat2Mat(matrix, quaternion)
    assert np.allclose(rotation_vector(matrix.reshape(3, 3)), unit * angle, atol=1e-5)
