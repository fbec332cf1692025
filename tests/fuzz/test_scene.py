"""Scenes as tests write them: Python that makes them again, checked where they are played."""

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.fuzz.candidate import Scene, candidate_of, scene_of

STOVE = Scene("tabletop", "turn_on_the_stove", seed=3)


def test_it_is_python_that_makes_it_again() -> None:
    turned = Scene("tabletop", "turn_on_the_stove", changes={"camera.azimuth": {"azimuth_deg": 12.5}})
    assert repr(turned) == (
        "Scene('tabletop', 'turn_on_the_stove', seed=0, changes={'camera.azimuth': {'azimuth_deg': 12.5}})"
    )
    assert repr(STOVE) == "Scene('tabletop', 'turn_on_the_stove', seed=3)"
    assert eval(repr(turned)) == turned
    assert len({turned, turned.twin, Scene("tabletop", "turn_on_the_stove")}) == 2, "it can be a key"
    assert (turned.id, turned.twin.changes) == ("tabletop/turn_on_the_stove", {})
    assert scene_of(candidate_of(turned)) == turned


def test_it_may_be_told_otherwise() -> None:
    assert STOVE.instruction == "turn on the stove"
    told = STOVE.told("heat the stove")
    assert told.instruction == "heat the stove"
    assert candidate_of(told).changes[0].kind == "language.words"
    assert told.told("turn on the stove") == STOVE


@pytest.mark.parametrize(
    ("scene", "said"),
    [
        (Scene("tabletop", "turn_on_the_stove", seed=-1), "expected seed = a whole number from 0 to"),
        (Scene("tabletpo", "turn_on_the_stove"), "tabletpo"),
        (Scene("tabletop", "turn_on_the_oven"), "turn_on_the_oven"),
        (Scene("tabletop", STOVE.task, changes={"camera.azimut": {}}), "Did you mean camera.azimuth"),
        (Scene("tabletop", STOVE.task, changes={"camera.azimuth": {}}), "azimuth_deg is missing"),
        (Scene("tabletop", STOVE.task, changes={"action.delay": {"steps": 9}}), "expected 0 to 5"),
        (Scene("libero_plus_goal", STOVE.task, changes={"action.delay": {"steps": 1}}), "is already varied"),
    ],
)
def test_what_no_task_can_have_is_refused(scene: Scene, said: str) -> None:
    with pytest.raises(VlaError, match=said):
        candidate_of(scene)
