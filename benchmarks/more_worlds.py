"""More worlds than cores: as more processes, as threads of a process, or in turn in a process's one thread.

    python benchmarks/more_worlds.py [--cores=2] [--seconds=6] [--answer=0.06] [--size=256] [SUITE]
    python benchmarks/more_worlds.py --simulate

A worker thinks (steps and pictures, on a core), then waits for the policy's answer. Here the policy is a stand-in whose
answer takes a fixed time and no core, as a device's does that takes all questions at once. Every way keeps to the same
cores (`os.sched_setaffinity`), and all ways take turns in one run. Simulated are runs with one to four workers a core.
"""

import argparse
import multiprocessing
import os
import resource
import statistics
import threading
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Barrier
from typing import Any

import numpy as np
from upstream import resident_bytes, table

from pytest_vla import World, load_suite

REPLAN = 10
QUESTIONS = 22
ROUNDS = 5
PICTURES = ("agentview_image", "robot0_eye_in_hand_image")


def asking(world: World, seed: int) -> Iterator[None]:
    """Episodes one after the other; stops where it waits for an answer."""
    generator = np.random.default_rng(seed)
    while True:
        observation = world.reset(init_state=0, scene_seed=0)
        for _ in range(QUESTIONS):
            for name in PICTURES:
                observation[name]
            yield
            for action in np.clip(generator.normal(0, 0.2, (REPLAN, 7)), -1, 1):
                observation = world.step(action)
                world.success()


class Playing:
    """Worlds of one process that are played for as long as they are told to; `asked` counts answers."""

    def __init__(self, worlds: list[Iterator[None]], answer: float) -> None:
        self._worlds, self._answer, self.asked = worlds, answer, 0
        self._goes = threading.Event()

    def start(self, way: str) -> None:
        """Begins the threads, which wait: a picture's context belongs to the thread that draws."""
        shares = [self._worlds] if way == "in turn" else [[each] for each in self._worlds]
        for share in shares:
            threading.Thread(target=self._play, args=(share,), daemon=True).start()

    def play(self, seconds: float) -> int:
        """How many questions were answered meanwhile."""
        before = self.asked
        self._goes.set()
        time.sleep(seconds)
        self._goes.clear()
        return self.asked - before

    def _play(self, worlds: list[Iterator[None]]) -> None:
        ready = [0.0] * len(worlds)
        while True:
            self._goes.wait()
            number = min(range(len(worlds)), key=ready.__getitem__)
            time.sleep(max(0.0, ready[number] - time.perf_counter()))
            next(worlds[number])
            ready[number] = time.perf_counter() + self._answer
            self.asked += 1


def work(
    suite: str,
    number: int,
    worlds: int,
    way: str,
    size: int,
    cores: set[int],
    seconds: float,
    answer: float,
    *,
    barrier: Barrier,
    told: Any,
) -> None:
    """A worker's process: tells questions of each round, seconds of processor time until ready, resident bytes."""
    os.sched_setaffinity(0, cores)
    names = [task.key for task in load_suite(suite).tasks]
    task = load_suite(suite).task(names[number % len(names)])
    made = [World(task, image_size=(size, size)) for _ in range(worlds)]
    playing = Playing([asking(world, 97 * number + each) for each, world in enumerate(made)], answer)
    playing.start(way)
    while playing.asked < 2 * worlds:
        playing.play(0.1)
    used = resource.getrusage(resource.RUSAGE_SELF)
    started = used.ru_utime + used.ru_stime
    barrier.wait()
    for _ in range(ROUNDS):
        barrier.wait()
        told.put((playing.play(seconds), started, resident_bytes()))
        barrier.wait()
    os._exit(0)


