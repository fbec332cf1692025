"""What is wrong with a task file is said with its place and how to mend it."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.errors import SceneError
from pytest_vla.scene.bddl import VlaWarning
from pytest_vla.scene.literals import Literal
from pytest_vla.scene.problem import parse_problem, parse_problem_text
from tests.support.task_files import LOCATED, TASK


@pytest.fixture(autouse=True)
def _no_warning_passes_unseen() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Of what an earlier test left open, which may be collected here.
        warnings.simplefilter("ignore", ResourceWarning)
        yield


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
    ("(:domain robosuite)", "(:domain robosuite) ¶(:domain robosuite)", "the section :domain occurs twice", "line 2"),
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
        "':regions' is inside another section; close that with ')' first",
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
    ("    (cup_2 (:motion", "    (¶stove_1 (:motion", "unknown object 'stove_1': only things declared in :objects", ""),
    ("(:motion_loop false)", "(:motion_loop ¶no)", "expected true or false, found 'no'", ""),
    ("(((0 0 1) (0 1 0)) ((0 0.5 1) (0 -1 0)))", "¶(((0 0 1) (0 1 0)))", "expected (:motion_waypoints", "found 1"),
    ("((0 0.5 1) (0 -1 0))", "¶(0 0.5 1 0 -1)", "expected (:motion_waypoints", "a waypoint of 5 values"),
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
