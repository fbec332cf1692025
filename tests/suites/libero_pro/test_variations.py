"""LIBERO-PRO's kinds: drawn from the user's YAML where there is one, by rules of ours elsewhere; seeded, and told."""

import hashlib
import re
import shutil
from pathlib import Path

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import load_suite, suite_folder
from pytest_vla.scene.problem import Problem, format_problem, parse_problem_text
from pytest_vla.scene.task_files import problem_of
from pytest_vla.scene.variation import Variation
from pytest_vla.suites.libero_pro.edits import dangling, place_of, workspace_regions
from pytest_vla.suites.libero_pro.tables import FILES, OURS, Name, as_bddl, load_table
from pytest_vla.suites.libero_pro.variations import KINDS, ORDER
from pytest_vla.vary.registry import find_variation
from tests.support.data import data_root, libero_data, needs_data

FILE = FILES["semantic"]
NAMED = {kind.name: kind for kind in KINDS}
STOVE = "libero_goal:\n  turn_on_the_stove:\n"
SCENE5 = "LIVING_ROOM_SCENE5_put_the_white_mug_on_the_left_plate_and_put_the_yellow_and_white_mug_on_the_right_plate"


@pytest.fixture(autouse=True)
def _no_data_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_VLA_DATA", raising=False)


@pytest.fixture
def yaml() -> None:
    pytest.importorskip("yaml", reason="needs PyYAML")


def drawn(
    label: str, data: Path | None, seed: int = 0, suite: str = "tabletop", task: str = "turn_on_the_stove"
) -> Variation:
    """The variation of a label."""
    found = find_variation(load_suite(suite, data=data).task(task), label, seed)
    assert found is not None
    return found


def changed(
    variation: Variation, data: Path | None, suite: str = "tabletop", task: str = "turn_on_the_stove"
) -> Problem:
    """The problem under a variation."""
    problem = problem_of(load_suite(suite, data=data).task(task))
    for edit in variation.problem:
        problem = edit(problem)
    return problem


def given(folder: Path, name: Name, content: str) -> Path:
    """A data folder with one of LIBERO-PRO's files."""
    (folder / "assets").mkdir(exist_ok=True)
    (folder / FILES[name]).write_text(content)
    return folder


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
            *("object", "swap", "semantic", "task", "environment"),
            *("displace_x", "displace_y", "combined"),
        )
    ]
    assert all(kind.published for kind in KINDS)
    assert [kind.name for kind in KINDS if kind.alone] == ["pro.task"]
    assert [kind.name for kind in KINDS if not kind.scene] == ["pro.semantic"]
    assert len(NAMED["pro.combined"].labels()) == 6 + 4 + 1
    assert not any("task" in label for label in NAMED["pro.combined"].labels())


@pytest.mark.parametrize("label", ["pro.swap", "pro.task", "pro.displace_x-L1", "pro.displace_y-L1"])
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
    with pytest.raises(VlaError, match="no object of interest has another of like size"):
        drawn("pro.object", gift_box, task="put_the_bowl_on_the_plate")


def test_a_table_of_another_height_is_not_put_under_fixtures() -> None:
    with pytest.raises(VlaError, match=r"pro.environment of tabletop/turn_on_the_stove: its fixtures .* would sink"):
        drawn("pro.environment", None)


def test_a_goal_that_holds_at_the_start_is_no_other_task() -> None:
    for seed in range(30):
        goal = drawn("pro.task", None, seed, task="open_the_middle_drawer_of_the_cabinet").parameters["goal"]
        assert goal != ["(close cabinet_1_bottom_region)"]
    with pytest.raises(VlaError, match="no other task of tabletop has another goal in this scene"):
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
    with pytest.raises(VlaError, match="names no two things that stand in this scene"):
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
        ("    electric_stove: [food_box]\n", "food_box cannot be told to be turnon"),
        ("    milk: [food_box]\n", "replaces milk, of which the scene has none"),
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
    variation = drawn("pro.environment", tmp_path)
    problem = changed(variation, tmp_path)
    assert variation.parameters["environment"] == problem.name == "libero_living_room_tabletop_manipulation"
    assert {region.target for region in problem.regions} >= {"living_room_table", "stove_1"}
    assert "main_table" not in format_problem(problem)
    with pytest.raises(VlaError, match="says that the environment is floor, but it is main_table"):
        drawn("pro.environment", tmp_path, task="put_the_bowl_on_the_plate")


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
    # Upstream's is one, and a fixture leaves one.
    assert drawn("pro.environment", data_root(), suite="libero_object", task=task).redraw is None
    assert drawn("pro.environment", tmp_path, suite="libero_goal").redraw is None


