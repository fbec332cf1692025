"""Throughput: how many episodes per hour a machine runs with a policy, predicted from the times of its calls."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from pytest_vla.serving.batch_former import call_times_of, candidates
from pytest_vla.serving.simulated import AtLeast, Foreseen, Load, simulate
from pytest_vla.serving.stats import ServingStats

# Predict a run with a number of workers from the statistics of a run with another number.


def load_of(seen: ServingStats, most: int) -> Load:
    """Return the load of a run from the statistics of its policy's process."""
    answered = seen.questions / seen.episodes if seen.episodes else math.inf
    away = seen.away or seen.thinking or (0.0,)
    return Load(call_times_of(seen.calls).seconds, most, seen.thinking or (0.0,), away, answered, seen.cores)


def foresee(load: Load, workers: int, rng: np.random.Generator, *, episodes: int | None = None) -> Foreseen:
    """Predict a run with this number of workers, at the batch size that gives the highest rate.

    The rule of a policy's process (`pytest_vla.serving.batch_former`) finds that size during a run.

    Args:
        load: the run's.
        workers: the number of workers.
        rng: draws times and lengths.
        episodes: the number of episodes of a complete run, at the end of which fewer and fewer workers are
            busy; None for the middle of a run.
    """
    seed = int(rng.integers(1 << 32))

    def run(number: int, **length: int | None) -> Foreseen:
        return simulate(load, workers, AtLeast(number, workers), np.random.default_rng(seed), **length)  # type: ignore[arg-type]

    numbers = candidates(workers, load.most)
    tried = {number: run(number, questions=max(600, 30 * workers)).questions_per_second for number in numbers}
    return run(max(tried, key=lambda number: tried[number]), episodes=episodes)


NEAR = 0.85
"""The share of its maximal rate from which a part counts as the bottleneck."""

Scarce = Literal["device", "cores", "workers"]
"""The bottleneck: ``device`` or ``cores`` if near its maximal rate, else ``workers``: more of them would help."""

_SPREAD = (0.85, 1.0, 1.15)
"""Factors of thinking times: workers with equal times would ask in lockstep."""

_SEED = 0


@dataclass(frozen=True)
class WorldCosts:
    """The core seconds that a world takes.

    Attributes:
        step: per control step.
        picture: per picture.
        reset: per reset, with settling.
    """

    step: float
    picture: float
    reset: float


ON_A_GPU = WorldCosts(step=0.0055, picture=0.0035, reset=0.055)
"""Costs with a GPU: libero_spatial and libero_goal on a Xeon's core, pictures of 256x256 rendered by an H100.

A step took 4.4 to 7.0 ms, two pictures 3.1 to 8.5 ms, a reset 41 to 63 ms."""

IN_SOFTWARE = WorldCosts(step=0.0055, picture=0.1, reset=0.055)
"""Costs without a GPU: a picture took 42 ms (tabletop) and 145 ms (libero_spatial)."""


@dataclass(frozen=True)
class EpisodeDemand:
    """The demand of one episode.

    Attributes:
        steps: control steps, all of which are executed.
        replan: steps for which an answer is executed.
        pictures: pictures that the policy reads per question.
        costs: the world's.
    """

    steps: int
    replan: float
    pictures: int
    costs: WorldCosts

    @property
    def questions(self) -> int:
        """The number of questions per episode."""
        return max(1, math.ceil(self.steps / self.replan))

    @property
    def thinking(self) -> float:
        """Core seconds between an answer and the next question."""
        return self.replan * self.costs.step + self.pictures * self.costs.picture

    @property
    def away(self) -> float:
        """Core seconds between the last answer of an episode and the first question of the next one."""
        return self.thinking + self.costs.reset


@dataclass(frozen=True)
class Forecast:
    """The predicted throughput of some workers.

    Attributes:
        workers, cores: their numbers.
        episodes_per_hour: of all workers together.
        device_busy, cores_busy: shares of the time, 0 to 1.
        scarce: the bottleneck.
    """

    workers: int
    cores: int
    episodes_per_hour: float
    device_busy: float
    cores_busy: float
    scarce: Scarce


def forecast(plan: EpisodeDemand, call_seconds: Mapping[int, float], most: int, workers: int, cores: int) -> Forecast:
    """Predict the throughput of a policy in one process that all workers share.

    Args:
        plan: the demand of an episode.
        call_seconds: the time of a call by its number of questions; not empty.
        most: the most questions in a call.
        workers, cores: their numbers.
    """
    return _forecast(plan, tuple(sorted(call_seconds.items())), most, workers, cores)


