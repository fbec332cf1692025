"""What a policy says of itself: which words there are, what is refused, and that it survives the way to a process."""

import json
import math
import subprocess
import sys
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given

from pytest_vla.errors import VlaError
from pytest_vla.policies.fit import GRIPPERS, Traits, traits_of
from tests.support.traits import VALUES, any_traits


def test_the_strategies_know_all_names() -> None:
    assert list(VALUES) == [field.name for field in fields(Traits)]


@given(any_traits())
def test_what_is_said_arrives_as_it_was_said(traits: Traits) -> None:
    assert Traits.of(json.loads(json.dumps(traits.table()))) == traits
    assert Traits.of(msgpack.unpackb(msgpack.packb(traits.table()))) == traits
    assert None not in traits.table().values()


def test_lists_and_numpys_numbers_are_taken_too() -> None:
    said = Traits.of(
        {"reads": ["state"], "image_size": [np.int64(64), 48], "control_freq": 20, "state_size": np.int32(8)}
    )
    assert said == Traits(reads=("state",), image_size=(64, 48), control_freq=20.0, state_size=8)
    assert json.dumps(said.table())


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("action_size", 0, "how many numbers an action has"),
        ("action_size", True, "how many numbers"),
        ("action_size", 7.5, "how many numbers"),
        ("action_convention", "delta", "one of 'relative', 'absolute'"),
        ("rotation", ["euler"], "one of 'axis_angle', 'euler', 'quaternion', 'rotation_6d'"),
        ("gripper", 1, "one of '-1 opens, 1 closes', '1 opens, -1 closes'"),
        ("reads", "state", r"a list of observations, such as \['agentview_image', 'state'\]"),
        ("reads", [1], "a list of observations"),
        ("image_size", 224, r"\(height, width\) in pixels"),
        ("image_size", (224, 224, 3), r"\(height, width\) in pixels"),
        ("image_size", (0, 224), r"\(height, width\) in pixels"),
        ("image_transform", "flip", "one of 'none', 'rotate_180'"),
        ("state_size", "8", "how many numbers the state has"),
        ("state_layout", "xyz", "one of 'eef_pos, axis_angle, gripper_qpos'"),
        ("control_freq", math.nan, "actions a second, such as 20"),
        ("control_freq", math.inf, "actions a second"),
        ("control_freq", "20", "actions a second"),
        ("control_freq", True, "actions a second"),
        ("language", "yes", "True or False"),
        ("draws", 0, "True or False: whether it samples"),
        ("instructions", "turn on the stove", "a list of instructions"),
    ],
)
def test_another_value_is_refused_with_what_there_is(name: str, value: Any, expected: str) -> None:
    for make in (lambda: Traits(**{name: value}), lambda: Traits.of({name: value})):
        with pytest.raises(VlaError, match=rf"a policy's traits: {name} is .*, expected {expected}"):
            make()


def test_another_name_is_refused_with_the_close_ones() -> None:
    with pytest.raises(
        VlaError, match=r"there is no 'griper'. Did you mean gripper\? Known: action_size, .*instructions"
    ):
        Traits.of({"griper": GRIPPERS[0]})
    with pytest.raises(VlaError, match=r"there is no 3\. Known: "):
        Traits.of({3: 4})


def test_a_policy_says_it_by_an_attribute() -> None:
    said = Traits(action_size=14)
    assert traits_of(SimpleNamespace(traits=said)) is said
    assert traits_of(SimpleNamespace(traits={"action_size": 14})) == said
    assert traits_of(object()) == traits_of(SimpleNamespace(traits=None)) == Traits()
    with pytest.raises(
        VlaError, match=r"a policy's traits are int, expected .*Traits or a mapping with some of action_s"
    ):
        traits_of(SimpleNamespace(traits=3))


def test_a_batch_policys_reads_need_not_be_said_twice() -> None:
    assert traits_of(SimpleNamespace(reads=["state"])) == Traits(reads=("state",))
    assert traits_of(SimpleNamespace(reads=["state"], traits={"reads": ["agentview_image"]})).reads == (
        "agentview_image",
    )
    with pytest.raises(VlaError, match="reads is 3, expected a list of observations"):
        traits_of(SimpleNamespace(reads=3))


def test_what_the_controller_imports_is_light() -> None:
    script = (
        "import sys, pytest_vla.policies.fit\n"
        "print([name for name in ('numpy', 'torch', 'mujoco', 'pytest') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[]\n"