SHAPES: dict[str, dict[int, float]] = {
    "quick: 10 ms + 1 ms each": {size: 0.01 + 0.001 * size for size in (1, 2, 4, 8, 16, 32)},
    "SmolVLA's shape: 69 to 50 ms": {1: 0.069, 2: 0.068, 4: 0.049, 8: 0.064, 16: 0.053, 32: 0.050},
    "pi0's shape: 61 to 238 ms": {1: 0.061, 2: 0.059, 4: 0.059, 8: 0.076, 16: 0.126, 32: 0.238},
    "slow: 300 ms + 20 ms each": {size: 0.3 + 0.02 * size for size in (1, 2, 4, 8, 16, 32)},
}
"""Seconds of a call by its questions; those of the shapes were measured on an H100."""

WORKERS_A_CORE = (1.0, 1.5, 2.0, 3.0, 4.0)
EPISODES = 200


def simulated() -> None:
    """Prints the time of a run by workers a core, beside one a core."""
    from pytest_vla.serving.forecast import foresee
    from pytest_vla.serving.simulated import Load

    rows: list[tuple[str, ...]] = [
        ("a call", "thinking", "cores", "1 a core", *(f"{each:g}" for each in WORKERS_A_CORE[1:]))
    ]
    for name, times in SHAPES.items():
        for thinking in (0.03, 0.08, 0.2):
            for cores in (2, 16):
                sizes, seconds = [*times], [*times.values()]
                load = Load(
                    lambda size, sizes=sizes, seconds=seconds: float(np.interp(size, sizes, seconds)),
                    32,
                    tuple(share * thinking for share in (0.8, 1.0, 1.2)),
                    (thinking + 0.06,),
                    QUESTIONS,
                    cores,
                )
                took = [
                    foresee(load, round(each * cores), np.random.default_rng(0), episodes=EPISODES).seconds
                    for each in WORKERS_A_CORE
                ]
                told = (f"{took[0]:.0f} s", *(f"{each / took[0]:.2f}x" for each in took[1:]))
                rows.append((name, f"{1000 * thinking:.0f} ms", str(cores), *told))
    table(f"{EPISODES} episodes of {QUESTIONS} questions, by workers a core", rows)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("suite", nargs="?", default="tabletop")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--answer", type=float, default=0.06)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--simulate", action="store_true")
    options = parser.parse_args()
    if options.simulate:
        simulated()
        return
    cores = set(sorted(os.sched_getaffinity(0))[: options.cores])
    spawn = multiprocessing.get_context("spawn")
    ways = [(options.cores, 1, "in turn"), (2 * options.cores, 1, "in turn")]
    ways += [(options.cores, 2, "in turn"), (options.cores, 2, "threads")]
    groups = []
    for processes, worlds, way in ways:
        barrier, told = spawn.Barrier(processes + 1), spawn.Queue()
        about = (worlds, way, options.size, cores, options.seconds, options.answer)
        for number in range(processes):
            given = {"barrier": barrier, "told": told}
            spawn.Process(target=work, args=(options.suite, number, *about), kwargs=given, daemon=True).start()
        barrier.wait()
        groups.append((processes, barrier, told, []))
    for _ in range(ROUNDS):
        for processes, barrier, told, rounds in groups:
            barrier.wait()
            rounds.append([told.get() for _ in range(processes)])
            barrier.wait()
    rows: list[tuple[str, ...]] = [("processes", "worlds in each", "questions/s", "MB each", "start, s of a core")]
    for (processes, worlds, way), (_, _, _, rounds) in zip(ways, groups, strict=True):
        rates = [sum(asked for asked, _, _ in found) / options.seconds for found in rounds]
        started, resident = (statistics.median(one[place] for one in rounds[-1]) for place in (1, 2))
        how = f"{worlds}, {way}" if worlds > 1 else "1"
        told = f"{statistics.median(rates):.1f} ({min(rates):.1f} to {max(rates):.1f})"
        rows.append((str(processes), how, told, f"{resident / 1e6:.0f}", f"{started:.1f}"))
    table(
        f"{options.suite}, {options.cores} cores, {options.size}x{options.size} pictures, an answer takes "
        f"{1000 * options.answer:.0f} ms (load {os.getloadavg()[0]:.1f})",
        rows,
    )


if __name__ == "__main__":
    main()
