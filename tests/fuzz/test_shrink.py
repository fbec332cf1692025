"""Shrinking: to the planted dimension, parameter and boundary, within its episodes, of the spaces of real kinds."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.fuzz.candidate import Candidate
from pytest_vla.fuzz.shrink import CLOSE, MOST_EPISODES, Outcome, Shrunk, shrink
from pytest_vla.plan.manifests import load_suite
from pytest_vla.vary.chosen import Change, change_of
from pytest_vla.vary.registry import kind_named
from pytest_vla.vary.space import Parameter
from tests.support.examples import scaled

TASK = load_suite("tabletop").task("put_the_bowl_on_the_stove")

AZIMUTH = change_of("camera.azimuth", {"azimuth_deg": 60.0})
TURN = change_of("light.direction", {"turn_deg": 50.0, "heading_deg": 123.0})
JOINTS = change_of("robot.joints", {"offset": [0.4, -0.3, 0.2, 0.1, -0.4, 0.3, 0.2]})
DELAY = change_of("action.delay", {"steps": 5})

Params = Mapping[str, Mapping[str, Any]]


def space_of(candidate: Candidate, change: Change) -> tuple[Parameter, ...]:
    return kind_named(change.kind).space(candidate.task)


def tried(fails: Callable[[Params], bool], *changes: Change, most: int = MOST_EPISODES) -> Shrunk:
    """What is left where a predicate over the parameters, by kind, says what fails."""

    def test(candidate: Candidate) -> Outcome:
        return "fails" if fails({change.kind: change.params for change in candidate.changes}) else "passes"

    found = Candidate(TASK, 3, changes)
    assert (test(found), test(Candidate(TASK, 3))) == ("fails", "passes")
    shrunk = shrink(found, test, space_of, most)
    assert test(shrunk.candidate) == "fails"
    assert shrunk.tried <= most
    assert (shrunk.candidate.task, shrunk.candidate.seed) == (TASK, 3)
    return shrunk


def test_to_the_one_dimension_that_matters_and_its_boundary() -> None:
    shrunk = tried(
        lambda params: abs(params.get("camera.azimuth", {}).get("azimuth_deg", 0)) > 22, AZIMUTH, TURN, JOINTS
    )
    (change,) = shrunk.candidate.changes
    assert change.kind == "camera.azimuth"
    assert 22 < change.params["azimuth_deg"] <= 22 * (1 + CLOSE) / (1 - CLOSE)
    (boundary,) = shrunk.boundaries
    assert boundary.passes is not None
    assert boundary.passes["azimuth_deg"] <= 22 < boundary.fails["azimuth_deg"] == change.params["azimuth_deg"]
    assert shrunk.complete
    assert shrunk.tried <= 12


def test_two_that_only_fail_together_stay_together() -> None:
    def fails(params: Params) -> bool:
        azimuth = params.get("camera.azimuth", {}).get("azimuth_deg", 0)
        return bool(azimuth > 30 and params.get("light.direction", {}).get("turn_deg", 0) > 20)

    shrunk = tried(fails, AZIMUTH, TURN, JOINTS)
    assert shrunk.candidate.dimensions == ("camera", "light")
    azimuth, turn = shrunk.candidate.changes
    assert 30 < azimuth.params["azimuth_deg"] < 36
    assert 20 < turn.params["turn_deg"] < 24
    assert turn.params["heading_deg"] == 123.0, "how, not how much"
    assert {boundary.kind for boundary in shrunk.boundaries} == {"camera.azimuth", "light.direction"}


@pytest.mark.parametrize("joint", range(7))
def test_of_seven_joints_to_the_one(joint: int) -> None:
    limit = 0.6 * abs(JOINTS.params["offset"][joint])
    shrunk = tried(lambda params: abs(params.get("robot.joints", {}).get("offset", [0] * 7)[joint]) > limit, JOINTS)
    (change,) = shrunk.candidate.changes
    assert [place for place, value in enumerate(change.params["offset"]) if value] == [joint]
    assert limit < abs(change.params["offset"][joint]) <= limit * 1.25


def test_whole_numbers_have_nothing_between() -> None:
    shrunk = tried(lambda params: params.get("action.delay", {}).get("steps", 0) >= 3, DELAY)
    assert shrunk.candidate.changes == (change_of("action.delay", {"steps": 3}),)
    assert shrunk.tried <= 4


def test_what_was_added_goes_where_it_does_not_matter() -> None:
    things = {f"distractor_{number}": ["apple", 0.1 * number, 0.0, 0.0] for number in (1, 2, 3)}
    kind = kind_named("layout.distractors").space(TASK)
    assert {each.name for each in kind} >= things.keys()
    shrunk = tried(
        lambda params: "distractor_2" in params.get("layout.distractors", {}), change_of("layout.distractors", things)
    )
    assert set(shrunk.candidate.changes[0].params) == {"distractor_2"}


def test_when_its_episodes_end_it_has_the_smallest_so_far() -> None:
    shrunk = tried(
        lambda params: params.get("camera.azimuth", {}).get("azimuth_deg", 0) > 1, AZIMUTH, TURN, JOINTS, most=3
    )
    assert not shrunk.complete
    assert shrunk.candidate.dimensions == ("camera",)
    none = tried(lambda params: bool(params), AZIMUTH, TURN, most=0)
    assert none.candidate.changes == (AZIMUTH, TURN)


def test_what_tells_nothing_is_no_failure() -> None:
    def test(candidate: Candidate) -> Outcome:
        return "fails" if len(candidate.changes) == 2 else "aside"

    assert shrink(Candidate(TASK, 0, (AZIMUTH, TURN)), test, space_of).candidate.changes[0].kind == "camera.azimuth"


@settings(max_examples=scaled(60))
@given(
    st.lists(st.sampled_from([AZIMUTH, TURN, JOINTS, DELAY]), min_size=1, max_size=4, unique_by=lambda c: c.kind),
    st.data(),
)
def test_it_always_fails_is_never_larger_and_is_the_same_again(changes: list[Change], data: st.DataObject) -> None:
    planted = data.draw(st.sets(st.sampled_from([change.kind for change in changes]), min_size=1))
    limits = {kind: data.draw(st.floats(0.05, 0.95)) for kind in sorted(planted)}

    def share(params: Params, kind: str) -> float:
        largest = {change.kind: change for change in changes}[kind].params
        if kind not in params:
            return 0.0
        values = {"camera.azimuth": "azimuth_deg", "light.direction": "turn_deg", "action.delay": "steps"}
        if kind in values:
            return float(params[kind][values[kind]] / largest[values[kind]])
        return max(abs(one) for one in params[kind]["offset"]) / 0.4

    def fails(params: Params) -> bool:
        return all(share(params, kind) > limit for kind, limit in limits.items())

    shrunk = tried(fails, *changes)
    assert {change.kind for change in shrunk.candidate.changes} == planted or not shrunk.complete
    assert shrunk == tried(fails, *changes)


def test_of_many_changes_halves_go_first() -> None:
    """All subsets of nine changes are more than a failure's episodes."""
    more = [
        change_of("camera.distance", {"factor": 1.5}),
        change_of("noise.fog", {"share": 0.4, "seed": 3}),
        change_of("noise.zoom", {"factor": 1.3}),
        change_of("light.shadow", {"strength": 0.7}),
        change_of("action.noise", {"std": 0.1, "noise_seed": 5}),
    ]
    calls: list[int] = []

    def fails(params: Params) -> bool:
        calls.append(len(params))
        return "noise.zoom" in params and "action.delay" in params

    shrunk = tried(fails, AZIMUTH, TURN, JOINTS, DELAY, *more)
    assert {change.kind for change in shrunk.candidate.changes} == {"noise.zoom", "action.delay"}
    assert shrunk.complete
    assert max(calls[2:6]) <= 5, "halves"


