"""LIBERO-PRO's kinds, drawn from the user's YAML: what is taken of it; what is refused with file, task and entry."""

from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.scene.problem import format_problem, parse_problem_text, problem_of
from pytest_vla.suites.libero_pro.edits import place_of
from pytest_vla.suites.libero_pro.tables import FILES
from tests.support.libero_pro_variations import changed, drawn, given


@pytest.fixture
def yaml() -> None:
    pytest.importorskip("yaml", reason="needs PyYAML")


@pytest.mark.usefixtures("yaml")
def test_a_swap_takes_partners_of_the_file_alone(tmp_path: Path) -> None:
    given(tmp_path, "swap", "tabletop:\n  turn_on_the_stove:\n    stove_1:\n      - cabinet_1\n      - gone_1\n")
    for seed in range(4):
        variation = drawn("pro.swap", tmp_path, seed)
        assert variation.parameters["source"] == "LIBERO-PRO's ood_spatial_relation.yaml"
        assert variation.parameters["pairs"] == [["stove_1", "cabinet_1"]]
    before, after = problem_of(load_suite("tabletop").task("turn_on_the_stove")), changed(variation, tmp_path)
    assert place_of(after, "stove_1") == place_of(before, "cabinet_1")
    assert place_of(after, "cabinet_1") == place_of(before, "stove_1")
    assert (after.regions, after.goal) == (before.regions, before.goal)


@pytest.mark.usefixtures("yaml")
def test_a_suite_that_the_file_does_not_have_follows_our_rule_and_a_task_that_it_lacks_is_an_error(
    tmp_path: Path,
) -> None:
    given(tmp_path, "swap", "libero_goal:\n  turn_on_the_stove:\n    stove_1:\n      - cabinet_1\n")
    assert drawn("pro.swap", tmp_path).parameters["source"] == "ours"
    (tmp_path / "other").mkdir()
    given(tmp_path / "other", "swap", "tabletop:\n  turn_on_a_stove:\n    stove_1:\n      - cabinet_1\n")
    with pytest.raises(VlaError, match=r"has no task tabletop/turn_on_the_stove. Did you mean turn_on_a_stove\?"):
        drawn("pro.swap", tmp_path / "other")


@pytest.mark.usefixtures("yaml")
def test_what_stands_nowhere_cannot_be_swapped(tmp_path: Path) -> None:
    given(tmp_path, "swap", "tabletop:\n  turn_on_the_stove:\n    stove_1:\n      - gone_1\n")
    with pytest.raises(VlaError, match="names no two things in this scene"):
        drawn("pro.swap", tmp_path)


NEW_TASK = """tabletop:
  turn_on_the_stove:
    Put the Bowl on the stove:
      goal: (And (On bowl_1 stove_1_cook_region))
      obj_of_interest: [bowl_1, ream_cheese_1]
"""


@pytest.mark.usefixtures("yaml")
def test_another_task_of_the_file_is_read_as_a_problems_goal(tmp_path: Path) -> None:
    variation = drawn("pro.task", given(tmp_path, "task", NEW_TASK))
    assert variation.instruction == "put the bowl on the stove"
    problem = changed(variation, tmp_path)
    assert problem.language == "put the bowl on the stove"
    assert [str(literal) for literal in problem.goal] == ["(on bowl_1 stove_1_cook_region)"]
    assert problem.objects_of_interest == ("bowl_1",)
    (left_out,) = variation.parameters["left_out"]
    assert left_out == "ream_cheese_1, of interest to 'put the bowl on the stove', is not in the scene"
    assert parse_problem_text(format_problem(problem)) == problem


@pytest.mark.usefixtures("yaml")
@pytest.mark.parametrize(
    ("goal", "complaint"),
    [
        ("(On bowl_1 stove_1_cook_region))", r"goal:1:32: expected nothing after the end"),
        ("And (Turnon stove_1) (On bowl_1 plate_1))", r"goal:1:1: expected .*, found 'And'"),
        ("(And (On bowl_1 stove_1_cook_regio))", r"goal:1:17: unknown name .*did you mean stove_1_cook_region"),
        ("(And (Placed bowl_1 plate_1))", r"goal:1:7: unknown predicate"),
        ("()", r"goal:1:1: "),
        ("(And (Turnon stove_1))", "has the task's own goal: it changes nothing"),
    ],
)
def test_a_goal_that_cannot_be_had_is_told_with_file_task_and_entry(tmp_path: Path, goal: str, complaint: str) -> None:
    given(tmp_path, "task", NEW_TASK.replace("(And (On bowl_1 stove_1_cook_region))", goal))
    with pytest.raises(VlaError, match=complaint) as caught:
        drawn("pro.task", tmp_path)
    assert "pro.task of tabletop/turn_on_the_stove: " in str(caught.value)
    if "goal:1" in complaint:
        assert f"{tmp_path / FILES['task']}: tabletop/turn_on_the_stove: 'put the bowl on the stove': " in str(
            caught.value
        )


