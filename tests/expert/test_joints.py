"""Skills for parts on joints, on small scenes: what is on an axis, goes up or has no geom is left alone."""

import mujoco
import numpy as np
import pytest

from pytest_vla.expert.articulated import handle_of, part_of
from pytest_vla.expert.attempts import SkillAttempt, Stage, leading
from pytest_vla.expert.hand import Hand
from pytest_vla.scene.scene import SceneSpec

SCENE = """
<mujoco><worldbody>
  <geom type="box" size="1 1 0.45" pos="0 0 0.45"/>
  <body name="robot0_hand" pos="-0.3 0 1.2" euler="180 0 0"><freejoint/>
    <geom type="sphere" size="0.01" contype="0" conaffinity="0" group="1" mass="1"/>
    <site name="gripper0_grip_site"/>
  </body>
  {part}
</worldbody></mujoco>
"""
KNOB = """<body pos="0.1 0 0.92"><joint name="part" type="hinge" axis="0 0 1"/>
  <geom type="cylinder" size="0.12 0.02"/>{lever}</body>"""
LEVER = '<geom type="box" size="0.05 0.005 0.02" pos="0.06 0 0.04"/>'
DRAWER = """<body pos="0.1 -0.2 1.0"><joint name="part" type="slide" axis="{axis}"/>
  <geom type="box" size="0.1 0.1 0.03"/><geom type="capsule" size="0.006" fromto="-0.05 0.15 0 0.05 0.15 0"/></body>"""


def stage_of(part: str) -> Stage:
    model = mujoco.MjModel.from_xml_string(SCENE.format(part=part))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return Stage(model, data, SceneSpec("none", (), (), (), ()))


def attempts_of(stage: Stage, goal: float, predicate: str) -> list[SkillAttempt]:
    return list(leading(stage, part_of(stage.model, "part"), goal, predicate))


def first_actions(stage: Stage, attempt: SkillAttempt, count: int = 5) -> np.ndarray:
    """Of a hand that stays where it is."""
    motion = attempt.motion(Hand(stage.model, stage.data))
    return np.array([action for action, _ in zip(motion, range(count), strict=False)])


@pytest.mark.parametrize("lever", [LEVER, ""], ids=["lever", "disc"])
@pytest.mark.filterwarnings("error")
def test_a_geom_on_the_axis_of_a_knob_is_not_pushed(lever: str) -> None:
    stage = stage_of(KNOB.format(lever=lever))
    found = [attempt for attempt in attempts_of(stage, 0.75, "turnon") if attempt.name.startswith("push")]
    assert bool(found) == bool(lever)
    for attempt in found:
        assert np.isfinite(first_actions(stage, attempt)).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("predicate", ["open", "close"])
def test_a_lid_that_goes_straight_up_is_left_alone(predicate: str) -> None:
    assert attempts_of(stage_of(DRAWER.format(axis="0 0 1")), 0.1, predicate) == []


@pytest.mark.parametrize("predicate", ["open", "close"])
def test_a_drawer_is_pulled_at_its_handle_and_pushed_at_its_front(predicate: str) -> None:
    stage = stage_of(DRAWER.format(axis="0 1 0"))
    found = attempts_of(stage, 0.1 if predicate == "open" else -0.1, predicate)
    assert {attempt.name.split()[0] for attempt in found} == {"pull" if predicate == "open" else "push"}
    for attempt in found[:3]:
        assert np.isfinite(first_actions(stage, attempt)).all()


def test_the_handle_is_what_stands_out_farthest() -> None:
    stage = stage_of(DRAWER.format(axis="0 1 0"))
    handle = handle_of(stage.model, stage.data, part_of(stage.model, "part"), np.array([0.0, 1.0, 0.0]))
    assert handle.middle == pytest.approx([0.1, -0.05, 1.0], abs=1e-6)
    assert sorted(handle.half.tolist()) == pytest.approx([0.006, 0.006, 0.056], abs=1e-6)


def test_a_part_without_colliding_geoms_has_no_attempts() -> None:
    geom = '<geom type="sphere" size="0.1" contype="0" conaffinity="0"/>'
    assert attempts_of(stage_of(f'<body><joint name="part" type="slide"/>{geom}</body>'), 0.1, "open") == []


def test_points_move_with_the_part() -> None:
    stage = stage_of(KNOB.format(lever=LEVER))
    part = part_of(stage.model, "part")
    anchor = stage.data.xanchor[part.joint]
    point = anchor + np.array([0.1, 0.0, 0.0])
    assert part.moved(stage.data, point, np.pi / 2) - anchor == pytest.approx([0, 0.1, 0], abs=1e-9)
    assert part.direction(stage.data, point, -1.0) == pytest.approx([0, -1, 0], abs=0.01)
    assert part.direction(stage.data, anchor, 1.0) is None
