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
    """Episodes with similar confidence.

    Attributes:
        low: lower bound of the confidence.
        high: upper bound of the confidence; 1 belongs to the last bin.
        episodes: their number.
        confidence: their mean confidence.
        success: their success rate.
    """

    low: float
    high: float
    episodes: int
    confidence: float
    success: GroundingEstimate


@dataclass(frozen=True)
class Calibration:
    """The calibration of a confidence against success.

    Attributes:
        episodes: successes and failures.
        brier: mean squared difference of confidence and outcome, 0 to 1 (Brier 1950, Monthly Weather Review 78, 1-3).
        base: Brier's score of the constant forecast with the success rate, which needs no policy: rate (1 - rate).
        error: expected calibration error, the mean over bins of |confidence - success|, weighted by episodes (Naeini,
            Cooper and Hauskrecht 2015, AAAI, 2901-2907). By chance alone it is above 0. It has no interval: intervals
            from resamples cover a small true error in 0 to 80 of 100 cases, by our simulation.
        error_by_chance: the 95% quantile of the error if each episode succeeds with the probability given by the
            confidence. Episodes with one task and seed share one random number, as if only their start decided: if
            there are several, a larger error occurs by chance in at most 5% of draws.
        gap: mean confidence minus success rate; above 0 the policy is overconfident. Its interval is by clusters.
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
    """Compute the calibration of a confidence against success.

    Args:
        confidence: (n,), 0..1, for each episode; n of 1 or more.
        succeeded: (n,), bool.
        units: (n,), each episode's task and seed, which form a cluster.
        rng: draws for `Calibration.error_by_chance`.

    Raises:
        VlaError: lengths differ, there is no episode, or a confidence is not in 0..1.
    """
    sure, done = np.asarray(confidence, dtype=np.float64), np.asarray(succeeded, dtype=np.float64)
    if sure.ndim != 1 or not sure.size or sure.shape != done.shape or len(units) != len(sure):
        raise VlaError(f"{sure.shape} confidences, {done.shape} outcomes and {len(units)} units: expected (n,) of each")
    if not ((sure >= 0) & (sure <= 1)).all():
        raise VlaError("expected confidences from 0 to 1")
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
    """Compute the calibration at each moment, a share of the step budget, over the episodes still running.

    Moments are as in `pytest_vla.metrics.failure_prediction`. A moment with fewer than `FEWEST` successes or failures
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
    """A threshold for one metric, with its effect on seeds that were not used to set it.

    Attributes:
        metric: its name.
        alpha: the share of successes that may be cut.
        calibrating: the number of successes used to set the threshold.
        clusters: the number of their tasks and seeds.
        threshold: in the metric's unit, or None if there are too few clusters for this alpha.
        held_out: the effect of stopping beyond the threshold on the other seeds; its ``cut`` should be alpha or less.
            None without a threshold or without episodes under other seeds.
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
    """Return the score that at least (K + 1)(1 - alpha) of K clusters do not exceed, or None if no score suffices.

    If each of n scores is a cluster, it is the ceil((n + 1)(1 - alpha))-th smallest.

    Args:
        scores: (n,), successes only.
        alpha: in (0, 1).
        clusters: (n,), identifies dependent scores, such as by task and seed; None if all are independent.

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
    """Return the smallest number of clusters of successes for which this alpha has a threshold."""
    return math.ceil((1.0 - alpha) / alpha - 1e-9)


def score(series: ArrayLike, steps: int = 1) -> float:
    """Return the largest value that a series (n,) keeps for `steps` consecutive control steps, or -inf if none.

    nan (unknown) ends a spell.
    """
    values = np.asarray(series, dtype=np.float64)
    if len(values) < steps:
        return -math.inf
    least = np.lib.stride_tricks.sliding_window_view(values, steps).min(axis=1)
    least = least[~np.isnan(least)]
    return float(least.max()) if least.size else -math.inf


def conformal(episodes: Sequence[Watched], metric: str, alpha: float = ALPHA, steps: int = 1) -> Conformal:
    """Set the threshold from the successes of every second seed, and measure its effect on the other seeds.

    Args:
        episodes: one policy's, in one suite.
        metric: some episodes have a series of it.
        alpha: as in `conformal_threshold`.
        steps: number of control steps for which a value has to hold.

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
