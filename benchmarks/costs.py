"""A control step of VLA-Arena's tasks with both accounts of their costs and with none, in turn.

    PYTEST_VLA_DATA=VLA-ARENA:LIBERO python benchmarks/costs.py [SUITE ...]

The first task of each suite; movers stand in both, as charges may stop them.
"""

import statistics
import sys
import time

import numpy as np

from pytest_vla import World, load_suite
from pytest_vla.plan.ledger import Ledger

STEPS = 150
SUITES = (
    "vla_arena_hazard_avoidance",
    "vla_arena_static_obstacles",
    "vla_arena_state_preservation",
    "vla_arena_cautious_grasp",
    "vla_arena_dynamic_obstacles",
)


def main() -> None:
    print(f"{'suite':34} {'step':>9} {'upstream':>9} {'paper':>9} {'of a step':>9}")
    for suite in sys.argv[1:] or SUITES:
        tasks = load_suite(suite).tasks
        with World(next(task for task in tasks if task.task_level != "L0")) as world:
            upstream, paper = world.meters
            world.meter(lambda metered: ())
            world.reset(init_state=0, scene_seed=0)
            ledgers = Ledger(), Ledger()
            upstream.begin()
            paper.begin()
            generator = np.random.default_rng(0)
            seconds: list[tuple[float, float, float]] = []
            for step in range(1, STEPS + 1):
                action = np.append(generator.uniform(-0.5, 0.5, 6), generator.choice((-1.0, 1.0)))
                begun = time.perf_counter()
                world.step(action)
                stepped = time.perf_counter()
                success = world.success()
                judged = time.perf_counter()
                upstream.step(ledgers[0], step, success)
                charged = time.perf_counter()
                paper.step(ledgers[1], step, success)
                seconds.append((stepped - begun, charged - judged, time.perf_counter() - charged))
            each = [statistics.median(some) * 1e3 for some in zip(*seconds, strict=True)]
            share = (each[1] + each[2]) / each[0]
            print(f"{suite:34} {each[0]:6.2f} ms {each[1]:6.3f} ms {each[2]:6.3f} ms {share:9.1%}", flush=True)


if __name__ == "__main__":
    main()
