"""BDDL and CBDDL problems: all real files, every section, every error."""

import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.errors import SceneError
from pytest_vla.scene.literals import Literal
from pytest_vla.scene.problem import (
    CameraOffset,
    Declaration,
    Mover,
    Noise,
    Problem,
    Region,
    VlaWarning,
    format_problem,
    parse_problem,
    parse_problem_text,
)
from tests.support.data import data_root, libero_data, needs_data

LOCATED = re.compile(r"\A<string>:[1-9]\d*:[1-9]\d*: \S")

TASK = """(define (problem Demo_Tabletop)
  (:domain robosuite)
  (:language Put the Cup  on the
    plate, gently)
  (:regions
    (left (:target table_1) (:ranges ((-0.1 0 0.1 .2) (0 0 1 1))) (:yaw_rotation ((-pi/2 pi))) (:rgba (1 0 0 0.5)))
    (top_side (:target stove_1))
    (left (:target table_1) (:ranges ((0 0 0 0))))
    (spare (:target gone_1)))
  (:fixtures table_1 - table  stove_1 - flat_stove)
  (:objects Cup_1 cup_2 - cup plate_1 - plate)
  (:moving_objects
    (cup_1 (:motion_type linear) (:motion_period 125) (:motion_travel_dist 0.5) (:motion_direction (1 -1 0)))
    (cup_2 (:motion_type waypoint) (:motion_dt 0.5) (:motion_loop false)
      (:motion_waypoints (((0 0 1) (0 1 0)) ((0 0.5 1) (0 -1 0))))))
  (:obj_of_interest cup_1 mug_9)
  (:init (On cup_1 table_1_left) (On cup_2 plate_1) (Turnon stove_1))
  (:goal (And (On cup_1 plate_1) (In cup_2 stove_1_top_side)) (Not (On cup_2 table_1_left)))
  (:cost (Fall cup_1) (CheckGripperDistancePart cup_2 (13 0) 0.01) (CheckDistance cup_1 cup_2 1e-2))
  (:image_settings brightness 0.4 temperature 5000)
  (:noise gaussian 0 0.085)
  (:camera agentview 0.1 0 -0.05 robot0_eye_in_hand frontview)
  (:random_color True)
)
"""


@pytest.fixture(autouse=True)
def _no_warning_passes_unseen() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
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


