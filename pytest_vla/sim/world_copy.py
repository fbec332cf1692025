"""A copy of a world's present moment, stepped apart from the world with the same physics bit for bit."""

from typing import TYPE_CHECKING

import mujoco
import numpy as np
import numpy.typing as npt

from pytest_vla.errors import EpisodeError
from pytest_vla.sim.arm import Arm, ArmState
from pytest_vla.sim.movers import Movement
from pytest_vla.sim.native import copy_data
from pytest_vla.sim.verdicts import compile_goal, each_of
from pytest_vla.sim.world_state import check_physics, copied_data

if TYPE_CHECKING:
    from pytest_vla.sim.world import World


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
