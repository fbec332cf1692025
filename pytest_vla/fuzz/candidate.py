"""A scene that is tried: a task with a seed, and what is changed of it."""

from dataclasses import dataclass, replace

from pytest_vla.plan.case import Case
from pytest_vla.plan.labels import dimension_of, joint_of
from pytest_vla.plan.task import Task
from pytest_vla.vary.chosen import Change, remember
from pytest_vla.vary.registry import in_order


@dataclass(frozen=True)
class Candidate:
    """A scene that is tried.

    Attributes:
        task: as it is.
        seed: of the case.
        changes: of different dimensions; empty: the benign twin.
    """

    task: Task
    seed: int
    changes: tuple[Change, ...] = ()

    @property
    def label(self) -> str:
        """Of its variation, which this process knows from now on; empty: nothing is changed."""
        return joint_of(in_order([remember(change) for change in self.changes]))

    @property
    def case(self) -> Case:
        """The episode."""
        return Case(self.task.suite, self.task.name, self.seed, self.label, self.task.task_level)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """What is changed."""
        return tuple(dimension_of(change.kind) for change in self.changes)

    def having(self, changes: tuple[Change, ...]) -> "Candidate":
        """The same task and seed with other changes."""
        return replace(self, changes=changes)
