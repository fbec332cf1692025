"""What is seen and reached from a state."""

import dataclasses
from collections.abc import Iterator

import mujoco
import numpy as np
import pytest

from pytest_vla import World
from pytest_vla.sim.sight import added, hidden, out_of_sight, wanted
from pytest_vla.suite import load_suite
from pytest_vla.variation import joined
from pytest_vla.vary.registry import find_variation
from tests.support.worlds import tabletop


@pytest.fixture
def world() -> Iterator[World]:
    world = tabletop("put_the_bowl_on_the_plate")
    problem = world.problem
    world.reset(0)
    yield world
    world.problem = problem


def put(world: World, name: str, position: tuple[float, float, float]) -> None:
    """Starts anew with an object elsewhere."""
    state = np.array(world.init_states[0])
    address = 1 + world.model.joint(world.scene.body(name).joints[-1]).qposadr[0]
    state[address : address + 3] = position
    world.reset(state, settle=False)


def test_the_scene_as_it_is_is_in_sight_and_in_reach(world: World) -> None:
    assert out_of_sight(world) == ""


def test_the_bodies_of_a_picture_are_where_the_picture_shows_them(world: World) -> None:
    bodies = world.segmentation("agentview")
    picture = world.reset(0)["agentview_image"]
    assert bodies.shape == picture.shape[:2]
    plate = picture[bodies == world.model.body("plate_1_main").id].mean(axis=0)
    table = picture[bodies == world.model.body("table").id].mean(axis=0)
    # The plate is white, the table wooden.
    assert plate.min() > 150 > table[2]


def test_reading_bodies_leaves_pictures_as_they_are(world: World) -> None:
    before = world.reset(0)["agentview_image"]
    world.segmentation("agentview")
    assert (world.reset(0)["agentview_image"] == before).all()


def test_what_the_task_is_about_are_the_goals_things_and_the_owners_of_their_parts() -> None:
    world = tabletop("open_the_top_drawer_and_put_the_bowl_inside")
    assert set(wanted(world.problem, world.scene)) == {"bowl_1", "cabinet_1"}


def test_an_object_behind_another_is_hidden_unless_it_was_before(world: World) -> None:
    x, y, z = world.data.body(world.scene.body("cabinet_1").root_body).xpos
    put(world, "bowl_1", (x, y, z - 0.5))
    assert hidden(world, world.segmentation("agentview")) == ("bowl_1",)
    assert out_of_sight(world) == "bowl_1 is hidden"
    assert "fallen off" in out_of_sight(world, hidden_before=("bowl_1",))


def test_an_object_that_begins_inside_of_something_need_not_be_seen(world: World) -> None:
    x, y, z = world.data.body(world.scene.body("cabinet_1").root_body).xpos
    put(world, "bowl_1", (x, y, z + 0.02))
    assert out_of_sight(world) == "bowl_1 is hidden"
    inside = tuple(
        dataclasses.replace(literal, predicate="in") if literal.arguments[0] == "bowl_1" else literal
        for literal in world.problem.init
    )
    world.problem = dataclasses.replace(world.problem, init=inside)
    assert out_of_sight(world) == ""


def test_an_object_beyond_the_arm_is_out_of_reach(world: World) -> None:
    put(world, "plate_1", (0.3, 0.0, 0.9))
    assert out_of_sight(world) == "plate_1 is 0.96 m from the robot, which reaches 0.85 m"


def test_a_camera_that_looks_away_sees_none(world: World) -> None:
    camera = world.model.camera("agentview").id
    nominal = world.model.cam_quat[camera].copy()
    try:
        world.model.cam_quat[camera] = [1.0, 0.0, 0.0, 0.0]
        mujoco.mju_axisAngle2Quat(world.model.cam_quat[camera], np.array([1.0, 0.0, 0.0]), np.pi)
        assert "is hidden" in out_of_sight(world)
    finally:
        world.model.cam_quat[camera] = nominal


def test_what_a_variation_adds_has_to_be_seen() -> None:
    task = load_suite("tabletop").task("put_the_bowl_on_the_plate")
    variation = find_variation(task, "layout.distractors-L2", 1)
    assert variation is not None
    with World(task, variation) as world:
        assert added(world) == ("distractor_1", "distractor_2")
        fog = find_variation(task, "noise.fog-L1", 1)
        assert fog is not None
        world.variation = joined("layout.distractors-L2+noise.fog-L1", (variation, fog))
        assert added(world) == (), "they are drawn as they are alone, and were seen then"
        world.variation = variation
        world.reset(1, scene_seed=1, settle=False)
        assert out_of_sight(world) == "", "it is put where no fixture hides it"
        x, y, z = world.data.body(world.scene.body("cabinet_1").root_body).xpos
        state = np.array(world.save().data.qpos)
        state = np.concatenate([[0.0], state, np.zeros(world.model.nv)])
        address = 1 + world.model.joint(world.scene.body("distractor_2").joints[-1]).qposadr[0]
        state[address : address + 3] = x, y, z - 0.5
        world.show(state[1 : 1 + world.model.nq])
        assert hidden(world, world.segmentation("agentview")) == ("distractor_2",)


def test_no_seed_s_distractor_stands_behind_the_cabinet() -> None:
    task = load_suite("tabletop").task("put_the_bowl_on_the_plate")
    first = find_variation(task, "layout.distractors-L1", 0)
    with World(task, first) as world:
        for seed in range(10):
            assert world.switch(task, find_variation(task, "layout.distractors-L1", seed))
            world.reset(seed, scene_seed=seed, settle=False)
            assert out_of_sight(world) == ""
