"""LIBERO-PRO's edits of problems: names stay consistent, what is not edited stays, and the result reads back."""

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.errors import SceneError, VlaError
from pytest_vla.plan.manifests import load_suite
from pytest_vla.scene.problem import Problem, format_problem, parse_problem, parse_problem_text, problem_of
from pytest_vla.scene.workspaces import WORKSPACES, workspace
from pytest_vla.suites.libero_pro.edits import (
    dangling,
    displaced,
    goal_of,
    moved_to,
    place_of,
    replaced,
    swapped,
    tasked,
    workspace_regions,
)
from tests.support.data import data_root
from tests.support.examples import scaled

SCENE = """(define (problem LIBERO_Tabletop_Manipulation)
  (:domain robosuite)
  (:language put the bowl on the plate)
  (:regions
    (left (:target main_table) (:ranges ((-0.1 0 0.1 0.2))) (:yaw_rotation ((0 1))))
    (right (:target main_table) (:ranges ((0.2 0 0.3 0.1) (0.2 0.2 0.3 0.3))))
    (back (:target main_table) (:ranges ((-0.3 0 -0.2 0.1))))
    (top_region (:target wooden_cabinet_1))
    (spare (:target gone_1)))
  (:fixtures main_table - table wooden_cabinet_1 - wooden_cabinet)
  (:objects plate_1 plate_2 - plate bowl - white_bowl yellow_plate_1 - yellow_plate)
  (:obj_of_interest plate_1 wooden_cabinet_1_top_region gone_2)
  (:init (On plate_1 main_table_left) (On wooden_cabinet_1 main_table_back) (On plate_2 plate_1)
    (On bowl main_table_right) (Open wooden_cabinet_1_top_region))
  (:goal (And (On bowl plate_1) (Not (In plate_2 wooden_cabinet_1_top_region))))
  (:cost (Fall plate_2) (CheckDistance plate_1 bowl 0.1))
)
"""


@cache
def scene() -> Problem:
    return parse_problem_text(SCENE)


@cache
def problems() -> tuple[Problem, ...]:
    """Those of the built-in suite, and LIBERO's, where its data is there."""
    own = [problem_of(task) for task in load_suite("tabletop").tasks]
    root = data_root()
    files = sorted((root / "libero" / "bddl_files").glob("libero_[1ogs]*/*.bddl")) if root is not None else []
    return (scene(), *own, *map(parse_problem, files))


def is_whole(problem: Problem) -> bool:
    return dangling(problem) == () and parse_problem_text(format_problem(problem)) == problem


@given(st.data())
@settings(max_examples=scaled(150))
def test_a_swap_exchanges_two_facts_alone_and_swaps_back(data: st.DataObject) -> None:
    problem = data.draw(st.sampled_from(problems()))
    standing = [item.name for item in (*problem.fixtures, *problem.objects) if place_of(problem, item.name)]
    one, other = data.draw(st.permutations(standing))[:2]
    if place_of(problem, one) == other or place_of(problem, other) == one:
        with pytest.raises(VlaError, match="cannot be swapped with a thing that stands on it"):
            swapped(problem, ((one, other),))
        return
    changed = swapped(problem, ((one, other),))
    assert place_of(changed, one) == place_of(problem, other)
    assert place_of(changed, other) == place_of(problem, one)
    differing = [fact for fact, new in zip(problem.init, changed.init, strict=True) if fact != new]
    assert len(differing) == 2
    assert swapped(changed, ((other, one),)) == problem
    assert (changed.regions, changed.goal, changed.objects) == (problem.regions, problem.goal, problem.objects)
    assert is_whole(changed)


