"""Estimates of episodes' durations, from those of earlier runs of the same policy. Pure."""

import functools
import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from typing import TypeVar

from pytest_vla.plan.case import Case

# Of a control step with its share of pictures and policy: a guess, and so for comparing cases only.
_STEP_SECONDS = 0.03

LONGEST_SECONDS = 1e9
"""Of an episode, 30 years: more is no time, and sums of more would overflow."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class DurationEstimate:
    """The likely wall time of an episode, seconds. Not `measured`: good for an order, and not to be shown as a time."""

    seconds: float
    measured: bool


def estimate(
    cases: Sequence[Case], measured: Iterable[tuple[str, str, int, float]], max_steps: Mapping[str, int]
) -> tuple[DurationEstimate, ...]:
    """Estimate the duration of each case: the mean of its own earlier times, else of its task's, else of its suite's.

    If the suite was never run, the times of other suites are scaled by the step budgets; if none was run, only the step
    budgets are compared.

    Args:
        cases: to be run.
        measured: suite, `Case.task_key`, seed and seconds of earlier episodes of the same policy. Values that are no
            time (negative, above `LONGEST_SECONDS`) are left out.
        max_steps: the step budget of every suite in `cases`, and of those in `measured` that count for other suites.

    Raises:
        KeyError: a suite of `cases` has no step budget.
    """
    times = [row for row in measured if _is_time(row[3])]
    by_case = _means(((suite, task, seed), seconds) for suite, task, seed, seconds in times)
    by_task = _means(((suite, task), seconds) for suite, task, _, seconds in times)
    by_suite = _means((suite, seconds) for suite, _, _, seconds in times)
    rates = [seconds / max_steps[suite] for suite, seconds in by_suite.items() if suite in max_steps]
    step_seconds = math.fsum(rates) / len(rates) if rates else _STEP_SECONDS

    def of(case: Case) -> DurationEstimate:
        means = (
            by_case.get((case.suite, case.task_key, case.seed)),
            by_task.get((case.suite, case.task_key)),
            by_suite.get(case.suite),
        )
        mean = next((mean for mean in means if mean is not None), None)
        return (
            DurationEstimate(max_steps[case.suite] * step_seconds, bool(rates))
            if mean is None
            else DurationEstimate(mean, True)
        )

    return tuple(of(case) for case in cases)


# The time that a run still takes, from its own episodes: estimates of earlier runs are scaled by what these took.


@dataclass(frozen=True)
class ExpectedEpisode:
    """An episode with its expected duration.

    Attributes:
        seconds: by earlier runs, or by step budgets: good for comparing a run's episodes.
        suite: its suite.
        kind: of its variation; empty for a benign episode.
        task: its task.
    """

    seconds: float
    suite: str = ""
    kind: str = ""
    task: str = ""


@dataclass(frozen=True)
class EndedEpisode:
    """An episode that has ended.

    Attributes:
        expected: as it was expected.
        seconds: its measured duration, without the loading of its scene.
        whole: what it would have taken with all steps of its budget.
    """

    expected: ExpectedEpisode
    seconds: float
    whole: float


_FAILS = 0.5
"""As how many episodes of a kind of variation one counts that has failed after its whole budget, before any has."""

_LEAST = 0.1
"""Of the mean of the expected times: what each counts as at least."""


def learned_seconds(left: Sequence[ExpectedEpisode], ended: Sequence[EndedEpisode]) -> tuple[float, ...]:
    """Return how long episodes are likely to take, by those of this run that have ended.

    An episode takes its expected time, times the ratio of measured and expected times. The ratio is that of its suite,
    kind and task, drawn towards the suite's and kind's, and this towards the suite's, and this towards the run's: as if
    each had one more episode like the coarser ones. A kind may also fail more often than what ran first.

    An expected time counts as a tenth of their mean at least: one near 0 would make any ratio.

    Args:
        left: the episodes to come.
        ended: one episode at least, with measured durations that are times (see `time_left`).
    """
    expected = [each.seconds for each in (*left, *(each.expected for each in ended)) if _is_time(each.seconds)]
    mean = math.fsum(expected) / len(expected) if expected else 0.0

    def weight(each: ExpectedEpisode) -> float:
        # In units of the mean: no ratio can overflow.
        return max(each.seconds / mean, _LEAST) if mean > 0 and _is_time(each.seconds) else 1.0

    times = defaultdict[tuple[str, ...], list[tuple[float, float]]](list)
    for each in ended:
        labels = _labels(each.expected)
        for depth in range(len(labels) + 1):
            times[labels[:depth]].append((each.seconds, weight(each.expected)))
    whole = _ratio((each.whole, weight(each.expected)) for each in ended)

    @functools.cache
    def ratio(labels: tuple[str, ...]) -> float:
        own = times.get(labels, [])
        if not labels:
            return _ratio(own)
        fails = _FAILS if len(labels) == _KIND else 0.0
        of_own = len(own) * _ratio(own) if own else 0.0
        return (of_own + ratio(labels[:-1]) + fails * whole) / (len(own) + 1 + fails)

    return tuple(weight(each) * ratio(_labels(each)) for each in left)


_KIND = 2
"""How many labels name a kind of a suite."""


def _labels(each: ExpectedEpisode) -> tuple[str, ...]:
    return each.suite, each.kind, each.task


def _ratio(pairs: Iterable[tuple[float, float]]) -> float:
    measured, expected = (math.fsum(column) for column in zip(*pairs, strict=True))
    return measured / expected


def _is_time(seconds: float) -> bool:
    return 0 <= seconds <= LONGEST_SECONDS


def time_left(
    left: Sequence[ExpectedEpisode], ended: Sequence[EndedEpisode], workers: int, since_first: float
) -> float | None:
    """Return the seconds until all episodes have ended, or None before the first one has that took any time.

    What a run takes before its first episode ends is its start-up, which does not come again. What the next ones took
    beside their own time, such as for loading scenes, is added to each of those to come.

    Args:
        left: the episodes to come, with those that are running.
        ended: in the order of their ends. Those whose duration is no time, as in `estimate`, are left out.
        workers: number of processes that run them.
        since_first: seconds since the first one ended.
    """
    after = [each for each in ended[1:] if _is_time(each.seconds)]
    known = [*(each for each in ended[:1] if _is_time(each.seconds)), *after]
    if not any(each.seconds for each in known):
        return None
    # With several workers the first few ends say little: as if each worker had one more without any such time.
    beside = max(since_first * workers - math.fsum(each.seconds for each in after), 0.0) / (len(after) + workers)
    return total_seconds([seconds + beside for seconds in learned_seconds(left, known)], workers)


def total_seconds(seconds: Iterable[float], workers: int) -> float:
    """Return the wall time of episodes on several workers, each of which takes the longest one that is left.

    Start-up and the loading of scenes are not included.

    Raises:
        ValueError: there is no worker.
    """
    if workers < 1:
        raise ValueError(f"{workers} workers: expected 1 or more")
    ends = [0.0] * workers
    for duration in sorted(seconds, reverse=True):
        heapreplace(ends, ends[0] + duration)
    return max(ends)


def _means(values: Iterable[tuple[Key, float]]) -> dict[Key, float]:
    groups: defaultdict[Key, list[float]] = defaultdict(list)
    for key, value in values:
        groups[key].append(value)
    return {key: math.fsum(group) / len(group) for key, group in groups.items()}
