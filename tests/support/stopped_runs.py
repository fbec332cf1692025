"""Simulate runs that time has stopped, for policies whose success is known: what they report of all they were to run.

Four suites of ten tasks with 50 seeds each, with the scenes that LIBERO's suites have. A failure takes the whole budget
of its suite, a success a quarter of it. pytest-vla's own pool hands out the items, two to a worker, as pytest-xdist
does. Tasks differ either somewhat (their rates come from a beta distribution; a fifth of the variance lies between
tasks, and the long suite is harder) or as much as they can (the policy always does some tasks, and never others). The
truth is the rate of all 2,000 episodes, each with its task's chance.
"""

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from pytest_vla.metrics.clustered import rate_interval
from pytest_vla.run.xdist.scheduler import QUEUED, PoolItem, TurnPool
from pytest_vla.scale.order import PlannedEpisode, TimeLimit, balanced_rounds

BUDGETS = {"spatial": 220.0, "object": 280.0, "goal": 300.0, "long": 520.0}
"""Steps, as LIBERO's suites have them; a step takes a unit of time."""

HARDER = {"spatial": 0.05, "object": 0.1, "goal": 0.0, "long": -0.15}
"""What a suite's rate is above that of all."""

SCENES = {"spatial": 1, "object": 10, "goal": 1, "long": 9}
"""Of a suite's ten tasks, as LIBERO's suites have them."""

LOADING = 12.0
"""Steps that take as long as loading a scene: 0.6 s, where twenty steps take a second."""

TASKS, SEEDS = 10, 50
SUCCESS_SHARE = 0.25
"""Of the budget, that a success takes."""

BETWEEN = 1 / 5
"""Of the variance of an episode's outcome, that lies between tasks."""


@dataclass(frozen=True)
class Way:
    """How a run is stopped.

    Attributes:
        name: in words.
        is_balanced: in the balanced order, else suite by suite.
        is_strict: each item comes at its place; else workers stay with their scenes within a round.
        cuts: whether episodes that run at the end are cut and lost; else none is begun that may not end in time.
    """

    name: str
    is_balanced: bool = True
    is_strict: bool = True
    cuts: bool = False


OURS = Way("as pytest-vla does")
STAYING = Way("balanced, workers stay with their scenes", is_strict=False)
CUTTING = Way("balanced, running episodes cut", cuts=True)
NAIVE = Way("suite by suite", is_balanced=False)


@dataclass(frozen=True)
class Setting:
    """What is stopped.

    Attributes:
        workers: how many there are.
        rate: of success.
        share: the limit, as a share of the time that all episodes would take.
        differ: whether tasks differ as much as they can, else somewhat.
    """

    workers: int
    rate: float
    share: float
    differ: bool = False


@dataclass(frozen=True)
class Told:
    """What a way makes of a policy: bias in points and its standard error, share of intervals that hold the truth, mean
    episodes, and the share of these for which a scene was loaded."""

    bias: float
    error: float
    coverage: float
    episodes: float
    loaded: float


def planned() -> list[PlannedEpisode]:
    """All episodes, suite by suite."""
    return [
        PlannedEpisode(f"{suite}-{task}-{seed}", suite, str(task), (), seed, f"{suite}-{task % SCENES[suite]}")
        for suite in BUDGETS
        for task in range(TASKS)
        for seed in range(SEEDS)
    ]


def orders(episodes: Sequence[PlannedEpisode], number: int) -> list[list[PoolItem]]:
    """The episodes in balanced orders, as items."""
    indices = {each.node: index for index, each in enumerate(episodes)}
    found = []
    for seed in range(number):
        rounds = enumerate(balanced_rounds(episodes, seed))
        turns = [(turn, indices[node]) for turn, some in rounds for node in some]
        found.append(
            [
                PoolItem(index, episodes[index].scene, 1.0, None, turn, place)
                for place, (turn, index) in enumerate(turns)
            ]
        )
    return found


