"""How a model fails under each dimension of variation: near the path of successes, or elsewhere.

LIBERO-Para's Algorithm 1 (see `pytest_vla.metrics.failure_types`), whose successes are the benign ones and those of the
dimension, task by task.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_vla.metrics.failure_types import USUAL_TAU, Algorithm, Tau
from pytest_vla.metrics.language_paths import Failures, Paths, TaskFailures, text_failures
from pytest_vla.metrics.robustness import Varied, dimension_of
from pytest_vla.metrics.selection import is_counted
from pytest_vla.records.record import Record


@dataclass(frozen=True)
class DimensionFailures:
    """The failures of a dimension: near, far and unlabelled ones are all that have a path.

    Attributes:
        dimension: its name.
        near: failed near the path of successes: what went wrong is how it was done.
        far: went elsewhere.
        unlabelled: of tasks with too few successes, of which nothing tells near from far.
        without_path: whose trajectory is not kept.
        another: of the far ones, those whose path is nearest to that of another task's successes.
        tasks: their paths with those of the successes.
    """

    dimension: str
    near: int
    far: int
    unlabelled: int
    without_path: int
    another: int
    tasks: tuple[TaskFailures, ...] = field(default=(), compare=False)


def dimension_failures(
    varied: Varied, paths: Paths, algorithm: Algorithm, tau: Tau = USUAL_TAU
) -> tuple[DimensionFailures, ...]:
    """Of each dimension with failures, in the order in which they came; probes are in none.

    Raises:
        VlaError: fastdtw is asked for and not installed.
    """
    done = [record for record in varied.benign if record.outcome == "success"]
    by_dimension: dict[str, list[Record]] = {}
    for record in filter(is_counted, varied.episodes):
        by_dimension.setdefault(dimension_of(record), []).append(record)
    found = []
    for dimension, records in by_dimension.items():
        failed = [record for record in records if record.outcome == "failure"]
        if failed:
            typed = text_failures([*done, *records], paths, algorithm, tau)
            found.append(_of(dimension, failed, typed, paths))
    return tuple(found)


def _of(dimension: str, failed: Sequence[Record], typed: Failures | None, paths: Paths) -> DimensionFailures:
    near = far = another = 0
    tasks = () if typed is None else typed.tasks
    for task in tasks:
        some_near, some_far = task.near_far("max")
        near, far = near + some_near, far + some_far
        another += sum(each.nearest is not None and each.nearest.task not in (None, task.task) for each in task.far)
    without = sum(paths(record) is None for record in failed)
    return DimensionFailures(dimension, near, far, len(failed) - without - near - far, without, another, tasks)
