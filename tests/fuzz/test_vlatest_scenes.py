"""VLATest's scenes on our tasks: as many objects as it has, its light and its camera, within our spaces."""

from collections import Counter
from random import Random

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.proposals import fuzzed_kinds
from pytest_vla.fuzz.vlatest import CAMERA, LIGHT, MOST_TURN, OBJECTS_KIND, propose_as_vlatest
from pytest_vla.plan.manifests import load_suite
from pytest_vla.vary.registry import find_variation, kind_named
from pytest_vla.vary.space import complaints

TASK = load_suite("tabletop").task("put_the_bowl_on_the_plate")
KINDS = fuzzed_kinds(TASK, ("layout", "light", "camera"))


def test_scenes_are_of_our_spaces_and_of_its_numbers() -> None:
    generator = Random(5)
    some = [propose_as_vlatest(TASK, 1, KINDS, generator) for _ in range(300)]
    numbers: Counter[int] = Counter()
    beside: Counter[str] = Counter()
    for candidate in some:
        by_kind = {change.kind: change.params for change in candidate.changes}
        assert by_kind
        assert set(by_kind) <= {OBJECTS_KIND, LIGHT, CAMERA}
        assert all(not complaints(kind_named(kind).space(TASK), params) for kind, params in by_kind.items())
        numbers[len(by_kind.get(OBJECTS_KIND, {}))] += 1
        beside[next((kind for kind in by_kind if kind != OBJECTS_KIND), "")] += 1
        if CAMERA in by_kind:
            assert by_kind[CAMERA]["angle_deg"] <= MOST_TURN * 2**0.5 + 1e-6
    # A scene with nothing changed is drawn again: of twelve equally likely ones eleven are left.
    assert set(numbers) == {0, 1, 2, 3}
    assert all(abs(beside[kind] / 300 - 4 / 11) < 0.1 for kind in (LIGHT, CAMERA))
    assert all(abs(numbers[number] / 300 - 3 / 11) < 0.1 for number in (1, 2, 3))
    assert find_variation(TASK, some[0].label, 1) is not None


def test_equal_generators_draw_equal_scenes() -> None:
    drawn = [propose_as_vlatest(TASK, 0, KINDS, Random(3)) for _ in range(2)]
    assert drawn[0] == drawn[1]


def test_what_may_not_be_taken_is_not() -> None:
    lights = fuzzed_kinds(TASK, ("light",))
    assert all(propose_as_vlatest(TASK, 0, lights, Random(at)).dimensions == ("light",) for at in range(10))
    with pytest.raises(VlaError, match=r"VLATest's scenes need a kind of layout\.distractors"):
        propose_as_vlatest(TASK, 0, fuzzed_kinds(TASK, ("robot",)), Random(0))
