"""Pictures as OpenVLA's evaluation makes them, against TensorFlow's (tests/support/openvla_pictures.py); rotations."""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from pytest_vla.errors import VlaError
from pytest_vla.plan.choices import viewed_size
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Protocol
from pytest_vla.policies import view
from pytest_vla.policies.trial import draw_observation
from tests.support.openvla_pictures import LARGER, SMALLER, pictures

GOLDEN = Path(__file__).with_name("golden") / "openvla_pictures.npz"


@pytest.mark.parametrize("name", ["smooth", "noise"])
@pytest.mark.parametrize(
    ("made", "by", "levels"),
    [
        ("coded", view.jpeg_coded, 0),
        ("smaller", lambda picture: view.resize_lanczos(picture, *SMALLER), 1),
        ("larger", lambda picture: view.resize_lanczos(picture, *LARGER), 1),
        ("cropped", view.centre_crop, 1),
        ("shown", lambda picture: view.openvla_picture(picture, 18), 2),
    ],
)
def test_it_is_what_tensorflow_makes(name: str, made: str, by: Callable[[Any], Any], levels: int) -> None:
    with np.load(GOLDEN) as golden:
        picture, expected = golden[name], golden[f"{name}_{made}"]
    # A golden of another picture would be compared with nothing.
    assert np.array_equal(picture, pictures()[name])
    found = by(picture)
    assert (found.dtype, found.shape) == (np.uint8, expected.shape)
    away = np.abs(found.astype(int) - expected)
    assert away.max() <= levels
    # Rounding alone: one value in fifty at most.
    assert (away > 0).mean() < 0.02


@given(st.integers(7, 40), st.integers(7, 40), st.integers(0, 255), st.integers(1, 50), st.integers(1, 50))
def test_an_even_picture_stays_even(height: int, width: int, level: int, wanted: int, other: int) -> None:
    even = np.full((height, width, 3), level, np.uint8)
    assert np.array_equal(view.resize_lanczos(even, wanted, other), np.full((wanted, other, 3), level, np.uint8))
    assert np.array_equal(view.centre_crop(even), even)


def test_a_crop_keeps_the_centre_and_is_mirrored_with_its_picture() -> None:
    picture = pictures()["noise"]
    assert np.array_equal(view.centre_crop(picture[:, ::-1]), view.centre_crop(picture)[:, ::-1])
    ramp = np.broadcast_to(np.linspace(0, 250, 101)[:, None, None], (101, 5, 3)).astype(np.uint8)
    first, middle, last = view.centre_crop(ramp)[[0, 50, 100], 0, 0]
    margin = (1 - np.sqrt(0.9)) / 2 * 250
    assert abs(float(first) - margin) <= 1
    assert abs(float(middle) - 125) <= 1
    assert abs(float(last) - (250 - margin)) <= 1


def test_without_its_package_a_picture_is_refused_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simplejpeg", None)
    with pytest.raises(VlaError, match=r"pytest-vla\[openvla\]"):
        view.jpeg_coded(pictures()["smooth"])


# What an evaluator shows.


def world_s(quaternion: list[float] | None = None) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(5)
    turn = np.array(quaternion or [0.99, 0.05, -0.1, 0.02])
    picture = generator.integers(0, 256, (2, 6, 8, 3), dtype=np.uint8)
    return {
        "agentview_image": picture[0],
        "robot0_eye_in_hand_image": picture[1],
        "robot0_eef_pos": np.array([0.1, -0.2, 1.1]),
        "robot0_eef_quat": turn / np.linalg.norm(turn),
        "robot0_gripper_qpos": np.array([0.04, -0.03]),
        "state": np.arange(8.0),
    }


def under(**changes: Any) -> Protocol:
    return dataclasses.replace(load_suite("libero_goal").protocol, **changes)


def test_pictures_are_turned_and_the_wrists_may_be_turned_otherwise() -> None:
    seen = world_s()
    scene, wrist = seen["agentview_image"], seen["robot0_eye_in_hand_image"]
    shown = view.policy_view(seen, under(wrist_transform="raw"))
    assert np.array_equal(shown["agentview_image"], scene[:, ::-1])
    assert np.array_equal(shown["robot0_eye_in_hand_image"], wrist[::-1])
    assert np.array_equal(view.policy_view(seen, under())["robot0_eye_in_hand_image"], wrist[:, ::-1])
    assert view.policy_view(seen)["agentview_image"] is scene


def test_steps_of_a_transform_are_done_in_their_order() -> None:
    picture = pictures()["smooth"]
    padded = view.transformed(picture, "rotate_180 > pad 16")
    assert np.array_equal(padded, view.resize_with_padding(np.ascontiguousarray(picture[:, ::-1]), 16, 16))
    shown = view.transformed(picture, "none > jpeg 95 > lanczos 18 > crop 0.9")
    assert np.array_equal(shown, view.openvla_picture(picture, 18))
    assert viewed_size("rotate_180 > jpeg 95 > lanczos 224 > crop 0.9", (256, 256)) == (224, 224)
    assert viewed_size("rotate_180", (360, 300)) == (360, 300)


def test_the_state_is_the_worlds_or_as_the_evaluator_has_it() -> None:
    seen = world_s()
    assert np.array_equal(view.policy_view(seen, under())["state"], seen["state"])
    for form, kind in (("axis_angle_float32", np.float32), ("axis_angle_antipodal", np.float64)):
        state = view.policy_view(seen, under(state=form))["state"]
        assert (state.dtype, state.shape) == (kind, (8,))
        assert np.allclose(state[:3], seen["robot0_eef_pos"], atol=1e-7)
        assert np.allclose(state[6:], seen["robot0_gripper_qpos"], atol=1e-7)


