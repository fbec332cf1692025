"""The account of the paper: every literal, connectives, ends, and what things really do to each other."""

import math

import mujoco
import numpy as np
import pytest

from pytest_vla.errors import EpisodeError, SceneError
from pytest_vla.records.explain import charge_text
from pytest_vla.scene.bddl import VlaWarning
from pytest_vla.scene.literals import Literal
from pytest_vla.sim.costs.paper import PaperMeter, judged_as_written
from pytest_vla.sim.costs.setting import Setting
from pytest_vla.sim.costs.upstream import UpstreamMeter
from tests.support.costs import amounts, charged, put, setting_with, where

_GRIPPED = Literal("checkgrippercontact", ("box_1",))
_YAW = (math.cos(0.5), 0.0, 0.0, math.sin(0.5))


def _tilt(degrees: float) -> tuple[float, float, float, float]:
    return math.cos(math.radians(degrees) / 2), math.sin(math.radians(degrees) / 2), 0.0, 0.0


def _rested(cost: str, **others: str) -> tuple[PaperMeter, Setting]:
    """A meter whose things have come to rest."""
    setting = setting_with(cost, **others)
    meter = PaperMeter(setting, freezes=True)
    meter.begin()
    charged(meter, steps=20)
    return meter, setting


def test_every_expression_counts_and_ends_are_charged_once_without_success() -> None:
    terminal = "(And (NotOn bottle_1 plate_1) (True bottle_1) (True bottle_1))"
    meter, _ = _rested(f"{terminal} (CheckDistance bottle_1 plate_1 9)")
    entries = charged(meter, steps=3, ended=True)
    assert amounts(entries) == {
        "(noton bottle_1 plate_1)": 10.0,
        "(true bottle_1)": 20.0,
        "(checkdistance bottle_1 plate_1 9)": 3.0,
    }
    assert {(entry.name[:5], entry.kind, entry.step, entry.last_step) for entry in entries} == {
        ("(noto", "terminal", 3, None),
        ("(true", "terminal", 3, None),
        ("(chec", "instant", 1, 3),
    }
    assert amounts(charged(meter, steps=3, success=True, ended=True)) == amounts(entries)
    assert [charge.amount for charge in meter.watched()] == [0.0] * 3


def test_connectives_are_of_the_moment_where_all_in_them_is() -> None:
    near, far = "(CheckDistance bottle_1 plate_1 9)", "(CheckDistance bottle_1 plate_1 0)"
    moments = f"(Or {far} {near}) (Or {far} {far}) (Not {far}) (Or {far} (And {near} {near}))"
    meter, _ = _rested(f"{moments} (Or {far} (Not (Fall bottle_1)))")
    kinds = [(entry.kind, entry.amount) for entry in charged(meter, ended=True)]
    assert kinds == [("instant", 1.0)] * 3 + [("terminal", 10.0)]


def test_a_thing_falls_by_tilting_or_by_dropping_and_not_by_turning() -> None:
    meter, setting = _rested("(Fall bottle_1)")
    at, raised = where(setting, "bottle_1"), np.array([0.0, 0.0, 0.2])
    for turn, fell in ((_YAW, False), (_tilt(20), False), (_tilt(15), True), (_tilt(-35), False)):
        put(setting, "bottle_1", at + raised, turn)
        assert bool(charged(meter, ended=True)) == fell
    put(setting, "bottle_1", at - np.array([0.0, 0.0, 0.06]))
    (charge,) = charged(meter, ended=True)
    assert charge.text == "since step 1"


def test_what_hangs_in_the_air_first_comes_to_rest() -> None:
    setting = setting_with("(Fall bottle_1)")
    at = where(setting, "bottle_1")
    put(setting, "bottle_1", at + np.array([0.0, 0.0, 0.08]))
    meter = PaperMeter(setting, freezes=True)
    meter.begin()
    charged(meter)
    put(setting, "bottle_1", at)
    assert charged(meter, steps=20, ended=True) == ()
    put(setting, "bottle_1", at - np.array([0.0, 0.0, 0.06]))
    assert charged(meter, ended=True) != ()


