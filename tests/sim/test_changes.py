"""A variation's changes of a real world: in force while it is, and undone to the last bit at the next reset."""

import hashlib
from collections.abc import Callable

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import RedrawError, VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.scene.variation import VISUAL_ARRAYS, ModelEdit, Variation
from pytest_vla.sim.own_models import ModelChanges
from pytest_vla.sim.world import World
from pytest_vla.vary.kind import MOST_DRAWS
from pytest_vla.vary.registry import find_variation, kinds
from tests.support.examples import scaled

TASK = load_suite("tabletop").task("put_the_bowl_on_the_plate")
# Every kind that leaves the compiled scene, at its first and last level; no camera of a table sees the floor.
LABELS = tuple(
    label
    for kind in kinds()
    if not (kind.scene or kind.needs_files or kind.name == "background.floor")
    and kind.dimension in ("layout", "background", "light", "camera", "robot", "noise")
    for label in dict.fromkeys((kind.labels()[0], kind.labels()[-1]))
)


@pytest.fixture(scope="module")
def world() -> World:
    return World(TASK)


def digest(world: World) -> str:
    """Of the whole model, and of an episode's first steps with its pictures."""
    found = hashlib.sha256()
    observation = world.reset(init_state=3, scene_seed=3)
    for step in range(3):
        for name in ("agentview_image", "robot0_eye_in_hand_image") if step == 0 else ():
            found.update(observation[name].tobytes())
        observation = world.step(np.array([0.3, -0.2, 0.1, 0.0, 0.1, 0.0, 1.0]))
        found.update(world.data.qpos.tobytes() + world.data.qvel.tobytes())
    for name in dir(world.model):
        value = getattr(world.model, name)
        if isinstance(value, np.ndarray):
            found.update(name.encode() + np.ascontiguousarray(value).tobytes())
    return found.hexdigest()


@pytest.fixture(scope="module")
def benign(world: World) -> str:
    return digest(world)


@settings(max_examples=scaled(12))
@given(labels=st.lists(st.sampled_from(LABELS), min_size=1, max_size=4), seed=st.integers(0, 20))
def test_after_any_sequence_of_variations_the_benign_episode_is_bitwise_the_benign_episode(
    world: World, benign: str, labels: list[str], seed: int
) -> None:
    for label in labels:
        variation = find_variation(TASK, label, seed)
        assert world.switch(TASK, variation)
        try:
            observation = world.reset(init_state=seed, scene_seed=seed, settle=False)
        except RedrawError:
            continue
        assert observation["agentview_image"].shape == (256, 256, 3)
        world.step(np.zeros(7))
    assert world.switch(TASK)
    assert digest(world) == benign


# A dropped frame is an earlier one, and digests look at one.
@pytest.mark.parametrize("label", [label for label in LABELS if "dropped" not in label])
def test_a_variation_is_in_force(world: World, benign: str, label: str) -> None:
    variation = find_variation(TASK, label, 5)
    assert variation is not None
    draws = [variation] if variation.redraw is None else [variation, *map(variation.redraw, range(1, MOST_DRAWS))]
    for time, drawn in enumerate(draws):
        assert world.switch(TASK, drawn)
        try:
            changed = digest(world)
        except RedrawError:
            continue
        # What is drawn makes it: the same again.
        again = find_variation(TASK, label, 5)
        assert again is not None
        assert world.switch(TASK, again if not time or again.redraw is None else again.redraw(time))
        assert digest(world) == changed
        assert changed != benign
        return
    pytest.fail("no draw of it is free here")


def test_a_joint_variation_is_both_at_once(world: World) -> None:
    variation = find_variation(TASK, "light.diffuse-L5+camera.wider-L3", 0)
    assert variation is not None
    assert (variation.dimension, variation.kind, variation.level) == ("light+camera", "diffuse+wider", None)
    alone = {}
    for label in (*variation.label.split("+"), variation.label):
        world.switch(TASK, find_variation(TASK, label, 0))
        world.reset(init_state=0)
        alone[label] = (world.model.light_diffuse.copy(), world.model.cam_fovy.copy())
    light, camera, both = alone.values()
    assert np.array_equal(both[0], light[0])
    assert np.array_equal(both[1], camera[1])
    assert not np.array_equal(light[1], camera[1])
    assert world.switch(TASK)


def a_model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(
        '<mujoco><asset><texture name="t" type="2d" builtin="flat" width="4" height="4" rgb1=".2 .4 .6"/>'
        '<material name="m" texture="t"/></asset><worldbody><light/><camera name="c"/>'
        '<geom name="g" size="1" material="m"/></worldbody></mujoco>'
    )


def painting(value: int) -> Callable[..., None]:
    def paint(model: mujoco.MjModel, scene: object) -> None:
        model.tex_data[:] = value

    return paint


def test_textures_are_repainted_and_named_once() -> None:
    model = a_model()
    before = model.tex_data.copy()
    changes = ModelChanges(model)
    red = (ModelEdit((), painting(9), lambda model, scene: ("t",)),)
    assert changes.replace(red, None) == (0,)  # type: ignore[arg-type]
    assert (model.tex_data == 9).all()
    # In force already.
    assert changes.replace(red, None) == ()  # type: ignore[arg-type]
    assert changes.replace((), None) == (0,)  # type: ignore[arg-type]
    assert np.array_equal(model.tex_data, before)


def test_shapes_and_places_may_not_be_written() -> None:
    assert {"cam_pos", "light_diffuse", "mat_rgba"} <= VISUAL_ARRAYS
    with pytest.raises(ValueError, match="may not write body_pos, geom_size"):
        ModelEdit(("cam_pos", "geom_size", "body_pos"), painting(0))


def test_a_saved_state_belongs_to_its_variation(world: World) -> None:
    world.switch(TASK)
    world.reset(init_state=0)
    state = world.save()
    world.switch(TASK, Variation("camera.mine", "camera", "mine"))
    world.reset(init_state=0)
    with pytest.raises(VlaError, match="saved under another variation"):
        world.restore(state)
    world.switch(TASK)
