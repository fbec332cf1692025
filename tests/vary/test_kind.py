"""A kind of variation from outside: whatever its functions and edits do wrong is told by its name."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pytest_vla.errors import EpisodeError, RedrawError, is_of_policy
from pytest_vla.plan.case import levelled
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.variation import Edits, ModelEdit
from pytest_vla.testing import point_suite
from pytest_vla.vary.kind import LEVELS, Draw, VariationKind, guarded
from pytest_vla.vary.registry import kinds
from pytest_vla.vary.space import NUMBER, Parameter

TASK = point_suite().tasks[0]
PICTURE = np.zeros((4, 6, 3), np.uint8)

KIND = VariationKind(
    "ours.weaker",
    "every action is smaller",
    "a test",
    lambda draw: {"loss": 0.1},
    lambda task, params: Edits(),
    lambda task: (Parameter("loss", NUMBER, 0.0, 0.5, benign=0.0),),
    levels=LEVELS,
)


def _raise(*given: Any) -> Any:
    raise KeyError("x")


def _make(**changed: Any) -> Any:
    kind = guarded(replace(KIND, **changed), "our_package 1.0 (ours)")
    return kind.make(Draw(TASK, levelled(kind.name, 1), 0, 1))


def _refused(do: Callable[[], Any]) -> str:
    with pytest.raises(EpisodeError) as raised:
        do()
    assert raised.value.reason == "variation-broken"
    assert raised.value.message.startswith("our_package 1.0 (ours): the kind ours.weaker: ")
    assert not is_of_policy(raised.value.reason)
    return raised.value.message


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"sample": _raise}, "sample raised KeyError: 'x'"),
        ({"sample": lambda draw: {"loss": 0.7}}, "loss: expected 0 to 0.5, found 0.7"),
        ({"sample": lambda draw: {"lost": 0.1}}, "loss is missing; not in its space: lost"),
        ({"sample": lambda draw: {"loss": 0.1, "way": np.zeros(2)}}, "sample gives way=array"),
        ({"sample": lambda draw: {"loss": 0.1, "way": [float("nan")]}}, "sample gives way=[nan]"),
        ({"sample": lambda draw: None}, "sample returned None"),
        ({"space": _raise}, "space raised KeyError"),
        ({"space": lambda task: ("loss",)}, "space returned ('loss',)"),
        ({"apply": _raise}, "apply raised KeyError"),
        ({"apply": lambda task, params: None}, "apply returned None"),
        ({"apply": lambda task, params: Edits(instruction=3)}, "Edits with instruction=3"),  # type: ignore[arg-type]
        ({"apply": lambda task, params: Edits(pictures=_raise)}, "Edits with pictures="),  # type: ignore[arg-type]
        ({"apply": lambda task, params: Edits(told={"way": object()})}, "Edits.told gives way="),
        ({"apply": lambda task, params: Edits(rest_joints=(0.0,))}, "expected 7 numbers"),
        ({"again": _raise}, "again raised KeyError"),
    ],
)
def test_a_function_that_breaks_is_told(changed: dict[str, Any], told: str) -> None:
    assert told in _refused(lambda: _make(**changed))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda picture, camera, step: picture[:2], "made (2, 6, 3) uint8 of camera front, expected (4, 6, 3) uint8"),
        (lambda picture, camera, step: picture / 255.0, "made (4, 6, 3) float64"),
        (lambda picture, camera, step: picture * np.nan, "made (4, 6, 3) float64"),
        (lambda picture, camera, step: None, "made NoneType"),
        (lambda picture, camera, step: picture.resize((2, 6, 3), refcheck=False), "made NoneType"),
        (_raise, "a picture edit raised KeyError"),
    ],
)
def test_a_picture_of_another_form_is_told(change: Any, told: str) -> None:
    made = _make(apply=lambda task, params: Edits(pictures=(lambda: change,)))
    assert told in _refused(lambda: made.pictures[0]()(PICTURE.copy(), "front", 0))


@pytest.mark.parametrize(
    "change", [_raise, lambda action: action[:1], lambda action: action * np.nan, lambda action: 0]
)
def test_an_action_of_another_form_is_told(change: Any) -> None:
    made = _make(apply=lambda task, params: Edits(actions=(lambda: change,)))
    assert "an action edit" in _refused(lambda: made.actions[0]()(np.ones(2)))


def test_edits_of_scenes_are_told() -> None:
    made = _make(apply=lambda task, params: Edits(problem=(lambda problem: None,), asked=_raise, init_states=_raise))  # type: ignore[arg-type,return-value]
    assert "a problem edit returned NoneType" in _refused(lambda: made.problem[0](Problem.__new__(Problem)))
    assert "raised KeyError" in _refused(lambda: made.asked(Problem.__new__(Problem)))
    assert "init_states raised KeyError" in _refused(made.init_states)
    model = ModelEdit(("cam_pos",), _raise, _raise)
    made = _make(
        apply=lambda task, params: Edits(model=(model,), state=(lambda model, scene, state: state.fill(np.nan),))
    )
    assert "a model edit raised KeyError" in _refused(lambda: made.model[0].apply(None, None))
    assert "textures of a model edit raised" in _refused(lambda: made.model[0].textures(None, None))
    assert "a state edit wrote NaN" in _refused(lambda: made.state[0](None, None, np.zeros(3)))


def test_what_a_kind_may_do_passes() -> None:
    def unfit(task: Any, params: Any) -> Edits:
        raise RedrawError("not in this scene")

    with pytest.raises(RedrawError):
        _make(apply=unfit)
    edits = Edits(pictures=(lambda: lambda picture, camera, step: 255 - picture,), actions=(lambda: np.negative,))
    made = _make(sample=lambda draw: {"loss": 0.1, "fact": ["a", None, True]}, apply=lambda task, params: edits)
    assert made.parameters == {"loss": 0.1, "fact": ["a", None, True]}
    assert made.pictures[0]()(PICTURE, "front", 0).min() == 255
    assert made.actions[0]()(np.ones(2)).tolist() == [-1, -1]


def test_our_own_kinds_are_not_guarded() -> None:
    """A search makes tens of thousands of variations."""
    assert {kind.sample.__module__ for kind in kinds()}.isdisjoint({"pytest_vla.vary.kind"})