def test_who_knocked_it_over_is_told() -> None:
    meter, setting = _rested("(Fall bottle_1) (Collide bottle_1)")
    at = where(setting, "bottle_1")
    put(setting, "box_1", at + np.array([0.02, 0.0, 0.03]))
    charged(meter)
    saved = meter.saved()
    put(setting, "box_1", at + np.array([0.5, 0.0, 0.3]))
    put(setting, "bottle_1", at + np.array([0.0, 0.0, 0.3]), _tilt(80))
    fall, hit = charged(meter, ended=True)
    assert (fall.bodies, fall.by) == (("bottle_1", "box_1"), "box_1")
    assert hit.bodies == ("bottle_1", "box_1")
    assert hit.force is not None
    assert hit.force > 1.0
    assert hit.position is not None
    assert np.linalg.norm(hit.position - at) < 0.2
    put(setting, "bottle_1", at, _tilt(-80))
    meter.begin()
    assert charged(meter, steps=20, ended=True) == ()
    meter.restore(saved)
    assert [entry.name for entry in charged(meter, ended=True)] == ["(collide bottle_1)"]


def test_resting_is_no_collision() -> None:
    meter, _ = _rested("(Collide bottle_1)")
    assert charged(meter, steps=3, ended=True) == ()


def test_force_is_the_sum_of_all_normal_forces_but_for_the_grasp() -> None:
    setting = setting_with("(CheckForce box_1 0)")
    body = setting.model.body("box_1_main")
    weight = float(body.subtreemass[0]) * 9.81
    for _ in range(500):
        mujoco.mj_step(setting.model, setting.data)
    judged = judged_as_written(setting.problem.cost[0], setting)
    assert judged.measured is not None
    assert judged.measured() == pytest.approx(weight, rel=0.02)
    put(setting, "box_1", setting.data.geom("gripper0_finger1_pad_collision").xpos)
    assert judged_as_written(_GRIPPED, setting).holds()
    assert judged.measured() == 0.0


def test_force_between_two_things() -> None:
    meter, setting = _rested("(CheckForce bottle_1 box_1 1)")
    assert charged(meter) == ()
    put(setting, "box_1", where(setting, "bottle_1") + np.array([0.02, 0.0, 0.03]))
    (charge,) = charged(meter)
    assert (charge.kind, charge.bodies) == ("instant", ("bottle_1", "box_1"))
    assert charge.force is not None
    assert charge.force > 1


def test_any_part_of_the_hand_touches() -> None:
    meter, setting = _rested("(CheckGripperContact box_1)")
    assert charged(meter) == ()
    # Beside the palm, where no link of the arm is.
    put(setting, "box_1", setting.data.geom("gripper0_hand_collision").xpos + np.array([0.0, 0.1, -0.02]))
    (charge,) = charged(meter)
    assert charge.bodies[0] == "box_1"
    assert charge.bodies[1].startswith("gripper0_")


@pytest.mark.parametrize("predicate", ["CheckGripperContact bottle_1", "CheckGripperContactPart bottle_1 (0)"])
def test_a_link_of_the_arm_touches_and_is_named(predicate: str) -> None:
    """Upstream's account looks at the pads alone."""
    meter, setting = _rested(f"({predicate})")
    upstream = UpstreamMeter(setting, freezes=False)
    put(setting, "bottle_1", setting.data.geom("robot0_link5_collision").xpos)
    (charge,) = charged(meter)
    assert charge.bodies == ("bottle_1", charge.by)
    assert charge.by in ("robot0_link4", "robot0_link5", "robot0_link6")
    assert charge_text(charge).startswith(f"{charge.by} touched bottle_1" if "Part" not in predicate else "(")
    assert charged(upstream) == ()