@given(st.lists(st.floats(-1, 1), min_size=4, max_size=4).filter(lambda parts: np.linalg.norm(parts) > 0.1))
def test_all_forms_of_the_state_are_the_same_turn(parts: list[float]) -> None:
    seen = world_s(parts)
    wanted = Rotation.from_quat(seen["robot0_eef_quat"])
    for form in ("axis_angle_float32", "axis_angle_antipodal"):
        turn = view.state_of(seen, form)[3:6]
        assert (wanted.inv() * Rotation.from_rotvec(turn)).magnitude() < 3e-3
        longest = np.pi if form == "axis_angle_antipodal" else 2 * np.pi
        assert np.linalg.norm(turn) <= longest + 1e-3


def test_no_turn_is_zero() -> None:
    seen = world_s([0.0, 0.0, 0.0, 1.0])
    for form in ("axis_angle_float32", "axis_angle_antipodal"):
        assert not view.state_of(seen, form)[3:6].any()


@pytest.mark.parametrize(
    ("rule", "given_value", "executed"),
    [
        *(("as_given", 0.3, 0.3), ("sign", -0.01, -1), ("sign", 0.0, 1), ("sign", 0.7, 1)),
        *(("one_opens", 1.0, -1), ("one_opens", 0.0, 1), ("one_opens", 0.5, 0), ("one_opens", 0.51, -1)),
    ],
)
def test_a_gripper_follows_the_rule(rule: str, given_value: float, executed: float) -> None:
    assert view.gripper_of(given_value, rule) == executed


def test_a_policy_that_says_that_minus_one_opens_is_not_converted() -> None:
    def policy(episode: Any) -> Any: ...

    assert view.converts_gripper(policy, under(gripper="one_opens"))
    assert not view.converts_gripper(policy, under())
    policy.traits = {"gripper": "1 opens, 0 closes"}  # type: ignore[attr-defined]
    assert view.converts_gripper(policy, under(gripper="one_opens"))
    policy.traits = {"gripper": "-1 opens, 1 closes"}  # type: ignore[attr-defined]
    assert not view.converts_gripper(policy, under(gripper="one_opens"))
    # vla-eval takes the sign of all.
    assert view.converts_gripper(policy, under(gripper="sign"))


# X-VLA's state and actions.


PROTOCOL = load_suite("tabletop").protocol
TURNS = st.lists(st.floats(-3.0, 3.0), min_size=3, max_size=3).map(np.array)


@given(st.lists(TURNS, min_size=1, max_size=4))
def test_rotations_as_six_numbers_are_scipys(turns: list[np.ndarray]) -> None:
    matrices = Rotation.from_rotvec(np.array(turns)).as_matrix()
    numbers = view.rotation_6d(matrices)
    assert np.array_equal(numbers[:, :3], matrices[:, :, 0])
    assert np.array_equal(numbers[:, 3:], matrices[:, :, 1])
    assert np.allclose(view.rotation_6d_of(np.array(turns)), numbers, atol=1e-12)
    assert np.allclose(view.rotation_6d_of(turns[0]), numbers[0], atol=1e-12)
    back = view.axis_angle_of_6d(numbers)
    assert back.shape == (len(turns), 3)
    # In single precision, in which the angle of a small turn is the worst.
    assert (Rotation.from_rotvec(back) * Rotation.from_matrix(matrices).inv()).magnitude().max() < 2e-3
    assert np.linalg.norm(back, axis=1).max() < np.pi + 1e-3


@given(TURNS, st.floats(0.5, 2.0), st.floats(-0.5, 0.5))
def test_six_numbers_need_be_neither_unit_vectors_nor_at_a_right_angle(
    turn: np.ndarray, length: float, lean: float
) -> None:
    exact = view.rotation_6d_of(turn)
    # What a network gives.
    given_numbers = np.concatenate([length * exact[:3], exact[3:] + lean * exact[:3]])
    difference = Rotation.from_rotvec(view.axis_angle_of_6d(given_numbers)) * Rotation.from_rotvec(turn).inv()
    assert difference.magnitude() < 2e-3


def test_an_action_of_six_numbers_is_a_pose_and_the_state_that_is_fed_back() -> None:
    turn = np.array([0.1, -2.0, 0.4])
    chunk = np.array([[0.1, 0.2, 1.1, *view.rotation_6d_of(turn), grip] for grip in (0.2, 0.9)])
    actions = view.actions_of_6d(chunk)
    assert actions.shape == (2, 7)
    assert np.allclose(actions[0], [0.1, 0.2, 1.1, *turn, 0.2], atol=1e-5)
    assert [view.gripper_of(action[-1], "one_closes") for action in actions] == [-1.0, 1.0]
    assert np.array_equal(view.pose_6d(chunk[1]), [*chunk[1][:9], 0.0])
    assert np.allclose(view.pose_6d(actions[1]), view.pose_6d(chunk[1]), atol=1e-5)


def test_x_vlas_state_is_the_controllers_pose() -> None:
    observation = draw_observation(np.random.default_rng(0), PROTOCOL)
    state = view.policy_view(observation, dataclasses.replace(PROTOCOL, state="controller_6d"))["state"]
    matrix = observation["controller_mat"]
    assert np.array_equal(state, [*observation["controller_pos"], *matrix[:, 0], *matrix[:, 1], 0.0])
    fed = np.arange(10.0)
    assert np.array_equal(view.policy_view(observation, PROTOCOL, fed)["state"], fed)
