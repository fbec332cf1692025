"""What metrics cost a control step: nothing asked for, distances recorded, and each metric. `make bench` runs it.

In processor time of the thread, as other processes' work is not theirs. What a policy's further answers cost is told at
the end of a run that asks for samples; of ``tiny`` it stands here too.

python benchmarks/metrics.py [SUITE TASK]
"""

import statistics
import sys
import time
from pathlib import Path

import numpy as np

from pytest_vla import World, extensions, load_suite
from pytest_vla.episode.given import given_series
from pytest_vla.episode.measured import with_metrics
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.metrics.discrimination import timings
from pytest_vla.plan.case import Case
from pytest_vla.policies.base import Answer, Episode, Wishes
from pytest_vla.policies.load import resolve_policy
from pytest_vla.policies.price import price_of
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.policies.tokens import token_statistics

ROUNDS = 6
STEPS = 200


def main() -> None:
    suite, name = sys.argv[1:3] if len(sys.argv) > 2 else ("tabletop", "put_the_bowl_on_the_plate")
    task, case = load_suite(suite).task(name), Case(suite, name, 0)
    actions = 0.2 * np.random.default_rng(0).normal(size=(STEPS, 7)).clip(-5, 5)
    world = World(task)
    kinds = {
        "nothing asked": Conditions("x"),
        "distances": Conditions("x", remaining=True),
        "joints and contacts": Conditions("x", handling=True),
    }
    seconds: dict[str, list[float]] = {"bare world": [], **{kind: [] for kind in kinds}}
    for _ in range(ROUNDS):
        # In turn, so that what else the machine does hits all alike.
        world.reset(0)
        start = time.thread_time()
        for action in actions:
            world.step(action)
        seconds["bare world"].append((time.thread_time() - start) / STEPS)
        for kind, conditions in kinds.items():
            start = time.thread_time()
            ended = run_episode(case, task, _playing(actions), lambda task, variation: world, conditions)
            seconds[kind].append((time.thread_time() - start) / ended.steps)
    print(f"{suite} {name}: {STEPS} control steps, {ROUNDS} rounds; episodes with their reset and their record")
    step = statistics.median(seconds["nothing asked"])
    for kind, each in seconds.items():
        mean, deviation = timings(each)
        print(
            f"{kind:34} {mean * 1e3:8.4f} ms a step (sd {deviation * 1e3:.4f}), {statistics.median(each) / step:7.4f}"
        )
    nothing = _seconds_of(lambda: with_metrics(ended, ()), 50) / ended.steps
    print(f"{'metrics of which none is asked':34} {nothing * 1e3:8.4f} ms a step, {nothing / step:17.4f}")
    answer = Answer(actions[:4], np.zeros((4, 4, 7)), None, token_statistics(np.zeros((7, 256))))
    given = given_series([(at, answer) for at in range(0, ended.steps, 4)], ended.steps)
    trajectory = ended.trajectory.with_series(given)
    asked = resolve_policy(ModelSpec("tiny", Path())), load_suite("tabletop"), Wishes(4, True)
    for price in price_of(*asked, rounds=40, clock=time.thread_time):
        mean, deviation = timings(price.extra)
        print(f"tiny asked for {price.wish:19} {mean * 1e3:8.4f} ms a step (sd {deviation * 1e3:.4f})")
    for entry in extensions.metrics().values():
        function = extensions.load(entry)
        cost = _seconds_of(lambda function=function: function(ended.record, trajectory), 5) / ended.steps
        print(f"{entry.name:34} {cost * 1e3:8.4f} ms a step, {cost / step:17.4f}")


def _seconds_of(call: object, times: int) -> float:
    start = time.thread_time()
    for _ in range(times):
        call()  # type: ignore[operator]
    return (time.thread_time() - start) / times


def _playing(actions: np.ndarray) -> object:
    def policy(episode: Episode) -> object:
        remaining = iter(actions)
        return lambda observation: next(remaining)

    return policy


if __name__ == "__main__":
    main()
