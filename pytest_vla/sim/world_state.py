"""A world's exact moment, kept apart from the world or stepped in a copy of it, and where its fixtures stand."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import EpisodeError
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.arm import Arm, ArmState
from pytest_vla.sim.faults import check_physics
from pytest_vla.sim.meters import Metered
from pytest_vla.sim.movers import Movement
from pytest_vla.sim.native import copy_data
from pytest_vla.sim.observations import Sampled
from pytest_vla.sim.verdicts import compile_goal, each_of

if TYPE_CHECKING:
    from pytest_vla.sim.world import World


FixturePoses = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64], npt.NDArray[np.float32]]
"""Everything in a model that a reset writes: body positions and quaternions, and colours of sites."""


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
    """Return copies of the fixtures' present poses."""
    return model.body_pos.copy(), model.body_quat.copy(), model.site_rgba.copy()


def put_fixtures(model: mujoco.MjModel, poses: FixturePoses) -> None:
    """Set the fixtures' poses."""
    model.body_pos[:], model.body_quat[:], model.site_rgba[:] = poses


def grip_path(world: "World", qpos: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return where the site between the fingers is (n, 3), m, in the world, at these positions (n, nq)."""
    data, found = mujoco.MjData(world.model), np.empty((len(qpos), 3))
    for row, pose in enumerate(qpos):
        data.qpos[:] = pose
        mujoco.mj_kinematics(world.model, data)
        found[row] = data.site_xpos[world.grip_site]
    return found


def copied_data(model: mujoco.MjModel, data: mujoco.MjData) -> mujoco.MjData:
    """Return an independent copy of MuJoCo's data."""
    copy = mujoco.MjData(model)
    copy_data(copy, model, data)
    return copy


def copied_samples(sampled: Sampled) -> Sampled:
    """Return a copy of the arrays that an observation is made of."""
    before, after, alphas = sampled
    return before.copy(), after.copy(), alphas.copy()


# A copy of a world's present moment, stepped apart from the world with the same physics bit for bit.


class WorldCopy:
    """A copy of a world's state that can be stepped, judged and set back; the world itself is unchanged.

    It shares the world's model: if the world is reset or stepped meanwhile, call `begin` again.

    Attributes:
        data: MuJoCo's data of the copy.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self.data = mujoco.MjData(world.model)
        self._arm = Arm(world.model, self.data, world.profile, world.rest_joints)
        self._goal = compile_goal(
            world.problem, world.scene, world.model, self.data, world.task.protocol.rules, world.drawn_poses
        )
        self.begin()

    def begin(self) -> None:
        """Copy the world's present moment."""
        copy_data(self.data, self._world.model, self._world.data)
        self._arm.rest_at(self._world.rest_joints)
        self._arm.state, self._movement = self._world.arm_state(), self._world.movement

    @property
    def movement(self) -> Movement:
        """The progress of the copy's movers."""
        return self._movement

    def save(self) -> tuple[mujoco.MjData, ArmState, Movement]:
        """Return the copy's present moment, for `restore`."""
        return copied_data(self._world.model, self.data), self._arm.state.copy(), self._movement

    def restore(self, saved: tuple[mujoco.MjData, ArmState, Movement]) -> None:
        """Go back to a saved moment."""
        copy_data(self.data, self._world.model, saved[0])
        self._arm.state, self._movement = saved[1].copy(), saved[2]

    def step(self, action: npt.NDArray[np.float64]) -> bool:
        """Run one control step, as `World.step` does.

        Args:
            action: (7,), finite.

        Returns:
            Whether physics held; if False, the copy must be restored or begun anew.
        """
        time_before = self.data.time
        self._movement = self._movement.advanced(self.data)
        try:
            self._arm.step(action, 0)
            check_physics(self.data, time_before)
        except EpisodeError:
            return False
        return True

    def predicates(self) -> dict[str, bool]:
        """Return the verdict of each goal literal on the copy, by its text."""
        return each_of(self._goal)
