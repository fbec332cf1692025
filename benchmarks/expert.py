"""What the expert reaches, task by task: successes, steps, and the time that an episode takes with its rehearsals.

    python benchmarks/expert.py [SUITE[,SUITE] [EPISODES]]

Without arguments: the four LIBERO suites of ten tasks, ten episodes each, and tabletop with fifty. Half an hour.
"""

import statistics
import sys
import time
from typing import NamedTuple

from upstream import libero_data, table

from pytest_vla import World, load_suite
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.expert.policy import expert_policy
from pytest_vla.kernels import pinned_processes
from pytest_vla.metrics.statistics import wilson_interval
from pytest_vla.plan.case import Case

EPISODES = {"tabletop": 50, "libero_goal": 10, "libero_spatial": 10, "libero_object": 10, "libero_10": 10}


class Result(NamedTuple):
    """One task's."""

    name: str
    done: int
    episodes: int
    errors: int
    steps: list[int]
    seconds: list[float]


def run(suite: str, name: str, episodes: int) -> Result:
    """All episodes of a task, seeds 0 and on."""
    task = load_suite(suite, data=None if suite == "tabletop" else libero_data()).task(name)
    records, seconds = [], []
    with World(task) as world:
        for seed in range(episodes):
            began = time.perf_counter()
            case = Case(suite, name, seed)
            records.append(run_episode(case, task, expert_policy, lambda *_: world, Conditions("expert")).record)
            seconds.append(time.perf_counter() - began)
    steps = [record.steps for record in records if record.outcome == "success"]
    errors = sum(record.outcome == "error" for record in records)
    return Result(name, len(steps), episodes, errors, steps, seconds)


def main() -> None:
    suites = sys.argv[1].split(",") if len(sys.argv) > 1 else list(EPISODES)
    with pinned_processes(len(suites) * 10) as pool:
        for suite in suites:
            episodes = int(sys.argv[2]) if len(sys.argv) > 2 else EPISODES[suite]
            names = [task.name for task in load_suite(suite).tasks]
            results = list(pool.map(run, [suite] * len(names), names, [episodes] * len(names)))
            rows: list[tuple[str, ...]] = [("task", "successes", "errors", "steps", "s an episode")]
            for result in results:
                steps = f"{statistics.median(result.steps):.0f}" if result.steps else "-"
                seconds = f"{statistics.median(result.seconds):.1f}"
                rows.append((result.name, f"{result.done}/{result.episodes}", str(result.errors), steps, seconds))
            done, tried = sum(result.done for result in results), sum(result.episodes for result in results)
            low, high = wilson_interval(done, tried)
            table(f"{suite}: {done}/{tried} = {done / tried:.1%} [{low:.1%}, {high:.1%}]", rows)


if __name__ == "__main__":
    main()
