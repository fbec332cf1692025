"""Every code that a task's text can have: found where the text is changed so, and where it stands."""

from pathlib import Path

import pytest

from pytest_vla.episode.lint import lint_file
from pytest_vla.language.prompts import check_prompt
from pytest_vla.scene.lint.checks import check_text
from pytest_vla.scene.lint.reading import CODES, LEVELS, LintFinding, read_task_text
from tests.support.lint_tasks import TASK, changed

PROMPT = "Put the butter on the plate"
MOVED = "(:goal (And => (:moving_objects (butter_1 {})) (:goal (And"
ARENA = "LIBERO_Tabletop_Manipulation => Tabletop_Manipulation"

CASES = [
    ("S001", ["(:domain => (:domian a) (:domain"], "unknown section ':domian'"),
    ("S001", ["(:target main_table) (:ranges ((-0.1 -0.1 => (:colour red) (:target main_table) (:ranges ((-0.1 -0.1"],
     ""),
    ("S002", ["(Fall plate_1) => (Fall plate_1"], "never closed"),
    ("S002", ["(Fall plate_1) => (Fall plate_1 butter_1)"], "found 2 arguments"),
    ("S003", ["Fall plate_1 => Falls plate_1"], "unknown predicate 'Falls'"),
    ("S003", ["(:init => (:init (Glue butter_1)"], "predicate of :init"),
    ("S004", ["Fall plate_1 => Fall plate_2"], "did you mean plate_1"),
    ("S005", ["LIBERO_Tabletop_Manipulation => LIBERO_Tabletop_Manipulaton"], "Did you mean libero_tabletop_manip"),
    ("G001", ["(On butter_1 plate_1)) => (On butter_1 plate_1)) (Up butter_1)"],
     "1 literal of the goal is never judged"),
    ("G002", ["(And (On butter_1 => (And (In butter_1"], "AttributeError"),
    ("G002", ["(And (On butter_1 plate_1) => (And (Not (On butter_1 main_table_left)) (On butter_1 plate_1)"],
     "supports only one"),
    ("G003", ["(On butter_1 main_table_left) => (On butter_1 plate_1)"], "nothing is left to do"),
    ("G004", [f"{PROMPT} => {PROMPT} and close the cabinet"], "'close'"),
    ("G004", [f"{PROMPT} => Put the plate and the cabinet on the butter"], "the goal says nothing of a cabinet"),
    ("G004", [f"{PROMPT} => Put all of the plates on the butter", "plate_1 - => plate_1 plate_2 -"],
     "nothing of plate_2"),
    ("G005", ["(On butter_1 plate_1)) => (Open plate_1))"], "no joint with such a state"),
    ("G005", ["(On butter_1 plate_1)) => (On butter_1 plate_1) (False a b))", "plate_1 - => plate_1 a b -"],
     "always false"),
    ("C001", ["(And (Fall plate_1)) => (Fall plate_1) (Fall butter_1)"], ":cost has 2 expressions"),
    ("C002", ["Fall plate_1 => Collide plate_1"], "its method does not exist"),
    ("C002", ["(Fall plate_1) => (Or (Fall plate_1) (Fall butter_1))"], "supports only one"),
    ("C002", ["Fall plate_1 => CheckForce gripper0 butter_1 8"], "KeyError: 'gripper0'"),
    ("C002", ["Fall plate_1 => CheckForce butter_1 8"], "name the other thing too"),
    ("C002", ["Fall plate_1 => CheckGripperDist butter_1 0.05"], "write (CheckGripperDistance NAME NUMBER)"),
    ("C002", ["Fall plate_1 => CheckDistance butter_1 main_table_left 0.05"], "a region is no list"),
    ("C002", ["Fall plate_1 => InContact butter_1 main_table"], "keeps no state of the table"),
    ("C003", ["Fall plate_1 => Fall wooden_cabinet_1"], "always false"),
    ("C003", ["Fall plate_1 => NotIn butter_1 main_table_left"], "always false"),
    ("C003", [ARENA, "butter_1 - => butter_1 - butter ball_1 -", "- butter plate_1 => - water_ball plate_1",
              "Fall plate_1 => NotOn ball_1 plate_1"], "always true"),
    ("C005", ["(Fall plate_1) => (Fall plate_1) (Fall plate_1)"], "is 2 times"),
    ("C006", ["plate_1 - plate => plate_1 plate_2 plate_3 - plate", "(Fall plate_1) => (Fall plate_1) (Fall plate_3)"],
     "2 of 3 things of the category plate, but not for plate_2"),
    ("C007", ["Fall plate_1 => CheckForce butter_1 plate_1 8"], "tangential"),
    ("C009", ["Fall plate_1 => InContact butter_1 main_table_left"],
     "'main_table_left' is a region; expected an object or fixture: wooden_cabinet_1, butter_1, plate_1"),
    ("C009", ["Fall plate_1 => Open plate_1"], "no joint with such a state"),
    ("G007", ["(On butter_1 plate_1)) => (Fall plate_1))", "(:cost (And (Fall plate_1))) =>  "],
     "cannot be a goal of LIBERO's tasks"),
    ("G007", ["(On butter_1 plate_1)) => (Up main_table_left))"], "is a region"),
    ("O001", ["(On butter_1 main_table_left) =>  "], "'butter_1' is declared, but :init does not place it"),
    ("O002", ["(:obj_of_interest butter_1 => (:obj_of_interest butter_2"], "Did you mean butter_1"),
    ("O004", ["(:init => (:init (On butter_1 main_table_back)"], "placed twice"),
    ("O005",
     ["(On butter_1 main_table_left) (On plate_1 main_table_right) => (On butter_1 plate_1) (On plate_1 butter_1)"],
     "not placed before it"),
    ("O006", ["plate_1 - plate => plate_1 - plate butter_2 - butter"], "forgets the first list, with butter_1"),
    ("R001", ["(right (:target => (left (:target"], "declared twice (first in line 5)"),
    ("R002", ["((-0.1 -0.1 0.1 0.1)) => ((0.4 -0.5 0.42 -0.48))"], "m from the arm's base"),
    ("R004", ["(right (:target main_table) => (odd (:target stove_1)) (right (:target main_table)"], "'stove_1'"),
    ("R006", ["(left (:target => (empty (:target main_table)) (left (:target"], "no rectangle"),
    ("R007", ["((-0.1 -0.1 0.1 0.1)) => ((-0.1 -0.1 0 0) (0 0 0.1 0.1))", "Fall plate_1 => On plate_1 main_table_left"],
     "2 rectangles"),
    ("M001", [MOVED.format("(:motion_type linear)")], "a period of 1 control steps (the default)"),
    ("M001", [MOVED.format("(:motion_type linear) (:motion_period 8) (:motion_direction (0 0 0))")], "no length"),
    ("M001", [MOVED.format("(:motion_type waypoint)")], "no waypoints"),
    ("M001", [MOVED.format("(:motion_type circle) (:motion_period 8) (:motion_center (0 0 1))")], "no radius"),
    ("M002", [MOVED.format("(:motion_type linear) (:motion_period 8) (:motion_speed 2)")], ":motion_speed"),
    ("M003", [MOVED.format("(:motion_type circle) (:motion_period 8) (:motion_center (0.1 0 0.9))")], "z = 0.9 m"),
    ("M004", [MOVED.format("(:motion_type linear) (:motion_period 9)")], "repeats after 8"),
    ("M005", [MOVED.format("(:motion_type waypoint) (:motion_waypoints (((0.2 0 1) (0 1 0)) ((0 0 1) (0 1 0))))")],
     "20 cm"),
    ("M006", [MOVED.format("(:motion_type waypoint) (:motion_waypoints (((0 0 1) (0 -1 0)) ((0 0 1) (0 1 0))))")], ""),
    ("M007", [MOVED.format("(:motion_type linear) (:motion_period 8)"), "Fall plate_1 => InContact butter_1 plate_1"],
     ""),
    ("M008", [MOVED.format("(:motion_type circular) (:motion_period 8) (:motion_center (0.1 0 0.9))")],
     "upstream's code raises NotImplementedError at the motion 'circular'"),
    ("M008", [MOVED.format("(:motion_type waypoint) (:motion_waypoints ((0 0 1 0 1 0) (0 0 1 0 1 0)))")], "ValueError"),
    ("P001", [f"{PROMPT} => Put the butter on the stove"], "is about plate_1, which the prompt does not name"),
    ("P002", [f"{PROMPT} => Put the buttter on the plate with butter"], "did you mean butter?"),
    ("P003", [f"{PROMPT} => Put the butter at the left on the plate"], "left instead of right"),
    ("P004", [f"{PROMPT} => Place the butter on the plate"], "make them alike"),
    ("P005", [f"{PROMPT} => Put the butter on the plate near the white cabinet",
              "(And (On butter_1 plate_1)) => (And (On butter_1 plate_1) (Close wooden_cabinet_1))"], "white_cabinet"),
]  # fmt: skip
SIMULATED_OR_BESIDE = {"C004", "C008", "G006", "I001", "I002", "I003", "I004", "O003", "R003", "R005"}
"""Found in models, init states and scenes: tests/episode/test_lint.py."""