def test_each_number_has_its_own_boundary() -> None:
    """Made less together the two end at one share; alone each goes to its own."""

    def fails(params: Params) -> bool:
        offset = params.get("robot.joints", {}).get("offset", [0] * 7)
        return bool(offset[0] > 0.1 and offset[2] > 0.15)

    shrunk = tried(fails, JOINTS)
    (change,) = shrunk.candidate.changes
    assert 0.1 < change.params["offset"][0] <= 0.1 * 1.25
    assert 0.15 < change.params["offset"][2] <= 0.15 * 1.25
    sides = {str(each.along): each for each in shrunk.boundaries}
    assert sides.keys() == {"offset[0]", "offset[2]"}
    for place, limit in ((0, 0.1), (2, 0.15)):
        side = sides[f"offset[{place}]"]
        assert side.passes is not None
        assert side.passes["offset"][place] <= limit < side.fails["offset"][place]


def test_what_tells_nothing_is_not_said_to_pass() -> None:
    """Below 40 degrees nobody can do it, so that nobody did."""

    def test(candidate: Candidate) -> Outcome:
        return "fails" if abs(candidate.changes[0].params["azimuth_deg"]) > 40 else "aside"

    shrunk = shrink(Candidate(TASK, 0, (AZIMUTH,)), test, space_of)
    (boundary,) = shrunk.boundaries
    assert boundary.passes is None
    assert 40 < boundary.fails["azimuth_deg"] < 45


def test_what_passed_is_tried_once_more_with_all_else_at_its_smallest() -> None:
    """The less the light is turned, the less azimuth it takes: what passed at first fails in the end."""

    def fails(params: Params) -> bool:
        azimuth = params.get("camera.azimuth", {}).get("azimuth_deg", 0)
        turn = params.get("light.direction", {}).get("turn_deg", 0)
        return bool(turn > 5 and azimuth > 10 + turn)

    shrunk = tried(fails, change_of("camera.azimuth", {"azimuth_deg": 70.0}), TURN)
    assert shrunk.complete
    params = {change.kind: change.params for change in shrunk.candidate.changes}
    assert params["camera.azimuth"]["azimuth_deg"] < 20
    for side in shrunk.boundaries:
        assert side.passes is not None
        assert not fails({**params, side.kind: side.passes})
        assert side.fails == params[side.kind]


def test_what_fails_with_any_amount_costs_few_episodes() -> None:
    shrunk = tried(lambda params: params.get("camera.azimuth", {}).get("azimuth_deg", 0) > 0, AZIMUTH)
    assert shrunk.tried < 10
    assert shrunk.candidate.changes[0].params["azimuth_deg"] < 1
