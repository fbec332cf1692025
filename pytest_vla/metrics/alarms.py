"""An alarm while an episode runs: a rule on a metric, when it rings, and what stopping there would have done.

The study is of episodes that ran to their ends: of the failures those that the alarm would have caught, of the
successes those that it would have cut. So nothing is run again, and nothing is lost to a bad threshold.
"""

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.errors import VlaError
from pytest_vla.metrics.clustered import (
    FEWEST_TASKS,
    Interval,
    Unit,
    crossed_spread,
    no_narrower,
    rate_intervals,
    student_quantile,
)
from pytest_vla.metrics.failure_prediction import Watched
from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.statistics import score_interval

# Alarms within tasks: a rule that only separates hard tasks from easy ones catches much, but predicts nothing.
# A failure and a success of one task are looked at for as long as the success took, since failures are the longest
# and a longer look rings more often. How much more often the alarm stops the failure is 0 for what knows the task
# alone, and for what rings at random. Each task counts alike, as a Mantel-Haenszel estimate would have it of tables
# of one size.


@dataclass(frozen=True)
class AlarmResult:
    """The effect of an alarm on one episode.

    Attributes:
        failed: whether the episode failed; otherwise it succeeded.
        unit: its task and seed.
        steps: its number of control steps.
        stopped: the control step, from 1, at which the alarm would have stopped it, or None.
    """

    failed: bool
    unit: Unit
    steps: int
    stopped: int | None


@dataclass(frozen=True)
class TaskAlarms:
    """The effect of an alarm on one task.

    Attributes:
        task: its name.
        failures: episodes that failed.
        caught: failures that would have been stopped.
        successes: episodes that succeeded.
        cut: successes that would have been stopped.
    """

    task: str
    failures: int
    caught: int
    successes: int
    cut: int


@dataclass(frozen=True)
class WithinTasks:
    """The effect of an alarm within tasks: means over the tasks that have both failures and successes.

    Attributes:
        tasks: their number.
        caught: share of a task's failures that would have been stopped.
        in_time: share of a task's pairs of a failure and a success in which the failure would have been stopped no
            later than the success was done.
        cut: share of a task's successes that would have been stopped.
        more: `in_time` minus `cut`; 0 means that the alarm detects nothing within a task. With intervals over these
            tasks and over tasks like these.
    """

    tasks: int
    caught: float
    in_time: float
    cut: float
    more: GroundingEstimate


def task_alarms(watches: Sequence[AlarmResult]) -> tuple[TaskAlarms, ...]:
    """Return the effect of an alarm on each task, in the order of the tasks' first episodes."""
    found = []
    for task, here in _by_task(watches).items():
        failures, successes = ([each for each in here if each.failed == way] for way in (True, False))
        counts = [sum(each.stopped is not None for each in some) for some in (failures, successes)]
        found.append(TaskAlarms(task, len(failures), counts[0], len(successes), counts[1]))
    return tuple(found)


