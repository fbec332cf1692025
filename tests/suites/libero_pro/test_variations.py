"""LIBERO-PRO's kinds by rules of ours: seeded, swept, drawn anew, and together."""

import re
import shutil
from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite, suite_folder
from pytest_vla.scene.problem import Problem, format_problem, parse_problem_text, problem_of
from pytest_vla.suites.libero_pro.edits import dangling, place_of, workspace_regions
from pytest_vla.suites.libero_pro.variations import KINDS, ORDER
from pytest_vla.vary.registry import find_variation, labels_of, parse_vary
from tests.support.data import data_root, libero_data, needs_data
from tests.support.libero_pro_variations import changed, drawn

NAMED = {kind.name: kind for kind in KINDS}


@pytest.fixture
def yaml() -> None:
    pytest.importorskip("yaml", reason="needs PyYAML")


@pytest.fixture
def gift_box(tmp_path: Path) -> Path:
    """A data folder with a category that is like the built-in food box."""
    tabletop = suite_folder("tabletop")
    assert tabletop is not None
    own = tabletop / "assets/objects/food_box"
    folder = tmp_path / "assets" / "objects" / "gift_box"
    shutil.copytree(own, folder)
    (folder / "food_box.xml").rename(folder / "gift_box.xml")
    return tmp_path


def test_the_kinds_are_named_and_another_task_goes_with_nothing() -> None:
    assert list(NAMED) == [
        f"pro.{name}"
        for name in (
            *("object", "swap", "semantic", "task", "environment", "environment_upstream"),
            *("displace_x", "displace_y", "displace_map", "unrelated", "composed", "combined"),
        )
    ]
    assert all(kind.published for kind in KINDS)
    assert [kind.name for kind in KINDS if kind.alone] == ["pro.task", "pro.composed"]
    assert [kind.name for kind in KINDS if kind.probe] == ["pro.unrelated"]
    assert [kind.name for kind in KINDS if not kind.scene] == ["pro.semantic"]
    assert len(NAMED["pro.combined"].labels()) == 6 + 4 + 1
    assert [kind.name for kind in KINDS if kind.by_name] == ["pro.displace_map", "pro.unrelated", "pro.composed"]
    of_dimension = {label.split("-")[0] for label in parse_vary("pro")}
    assert not any(label.startswith(("pro.displace_map", "pro.unrelated", "pro.composed")) for label in of_dimension)
    assert parse_vary("pro.composed") == ("pro.composed.second", "pro.composed.both")
    assert len(parse_vary("pro.displace_map")) == 120
    assert not any("task" in label for label in NAMED["pro.combined"].labels())


@pytest.mark.parametrize(
    "label", ["pro.swap", "pro.task", "pro.displace_x-L1", "pro.displace_y-L1", "pro.composed.both"]
)
def test_what_is_drawn_follows_from_task_and_seed_and_the_edited_problem_is_a_problem(label: str) -> None:
    made, told = 0, []
    for task in load_suite("tabletop").tasks:
        for seed in range(3):
            try:
                variation = drawn(label, None, seed, task=task.name)
            except VlaError as error:
                told.append(f"{label} of tabletop/{task.name}: " in str(error))
                continue
            made += 1
            again = drawn(label, None, seed, task=task.name)
            assert (variation.parameters, variation.instruction) == (again.parameters, again.instruction)
            assert variation.parameters["source"] == "ours"
            problem = changed(variation, None, task=task.name)
            assert problem != problem_of(task)
            assert parse_problem_text(format_problem(problem)) == problem
            assert dangling(problem) == ()
    assert made >= 12
    assert all(told)


def test_no_draw_of_a_task_is_forced_where_there_is_a_choice() -> None:
    goals = {str(drawn("pro.task", None, seed).parameters["goal"]) for seed in range(12)}
    pairs = {
        str(drawn("pro.swap", None, seed, task="put_the_bowl_on_the_plate").parameters["pairs"]) for seed in range(12)
    }
    assert len(goals) > 3
    assert len(pairs) > 1