@given(st.data())
@settings(max_examples=scaled(100))
def test_another_workspace_takes_all_that_was_on_this_and_gives_it_back(data: st.DataObject) -> None:
    problem = data.draw(st.sampled_from(problems()))
    name = data.draw(st.sampled_from([name for name in WORKSPACES if name != problem.name]))
    changed = moved_to(problem, name)
    here, there = workspace(problem.name, ""), workspace(name, "")
    assert is_whole(changed)
    assert there.category in {item.category for item in changed.fixtures}
    if here.name != there.name:
        assert here.name not in {region.target for region in changed.regions}
    ranges = {region.name: region.ranges for region in workspace_regions(problem).values()}
    assert {region.name: region.ranges for region in workspace_regions(changed).values()} == ranges
    assert moved_to(changed, problem.name) == problem


@given(st.data())
@settings(max_examples=scaled(150))
def test_replaced_categories_are_gone_from_everywhere(data: st.DataObject) -> None:
    problem = data.draw(st.sampled_from(problems()))
    place = workspace(problem.name, "").category
    there = sorted({item.category for item in (*problem.fixtures, *problem.objects)} - {place})
    old = data.draw(st.sets(st.sampled_from(there), min_size=1, max_size=3))
    news = st.sampled_from(["black_bowl", "yellow_plate", "milk", *there])
    categories = {name: data.draw(news.filter(lambda new, name=name: new != name)) for name in sorted(old)}
    changed = replaced(problem, categories)
    assert is_whole(changed)
    for before, after in ((problem.fixtures, changed.fixtures), (problem.objects, changed.objects)):
        wanted = [categories.get(item.category, item.category) for item in before]
        assert [item.category for item in after] == wanted
        assert [item.name for item, new in zip(before, after, strict=True) if item.category == new.category] == [
            new.name for item, new in zip(before, after, strict=True) if item.category == new.category
        ]
    counts = [[len(each.init), len(each.goal), len(each.regions)] for each in (problem, changed)]
    assert counts[0] == counts[1]


@given(st.data())
@settings(max_examples=scaled(100))
def test_a_displacement_moves_one_thing_by_so_much(data: st.DataObject) -> None:
    problem = data.draw(st.sampled_from(problems()))
    regions = workspace_regions(problem)
    names = [item.name for item in (*problem.fixtures, *problem.objects) if place_of(problem, item.name) in regions]
    name = data.draw(st.sampled_from(names))
    x, y = data.draw(st.tuples(*[st.sampled_from([-0.5, -0.1, 0.0, 0.2, 0.3])] * 2).filter(any))
    changed = displaced(displaced(problem, name, x, y), name, x, y)
    old = regions[place_of(problem, name) or ""]
    new = workspace_regions(changed)[place_of(changed, name) or ""]
    for before, after in zip(old.ranges, new.ranges, strict=True):
        assert after == pytest.approx([before[0] + 2 * x, before[1] + 2 * y, before[2] + 2 * x, before[3] + 2 * y])
    assert new.yaw_rotation == old.yaw_rotation
    assert changed.regions[: len(problem.regions)] == problem.regions
    assert [place_of(changed, other) for other in names if other != name] == [
        place_of(problem, other) for other in names if other != name
    ]
    assert changed.goal == problem.goal
    assert is_whole(changed)


def test_names_of_a_category_follow_it_and_others_stay() -> None:
    changed = replaced(scene(), {"plate": "yellow_plate", "white_bowl": "red_bowl", "wooden_cabinet": "white_cabinet"})
    assert [(item.name, item.category) for item in changed.objects] == [
        ("yellow_plate_2", "yellow_plate"),
        ("yellow_plate_3", "yellow_plate"),
        ("bowl", "red_bowl"),
        ("yellow_plate_1", "yellow_plate"),
    ]
    assert [item.name for item in changed.fixtures] == ["main_table", "white_cabinet_1"]
    assert changed.objects_of_interest == ("yellow_plate_2", "white_cabinet_1_top_region", "gone_2")
    assert [str(fact) for fact in changed.init] == [
        "(on yellow_plate_2 main_table_left)",
        "(on white_cabinet_1 main_table_back)",
        "(on yellow_plate_3 yellow_plate_2)",
        "(on bowl main_table_right)",
        "(open white_cabinet_1_top_region)",
    ]
    assert [str(each) for each in changed.goal] == [
        "(on bowl yellow_plate_2)",
        "(not (in yellow_plate_3 white_cabinet_1_top_region))",
    ]
    assert [str(each) for each in changed.cost] == ["(fall yellow_plate_3)", "(checkdistance yellow_plate_2 bowl 0.1)"]
    assert changed.language == scene().language


