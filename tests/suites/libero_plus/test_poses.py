"""LIBERO-Plus's cameras and arms: upstream's numbers to the last decimal."""

import json
import re
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import VlaError
from pytest_vla.scene.panda import REST_JOINTS
from pytest_vla.suites.libero_plus.scenes import camera_pose, robot_qpos
from tests.support.data import golden

SCENES = {
    "tabletop": "LIBERO_Tabletop_Manipulation",
    "kitchen": "libero_kitchen_tabletop_manipulation",
    "study": "libero_study_tabletop_manipulation",
    "living_room": "libero_living_room_tabletop_manipulation",
    "floor": "LIBERO_Floor_Manipulation",
    "coffee_table": "libero_coffee_table_manipulation",
}


def test_cameras_are_upstreams_to_the_last_decimal() -> None:
    poses = json.loads(golden("libero_plus_camera.json").read_text())
    assert {pose["scene"] for pose in poses} == set(SCENES)
    for pose in poses:
        for scene in (pose["scene"], SCENES[pose["scene"]]):
            position, quaternion = camera_pose(scene, pose["h"], pose["v"], pose["scale"], pose["r"], pose["e"])
            assert position == pytest.approx(pose["pos"], abs=1e-9), pose
            sign = 1.0 if np.dot(quaternion, pose["quat_wxyz"]) > 0 else -1.0
            assert np.multiply(sign, quaternion) == pytest.approx(pose["quat_wxyz"], abs=1e-9), pose


@pytest.mark.parametrize(
    ("scene", "numbers", "position", "quaternion"),
    [
        ("tabletop", (30, 0, 1, 0, 0), (0.5704, 0.3293, 1.6104), (0.4511, 0.2156, 0.3734, 0.7814)),
        ("tabletop", (0, 15, 1, 0, 0), (0.4264, 0, 1.7532), (0.6723, 0.219, 0.219, 0.6723)),
        ("tabletop", (75, 15, 1, 0, 0), (0.1104, 0.4119, 1.7532), (0.1241, 0.0404, 0.307, 0.9427)),
        ("tabletop", (0, 0, 2.0, 0, 0), (1.3172, 0, 2.4208), (0.638, 0.3048, 0.3048, 0.638)),
        ("tabletop", (0, 0, 1, 10, 350), (0.6586, 0, 1.6104), (0.549, 0.3363, 0.3795, 0.6644)),
        ("floor", (0, 0, 2, 0, 0), (1.7932, 0, 0.5), (0.6182, 0.3432, 0.3432, 0.6182)),
        ("floor", (75, 15, 1, 0, 0), (0.2342, 0.8741, 0.8872), (0.1214, 0.0479, 0.364, 0.9222)),
        # Nothing is perturbed, and yet the pose is rounded.
        ("floor", (0, 0, 1, 0, 0), (0.8966, 0, 0.65), (0.6182, 0.3432, 0.3432, 0.6182)),
    ],
)
def test_cameras_are_those_of_the_specification(
    scene: str, numbers: tuple[Any, ...], position: tuple[float, ...], quaternion: tuple[float, ...]
) -> None:
    found, turned = camera_pose(scene, *numbers)
    assert found == pytest.approx(position, abs=1e-9)
    assert np.abs(np.dot(turned, quaternion)) == pytest.approx(1.0, abs=2e-4)
    assert np.sign(turned[0]) * np.array(turned) == pytest.approx(quaternion, abs=1e-9)


@pytest.mark.parametrize(
    ("workspace", "scene"),
    [
        ("main_table", "tabletop"),
        ("kitchen_table", "kitchen"),
        ("living_room_table", "living_room"),
        ("study_table", "study"),
        ("floor", "floor"),
        ("coffee_table", "coffee_table"),
    ],
)
def test_a_scene_is_known_by_its_workspace_too(workspace: str, scene: str) -> None:
    assert camera_pose(workspace, 30, 15, 1.5, 2, 358) == camera_pose(SCENES[scene], 30, 15, 1.5, 2, 358)


def test_the_five_operations_are_rounded_one_after_another() -> None:
    position, quaternion = camera_pose("kitchen", 40, 15, 1.37, 8, 354)
    step, turned = camera_pose("kitchen", 40, 15, 1, 0, 0)
    assert position == tuple(round(p + (x - p) * 1.37, 4) for p, x in zip((0, 0, 0.8), step, strict=True))
    _, yawed = camera_pose("kitchen", 40, 15, 1, 8, 0)
    assert yawed != turned
    assert quaternion != yawed
    assert all(value == round(value, 4) for value in (*position, *quaternion))
    # E turns about y and from the left, so that the yaw before it is kept.
    half = np.radians(354) / 2
    w, x, y, z = np.array(yawed) / np.linalg.norm(yawed)
    c, s = np.cos(half), -np.sin(half)
    assert np.array([c * w - s * y, c * x + s * z, c * y + s * w, c * z - s * x]) == pytest.approx(quaternion, abs=6e-5)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("tabeltop", 0, 0, 1, 0, 0), "there is no scene 'tabeltop'. Did you mean"),
        (("tabletop", float("nan"), 0, 1, 0, 0), "expected degrees and a positive scale"),
        (("tabletop", 0, 0, 0, 0, 0), "expected degrees and a positive scale"),
        (("tabletop", "3", 0, 1, 0, 0), "expected degrees and a positive scale, found ('3', 0, 1, 0, 0)"),
        (("tabletop", 0, 0, 1, None, 0), "expected degrees and a positive scale"),
        (("tabletop", True, 0, 1, 0, 0), "expected degrees and a positive scale"),
        (("tabletop", 10**400, 0, 1, 0, 0), "expected degrees and a positive scale"),
        (("tabletop", 0, 0, 10**400, 0, 0), "expected degrees and a positive scale"),
        (("tabletop", 0, 0, [1.0], 0, 0), "expected degrees and a positive scale"),
        ((3, 0, 0, 1, 0, 0), "expected a scene's name, tabletop, kitchen, "),
        ((None, 0, 0, 1, 0, 0), "found None"),
        (("living_room_tabel", 0, 0, 1, 0, 0), "Did you mean living_room_table, living_room"),
    ],
)
def test_no_camera_is_made_of_what_is_no_parameter(arguments: tuple[Any, ...], why: str) -> None:
    with pytest.raises(VlaError, match=re.escape(why)):
        camera_pose(*arguments)


def test_the_arms_poses_are_drawn_in_order_and_grow_by_the_hundred() -> None:
    generator = np.random.RandomState(42)
    directions = generator.randn(500, 7)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    poses = np.array([robot_qpos(number) for number in range(1, 501)])
    norms = np.repeat([0.1, 0.2, 0.3, 0.4, 0.5], 100)
    assert np.abs(poses - (np.array(REST_JOINTS) + directions * norms[:, None])).max() <= 5e-9
    assert all(value == round(value, 8) for value in poses.ravel().tolist())
    assert len({tuple(pose) for pose in poses.tolist()}) == 500
    assert np.linalg.norm(poses - REST_JOINTS, axis=1) == pytest.approx(norms, abs=1e-7)


@pytest.mark.parametrize("number", [0, 501, -1, True, 1.5, 1.0, float("nan"), "1", None])
def test_there_are_five_hundred_poses_of_the_arm(number: Any) -> None:
    with pytest.raises(VlaError, match=re.escape(f"robot_qpos({number!r}): expected 1 to 500")):
        robot_qpos(number)
