"""A suite: a named list of tasks."""

from dataclasses import dataclass

from pytest_vla.errors import VlaError
from pytest_vla.plan.task import Protocol, Task
from pytest_vla.util.text import did_you_mean


@dataclass(frozen=True)
class Suite:
    """A named list of tasks, in upstream's order, with one protocol; `seeds`: where nothing says which; None: 0."""

    name: str
    title: str
    tasks: tuple[Task, ...]
    protocol: Protocol
    seeds: tuple[int, ...] | None = None

    def task(self, name: str) -> Task:
        """The task of this name (file stem). Raises VlaError, with close matches, where there is none."""
        found = next((task for task in self.tasks if task.name == name), None)
        if found is None:
            raise VlaError(f"suite {self.name} has no task {name!r}.{did_you_mean(name, (t.name for t in self.tasks))}")
        return found