def test_two_categories_that_are_replaced_by_each_other_change_places() -> None:
    changed = replaced(scene(), {"plate": "yellow_plate", "yellow_plate": "plate"})
    assert [item.name for item in changed.objects] == ["yellow_plate_1", "yellow_plate_2", "bowl", "plate_1"]
    assert str(changed.init[2]) == "(on yellow_plate_2 yellow_plate_1)"


def test_a_goal_that_is_text_reads_as_a_problems_own() -> None:
    goal = goal_of("(And (On plate_1 main_table_right) (Close wooden_cabinet_1_top_region))", scene(), "a file")
    assert [str(each) for each in goal] == ["(on plate_1 main_table_right)", "(close wooden_cabinet_1_top_region)"]
    changed = tasked(scene(), "another", goal, ("plate_1",))
    assert (changed.language, changed.goal, changed.objects_of_interest) == ("another", goal, ("plate_1",))
    assert is_whole(changed)
    with pytest.raises(SceneError, match=r"\Aa file:1:10: unknown name 'gone_1_spare': this region's target 'gone_1'"):
        goal_of("(Fall gone_1_spare)".replace("Fall", "On bowl"), scene(), "a file")


@pytest.mark.parametrize(
    ("edit", "complaint"),
    [
        (
            lambda: swapped(scene(), (("plate_2", "plate_1"),)),
            "plate_1 cannot be swapped with a thing that stands on it",
        ),
        (
            lambda: swapped(scene(), (("plate_1", "yellow_plate_1"),)),
            "yellow_plate_1 cannot be swapped: :init has no .On",
        ),
        (lambda: swapped(scene(), (("plate_1", "bowl"), ("bowl", "plate_2"))), "each can be swapped once"),
        (lambda: moved_to(scene(), scene().name), "cannot be moved to itself: that changes nothing"),
        (lambda: moved_to(scene(), "libero_bathroom"), "unknown problem class 'libero_bathroom'"),
        (lambda: replaced(scene(), {"milk": "plate"}), "nothing of category milk: replacing it changes nothing"),
        (lambda: replaced(scene(), {"plate": "plate"}), "plate cannot be replaced by itself: that changes nothing"),
        (lambda: tasked(scene(), "again", scene().goal, ()), "has the task's own goal: it changes nothing"),
        (lambda: displaced(scene(), "plate_2", 0.1, 0), "plate_2 cannot be displaced by .*: it stands on no region"),
        (lambda: displaced(scene(), "plate_1", 0, 0), "or stays"),
    ],
)
def test_an_edit_that_cannot_be_made_or_changes_nothing_is_an_error(
    edit: Callable[[], Problem], complaint: str
) -> None:
    with pytest.raises(VlaError, match=complaint):
        edit()


def test_what_stands_at_one_place_is_not_swapped() -> None:
    both = parse_problem_text(SCENE.replace("(On bowl main_table_right)", "(On bowl main_table_left)"))
    with pytest.raises(VlaError, match="share one place: swapping them changes nothing"):
        swapped(both, (("plate_1", "bowl"),))


def test_a_name_that_the_scene_has_is_not_given_twice() -> None:
    clash = parse_problem_text(SCENE.replace("yellow_plate_1 - yellow_plate", "kitchen_table - yellow_plate"))
    with pytest.raises(VlaError, match="kitchen_table: the scene has something of that name already"):
        moved_to(clash, "libero_kitchen_tabletop_manipulation")
