"""Estimates of episodes' durations, from those of earlier runs of the same policy. Pure."""

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
    times = [row for row in measured if 0 <= row[3] <= LONGEST_SECONDS]
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