# What of TASK is replaced, and by what, with a mark before what is at fault; the message's start; another part of it.
ERRORS = [
    ("define", "¶defun", "expected '(define (problem NAME) ...)', found 'defun'", ""),
    ("(define (problem Demo_Tabletop)", "¶(define", "this problem has no section problem", "add (problem ...)"),
    ("(problem Demo_Tabletop)", "¶(problem A B)", "expected (problem NAME), found 2 names", ""),
    ("(problem Demo_Tabletop)", "(problem ¶(A))", "expected a name", ""),
    (
        "(define (problem Demo_Tabletop)\n  (:domain robosuite)",
        "¶(define (problem Demo_Tabletop)",
        "this problem has no section :domain",
        "",
    ),
    ("(:domain robosuite)", "¶(:domain blocks)", "expected (:domain robosuite), found 'blocks'", ""),
    ("(:domain robosuite)", "¶(:domain)", "expected (:domain robosuite), found 0 names", ""),
    ("(:domain robosuite)", "(:domain robosuite) ¶(:domain robosuite)", "the section :domain stands twice", "line 2"),
    ("(:domain robosuite)", "¶robosuite", "expected a section such as (:goal ...), found 'robosuite'", ""),
    ("(:domain robosuite)", "¶()", "expected a section such as (:goal ...), found '()'", ""),
    ("(:domain robosuite)", "¶((:domain robosuite))", "expected a section", "found a group of groups"),
    (
        "(:domain robosuite)",
        "(:domain robosuite) (¶:obstacles a)",
        "unknown section ':obstacles'",
        "expected one of :camera, :cost, :domain",
    ),
    ("gently", "¶(gently)", "expected a word of the instruction", "no parentheses"),
    ("(:language Put the Cup  on the\n    plate, gently)", "¶(:language)", "expected an instruction in :language", ""),
    (
        "plate, gently)\n  (:regions",
        "plate, gently\n  (¶:regions",
        "':regions' stands inside another section; close that with ')' first",
        "",
    ),
    ("(spare (:target gone_1))", "¶spare", "expected a region such as (NAME (:target TABLE)), found 'spare'", ""),
    ("(spare (:target gone_1))", "¶(spare)", "the region 'spare' has no target; add (:target NAME)", ""),
    ("(:target gone_1)", "¶(:target a b)", "expected (:target NAME), found 2 values", ""),
    ("(:target gone_1)", "(:target a) ¶(:target b)", "the region has :target twice", ""),
    ("(:target gone_1)", "(:target a) (¶:range ((0 0 0 0)))", "unknown attribute of a region ':range'", "mean :ranges"),
    ("(:target gone_1)", "(:target a) ¶b", "expected an attribute of the region such as (:target ...), found 'b'", ""),
    ("(spare ", "(¶sp@re ", "expected a region's name of letters", ""),
    ("(-0.1 0 0.1 .2", "¶(-0.1 0 0.1", "expected a rectangle (X0 Y0 X1 Y1), found 3 values", ""),
    ("(-0.1 0 0.1 .2", "¶(0.1 0 -0.1 .2", "expected X0 <= X1", "found 0.1 > -0.1; swap them"),
    ("(-0.1 0 0.1 .2", "¶(-0.1 0.3 0.1 .2", "expected Y0 <= Y1", ""),
    ("-0.1 0 0.1 .2", "-0.1 0 0.1 ¶wide", "expected a number, found 'wide'", "3*pi/4"),
    ("-0.1 0 0.1 .2", "-0.1 0 0.1 ¶nan", "expected a number, found 'nan'", ""),
    ("((0 0 0 0))", "¶()", "expected (:ranges ((X0 Y0 X1 Y1) ...)), found no rectangle", ""),
    ("(:ranges ((0 0 0 0)))", "¶(:ranges 0 0 0 0)", "expected (:ranges ((X0 Y0 X1 Y1) ...)), found 4 values", ""),
    ("((0 0 0 0))", "(¶0 0 0 0)", "expected a rectangle (X0 Y0 X1 Y1), found '0'", ""),
    ("((-pi/2 pi))", "¶((pi -pi/2))", "expected LOW <= HIGH", "swap them"),
    ("((-pi/2 pi))", "¶((0 1) (1 2))", "expected (:yaw_rotation ((LOW HIGH))), found 2 values", ""),
    ("(:rgba (1 0 0 0.5))", "¶(:rgba (1 0 0 2))", "expected (:rgba (R G B A)) from 0 to 1", ""),
    ("stove_1 - flat_stove", "¶stove_1", "expected '- CATEGORY' after 'stove_1'", ""),
    ("stove_1 - flat_stove", "stove_1 ¶-", "expected a category after '-'", ""),
    ("stove_1 - flat_stove", "¶- flat_stove", "expected a name before '-'", ""),
    ("stove_1 - flat_stove", "¶stove_1 -flat_stove", "expected '- CATEGORY' after 'stove_1'", ""),
    ("stove_1 - flat_stove", "¶(stove_1) - flat_stove", "expected a name, found the group that starts with", ""),
    ("plate_1 - plate", "¶cup_1 - plate", "'cup_1' is declared twice (first in line 11)", ""),
    ("plate_1 - plate", "¶stove_1 - plate", "'stove_1' is declared twice (first in line 10)", ""),
    ("plate_1 - plate", "¶pláte_1 - plate", "expected a name of letters", ""),
    ("(cup_1 (:motion_type linear) ", "¶(cup_1 ", "the mover 'cup_1' has no motion", ""),
    ("(:motion_type linear)", "(:motion_type ¶linea)", "unknown type of motion 'linea'", "did you mean linear?"),
    ("(:motion_type linear)", "(:motion_type ¶(linear))", "expected a type of motion", ""),
    ("(:motion_period 125)", "(¶:motion_perod 125)", "unknown attribute of a mover ':motion_perod'", "motion_period"),
    ("(:motion_period 125)", "(:motion_period ¶slow)", "expected a number", ""),
    ("(:motion_period 125)", "¶(:motion_period 1 2)", "expected (:motion_period NUMBER), found 2 values", ""),
    ("(1 -1 0)", "¶(1 -1)", "expected (:motion_direction (NUMBER NUMBER NUMBER)), found 2 values", ""),
    (
        "(:motion_direction (1 -1 0))",
        "¶(:motion_direction 1 -1 0)",
        "expected (:motion_direction (NUMBER NUMBER NUMBER)), found 3 values",
        "",
    ),
    ("    (cup_2 (:motion", "    ¶(cup_1 (:motion", "'cup_1' is moved twice (first in line 13)", ""),
    ("    (cup_2 (:motion", "    (¶cup_3 (:motion", "unknown object 'cup_3'", "did you mean cup_"),
    ("    (cup_2 (:motion", "    (¶stove_1 (:motion", "unknown object 'stove_1': only what :objects declares", ""),
    ("(:motion_loop false)", "(:motion_loop ¶no)", "expected true or false, found 'no'", ""),
    ("(((0 0 1) (0 1 0)) ((0 0.5 1) (0 -1 0)))", "¶(((0 0 1) (0 1 0)))", "expected (:motion_waypoints", "found 1"),
    ("((0 0.5 1) (0 -1 0))", "¶(0 0.5 1 0 -1 0)", "expected (:motion_waypoints", "a waypoint of 6 values"),
    ("(On cup_1 table_1_left)", "¶cup_1", "expected a literal such as (On bowl_1 plate_1), found 'cup_1'", ""),
    (
        "(On cup_1 table_1_left)",
        "(¶Up cup_1)",
        "unknown predicate of :init 'Up'",
        "one of close, in, on, open, turnoff",
    ),
    ("(On cup_1 table_1_left)", "(¶And (On cup_1 plate_1))", "unknown predicate of :init 'And'", ""),
    (
        "(On cup_1 table_1_left)",
        "(On cup_1 ¶gone_1_spare)",
        "unknown name 'gone_1_spare': this region's target",
        "'gone_1'",
    ),
    (
        "(And (On cup_1 plate_1)",
        "(And (On cup_1 ¶plate_2)",
        "unknown name 'plate_2': no object, fixture or region",
        "did you mean plate_1",
    ),
    ("(And (On cup_1 plate_1)", "(And ¶(On cup_1)", "expected (On NAME NAME), found 1 argument", ""),
    ("(And (On cup_1 plate_1)", "(And (On cup_1 ¶(plate_1))", "expected the name of an object", ""),
    ("(And (On cup_1 plate_1)", "(And (¶Onn cup_1 plate_1)", "unknown predicate 'Onn'; did you mean on", ""),
    ("(And (On cup_1 plate_1)", "(And (¶Stack cup_1 plate_1)", "unknown predicate 'Stack'", ""),
    ("(And (On cup_1 plate_1)", "(And ¶And (On cup_1 plate_1)", "expected a literal, found 'And'", ""),
    ("(And (On cup_1 plate_1)", "(And ¶() (On cup_1 plate_1)", "expected a predicate, found '()'", ""),
    (
        "(Not (On cup_2 table_1_left))",
        "¶(Not)",
        "expected at least one literal in the group that starts with 'Not'",
        "",
    ),
    ("(Not (On cup_2 table_1_left))", "¶(Not (Up cup_1) (Up cup_2))", "expected one literal in 'Not', found 2", ""),
    ("(Not (On cup_2 table_1_left))", "¶(And)", "expected at least one literal", ""),
    ("(13 0) 0.01", "¶13 0.01", "expected a list of geom numbers such as (2 3 13), found '13'", ""),
    ("(13 0) 0.01", "¶() 0.01", "expected geom numbers such as (2 3 13), found '()'", ""),
    ("(13 0) 0.01", "(13 ¶x) 0.01", "expected geom numbers such as (2 3 13), found 'x'", ""),
    ("(13 0) 0.01", "(13 ¶07) 0.01", "expected geom numbers such as (2 3 13), found '07'", ""),
    ("(13 0) 0.01", "(13 0) ¶near", "expected a number, found 'near'", ""),
    (
        "brightness 0.4 temperature",
        "brightness ¶temperature",
        "expected a number after 'brightness', found 'temperature'",
        "",
    ),
    ("temperature 5000", "¶temperature", "expected a number after 'temperature'", ""),
    ("temperature 5000", "¶brightness 1", "'brightness' is set twice", ""),
    ("temperature 5000", "¶gamma 1", "unknown image setting 'gamma'", "one of brightness, contrast, saturation"),
    (
        "(:noise gaussian 0 0.085)",
        "¶(:noise)",
        "expected (:noise gaussian MEAN VARIANCE) or (:noise salt_pepper PROBABILITY)",
        "",
    ),
    (
        "(:noise gaussian 0 0.085)",
        "¶(:noise gaussian 0)",
        "expected (:noise gaussian MEAN VARIANCE)",
        "found 1 numbers",
    ),
    ("gaussian 0 0.085", "gaussian 0 ¶-1", "expected a variance, found -1.0", ""),
    ("gaussian 0 0.085", "salt_pepper ¶1.5", "expected a probability, found 1.5", ""),
    ("gaussian 0 0.085", "¶uniform 0 1", "unknown noise 'uniform'", ""),
    ("agentview 0.1 0 -0.05 robot0", "agentview 0.1 0 ¶robot0", "expected three numbers after 'agentview', found", ""),
    ("agentview 0.1 0 -0.05", "¶0.1 0 0.2", "expected a camera's name, found '0.1'", ""),
    ("frontview", "¶frontview 1 2", "expected three numbers after 'frontview', found 2", ""),
    ("frontview", "¶agentview", "the camera 'agentview' is listed twice", ""),
    ("True", "¶maybe", "expected true or false, found 'maybe'", ""),
    ("(:random_color True)", "¶(:random_color true false)", "expected true or false, found 2 values", ""),
]


