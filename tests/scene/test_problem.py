"""BDDL and CBDDL problems: all real files, every section, every error."""

import math
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_vla.scene.literals import Literal
from pytest_vla.scene.problem import Problem, format_problem, parse_problem, parse_problem_text
from pytest_vla.scene.sections import CameraOffset, Declaration, Mover, Noise, Region
from tests.support.data import data_root, libero_data, needs_data
from tests.support.task_files import TASK


@pytest.fixture(autouse=True)
def _no_warning_passes_unseen() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Of what an earlier test left open, which may be collected here.
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def real_files() -> list[Path]:
    root = data_root()
    return sorted(root.glob("*/bddl_files/**/*.bddl")) if root else []


def corpus(suite: str) -> list[Problem]:
    files = [file for file in real_files() if suite in file.parts]
    return [parse_problem(file) for file in files]


@needs_data
def test_all_libero_files() -> None:
    libero_data()
    problems = corpus("libero")
    assert len(problems) == 130
    assert Counter(problem.name for problem in problems) == {
        "libero_tabletop_manipulation": 20,
        "libero_floor_manipulation": 10,
        "libero_kitchen_tabletop_manipulation": 50,
        "libero_living_room_tabletop_manipulation": 32,
        "libero_study_tabletop_manipulation": 18,
    }
    regions = [region for problem in problems for region in problem.regions]
    assert len(regions) == 1132
    assert sum(len(region.ranges) for region in regions) == 731
    assert sum(region.yaw_rotation != (0.0, 0.0) for region in regions) == 97
    assert sum(region.yaw_rotation == (math.pi, math.pi) for region in regions) == 78
    assert {region.rgba for region in regions} == {(0.0, 0.0, 1.0, 0.0)}
    assert len({item.category for problem in problems for item in problem.fixtures}) == 12
    assert len({item.category for problem in problems for item in problem.objects}) == 26
    assert Counter(literal.predicate for problem in problems for literal in problem.init) == {
        "on": 647, "open": 22, "close": 3, "turnon": 3, "in": 1,
    }  # fmt: skip
    assert Counter(literal.predicate for problem in problems for literal in problem.goal) == {
        "in": 63, "on": 61, "close": 11, "turnon": 8, "open": 7, "turnoff": 1,
    }  # fmt: skip
    assert Counter(len(problem.goal) for problem in problems) == {1: 110, 2: 19, 3: 1}
    assert not any(problem.cost or problem.movers or literal.group for problem in problems for literal in problem.goal)
    dangling = Counter(
        (region.target, region.name)
        for problem in problems
        for region in problem.regions
        if region.target not in {item.name for item in (*problem.fixtures, *problem.objects)}
    )
    assert dangling == {("bowl_drainer_1", "left_region"): 10, ("bowl_drainer_1", "right_region"): 10}


@needs_data
def test_a_libero_file_in_full() -> None:
    folder = libero_data() / "bddl_files" / "libero_goal"
    problem = parse_problem(folder / "open_the_top_drawer_and_put_the_bowl_inside.bddl")
    assert problem.name == "libero_tabletop_manipulation"
    assert problem.domain == "robosuite"
    assert problem.language == "Open the top layer of the drawer and put the bowl inside"
    assert [(item.name, item.category) for item in problem.objects] == [
        ("akita_black_bowl_1", "akita_black_bowl"),
        ("cream_cheese_1", "cream_cheese"),
        ("wine_bottle_1", "wine_bottle"),
        ("plate_1", "plate"),
    ]
    assert [str(literal) for literal in problem.goal] == ["(in akita_black_bowl_1 wooden_cabinet_1_top_region)"]
    assert problem.source.endswith("open_the_top_drawer_and_put_the_bowl_inside.bddl")


@needs_data
def test_all_vla_arena_files() -> None:
    problems = corpus("vla_arena")
    if not problems:
        pytest.skip("needs VLA-Arena's data beside LIBERO's")
    assert len(problems) == 170
    assert Counter(problem.name for problem in problems) == {"tabletop_manipulation": 155, "floor_manipulation": 15}
    regions = [region for problem in problems for region in problem.regions]
    assert (len(regions), sum(len(region.ranges) for region in regions)) == (1264, 1091)
    assert sum(bool(problem.cost) for problem in problems) == 75
    assert Counter(literal.predicate for problem in problems for literal in problem.init) == {
        "on": 787, "in": 18, "open": 44, "turnon": 10,
    }  # fmt: skip
    goals = [literal for problem in problems for literal in problem.goal]
    assert Counter(literal.predicate for literal in goals) == {"on": 133, "in": 45, "close": 7, "open": 1, "not": 1}
    assert [str(literal) for literal in goals if literal.group] == ["(not (on apple_1 ceramic_plate_1))"]
    costs = [literal for problem in problems for literal in problem.cost]
    kept_upstream = Counter(literal.predicate for literal in costs if literal.group == 0)
    assert kept_upstream == {
        "checkgrippercontact": 71, "fall": 64, "incontact": 47, "noton": 21, "checkdistance": 15,
        "checkgripperdistance": 15, "checkgripperdistancepart": 15,
    }  # fmt: skip
    assert Counter(literal.predicate for literal in costs if literal.group) == {"noton": 40}
    movers = [mover for problem in problems for mover in problem.movers]
    assert Counter(mover.motion_type for mover in movers) == {"linear": 18, "circle": 3, "waypoint": 6}
    assert Counter(len(mover.waypoints) for mover in movers if mover.waypoints) == {17: 2, 10: 2, 5: 2}
    centers = {mover.center for mover in movers if mover.motion_type == "circle"}
    assert centers == {(-0.24, -0.21, 0.9), (0.01, 0.16, 0.9)}
    assert sum(len({region.key for region in problem.regions}) < len(problem.regions) for problem in problems) == 5
    assert sum("mug_1" in problem.objects_of_interest for problem in problems) == 1


