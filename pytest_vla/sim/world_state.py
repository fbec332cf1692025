"""A world's exact moment, kept apart from the world, and where its fixtures stand."""

from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.scene.variation import Variation
from pytest_vla.sim.arm import ArmState
from pytest_vla.sim.library import copy_data
from pytest_vla.sim.metering import Metered
from pytest_vla.sim.movers import Movement
from pytest_vla.sim.readings import Sampled

FixturePoses = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float32]]
"""All of a model that a reset writes, as it stands: body positions and quaternions, and colours of sites."""


@dataclass(frozen=True)
class WorldState:
    """A world's exact state, for `World.restore`. Belongs to the world that made it."""

    data: mujoco.MjData
    arm: ArmState
    fixtures: FixturePoses
    sampled: Sampled
    steps: int
    sample_at: int
    movement: Movement
    began: tuple[int, int]
    owner: int
    variation: Variation | None
    metered: Metered


def fixture_poses(model: mujoco.MjModel) -> FixturePoses:
    """Where the fixtures stand now, as copies."""
    return model.body_pos.copy(), model.body_quat.copy(), model.site_rgba.copy()


def put_fixtures(model: mujoco.MjModel, poses: FixturePoses) -> None:
    """Puts them there."""
    model.body_pos[:], model.body_quat[:], model.site_rgba[:] = poses


def copied_data(model: mujoco.MjModel, data: mujoco.MjData) -> mujoco.MjData:
    """A copy of MuJoCo's data that nothing else changes."""
    copy = mujoco.MjData(model)
    copy_data(copy, model, data)
    return copy


def copied_samples(sampled: Sampled) -> Sampled:
    """A copy of what an observation is made of."""
    before, after, alphas = sampled
    return before.copy(), after.copy(), alphas.copy()
