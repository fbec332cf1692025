"""Less of a change, and parts of it left out, for every kind that has a space, with drawn parameters."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_vla.fuzz.amounts import (
    can_be_less,
    components,
    distance,
    less,
    nearby,
    scaled_components,
    value_at,
    without,
)
from pytest_vla.plan.case import levelled
from pytest_vla.plan.manifests import load_suite
from pytest_vla.scene.variation import Params
from pytest_vla.vary.kind import Draw, VariationKind
from pytest_vla.vary.registry import kinds
from pytest_vla.vary.space import NUMBER, WHOLE, Parameter, complaints
from tests.support.examples import scaled

TASK = load_suite("tabletop").task("put_the_bowl_on_the_stove")
GRADED = [kind for kind in kinds() if kind.levels and not kind.published and kind.name != "background.floor"]


def drawn(kind: VariationKind, level: int, seed: int) -> tuple[tuple[Parameter, ...], Params]:
    params = kind.sample(Draw(TASK, levelled(kind.name, level), seed, level))
    space = kind.space(TASK)
    assert complaints(space, params) == ()
    return space, params


@pytest.mark.parametrize("kind", GRADED, ids=lambda kind: kind.name)
@settings(max_examples=scaled(10))
@given(level=st.integers(1, 3), seed=st.integers(0, 99), share=st.floats(0, 1))
def test_less_is_within_bounds_and_nearer_to_benign(kind: VariationKind, level: int, seed: int, share: float) -> None:
    space, params = drawn(kind, level, seed)
    made = less(space, params, share)
    assert complaints(space, made) == ()
    assert less(space, params, 1.0) == pytest.approx(params) if not _has_lists(params) else True
    numbers = {each.name for each in space if each.form in (NUMBER, WHOLE) and each.benign is not None}
    assert {name for name in params if made[name] != params[name]} <= numbers
    if numbers & params.keys() and not _has_things(space, params):
        assert distance(space, made) <= distance(space, params) + 1e-9
    nothing = less(space, params, 0.0)
    assert all(nothing[each.name] == each.benign_value() for each in space if each.name in numbers & params.keys())
    assert not can_be_less(space, nothing)


@pytest.mark.parametrize("kind", GRADED, ids=lambda kind: kind.name)
def test_without_all_of_its_components_nothing_is_left(kind: VariationKind) -> None:
    space, params = drawn(kind, 3, 7)
    found = components(space, params)
    assert found, "a graded kind says how much"
    assert len(set(found)) == len(found)
    assert components(space, without(space, params, found)) == ()
    assert distance(space, without(space, params, found)) == 0
    for each in found:
        left = without(space, params, [each])
        assert complaints(space, left) == ()
        assert components(space, left) == tuple(other for other in found if other != each)


def test_of_some_of_many_each_is_a_component() -> None:
    space = (Parameter("objects", choices=("bowl", "plate", "box"), benign=(), many=True),)
    params = {"objects": ["plate", "box"]}
    first, second = components(space, params)
    assert str(first) == "objects[0]"
    assert without(space, params, [first]) == {"objects": ["box"]}
    assert without(space, params, [first, second]) == {"objects": []}


def test_numbers_of_one_side_are_of_its_bound() -> None:
    space = (Parameter("gain", low=0.5, high=3.0, benign=1.0),)
    assert distance(space, {"gain": 2.0}) == 0.5
    assert distance(space, {"gain": 0.75}) == 0.5
    assert less(space, {"gain": 0.5}, 0.5) == {"gain": 0.75}


@given(st.integers(-9, 9).filter(bool), st.floats(0.01, 1))
def test_whole_numbers_are_rounded_away_from_benign(value: int, share: float) -> None:
    space = (Parameter("steps", WHOLE, low=-9, high=9, benign=0),)
    made = less(space, {"steps": value}, share)["steps"]
    assert isinstance(made, int)
    assert made * value > 0
    assert abs(made) <= abs(value)


def _has_lists(params: Params) -> bool:
    return any(isinstance(value, list) for value in params.values())


def _has_things(space: tuple[Parameter, ...], params: Params) -> bool:
    return any(each.name in params and each.is_amount and each.form not in (NUMBER, WHOLE) for each in space)


@pytest.mark.parametrize("kind", GRADED, ids=lambda kind: kind.name)
@settings(max_examples=scaled(10))
@given(level=st.integers(1, 3), seed=st.integers(0, 99), reach=st.floats(0, 3))
def test_nearby_is_within_bounds_and_of_the_same_numbers(
    kind: VariationKind, level: int, seed: int, reach: float
) -> None:
    space, params = drawn(kind, level, seed)
    made = nearby(space, params, Random(seed), reach)
    assert complaints(space, made) == ()
    assert made == nearby(space, params, Random(seed), reach)
    assert {each.name for each in components(space, made)} <= {each.name for each in components(space, params)}


def test_one_number_alone_is_less() -> None:
    space = (Parameter("offset", low=-0.5, high=0.5, benign=0.0, shape=(3,)),)
    params = {"offset": [0.4, -0.2, 0.0]}
    first, second = scaled_components(space, params)
    assert less(space, params, 0.5, second) == {"offset": [0.4, -0.1, 0.0]}
    assert value_at(params, first) == 0.4