def found_in(text: str, name: str = "put_the_butter_on_the_plate.bddl") -> list[LintFinding]:
    task = read_task_text(text, name)
    return [*check_text(task), *(check_prompt(task, task.problem) if task.problem else ())]


def test_a_task_without_fault_has_no_findings() -> None:
    assert found_in(TASK) == []


def test_every_code_has_a_case() -> None:
    assert {code for code, _, _ in CASES} | SIMULATED_OR_BESIDE == set(CODES)
    assert {code.level for code in CODES.values()} == set(LEVELS)


@pytest.mark.parametrize(("code", "edits", "message"), CASES)
def test_a_fault_is_found_where_it_stands(code: str, edits: list[str], message: str) -> None:
    text = changed(*edits)
    name = "put_the_butter_at_the_right_on_the_plate.bddl" if code == "P003" else "put_the_butter_on_the_plate.bddl"
    found = [each for each in found_in(text, name) if each.code == code]
    assert len(found) >= 1, [each.code for each in found_in(text, name)]
    assert message in found[0].message
    line = text.splitlines()[found[0].line - 1]
    assert line[found[0].column - 1 :].strip(), "a place in the text"
    assert found[0].level == CODES[code].level


def test_the_place_is_the_literal_or_the_word() -> None:
    (crash,) = found_in(changed("(And (On butter_1 => (And (In butter_1"))
    assert (crash.line, crash.column) == (15, 15)
    spelt = found_in(changed(f"{PROMPT} => Put the butter on the plaate and on the plate"))
    assert [(each.code, each.line, each.column) for each in spelt if each.code == "P002"] == [("P002", 3, 36)]


