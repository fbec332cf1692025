"""A policy against a suite by what it says: one finding for each cause, and none where it fits."""

import re
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.plan.manifests import Suite, load_suite
from pytest_vla.policies import base
from pytest_vla.policies.fit import (
    ACTION_SIZE,
    CODES,
    GRIPPERS,
    STATE_SIZE,
    WORLD,
    FitFinding,
    Traits,
    check_fit,
    check_replan,
    controlled,
    suite_traits,
)
from pytest_vla.policies.trial import draw_observation
from tests.support.traits import any_traits
from tests.support.worlds import tabletop_world

SUITE = load_suite("tabletop")
FITTING = replace(
    suite_traits(SUITE.protocol), language=True, instructions=tuple(task.language for task in SUITE.tasks)
)

# Whoever reads a log a year later looks a code up: neither names nor meanings move.
SEVERITIES = {
    **{f"VLA-P{number:03}": "error" for number in (1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 101, 102, 104, 105, 106, 110)},
    **{f"VLA-P{number:03}": "warning" for number in (9, 11, 12, 14, 103, 107, 108, 109, 111, 112)},
}


def codes(findings: tuple[FitFinding, ...]) -> list[str]:
    return [finding.code for finding in findings]


def test_the_codes_are_these_and_each_says_what_it_means_and_how_to_mend_it() -> None:
    assert {name: code.severity for name, code in CODES.items()} == SEVERITIES
    assert list(CODES) == sorted(CODES)
    for name, code in CODES.items():
        assert code.name == name
        assert re.fullmatch(r"[A-Z].{20,}\.", code.meaning)
        assert re.fullmatch(r".{20,}[^.;]", code.mend)


def test_a_policy_that_says_what_the_suite_has_fits_every_suite_of_that_protocol() -> None:
    assert check_fit(FITTING, SUITE) == ()
    assert check_fit(replace(FITTING, instructions=None), load_suite("libero_10")) == ()


def test_a_policy_that_says_nothing_is_not_checked() -> None:
    assert check_fit(Traits(), SUITE) == ()


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        ({"action_size": 14}, "VLA-P001", r"actions have 14 values, but tabletop takes 7; return 7 values: "),
        (
            {"rotation": "rotation_6d"},
            "VLA-P003",
            "rotations are rotation_6d, but tabletop takes axis_angle; convert it",
        ),
        (
            {"gripper": GRIPPERS[1]},
            "VLA-P004",
            "'1 opens, -1 closes', but tabletop's is '-1 opens, 1 closes'; return -gripper",
        ),
        ({"gripper": GRIPPERS[2]}, "VLA-P004", r"return 2 \* gripper - 1"),
        ({"gripper": GRIPPERS[3]}, "VLA-P004", r"return 1 - 2 \* gripper"),
        ({"gripper": "width"}, "VLA-P004", "return 1 for a width below the fingers' opening"),
        (
            {"reads": ("state", "left_image")},
            "VLA-P005",
            "reads left_image, but tabletop has agentview_image, robot0_eye_in",
        ),
        ({"image_size": (224, 96)}, "VLA-P006", "takes 224x96 pictures only, but tabletop has 256x256; resize them in"),
        ({"image_transform": "none"}, "VLA-P007", "image_transform 'none', but tabletop has 'rotate_180'; mirror them"),
        (
            {"state_size": 7},
            "VLA-P008",
            r"a state of 7 numbers.*, but tabletop has one of 8 numbers \(eef_pos, axis_angle, g",
        ),
        (
            {"state_layout": "joint_pos, gripper_position"},
            "VLA-P008",
            r"a state.* \(joint_pos, gripper_position\), but tabletop has one",
        ),
        ({"control_freq": 10}, "VLA-P009", "trained at 10 Hz, but tabletop runs at 20 Hz"),
        (
            {"instructions": ("turn on the stove",)},
            "VLA-P011",
            "not trained on 9 of tabletop's 10 instructions, such as",
        ),
        (
            {"language": False},
            "VLA-P012",
            "reads no instruction, but tabletop has 10 tasks with 10; select one task with",
        ),
    ],
)
def test_each_cause_has_its_code(said: dict[str, Any], code: str, message: str) -> None:
    for traits in (Traits(**said), replace(FITTING, **said)):
        (finding,) = check_fit(traits, SUITE)
        assert (finding.code, finding.severity) == (code, SEVERITIES[code])
        assert re.search(message, finding.message)
        assert str(finding) == f"{code}: {finding.message}"


