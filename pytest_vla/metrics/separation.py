"""Do a metric's values tell failures from successes? How both are distributed, and what they are over time."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from pytest_vla.metrics.foretelling import FEWEST, Watched, values_at

MOMENT = 0.25
"""Share of the step budget up to which an episode's value is the mean of its series."""

BINS = 24
"""Of the values."""

TIMES = 20
"""Equal parts of the step budget."""

_TAIL = 0.01
_WIDE = 3.0
"""Values beyond the middle 98% are drawn in the outermost bins where all of them span so many times as much."""


@dataclass(frozen=True)
class Distribution:
    """Values of failures, or of successes, one of each episode.

    Attributes:
        counts: episodes in each bin.
        median: of all of them; None: there are none.
    """

    counts: tuple[int, ...]
    median: float | None


@dataclass(frozen=True)
class Course:
    """What the values of failures, or of successes, are over time.

    Attributes:
        quartiles: in each part of the step budget the first, second and third, of the episodes that run in it still;
            None: they are fewer than `FEWEST`.
    """

    quartiles: tuple[tuple[float, float, float] | None, ...]


@dataclass(frozen=True)
class Separation:
    """A metric's values by outcome.

    Attributes:
        metric: its name.
        low: where the first bin begins.
        high: where the last one ends.
        beyond: episodes whose value is outside of that; they are in the outermost bins.
        failures: those that run at `MOMENT` still.
        successes: likewise.
        failures_course: over time.
        successes_course: likewise.
    """

    metric: str
    low: float
    high: float
    beyond: int
    failures: Distribution
    successes: Distribution
    failures_course: Course
    successes_course: Course


def separations(episodes: Sequence[Watched]) -> tuple[Separation, ...]:
    """Of each metric, in the order in which they come; those without any value at `MOMENT` are left out.

    Args:
        episodes: successes and failures of one policy and suite.
    """
    names = dict.fromkeys(name for episode in episodes for name in episode.series)
    return tuple(filter(None, (_separation(name, episodes) for name in names)))


def _separation(name: str, episodes: Sequence[Watched]) -> Separation | None:
    running, values, *_ = values_at(name, MOMENT, episodes)
    if not values:
        return None
    numbers, failed = np.array(values), np.array([episode.failed for episode in running])
    low, high = _range(numbers)
    failures, successes = (_distribution(numbers[failed == way], low, high) for way in (True, False))
    beyond = int(((numbers < low) | (numbers > high)).sum())
    over_time = (_course([each for each in episodes if each.failed is way], name) for way in (True, False))
    return Separation(name, low, high, beyond, failures, successes, *over_time)


def _range(numbers: NDArray[np.float64]) -> tuple[float, float]:
    low, high = float(numbers.min()), float(numbers.max())
    inner_low, inner_high = (float(each) for each in np.quantile(numbers, (_TAIL, 1 - _TAIL)))
    if high - low > _WIDE * (inner_high - inner_low) > 0:
        low, high = inner_low, inner_high
    # Where all are alike there is a bin round them.
    least = max(abs(low), 1e-6) * 1e-6
    return (low, high) if high - low > least else (low - least, high + least)


def _distribution(numbers: NDArray[np.float64], low: float, high: float) -> Distribution:
    counts, _ = np.histogram(numbers.clip(low, high), BINS, (low, high))
    return Distribution(tuple(counts.tolist()), float(np.median(numbers)) if len(numbers) else None)


def _parts(series: NDArray[np.float64], budget: int) -> NDArray[np.float64]:
    """(TIMES,), the mean over each part of the step budget; nan: it was over by then, or had no value."""
    numbers = np.asarray(series[:budget], dtype=np.float64)
    known = np.isfinite(numbers)
    ends = np.minimum([ceil(budget * part / TIMES) for part in range(TIMES + 1)], len(numbers))
    sums = np.concatenate([[0.0], np.where(known, numbers, 0.0).cumsum()])[ends]
    number = np.concatenate([[0], known.cumsum()])[ends]
    of = np.diff(number)
    found = np.full(TIMES, np.nan)
    np.divide(np.diff(sums), of, out=found, where=of > 0)
    return found


def _course(episodes: Sequence[Watched], name: str) -> Course:
    parts = [_parts(each.series[name], each.budget) for each in episodes if name in each.series]
    found: list[tuple[float, float, float] | None] = []
    for column in np.array(parts).reshape(-1, TIMES).T:
        known = column[np.isfinite(column)]
        if len(known) < FEWEST:
            found.append(None)
        else:
            low, middle, high = np.quantile(known, (0.25, 0.5, 0.75))
            found.append((float(low), float(middle), float(high)))
    return Course(tuple(found))
