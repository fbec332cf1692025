"""What pinned kernels cost: control steps and a policy of numpy's own matrices, pinned and as the processor would.

    python benchmarks/kernels.py

Two processes take turns on one core, one with pinned kernels and one with native ones.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from upstream import table

from pytest_vla.kernels import NATIVE, PINNED, pin

ROUNDS, STEPS, QUESTIONS, WIDTH = 30, 20, 20, 512


def serve(pipe: Connection, pinned: bool) -> None:
    """Answer with the seconds of a block of each kind of work, for every message."""
    if pinned:
        pin()
    import numpy as np

    from pytest_vla import World, load_suite
    from pytest_vla.kernels import in_force

    world = World(load_suite("tabletop").tasks[0])
    world.reset(0)
    generator = np.random.default_rng(0)
    actions = generator.uniform(-0.5, 0.5, (STEPS, 7))
    layers, batch = generator.normal(size=(4, WIDTH, WIDTH)), generator.normal(size=(8, WIDTH))

    def steps() -> None:
        for action in actions:
            world.step(action)

    def policy() -> None:
        for _ in range(QUESTIONS):
            seen = batch
            for layer in layers:
                seen = np.tanh(seen @ layer)

    pipe.send(in_force())
    while pipe.recv():
        pipe.send([_seconds(steps), _seconds(policy)])


def _seconds(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    context = get_context("spawn")
    pipes: dict[str, Any] = {}
    for name in (NATIVE, PINNED):
        ours, theirs = context.Pipe()
        context.Process(target=serve, args=(theirs, name == PINNED), daemon=True).start()
        if ours.recv() != name:
            sys.exit(f"benchmarks/kernels.py: kernels cannot be {name} in this process: unset OPENBLAS_CORETYPE")
        pipes[name] = ours
    taken: dict[str, list[list[float]]] = {name: [] for name in pipes}
    for number in range(ROUNDS + 1):
        for name, pipe in pipes.items():
            pipe.send(True)
            seconds = pipe.recv()
            if number:
                taken[name].append(seconds)
    rows: list[tuple[str, ...]] = [("what", "native, ms", "pinned, ms", "pinned / native")]
    kinds = (("control step of tabletop", STEPS), (f"numpy's four layers of {WIDTH}, batch of 8", QUESTIONS))
    for place, (name, count) in enumerate(kinds):
        native, pinned = ([seconds[place] / count for seconds in taken[each]] for each in (NATIVE, PINNED))
        ratio = statistics.median(one / other for one, other in zip(pinned, native, strict=True))
        medians = [f"{1e3 * statistics.median(each):.2f}" for each in (native, pinned)]
        rows.append((name, *medians, f"{ratio:.2f}"))
    table(f"medians of {ROUNDS} blocks, taken in turn on one core", rows)


if __name__ == "__main__":
    main()
