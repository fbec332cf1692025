"""VLA-Arena's visual levels: its parameters, Pillow's arithmetic in its order, and each level on top of the last."""

import itertools

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageEnhance

from pytest_vla.plan.manifests import load_suite
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.looks import PictureLight, adjusted
from pytest_vla.suites.vla_arena import variations as arena_visual
from pytest_vla.vary.kind import Draw
from tests.support.worlds import tabletop_world

Picture = npt.NDArray[np.uint8]

TASK = load_suite("tabletop").tasks[0]
KINDS = {kind.name.partition(".")[2]: kind for kind in arena_visual.KINDS}
CAMERAS = ("agentview", "robot0_eye_in_hand")

# As its specification has them, apart from the module under test.
LIMITS = {"brightness": 0.75, "contrast": 0.75, "saturation": 0.75}
MODEL_ARRAYS = ("geom_rgba", "cam_pos", "cam_quat")


def drawn(level: int, seed: int = 0, name: str = "visual") -> Variation:
    kind = KINDS[name]
    return kind.make(Draw(TASK, f"{kind.name}-L{level}", seed, level))


def episode(variation: Variation | None) -> tuple[dict[str, npt.NDArray[np.float64]], dict[str, Picture]]:
    """Arrays of the model, and both cameras' pictures, in an episode of a variation."""
    world = tabletop_world()
    assert world.switch(TASK, variation)
    observation = world.reset(0, settle=False)
    arrays = {name: getattr(world.model, name).copy() for name in MODEL_ARRAYS}
    return arrays, {camera: observation[f"{camera}_image"] for camera in CAMERAS}


def upstream(picture: Picture, light: PictureLight) -> Picture:
    """The picture as VLA-Arena's specification says it is adjusted, step by step."""
    image = Image.fromarray(picture)
    if light.brightness != 0:
        image = ImageEnhance.Brightness(image).enhance(1 + light.brightness)
    if light.contrast != 0:
        image = ImageEnhance.Contrast(image).enhance(1 + light.contrast)
    if light.saturation != 0:
        image = ImageEnhance.Color(image).enhance(1 + light.saturation)
    found = np.array(image).astype(np.float64)
    if light.temperature != 6500:
        k = 0.4 * abs(6500 - light.temperature) / 6500
        red, blue = (1 + k, 1 - k) if light.temperature <= 6500 else (1 - k, 1 + k)
        found[..., 0] *= red
        found[..., 2] *= blue
    return np.clip(found, 0, 255).astype(np.uint8)


shares = st.one_of(st.just(0.0), st.floats(-0.75, 0.75))
lights = st.builds(PictureLight, shares, shares, shares, st.one_of(st.just(6500.0), st.floats(3500, 8500)))


@given(lights, st.integers(0, 100))
def test_light_is_pillow_s_brightness_contrast_and_colour_in_this_order_then_temperature(
    light: PictureLight, seed: int
) -> None:
    picture = np.random.default_rng(seed).integers(0, 256, (9, 7, 3), dtype=np.uint8)
    before = picture.copy()
    assert np.abs(adjusted(picture, light).astype(int) - upstream(picture, light)).max() <= 1
    assert np.array_equal(picture, before)
    assert adjusted(picture, light).dtype == np.uint8


def test_no_adjustment_leaves_the_picture_as_it_is() -> None:
    picture = np.random.default_rng(1).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    assert np.array_equal(adjusted(picture, PictureLight()), picture)


def test_temperature_of_a_grey_picture_by_hand() -> None:
    grey = np.full((1, 1, 3), 100, np.uint8)
    # 3500 K: k = 0.4 * 3000 / 6500 = 0.1846; 8500 K: k = 0.4 * 2000 / 6500 = 0.1231.
    assert adjusted(grey, PictureLight(temperature=3500))[0, 0].tolist() == [118, 100, 81]
    assert adjusted(grey, PictureLight(temperature=8500))[0, 0].tolist() == [87, 100, 112]


def test_parameters_are_drawn_over_the_published_ranges() -> None:
    found = [drawn(4, seed).parameters for seed in range(300)]
    for name, limit in LIMITS.items():
        values = [each[name] for each in found]
        assert -limit <= min(values) < -0.95 * limit
        assert 0.95 * limit < max(values) <= limit
    temperatures = [each["temperature_k"] for each in found]
    assert 3500 <= min(temperatures) < 3600
    assert 8400 < max(temperatures) <= 8500
    offsets = np.array([each["camera_offset_m"] for each in found])
    assert np.abs(offsets).max(axis=0) == pytest.approx([0.105] * 3, abs=0.003)
    assert offsets.mean(axis=0) == pytest.approx([0] * 3, abs=0.02)
    assert {(each["noise_mean"], each["noise_variance"]) for each in found} == {(0.0, 0.085)}
    assert {drawn(4, seed, "visual_prose").parameters["noise_variance"] for seed in range(5)} == {0.05}