def place(marked: str) -> str:
    """The line and column of the mark in `marked`, as errors write them."""
    before = marked.partition("¶")[0].split("\n")
    return f"{len(before)}:{len(before[-1]) + 1}"


@pytest.mark.parametrize(("old", "new", "start", "part"), ERRORS, ids=[f"{old}->{new}"[:60] for old, new, *_ in ERRORS])
def test_errors_say_where_what_and_how_to_mend(old: str, new: str, start: str, part: str) -> None:
    assert old in TASK
    marked = TASK.replace(old, new, 1)
    with pytest.raises(SceneError) as caught:
        parse_problem_text(marked.replace("¶", ""), source="demo.bddl")
    assert str(caught.value).startswith(f"demo.bddl:{place(marked)}: {start}")
    assert part in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(("section", "line"), [(":goal", 18), (":cost", 19)])
@pytest.mark.parametrize("content", ["", "(And)"])
def test_a_condition_that_would_hold_at_once_is_an_error(section: str, line: int, content: str) -> None:
    text = re.sub(rf"\({section} .*\n", f"({section} {content})\n", TASK)
    with pytest.raises(SceneError, match=rf"^<string>:{line}:\d+: expected a"):
        parse_problem_text(text)


@pytest.mark.parametrize(
    ("old", "new", "warning", "change"),
    [
        ("(:domain robosuite)", "(:domain robosuite) (¶:obstacles (a))", "unknown section ':obstacles'", {}),
        ("(:rgba (1", "(¶:shine 3) (:rgba (1", "unknown attribute of a region ':shine'", {}),
        (
            "(Turnon stove_1)",
            "(¶Hot stove_1 (1 2) 3)",
            "unknown predicate of :init 'Hot'",
            {
                "init": (
                    Literal("on", ("cup_1", "table_1_left")),
                    Literal("on", ("cup_2", "plate_1"), group=1),
                    Literal("hot", ("stove_1", ("1", "2"), "3"), group=2),
                )
            },
        ),
        (
            "(Turnon stove_1)",
            "(¶Up cup_1)",
            "unknown predicate of :init 'Up'",
            {
                "init": (
                    Literal("on", ("cup_1", "table_1_left")),
                    Literal("on", ("cup_2", "plate_1"), group=1),
                    Literal("up", ("cup_1",), group=2),
                )
            },
        ),
        ("(On cup_1 plate_1)", "(On cup_1 ¶plate_2)", "unknown name 'plate_2'", None),
        ("(On cup_1 plate_1)", "(On cup_1 ¶gone_1_spare)", "unknown name 'gone_1_spare'", None),
        ("temperature 5000", "¶gamma 2", "unknown image setting 'gamma'", {"image_settings": (("brightness", 0.4),)}),
        ("gaussian 0 0.085", "¶uniform 0 1", "unknown noise 'uniform'", {"noise": None}),
        ("(:motion_period 125)", "(:motion_period 125) (¶:motion_x 1)", "unknown attribute of a mover ':motion_x'", {}),
    ],
)
def test_compat_warns_of_what_is_unknown(old: str, new: str, warning: str, change: dict[str, Any] | None) -> None:
    marked = TASK.replace(old, new, 1)
    text = marked.replace("¶", "")
    with pytest.raises(SceneError):
        parse_problem_text(text)
    with pytest.warns(VlaWarning) as caught:
        problem = parse_problem_text(text, compat=True)
    assert len(caught) == 1
    assert str(caught[0].message).startswith(f"<string>:{place(marked)}: {warning}")
    if change is None:
        assert str(problem.goal[0]) == new.replace("¶", "").replace("On", "on")
    else:
        assert problem == replace(parse_problem_text(TASK), **change)