@pytest.mark.parametrize("convention", ["relative", "absolute"])
def test_absolute_actions_are_executed_as_they_are_unless_the_evaluator_says_which(convention: str) -> None:
    traits = replace(FITTING, action_convention=convention)
    assert check_fit(traits, SUITE) == ()
    assert controlled(SUITE.protocol, traits).control == convention
    fixed = replace(SUITE.protocol, control="absolute")
    assert codes(check_fit(traits, replace(SUITE, protocol=fixed))) == [] if convention == "absolute" else ["VLA-P002"]
    assert controlled(fixed, traits).control == "absolute"


def test_a_task_without_an_instruction_is_found() -> None:
    silent = replace(SUITE, tasks=(replace(SUITE.tasks[0], language=" "), *SUITE.tasks[1:]))
    assert codes(check_fit(Traits(language=True), silent)) == ["VLA-P010"]
    assert codes(check_fit(Traits(language=False), replace(SUITE, tasks=SUITE.tasks[:1]))) == []


def test_of_a_protocol_alone_instructions_are_not_checked() -> None:
    traits = Traits(language=False, instructions=("fly",), action_size=6)
    assert codes(check_fit(traits, ("mine", SUITE.protocol))) == ["VLA-P001"]
    assert codes(check_fit(traits, SUITE)) == ["VLA-P001", "VLA-P011", "VLA-P012"]


@pytest.mark.parametrize(("chunk", "replan"), [(8, 8), (8, 1), (8, None), (None, 1000)])
def test_a_number_of_steps_that_a_chunk_has_fits(chunk: int | None, replan: int | None) -> None:
    assert check_replan(Traits(chunk=chunk), replan) == ()


def test_more_steps_than_a_chunk_has_are_an_error() -> None:
    (finding,) = check_replan(Traits(chunk=8), 9)
    assert (finding.code, finding.severity) == ("VLA-P013", "error")
    assert finding.message.startswith("--vla-replan=9, but the policy's chunks have 8 actions; ")


@given(any_traits())
def test_what_is_found_is_what_each_thing_said_finds_by_itself_a_line_each(traits: Traits) -> None:
    found = check_fit(traits, SUITE)
    said = {field.name: getattr(traits, field.name) for field in fields(Traits)}
    alone = {finding.code for name, value in said.items() for finding in check_fit(Traits(**{name: value}), SUITE)}
    assert codes(found) == sorted(alone)
    assert all(finding.message.isprintable() for finding in found)


@given(st.text())
def test_a_foreign_text_makes_one_line_that_no_terminal_obeys(text: str) -> None:
    finding = CODES["VLA-P005"].found(f"the policy reads {text}")
    assert finding.message.isprintable()
    assert finding.message.startswith("the policy reads")
    assert finding.message.endswith("trained on them")


def test_the_constants_are_the_worlds_and_what_is_drawn_is_like_what_it_shows() -> None:
    world = tabletop_world()
    observation = world.reset(init_state=0)
    assert set(suite_traits(SUITE.protocol).reads or ()) == set(observation)
    assert observation["state"].shape == (STATE_SIZE,) == (WORLD.state_size,)
    assert base.ACTION_SIZE == ACTION_SIZE == WORLD.action_size
    drawn = draw_observation(np.random.default_rng(0), SUITE.protocol)
    assert {name: (drawn[name].shape, drawn[name].dtype) for name in drawn} == {
        name: (observation[name].shape, observation[name].dtype) for name in observation
    }
    # Near where an episode begins, in every number.
    for name in (name for name in drawn if not name.endswith("_image")):
        # A quaternion and its opposite are the same rotation.
        value = observation[name] * (np.sign(observation[name] @ drawn[name]) if name.endswith("_quat") else 1)
        assert np.abs(drawn[name] - value).max() < 0.5, name


def test_a_suite_can_be_narrowed_to_its_selected_tasks() -> None:
    one: Suite = replace(SUITE, tasks=SUITE.tasks[:1])
    assert check_fit(Traits(language=False, instructions=(one.tasks[0].language,)), one) == ()
