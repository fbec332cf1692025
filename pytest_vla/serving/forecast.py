"""How many episodes an hour a machine gives with a policy, before there was any: by the time of its calls alone."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np

from pytest_vla.serving.call_times import call_times_of
from pytest_vla.serving.dispatch import candidates
from pytest_vla.serving.seen import Seen
from pytest_vla.serving.simulated import AtLeast, Foreseen, Load, simulate

# What a run gives with a number of workers, by what a policy's process saw of another.


def load_of(seen: Seen, most: int) -> Load:
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
class Plan:
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


def forecast(plan: Plan, call_seconds: Mapping[int, float], most: int, workers: int, cores: int) -> Forecast:
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
def _forecast(plan: Plan, times: tuple[tuple[int, float], ...], most: int, workers: int, cores: int) -> Forecast:
    thinking, away = ([share * each for share in _SPREAD] for each in (plan.thinking, plan.away))
    calls = {size: (1, seconds) for size, seconds in times}
    seen = Seen(1.0, 0.0, plan.questions, calls, 0.0, tuple(thinking), tuple(away), 1, workers, cores)
    load = load_of(seen, most)
    found = foresee(load, workers, np.random.default_rng(_SEED))
    of_device = max(size / max(load.call_seconds(size), 1e-9) for size in range(1, most + 1))
    of_cores = plan.questions * cores / ((plan.questions - 1) * plan.thinking + plan.away)
    scarce: Scarce = "device" if of_device < of_cores else "cores"
    if found.questions_per_second < NEAR * min(of_device, of_cores):
        scarce = "workers"
    return Forecast(workers, cores, 3600 * found.episodes_per_second, found.busy, found.cores_busy, scarce)


def forecast_alone(plan: Plan, answer_seconds: float, workers: int, cores: int) -> Forecast:
    """Likewise of a policy that each worker has for itself, and which computes on the worker's core."""
    episode = plan.questions * (plan.thinking + answer_seconds) + plan.costs.reset
    busy = min(workers, cores)
    scarce: Scarce = "cores" if busy == cores else "workers"
    return Forecast(workers, cores, 3600 * busy / episode, 0.0, busy / cores, scarce)
