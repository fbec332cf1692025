"""What two movers cost of a control step: the same scene with their advance and without it, in turn, in one run.

python benchmarks/movers.py
"""

import statistics
import time
from dataclasses import replace

import numpy as np
from upstream import table

from pytest_vla import World, load_suite
from pytest_vla.scene.problem import Problem
from pytest_vla.scene.sections import Mover
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.movers import Movement

BLOCK = 20
ROUNDS = 60
MOST = 0.05
# In the air, where they touch nothing: so that the two have the same contacts to solve.
MOVERS = tuple(
    Mover(name, "waypoint", waypoints=(((0.2, y, 1.3), (1.0, 0.0, 0.0)), ((0.2, y, 1.35), (0.0, 1.0, 0.0))), dt=1.0)
    for name, y in (("box_1", -0.3), ("bottle_1", 0.3))
)


def with_movers(problem: Problem) -> Problem:
    return replace(problem, movers=MOVERS)


def main() -> None:
    task = load_suite("tabletop").task("put_the_bowl_on_the_plate")
    world = World(task, Variation("layout.movers", "layout", "movers", problem=(with_movers,)))
    world.reset(init_state=0)
    for _ in range(BLOCK):
        world.step(np.zeros(7))
    generator = np.random.default_rng(0)
    # The thread's own time: what else the machine does is not in it.
    seconds: dict[str, list[float]] = {"with": [], "without": [], "advance": []}
    for number in range(ROUNDS):
        actions = generator.uniform(-0.3, 0.3, (BLOCK, 7))
        before = world.save()
        for key in ("with", "without") if number % 2 else ("without", "with"):
            world.restore(before)
            if key == "without":
                world.movement = Movement()
            start = time.thread_time()
            for action in actions:
                world.step(action)
            seconds[key].append((time.thread_time() - start) / BLOCK)
            if key == "with":
                after = world.save()
        world.restore(after)
        movement = world.movement
        start = time.thread_time()
        for _ in range(BLOCK):
            movement = movement.advanced(world.data)
        seconds["advance"].append((time.thread_time() - start) / BLOCK)
        world.restore(after)
    with_, without, advance = (statistics.median(seconds[key]) for key in ("with", "without", "advance"))
    pairs = [a / b - 1 for a, b in zip(seconds["with"], seconds["without"], strict=True)]
    table(
        f"two movers: medians of {ROUNDS} blocks of {BLOCK} control steps, taken in turn",
        [
            ("what", "us", "of a step", "wanted"),
            ("a control step without their advance", f"{without * 1e6:.0f}", "", ""),
            ("with it", f"{with_ * 1e6:.0f}", f"{100 * statistics.median(pairs):+.1f}%", f"<= {100 * MOST:.0f}%"),
            ("the advance alone", f"{advance * 1e6:.1f}", f"{100 * advance / without:.1f}%", f"<= {100 * MOST:.0f}%"),
        ],
    )


if __name__ == "__main__":
    main()