def within_tasks(watches: Sequence[AlarmResult]) -> WithinTasks | None:
    """Compute the effect of an alarm within tasks, or None if no task has both failures and successes.

    The intervals are those of an area under a curve, (1 + `more`) / 2, as in `pytest_vla.metrics.failure_prediction`:
    from the influences of clusters, by task and seed, and by task.
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
        GroundingEstimate(2.0 * area - 1.0, _more(interval), _more(no_narrower(wide, interval))),
    )


def _by_task(watches: Sequence[AlarmResult]) -> Mapping[str, list[AlarmResult]]:
    found: dict[str, list[AlarmResult]] = {}
    for each in watches:
        found.setdefault(each.unit[0], []).append(each)
    return found


def _stopped(some: Sequence[AlarmResult]) -> NDArray[np.float64]:
    return np.array([each.stopped is not None for each in some], dtype=np.float64)


def _in_time(failures: Sequence[AlarmResult], successes: Sequence[AlarmResult]) -> NDArray[np.float64]:
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


EXAMPLE = "token_entropy>0.3 for 5"

_RULE = re.compile(
    r"\s*(?P<metric>[^\s<>=]*)\s*(?P<sign>[<>]?=?)\s*(?P<threshold>[^\s<>=]*)(?P<rest>.*?)\s*", re.DOTALL
)
_METRIC = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]{1,15}(\.[0-9]{0,15})?|\.[0-9]{1,15})(e[+-]?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)
_FOR = re.compile(r"\s+for\s+(?P<steps>[0-9]{1,6})(\s+steps?)?", re.ASCII)


@dataclass(frozen=True)
class AlarmRule:
    """Rings where a metric is above, or below, a threshold for so many control steps one after the other.

    Attributes:
        metric: its name, or that of one of its series.
        sign: ``>``, ``>=``, ``<`` or ``<=``.
        threshold: in the metric's unit.
        steps: 1 or more.
    """

    metric: str
    sign: str
    threshold: float
    steps: int = 1

    def __str__(self) -> str:
        """Return the rule as typed; `parse_rule` reads it."""
        return f"{self.metric}{self.sign}{self.threshold!r} for {self.steps}"

    def holds(self, values: ArrayLike) -> NDArray[np.bool_]:
        """Return which values are beyond the threshold; nan (unknown) is not."""
        numbers = np.asarray(values, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            beyond = numbers > self.threshold if ">" in self.sign else numbers < self.threshold
        return beyond | (numbers == self.threshold) if "=" in self.sign else beyond


def parse_rule(text: str) -> AlarmRule:
    """Parse ``METRIC>NUMBER`` or ``METRIC<NUMBER``, also with ``=``, followed by ``for STEPS`` (default 1).

    Raises:
        VlaError: the text is no rule; names the wrong part and the format.
    """
    found = _RULE.fullmatch(text)
    assert found is not None, "each part may be empty"
    said = f"{text[:100]!r} is not a rule such as {EXAMPLE!r}"
    if not _METRIC.fullmatch(found["metric"]):
        raise VlaError(f"{said}: expected a metric's name first, got {found['metric'][:40]!r}")
    if found["sign"] not in (">", ">=", "<", "<="):
        raise VlaError(f"{said}: expected >, >=, < or <= after {found['metric']}")
    if not _NUMBER.fullmatch(found["threshold"]) or not math.isfinite(float(found["threshold"])):
        raise VlaError(f"{said}: expected a number after {found['sign']}, got {found['threshold'][:40]!r}")
    steps = _FOR.fullmatch(found["rest"]) if found["rest"] else None
    if found["rest"] and (steps is None or int(steps["steps"]) < 1):
        raise VlaError(
            f"{said}: expected `for STEPS`, 1 or more, or nothing after the number, got {found['rest'].strip()[:40]!r}"
        )
    return AlarmRule(
        found["metric"], found["sign"], float(found["threshold"]), 1 if steps is None else int(steps["steps"])
    )


def first_alarm(series: ArrayLike, rule: AlarmRule) -> int | None:
    """Return the control step, from 1, at which the rule has first held long enough, or None if it never has.

    Args:
        series: (n,), one value per control step.
        rule: the alarm's rule.

    Raises:
        VlaError: `series` is no such array.
    """
    values = np.asarray(series, dtype=np.float64)
    if values.ndim != 1:
        raise VlaError(f"series {values.shape}: expected (n,), one number per control step")
    held = rule.holds(values)
    # How many steps did not hold by each: unchanged over a spell.
    broken = np.concatenate([[0], np.cumsum(~held)])
    rings = broken[rule.steps :] == broken[: max(len(values) - rule.steps + 1, 0)]
    return int(rings.argmax()) + rule.steps if rings.any() else None


@dataclass(frozen=True)
class Intervention:
    """The effect of stopping episodes at an alarm.

    Attributes:
        rule: the alarm's rule.
        failures: episodes that failed.
        caught: share of failures that would have been stopped.
        successes: episodes that succeeded.
        cut: share of successes that would have been stopped.
        in_time: share of failures stopped before half of the successes were done. Failures are the longest episodes, so
            a random alarm rings mostly in them; this share does not profit from that.
        lead: control steps between alarm and end, median over the caught failures, or None if none was caught.
        saved: share of all control steps that would not have been run.
        within: the effect within tasks, to which a rule that only distinguishes tasks contributes nothing; None if no
            task has both failures and successes.
        by_task: the counts for each task.
    """

    rule: AlarmRule
    failures: int
    caught: GroundingEstimate | None
    successes: int
    cut: GroundingEstimate | None
    in_time: GroundingEstimate | None
    lead: float | None
    saved: float
    within: WithinTasks | None
    by_task: tuple[TaskAlarms, ...]

    @property
    def most_cut(self) -> TaskAlarms | None:
        """The task with the largest share of successes that would have been stopped, or None if none would."""
        some = [each for each in self.by_task if each.cut]
        return max(some, key=lambda each: (each.cut / each.successes, each.cut)) if some else None


def intervention(episodes: Sequence[Watched], rule: AlarmRule) -> Intervention | None:
    """Compute the effect of a rule on one policy's episodes in a suite, or None if no episode has its metric."""
    known = [episode for episode in episodes if rule.metric in episode.series]
    if not known:
        return None
    alarms = [first_alarm(episode.series[rule.metric], rule) for episode in known]
    lengths = [len(episode.series[rule.metric]) for episode in known]
    # With its last step an episode is over: nobody can stop it then.
    rang = [alarm is not None and alarm < length for alarm, length in zip(alarms, lengths, strict=True)]
    done = [length for episode, length in zip(known, lengths, strict=True) if not episode.failed]
    usual = median(done) if done else math.inf
    early = [rung and (alarm or 0) <= usual for rung, alarm in zip(rang, alarms, strict=True)]
    left = [length - (alarm or 0) if rung else 0 for rung, alarm, length in zip(rang, alarms, lengths, strict=True)]
    leads = [steps for episode, steps, rung in zip(known, left, rang, strict=True) if episode.failed and rung]
    watches = [
        AlarmResult(episode.failed, episode.unit, length, alarm if rung else None)
        for episode, length, alarm, rung in zip(known, lengths, alarms, rang, strict=True)
    ]
    return Intervention(
        rule,
        len(known) - len(done),
        _share(known, rang, failed=True),
        len(done),
        _share(known, rang, failed=False),
        _share(known, early, failed=True) if done else None,
        float(median(leads)) if leads else None,
        sum(left) / sum(lengths) if sum(lengths) else 0.0,
        within_tasks(watches),
        task_alarms(watches),
    )


def _share(episodes: Sequence[Watched], truths: Sequence[bool], *, failed: bool) -> GroundingEstimate | None:
    some = [(float(truth), each.unit) for truth, each in zip(truths, episodes, strict=True) if each.failed == failed]
    if not some:
        return None
    values, units = [value for value, _ in some], [unit for _, unit in some]
    return GroundingEstimate(sum(values) / len(values), *rate_intervals(values, units))
