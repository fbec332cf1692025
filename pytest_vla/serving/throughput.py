"""How many episodes an hour a machine gives with a policy, before there was any: by the time of its calls alone."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from pytest_vla.serving.dispatch import call_times_of, candidates
from pytest_vla.serving.simulated import AtLeast, Foreseen, Load, simulate
from pytest_vla.serving.stats import ServingStats

# What a run gives with a number of workers, by what a policy's process saw of another.


def load_of(seen: ServingStats, most: int) -> Load:
    """The load of a run, by what its policy's process saw."""
    answered = seen.questions / seen.episodes if seen.episodes else math.inf
    away = seen.away or seen.thinking or (0.0,)
    return Load(call_times_of(seen.calls).seconds, most, seen.thinking or (0.0,), away, answered, seen.cores)


def foresee(load: Load, workers: int, rng: np.random.Generator, *, episodes: int | None = None) -> Foreseen:
    """What a run of so many workers gives, with batches that wait for the number of questions that gives most.

    The rule of a policy's process (`pytest_vla.serving.dispatch`) finds that number as it goes.

    Args:
        load: of the run.
        workers: how many.
        rng: draws times and lengths.
        episodes: of the run, with its end, where fewer and fewer workers have one left; None: its middle alone.
    """
    seed = int(rng.integers(1 << 32))

    def run(number: int, **length: int | None) -> Foreseen:
        return simulate(load, workers, AtLeast(number, workers), np.random.default_rng(seed), **length)  # type: ignore[arg-type]

    numbers = candidates(workers, load.most)
    tried = {number: run(number, questions=max(600, 30 * workers)).questions_per_second for number in numbers}
    return run(max(tried, key=lambda number: tried[number]), episodes=episodes)


NEAR = 0.85
"""Share of what a part could give at best, from which on it is scarce."""

Scarce = Literal["device", "cores", "workers"]
"""device, cores: they give nearly what they can at best; workers: neither does, and more workers would help."""

_SPREAD = (0.85, 1.0, 1.15)
"""Of thinking times: workers that all take the same time would ask in step."""

_SEED = 0


@dataclass(frozen=True)
class WorldCosts:
    """What a world takes of a core, seconds.

    Attributes:
        step: of a control step.
        picture: of a picture.
        reset: of a reset, with settling.
    """

    step: float
    picture: float
    reset: float


ON_A_GPU = WorldCosts(step=0.0055, picture=0.0035, reset=0.055)
"""libero_spatial and libero_goal on a Xeon's core, pictures of 256x256 drawn by an H100: a step took 4.4 to 7.0 ms, two
pictures 3.1 to 8.5, a reset 41 to 63."""

IN_SOFTWARE = WorldCosts(step=0.0055, picture=0.1, reset=0.055)
"""Where no GPU draws: a picture took 42 ms (tabletop) and 145 ms (libero_spatial)."""


@dataclass(frozen=True)
class EpisodeDemand:
    """What an episode asks for.

    Attributes:
        steps: control steps, all of which are executed.
        replan: steps for which an answer is executed.
        pictures: that the policy reads at a question.
        costs: of the world.
    """

    steps: int
    replan: float
    pictures: int
    costs: WorldCosts

    @property
    def questions(self) -> int:
        """Of an episode."""
        return max(1, math.ceil(self.steps / self.replan))

    @property
    def thinking(self) -> float:
        """Seconds of a core between an answer and the next question."""
        return self.replan * self.costs.step + self.pictures * self.costs.picture

    @property
    def away(self) -> float:
        """Seconds of a core between the last answer of an episode and the first question of the next one."""
        return self.thinking + self.costs.reset


@dataclass(frozen=True)
class Forecast:
    """What is foreseen of some workers.

    Attributes:
        workers, cores: how many.
        episodes_per_hour: of all workers.
        device_busy, cores_busy: shares of the time, 0 to 1.
        scarce: what the rest waits for.
    """

    workers: int
    cores: int
    episodes_per_hour: float
    device_busy: float
    cores_busy: float
    scarce: Scarce


def forecast(plan: EpisodeDemand, call_seconds: Mapping[int, float], most: int, workers: int, cores: int) -> Forecast:
    """Of a policy that one process has, and all workers ask.

    Args:
        plan: of an episode.
        call_seconds: by how many questions are in a call; not empty.
        most: questions in a call.
        workers, cores: how many.
    """
    return _forecast(plan, tuple(sorted(call_seconds.items())), most, workers, cores)


# Suites with one protocol ask for the same.
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
    """Likewise of a policy that each worker has for itself, and which computes on the worker's core."""
    episode = plan.questions * (plan.thinking + answer_seconds) + plan.costs.reset
    busy = min(workers, cores)
    scarce: Scarce = "cores" if busy == cores else "workers"
    return Forecast(workers, cores, 3600 * busy / episode, 0.0, busy / cores, scarce)


# How long a run would have taken with other numbers of workers, foreseen by what its policy's processes saw.

TOLERANCE = 0.2
"""By how much of itself what was measured may differ from what was foreseen for it."""

GAIN = 0.05
"""Of a run's time, that an advice is worth."""

ALIKE = 0.02
"""Of a run's time: of numbers of workers that differ by less the smallest is advised."""

_LONGEST = 8000
"""Questions of a run that is simulated to its end; of a longer one its middle is."""


@dataclass(frozen=True)
class Outlook:
    """What was measured, and what is foreseen.

    Attributes:
        measured: questions a second while every worker had an episode.
        foreseen: likewise, by the simulation.
        seconds: by number of workers, of all episodes.
    """

    measured: float
    foreseen: float
    seconds: Mapping[int, float]

    @property
    def agrees(self) -> bool:
        """Whether the simulation gives what was measured, so that it may be believed for other numbers too."""
        return abs(self.foreseen - self.measured) <= TOLERANCE * self.measured


def outlook(seen: Sequence[ServingStats], most: int, workers: int, episodes: int, others: Collection[int]) -> Outlook:
    """What is foreseen for the workers of a run, and for other numbers of them.

    Args:
        seen: by each device's process, while every worker had an episode; not empty.
        most: questions in a call.
        workers: of the run.
        episodes: of the run, with each of which one worker is busy.
        others: numbers of workers.
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
    """What one of several devices has of the cores."""
    return replace(load, cores=load.cores / devices)


def _foreseen(loads: Sequence[Load], workers: int, episodes: int | None) -> list[Foreseen]:
    """Of each device, with the workers and episodes that it has of all."""
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
    """The numbers of workers that are worth a look beside that of a run, `most` at most."""
    found = {workers // 2, round(1.5 * workers), 2 * workers, cores, 2 * cores, 3 * cores}
    return tuple(sorted(number for number in found if 1 <= number <= most and number != workers))


def advised(outlook: Outlook, workers: int, elapsed: float, start: float) -> tuple[int, float] | None:
    """A better number of workers, and what share of the run's time it would take about; None: there is none.

    Args:
        outlook: of the run.
        workers: of the run.
        elapsed: seconds of the whole run.
        start: seconds that one more worker takes to start, of all cores together.
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