@pytest.mark.parametrize(
    ("old", "new"),
    [("0.1 .2", "0.1"), ("On cup_1 plate_1", "On"), ("(:domain robosuite)", ""), ("125", "slow"), ("- plate", "")],
)
def test_compat_does_not_excuse_what_is_wrong(old: str, new: str) -> None:
    with pytest.raises(SceneError, match=LOCATED):
        parse_problem_text(TASK.replace(old, new, 1), compat=True)


# --- files ---


@pytest.mark.parametrize(("mark", "newline"), [(b"\xef\xbb\xbf", b"\n"), (b"", b"\r\n"), (b"\xef\xbb\xbf", b"\r\n")])
def test_byte_order_marks_and_line_ends_do_not_matter(tmp_path: Path, mark: bytes, newline: bytes) -> None:
    file = tmp_path / "demo.bddl"
    file.write_bytes(mark + TASK.encode().replace(b"\n", newline))
    problem = parse_problem(file)
    assert problem == parse_problem_text(TASK)
    assert problem.source == str(file)
    assert (problem.goal[0].line, problem.goal[0].column) == (18, 15)


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"\xff(define", "1:1"),
        (b"(define\r\n  \xc3\xa9\xe9)", "2:4"),
        (b"\xef\xbb\xbfa\n\n\xc3", "3:1"),
        (b"\xef\xbb\xbf\xff", "1:1"),
    ],
)
def test_bytes_that_are_no_text_are_a_located_error(tmp_path: Path, data: bytes, place: str) -> None:
    file = tmp_path / "demo.bddl"
    file.write_bytes(data)
    with pytest.raises(SceneError) as caught:
        parse_problem(str(file))
    assert str(caught.value).startswith(f"{file}:{place}: expected UTF-8 text, found the byte 0x")


@pytest.mark.parametrize("path", ["missing.bddl", ".", "nul\0.bddl"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, path: str) -> None:
    with pytest.raises(SceneError) as caught:
        parse_problem(tmp_path / path)
    assert str(caught.value).startswith(f"{tmp_path / path}: cannot read this task file: ")


def test_a_file_of_any_size_is_refused_without_reading_all(tmp_path: Path) -> None:
    file = tmp_path / "huge.bddl"
    with file.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(SceneError, match=r"huge\.bddl:1:1: more than 8388608 bytes are too many"):
        parse_problem(file)