def test_what_cannot_be_read_does_not_hide_the_rest() -> None:
    interest = "(:obj_of_interest butter_1 => (:obj_of_interest cup_1"
    text = changed("(Fall plate_1) => (Fall)", interest, "(:domain => (:domian a) (:domain")
    assert [each.code for each in found_in(text)] == ["S001", "S002", "O002"]


def test_of_a_broken_section_that_names_things_nothing_follows() -> None:
    assert [each.code for each in found_in(changed("butter_1 - butter plate_1 => butter_1 - plate_1"))] == ["S002"]


def test_a_section_that_stands_twice_is_told_once() -> None:
    assert [each.code for each in found_in(changed("(:goal => (:goal (And (On butter_1 plate_1))) (:goal"))] == ["S002"]


def test_a_missing_placement_is_not_told_where_init_is_broken() -> None:
    assert [each.code for each in found_in(changed("(:init => (:init 5"))] == ["S002"]


def test_what_is_no_text_is_a_finding(tmp_path: Path) -> None:
    file = tmp_path / "a.bddl"
    file.write_bytes(TASK.encode() + b"\n\xff")
    (finding,) = lint_file(str(file))
    assert (finding.code, finding.line, finding.column) == ("S002", 19, 1)
    (finding,) = lint_file(str(tmp_path / "gone.bddl"))
    assert (finding.code, finding.line) == ("S002", 1)
    assert "cannot read" in finding.message


@pytest.mark.parametrize(
    "prompt",
    [
        "Pick up the butter and place it on the plate",
        "Take the butter out and put it on the plate beside the open drawer",
        "Put both the butter and the plate on the plate",
        "Push the butter onto the plate that is left of the cabinet",
    ],
)
def test_a_prompt_that_says_the_goal_otherwise_is_right(prompt: str) -> None:
    found = found_in(changed(f"{PROMPT} => {prompt}"))
    assert {each.code for each in found} <= {"P004"}
