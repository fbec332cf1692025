"""Is a policy's own confidence worth its face value? Reliability, Brier's score and the expected calibration error.

The confidence is what the policy gives the tokens that it likes best: 1 - TB-TP of the paper, its mean up to a moment.
As a forecast of success it is calibrated where, of the episodes that it is p sure of, p succeed. A policy is trained
for no such thing: the numbers tell how far it is off.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.errors import VlaError
from pytest_vla.metrics.clustered import Interval, Unit, mean_intervals, rate_intervals
from pytest_vla.metrics.foretelling import FEWEST, MOMENTS, Watched, value_at
from pytest_vla.metrics.listening import Estimate

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
    success: Estimate


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
    brier: Estimate
    base: float
    error: float
    error_by_chance: float
    gap: Estimate
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
        Estimate(float(np.mean(brier)), *bounds),
        rate * (1.0 - rate),
        float(_errors((sure - done)[None], places)[0]),
        _error_by_chance(sure, places, units, rng),
        Estimate(float((sure - done).mean()), *mean_intervals((sure - done).tolist(), units)),
        tuple(_bin(place, sure, done, places, units) for place in sorted(set(places.tolist()))),
    )


def confidence_at(
    episodes: Sequence[Watched], rng: np.random.Generator, moments: Sequence[float] = MOMENTS
) -> tuple[tuple[float, Calibration], ...]:
    """The calibration at each moment, a share of the step budget, of the episodes that run still.

    They are those of `pytest_vla.metrics.foretelling`. A moment with fewer than `FEWEST` successes or failures is left
    out, and so are episodes without a confidence.
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
    success = Estimate(float(np.mean(outcomes)), *rate_intervals(outcomes, [units[index] for index in here.tolist()]))
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
