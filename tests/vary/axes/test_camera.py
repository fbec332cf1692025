"""Variations of the front camera: each level a fifth more than the one before, about the point that it looks at."""

import dataclasses
import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.scene.scene import FRONT_CAMERA
from pytest_vla.scene.variation import Variation
from pytest_vla.scene.workspaces import WORKSPACES, Camera
from pytest_vla.util.rotations import (
    VERTICAL,
    angle_between,
    axis_angle,
    farther,
    look_at,
    product,
    raised,
    reoriented,
    rotated,
    turned,
    view_direction,
)
from pytest_vla.vary.axes import camera
from pytest_vla.vary.kind import Draw
from tests.support.worlds import tabletop_world

Array = npt.NDArray[np.float64]

TASK = load_suite("tabletop").tasks[0]
KINDS = {kind.name.partition(".")[2]: kind for kind in camera.KINDS if kind.levels}
LEVELS = camera.LEVELS
PLACES = [place for place in WORKSPACES.values() if place.problem != "libero_coffee_table_manipulation"]
FRONT = {place.problem: next(c for c in place.cameras if c.name == FRONT_CAMERA) for place in PLACES}

poses = st.sampled_from(PLACES).map(lambda place: (FRONT[place.problem], place.offset[2]))
angles = st.floats(-math.pi / 2, math.pi / 2)
vectors = st.tuples(*[st.floats(-1, 1)] * 3).filter(lambda vector: math.hypot(*vector) > 0.1)


def drawn(name: str, level: int, seed: int = 0, time: int = 0) -> Variation:
    kind = KINDS[name]
    return kind.make(Draw(TASK, f"{kind.name}-L{level}", seed, level, time=time))


def pose_of(variation: Variation | None) -> tuple[Array, Array, float]:
    """Position, quaternion and field of view of the front camera in an episode of a variation."""
    world = tabletop_world()
    assert world.switch(TASK, variation)
    world.reset(settle=False)
    number = world.model.camera(FRONT_CAMERA).id
    model = world.model
    return model.cam_pos[number].copy(), model.cam_quat[number].copy(), float(model.cam_fovy[number])


def measured(name: str, variation: Variation) -> float:
    """How far the camera's pose is from the benign one, in the kind's own unit."""
    (before, facing, fovy), (after, turned_to, wider) = pose_of(None), pose_of(variation)
    point = look_at(before, facing, 0.9)
    if name == "distance":
        return float(np.linalg.norm(after - point) / np.linalg.norm(before - point)) - 1
    if name == "azimuth":
        first, second = (math.atan2(*(position - point)[[1, 0]]) for position in (before, after))
        return abs(math.degrees(second - first))
    if name == "elevation":
        first, second = (math.asin((p - point)[2] / np.linalg.norm(p - point)) for p in (before, after))
        return math.degrees(second - first)
    if name == "orientation":
        return math.degrees(angle_between(facing, turned_to))
    return (wider / fovy - 1) * (-1 if name == "narrower" else 1)


@given(vectors, angles, vectors)
def test_a_rotation_keeps_lengths_and_its_axis(axis: Array, angle: float, vector: Array) -> None:
    rotation = axis_angle(axis, angle)
    assert np.linalg.norm(rotation) == pytest.approx(1)
    assert np.linalg.norm(rotated(rotation, vector)) == pytest.approx(np.linalg.norm(vector))
    assert rotated(rotation, axis) == pytest.approx(np.array(axis), abs=1e-12)
    assert rotated(product(rotation, axis_angle(axis, -angle)), vector) == pytest.approx(np.array(vector), abs=1e-12)


def test_rotations_are_about_the_axis_by_the_right_hand() -> None:
    quarter = axis_angle([0, 0, 2], math.pi / 2)
    assert rotated(quarter, [1, 0, 0]) == pytest.approx([0, 1, 0], abs=1e-12)
    # First about z, then about x.
    both = product(axis_angle([1, 0, 0], math.pi / 2), quarter)
    assert rotated(both, [1, 0, 0]) == pytest.approx([0, 0, 1], abs=1e-12)


