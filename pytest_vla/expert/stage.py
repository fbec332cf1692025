"""What skills are planned on: a state with its names, and maps of it; and what planning gives, attempts."""

from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.expert.hand import Hand, Motion
from pytest_vla.expert.heights import Heights, measure
from pytest_vla.expert.parts import robot_geoms
from pytest_vla.scene.scene import Scene

Array = npt.NDArray[np.float64]

# Sides of a map's cells, m. A wall of four millimetres has to show where fingers close; a table may be coarse.
GRASP_CELL = 0.004
SUPPORT_CELL = 0.008
PALM_CELL = 0.01
_TERRAIN_CELL, _TERRAIN_REACH = 0.02, 0.6


@dataclass(frozen=True)
class Stage:
    """What skills are planned on: a state, and what the scene's things are called."""

    model: mujoco.MjModel
    data: mujoco.MjData
    scene: Scene


@dataclass(frozen=True)
class Attempt:
    """A skill with its parameters: called with the hand, it gives the motion.

    `grasp` is the same for attempts that begin with the same grip, of which none is of use where one lost its grip.
    """

    name: str
    motion: Callable[[Hand], Motion]
    grasp: int | None = None


def terrain_of(stage: Stage, without: tuple[int, ...] = ()) -> Heights:
    """The coarse map of the whole workspace, without the robot and these geoms."""
    robot = robot_geoms(stage.model)
    hand = Hand(stage.model, stage.data).position
    return measure(stage.model, stage.data, hand, _TERRAIN_REACH, _TERRAIN_CELL, (*robot, *without))


def close_up(stage: Stage, centre: Array, reach: float, cell: float, without: tuple[int, ...] = ()) -> Heights:
    """A finer map of a square around a place (2,), without the robot and these geoms."""
    return measure(stage.model, stage.data, centre, reach, cell, (*robot_geoms(stage.model), *without))
