"""What an alarm does within tasks: a rule that only tells hard tasks from easy ones catches much, and tells nothing.

A failure and a success of one task are looked at for as long as the success took, since failures are the longest and a
longer look rings more often. How much more often the alarm stops the failure is 0 for what knows the task alone, and
for what rings at random. Each task counts alike, as a Mantel-Haenszel estimate would have it of tables of one size.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from pytest_vla.metrics.clustered import FEWEST_TASKS, Interval, Unit, crossed_spread, no_narrower, student_quantile
from pytest_vla.metrics.listening import Estimate
from pytest_vla.metrics.statistics import score_interval


@dataclass(frozen=True)
class Watch:
    """What an alarm did in an episode.

    Attributes:
        failed: whether the episode failed; else it succeeded.
        unit: its task and seed.
        steps: control steps that it took.
        stopped: the control step, from 1, at which it would have been stopped; None: it would not.
    """

    failed: bool
    unit: Unit
    steps: int
    stopped: int | None


@dataclass(frozen=True)
class TaskAlarms:
    """What an alarm did in one task.

    Attributes:
        task: its name.
        failures: episodes that failed.
        caught: of these those that would have been stopped.
        successes: episodes that succeeded.
        cut: of these those that would have been stopped.
    """

    task: str
    failures: int
    caught: int
    successes: int
    cut: int


@dataclass(frozen=True)
class WithinTasks:
    """What an alarm did in the tasks that have failures and successes, the mean of these.

    Attributes:
        tasks: how many they are.
        caught: share of a task's failures that would have been stopped.
        in_time: share of its pairs of a failure and a success in which the failure would have been stopped by when the
            success was done.
        cut: share of its successes that would have been stopped.
        more: `in_time` less `cut`: 0, it tells nothing within a task. With intervals over these tasks and over tasks
            like these.
    """

    tasks: int
    caught: float
    in_time: float
    cut: float
    more: Estimate


def task_alarms(watches: Sequence[Watch]) -> tuple[TaskAlarms, ...]:
    """What an alarm did in each task, in the order in which they come."""
    found = []
    for task, here in _by_task(watches).items():
        failures, successes = ([each for each in here if each.failed == way] for way in (True, False))
        counts = [sum(each.stopped is not None for each in some) for some in (failures, successes)]
        found.append(TaskAlarms(task, len(failures), counts[0], len(successes), counts[1]))
    return tuple(found)


def within_tasks(watches: Sequence[Watch]) -> WithinTasks | None:
    """What an alarm did within tasks; None: no task has both failures and successes.

    The intervals are those of an area under a curve, (1 + `more`) / 2, as `pytest_vla.metrics.foretelling` has them:
    by clusters' influences, of task and seed, and of tasks.
    """
    both = [
        (failures, successes)
        for here in _by_task(watches).values()
        if (failures := [each for each in here if each.failed])
        and (successes := [each for each in here if not each.failed])
    ]
    if not both:
        return None
    pairs = [(_in_time(failures, successes), _stopped(successes)) for failures, successes in both]
    areas = [float((1.0 + early.mean() - cut.mean()) / 2.0) for early, cut in pairs]
    area, number = fmean(areas), len(both)
    units: list[Unit] = []
    failed: list[bool] = []
    # How an episode strays from its task, and, spread over its episodes, the task from all.
    within: list[float] = []
    between: list[float] = []
    for (failures, successes), (early, cut), here in zip(both, pairs, areas, strict=True):
        won = (1.0 + early - cut) / 2.0 - here
        for some, strays in ((failures, won.mean(axis=1)), (successes, won.mean(axis=0))):
            units += [each.unit for each in some]
            failed += [each.failed for each in some]
            within += (strays / len(some) / number).tolist()
            between += [(here - area) / (len(failures) + len(successes)) / number] * len(some)
    most = number**2 / sum((len(f) + len(s)) / (4.0 * len(f) * len(s)) for f, s in both)
    interval, wide = _interval(area, within, failed, units, most), None
    if number >= FEWEST_TASKS:
        wide = _interval(area, np.add(within, between).tolist(), failed, [task for task, _ in units], most)
    return WithinTasks(
        number,
        fmean(float(_stopped(failures).mean()) for failures, _ in both),
        fmean(float(early.mean()) for early, _ in pairs),
        fmean(float(cut.mean()) for _, cut in pairs),
        Estimate(2.0 * area - 1.0, _more(interval), _more(no_narrower(wide, interval))),
    )


def _by_task(watches: Sequence[Watch]) -> Mapping[str, list[Watch]]:
    found: dict[str, list[Watch]] = {}
    for each in watches:
        found.setdefault(each.unit[0], []).append(each)
    return found


def _stopped(some: Sequence[Watch]) -> NDArray[np.float64]:
    return np.array([each.stopped is not None for each in some], dtype=np.float64)


def _in_time(failures: Sequence[Watch], successes: Sequence[Watch]) -> NDArray[np.float64]:
    """(n, m), of each failure whether it would have been stopped before each success was done."""
    stopped = np.array([np.inf if each.stopped is None else each.stopped for each in failures])
    return (stopped[:, None] < np.array([each.steps for each in successes])).astype(np.float64)


def _interval(
    area: float, influence: Sequence[float], failed: Sequence[bool], clusters: Sequence[Hashable], most: float
) -> Interval | None:
    spread = crossed_spread(influence, [1.0 / len(influence)] * len(influence), 0.0, [clusters])
    if spread is None:
        return None
    alike = area * (1.0 - area)
    if alike < 1e-12 or spread.variance < 1e-18:
        # Nothing strays, and nothing tells how far another would: each cluster of the fewer is worth one.
        fewer = min(
            len({each for each, is_failed in zip(clusters, failed, strict=True) if is_failed == way})
            for way in (True, False)
        )
        return score_interval(area, min(float(fewer), most), student_quantile(spread.freedom))
    return score_interval(area, min(alike / spread.variance, most), student_quantile(spread.freedom))


def _more(interval: Interval | None) -> Interval | None:
    return None if interval is None else (2.0 * interval[0] - 1.0, 2.0 * interval[1] - 1.0)