def test_another_object_is_of_like_size_and_named_in_the_instruction(gift_box: Path) -> None:
    variation = drawn("pro.object", gift_box, task="put_the_box_in_the_bowl")
    assert variation.parameters == {"source": "ours", "categories": {"food_box": "gift_box"}}
    assert variation.instruction == "put the gift box in the bowl"
    before = problem_of(load_suite("tabletop").task("put_the_box_in_the_bowl"))
    problem = changed(variation, gift_box, task="put_the_box_in_the_bowl")
    assert [item.category for item in problem.objects] == [
        {"food_box": "gift_box"}.get(item.category, item.category) for item in before.objects
    ]
    assert parse_problem_text(format_problem(problem)) == problem
    with pytest.raises(VlaError, match="no replacement of similar size"):
        drawn("pro.object", gift_box, task="put_the_bowl_on_the_plate")


def test_an_unrelated_thing_stands_for_the_object_under_the_old_instruction(gift_box: Path) -> None:
    folder = gift_box / "assets" / "objects" / "gift_box"
    (folder / "gift_box.xml").rename(folder / "present.xml")
    folder.rename(folder.with_name("present"))
    task = "put_the_box_in_the_bowl"
    variation = drawn("pro.unrelated", gift_box, task=task)
    assert (variation.instruction, variation.probe) == (None, True)
    assert variation.parameters["categories"] == {"food_box": "present"}
    assert {item.name: item.category for item in changed(variation, gift_box, task=task).objects}["box_1"] == "present"
    with pytest.raises(VlaError, match="no unrelated thing"):
        drawn("pro.unrelated", None, task="turn_on_the_stove")


def test_both_goals_of_a_scene_are_the_two_that_are_asked_for_alone() -> None:
    seen = set()
    for seed in range(6):
        both, second = (drawn(f"pro.composed.{part}", None, seed) for part in ("both", "second"))
        own = problem_of(load_suite("tabletop").task("turn_on_the_stove"))
        assert changed(both, None).goal == (*own.goal, *changed(second, None).goal)
        assert both.instruction == f"turn on the stove and {second.instruction}"
        assert (both.kind, second.kind) == ("composed_both", "composed_second")
        seen.add(second.instruction)
    assert len(seen) > 2
    with pytest.raises(VlaError, match="no second goal for this scene"):
        drawn("pro.composed.both", None, task="close_the_bottom_drawer_of_the_cabinet")


@needs_data
def test_a_scene_with_one_task_gets_its_second_goal_from_another_object() -> None:
    task = "pick_up_the_milk_and_place_it_in_the_basket"
    variation = drawn("pro.composed.both", data_root(), suite="libero_object", task=task)
    first, second = variation.parameters["goal"]
    assert first == "(in milk_1 basket_1_contain_region)"
    assert second == f"(in {variation.parameters['other']} basket_1_contain_region)"
    assert "basket_1" not in variation.parameters["other"]


@pytest.mark.parametrize(("part", "wanted"), [("1_0", [0.1, 0.0]), ("m1_2", [-0.1, 0.2]), ("m2_m1", [-0.2, -0.1])])
def test_a_place_of_the_map_is_what_its_label_says(part: str, wanted: list[float]) -> None:
    assert len(NAMED["pro.displace_map"].labels()) == 120
    made = drawn(f"pro.displace_map.{part}", None)
    assert made.parameters["displacement"] == wanted
    before, after = problem_of(load_suite("tabletop").task("turn_on_the_stove")), changed(made, None)
    old, new = (workspace_regions(each)[place_of(each, "stove_1") or ""].ranges[0] for each in (before, after))
    assert [round(there - here, 6) for here, there in zip(old, new, strict=True)] == wanted * 2


def test_a_place_without_room_is_refused() -> None:
    with pytest.raises(VlaError, match=r"stove_1 cannot be moved there: cabinet_1 is in its way"):
        drawn("pro.displace_map.2_m3", None)


def test_a_table_of_another_height_is_not_put_under_fixtures() -> None:
    with pytest.raises(VlaError, match=r"pro.environment of tabletop/turn_on_the_stove: its fixtures .* would sink"):
        drawn("pro.environment", None)


