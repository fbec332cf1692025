"""Objects that are added, and objects that stand elsewhere."""

import contextlib
import itertools
import math

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla import World, load_suite
from pytest_vla.episode.visibility import unseen_at_start
from pytest_vla.errors import RedrawError, VlaError
from pytest_vla.plan.task import Task
from pytest_vla.scene.problem import format_problem, parse_problem_text, problem_of
from pytest_vla.sim.contacts import Clearance
from pytest_vla.vary.axes import layout
from pytest_vla.vary.axes.layout_room import AREA, Obstacle, added_categories, obstacles, radius
from pytest_vla.vary.axes.layout_states import displace, put_down
from pytest_vla.vary.kind import MOST_DRAWS, Draw
from tests.support.examples import scaled
from tests.support.worlds import libero_task, tabletop

distractors, displacement, _ = (kind.make for kind in layout.KINDS)
SUITE = load_suite("tabletop")
TASKS = st.sampled_from(SUITE.tasks)
MOVING = [task for task in SUITE.tasks if not task.name.startswith(("turn_on", "open_the_middle", "close_the_bottom"))]
"""Those about an object that stands on the workspace."""


def draw(task: Task, kind: str, level: int, seed: int, time: int = 0) -> Draw:
    return Draw(task, f"layout.{kind}-L{level}", seed, level, time=time)


@settings(max_examples=scaled(60))
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


@settings(max_examples=scaled(20))
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
    with pytest.raises(VlaError, match="the task uses all of them"):
        added_categories(problem, "put the box beside the bottle", 1)


@given(st.floats(-math.pi, math.pi), st.floats(-0.5, 0.5), st.floats(-0.5, 0.5))
def test_the_distance_from_a_turned_rectangle_turns_with_it(yaw: float, x: float, y: float) -> None:
    upright = Obstacle((0.0, 0.0), 0.0, (-0.1, -0.2, 0.1, 0.3), 0.02)
    turned = Obstacle((1.0, 2.0), yaw, (-0.1, -0.2, 0.1, 0.3), 0.02)
    cosine, sine = math.cos(yaw), math.sin(yaw)
    place = (1 + cosine * x - sine * y, 2 + sine * x + cosine * y)
    assert turned.distance(*place) == pytest.approx(upright.distance(x, y), abs=1e-9)


def test_a_box_hides_what_is_behind_it_and_lower_than_the_line_over_it() -> None:
    box = Obstacle((0.0, 0.0), math.pi / 2, (-0.2, -0.1, 0.2, 0.1), 0.0, 0.3)
    eye = (1.0, 0.0, 0.6)
    assert box.hides((-0.3, 0.0, 0.0), eye)
    assert box.hides((-0.3, 0.15, 0.0), eye), "turned, it is 0.4 m wide"
    assert not box.hides((-0.3, 0.4, 0.0), eye), "beside it"
    assert not box.hides((0.3, 0.0, 0.0), eye), "before it"
    assert not box.hides((-0.3, 0.0, 0.29), eye), "over it"
    assert not box.hides((-1.5, 0.0, 0.0), (1.0, 0.0, 5.0)), "from above"
    assert not Obstacle((0.0, 0.0), 0.0, box.rectangle, 0.0).hides((-0.3, 0.0, 0.0), eye), "it is flat"


@pytest.mark.parametrize("task", SUITE.tasks, ids=lambda task: task.name)
def test_a_level_adds_one_to_the_level_below_and_no_fixture_hides_any(task: Task) -> None:
    eye = (0.6586, 0.0, 0.7103)
    for seed in range(5):
        levels = [distractors(draw(task, "distractors", level, seed)).parameters for level in range(1, 6)]
        for number, (below, above) in enumerate(itertools.pairwise(levels), 2):
            assert {**below, f"distractor_{number}": above[f"distractor_{number}"]} == above
        for category, x, y, _ in levels[-1].values():
            # A little above where it has to be seen, since that is tried at the centre of its cell.
            point = (x, y, 0.14 if category == "glass_bottle" else 0.05)
            assert not [thing for thing in obstacles(problem_of(task)) if thing.hides(point, eye)]


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
        assert parameters["distance"] == pytest.approx(0.02 * level)
        assert abs(parameters["yaw"]) == pytest.approx(9 * level)
        assert parameters["object"] in ("bowl_1", "plate_1")


def test_a_task_that_moves_nothing_has_no_displacement() -> None:
    with pytest.raises(VlaError, match="none of the task's objects stands on the workspace"):
        displacement(draw(SUITE.task("turn_on_the_stove"), "displacement", 1, 0))


def test_what_stands_in_or_on_something_is_not_displaced() -> None:
    task = libero_task(
        "libero_spatial", "pick_up_the_black_bowl_in_the_top_drawer_of_the_wooden_cabinet_and_place_it_on_the_plate"
    )
    moved = {displacement(draw(task, "displacement", 1, seed)).parameters["object"] for seed in range(20)}
    assert moved == {"plate_1"}


@given(st.sampled_from(MOVING), st.integers(0, 99), st.integers(0, 9))
def test_levels_of_a_displacement_differ_in_how_much_only(task: Task, seed: int, time: int) -> None:
    first, *others = (displacement(draw(task, "displacement", level, seed, time)).parameters for level in range(1, 6))
    for level, other in enumerate(others, 2):
        assert {name: other[name] for name in ("object", "direction", "with")} == {
            name: first[name] for name in ("object", "direction", "with")
        }
        assert other["distance"] == pytest.approx(level * first["distance"])
        assert other["yaw"] == pytest.approx(level * first["yaw"])


