"""What is known of models under variations: what a report of it shows, and which rows of it say something."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pytest_vla.metrics.composition import Composition
from pytest_vla.metrics.failure_types import USUAL_TAU, Algorithm, Tau
from pytest_vla.metrics.language_paths import Failures, Paths, TaskFailures, text_failures
from pytest_vla.metrics.robustness import Cell, Varied, dimension_of
from pytest_vla.metrics.robustness_curves import Curve, Harm
from pytest_vla.metrics.selection import is_counted
from pytest_vla.records.record import Record

# How a model fails under each dimension of variation: near the path of successes, or elsewhere.
# LIBERO-Para's Algorithm 1 (see `pytest_vla.metrics.failure_types`), whose successes are the benign ones and those of
# the dimension, task by task.


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


SEEN = 50
"""Points: a row that cannot show a change of so much, and whose interval holds 0, says nothing by itself."""


@dataclass(frozen=True)
class ModelRobustness:
    """What is known of one model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        runs: names of those that it was made from.
        cells: success by dimension, kind and level.
        curves: by dimension.
        harm: the largest drop; None without pairs.
        pairs: of dimensions, with their compositional gap.
        left_out: what is not in the numbers, and why.
        protocol: as the paper or as upstream's code has it, where the suite has both; else empty.
        failures: how it failed, of each dimension in which it did.
        algorithm: what tells near failures from far ones.
        tau: how its threshold is made.
        pooled: the pairs of dimensions over all suites of the model; empty if fewer than two suites have any.
        pooled_suites: the names of these suites.
    """

    model: str
    suite: str
    runs: tuple[str, ...]
    cells: tuple[Cell, ...]
    curves: tuple[Curve, ...]
    harm: Harm | None
    pairs: tuple[Composition, ...]
    left_out: tuple[str, ...]
    protocol: str = ""
    failures: tuple[DimensionFailures, ...] = ()
    algorithm: str = ""
    pooled: tuple[Composition, ...] = ()
    pooled_suites: tuple[str, ...] = ()
    tau: Tau = USUAL_TAU


def says_something(cell: Cell) -> bool:
    """Whether a row tells more than that there are too few episodes of it."""
    if cell.is_few:
        return False
    change = cell.difference
    if change is None:
        return True
    if change.interval is not None and not change.interval[0] <= 0 <= change.interval[1]:
        return True
    return change.detectable is not None and change.detectable <= SEEN