@needs_data
@pytest.mark.parametrize("file", real_files(), ids=lambda file: "/".join(file.parts[-3:]))
def test_every_real_file_survives_being_written(file: Path) -> None:
    problem = parse_problem(file)
    assert parse_problem_text(format_problem(problem)) == problem


def test_every_section() -> None:
    problem = parse_problem_text(TASK)
    assert problem == Problem(
        name="demo_tabletop",
        domain="robosuite",
        language="Put the Cup on the plate, gently",
        regions=(
            Region("left", "table_1", ((-0.1, 0, 0.1, 0.2), (0, 0, 1, 1)), (-math.pi / 2, math.pi), (1, 0, 0, 0.5)),
            Region("top_side", "stove_1"),
            Region("left", "table_1", ((0, 0, 0, 0),)),
            Region("spare", "gone_1"),
        ),
        fixtures=(Declaration("table_1", "table"), Declaration("stove_1", "flat_stove")),
        objects=(Declaration("cup_1", "cup"), Declaration("cup_2", "cup"), Declaration("plate_1", "plate")),
        objects_of_interest=("cup_1", "mug_9"),
        init=(
            Literal("on", ("cup_1", "table_1_left"), group=0),
            Literal("on", ("cup_2", "plate_1"), group=1),
            Literal("turnon", ("stove_1",), group=2),
        ),
        goal=(
            Literal("on", ("cup_1", "plate_1")),
            Literal("in", ("cup_2", "stove_1_top_side")),
            Literal("not", (Literal("on", ("cup_2", "table_1_left"), group=1),), group=1),
        ),
        cost=(
            Literal("fall", ("cup_1",), group=0),
            Literal("checkgripperdistancepart", ("cup_2", ("13", "0"), 0.01), group=1),
            Literal("checkdistance", ("cup_1", "cup_2", 0.01), group=2),
        ),
        movers=(
            Mover("cup_1", "linear", period=125, travel_dist=0.5, direction=(1, -1, 0)),
            Mover(
                "cup_2", "waypoint", dt=0.5, loop=False, waypoints=(((0, 0, 1), (0, 1, 0)), ((0, 0.5, 1), (0, -1, 0)))
            ),
        ),
        image_settings=(("brightness", 0.4), ("temperature", 5000.0)),
        noise=Noise("gaussian", (0.0, 0.085)),
        camera=(
            CameraOffset("agentview", (0.1, 0.0, -0.05)),
            CameraOffset("robot0_eye_in_hand"),
            CameraOffset("frontview"),
        ),
        random_color=True,
    )
    assert [region.key for region in problem.regions] == [
        "table_1_left", "stove_1_top_side", "table_1_left", "gone_1_spare",
    ]  # fmt: skip
    assert (problem.regions[1].line, problem.regions[1].column) == (7, 5)
    assert (problem.objects[1].line, problem.objects[1].column) == (11, 19)
    assert [(literal.line, literal.column) for literal in problem.goal] == [(18, 15), (18, 34), (18, 63)]
    assert [str(literal) for literal in (*problem.goal, *problem.cost)] == [
        "(on cup_1 plate_1)",
        "(in cup_2 stove_1_top_side)",
        "(not (on cup_2 table_1_left))",
        "(fall cup_1)",
        "(checkgripperdistancepart cup_2 (13 0) 0.01)",
        "(checkdistance cup_1 cup_2 0.01)",
    ]
    assert isinstance(problem.movers[0].period, float)
    assert parse_problem_text(format_problem(problem)) == problem


@pytest.mark.parametrize("written", ["(0 0.5 1 (0 -1 0))", "(0 0.5 1 0 -1 0)"])
def test_waypoints_are_read_as_upstreams_guide_and_paper_write_them_too(written: str) -> None:
    text = TASK.replace("((0 0.5 1) (0 -1 0))", written)
    assert text != TASK
    assert parse_problem_text(text) == parse_problem_text(TASK)


def test_sections_may_stand_in_any_order() -> None:
    text = "(define (:goal (On a b)) (:language go) (:objects a b - cup) (:domain Robosuite) (problem P))"
    problem = parse_problem_text(text)
    assert (problem.name, problem.goal) == ("p", (Literal("on", ("a", "b")),))
    assert not problem.init
    assert not problem.regions


def test_connectives_nest() -> None:
    text = TASK.replace("(Not (On cup_2 table_1_left))", "(Or (And (Up cup_1)) (Not (Up cup_2)))")
    literal = parse_problem_text(text).goal[-1]
    up, down = (Literal("up", (name,), group=1) for name in ("cup_1", "cup_2"))
    assert literal == Literal("or", (Literal("and", (up,), group=1), Literal("not", (down,), group=1)), group=1)
    assert str(literal) == "(or (and (up cup_1)) (not (up cup_2)))"


def test_equal_literals_of_other_places_are_equal() -> None:
    here, there = Literal("fall", ("cup_1",), 1, 2), Literal("fall", ("cup_1",), 3, 4)
    assert here == there
    assert len({here, there}) == 1