def test_an_episodes_draws_go_around_the_circle_and_take_turns_over_the_objects() -> None:
    task = SUITE.task("put_the_bowl_on_the_plate")
    first = displacement(draw(task, "displacement", 3, 4))
    assert first.redraw is not None
    every = [first.parameters, *(first.redraw(time).parameters for time in range(1, MOST_DRAWS))]
    around = [(each["direction"] - every[0]["direction"]) % 360 for each in every]
    assert around == pytest.approx([36 * time for time in range(10)])
    assert all(0 <= each["direction"] < 360 for each in every)
    assert {each["yaw"] for each in every} == {every[0]["yaw"]}
    names = [each["object"] for each in every]
    assert names[:2] in (["bowl_1", "plate_1"], ["plate_1", "bowl_1"])
    assert names == names[:2] * 5


def world_at(name: str) -> tuple[World, np.ndarray]:
    world = tabletop(name)
    world.reset(0, settle=False)
    return world, np.array(world.init_states[0])


def pose(world: World, state: np.ndarray, name: str) -> np.ndarray:
    address = 1 + world.model.joint(world.scene.body(name).joints[-1]).qposadr[0]
    return np.array(state[address : address + 7])


def moved(world: World, before: np.ndarray, after: np.ndarray) -> list[str]:
    things = [body.name for body in world.scene.bodies if not body.is_fixture]
    return [name for name in things if (pose(world, before, name) != pose(world, after, name)).any()]


@pytest.mark.parametrize("name", [task.name for task in MOVING])
def test_the_record_of_a_displacement_is_what_was_moved_and_where_to(name: str) -> None:
    world, before = world_at(name)
    done, refused = 0, []
    for level, seed, time in itertools.product((1, 3, 5), (0, 1), range(MOST_DRAWS)):
        variation = displacement(draw(SUITE.task(name), "displacement", level, seed, time))
        after = before.copy()
        record = variation.parameters
        try:
            variation.state[0](world.model, world.scene, after)
        except RedrawError as error:
            refused.append(str(error).startswith(f"{record['object']} cannot go {record['distance']:g} m at "))
            refused.append(bool((after == before).all()))
            continue
        done += 1
        assert set(moved(world, before, after)) == {record["object"], *record["with"]}
        old, new = pose(world, before, record["object"]), pose(world, after, record["object"])
        heading = math.radians(record["direction"])
        step = record["distance"] * np.array([math.cos(heading), math.sin(heading), 0.0])
        assert new[:3] - old[:3] == pytest.approx(step, abs=1e-9)
        turn = np.empty(4)
        mujoco.mju_mulQuat(turn, new[3:], old[3:] * [1, -1, -1, -1])
        assert math.degrees(2 * math.atan2(turn[3], turn[0])) == pytest.approx(record["yaw"], abs=1e-3)
        qpos = after[1 : 1 + world.model.nq]
        assert not Clearance(world.model, world.scene).in_the_way(qpos, (record["object"], *record["with"]), 0.009)
        assert (after[1 + world.model.nq :] == before[1 + world.model.nq :]).all()
    assert done
    assert all(refused)


def test_what_stands_on_a_displaced_object_goes_along_and_turns_with_it() -> None:
    world, state = world_at("put_the_box_in_the_bowl")
    box = 1 + world.model.joint(world.scene.body("box_1").joints[-1]).qposadr[0]
    state[box : box + 3] = pose(world, state, "bowl_1")[:3] + np.array([0.01, 0.0, 0.04])
    before = state.copy()
    for direction in range(0, 360, 10):
        with contextlib.suppress(RedrawError):
            displace(world.model, world.scene, state, "bowl_1", 0.03, direction, 90.0, ("box_1",), ())
            break
    assert moved(world, before, state) == ["bowl_1", "box_1"]
    offset = pose(world, state, "box_1")[:3] - pose(world, state, "bowl_1")[:3]
    assert offset == pytest.approx([0.0, 0.01, 0.04], abs=1e-9)


def test_where_another_object_is_in_the_way_it_stays_and_the_draw_is_another() -> None:
    world, state = world_at("put_the_bowl_on_the_stove")
    before = state.copy()
    way = pose(world, state, "plate_1")[:2] - pose(world, state, "bowl_1")[:2]
    distance, direction = float(np.hypot(*way)), math.degrees(math.atan2(way[1], way[0]))
    with pytest.raises(RedrawError, match=r"bowl_1 cannot go .* degrees: plate_1 is in the way"):
        displace(world.model, world.scene, state, "bowl_1", distance, direction, 0.0, (), ())
    assert (state == before).all()


def test_an_object_stays_on_the_workspace() -> None:
    world, state = world_at("put_the_bowl_on_the_stove")
    before = state.copy()
    with pytest.raises(RedrawError, match="bowl_1 cannot go 2 m at 0 degrees: the workspace ends"):
        displace(world.model, world.scene, state, "bowl_1", 2, 0.0, 0.0, (), ())
    assert (state == before).all()


def test_an_object_is_not_displaced_to_where_the_goal_wants_it() -> None:
    world, state = world_at("push_the_plate_to_the_front_of_the_stove")
    (zone,) = (site.name for site in world.scene.sites if "stove_front" in site.name)
    way = world.data.site(zone).xpos[:2] - pose(world, state, "plate_1")[:2]
    distance, direction = float(np.hypot(*way)), math.degrees(math.atan2(way[1], way[0]))
    with pytest.raises(RedrawError, match="the goal wants it there"):
        displace(world.model, world.scene, state, "plate_1", distance, direction, 0.0, (), (zone,))


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
        assert unseen_at_start(world) == ""
