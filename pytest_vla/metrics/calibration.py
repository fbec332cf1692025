"""Is a policy's own confidence worth its face value? Reliability, Brier's score and the expected calibration error.

The confidence is what the policy gives the tokens that it likes best: 1 - TB-TP of the paper, its mean up to a moment.
As a forecast of success it is calibrated where, of the episodes that it is p sure of, p succeed. A policy is trained
for no such thing: the numbers tell how far it is off.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.errors import VlaError
from pytest_vla.metrics.alarms import AlarmRule, Intervention, intervention
from pytest_vla.metrics.clustered import Interval, Unit, mean_intervals, rate_intervals
from pytest_vla.metrics.failure_prediction import FEWEST, MOMENTS, Watched, value_at
from pytest_vla.metrics.language_grounding import GroundingEstimate

BINS = 10
"""Of equal width, over 0..1."""

DRAWS = 1000
"""Of the outcomes of a calibrated policy."""

CHANCE = 0.95
"""The share of these draws whose error is smaller than `Calibration.error_by_chance`."""


@dataclass(frozen=True)
class Bin:
    """Episodes that the policy is about as sure of.

    Attributes:
        low: of the confidence.
        high: likewise; 1 belongs to the last.
        episodes: how many.
        confidence: their mean.
        success: their rate.
    """

    low: float
    high: float
    episodes: int
    confidence: float
    success: GroundingEstimate


@dataclass(frozen=True)
class Calibration:
    """How a confidence goes with success.

    Attributes:
        episodes: successes and failures.
        brier: mean squared difference of confidence and outcome, 0 to 1 (Brier 1950, Monthly Weather Review 78, 1-3).
        base: Brier's score of who always says the rate of success, which needs no policy: rate (1 - rate).
        error: expected calibration error, the mean over bins of |confidence - success|, by their episodes (Naeini,
            Cooper and Hauskrecht 2015, AAAI, 2901-2907). It is above 0 by chance alone, and has no interval: those of
            resamples hold a small true error in 0 to 80 of 100 cases, by our simulation.
        error_by_chance: what it exceeds in 5% of draws where each episode succeeds with the probability that the policy
            is sure by. Episodes of one task and seed come out by one and the same chance, as if nothing but their start
            decided: where there are several, a larger error is chance in 5% of such draws or fewer.
        gap: the mean confidence less the rate of success; above 0 it is too sure. Its interval goes by clusters.
        bins: those with episodes.
    """

    episodes: int
    brier: GroundingEstimate
    base: float
    error: float
    error_by_chance: float
    gap: GroundingEstimate
    bins: tuple[Bin, ...]


def calibration(
    confidence: ArrayLike, succeeded: ArrayLike, units: Sequence[Unit], rng: np.random.Generator
) -> Calibration:
    """How a confidence goes with success.

    Args:
        confidence: (n,), 0..1, of each episode; n of 1 or more.
        succeeded: (n,), truths.
        units: (n,), the task and seed of each: episodes of one are a cluster.
        rng: of the draws of `Calibration.error_by_chance`.

    Raises:
        VlaError: lengths differ, there is none, or a confidence is not in 0..1.
    """
    sure, done = np.asarray(confidence, dtype=np.float64), np.asarray(succeeded, dtype=np.float64)
    if sure.ndim != 1 or not sure.size or sure.shape != done.shape or len(units) != len(sure):
        raise VlaError(f"{sure.shape} confidences, {done.shape} outcomes and {len(units)} units: expected (n,) of each")
    if not ((sure >= 0) & (sure <= 1)).all():
        raise VlaError("a confidence is from 0 to 1")
    places = np.minimum((sure * BINS).astype(int), BINS - 1)
    brier = ((sure - done) ** 2).tolist()
    bounds = tuple(_within(each) for each in mean_intervals(brier, units))
    rate = float(done.mean())
    return Calibration(
        len(sure),
        GroundingEstimate(float(np.mean(brier)), *bounds),
        rate * (1.0 - rate),
        float(_errors((sure - done)[None], places)[0]),
        _error_by_chance(sure, places, units, rng),
        GroundingEstimate(float((sure - done).mean()), *mean_intervals((sure - done).tolist(), units)),
        tuple(_bin(place, sure, done, places, units) for place in sorted(set(places.tolist()))),
    )


def confidence_at(
    episodes: Sequence[Watched], rng: np.random.Generator, moments: Sequence[float] = MOMENTS
) -> tuple[tuple[float, Calibration], ...]:
    """The calibration at each moment, a share of the step budget, of the episodes that run still.

    They are those of `pytest_vla.metrics.failure_prediction`. A moment with fewer than `FEWEST` successes or failures
    is left out, and so are episodes without a confidence.
    """
    found = []
    for moment in moments:
        told: list[tuple[float, bool, Unit]] = []
        for episode in episodes:
            step, series = ceil(moment * episode.budget), episode.confidence
            is_over = series is not None and (len(series) < step or (len(series) == step and not episode.failed))
            if series is not None and not is_over and (value := value_at(series, step)) is not None:
                told.append((value, not episode.failed, episode.unit))
        successes = sum(done for _, done, _ in told)
        if min(successes, len(told) - successes) >= FEWEST:
            values, done = [value for value, _, _ in told], [done for _, done, _ in told]
            found.append((moment, calibration(values, done, [unit for _, _, unit in told], rng)))
    return tuple(found)


def _bin(
    place: int, sure: NDArray[np.float64], done: NDArray[np.float64], places: NDArray[np.int_], units: Sequence[Unit]
) -> Bin:
    here = np.flatnonzero(places == place)
    outcomes = done[here].tolist()
    success = GroundingEstimate(
        float(np.mean(outcomes)), *rate_intervals(outcomes, [units[index] for index in here.tolist()])
    )
    return Bin(place / BINS, (place + 1) / BINS, len(here), float(sure[here].mean()), success)


def _errors(apart: NDArray[np.float64], places: NDArray[np.int_]) -> NDArray[np.float64]:
    """(b,) expected calibration errors, of confidence - outcome (b, n): the sum over bins of |sum of it| / n."""
    of_bin = places[:, None] == np.arange(BINS)
    errors: NDArray[np.float64] = np.abs(apart @ of_bin).sum(axis=1) / apart.shape[1]
    return errors


def _error_by_chance(
    sure: NDArray[np.float64], places: NDArray[np.int_], units: Sequence[Unit], rng: np.random.Generator
) -> float:
    numbers = {unit: number for number, unit in enumerate(dict.fromkeys(units))}
    chances = rng.random((DRAWS, len(numbers)))[:, [numbers[unit] for unit in units]]
    drawn = chances < sure
    return float(np.quantile(_errors(sure - drawn, places), CHANCE))


def _within(interval: Interval | None) -> Interval | None:
    return None if interval is None else (max(interval[0], 0.0), min(interval[1], 1.0))


# A threshold for an alarm that cuts few successes: split conformal prediction, and its coverage on held-out seeds.
#
# The score of an episode is the largest value that its metric holds for so many steps. The threshold is a quantile of
# the scores of successes alone, so that no failure has to be seen: of one more success, exchangeable with these, the
# alarm rings with a probability of at most alpha (Vovk, Gammerman and Shafer 2005, Algorithmic Learning in a Random
# World, ch. 2; Lei et al. 2018, Journal of the American Statistical Association 113, 1094-1111, Theorem 2.2). Xu et
# al. 2025 (arXiv 2503.08558, FAIL-Detect) do so for robot policies, with a band over time. The promise is over
# successes, on average over tasks, and of no single task.
#
# Episodes that share a task and a seed (several run seeds, or variations) are a cluster: exchangeable are the
# clusters, and not the episodes. Each cluster counts once, whatever it holds, shared evenly by its successes, and the
# promise is of a success of a further cluster (Lee, Barber and Willett, arXiv 2306.06342; Dunn, Wasserman and Ramdas
# 2023, Journal of the American Statistical Association 118, 2491-2502). Episodes that were taken for independent cut
# 12% to 20% for 10%.

ALPHA = 0.10
"""Of successes, at most so many are to be cut."""


@dataclass(frozen=True)
class Conformal:
    """A threshold of one metric and what it does on seeds that it was not made of.

    Attributes:
        metric: its name.
        alpha: the share of successes that may be cut.
        calibrating: successes that the threshold was made of.
        clusters: tasks and seeds that these are of.
        threshold: in the metric's unit; None: there are too few of these for this alpha.
        held_out: what stopping beyond the threshold does on the other seeds; its ``cut`` is to be alpha or less. None:
            there is no threshold, or no episode of other seeds.
    """

    metric: str
    alpha: float
    calibrating: int
    clusters: int
    threshold: float | None
    held_out: Intervention | None


def conformal_threshold(
    scores: ArrayLike, alpha: float = ALPHA, clusters: Sequence[Hashable] | None = None
) -> float | None:
    """Return the score up to which clusters of a share of (K + 1)(1 - alpha) of K lie; None: it is beyond the largest.

    Of n scores that are each a cluster it is the ceil((n + 1)(1 - alpha))-th smallest.

    Args:
        scores: (n,), of successes.
        alpha: 0..1, neither.
        clusters: (n,), what each shares with others, such as its task and seed; None: each is one by itself.

    Raises:
        VlaError: a score is nan, or alpha is out of range.
    """
    if not 0.0 < alpha < 1.0:
        raise VlaError(f"alpha {alpha}: expected a share above 0 and below 1")
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    if ordered.ndim != 1 or np.isnan(ordered).any():
        raise VlaError(f"scores {ordered.shape}: expected (n,) numbers")
    if clusters is None or not len(ordered):
        weights, number = np.ones(len(ordered)), len(ordered)
    else:
        _, members, sizes = np.unique(_numbered(clusters), return_inverse=True, return_counts=True)
        weights, number = (
            1.0 / sizes[members[np.argsort(np.asarray(scores, dtype=np.float64), kind="stable")]],
            len(sizes),
        )
    # 0.9 * 10 is a little more than 9 to a processor.
    reached = np.flatnonzero(np.cumsum(weights) >= (number + 1) * (1.0 - alpha) - 1e-9)
    return float(ordered[reached[0]]) if len(reached) else None


def _numbered(clusters: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(each, len(numbers)) for each in clusters]


def fewest_successes(alpha: float) -> int:
    """Of how many clusters of successes there is a threshold for this alpha."""
    return math.ceil((1.0 - alpha) / alpha - 1e-9)


def score(series: ArrayLike, steps: int = 1) -> float:
    """The largest value that a series (n,) has for so many control steps one after the other; -inf: it has none.

    nan, of which nothing is known, ends a spell.
    """
    values = np.asarray(series, dtype=np.float64)
    if len(values) < steps:
        return -math.inf
    least = np.lib.stride_tricks.sliding_window_view(values, steps).min(axis=1)
    least = least[~np.isnan(least)]
    return float(least.max()) if least.size else -math.inf


def conformal(episodes: Sequence[Watched], metric: str, alpha: float = ALPHA, steps: int = 1) -> Conformal:
    """The threshold by every second seed's successes, and what it does on the other seeds.

    Args:
        episodes: of one policy and suite.
        metric: with a series in some of them.
        alpha: as `conformal_threshold`.
        steps: for which a value has to hold.

    Raises:
        VlaError: alpha is out of range.
    """
    known = [episode for episode in episodes if metric in episode.series]
    seeds = sorted({episode.unit[1] for episode in known}, key=_in_order)
    chosen = set(seeds[::2])
    of_chosen = [episode for episode in known if episode.unit[1] in chosen and not episode.failed]
    # Its last step is not counted: an alarm then stops nothing.
    units = [episode.unit for episode in of_chosen]
    scores = [score(episode.series[metric][:-1], steps) for episode in of_chosen]
    threshold, number = conformal_threshold(scores, alpha, units), len(set(units))
    if threshold is None or math.isinf(threshold):
        return Conformal(metric, alpha, len(of_chosen), number, None, None)
    others = [episode for episode in known if episode.unit[1] not in chosen]
    return Conformal(
        metric, alpha, len(of_chosen), number, threshold, intervention(others, AlarmRule(metric, ">", threshold, steps))
    )


def _in_order(seed: object) -> tuple[int, str]:
    """Seeds by number; of a seed with what is varied by its text."""
    number = seed[0] if isinstance(seed, tuple) else seed
    return (number if isinstance(number, int) else 0, str(seed))
