"""Strategies: what is drawn can be had and stands in a file of cases; the simplest scene is the benign twin."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, find, given, settings
from hypothesis import strategies as st

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.amounts import components
from pytest_vla.fuzz.candidate import candidate_of, scene_of
from pytest_vla.fuzz.case_file import ListedCase, read_cases, write_cases
from pytest_vla.fuzz.proposals import fuzzed_kinds
from pytest_vla.language.grammar import meanings, read
from pytest_vla.language.substitution import screened_words
from pytest_vla.plan.case import dimension_of
from pytest_vla.plan.manifests import load_suite
from pytest_vla.scene.variation import Params
from pytest_vla.strategies import Scene, _change, _value, instructions, scenes, tasks
from pytest_vla.vary.kind import VariationKind
from pytest_vla.vary.registry import find_variation, kind_named
from pytest_vla.vary.space import (
    ANGLE,
    CHOICE,
    LISTED,
    NUMBER,
    SEED,
    WHOLE,
    Parameter,
    complaints,
)
from tests.support.examples import scaled

BOWL = load_suite("tabletop").task("put_the_bowl_on_the_stove")
KINDS = fuzzed_kinds(BOWL)
STOVE = screened_words()["nouns"]["stove"]
FEW = settings(max_examples=25, database=None)


def of(scene: Scene, kind: str) -> Mapping[str, Any]:
    return scene.changes.get(kind, {})


@settings(FEW, max_examples=scaled(40))
@given(scene=scenes("tabletop", BOWL.name, seeds="0-3,9"))
def test_what_is_drawn_can_be_had_and_is_python_and_a_case_of_a_file(scene: Scene) -> None:
    candidate = candidate_of(scene)
    for change in candidate.changes:
        assert complaints(kind_named(change.kind).space(candidate.task), change.params) == ()
    dimensions = [dimension_of(kind) for kind in scene.changes]
    assert len(set(dimensions)) == len(dimensions) <= 3
    assert (find_variation(candidate.task, candidate.label, scene.seed) is None) is (scene == scene.twin)
    assert scene.seed in (0, 1, 2, 3, 9)
    assert eval(repr(scene)) == scene_of(candidate) == scene
    with tempfile.TemporaryDirectory() as folder:
        write_cases(Path(folder) / "cases.toml", [ListedCase(candidate)])
        (listed,) = read_cases(Path(folder) / "cases.toml")
    assert listed.candidate.case.id == candidate.case.id
    assert scene_of(listed.candidate) == scene


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_kind_is_drawn_within_its_space(kind: VariationKind) -> None:
    space = kind.space(BOWL)

    @settings(FEW, max_examples=scaled(5))
    @given(drawn=_change(BOWL, kind))
    def within(drawn: tuple[str, Params]) -> None:
        assert drawn[0] == kind.name
        assert complaints(space, drawn[1]) == ()

    within()


def test_the_simplest_of_a_change_is_none() -> None:
    for name in ("light.diffuse", "noise.compression"):
        kind = kind_named(name)
        _, params = find(_change(BOWL, kind), lambda drawn: True, settings=FEW)
        assert components(kind.space(BOWL), params) == ()


def test_the_simplest_scene_is_the_first_tasks_benign_twin() -> None:
    first = load_suite("tabletop").tasks[0].key
    assert find(scenes("tabletop", dimensions="action"), lambda scene: True, settings=FEW) == Scene("tabletop", first)
    assert find(tasks("tabletop"), lambda task: True) == first
    assert find(tasks("tabletop"), lambda task: "stove" in task) != first


def test_what_fails_is_made_less_toward_the_twin() -> None:
    def turned(scene: Scene) -> bool:
        return of(scene, "camera.azimuth").get("azimuth_deg", 0) < -20

    found = find(scenes("tabletop", BOWL.name, "camera"), turned, settings=settings(FEW, max_examples=300))
    assert [*found.changes] == ["camera.azimuth"]
    assert -20.2 < of(found, "camera.azimuth")["azimuth_deg"] < -20
    actions = scenes("tabletop", BOWL.name, "action")
    late = find(actions, lambda scene: of(scene, "action.delay").get("steps", 0) > 1, settings=FEW)
    assert late == Scene("tabletop", BOWL.name, changes={"action.delay": {"steps": 2}})
    layouts = scenes("tabletop", BOWL.name, "layout", max_changes=1)
    one = find(layouts, lambda scene: "layout.distractors" in scene.changes, settings=FEW)
    assert [*of(one, "layout.distractors")] == ["distractor_1"]


@settings(FEW, max_examples=scaled(25))
@given(scene=scenes("tabletop", BOWL.name, ["light", "camera"], min_changes=2, max_changes=2))
def test_as_many_changes_as_are_asked_for(scene: Scene) -> None:
    assert {dimension_of(kind) for kind in scene.changes} == {"light", "camera"}


PARAMETERS = [
    Parameter("amount", NUMBER, -3.0, 5.0, 1.0),
    Parameter("upward", NUMBER, 1.0, 2.0, 1.0),
    Parameter("downward", NUMBER, 6, 100.0, 100.0),
    Parameter("place", NUMBER, 0.1, 0.4),
    Parameter("endless", NUMBER, 0.0, benign=0.0),
    Parameter("steps", WHOLE, 0, 5, 0),
    Parameter("colours", WHOLE, 0, 255, shape=(2, 3)),
    Parameter("gains", NUMBER, 0.1, 1.8, 1.0, (3,)),
    Parameter("way", ANGLE, 0.0, 360.0),
    Parameter("seed", SEED, 0, 2**48 - 1),
    Parameter("family", CHOICE, choices=("plain", "checked")),
    Parameter("entry", LISTED, choices=("a", "b")),
    Parameter("removed", CHOICE, choices=("bowl", "plate", "box"), many=True, benign=()),
]


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda parameter: parameter.name)
def test_each_form_of_a_parameter_is_drawn_within_bounds_and_the_simplest_is_benign(parameter: Parameter) -> None:
    drawn = _value(parameter)

    @settings(FEW, max_examples=scaled(25))
    @given(value=drawn)
    def within(value: object) -> None:
        assert parameter.complaint(value) == ""

    within()
    if parameter.benign is not None:
        assert find(drawn, lambda value: True, settings=FEW) == parameter.benign_value()


def test_numbers_are_found_beyond_each_side_of_benign() -> None:
    amount = PARAMETERS[0]
    assert find(_value(amount), lambda value: value > 2, settings=FEW) == pytest.approx(2, abs=0.01)
    assert find(_value(amount), lambda value: value < 0, settings=FEW) == pytest.approx(0, abs=0.01)


@settings(FEW, max_examples=scaled(25))
@given(text=instructions("tabletop/turn_on_the_stove"))
def test_instructions_are_of_the_task(text: str) -> None:
    (meant,) = read("turn on the stove").meaning
    assume(meanings(text))
    ((clause,),) = meanings(text)
    # In this scene "kitchen appliance" can only be the stove; the grammar, which knows no scene, reads a microwave.
    stove = clause.thing == meant.thing or f"{clause.thing.addition} {clause.thing.called}" in STOVE
    assert (clause.action, stove) == (meant.action, True)


def test_the_simplest_instruction_is_the_tasks_own_and_there_are_others() -> None:
    assert find(instructions("tabletop/turn_on_the_stove"), lambda text: True) == "turn on the stove"
    assert find(instructions("tabletop/turn_on_the_stove"), lambda text: text.endswith("?"), settings=FEW)


def test_what_is_wrong_is_said() -> None:
    with pytest.raises(VlaError, match=r"no task of tabletop is 'nothing_like_it'"):
        scenes("tabletop", "nothing_like_it")
    with pytest.raises(VlaError, match=r"libero_plus_goal is already varied; use the suite libero_goal"):
        scenes("libero_plus_goal")
    with pytest.raises(VlaError, match=r"min_changes=4, max_changes=3: expected"):
        scenes("tabletop", min_changes=4)
    with pytest.raises(VlaError, match=r"expected SUITE/TASK"):
        instructions("turn_on_the_stove")
    with pytest.raises(VlaError, match=r"no dimension 'lihgt' can be searched. Did you mean light"):
        find(scenes("tabletop", dimensions="lihgt"), lambda scene: True, settings=FEW)


@settings(FEW, max_examples=scaled(25))
@given(data=st.data())
def test_strategies_go_with_hypothesis_own(data: st.DataObject) -> None:
    task = data.draw(tasks("tabletop", "stove"))
    scene = data.draw(scenes("tabletop", task, "action"))
    assert scene.id == f"tabletop/{task}"