def in_suites(episodes: Sequence[PlannedEpisode]) -> list[PoolItem]:
    """The episodes one after the other, as items."""
    return [PoolItem(index, each.scene, 1.0, None, 0, index) for index, each in enumerate(episodes)]


def ran(
    way: Way,
    workers: int,
    items: Sequence[PoolItem],
    durations: Sequence[float],
    limit: float,
) -> tuple[list[int], int]:
    """The episodes that are in the rate, and how many times a scene was loaded.

    Args:
        way: how it is stopped.
        workers: how many there are.
        items: in any order.
        durations: of each episode.
        limit: when time is up.
    """
    end, pool = TimeLimit(0.0, limit), TurnPool(items, way.is_strict)
    queues: list[deque[PoolItem]] = [deque() for _ in range(workers)]
    scenes: list[str | None] = [None] * workers

    def feed(worker: int, most: int = QUEUED) -> None:
        while len(queues[worker]) < most and (item := pool.take(worker)) is not None:
            queues[worker].append(item)

    for most in range(1, QUEUED + 1):
        for worker in range(workers):
            feed(worker, most)
    free = [(0.0, worker, -1) for worker in range(workers)]
    found, loaded = list[int](), 0
    while free:
        now, worker, ended = heapq.heappop(free)
        queue = queues[worker]
        if ended >= 0:
            end.learn(durations[ended])
        feed(worker)
        if not queue or (now >= limit if way.cuts else not end.may_begin(now)):
            continue
        item = queue.popleft()
        done = now + durations[item.index] + LOADING * (scenes[worker] != item.scene)
        if done <= limit or not way.cuts:
            found.append(item.index)
            loaded += scenes[worker] != item.scene
        scenes[worker] = item.scene
        heapq.heappush(free, (done, worker, item.index))
    return found, loaded


def chances_of(setting: Setting, generator: np.random.Generator) -> np.ndarray:
    """Of each episode, by its task."""
    if setting.differ:
        tasks = generator.permutation(np.arange(len(BUDGETS) * TASKS) < setting.rate * len(BUDGETS) * TASKS) * 1.0
    else:
        of_suites = np.repeat([setting.rate + above for above in HARDER.values()], TASKS)
        spread = 1 / BETWEEN - 1
        tasks = generator.beta(of_suites * spread, (1 - of_suites) * spread)
    return np.repeat(tasks, SEEDS)


def told(way: Way, setting: Setting, repetitions: int, drawn: Sequence[Sequence[PoolItem]]) -> Told:
    """Simulate a way. Settings draw the same policies for each."""
    episodes = planned()
    budgets = np.array([BUDGETS[each.suite] for each in episodes])
    generator = np.random.default_rng([int(100 * setting.rate), int(1000 * setting.share), setting.workers])
    off, held, number, loaded = [], 0, 0, 0
    naive = in_suites(episodes)
    for repetition in range(repetitions):
        chances = chances_of(setting, generator)
        success = generator.random(len(episodes)) < chances
        durations = budgets * np.where(success, SUCCESS_SHARE, 1.0) * generator.uniform(0.9, 1.0, len(episodes))
        expected = float((budgets * (1 - chances * (1 - SUCCESS_SHARE))).sum()) * 0.95 / setting.workers
        order = drawn[repetition % len(drawn)] if way.is_balanced else naive
        some, loads = ran(way, setting.workers, order, durations.tolist(), setting.share * expected)
        if not some:
            # Time is too short for an episode: there is no rate.
            continue
        outcomes = success[some].astype(float)
        interval = rate_interval(outcomes.tolist(), some)
        truth = float(chances.mean())
        off.append(100 * (outcomes.mean() - truth))
        held += interval is not None and interval[0] <= truth <= interval[1]
        number += len(some)
        loaded += loads
    with_rate = len(off)
    error = float(np.std(off)) / sqrt(with_rate)
    return Told(float(np.mean(off)), error, held / with_rate, number / with_rate, loaded / number)
