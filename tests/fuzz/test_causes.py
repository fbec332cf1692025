"""Whether two failures are one: number by number, to each side, and alike in what says how."""

from typing import Any

import pytest

from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.causes import cause_of, changes_nothing, has_more, is_one_cause, is_one_failure
from pytest_vla.plan.manifests import load_suite
from pytest_vla.vary.chosen import change_of

TASK = load_suite("tabletop").task("turn_on_the_stove")

NAMES = {
    "azimuth": "camera.azimuth",
    "light": "light.direction",
    "joints": "robot.joints",
    "things": "layout.distractors",
}


def of(**kinds: Any) -> Candidate:
    named = {
        "azimuth": "camera.azimuth",
        "light": "light.direction",
        "joints": "robot.joints",
        "things": "layout.distractors",
        "turn": "camera.orientation",
    }
    return Candidate(TASK, 0, tuple(change_of(named[name], params) for name, params in kinds.items()))


def joints(**values: float) -> dict[str, list[float]]:
    return {"offset": [values.get(f"j{place}", 0.0) for place in range(7)]}


def light(turn: float, heading: float) -> dict[str, float]:
    return {"turn_deg": turn, "heading_deg": heading}


def thing(x: float, y: float) -> dict[str, list[Any]]:
    return {"distractor_1": ["food_box", x, y, 20.0]}


@pytest.mark.parametrize(
    ("candidate", "smaller", "has"),
    [
        (of(joints=joints(j3=0.2, j5=0.3)), of(joints=joints(j3=0.2)), True),
        (of(joints=joints(j0=-0.4, j3=0.3)), of(joints=joints(j3=0.2)), True),
        (of(joints=joints(j5=0.3)), of(joints=joints(j3=0.2)), False),
        (of(joints=joints(j3=-0.3)), of(joints=joints(j3=0.2)), False),
        (of(joints=joints(j3=0.1)), of(joints=joints(j3=0.2)), False),
        (of(light=light(40, 100)), of(light=light(30, 90)), True),
        (of(light=light(40, 350)), of(light=light(30, 10)), True),
        (of(light=light(40, 280)), of(light=light(30, 90)), False),
        (of(things=thing(0.1, 0.1)), of(things=thing(0.12, 0.15)), True),
        (of(things=thing(0.1, 0.1)), of(things=thing(0.12, -0.3)), False),
        (of(azimuth={"azimuth_deg": 30.0}), of(azimuth={"azimuth_deg": 20.0}, light=light(5, 0)), False),
        (of(azimuth={"azimuth_deg": 30.0}, light=light(5, 0)), of(azimuth={"azimuth_deg": 20.0}), True),
    ],
)
def test_a_scene_has_more_where_it_has_each_number_and_as_much(
    candidate: Candidate, smaller: Candidate, has: bool
) -> None:
    assert has_more(candidate, smaller) is has
    assert has_more(smaller, smaller)


@pytest.mark.parametrize(
    ("first", "second", "one"),
    [
        (of(joints=joints(j3=0.2)), of(joints=joints(j3=0.3)), True),
        (of(joints=joints(j3=0.2)), of(joints=joints(j5=0.2)), False),
        (of(joints=joints(j3=0.2)), of(joints=joints(j3=0.2, j5=0.2)), False),
        (of(light=light(30, 90)), of(light=light(35, 120)), True),
        (of(light=light(30, 90)), of(light=light(35, 280)), False),
    ],
)
def test_two_are_one_cause_by_numbers_sides_and_how(first: Candidate, second: Candidate, one: bool) -> None:
    assert is_one_cause(first, second) is one
    assert is_one_cause(second, first) is one


def axis(angle: float, *ways: float) -> dict[str, Any]:
    return {"angle_deg": angle, "axis_pitch_yaw_roll": list(ways)}


@pytest.mark.parametrize(
    ("first", "second", "one"),
    [
        (of(light=light(40, 10)), of(light=light(42, 130)), True),
        (of(light=light(40, 10)), of(light=light(38, 250)), True),
        (of(light=light(10, 10)), of(light=light(45, 250)), False),
        (of(light=light(10, 10)), of(light=light(45, 20)), True),
        (of(turn=axis(12, 1.0, 0.0, 0.0)), of(turn=axis(11, 0.0, 0.0, -1.0)), True),
        (of(turn=axis(12, 1.0, 0.0, 0.0)), of(turn=axis(4, 0.0, 0.0, -1.0)), False),
        (of(joints=joints(j3=0.2)), of(joints=joints(j3=-0.2)), False),
        (of(light=light(40, 10)), of(light=light(42, 130), joints=joints(j3=0.2)), False),
        (of(things=thing(0.1, 0.1)), of(things=thing(0.12, -0.3)), False),
    ],
)
def test_one_amount_in_any_direction_is_one_failure(first: Candidate, second: Candidate, one: bool) -> None:
    assert is_one_failure(first, second) is one
    assert is_one_failure(second, first) is one


def test_what_changes_nothing_is_told() -> None:
    (nothing,) = of(light=light(0.0, 90)).changes
    (something,) = of(light=light(0.1, 90)).changes
    assert changes_nothing(of(), nothing)
    assert not changes_nothing(of(), something)
    assert cause_of(of(light=light(0.1, 90))) == (("light.direction", (("turn_deg", 1),)),)
