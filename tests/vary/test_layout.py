"""Objects that are added, and objects that stand elsewhere."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla import World, load_suite
from pytest_vla.errors import RedrawError, VlaError
from pytest_vla.scene.problem import format_problem, parse_problem_text
from pytest_vla.sim.clearance import Clearance
from pytest_vla.suite import Task
from pytest_vla.vary.kind import Draw
from pytest_vla.vary.layout import displacement, distractors
from pytest_vla.vary.layout_objects import AREA, Obstacle, added_categories, obstacles, radius
from pytest_vla.vary.layout_states import displace, put_down
from pytest_vla.vary.problems import problem_of
from tests.support.worlds import libero_task, tabletop

SUITE = load_suite("tabletop")
TASKS = st.sampled_from(SUITE.tasks)


def draw(task: Task, kind: str, level: int, seed: int, time: int = 0) -> Draw:
    return Draw(task, f"layout.{kind}-L{level}", seed, level, time=time)


@settings(max_examples=60, deadline=None)
@given(TASKS, st.integers(1, 5), st.integers(0, 99))
def test_added_objects_have_room_and_are_not_what_the_task_is_about(task: Task, level: int, seed: int) -> None:
    variation = distractors(draw(task, "distractors", level, seed))
    placed = list(variation.parameters.values())
    assert len(placed) == level
    for category, x, y, _ in placed:
        assert AREA[0] <= x <= AREA[2]
        assert AREA[1] <= y <= AREA[3]
        assert category.rpartition("_")[2] not in task.language.split()
        assert all(thing.distance(x, y) > radius(category) for thing in obstacles(problem_of(task)))
    for (one, x, y, _), (other, other_x, other_y, _) in itertools.combinations(placed, 2):
        assert math.hypot(x - other_x, y - other_y) > radius(one) + radius(other)


@settings(max_examples=20, deadline=None)
@given(TASKS, st.integers(1, 5))
def test_added_objects_change_nothing_else_of_the_problem_and_seeds_share_a_scene(task: Task, level: int) -> None:
    original = problem_of(task)
    changed = [
        distractors(draw(task, "distractors", level, seed, time)).problem[0](original)
        for seed, time in ((0, 0), (1, 0), (1, 3))
    ]
    assert changed[0] == changed[1] == changed[2]
    problem = changed[0]
    assert problem.objects[: len(original.objects)] == original.objects
    assert len(problem.objects) == len(original.objects) + level
    kept = ("goal", "language", "objects_of_interest", "fixtures", "name")
    assert all(getattr(problem, name) == getattr(original, name) for name in kept)
    assert parse_problem_text(format_problem(problem)) == problem


def test_a_higher_level_adds_to_what_a_lower_one_adds() -> None:
    task = SUITE.tasks[0]
    problem = problem_of(task)
    assert added_categories(problem, task.language, 5)[:2] == added_categories(problem, task.language, 2)


def test_what_a_task_is_about_in_all_things_cannot_be_added_to() -> None:
    problem = problem_of(SUITE.task("put_the_box_in_the_bowl"))
    with pytest.raises(VlaError, match="about them all"):
        added_categories(problem, "put the box beside the bottle", 1)


@given(st.floats(-math.pi, math.pi), st.floats(-0.5, 0.5), st.floats(-0.5, 0.5))
def test_the_distance_from_a_turned_rectangle_turns_with_it(yaw: float, x: float, y: float) -> None:
    upright = Obstacle((0.0, 0.0), 0.0, (-0.1, -0.2, 0.1, 0.3), 0.02)
    turned = Obstacle((1.0, 2.0), yaw, (-0.1, -0.2, 0.1, 0.3), 0.02)
    cosine, sine = math.cos(yaw), math.sin(yaw)
    place = (1 + cosine * x - sine * y, 2 + sine * x + cosine * y)
    assert turned.distance(*place) == pytest.approx(upright.distance(x, y), abs=1e-9)


def test_draws_repeat_and_another_time_gives_another() -> None:
    task = SUITE.task("put_the_bowl_on_the_plate")
    for make, kind in ((distractors, "distractors"), (displacement, "displacement")):
        first = make(draw(task, kind, 2, 5))
        assert make(draw(task, kind, 2, 5)).parameters == first.parameters
        assert first.redraw is not None
        assert first.redraw(1).parameters == make(draw(task, kind, 2, 5, 1)).parameters != first.parameters


def test_the_displacement_grows_evenly_and_names_an_object_of_the_task() -> None:
    task = SUITE.task("put_the_bowl_on_the_plate")
    for level in range(1, 6):
        parameters = displacement(draw(task, "displacement", level, 0)).parameters
        assert parameters["distance"] == pytest.approx(0.03 * level)
        assert abs(parameters["yaw"]) == pytest.approx(9 * level)
        assert parameters["object"] in ("bowl_1", "plate_1")


def test_a_task_that_moves_nothing_has_no_displacement() -> None:
    with pytest.raises(VlaError, match="about no object that stands on the workspace"):
        displacement(draw(SUITE.task("turn_on_the_stove"), "displacement", 1, 0))


def test_what_stands_in_or_on_something_is_not_displaced() -> None:
    task = libero_task(
        "libero_spatial", "pick_up_the_black_bowl_in_the_top_drawer_of_the_wooden_cabinet_and_place_it_on_the_plate"
    )
    moved = {displacement(draw(task, "displacement", 1, seed)).parameters["object"] for seed in range(20)}
    assert moved == {"plate_1"}


def world_at(name: str) -> tuple[World, np.ndarray]:
    world = tabletop(name)
    world.reset(0, settle=False)
    return world, np.array(world.init_states[0])


def pose(world: World, state: np.ndarray, name: str) -> np.ndarray:
    address = 1 + world.model.joint(world.scene.body(name).joints[-1]).qposadr[0]
    return np.array(state[address : address + 7])


@pytest.mark.parametrize("level", [1, 3, 5])
def test_a_displaced_object_is_as_far_away_and_as_turned_as_was_drawn_and_clear_of_all(level: int) -> None:
    task = SUITE.task("put_the_bowl_on_the_plate")
    variation = displacement(draw(task, "displacement", level, 1))
    world, before = world_at(task.name)
    after = before.copy()
    variation.state[0](world.model, world.scene, after)
    name = variation.parameters["object"]
    old, new = pose(world, before, name), pose(world, after, name)
    assert math.dist(old[:2], new[:2]) == pytest.approx(0.03 * level)
    assert old[2] == new[2]
    assert math.degrees(2 * math.acos(abs(old[3:] @ new[3:]))) == pytest.approx(9 * level)
    assert not Clearance(world.model, world.scene).in_the_way(after[1 : 1 + world.model.nq], (name,), 0.009)
    assert (after[1 + world.model.nq :] == before[1 + world.model.nq :]).all()


def test_what_stands_on_a_displaced_object_goes_along_and_turns_with_it() -> None:
    world, state = world_at("put_the_box_in_the_bowl")
    box = 1 + world.model.joint(world.scene.body("box_1").joints[-1]).qposadr[0]
    state[box : box + 3] = pose(world, state, "bowl_1")[:3] + np.array([0.01, 0.0, 0.04])
    displace(world.model, world.scene, state, "bowl_1", 0.09, 0.0, math.pi / 2, {"bowl_1": ("box_1",)}, ())
    offset = pose(world, state, "box_1")[:3] - pose(world, state, "bowl_1")[:3]
    assert offset == pytest.approx([0.0, 0.01, 0.04], abs=1e-9)


def test_where_no_direction_is_free_others_make_room() -> None:
    world, state = world_at("put_the_bowl_on_the_stove")
    before = state.copy()
    displace(world.model, world.scene, state, "bowl_1", 0.12, 0.0, 0.0, {}, ())
    moved = [
        name
        for name in ("bowl_1", "plate_1", "bottle_1", "box_1")
        if (pose(world, state, name) != pose(world, before, name)).any()
    ]
    assert moved[0] == "bowl_1"
    assert len(moved) > 1
    steps = [pose(world, state, name)[:3] - pose(world, before, name)[:3] for name in moved]
    assert all(step == pytest.approx(steps[0]) for step in steps)


def test_an_object_that_can_go_nowhere_is_drawn_anew_and_stays() -> None:
    world, state = world_at("put_the_bowl_on_the_stove")
    before = state.copy()
    with pytest.raises(RedrawError, match="cannot go 2 m anywhere"):
        displace(world.model, world.scene, state, "bowl_1", 2, 0.0, 0.0, {}, ())
    assert (state == before).all()


def test_an_object_is_not_displaced_to_where_the_goal_wants_it() -> None:
    world, state = world_at("push_the_plate_to_the_front_of_the_stove")
    (zone,) = (site.name for site in world.scene.sites if "stove_front" in site.name)
    site, size = world.data.site(zone).xpos[:2], world.model.site(zone).size[:2]
    away = pose(world, state, "plate_1")[:2] - site
    distance, direction = float(np.hypot(*away)), math.atan2(-away[1], -away[0])
    displace(world.model, world.scene, state, "plate_1", distance, direction, 0.0, {}, (zone,))
    assert (np.abs(pose(world, state, "plate_1")[:2] - site) > size).any()


def test_what_would_be_put_into_something_is_drawn_anew() -> None:
    world, state = world_at("put_the_bowl_on_the_stove")
    x, y = pose(world, state, "plate_1")[:2]
    with pytest.raises(RedrawError, match="box_1 would stand in plate_1"):
        put_down(world.model, world.scene, state, {"box_1": (x, y, 0.0)})


def test_added_objects_stand_calmly_where_they_were_drawn() -> None:
    task = SUITE.task("put_the_bowl_on_the_plate")
    variation = distractors(draw(task, "distractors", 5, 2))
    with World(task, variation) as world:
        world.reset(None, settle=False)
        world.reset(2, scene_seed=2)
        for name, (_, x, y, _) in variation.parameters.items():
            assert world.data.body(world.scene.body(name).root_body).xpos[:2] == pytest.approx([x, y], abs=0.002)
        assert np.abs(world.data.qvel[9:]).max() < 0.05
        assert not world.success()
        assert world.out_of_sight() == ""
