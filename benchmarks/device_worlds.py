"""Worlds without a policy, ours and upstream's, in so many processes at once: what benchmarks/device.py times."""

import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Barrier
from typing import Any

import numpy as np
from device_policies import PICTURES
from upstream import Upstream, libero_data

from pytest_vla import World, load_suite

SUITE, SIDE = "libero_spatial", 256


def run_world(every: int, steps: int, episodes: int, barrier: Barrier, told: Any) -> None:
    """A process: episodes of one world, pictures every so many steps; tells when they began and ended."""
    with World(load_suite(SUITE).tasks[0], image_size=(SIDE, SIDE)) as world:
        generator = np.random.default_rng(0)

        def run(steps: int) -> None:
            observation = world.reset(0)
            for step in range(steps):
                if step % every == 0:
                    for name in PICTURES:
                        observation[name]
                observation = world.step(np.append(generator.uniform(-0.5, 0.5, 6), -1.0))

        run(2)
        barrier.wait()
        began = time.time()
        for _ in range(episodes):
            run(steps)
        told.put((began, time.time()))


def worlds_alone(processes: int, every: int, steps: int, episodes: int) -> float:
    """Seconds an episode, of all processes together: from the first one's start to the last one's end."""
    spawn = multiprocessing.get_context("spawn")
    barrier, told = spawn.Barrier(processes), spawn.Queue()
    arguments = (every, steps, episodes, barrier, told)
    workers = [spawn.Process(target=run_world, args=arguments) for _ in range(processes)]
    for worker in workers:
        worker.start()
    times = [told.get() for _ in workers]
    for worker in workers:
        worker.join()
    taken = max(end for _, end in times) - min(begin for begin, _ in times)
    return float(taken / (processes * episodes))


def upstreams_loop(processes: int, steps: int) -> float:
    """Seconds an episode of LIBERO's own loop, in so many processes at once."""
    data = libero_data()
    task = load_suite(SUITE).tasks[0]
    with World(task) as world:
        state = world.init_states[0].tolist()
    file = str(data / "bddl_files" / SUITE / f"{task.name}.bddl")
    opened = [Upstream() for _ in range(processes)]
    try:
        with ThreadPoolExecutor(processes) as threads:

            def of_all(do: str, **arguments: Any) -> None:
                list(threads.map(lambda one: one(do, **arguments), opened))

            of_all("open", task=file, assets=str(data / "assets"), cameras=SIDE, init_state=state)
            of_all("episode", n=1)
            began = time.perf_counter()
            of_all("episode", n=steps)
            return (time.perf_counter() - began) / processes
    finally:
        for one in opened:
            one.__exit__(None, None, None)
