"""What is seen and reached from a state."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np
import pytest

from pytest_vla import World
from pytest_vla.episode.visibility import SEEN, SHARE, VisiblePart, added, hidden, out_of_sight, parts, wanted
from pytest_vla.plan.manifests import load_suite
from pytest_vla.scene.variation import joined
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
    assert hidden(world, "agentview") == ("bowl_1",)
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
    put(world, "plate_1", (0.22, 0.0, 0.9))
    assert out_of_sight(world) == "plate_1 is 0.88 m from the robot, which reaches 0.85 m"


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
        assert hidden(world, "agentview") == ("distractor_2",)


def test_no_seed_s_distractor_stands_behind_the_cabinet() -> None:
    task = load_suite("tabletop").task("put_the_bowl_on_the_plate")
    first = find_variation(task, "layout.distractors-L1", 0)
    with World(task, first) as world:
        for seed in range(10):
            assert world.switch(task, find_variation(task, "layout.distractors-L1", seed))
            world.reset(seed, scene_seed=seed, settle=False)
            assert out_of_sight(world) == ""


def part_of(world: World, name: str) -> VisiblePart:
    return next(part for part in parts(world) if part.name == name)


def pixels(world: World, part: VisiblePart, **how: Any) -> int:
    return int(np.isin(world.segmentation("agentview", **how), list(part.bodies)).sum())


@pytest.mark.parametrize(
    ("task", "name", "bodies"),
    [
        ("turn_on_the_stove", "stove_1", {"stove_1_knob"}),
        ("open_the_middle_drawer_of_the_cabinet", "cabinet_1_middle_region", {"cabinet_1_middle_drawer"}),
        ("put_the_bowl_on_the_stove", "stove_1_cook_region", {"stove_1_base", "stove_1_knob"}),
    ],
)
def test_what_has_to_be_seen_is_the_part_that_the_goal_is_about(task: str, name: str, bodies: set[str]) -> None:
    world = tabletop(task)
    found = {world.model.body(body).name for body in part_of(world, name).bodies}
    assert {body for body in found if world.model.body(body).geomnum[0]} == bodies
    assert found < {world.model.body(body).name for body in part_of(world, name).owner}


def test_a_knob_behind_a_bottle_is_hidden_though_its_stove_is_not() -> None:
    world = tabletop("turn_on_the_stove")
    world.reset(0)
    knob = part_of(world, "stove_1")
    assert out_of_sight(world) == ""
    seen = pixels(world, knob)
    x, y, z = world.data.body("stove_1_knob").xpos
    eye = world.model.cam_pos[world.model.camera("agentview").id]
    towards = (eye - (x, y, z)) / np.linalg.norm(eye - (x, y, z))
    put(world, "bottle_1", tuple((x, y, z) + 0.06 * towards - (0.0, 0.0, 0.1)))
    assert pixels(world, knob) < seen / 3
    assert hidden(world, "agentview") == ("stove_1",)


def test_a_part_is_hidden_below_a_share_of_what_would_be_seen_of_it(world: World) -> None:
    """A plate that is pushed out of the picture, of which ever less is left in it."""
    plate = part_of(world, "plate_1")
    shares, verdicts = [], []
    for y in np.linspace(0.2, 0.75, 12):
        put(world, "plate_1", (0.05, y, 0.91))
        alone = pixels(world, plate, only=plate.owner, widened=2.0)
        shares.append(pixels(world, plate) / max(4 * alone, 1))
        verdicts.append("plate_1" in hidden(world, "agentview"))
    assert shares[0] > 0.9
    assert shares[-1] == 0
    told = [share >= SHARE for share in shares]
    assert verdicts == [not each for each in told]
    assert any(0.05 < share < SHARE for share in shares), "some of it, and not enough"


def test_what_is_too_small_to_be_told_is_hidden_though_all_of_it_is_seen(world: World) -> None:
    camera = world.model.camera("agentview").id
    nominal = world.model.cam_pos[camera].copy()
    box = part_of(tabletop("put_the_box_in_the_bowl"), "box_1")
    try:
        for factor, is_hidden in ((1.0, False), (3.5, True)):
            world.model.cam_pos[camera] = np.array([-0.2, 0, 0.9]) + factor * (nominal - (-0.2, 0, 0.9))
            world.reset(0)
            assert (pixels(world, box) < SEEN * 256 * 256) == is_hidden
            assert ("box_1" in hidden(world, "agentview")) == is_hidden
    finally:
        world.model.cam_pos[camera] = nominal


def test_a_wider_look_shows_the_same_smaller_and_what_is_beside(world: World) -> None:
    plate = part_of(world, "plate_1")
    whole = pixels(world, plate)
    assert abs(4 * pixels(world, plate, widened=2.0) - whole) < 0.1 * whole
    assert pixels(world, plate, only=plate.owner) == whole
    put(world, "plate_1", (0.05, 0.7, 0.91))
    assert pixels(world, plate) == 0 < pixels(world, plate, widened=2.0)
