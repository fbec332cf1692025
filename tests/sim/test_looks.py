"""What task files say of their pictures takes effect: cameras moved, another light, noise, drawn colours."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pytest_vla.errors import SceneError
from pytest_vla.plan.manifests import load_suite, suite_folder
from pytest_vla.plan.task import Task
from pytest_vla.scene.problem import Problem, parse_problem_text
from pytest_vla.scene.variation import Edits, Variation, varied
from pytest_vla.sim.looks import PictureLight, adjusted
from pytest_vla.sim.pixel_noise import frame_generator, gaussian_noise
from pytest_vla.sim.world import World
from pytest_vla.vary.registry import find_variation
from tests.support.worlds import tabletop_world

TASK = load_suite("tabletop").task("put_the_box_in_the_bowl")
TEXT = (suite_folder("tabletop") / "bddl_files" / "tabletop" / f"{TASK.name}.bddl").read_text()
Picture = NDArray[np.uint8]


def with_sections(sections: str, problem: Problem) -> Problem:
    """The problem, with what these sections of a file say."""
    read = parse_problem_text(TEXT.rstrip().removesuffix(")") + sections + ")", source="mine.bddl")
    looks = {name: getattr(read, name) for name in ("image_settings", "noise", "camera", "random_color", "source")}
    return replace(problem, **looks)


def saying(sections: str, edits: Edits | None = None) -> Variation:
    whole = replace(edits or Edits(), problem=(partial(with_sections, sections),))
    return varied("looks.mine", "looks", "mine", None, {}, whole)


def seen(sections: str, seed: int = 0, steps: int = 0, edits: Edits | None = None) -> dict[str, Picture]:
    """Both cameras' pictures in an episode of the task with these sections."""
    world = tabletop_world()
    assert world.switch(TASK, saying(sections, edits))
    observation = world.reset(0, scene_seed=seed, settle=False)
    for _ in range(steps):
        observation = world.step(np.zeros(7))
    return {camera: observation[f"{camera}_image"].copy() for camera in TASK.protocol.cameras}


@pytest.fixture(scope="module")
def plain() -> Iterator[dict[str, Picture]]:
    yield seen("")
    # No look outlives its task.
    assert tabletop_world().switch(TASK)
    tabletop_world().reset(0, settle=False)


def test_image_settings_are_pillows_in_upstreams_order(plain: dict[str, Picture]) -> None:
    sections = "(:image_settings temperature 5000 saturation -0.4 contrast 0.3 brightness 0.2)"
    light = PictureLight(brightness=0.2, contrast=0.3, saturation=-0.4, temperature=5000)
    for camera, picture in seen(sections).items():
        assert np.array_equal(picture, adjusted(plain[camera], light))
        assert not np.array_equal(picture, plain[camera])


def test_noise_comes_after_light_and_follows_from_seed_camera_and_step(plain: dict[str, Picture]) -> None:
    sections = "(:image_settings brightness 0.2) (:noise gaussian 0.1 0.02)"
    pictures = seen(sections, seed=3)
    for camera, picture in pictures.items():
        lit = adjusted(plain[camera], PictureLight(brightness=0.2))
        assert np.array_equal(picture, gaussian_noise(lit, 0.1, 0.02, frame_generator(3, camera, 0)))
        assert np.array_equal(picture, seen(sections, seed=3)[camera])
        assert not np.array_equal(picture, seen(sections, seed=4)[camera])
    assert not np.array_equal(seen(sections, 3, steps=1)["agentview"], seen(sections, 3, steps=2)["agentview"])


def test_salt_and_pepper_take_as_many_values_as_the_file_says(plain: dict[str, Picture]) -> None:
    picture, before = seen("(:noise salt_pepper 0.2)")["agentview"], plain["agentview"]
    changed = picture != before
    assert set(np.unique(picture[changed])) == {0, 255}
    # Pepper is strewn on the salt: 0.2 of it again.
    inside = (before > 0) & (before < 255)
    assert (picture[inside] == 0).mean() == pytest.approx(0.2, abs=0.01)
    assert (picture[inside] == 255).mean() == pytest.approx(0.16, abs=0.01)
    assert seen("(:noise salt_pepper 1)")["agentview"].max() == 0


