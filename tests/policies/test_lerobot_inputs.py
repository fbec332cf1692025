"""Which camera is which of a policy's pictures, and what is refused; lerobot itself is not needed."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies import lerobot
from pytest_vla.policies.builtin import CHECKPOINTS
from pytest_vla.policies.fit import Traits, check_fit
from pytest_vla.policies.lerobot_inputs import Inputs, read_cameras, read_inputs
from pytest_vla.policies.load import check_model, load_policy
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.testing import point_suite

SCENE, WRIST = "agentview_image", "robot0_eye_in_hand_image"


def feature(*shape: int) -> SimpleNamespace:
    return SimpleNamespace(shape=shape)


def config(*pictures: str, state: int | None = 8, actions: int = 7, side: int = 256, **more: Any) -> SimpleNamespace:
    images = {f"observation.images.{name}": feature(3, side, side) for name in pictures}
    states = {} if state is None else {"observation.state": feature(state)}
    output = {"action": feature(actions)}
    return SimpleNamespace(image_features=images, input_features=images | states, output_features=output, **more)


def seen(inputs: Inputs) -> dict[str, str]:
    return {key.removeprefix("observation.images."): picture for key, picture in inputs.pictures.items()}


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["image", "image2"], [SCENE, WRIST]),
        (["image", "wrist_image"], [SCENE, WRIST]),
        (["wrist_image", "image"], [WRIST, SCENE]),
        (["camera1", "camera2"], [SCENE, WRIST]),
        (["agentview", "robot0_eye_in_hand"], [SCENE, WRIST]),
        (["base_0_rgb", "left_wrist_0_rgb"], [SCENE, WRIST]),
        (["left", "right"], [SCENE, WRIST]),
        (["gripper", "left"], [WRIST, SCENE]),
        (["left", "front"], [WRIST, SCENE]),
        (["image"], [SCENE]),
        (["wrist"], [WRIST]),
    ],
)
def test_cameras_are_found_by_name_and_then_by_order(names: list[str], expected: list[str]) -> None:
    assert seen(read_inputs(config(*names), {})) == dict(zip(names, expected, strict=True))


@pytest.mark.parametrize(
    ("names", "guessed"),
    [
        (["image", "image2"], []),
        (["left", "right"], ["left", "right"]),
        (["gripper", "left"], []),
        (["left"], ["left"]),
    ],
)
def test_what_only_the_order_decides_is_a_guess(names: list[str], guessed: list[str]) -> None:
    assert [key.rpartition(".")[2] for key in read_inputs(config(*names), {}).guessed] == guessed


@pytest.mark.parametrize(
    ("names", "text", "expected"),
    [
        (["left", "right"], "left:robot0_eye_in_hand,right:agentview", [WRIST, SCENE]),
        (["left", "right"], "left:robot0_eye_in_hand_image", [WRIST, SCENE]),
        (["wrist_image", "image"], "observation.images.wrist_image:agentview", [SCENE, WRIST]),
        (["front", "side", "wrist"], "front:agentview, side:agentview", [SCENE, SCENE, WRIST]),
    ],
)
def test_cameras_are_as_they_are_typed(names: list[str], text: str, expected: list[str]) -> None:
    found = read_inputs(config(*names), {}, read_cameras(text))
    assert seen(found) == dict(zip(names, expected, strict=True))
    assert found.guessed == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("cameras=left:", "cameras=left:: expected NAME:CAMERA.*agentview or robot0_eye_in_hand"),
        ("cameras=left", "expected NAME:CAMERA"),
        ("camera=left:agentview", "takes no argument 'camera'. Did you mean cameras"),
    ],
)
def test_cameras_that_are_not_there_are_refused_early(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(VlaError, match=complaint):
        check_model(ModelSpec(f"lerobot:somewhere?{text}", tmp_path))


def test_a_picture_that_the_policy_does_not_have_is_told() -> None:
    with pytest.raises(VlaError, match=r"no picture 'lefft'\. Did you mean left\? It has left, right"):
        read_inputs(config("left", "right"), {}, read_cameras("lefft:agentview"))


def test_a_guess_is_a_finding() -> None:
    traits = Traits(cameras=("left=agentview_image", "right=robot0_eye_in_hand_image"), guessed=("left", "right"))
    (found,) = check_fit(traits, load_suite("tabletop"))
    assert (found.code, found.severity) == ("VLA-P014", "warning")
    assert "left=agentview_image" in found.message
    assert check_fit(Traits(cameras=traits.cameras), load_suite("tabletop")) == ()


def test_a_single_picture_without_a_name_of_its_own_is_the_scene() -> None:
    only = config()
    only.image_features["observation.image"] = only.input_features["observation.image"] = feature(3, 96, 96)
    assert read_inputs(only, {}).pictures == {"observation.image": SCENE}


@given(st.permutations(["image", "image2", "state"]))
def test_what_is_read_is_what_the_policy_wants_in_whatever_order(order: list[str]) -> None:
    wanted = config(*[name for name in order if name != "state"])
    assert set(read_inputs(wanted, {}).reads) == {SCENE, WRIST, "state"}
    assert read_inputs(config("image2", state=None), {}).reads == (WRIST,)


def test_a_key_that_the_preprocessor_renames_is_given_under_the_name_that_it_takes() -> None:
    renames = {"observation.images.image": "observation.images.camera1", "observation.state": "observation.state"}
    assert seen(read_inputs(config("camera1", "camera2"), renames)) == {"image": SCENE, "camera2": WRIST}


def test_a_third_camera_is_refused_unless_the_policy_was_trained_with_it_empty() -> None:
    with pytest.raises(
        VlaError, match=r"^VLA-P005: the policy needs 3 cameras .*no picture for .*third.*empty_cameras"
    ):
        read_inputs(config("image", "image2", "third"), {})
    with pytest.raises(VlaError, match=r"no picture for .*right_wrist_0_rgb"):
        read_inputs(config("base_0_rgb", "left_wrist_0_rgb", "right_wrist_0_rgb"), {})
    assert seen(read_inputs(config("image", "image2", "third", empty_cameras=1), {})) == {
        "image": SCENE,
        "image2": WRIST,
    }
    assert seen(read_inputs(config("image", "image2", "empty_camera_0", empty_cameras=1), {})) == {
        "image": SCENE,
        "image2": WRIST,
    }
    with pytest.raises(VlaError, match=r"no picture for .*third"):
        read_inputs(config("image", "image2", "third", "empty_camera_0", empty_cameras=1), {})


def test_pictures_are_brought_to_the_configs_size_only_for_a_class_that_does_not_do_so_itself() -> None:
    assert read_inputs(config("image", side=96), {}).sizes == {"observation.images.image": (96, 96)}
    assert read_inputs(config("image", side=96, resize_imgs_with_padding=(512, 512)), {}).sizes == {}
    assert read_inputs(config("image", side=96, image_resolution=(224, 224)), {}).sizes == {}
    last = config("image")
    last.image_features["observation.images.image"].shape = (48, 64, 3)
    assert read_inputs(last, {}).sizes == {"observation.images.image": (48, 64)}
    last.image_features["observation.images.image"].shape = (48, 64)
    with pytest.raises(VlaError, match=r"^VLA-P006: the policy needs pictures of shape \(48, 64\)"):
        read_inputs(last, {})


def test_a_policy_for_another_robot_is_compared_with_the_suite() -> None:
    """Its sizes are its own; a suite that has others says what to take instead, and how a camera is named."""
    found = read_inputs(config("image", state=2, actions=2), {})
    assert (found.state_size, found.action_size) == (2, 2)
    traits = Traits(action_size=2, state_size=2, reads=found.reads, cameras=(f"image={SCENE}",))
    assert [each.code for each in check_fit(traits, load_suite("tabletop"))] == ["VLA-P001", "VLA-P008"]
    (camera,) = check_fit(traits, point_suite())
    assert (camera.code, "?cameras=image:front" in camera.message) == ("VLA-P005", True)
    assert seen(read_inputs(config("image", state=2, actions=2), {}, read_cameras("image:front"))) == {
        "image": "front_image"
    }
    table = config("image")
    table.input_features["observation.state"] = feature(2, 4)
    with pytest.raises(VlaError, match=r"^VLA-P008"):
        read_inputs(table, {})
    with pytest.raises(VlaError, match=r"^VLA-P001"):
        read_inputs(SimpleNamespace(**{**vars(config("image")), "output_features": {}}), {})


def test_x_vla_reads_the_controllers_pose_and_its_pictures_are_not_resized() -> None:
    found = read_inputs(config("image", "image2", action_mode="ee6d", actions=20, state=20), {})
    assert found.is_xvla
    assert found.reads == (SCENE, WRIST, "robot0_eef_pos", "controller_mat")
    assert found.sizes == {}
    # One that gives other actions is a policy like any other.
    assert not read_inputs(config("image", action_mode="auto"), {}).is_xvla


def test_an_observation_that_no_suite_has_is_refused() -> None:
    wanted = config("image")
    wanted.input_features["observation.environment_state"] = feature(3)
    with pytest.raises(VlaError, match=r"^VLA-P005: the policy needs 'observation.environment_state', but suites"):
        read_inputs(wanted, {})


def test_the_names_that_people_type_are_four_models_of_the_hub() -> None:
    assert {checkpoint.name: checkpoint.hub_id for checkpoint in CHECKPOINTS} == {
        "pi0": "lerobot/pi0_libero_finetuned",
        "pi05": "lerobot/pi05_libero_finetuned",
        "smolvla": "HuggingFaceVLA/smolvla_libero",
        "xvla": "lerobot/xvla-libero",
    }


def test_without_lerobot_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "lerobot"]:
        monkeypatch.delitem(sys.modules, name)
    # None: importing it raises ImportError.
    monkeypatch.setitem(sys.modules, "lerobot", None)
    monkeypatch.setattr(lerobot, "find_spec", lambda name: None)
    for refuse in (lerobot.check, lerobot.load):
        with pytest.raises(
            VlaError, match=r"--vla-model=lerobot:a/b needs the package lerobot .*'pytest-vla\[lerobot\]'"
        ):
            refuse("a/b")
    with pytest.raises(VlaError, match="needs the package lerobot"):
        load_policy(ModelSpec("pi0", Path()))
