"""What a run gives with a number of workers, by what a policy's process saw of another."""

import math

import numpy as np

from pytest_vla.serving.call_times import call_times_of
from pytest_vla.serving.dispatch import candidates
from pytest_vla.serving.seen import Seen
from pytest_vla.serving.simulated import AtLeast, Foreseen, Load, simulate


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