@pytest.mark.usefixtures("yaml")
def test_of_several_goals_those_that_can_be_read_are_drawn_and_the_others_are_told(tmp_path: Path) -> None:
    broken = "    Close it:\n      goal: (Close gone_1)\n      obj_of_interest: [stove_1]\n"
    given(tmp_path, "task", NEW_TASK + broken)
    for seed in range(6):
        variation = drawn("pro.task", tmp_path, seed)
        assert variation.instruction == "put the bowl on the stove"
        assert "'close it': goal:1:8: unknown name 'gone_1'" in variation.parameters["left_out"][1]


@pytest.mark.usefixtures("yaml")
@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("    electric_stove: [yellow_stove]\n", "electric_stove cannot be replaced: no category yellow_stove"),
        ("    electric_stove: [red_bowl]\n", "no category red_bowl, not in LIBERO-PRO's code either"),
        ("    electric_stove: [flat_stove]\n", "electric_stove cannot be replaced: no asset file of flat_stove"),
        ("    electric_stove: [food_box]\n", "food_box cannot be asked to be turnon"),
        ("    milk: [food_box]\n", "replaces milk, which the scene does not have"),
        ("    electric_stove: [electric_stove]\n", "electric_stove cannot be replaced by itself"),
        ("    electric_stove: []\n", r"electric_stove: expected a list of texts, found \[\]"),
        ("    - electric_stove\n", "expected names, each with a list of names"),
    ],
)
def test_an_object_that_cannot_be_had_says_why(tmp_path: Path, content: str, complaint: str) -> None:
    given(tmp_path, "object", f"tabletop:\n  turn_on_the_stove:\n{content}")
    with pytest.raises(VlaError, match=complaint):
        drawn("pro.object", tmp_path)


@pytest.mark.usefixtures("yaml")
def test_of_several_objects_those_that_can_be_had_are_drawn(tmp_path: Path) -> None:
    lines = "    ceramic_bowl: [red_bowl, dinner_plate]\n    food_box:\n    - glass_bottle\n"
    given(tmp_path, "object", f"tabletop:\n  turn_on_the_stove:\n{lines}")
    for seed in range(4):
        variation = drawn("pro.object", tmp_path, seed)
        assert variation.parameters["categories"] == {"ceramic_bowl": "dinner_plate", "food_box": "glass_bottle"}
        assert variation.parameters["unavailable"] == ["no category red_bowl, not in LIBERO-PRO's code either"]
        assert variation.instruction is None


@pytest.mark.usefixtures("yaml")
def test_an_environment_of_the_file_is_upstreams_and_the_file_must_be_right(tmp_path: Path) -> None:
    given(
        tmp_path, "environment", "tabletop:\n  turn_on_the_stove: [main_table]\n  put_the_bowl_on_the_plate: [floor]\n"
    )
    variation = drawn("pro.environment_upstream", tmp_path)
    problem = changed(variation, tmp_path)
    assert variation.parameters["environment"] == problem.name == "libero_living_room_tabletop_manipulation"
    assert {region.target for region in problem.regions} >= {"living_room_table", "stove_1"}
    assert "main_table" not in format_problem(problem)
    with pytest.raises(VlaError, match="gives the environment floor, but it is main_table"):
        drawn("pro.environment_upstream", tmp_path, task="put_the_bowl_on_the_plate")


@pytest.mark.usefixtures("yaml")
@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ("    a task: (And (Turnon stove_1))\n", r"'a task': expected goal and obj_of_interest, found '\(And"),
        ("    a task: {goal: 3, obj_of_interest: [a]}\n", "'a task': its goal is no text: 3"),
        ("    a task: {goal: (On a b), obj_of_interest: a}\n", "'a task': obj_of_interest: expected a list of texts"),
        ("    a (task): {goal: (On a b), obj_of_interest: [a]}\n", r"the instruction 'a \(task\)' has \( or \) or ;"),
        ("    - a task\n", "expected instructions, each with goal and obj_of_interest"),
    ],
)
def test_a_malformed_task_is_told(tmp_path: Path, entry: str, complaint: str) -> None:
    given(tmp_path, "task", f"tabletop:\n  turn_on_the_stove:\n{entry}")
    with pytest.raises(VlaError, match=rf"is malformed at tabletop/turn_on_the_stove: {complaint}"):
        drawn("pro.task", tmp_path)
