"""LIBERO-Plus's layouts: by its rules on LIBERO's tasks, and from its own files."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.problem import Problem, format_problem, problem_of
from pytest_vla.scene.workspaces import workspace
from pytest_vla.suites.libero_plus.layout import (
    DISTRACTORS,
    draw_added,
    draw_level,
    given_layout,
    given_start,
    shifted,
    unknown_categories,
    with_objects,
)
from pytest_vla.suites.libero_plus.names import SUITES, PlusTask, parse_name
from tests.support.data import data_root, libero_data

pytestmark = pytest.mark.usefixtures("_data")


@pytest.fixture
def _data() -> None:
    libero_data()


def tasks() -> list[Task]:
    return [task for suite in SUITES for task in load_suite(suite, data=data_root()).tasks]


def entry_of(task: Task, suffix: str) -> PlusTask:
    moved = "moved_" if task.files == "libero_goal" and suffix.startswith("level") else ""
    return parse_name(f"{task.name}_{moved}{suffix}")


def centres(problem: Problem) -> dict[str, tuple[float, float]]:
    found = {region.key: region.ranges[0] for region in problem.regions if region.ranges}
    return {key: ((x0 + x1) / 2, (y0 + y1) / 2) for key, (x0, y0, x1, y1) in found.items()}


RADII: dict[str, Callable[[str], float]] = {
    "libero_spatial": lambda name: 0.05,
    "libero_object": lambda name: 0.15,
    "libero_goal": lambda name: 0.10,
    "libero_10": lambda name: 0.10 if name.startswith("LIVING_ROOM_SCENE1_") else 0.05,
}
PLACED = {"akita_black_bowl_region": (0.35, 0.05), "cream_cheese_region": (0.15, 0.10), "wine_bottle_region": (0, 0.05)}


@pytest.mark.parametrize("level", [1, 5])
def test_every_region_moves_by_itself_within_its_disc(level: int) -> None:
    norms: list[float] = []
    for task in tasks():
        original, radius = problem_of(task), RADII[task.files](task.name) * level / 5
        for sample in range(1, 5):
            drawn = draw_level(task, entry_of(task, f"level{level}_sample{sample}"))
            changed = shifted(drawn["shifts"])(original)
            assert drawn["radius"] == pytest.approx(radius)
            before, after = centres(original), centres(changed)
            assert before.keys() == after.keys()
            for region, other in zip(original.regions, changed.regions, strict=True):
                assert (region.name, region.target, region.yaw_rotation) == (
                    other.name,
                    other.target,
                    other.yaw_rotation,
                )
                assert bool(region.ranges) == bool(other.ranges)
                for one, two in zip(region.ranges, other.ranges, strict=True):
                    assert (two[2] - two[0], two[3] - two[1]) == pytest.approx((one[2] - one[0], one[3] - one[1]))
                if region.ranges:
                    expected = PLACED.get(region.name, (0, 0)) if task.files == "libero_goal" else (0, 0)
                    start = np.add(before[region.key], expected)
                    norms.append(math.dist(start, after[region.key]) / radius)
            assert changed.objects == original.objects
            assert changed.goal == original.goal
            assert {key: tuple(shift) for key, *shift in drawn["shifts"]} == {
                key: pytest.approx(np.subtract(after[key], before[key])) for key in before
            }
    assert max(norms) <= 1.0 + 1e-3 / radius
    # Evenly in the disc, of which a few are left out where things would stand in each other.
    assert 0.6 < np.mean(norms) < 0.7
    assert len({round(norm, 6) for norm in norms}) > 0.9 * len(norms)


def test_an_entry_is_drawn_once_and_for_another_time_anew() -> None:
    task = load_suite("libero_object", data=data_root()).tasks[0]
    entry = entry_of(task, "level3_sample2")
    first, again = draw_level(task, entry), draw_level(task, entry)
    assert first == again
    assert draw_level(task, entry, 1)["shifts"] != first["shifts"]
    assert draw_level(task, entry_of(task, "level3_sample3"))["shifts"] != first["shifts"]


def test_added_objects_stand_in_slots_apart_from_all_others() -> None:
    for task in tasks():
        original = problem_of(task)
        table = workspace(original.name, original.source).name
        for number in (1, 6, 7, 18, 19, 25, 30):
            entry = entry_of(task, f"add_{number}")
            drawn = draw_added(task, entry, DISTRACTORS)
            changed = with_objects(original, drawn["added"])
            count = 1 + (number - 1) // 6
            assert drawn["count"] == count == len(changed.objects) - len(original.objects)
            assert changed.objects[: len(original.objects)] == original.objects
            assert changed.init[: len(original.init)] == original.init
            assert (changed.goal, changed.regions[: len(original.regions)]) == (original.goal, original.regions)
            names = [item.name for item in (*changed.objects, *changed.fixtures)]
            assert len(set(names)) == len(names)
            added = {item.category.removeprefix("new_") for item in changed.objects[len(original.objects) :]}
            assert not added & {item.category.removeprefix("new_") for item in original.objects}
            before, after = centres(original), centres(changed)
            used = {str(literal.arguments[-1]) for literal in original.init}
            for index in range(count):
                key = f"{table}_add_object_region_{index}"
                apart = [
                    math.dist(after[key], place) for other, place in after.items() if other != key and other in used
                ]
                assert min(apart) >= 0.097
                assert key not in before
            assert format_problem(changed).count("add_object_region") == 2 * count


def test_categories_are_repeated_only_where_there_are_too_few() -> None:
    task = load_suite("libero_goal", data=data_root()).tasks[0]
    entry = entry_of(task, "add_30")
    assert len({category for category, *_ in draw_added(task, entry, DISTRACTORS)["added"]}) == 5
    drawn = draw_added(task, entry, ("ketchup", "milk"))
    assert sorted(category for category, *_ in drawn["added"]) in (
        ["ketchup"] * 2 + ["milk"] * 3,
        ["ketchup"] * 3 + ["milk"] * 2,
    )
    names = [item.name for item in with_objects(problem_of(task), drawn["added"]).objects[-5:]]
    assert {"ketchup_1", "ketchup_2", "milk_1", "milk_2"} < set(names)
    with pytest.raises(VlaError, match="has no room for 5 more objects, or none are available"):
        draw_added(task, entry, ("cream_cheese",))


def test_a_layout_of_its_own_file_is_taken_whole(tmp_path: Path) -> None:
    task = load_suite("libero_goal", data=data_root()).task("turn_on_the_stove")
    theirs = with_objects(problem_of(task), draw_added(task, entry_of(task, "add_12"), DISTRACTORS)["added"])
    file = tmp_path / "turn_on_the_stove_add_12.bddl"
    file.write_text(format_problem(theirs))
    assert given_layout(file)(problem_of(task)) == theirs
    known = frozenset(item.category for item in problem_of(task).objects)
    assert unknown_categories(file, known) == tuple(sorted({item.category for item in theirs.objects} - known))
    assert unknown_categories(file, known | frozenset(DISTRACTORS)) == ()
    unknown = unknown_categories(file, known)
    file.write_text(f"; a comment, for which it has to be parsed: (:objects x_1 - x)\n{file.read_text()}")
    assert unknown_categories(file, known) == unknown
    file.write_text("(define (problem x))")
    with pytest.raises(SceneError, match=r"turn_on_the_stove_add_12.bddl:1:1"):
        given_layout(file)(problem_of(task))


def test_a_start_of_its_own_file_is_taken_whole(tmp_path: Path) -> None:
    file = tmp_path / "state.npy"
    np.save(file, np.arange(9.0))
    assert given_start(file)().tolist() == [list(range(9))]