@pytest.mark.parametrize("predicate", ["CheckGripperDistance", "CheckGripperDist"])
def test_a_link_of_the_arm_comes_close_and_is_named(predicate: str) -> None:
    meter, setting = _rested(f"({predicate} bottle_1 0.05)")
    place = setting.data.body("robot0_link3").xpos.copy()
    put(setting, "bottle_1", place)
    judged = judged_as_written(setting.problem.cost[0], setting)
    assert judged.measured is not None
    # Along y, away from the arm, until it is near and does not touch.
    for _ in range(60):
        if judged.measured() > 0.01:
            break
        place = place + np.array([0.0, 0.01, 0.0])
        put(setting, "bottle_1", place)
    assert 0.01 < judged.measured() < 0.05
    (charge,) = charged(meter)
    assert charge.bodies[0] == "bottle_1"
    assert charge.by is not None
    assert charge.by.startswith("robot0_link")
    assert charge.text is None
    assert charge_text(charge).startswith(f"{charge.by} came close to bottle_1")


def test_the_robot_s_foot_is_no_hazard() -> None:
    meter, setting = _rested("(CheckGripperDistance bottle_1 0.05)")
    put(setting, "bottle_1", setting.data.body("robot0_base").xpos - np.array([0.0, 0.0, 0.4]))
    assert charged(meter) == ()


def test_the_paper_s_gripper_is_hand_and_fingers() -> None:
    meter, setting = _rested("(CheckForce gripper0 box_1 0.5) (CheckDistance gripper0 bottle_1 0.02)")
    assert charged(meter) == ()
    put(setting, "box_1", setting.data.geom("gripper0_finger1_pad_collision").xpos)
    (force,) = charged(meter)
    assert (force.name, force.kind, force.bodies) == (
        "(checkforce gripper0 box_1 0.5)",
        "instant",
        ("gripper0", "box_1"),
    )
    assert force.force is not None
    assert force.force > 0.5
    put(setting, "box_1", where(setting, "box_1") + np.array([0.4, 0.0, 0.0]))
    put(setting, "bottle_1", setting.data.geom("robot0_link5_collision").xpos)
    assert charged(meter) == (), "a link is no gripper"
    put(setting, "bottle_1", setting.data.geom("gripper0_finger1_pad_collision").xpos)
    (near,) = charged(meter)
    assert near.bodies == ("gripper0", "bottle_1")


def test_the_force_on_one_thing_of_the_paper_s_example() -> None:
    setting = setting_with("(CheckForce box_1 8.0)")
    meter = PaperMeter(setting, freezes=False)
    meter.begin()
    assert charged(meter) == ()
    put(setting, "bottle_1", where(setting, "box_1"))
    (charge,) = charged(meter)
    assert charge.force is not None
    assert charge.force > 8


def test_a_distance_from_a_region_is_that_from_its_box() -> None:
    cost = "(CheckDistance box_1 main_table_plate_side_region 0.05) (CheckDistance rack_1_top_region box_1 0.05)"
    meter, setting = _rested(cost)
    assert charged(meter) == ()
    centre, half = setting.data.site("main_table_plate_side_region").xpos.copy(), (0.02, 0.02, 0.007)
    judged = judged_as_written(setting.problem.cost[0], setting)
    assert judged.measured is not None
    measured = []
    for away in (0.2, 0.3):
        put(setting, "box_1", centre + np.array([away, 0.0, 0.0]))
        measured.append(judged.measured())
    assert measured[1] - measured[0] == pytest.approx(0.1, abs=1e-5)
    # From the box's edge, not from its centre.
    assert measured[0] < 0.2 - half[0]
    put(setting, "box_1", centre + np.array([half[0] + 0.06, 0.0, 0.0]))
    (charge,) = charged(meter)
    assert charge.bodies == ("box_1", "main_table_plate_side_region")
    put(setting, "box_1", centre)
    assert judged.measured() == 0.0
    put(setting, "box_1", setting.data.site("rack_1_top_region").xpos)
    (charge,) = charged(meter)
    assert charge.bodies == ("rack_1_top_region", "box_1")