def test_a_goal_that_holds_at_the_start_is_no_other_task() -> None:
    for seed in range(30):
        goal = drawn("pro.task", None, seed, task="open_the_middle_drawer_of_the_cabinet").parameters["goal"]
        assert goal != ["(close cabinet_1_bottom_region)"]
    with pytest.raises(VlaError, match="tabletop has no task with another goal in this scene"):
        drawn("pro.task", None, task="close_the_bottom_drawer_of_the_cabinet")


@pytest.mark.parametrize("axis", ["x", "y"])
def test_a_displacement_grows_by_a_tenth_of_a_metre_a_level(axis: str) -> None:
    task = "open_the_top_drawer_and_put_the_bowl_inside"
    seen, told = [], []
    for level in range(1, 6):
        try:
            variation = drawn(f"pro.displace_{axis}-L{level}", None, task=task)
        except VlaError as error:
            told.append(str(error))
            continue
        seen.append(level)
        assert variation.level == level
        before, after = problem_of(load_suite("tabletop").task(task)), changed(variation, None, task=task)
        old = workspace_regions(before)[place_of(before, "bowl_1") or ""].ranges[0]
        new = workspace_regions(after)[place_of(after, "bowl_1") or ""].ranges[0]
        shift = [round(there - here, 6) for here, there in zip(old, new, strict=True)]
        wanted = [0.1 * level, 0.0] if axis == "x" else [0.0, 0.1 * level]
        assert [abs(each) for each in shift] == pytest.approx(wanted * 2)
        assert shift[:2] == variation.parameters["displacement"]
        assert before.goal == after.goal
        assert not variation.in_sight
        assert variation.redraw is not None
        assert variation.redraw(1).level == level
    assert seen
    assert all("bowl_1 cannot be displaced along" in each for each in told)


def sweep(task: str, axis: str, data: Path | None, suite: str, seed: int = 0) -> list[float]:
    """Displacements along an axis of the levels that can be had."""
    found, told = [], []
    for level in range(1, 6):
        try:
            made = drawn(f"pro.displace_{axis}-L{level}", data, seed, suite, task)
        except VlaError as error:
            told.append(str(error))
            continue
        found.append(made.parameters["displacement"]["xy".index(axis)])
    assert all(re.search(r"would leave|in its way|in the robot", each) and "picture" not in each for each in told)
    return found


@pytest.mark.parametrize("axis", ["x", "y"])
def test_a_sweep_stays_on_one_side_at_all_levels_and_seeds(axis: str) -> None:
    for task in load_suite("tabletop").tasks:
        steps = sweep(task.name, axis, None, "tabletop")
        assert len({step > 0 for step in steps}) <= 1
        assert sweep(task.name, axis, None, "tabletop", seed=1) == steps


@needs_data
def test_far_levels_of_a_sweep_are_had_though_the_camera_does_not_see_them() -> None:
    names = [task.name for task in load_suite("libero_object", data=data_root()).tasks]
    steps = [abs(step) for name in names for step in sweep(name, "y", data_root(), "libero_object")]
    assert [steps.count(level / 10) for level in range(3, 6)] == [10, 10, 10]


def test_a_combination_is_its_parts_with_the_same_seed(gift_box: Path) -> None:
    task = "put_the_box_in_the_bowl"
    for seed in range(4):
        together = drawn("pro.combined.swap-object", gift_box, seed, task=task)
        swap, other = (drawn(f"pro.{name}", gift_box, seed, task=task) for name in ("swap", "object"))
        assert together.instruction == other.instruction
        assert together.parameters == {
            **{f"swap.{name}": value for name, value in swap.parameters.items()},
            **{f"object.{name}": value for name, value in other.parameters.items()},
        }
        problem = changed(swap, gift_box, task=task)
        for edit in other.problem:
            problem = edit(problem)
        assert changed(together, gift_box, task=task) == problem
        assert dangling(problem) == ()