@needs_data
@pytest.mark.usefixtures("yaml")
def test_all_four_go_together_in_upstreams_order() -> None:
    suite, task = "libero_goal", "open_the_top_drawer_and_put_the_bowl_inside"
    label = f"pro.combined.{'-'.join(ORDER)}"
    for seed in range(6):
        variation = drawn(label, data_root(), seed, suite, task)
        problem = changed(variation, data_root(), suite, task)
        assert problem.name == "libero_living_room_tabletop_manipulation"
        assert variation.instruction == drawn("pro.semantic", data_root(), seed, suite, task).instruction
        assert [str(each) for each in problem.goal] == [f"(in white_bowl_1 {_cabinet(problem)}_top_region)"]
        assert (dangling(problem), parse_problem_text(format_problem(problem))) == ((), problem)


def _cabinet(problem: Problem) -> str:
    return next(item.name for item in problem.fixtures if item.category.endswith("cabinet"))


@needs_data
@pytest.mark.usefixtures("yaml")
def test_the_published_paraphrases_have_one_malformed_entry_of_120() -> None:
    root = data_root()
    assert root is not None
    found = load_table("semantic", root / "libero_pro" / FILE)
    assert {len(texts) for texts in found.entries.values()} == {3}
    assert len(found.entries) == 39
    assert set(found.malformed) == {("libero_10", SCENE5)}
    (complaint,) = found.malformed["libero_10", SCENE5]
    assert complaint.startswith("entry 3 of 3 is a mapping, as ': ' stands in a text without quotes: {'set mugs'")
    assert sum("\u2019" in text for texts in found.entries.values() for text in texts) == 4


@needs_data
@pytest.mark.usefixtures("yaml")
def test_the_published_files_have_as_many_entries_as_the_specification_counts() -> None:
    root = data_root()
    assert root is not None
    tables = {name: load_table(name, root / "libero_pro" / file) for name, file in FILES.items()}
    assert all(not table.malformed for name, table in tables.items() if name != "semantic")
    partners = [partner for entries in tables["swap"].entries.values() for _, names in entries for partner in names]
    assert len(partners) == 151
    counts = {
        suite: sorted(len(entries) for (other, _), entries in tables["task"].entries.items() if other == suite)
        for suite in ("libero_goal", "libero_spatial", "libero_10", "libero_object")
    }
    assert counts == {
        "libero_goal": [1] * 6 + [2] * 4,
        "libero_spatial": [1] * 10,
        "libero_10": [1] * 3 + [2] * 7,
        "libero_object": [1] * 10,
    }


@needs_data
@pytest.mark.usefixtures("yaml")
def test_every_task_of_the_published_paraphrases_is_varied_but_the_malformed_one() -> None:
    for suite in ("libero_goal", "libero_spatial", "libero_object", "libero_10"):
        for task in load_suite(suite, data=data_root()).tasks:
            if task.name == SCENE5:
                for seed in range(6):
                    with pytest.raises(VlaError, match=f"is malformed at libero_10/{SCENE5}: entry 3 of 3 is a map"):
                        drawn("pro.semantic", data_root(), seed, suite, task.name)
                continue
            texts = {drawn("pro.semantic", data_root(), seed, suite, task.name).instruction for seed in range(30)}
            assert len(texts) == 3
            assert task.language not in texts


def paraphrased(data: Path | None, seed: int, task: str = "turn_on_the_stove") -> Variation:
    return drawn("pro.semantic", data, seed, "libero_goal", task)


@pytest.mark.usefixtures("yaml")
def test_the_seed_draws_a_paraphrase_and_the_record_says_which(tmp_path: Path) -> None:
    content = f"{STOVE}    - Switch  ON the stove\n    - turn the stove on\n    - ignite the stove\n"
    (tmp_path / FILE).write_text(content)
    texts = ["switch on the stove", "turn the stove on", "ignite the stove"]
    for seed in range(12):
        variation = paraphrased(tmp_path, seed)
        assert (variation.label, variation.dimension, variation.kind) == ("pro.semantic", "pro", "semantic")
        assert variation.instruction == texts[variation.parameters["index"]]
        assert variation.parameters["source"] == f"LIBERO-PRO's {FILE}"
        assert variation.parameters["digest"] == hashlib.sha256(content.encode()).hexdigest()[:16]
        assert variation.parameters["original"] == "turn on the stove"
        assert not variation.changes_world
        assert paraphrased(tmp_path, seed) == variation
    assert {paraphrased(tmp_path, seed).instruction for seed in range(12)} == set(texts)


@pytest.mark.usefixtures("yaml")
@pytest.mark.parametrize("place", [".", "libero_pro", "libero_ood", "LIBERO-PRO", "LIBERO-PRO/libero_ood"])
def test_the_file_is_found_in_data_and_in_a_checkout(tmp_path: Path, place: str) -> None:
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    (tmp_path / place / FILE).write_text(f"{STOVE}    - ignite the stove\n")
    assert paraphrased(tmp_path, 0).instruction == "ignite the stove"