@given(poses)
def test_the_look_at_point_lies_on_the_workspace_and_on_the_optical_axis(pose: tuple[Camera, float]) -> None:
    front, height = pose
    point = look_at(front.position, front.quaternion, height)
    assert point[2] == pytest.approx(height)
    way = (point - front.position) / np.linalg.norm(point - front.position)
    assert way == pytest.approx(view_direction(front.quaternion), abs=1e-9)
    assert -0.6 < point[0] < 0.2
    assert abs(point[1]) < 1e-5


@given(poses, st.floats(1, 2), angles)
def test_moved_cameras_look_at_the_same_point_from_the_stated_distance(
    pose: tuple[Camera, float], factor: float, angle: float
) -> None:
    front, height = pose
    point = look_at(front.position, front.quaternion, height)
    away = np.linalg.norm(front.position - point)
    moved = farther(front.position, point, factor)
    assert look_at(moved, front.quaternion, height) == pytest.approx(point)
    assert np.linalg.norm(moved - point) == pytest.approx(factor * away)
    position, quaternion = turned(front.position, front.quaternion, point, VERTICAL, angle)
    assert look_at(position, quaternion, height) == pytest.approx(point)
    assert np.linalg.norm(position - point) == pytest.approx(away)
    assert position[2] == pytest.approx(front.position[2])
    assert np.linalg.norm(quaternion) == pytest.approx(1)


@given(poses, st.floats(0, math.radians(camera.MOST_ELEVATION)))
def test_a_raised_camera_is_higher_by_the_angle_and_level(pose: tuple[Camera, float], angle: float) -> None:
    front, height = pose
    point = look_at(front.position, front.quaternion, height)
    position, quaternion = raised(front.position, front.quaternion, point, angle)
    away = np.linalg.norm(front.position - point)
    before, after = (math.asin((each - point)[2] / away) for each in (np.array(front.position), position))
    assert after - before == pytest.approx(angle, abs=1e-7)
    assert look_at(position, quaternion, height) == pytest.approx(point)
    # Its x axis stays horizontal: no roll.
    assert rotated(quaternion, [1, 0, 0])[2] == pytest.approx(0, abs=1e-5)


def test_a_camera_that_looks_straight_down_is_raised_over_the_top() -> None:
    position, quaternion = raised([0.0, 0.6, 0.8], [1.0, 0.0, 0.0, 0.0], [0.0, 0.6, 0.0], math.radians(30))
    assert position == pytest.approx([0.0, 0.6 + 0.4, 0.8 * math.cos(math.radians(30))])
    assert look_at(position, quaternion, 0.0) == pytest.approx([0.0, 0.6, 0.0])


@given(poses, vectors, st.floats(0.001, 1))
def test_a_reoriented_camera_is_turned_by_the_stated_angle(
    pose: tuple[Camera, float], axis: Array, angle: float
) -> None:
    front, _ = pose
    after = reoriented(front.quaternion, axis, angle)
    assert angle_between(front.quaternion, after) == pytest.approx(angle, abs=1e-7)
    assert np.linalg.norm(after) == pytest.approx(1)


def test_roll_leaves_the_view_direction_and_pitch_and_yaw_do_not() -> None:
    facing = FRONT["tabletop"].quaternion
    before = view_direction(facing)
    assert view_direction(reoriented(facing, [0, 0, 1], 0.1)) == pytest.approx(before)
    assert view_direction(reoriented(facing, [1, 0, 0], 0.1))[2] > before[2] + 0.05
    assert abs(view_direction(reoriented(facing, [0, 1, 0], 0.1))[1] - before[1]) > 0.05