def test_a_combination_is_drawn_anew_where_one_of_its_parts_is(gift_box: Path) -> None:
    task = "put_the_box_in_the_bowl"
    together, swap = (drawn(label, gift_box, task=task) for label in ("pro.combined.swap-object", "pro.swap"))
    assert together.redraw is not None
    assert swap.redraw is not None
    seen = set()
    for time in range(1, 10):
        again, part = together.redraw(time), swap.redraw(time)
        assert again.label == together.label
        assert again.parameters["swap.pairs"] == part.parameters["pairs"]
        # What has nothing to draw anew stays.
        assert again.parameters["object.categories"] == together.parameters["object.categories"]
        assert (
            changed(again, gift_box, task=task).init != changed(drawn("pro.object", gift_box, task=task), gift_box).init
        )
        seen.add(str(again.parameters["swap.pairs"]))
        assert again.redraw is not None
        assert again.redraw(time).parameters == again.parameters
    assert len(seen) > 1


@needs_data
@pytest.mark.usefixtures("yaml")
def test_a_combination_of_what_is_not_drawn_anew_is_not_either() -> None:
    label, task = "pro.combined.environment-semantic", "turn_on_the_stove"
    assert drawn(label, data_root(), suite="libero_goal", task=task).redraw is None
    swapped = drawn("pro.combined.swap-semantic", data_root(), suite="libero_goal", task=task)
    assert swapped.redraw is not None
    assert swapped.redraw(3).instruction == swapped.instruction


@needs_data
@pytest.mark.usefixtures("yaml")
def test_an_environment_is_drawn_anew_where_there_are_others(tmp_path: Path) -> None:
    (tmp_path / "libero").symlink_to(libero_data())
    task = "pick_up_the_ketchup_and_place_it_in_the_basket"
    ours = drawn("pro.environment", tmp_path, suite="libero_object", task=task)
    assert ours.redraw is not None
    redrawn = [ours.redraw(time).parameters["environment"] for time in range(1, 10)]
    assert len(set(redrawn)) == 3
    # LIBERO-PRO's file names no other environments: they are drawn with it too. Upstream's is one.
    with_file = drawn("pro.environment", data_root(), suite="libero_object", task=task)
    assert with_file.redraw is not None
    found = {with_file.redraw(time).parameters["environment"] for time in range(1, 10)}
    assert found == set(redrawn)
    assert drawn("pro.environment_upstream", data_root(), suite="libero_object", task=task).redraw is None
    assert drawn("pro.environment", tmp_path, suite="libero_goal").redraw is None


@needs_data
@pytest.mark.usefixtures("yaml")
def test_only_the_protocol_upstream_takes_the_codes_one_environment() -> None:
    task = load_suite("libero_10", data=data_root()).task(
        "LIVING_ROOM_SCENE5_put_the_white_mug_on_the_left_plate_and_put_the_yellow_and_white_mug_on_the_right_plate"
    )
    labels = {name: labels_of(task, ["pro.environment"], name) for name in ("ours", "paper", "upstream")}
    assert labels == {
        "ours": ("pro.environment",),
        "paper": ("pro.environment",),
        "upstream": ("pro.environment_upstream",),
    }
    # Its living room is what the code puts everywhere: nothing would change there, and five others can be drawn from.
    with pytest.raises(VlaError, match="it is that already"):
        find_variation(task, "pro.environment_upstream", 0)
    variation = find_variation(task, "pro.environment", 0)
    assert variation is not None
    assert variation.parameters["environment"] != "libero_living_room_tabletop_manipulation"


@needs_data
@pytest.mark.usefixtures("yaml")
def test_all_four_go_together_in_upstreams_order() -> None:
    suite, task = "libero_goal", "open_the_top_drawer_and_put_the_bowl_inside"
    label = f"pro.combined.{'-'.join(ORDER)}"
    for seed in range(6):
        variation = drawn(label, data_root(), seed, suite, task)
        problem = changed(variation, data_root(), suite, task)
        assert problem.name == drawn("pro.environment", data_root(), seed, suite, task).parameters["environment"]
        assert variation.instruction == drawn("pro.semantic", data_root(), seed, suite, task).instruction
        assert [str(each) for each in problem.goal] == [f"(in white_bowl_1 {_cabinet(problem)}_top_region)"]
        assert (dangling(problem), parse_problem_text(format_problem(problem))) == ((), problem)


def _cabinet(problem: Problem) -> str:
    return next(item.name for item in problem.fixtures if item.category.endswith("cabinet"))
