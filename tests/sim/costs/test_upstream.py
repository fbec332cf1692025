"""The account of upstream's code; equal to upstream's own in tests/parity/test_arena_costs.py."""

import math

import pytest

from pytest_vla.errors import EpisodeError, SceneError
from pytest_vla.scene.bddl import VlaWarning
from pytest_vla.sim.costs.upstream import UpstreamMeter
from tests.support.costs import amounts, charged, put, setting_with, where

_YAW = (math.cos(0.15), 0.0, 0.0, math.sin(0.15))


def _meter(cost: str, *, crashes: bool = False, further: str = "") -> UpstreamMeter:
    meter = UpstreamMeter(setting_with(cost, further=further), freezes=True, crashes=crashes)
    meter.begin()
    return meter


def test_only_the_first_expression_counts() -> None:
    meter = _meter("(True bottle_1) (Up bottle_1) (True plate_1)")
    assert [charge.name for charge in meter.watched()] == ["(true bottle_1)"]
    assert amounts(charged(meter, success=True)) == {"(true bottle_1)": 10.0}


def test_what_is_no_moment_is_charged_at_every_step_with_success_and_at_no_end() -> None:
    meter = _meter("(And (NotOn bottle_1 plate_1) (CheckDistance bottle_1 plate_1 9))")
    (instant,) = charged(meter, steps=3, ended=True)
    assert (instant.name, instant.kind, instant.amount, instant.step, instant.last_step) == (
        "(checkdistance bottle_1 plate_1 9)",
        "instant",
        3.0,
        1,
        3,
    )
    assert amounts(charged(meter, steps=3, success=True, ended=True))["(noton bottle_1 plate_1)"] == 30.0


def test_a_literal_weighs_as_often_as_it_is_there_and_the_sum_is_rounded_as_upstreams() -> None:
    meter = _meter(
        "(And (CheckDistance bottle_1 plate_1 9) (CheckDistance bottle_1 plate_1 9) (CheckDistance bottle_1 plate_1 9))"
    )
    assert amounts(charged(meter)) == {"(checkdistance bottle_1 plate_1 9)": 3.0}
    assert meter.cost == (0.1 + 0.1 + 0.1) * 10 != 3.0


def test_fall_takes_a_harmless_turn_for_one() -> None:
    setting = setting_with("(And (Fall bottle_1))")
    drawn = {"bottle_1": (where(setting, "bottle_1"), setting.data.body("bottle_1_main").xquat.copy())}
    setting = type(setting)(setting.problem, setting.scene, setting.model, setting.data, lambda: drawn)
    meter = UpstreamMeter(setting, freezes=False)
    assert charged(meter, success=True) == ()
    put(setting, "bottle_1", turn=_YAW)
    assert amounts(charged(meter, success=True)) == {"(fall bottle_1)": 10.0}


@pytest.mark.parametrize(
    ("cost", "raised"),
    [
        ("(Collide bottle_1)", "check_collision"),
        ("(Not (On bottle_1 plate_1))", "'not'"),
        ("(CheckForce bottle_1 3)", "only one is given"),
        ("(InContact bottle_1 main_table)", "keeps no state of the table"),
    ],
)
def test_what_upstream_raises_at_is_told_once_and_ends_an_episode_only_by_its_rules(cost: str, raised: str) -> None:
    with pytest.warns(VlaWarning, match=rf"costs\.bddl:\d+:\d+: .*{raised}"):
        meter = _meter(f"(And {cost} (True plate_1))")
    assert amounts(charged(meter, success=True)) == {"(true plate_1)": 10.0}
    assert raised in next(charge.text or "" for charge in meter.watched())
    with pytest.raises(EpisodeError, match=rf"upstream-crashes: costs\.bddl:\d+:\d+: .*{raised}"):
        charged(_meter(f"(And {cost})", crashes=True), success=True)


def test_the_gripper_touches_with_a_pad_that_mujoco_has_first() -> None:
    setting = setting_with("(And (CheckGripperContact bottle_1))")
    meter = UpstreamMeter(setting, freezes=False)
    assert charged(meter) == ()
    put(setting, "bottle_1", setting.data.geom("gripper0_finger1_pad_collision").xpos)
    (charge,) = charged(meter)
    assert charge.bodies[0] == "bottle_1"
    assert charge.by is not None
    assert charge.by.startswith("gripper0_")
    assert charge.force is not None
    assert charge.force > 0
    assert charge.position is not None


def test_a_mover_that_is_touched_stands_still_until_the_next_episode() -> None:
    mover = "(:moving_objects (plate_1 (:motion_type linear) (:motion_period 10)))"
    setting = setting_with("(And (InContact bottle_1 plate_1) (CheckDistance plate_1 bottle_1 9))", further=mover)
    meter = UpstreamMeter(setting, freezes=True)
    meter.begin()
    charged(meter)
    assert meter.frozen() == frozenset(), "what comes near does not stop it"
    put(setting, "bottle_1", where(setting, "plate_1"))
    before = meter.saved()
    charged(meter)
    assert meter.frozen() == {"plate_1"}
    meter.restore(before)
    assert meter.frozen() == frozenset()
    charged(meter)
    meter.begin()
    assert meter.frozen() == frozenset()


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ("(CheckGripperContactPart bottle_1 (999))", r"no geom of bottle_1 that collides has the number 999; expected"),
        ("(Fall main_table_bottle_region)", "is a region; expected an object or fixture: .*bottle_1"),
        ("(Open bottle_1)", "has no joint with such a state"),
    ],
)
def test_a_literal_that_nothing_can_judge_is_located(cost: str, message: str) -> None:
    with pytest.raises(SceneError, match=rf"^costs\.bddl:\d+:\d+: .*{message}"):
        _meter(cost)