def test_a_camera_that_does_not_look_down_has_no_look_at_point() -> None:
    with pytest.raises(VlaError, match="does not look down"):
        look_at([0, 0, 1], axis_angle([1, 0, 0], math.pi / 2), 0.5)
    with pytest.raises(VlaError, match="does not look down"):
        look_at(FRONT["tabletop"].position, FRONT["tabletop"].quaternion, 2.0)


@pytest.mark.parametrize("name", KINDS)
def test_the_pose_is_farther_from_the_benign_one_by_a_fifth_with_each_level(name: str) -> None:
    most = {
        "distance": camera.MOST_FARTHER,
        "azimuth": camera.MOST_AZIMUTH,
        "elevation": camera.MOST_ELEVATION,
        "orientation": camera.MOST_TURN,
        "narrower": camera.MOST_NARROWER,
        "wider": camera.MOST_WIDER,
    }[name]
    found = [measured(name, drawn(name, level, seed=3)) for level in LEVELS]
    # Cameras stand in the model as doubles, but axes are rounded to four digits in the record.
    assert found == pytest.approx([most * level / 5 for level in LEVELS], rel=1e-3)


@pytest.mark.parametrize("name", KINDS)
def test_equal_draws_are_equal_and_levels_of_a_seed_differ_in_how_much_only(name: str) -> None:
    again = [drawn(name, 3, seed).parameters for seed in range(8)]
    assert [drawn(name, 3, seed).parameters for seed in range(8)] == again
    for seed in range(8):
        signs = {math.copysign(1, _signed(drawn(name, level, seed))) for level in LEVELS}
        axes = {tuple(drawn(name, level, seed).parameters.get("axis_pitch_yaw_roll", ())) for level in LEVELS}
        assert len(signs) == len(axes) == 1
    varies = name in ("azimuth", "orientation")
    assert (len({str(parameters) for parameters in again}) > 1) == varies


def _signed(variation: Variation) -> float:
    parameters = variation.parameters
    return float(parameters.get("azimuth_deg", parameters.get("factor", 2) - 1))


@pytest.mark.parametrize("name", ["azimuth", "orientation"])
def test_what_was_drawn_can_be_drawn_for_another_time(name: str) -> None:
    variation = drawn(name, 4)
    assert variation.in_sight
    assert variation.redraw is not None
    times = [variation.redraw(time) for time in range(1, 9)]
    assert {each.label for each in times} == {variation.label}
    assert len({str(each.parameters) for each in times}) > 1
    assert times[0].parameters == drawn(name, 4, time=1).parameters


@pytest.mark.parametrize("name", ["distance", "elevation", "narrower", "wider"])
def test_where_nothing_is_drawn_nothing_is_drawn_again(name: str) -> None:
    assert drawn(name, 4).redraw is None


@pytest.mark.parametrize("name", KINDS)
def test_the_front_picture_changes_the_wrist_picture_does_not_and_both_come_back(name: str) -> None:
    world = tabletop_world()

    def pictures(variation: Variation | None) -> list[npt.NDArray[np.uint8]]:
        assert world.switch(TASK, variation)
        observation = world.reset(0, settle=False)
        return [observation["agentview_image"], observation["robot0_eye_in_hand_image"]]

    benign, varied = pictures(None), pictures(drawn(name, 1))
    assert np.abs(varied[0].astype(int) - benign[0]).mean() > 2
    assert np.array_equal(varied[1], benign[1])
    assert all(map(np.array_equal, pictures(None), benign))


@pytest.mark.parametrize("name", KINDS)
def test_a_suite_without_the_front_camera_is_refused(name: str) -> None:
    protocol = dataclasses.replace(TASK.protocol, cameras=("robot0_eye_in_hand",))
    task = dataclasses.replace(TASK, protocol=protocol)
    with pytest.raises(VlaError, match="no camera agentview"):
        KINDS[name].make(Draw(task, f"camera.{name}-L1", 0, 1))
