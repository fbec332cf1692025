"""The worlds of one process."""

from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import Task
from pytest_vla.scene.cost_rules import Charging
from pytest_vla.scene.variation import Variation
from pytest_vla.util.told import warn


class WorldPool:
    """Keeps the world that was used last: the next episode is mostly of the same scene, and worlds are large."""

    def __init__(self, allow_versions: bool, keep_every: int = 0, charging: Charging | None = None) -> None:
        """`keep_every`: of a suite's own world that cannot restore a state, the steps from one kept frame to the next;
        0: none is kept. `charging`: what episodes are charged for; None: a task's own costs alone."""
        self._allow_versions, self._keep_every, self._charging = allow_versions, keep_every, charging
        self._world: Any = None
        self._told: set[str] = set()

    def __call__(self, task: Task, variation: Variation | None = None) -> Any:
        """The world of a task under a variation, to be reset before use: `pytest_vla.World`, or the suite's own.

        Raises:
            VlaError: it cannot be made.
        """
        world = self._world
        if task.world is not None:
            return self._own(task, variation)
        if world is not None and world.task.world is not None:
            self.close()
            world = None
        known = world is not None and world.task == task and world.variation is variation
        if world is None or not (known or world.switch(task, variation)):
            from pytest_vla.sim.world import World

            self.close()
            world = World(task, variation, allow_versions=self._allow_versions)
            if self._charging is not None and hasattr(world, "meter"):
                from pytest_vla.sim.accounts import meters_of

                try:
                    world.meter(meters_of(self._charging))
                except VlaError:
                    world.close()
                    raise
            self._world = world
        return world

    def _own(self, task: Task, variation: Variation | None) -> Any:
        from pytest_vla.episode.own_world import OwnWorld

        declared = None if self._charging is None else self._charging.declared
        if rule := next((rule for rule in (declared.rules if declared else ()) if rule.is_of(task)), None):
            raise VlaError(
                f"{rule.where}: {task.suite}/{task.name} has a simulator of its own, whose costs() says what it "
                'charges; leave such tasks out: tasks = "..."'
            )
        if self._world is None or self._world.task.world is None or not self._world.switch(task, variation):
            self.close()
            self._world = OwnWorld(task, variation, keep_every=self._keep_every)
        return self._world

    def close(self) -> None:
        """Close the world; the next episode gets a new one. Of a suite's own that cannot be closed it is told once."""
        world, self._world = self._world, None
        try:
            if world is not None:
                world.close()
        except VlaError as error:
            if str(error) not in self._told:
                warn(f"{error}; its episodes stand")
            self._told.add(str(error))
