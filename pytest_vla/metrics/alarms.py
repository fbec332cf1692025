"""An alarm while an episode runs: a rule on a metric, when it rings, and what stopping there would have done.

The study is of episodes that ran to their ends: of the failures those that the alarm would have caught, of the
successes those that it would have cut. So nothing is run again, and nothing is lost to a bad threshold.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.errors import VlaError
from pytest_vla.metrics.clustered import rate_intervals
from pytest_vla.metrics.foretelling import Watched
from pytest_vla.metrics.listening import Estimate
from pytest_vla.metrics.within_tasks import TaskAlarms, Watch, WithinTasks, task_alarms, within_tasks

EXAMPLE = "token_entropy>0.3 for 5"

_RULE = re.compile(
    r"\s*(?P<metric>[^\s<>=]*)\s*(?P<sign>[<>]?=?)\s*(?P<threshold>[^\s<>=]*)(?P<rest>.*?)\s*", re.DOTALL
)
_METRIC = re.compile(r"[A-Za-z0-9][\w.-]{0,99}", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]{1,15}(\.[0-9]{0,15})?|\.[0-9]{1,15})(e[+-]?[0-9]{1,3})?", re.ASCII | re.IGNORECASE)
_FOR = re.compile(r"\s+for\s+(?P<steps>[0-9]{1,6})(\s+steps?)?", re.ASCII)


@dataclass(frozen=True)
class Rule:
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
        """As it is typed; `parse_rule` reads it."""
        return f"{self.metric}{self.sign}{self.threshold!r} for {self.steps}"

    def holds(self, values: ArrayLike) -> NDArray[np.bool_]:
        """Of each value whether it is beyond the threshold; nan, of which nothing is known, is not."""
        numbers = np.asarray(values, dtype=np.float64)
        with np.errstate(invalid="ignore"):
            beyond = numbers > self.threshold if ">" in self.sign else numbers < self.threshold
        return beyond | (numbers == self.threshold) if "=" in self.sign else beyond


def parse_rule(text: str) -> Rule:
    """``METRIC>NUMBER``, ``METRIC<NUMBER``, also with ``=``, and ``for STEPS`` behind it, or 1.

    Raises:
        VlaError: it is none; says which part, and how one looks.
    """
    found = _RULE.fullmatch(text)
    assert found is not None, "each part may be empty"
    said = f"{text[:100]!r} is no rule such as {EXAMPLE!r}"
    if not _METRIC.fullmatch(found["metric"]):
        raise VlaError(f"{said}: it begins with the name of a metric, and {found['metric'][:40]!r} is none")
    if found["sign"] not in (">", ">=", "<", "<="):
        raise VlaError(f"{said}: expected >, >=, < or <= after {found['metric']}")
    if not _NUMBER.fullmatch(found["threshold"]) or not math.isfinite(float(found["threshold"])):
        raise VlaError(f"{said}: expected a number after {found['sign']}, got {found['threshold'][:40]!r}")
    steps = _FOR.fullmatch(found["rest"]) if found["rest"] else None
    if found["rest"] and (steps is None or int(steps["steps"]) < 1):
        raise VlaError(f"{said}: after the number may stand `for STEPS`, 1 or more; got {found['rest'].strip()[:40]!r}")
    return Rule(found["metric"], found["sign"], float(found["threshold"]), 1 if steps is None else int(steps["steps"]))


def first_alarm(series: ArrayLike, rule: Rule) -> int | None:
    """The control step, from 1, with which the rule has held long enough for the first time; None: it never has.

    Args:
        series: (n,), a control step each.
        rule: what rings.

    Raises:
        VlaError: `series` is no such array.
    """
    values = np.asarray(series, dtype=np.float64)
    if values.ndim != 1:
        raise VlaError(f"series {values.shape}: expected (n,), a number a control step")
    held = rule.holds(values)
    # How many steps did not hold by each: unchanged over a spell.
    broken = np.concatenate([[0], np.cumsum(~held)])
    rings = broken[rule.steps :] == broken[: max(len(values) - rule.steps + 1, 0)]
    return int(rings.argmax()) + rule.steps if rings.any() else None


@dataclass(frozen=True)
class Intervention:
    """What stopping at an alarm would have done.

    Attributes:
        rule: of the alarm.
        failures: episodes that failed.
        caught: of these the share that would have been stopped.
        successes: episodes that succeeded.
        cut: of these the share that would have been stopped.
        in_time: of the failures the share stopped by the time by which half of the successes were done. Failures are
            the longest, so that an alarm which rings at random rings in them most: this share does not profit from it.
        lead: control steps between the alarm and the end, median of the failures that it caught; None: of none.
        saved: share of all control steps that would not have been run.
        within: the same within tasks, which a rule that only tells tasks apart has nothing of; None: no task has both
            failures and successes.
        by_task: the counts of each task.
    """

    rule: Rule
    failures: int
    caught: Estimate | None
    successes: int
    cut: Estimate | None
    in_time: Estimate | None
    lead: float | None
    saved: float
    within: WithinTasks | None
    by_task: tuple[TaskAlarms, ...]


def intervention(episodes: Sequence[Watched], rule: Rule) -> Intervention | None:
    """What a rule would have done to episodes of one policy and suite; None: none has a series of its metric."""
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
        Watch(episode.failed, episode.unit, length, alarm if rung else None)
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


def _share(episodes: Sequence[Watched], truths: Sequence[bool], *, failed: bool) -> Estimate | None:
    some = [(float(truth), each.unit) for truth, each in zip(truths, episodes, strict=True) if each.failed == failed]
    if not some:
        return None
    values, units = [value for value, _ in some], [unit for _, unit in some]
    return Estimate(sum(values) / len(values), *rate_intervals(values, units))
