"""A cup with balls: what is in it, what was poured out, and what it only stands over."""

import math
from collections.abc import Iterator
from contextlib import closing

import mujoco
import numpy as np
import pytest

from pytest_vla import World, load_suite
from pytest_vla.scene.literals import Literal
from pytest_vla.sim.costs.paper import judged_as_written
from pytest_vla.sim.costs.setting import Setting
from tests.support.costs import put, where

CUP = "cup_1"
BALLS = tuple(f"ball_{number}" for number in range(1, 13))
_ABOVE = np.array([0.0, 0.0, 0.3])


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    tasks = load_suite("tabletop_safety").tasks
    with closing(World(next(task for task in tasks if task.key == "L2-put_the_cup_on_the_rack"))) as made:
        yield made


@pytest.fixture
def setting(world: World) -> Setting:
    """The cup stands, the balls are in it."""
    world.reset(init_state=0)
    return Setting(world.problem, world.scene, world.model, world.data, world.drawn_poses)


def turned(degrees: float) -> tuple[float, float, float, float]:
    """About x (wxyz)."""
    half = math.radians(degrees) / 2
    return math.cos(half), math.sin(half), 0.0, 0.0


def spilt(setting: Setting) -> set[str]:
    """The balls that have left the cup; what is not in it has, and the other way round."""
    left = {ball for ball in BALLS if judged_as_written(Literal("noton", (ball, CUP)), setting).holds()}
    inside = {ball for ball in BALLS if judged_as_written(Literal("in", (ball, CUP)), setting).holds()}
    outside = {ball for ball in BALLS if judged_as_written(Literal("notin", (ball, CUP)), setting).holds()}
    assert outside == set(BALLS) - inside
    assert left <= outside
    return left


def carry(setting: Setting, degrees: float) -> None:
    """Lifts the cup and turns it with all that is in it, about its own origin."""
    at, turn = where(setting, CUP), np.zeros(9)
    mujoco.mju_quat2Mat(turn, np.array(turned(degrees)))
    places = {ball: where(setting, ball) - at for ball in BALLS}
    for ball, place in places.items():
        put(setting, ball, at + _ABOVE + turn.reshape(3, 3) @ place)
    put(setting, CUP, at + _ABOVE, turned(degrees))


@pytest.mark.parametrize("degrees", [0, 30, 45, 60, 80, -85])
def test_what_a_tilted_cup_carries_is_in_it(setting: Setting, degrees: float) -> None:
    assert spilt(setting) == set()
    carry(setting, degrees)
    assert spilt(setting) == set()


@pytest.mark.parametrize("degrees", [95, 135, 180, -100])
def test_what_is_in_a_cup_whose_opening_points_down_is_spilt(setting: Setting, degrees: float) -> None:
    carry(setting, degrees)
    assert spilt(setting) == set(BALLS)
    carry(setting, -degrees)
    assert spilt(setting) == set()


def test_a_cup_turned_over_on_its_balls_has_spilt_them(world: World, setting: Setting) -> None:
    """It falls over balls that lie on the table, and comes to rest there: they are in its hull, and on the table."""
    at = where(setting, CUP)
    top = setting.scene.body(CUP)
    assert top is not None
    height = top.top - top.bottom
    for number, ball in enumerate(BALLS):
        put(setting, ball, at + np.array([0.6 if number else 0.0, 0.0, 0.02]))
    put(setting, CUP, [at[0], at[1], at[2] + height + 0.03], turned(180))
    for _ in range(800):
        mujoco.mj_step(setting.model, setting.data)
    mujoco.mj_forward(setting.model, setting.data)
    cup, ball = where(setting, CUP), where(setting, BALLS[0])
    assert setting.data.body("cup_1_main").xmat.reshape(3, 3)[2, 2] < -0.9, "it stands on its rim"
    assert np.linalg.norm((cup - ball)[:2]) < 0.05, "over the ball"
    assert BALLS[0] in spilt(setting)


def test_what_a_turn_pours_out_is_spilt_when_the_cup_stands_again(setting: Setting) -> None:
    """Held upside down for a second, and put back: the balls lie on the table."""
    at = where(setting, CUP)
    for _ in range(500):
        put(setting, CUP, at + _ABOVE)
        setting.data.joint("cup_1_joint0").qpos[3:] = turned(180)
        mujoco.mj_step(setting.model, setting.data)
    put(setting, CUP, at + _ABOVE)
    setting.data.joint("cup_1_joint0").qpos[3:] = turned(0)
    mujoco.mj_forward(setting.model, setting.data)
    assert spilt(setting) == set(BALLS)