# Cached, since suites with the same protocol have the same demand.
@cache
def _forecast(
    plan: EpisodeDemand, times: tuple[tuple[int, float], ...], most: int, workers: int, cores: int
) -> Forecast:
    thinking, away = ([share * each for share in _SPREAD] for each in (plan.thinking, plan.away))
    calls = {size: (1, seconds) for size, seconds in times}
    seen = ServingStats(1.0, 0.0, plan.questions, calls, 0.0, tuple(thinking), tuple(away), 1, workers, cores)
    load = load_of(seen, most)
    found = foresee(load, workers, np.random.default_rng(_SEED))
    of_device = max(size / max(load.call_seconds(size), 1e-9) for size in range(1, most + 1))
    of_cores = plan.questions * cores / ((plan.questions - 1) * plan.thinking + plan.away)
    scarce: Scarce = "device" if of_device < of_cores else "cores"
    if found.questions_per_second < NEAR * min(of_device, of_cores):
        scarce = "workers"
    return Forecast(workers, cores, 3600 * found.episodes_per_second, found.busy, found.cores_busy, scarce)


def forecast_alone(plan: EpisodeDemand, answer_seconds: float, workers: int, cores: int) -> Forecast:
    """Predict the throughput of a policy that each worker loads, and that computes on the worker's core."""
    episode = plan.questions * (plan.thinking + answer_seconds) + plan.costs.reset
    busy = min(workers, cores)
    scarce: Scarce = "cores" if busy == cores else "workers"
    return Forecast(workers, cores, 3600 * busy / episode, 0.0, busy / cores, scarce)


# The predicted duration of a run with other numbers of workers, from the statistics of its policy's processes.

TOLERANCE = 0.2
"""The largest relative difference of the measured and the predicted rate for a usable prediction."""

GAIN = 0.05
"""The least share of a run's time that an advice has to save."""

ALIKE = 0.02
"""The share of a run's time within which the smallest number of workers is advised."""

_LONGEST = 8000
"""The most questions of a run that is simulated to its end; of a longer run, only the middle is simulated."""


@dataclass(frozen=True)
class Outlook:
    """The measured rate of a run, and predictions for other numbers of workers.

    Attributes:
        measured: questions per second while every worker had an episode.
        foreseen: questions per second in the simulation of the same workers.
        seconds: the predicted duration of all episodes, by number of workers.
    """

    measured: float
    foreseen: float
    seconds: Mapping[int, float]

    @property
    def agrees(self) -> bool:
        """Whether the simulation reproduces the measured rate, so that its other predictions can be trusted."""
        return abs(self.foreseen - self.measured) <= TOLERANCE * self.measured


def outlook(seen: Sequence[ServingStats], most: int, workers: int, episodes: int, others: Collection[int]) -> Outlook:
    """Predict a run's duration with its own number of workers, and with other numbers.

    Args:
        seen: the statistics of each device's process while every worker had an episode; not empty.
        most: the most questions in a call.
        workers: the run's number.
        episodes: the run's number; each keeps one worker busy.
        others: other numbers of workers.
    """
    loads = [_share(load_of(each, most), len(seen)) for each in seen]
    measured = sum(each.questions / each.seconds for each in seen)
    rate = sum(each.questions_per_second for each in _foreseen(loads, workers, None))
    questions = sum(each.questions for each in seen) / max(sum(each.episodes for each in seen), 1)
    to_end = episodes if episodes * questions <= _LONGEST else None
    times = {}
    for number in sorted({workers, *others}):
        found = _foreseen(loads, number, to_end)
        if to_end is None:
            times[number] = episodes * questions / sum(each.questions_per_second for each in found)
        else:
            times[number] = max(each.seconds for each in found)
    return Outlook(measured, rate, times)


def _share(load: Load, devices: int) -> Load:
    """Return one device's load, with its share of the cores."""
    return replace(load, cores=load.cores / devices)


def _foreseen(loads: Sequence[Load], workers: int, episodes: int | None) -> list[Foreseen]:
    """Predict each device's run, with its share of workers and episodes."""
    found = []
    for number, load in enumerate(loads):
        some = _part(workers, number, len(loads))
        own = None if episodes is None else _part(episodes, number, len(loads))
        if some and own != 0:
            found.append(foresee(load, some, np.random.default_rng(_SEED), episodes=own))
    return found


def _part(whole: int, number: int, parts: int) -> int:
    return whole // parts + (number < whole % parts)


def other_numbers(workers: int, cores: int, most: int) -> tuple[int, ...]:
    """Return the alternatives to a run's number of workers that are worth a prediction, at most `most`."""
    found = {workers // 2, round(1.5 * workers), 2 * workers, cores, 2 * cores, 3 * cores}
    return tuple(sorted(number for number in found if 1 <= number <= most and number != workers))


def advised(outlook: Outlook, workers: int, elapsed: float, start: float) -> tuple[int, float] | None:
    """Return a better number of workers and the share of the run's time that it would take, or None.

    Args:
        outlook: the run's.
        workers: the run's number.
        elapsed: seconds of the whole run.
        start: seconds that each additional worker takes to start, over all cores together.
    """
    if not outlook.agrees:
        return None
    own = outlook.seconds[workers]
    ratios = {
        number: (elapsed + (seconds / own - 1) * min(own, elapsed) + (number - workers) * start) / elapsed
        for number, seconds in outlook.seconds.items()
        if number != workers
    }
    best = min(ratios.values(), default=1.0)
    if best > 1 - GAIN:
        return None
    number = min(number for number, ratio in ratios.items() if ratio <= best + ALIKE)
    return number, ratios[number]
