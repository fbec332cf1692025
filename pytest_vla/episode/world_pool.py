"""The worlds of one process."""

from typing import TYPE_CHECKING

from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Variation

if TYPE_CHECKING:
    from pytest_vla.sim.world import World


class WorldPool:
    """Keeps the world that was used last: the next episode is mostly of the same scene, and worlds are large."""

    def __init__(self, allow_versions: bool) -> None:
        self._allow_versions = allow_versions
        self._world: World | None = None

    def __call__(self, task: Task, variation: Variation | None = None) -> "World":
        """The world of a task under a variation, to be reset before use. Raises VlaError where it cannot be built."""
        world = self._world
        known = world is not None and world.task == task and world.variation is variation
        if world is None or not (known or world.switch(task, variation)):
            from pytest_vla.sim.world import World

            self.close()
            self._world = world = World(task, variation, allow_versions=self._allow_versions)
        return world

    def close(self) -> None:
        """Close the world; the next episode gets a new one."""
        if self._world is not None:
            self._world.close()
        self._world = None