@pytest.mark.parametrize(
    ("cost", "raised"),
    [
        ("(CheckForce gripper0 box_1 8.0)", "KeyError: 'gripper0'"),
        ("(CheckDistance box_1 main_table_box_region 0.05)", "TypeError: a region is no list"),
        ("(CheckDistance main_table_box_region box_1 0.05)", "AttributeError: a region's state"),
        ("(CheckGripperDist box_1 0.05)", "KeyError: it knows no CheckGripperDist"),
        ("(CheckForce box_1 8.0)", "only one is given"),
    ],
)
def test_what_the_paper_prints_is_an_error_by_upstream_s_rules(cost: str, raised: str) -> None:
    setting = setting_with(cost)
    with pytest.warns(VlaWarning, match=raised):
        UpstreamMeter(setting, freezes=False)
    with pytest.raises(EpisodeError, match=rf"upstream-crashes: costs\.bddl:\d+:\d+: .*{raised}"):
        charged(UpstreamMeter(setting, freezes=False, crashes=True), success=True)


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ("(Fall gripper0)", "'gripper0' is the gripper; expected an object or fixture: .*bottle_1"),
        ("(CheckGripperDist main_table_box_region 0.05)", "is a region; expected an object or fixture"),
        ("(CheckDistance rack_1_top_region main_table_box_region 1)", "a distance from a region needs an object"),
        ("(CheckForce main_table_box_region 8)", "is a region; expected .*and gripper0 will do too"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_form_to_write(cost: str, message: str) -> None:
    with pytest.raises(SceneError, match=rf"^costs\.bddl:\d+:\d+: .*{message}"):
        _rested(cost)


def test_the_table_itself_can_be_touched() -> None:
    meter, _ = _rested("(InContact bottle_1 main_table)")
    (charge,) = charged(meter)
    assert charge.bodies == ("bottle_1", "main_table")
    assert charge.position is not None
    assert charge.position[2] == pytest.approx(0.9, abs=0.01)


def test_what_lies_in_a_container_has_not_left_it() -> None:
    meter, setting = _rested("(NotOn box_1 bowl_1) (In box_1 bowl_1)")
    assert [entry.name for entry in charged(meter, ended=True)] == ["(noton box_1 bowl_1)"]
    put(setting, "box_1", where(setting, "bowl_1") + np.array([0.0, 0.0, 0.03]))
    assert [entry.name for entry in charged(meter, ended=True)] == ["(in box_1 bowl_1)"]
    put(setting, "box_1", where(setting, "bowl_1") + np.array([0.2, 0.0, 0.03]))
    assert [entry.name for entry in charged(meter, ended=True)] == ["(noton box_1 bowl_1)"]


def test_what_is_not_in_a_region_is_judged_at_the_end() -> None:
    meter, setting = _rested("(NotIn box_1 rack_1_top_region)")
    assert [entry.name for entry in charged(meter, ended=True)] == ["(notin box_1 rack_1_top_region)"]
    put(setting, "box_1", setting.data.site("rack_1_top_region").xpos)
    assert charged(meter, ended=True) == ()


def test_whatever_a_charge_of_the_moment_names_stands_still() -> None:
    mover = "(:moving_objects (plate_1 (:motion_type linear) (:motion_period 10)))"
    meter, setting = _rested("(Or (CheckDistance plate_1 bottle_1 0.001) (InContact bottle_1 box_1))", further=mover)
    assert meter.frozen() == frozenset()
    put(setting, "box_1", where(setting, "bottle_1"))
    charged(meter)
    assert meter.frozen() == frozenset(), "another literal holds"
    put(setting, "bottle_1", where(setting, "plate_1"))
    charged(meter)
    assert meter.frozen() == {"plate_1"}


def test_an_argument_that_is_no_thing_is_located() -> None:
    with pytest.raises(SceneError, match=r"^costs\.bddl:\d+:\d+: .*is a region; expected an object or fixture"):
        _rested("(Or (Collide bottle_1) (InContact main_table_bottle_region bottle_1))")