@pytest.mark.parametrize("name", KINDS)
def test_each_level_has_what_the_one_before_has_and_more(name: str) -> None:
    levels = [drawn(level, 7, name).parameters for level in (1, 2, 3, 4)]
    assert [len(level) for level in levels] == [4, 5, 6, 9]
    for less, more in itertools.pairwise(levels):
        assert less.items() <= more.items()
    assert drawn(4, 7, name).parameters == levels[3]
    assert KINDS[name].published


def test_light_and_camera_are_drawn_for_each_episode_but_upstream_s_once_for_a_task() -> None:
    fixed = ("brightness", "contrast", "saturation", "temperature_k", "camera_offset_m")
    for name, times in (("visual", 5), ("visual_prose", 5), ("visual_upstream", 1)):
        found = [drawn(4, seed, name).parameters for seed in range(5)]
        assert {len({str(each[parameter]) for each in found}) for parameter in fixed} == {times}
        assert {len({each[parameter] for each in found}) for parameter in ("colour_seed", "noise_seed")} == {5}


def test_v1_changes_the_pictures_of_all_cameras_and_nothing_of_the_scene() -> None:
    (benign, before), (varied, after) = episode(None), episode(drawn(1))
    assert all(np.array_equal(benign[name], varied[name]) for name in MODEL_ARRAYS)
    parameters = drawn(1).parameters
    brightness, contrast, saturation = (parameters[name] for name in LIMITS)
    light = PictureLight(brightness, contrast, saturation, parameters["temperature_k"])
    for camera in CAMERAS:
        assert np.abs(after[camera].astype(int) - upstream(before[camera], light)).max() <= 1
        assert np.abs(after[camera].astype(int) - before[camera]).mean() > 2


def test_v2_colours_what_has_a_material_but_the_arm() -> None:
    (benign, _), (varied, _) = episode(None), episode(drawn(2))
    assert np.array_equal(benign["cam_pos"], varied["cam_pos"])
    model = tabletop_world().model
    changed = (benign["geom_rgba"] != varied["geom_rgba"]).any(axis=1)
    for geom in range(model.ngeom):
        material = model.geom_matid[geom]
        is_plain = np.allclose(benign["geom_rgba"][geom], [0.5, 0.5, 0.5, 1])
        is_arm = material >= 0 and "robot0" in model.material(material).name
        assert changed[geom] == (material >= 0 and is_plain and not is_arm)
    colours = varied["geom_rgba"][changed]
    assert (colours[:, 3] == 1).all()
    assert ((colours[:, :3] >= 0.2) & (colours[:, :3] <= 0.8)).all()
    assert len(np.unique(colours, axis=0)) == len(colours) > 20
    coloured = [model.geom(int(geom)).name for geom in np.flatnonzero(changed)]
    assert {"table_visual", "floor", "wall_rear_visual"} <= set(coloured)


def test_v3_moves_the_first_camera_by_the_offset_and_does_not_turn_it() -> None:
    (benign, _), (varied, _) = episode(None), episode(drawn(3))
    number = tabletop_world().model.camera("agentview").id
    moved = varied["cam_pos"] - benign["cam_pos"]
    assert moved[number] == pytest.approx(drawn(3).parameters["camera_offset_m"])
    assert not np.delete(moved, number, axis=0).any()
    assert np.array_equal(varied["cam_quat"], benign["cam_quat"])


@pytest.mark.parametrize(("name", "variance"), [("visual", 0.085), ("visual_prose", 0.05)])
def test_v4_adds_noise_of_the_variance_to_the_pictures_of_all_cameras(name: str, variance: float) -> None:
    (begin,) = drawn(4, name=name).pictures
    (plain,) = drawn(3, name=name).pictures
    change, lit = begin(), plain()
    grey = np.full((200, 200, 3), 128, np.uint8)
    level = lit(grey, CAMERAS[0], 0)[0, 0] / 255
    for camera in CAMERAS:
        values = change(grey, camera, 3) / 255
        # Clipped values are left out by their quartiles, which a normal distribution has at 0.6745 sigma.
        for channel in range(3):
            low, high = np.quantile(values[..., channel], (0.25, 0.75))
            inside = level[channel] - 0.6745 * variance**0.5 > 0, level[channel] + 0.6745 * variance**0.5 < 1
            if inside[0]:
                assert low == pytest.approx(level[channel] - 0.6745 * variance**0.5, abs=0.01)
            if inside[1]:
                assert high == pytest.approx(level[channel] + 0.6745 * variance**0.5, abs=0.01)
            assert any(inside)
    first, second = (change(grey, CAMERAS[0], step) for step in (0, 1))
    assert not np.array_equal(first, second)
    assert np.array_equal(begin()(grey, CAMERAS[0], 1), second)
