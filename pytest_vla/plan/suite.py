"""A suite: a named list of tasks."""

from dataclasses import dataclass

from pytest_vla.errors import VlaError
from pytest_vla.plan.labels import task_key
from pytest_vla.plan.task import Protocol, Task
from pytest_vla.util.text import did_you_mean


@dataclass(frozen=True)
class Suite:
    """A named list of tasks, in upstream's order.

    Attributes:
        name: as ids and records have it.
        title: as people have it.
        tasks: all of them, level by level where they come in levels.
        protocol: of its tasks; those of a level may have one that differs, `Task.protocol`.
        seeds: where nothing says which; None: 0.
        category: of what the benchmark measures with it, such as ``safety``; empty: not said.
    """

    name: str
    title: str
    tasks: tuple[Task, ...]
    protocol: Protocol
    seeds: tuple[int, ...] | None = None
    category: str = ""

    @property
    def task_levels(self) -> tuple[str, ...]:
        """The levels that its tasks come in, in their order; none where they come in none."""
        return tuple(dict.fromkeys(task.task_level for task in self.tasks if task.task_level))

    def task(self, name: str, task_level: str = "") -> Task:
        """A task by its name, or by level and name (``L1-pick_the_apple``).

        Args:
            name: `Task.name` or `Task.key`.
            task_level: of the task; empty: the name says it, or only one level has the name.

        Raises:
            VlaError: there is none, with close matches, or the name stands in several levels, which are named.
        """
        wanted = task_key(name, task_level)
        found = [task for task in self.tasks if task.key == wanted] or [
            task for task in self.tasks if not task_level and task.name == name
        ]
        if not found:
            known = [text for task in self.tasks for text in dict.fromkeys((task.key, task.name))]
            raise VlaError(f"suite {self.name} has no task {wanted!r}.{did_you_mean(wanted, known)}")
        if len(found) > 1:
            keys = " or ".join(task.key for task in found)
            raise VlaError(f"suite {self.name} has several tasks {name!r}: write {keys}")
        return found[0]
