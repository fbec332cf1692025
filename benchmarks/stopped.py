"""What a run that time has ended says of all that it was to run: simulated policies whose success is known.

``python benchmarks/stopped.py [--repetitions 1000]`` prints, for ways to stop, the bias of the success rate in points,
the share of 95% intervals that hold the truth, and how many episodes were in it.

Four suites of ten tasks with 50 seeds each, on eight workers; a failure takes the whole budget of its suite, a success
a quarter of it. The long suite is harder than the others. Tasks differ: their rates are of a beta distribution, a fifth
of whose variance lies between tasks. The truth is the rate of all 2,000 episodes, each with its task's chance.
"""

import argparse
import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_vla.metrics.clustered import rate_interval
from pytest_vla.scale.order import Planned, balanced_rounds
from pytest_vla.scale.time_limit import TimeLimit

BUDGETS = {"spatial": 220.0, "object": 280.0, "goal": 300.0, "long": 520.0}
"""Steps, as LIBERO's suites have them; a step takes a unit of time."""

HARDER = {"spatial": 0.05, "object": 0.1, "goal": 0.0, "long": -0.15}
"""What a suite's rate is above that of all."""

TASKS, SEEDS, WORKERS = 10, 50, 8
SUCCESS_SHARE = 0.25
"""Of the budget, that a success takes."""

BETWEEN = 1 / 5
"""Of the variance of an episode's outcome, that lies between tasks."""

RATES = (0.3, 0.5, 0.8)
HOURS = (0.05, 0.25)
"""Limits, as shares of the time that all episodes would take."""

ORDERS = 100
"""Drawn once, and used in turn."""


@dataclass(frozen=True)
class Way:
    """How a run is stopped.

    Attributes:
        name: for the table.
        is_balanced: in the balanced order, else suite by suite.
        cuts: whether episodes that run at the end are cut and lost; else none is begun that may not end in time.
        fills: whether short episodes are still begun where long ones would not fit.
    """

    name: str
    is_balanced: bool
    cuts: bool = False
    fills: bool = False


WAYS = (
    Way("as pytest-vla does", True),
    Way("balanced, running episodes cut", True, cuts=True),
    Way("balanced, filled up with what fits", True, fills=True),
    Way("suite by suite", False),
    Way("suite by suite, running episodes cut", False, cuts=True),
)


@dataclass(frozen=True)
class Told:
    """What a way makes of a policy: bias in points, share of intervals that hold the truth, mean episodes."""

    bias: float
    coverage: float
    episodes: float


def planned() -> list[Planned]:
    """All episodes, suite by suite."""
    return [
        Planned(f"{suite}-{task}-{seed}", suite, str(task), (), seed, suite)
        for suite in BUDGETS
        for task in range(TASKS)
        for seed in range(SEEDS)
    ]


def orders(episodes: Sequence[Planned], number: int) -> list[list[int]]:
    """Balanced orders, as indices."""
    places = {each.node: place for place, each in enumerate(episodes)}
    return [[places[node] for some in balanced_rounds(episodes, seed) for node in some] for seed in range(number)]


def ran(
    way: Way, order: Sequence[int], durations: Sequence[float], longest: Sequence[float], limit: float
) -> list[int]:
    """The episodes that are in the rate.

    Args:
        way: how it is stopped.
        order: in which they are begun.
        durations: of each episode.
        longest: of each, what it may take at most, as who fills up knows.
        limit: when time is up.
    """
    end, free = TimeLimit(0.0, limit), [(0.0, worker, -1) for worker in range(WORKERS)]
    found: list[int] = []
    waiting: Iterator[int] = iter(order)
    for index in waiting:
        now, worker, ended = heapq.heappop(free)
        if ended >= 0:
            end.learn(durations[ended])
        if way.fills:
            if now + longest[index] > limit:
                heapq.heappush(free, (now, worker, -1))
                if now + min(longest) > limit:
                    break
                continue
        elif now >= limit if way.cuts else not end.may_begin(now):
            break
        done = now + durations[index]
        heapq.heappush(free, (done, worker, index))
        if done <= limit or not way.cuts:
            found.append(index)
    return found


def told(way: Way, rate: float, share: float, repetitions: int, drawn: Sequence[Sequence[int]]) -> Told:
    """Simulate a way at a success rate with a limit that is so much of the time of all episodes."""
    episodes = planned()
    budgets = np.array([BUDGETS[each.suite] for each in episodes])
    spread = 1 / BETWEEN - 1
    of_suites = np.repeat([rate + above for above in HARDER.values()], TASKS)
    generator = np.random.default_rng([int(100 * rate), int(1000 * share)])
    off, held, number = [], 0, 0
    naive = range(len(episodes))
    for repetition in range(repetitions):
        chances = np.repeat(generator.beta(of_suites * spread, (1 - of_suites) * spread), SEEDS)
        success = generator.random(len(episodes)) < chances
        durations = budgets * np.where(success, SUCCESS_SHARE, 1.0) * generator.uniform(0.9, 1.0, len(episodes))
        expected = float((budgets * (1 - chances * (1 - SUCCESS_SHARE))).sum()) * 0.95 / WORKERS
        order = drawn[repetition % len(drawn)] if way.is_balanced else naive
        some = ran(way, order, durations.tolist(), budgets.tolist(), share * expected)
        outcomes = success[some].astype(float)
        interval = rate_interval(outcomes.tolist(), some)
        truth = float(chances.mean())
        off.append(100 * (outcomes.mean() - truth))
        held += interval is not None and interval[0] <= truth <= interval[1]
        number += len(some)
    return Told(float(np.mean(off)), held / repetitions, number / repetitions)


def rows(repetitions: int, say: Callable[[str], None] = print) -> None:
    """The table, in Markdown."""
    drawn = orders(planned(), ORDERS)
    say("| how it was stopped | success | time | episodes | bias, points | 95% intervals that hold the truth |")
    say("|---|---:|---:|---:|---:|---:|")
    for way in WAYS:
        for share in HOURS:
            for rate in RATES:
                found = told(way, rate, share, repetitions, drawn)
                say(
                    f"| {way.name} | {rate:.0%} | {share:.0%} | {found.episodes:.0f} | {found.bias:+.2f} | "
                    f"{found.coverage:.1%} |"
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=1000)
    rows(parser.parse_args().repetitions)
