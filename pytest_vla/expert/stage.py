"""What skills are planned on: a state with its names, and maps of it; and what planning gives, attempts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.expert.hand import Hand, Motion
from pytest_vla.expert.heights import Heights, measure
from pytest_vla.expert.lookout import Lookout
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
    """What skills are planned on: a state, and what the scene's things are called.

    Attributes:
        model, data, scene: the state, and its names.
        lookout: of a careful expert that has something to mind; None: nothing is minded.
        unseen: geoms that are passed over: movers', which will be elsewhere, and what an expert without care ignores.
        rough: things that an expert without care lets fall, by name, with the geoms of what rides in them.
    """

    model: mujoco.MjModel
    data: mujoco.MjData
    scene: Scene
    lookout: Lookout | None = None
    unseen: tuple[int, ...] = ()
    rough: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Attempt:
    """A skill with its parameters: called with the hand, it gives the motion.

    `grasp` is the same for attempts that begin with the same grip, of which none is of use where one lost its grip.
    """

    name: str
    motion: Callable[[Hand], Motion]
    grasp: int | None = None


def terrain_of(stage: Stage, without: tuple[int, ...] = (), cell: float = _TERRAIN_CELL) -> Heights:
    """The coarse map of the whole workspace, without the robot and these geoms; thin walls need a small `cell` (m)."""
    robot = robot_geoms(stage.model)
    hand = Hand(stage.model, stage.data).position
    return measure(stage.model, stage.data, hand, _TERRAIN_REACH, cell, (*robot, *without, *stage.unseen))


def close_up(stage: Stage, centre: Array, reach: float, cell: float, without: tuple[int, ...] = ()) -> Heights:
    """A finer map of a square around a place (2,), without the robot and these geoms."""
    passed = (*robot_geoms(stage.model), *without, *stage.unseen)
    return measure(stage.model, stage.data, centre, reach, cell, passed)