def test_a_fixed_camera_stands_elsewhere_by_so_much() -> None:
    world = tabletop_world()
    assert world.switch(TASK)
    world.reset(0, settle=False)
    before = {name: world.model.camera(name).pos.copy() for name in ("agentview", "frontview")}
    pictures = seen("(:camera agentview 0.1 0 -0.05 frontview robot0_eye_in_hand)")
    assert world.model.camera("agentview").pos == pytest.approx(before["agentview"] + [0.1, 0, -0.05])
    assert np.array_equal(world.model.camera("frontview").pos, before["frontview"])
    assert not np.array_equal(pictures["agentview"], seen("")["agentview"])
    assert np.array_equal(world.model.camera("agentview").pos, before["agentview"]), "undone with the task"


def test_random_colours_are_drawn_by_the_scene_seed() -> None:
    world = tabletop_world()

    def colours(seed: int, sections: str = "(:random_color true)") -> NDArray[np.float32]:
        seen(sections, seed)
        return world.model.geom_rgba.copy()

    plain, drawn = colours(1, ""), colours(1)
    changed = (drawn != plain).any(axis=1)
    assert changed.sum() > 10
    assert (drawn[changed, :3] >= 0.2 - 1e-6).all()
    assert (drawn[changed, :3] <= 0.8 + 1e-6).all()
    assert np.array_equal(colours(1), drawn)
    assert not np.array_equal(colours(2), drawn)
    assert np.array_equal(colours(2, "(:random_color false)"), plain)


def test_a_saved_moment_is_seen_as_it_was() -> None:
    world = tabletop_world()
    seen("(:random_color true) (:noise gaussian 0 0.01)", seed=5)
    world.step(np.zeros(7))
    saved = world.save()
    before = world.restore(saved)["agentview_image"].copy()
    world.reset(1, scene_seed=6)
    assert np.array_equal(world.restore(saved)["agentview_image"], before)
    assert world.began == (0, 5)


def test_a_variations_changes_come_on_top() -> None:
    def begin() -> object:
        return lambda picture, camera, step: 255 - picture

    sections = "(:image_settings brightness 0.2) (:camera agentview 0.05 0 0)"
    plain, inverted = seen(sections), seen(sections, edits=Edits(pictures=(begin,)))  # type: ignore[arg-type]
    assert np.array_equal(255 - plain["agentview"], inverted["agentview"])
    moved = find_variation(TASK, "camera.azimuth-L2", 1)
    assert moved is not None
    world = tabletop_world()
    assert world.switch(TASK, moved)
    world.reset(0, settle=False)
    alone = world.model.camera("agentview").pos.copy()
    seen(sections, edits=Edits(model=moved.model))
    assert not np.allclose(world.model.camera("agentview").pos, alone, atol=0.01)


@pytest.mark.parametrize(
    ("camera", "told"),
    [
        ("agentwiev 0.1 0 0", "the scene has no camera 'agentwiev'; it has birdview, "),
        ("agentview robot0_eye_in_hand 0 0 0.1", "the camera 'robot0_eye_in_hand' moves with the robot"),
    ],
)
def test_a_camera_that_cannot_be_moved_is_told_with_its_place(camera: str, told: str) -> None:
    with pytest.raises(SceneError, match=rf"mine\.bddl:\d+:\d+: {re.escape(told)}"):
        tabletop_world().switch(TASK, saying(f"(:camera {camera})"))


def test_a_users_own_task_file_is_seen_as_it_says(tmp_path: Path) -> None:
    file = tmp_path / "bddl_files" / "tabletop" / "put_the_box_in_the_bowl_at_dusk.bddl"
    file.parent.mkdir(parents=True)
    file.write_text(TEXT.rstrip().removesuffix(")") + "(:image_settings brightness -0.5))")
    task: Task = load_suite("tabletop", data=tmp_path).task(file.stem)
    plain = seen("")["agentview"]
    with World(task) as world:
        world.reset(None, settle=False)
        dusk = world.show(tabletop_world().data.qpos)["agentview_image"]
    assert dusk.mean() == pytest.approx(plain.mean() / 2, rel=0.05)