@pytest.mark.usefixtures("yaml")
def test_the_environment_says_where_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / FILE).write_text(f"{STOVE}    - ignite the stove\n")
    monkeypatch.setenv("PYTEST_VLA_DATA", str(tmp_path))
    assert paraphrased(None, 0).instruction == "ignite the stove"
    (tmp_path / "other").mkdir()
    assert paraphrased(tmp_path / "other", 0).instruction == "ignite the stove"


def test_without_the_file_a_paraphrase_is_one_of_ours() -> None:
    found = [drawn("pro.semantic", None, seed) for seed in range(20)]
    assert len({each.instruction for each in found}) > 10
    assert all(each.instruction not in (None, "turn on the stove") for each in found)
    assert {each.parameters["source"] for each in found} == {OURS}
    assert found[3] == drawn("pro.semantic", None, 3)
    together = drawn("pro.combined.swap-semantic", None, 3, task="put_the_bowl_on_the_plate")
    alone = drawn("pro.semantic", None, 3, task="put_the_bowl_on_the_plate")
    assert (together.instruction, together.parameters["semantic.source"]) == (alone.instruction, OURS)


@pytest.mark.usefixtures("yaml")
@pytest.mark.parametrize(
    ("entries", "complaint"),
    [
        ("    - fine\n    - set mugs: white on left\n", "entry 2 of 2 is a mapping, as ': ' stands in a text without"),
        ("    - yes\n", "entry 1 of 1 is no text: True"),
        ("    - 3\n    - fine\n    - ''\n", "entry 1 of 3 is no text: 3; entry 3 of 3 is no text: ''"),
        ("    - ignite (the stove)\n", r"entry 1 of 1 has \( or \) or ;, which no BDDL text can"),
        ("    ignite the stove\n", "expected a list of texts, found 'ignite the stove'"),
        ("    []\n", r"expected a list of texts, found \[\]"),
    ],
)
def test_a_malformed_entry_is_an_error_of_its_task_alone(tmp_path: Path, entries: str, complaint: str) -> None:
    (tmp_path / FILE).write_text(f"{STOVE}{entries}  put_the_bowl_on_the_plate:\n    - bowl to plate\n")
    for seed in range(4):
        with pytest.raises(VlaError, match=rf"is malformed at libero_goal/turn_on_the_stove: {complaint}"):
            paraphrased(tmp_path, seed)
    assert paraphrased(tmp_path, 0, task="put_the_bowl_on_the_plate").instruction == "bowl to plate"


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


@pytest.mark.usefixtures("yaml")
@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("a: [", "cannot be read as YAML"),
        ("a: 2001-99-99", "cannot be read as YAML"),
        ("- a\n", "expected LIBERO-PRO's ood_language.yaml: suites, each with tasks"),
        ("", "expected LIBERO-PRO's ood_language.yaml: suites, each with tasks"),
        ("libero_goal: text\n", "expected LIBERO-PRO's ood_language.yaml: suites, each with tasks"),
        ("libero_goal:\n  1:\n    - text\n", "expected LIBERO-PRO's ood_language.yaml: suites, each with tasks"),
        ("[" * 5000, "cannot be read as YAML"),
    ],
)
def test_a_file_that_is_no_such_yaml_is_refused(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / FILE).write_text(content)
    with pytest.raises(VlaError, match=complaint):
        paraphrased(tmp_path, 0)


@pytest.mark.usefixtures("yaml")
def test_nothing_in_the_file_is_evaluated(tmp_path: Path) -> None:
    sign = tmp_path / "sign"
    (tmp_path / FILE).write_text(f"{STOVE}    - !!python/object/apply:pathlib.Path.touch ['{sign}']\n")
    with pytest.raises(VlaError, match="cannot be read as YAML"):
        paraphrased(tmp_path, 0)
    assert not sign.exists()


@pytest.mark.usefixtures("yaml")
def test_a_task_that_the_file_lacks_is_told_with_close_ones(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("libero_goal:\n  turn_on_a_stove:\n    - ignite the stove\n")
    with pytest.raises(VlaError, match=r"no task libero_goal/turn_on_the_stove. Did you mean turn_on_a_stove\?"):
        paraphrased(tmp_path, 0)
    # Of a suite that the file does not have it says nothing.
    assert drawn("pro.semantic", tmp_path, 0).parameters["source"] == OURS


@pytest.mark.usefixtures("yaml")
def test_a_text_that_is_the_tasks_own_is_no_variation(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(f"{STOVE}    - Turn on the stove\n")
    with pytest.raises(VlaError, match="changes nothing"):
        paraphrased(tmp_path, 0)


def test_a_text_is_as_upstreams_bddl_reader_has_it() -> None:
    assert as_bddl(" Open\tthe  cabinet\u2019s\nDrawer ") == "open the cabinet\u2019s drawer"
