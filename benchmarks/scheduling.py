"""How long a run takes under our scheduler and under xdist's own, and how many worlds are loaded for it.

    python benchmarks/scheduling.py [--simulated]

First simulated: the schedulers themselves, with workers that start an item when they know the next one, as xdist's do.
Then for real: pytest on four workers, with episodes that sleep for a twentieth of their time.
"""

import heapq
import json
import math
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from upstream import table
from xdist.remote import Producer
from xdist.scheduler import LoadScheduling, LoadScopeScheduling, WorkStealingScheduling

from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.select import plan
from pytest_vla.run.xdist.pool import Item
from pytest_vla.run.xdist.scheduler import VlaScheduling

LOADING = 1.0
"""Seconds that it takes a worker to load another scene: about what it took with a warm cache and software GL."""

REPEATS = 5
MIXES: dict[str, tuple[tuple[str, ...], int]] = {
    "libero_goal, 1 seed": (("libero_goal",), 1),
    "libero_goal, 50 seeds": (("libero_goal",), 50),
    "libero_object, 10 seeds": (("libero_object",), 10),
    "libero_10, 10 seeds": (("libero_10",), 10),
    "libero_90, 1 seed": (("libero_90",), 1),
    "libero_90, 5 seeds": (("libero_90",), 5),
    "four suites, 10 seeds": (("libero_spatial", "libero_object", "libero_goal", "libero_10"), 10),
}
WORKERS = (2, 4, 8, 16, 64)
SCHEDULERS = ("ours", "ours, nothing measured", "load", "worksteal", "loadscope")


@dataclass(frozen=True)
class Episode:
    """One item: its id, its scene, how long it takes, and how long episodes of its task and its suite take, seconds."""

    node_id: str
    scene: str
    seconds: float
    task_seconds: float
    budget_seconds: float


def draw_episodes(suites: Sequence[str], seeds: int, generator: random.Random) -> list[Episode]:
    """Episodes of 2 to 20 s: failures take the whole budget, successes a lognormal share of it that is the task's."""
    episodes = []
    for suite in map(load_suite, suites):
        budget = suite.protocol.max_steps * 0.035
        for task in suite.tasks:
            rate, share = generator.uniform(0.3, 1.0), generator.uniform(0.3, 0.7)

            def seconds(rate: float = rate, share: float = share, budget: float = budget) -> float:
                if generator.random() > rate:
                    return budget
                return min(budget, max(2.0, budget * share * generator.lognormvariate(0.0, 0.25)))

            scene = re.match(r"[A-Z_]*SCENE\d+", task.name)
            name = scene[0] if scene else task.name if suite.name == "libero_object" else suite.name
            earlier = statistics.fmean(seconds() for _ in range(10))
            episodes += [
                Episode(case.node_id, name, seconds(), earlier, budget)
                for case in plan([suite], [task.name], range(seeds))
            ]
    return episodes


def shortest(episodes: Sequence[Episode], workers: int) -> float:
    """What no schedule beats: all the work and one load a scene or worker, spread evenly; or the longest episode."""
    loads = max(len({episode.scene for episode in episodes}), min(workers, len(episodes)))
    work = sum(episode.seconds for episode in episodes) + LOADING * loads
    return max(work / workers, max(episode.seconds for episode in episodes) + LOADING)


class Worker:
    """A worker as xdist has it, in simulated time."""

    shutting_down = False

    def __init__(self, simulation: "Simulation", number: int, workers: int) -> None:
        self.simulation, self.gateway = simulation, SimpleNamespace(id=f"gw{number}")
        self.workerinput = {"workercount": workers}
        self.queue: deque[int | None] = deque()
        self.scene: str | None = None
        self.loads, self.busy, self.ended = 0, False, False

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.queue.extend(indices)
        self.start()

    def send_steal(self, indices: Sequence[int]) -> None:
        # The item after the running one has left the queue of a worker that runs.
        stealable = set(list(self.queue)[1:]) if self.busy else set(self.queue)
        stolen = list(indices) if set(indices) <= stealable else []
        self.queue = deque(index for index in self.queue if index not in stolen)
        self.simulation.at(self.simulation.now, lambda: self.simulation.unscheduled(self, stolen))

    def shutdown(self) -> None:
        self.shutting_down = True
        self.queue.append(None)
        self.start()

    def start(self) -> None:
        if self.busy or self.ended or (len(self.queue) < 2 and None not in self.queue):
            return
        index = self.queue.popleft()
        if index is None:
            self.ended = True
            return
        episode, self.busy = self.simulation.episodes[index], True
        loading = episode.scene != self.scene
        self.scene, self.loads = episode.scene, self.loads + loading
        end = self.simulation.now + episode.seconds + LOADING * loading
        self.simulation.at(end, lambda: self.simulation.complete(self, index))


class Simulation:
    """A run under one of the schedulers; `now` is how long it took, seconds."""

    def __init__(self, make: Callable[[Any, Producer], Any], episodes: Sequence[Episode], workers: int) -> None:
        self.episodes, self.now, self.done = episodes, 0.0, 0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        config = SimpleNamespace(
            getvalue=lambda name: ["popen"] * workers,
            getoption=lambda name: None,
            option=SimpleNamespace(loadscopereorder=True),
        )
        self.scheduler = make(config, Producer("benchmark", enabled=False))
        self.workers = [Worker(self, number, workers) for number in range(workers)]
        for worker in self.workers:
            self.scheduler.add_node(worker)
        for worker in self.workers:
            self.scheduler.add_node_collection(worker, [episode.node_id for episode in episodes])
        self.scheduler.schedule()
        self._end_if_finished()
        while self._events:
            self.now, _, event = heapq.heappop(self._events)
            event()
            self._end_if_finished()
        if self.done != len(episodes):
            raise RuntimeError(f"{self.done} of {len(episodes)} episodes were run")

    def at(self, time: float, event: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._events, (time, self._number, event))

    def complete(self, worker: Worker, index: int) -> None:
        self.done += 1
        worker.busy = False
        self.scheduler.mark_test_complete(worker, index, self.episodes[index].seconds)
        worker.start()

    def unscheduled(self, worker: Worker, indices: list[int]) -> None:
        self.scheduler.remove_pending_tests_from_node(worker, indices)

    def _end_if_finished(self) -> None:
        if self.scheduler.tests_finished:
            for worker in self.workers:
                if not worker.shutting_down:
                    worker.shutdown()


def makers(episodes: Sequence[Episode]) -> dict[str, Callable[[Any, Producer], Any]]:
    """The schedulers by name."""

    def ours(seconds: Callable[[Episode], float]) -> Callable[[Any, Producer], VlaScheduling]:
        items = [Item(index, episode.scene, seconds(episode)) for index, episode in enumerate(episodes)]
        return lambda config, log: VlaScheduling(config, log, lambda ids: items)

    measured, unmeasured = ours(lambda e: e.task_seconds), ours(lambda e: e.budget_seconds)
    others = (LoadScheduling, WorkStealingScheduling, LoadScopeScheduling)
    return dict(zip(SCHEDULERS, (measured, unmeasured, *others), strict=True))


def simulate() -> None:
    rows: list[tuple[str, ...]] = [("episodes", "workers", *SCHEDULERS)]
    gains: dict[str, list[float]] = {name: [] for name in SCHEDULERS}
    all_loads = dict.fromkeys(SCHEDULERS, 0)
    for title, (suites, seeds) in MIXES.items():
        for workers in WORKERS:
            ratios: dict[str, list[float]] = {name: [] for name in SCHEDULERS}
            loads: dict[str, list[int]] = {name: [] for name in SCHEDULERS}
            for repeat in range(REPEATS):
                episodes = draw_episodes(suites, seeds, random.Random(repeat))
                for name, make in makers(episodes).items():
                    simulation = Simulation(make, episodes, workers)
                    ratios[name].append(simulation.now / shortest(episodes, workers))
                    loads[name].append(sum(worker.loads for worker in simulation.workers))
            cells = (f"{statistics.fmean(ratios[n]):.2f}x ({statistics.fmean(loads[n]):.0f})" for n in SCHEDULERS)
            rows.append((title, str(workers), *cells))
            for name in SCHEDULERS:
                all_loads[name] += sum(loads[name])
                gains[name].append(statistics.fmean(ratios[name]) / statistics.fmean(ratios["ours"]))
    table(
        f"simulated: time of a run over the shortest possible, and scenes loaded at {LOADING:.0f} s each "
        f"(means of {REPEATS} draws)",
        rows,
    )
    table(
        "over ours: time of a run (geometric mean, least and most of these), and scenes loaded in all of them",
        [
            ("scheduler", "time", "from", "to", "scenes loaded"),
            *(
                (
                    name,
                    f"{math.exp(statistics.fmean(map(math.log, gain))):.3f}x",
                    f"{min(gain):.2f}x",
                    f"{max(gain):.2f}x",
                    f"{all_loads[name] / all_loads['ours']:.2f}x",
                )
                for name, gain in gains.items()
                if name != "ours"
            ),
        ],
    )


SLEEPING = """
import json, os, time
import numpy as np
import pytest
from pathlib import Path

SECONDS = json.loads((Path(__file__).parent / "seconds.json").read_text())

def note(kind):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(json.dumps([kind, time.time()]) + "\\n")

def policy(episode):
    note("start")
    time.sleep(SECONDS[f"{episode.task}-{episode.seed}"])
    note("end")
    return lambda observation: np.array([1.0, 0, 0, 0, 0, 0, 0])

@pytest.hookimpl(trylast=True)
def pytest_configure(config):
    # After pytest_vla.testing's, which takes the simulator's place.
    from pytest_vla.sim import world
    make = world.World.__init__

    def load(self, *arguments, **keywords):
        note("load")
        time.sleep(SECONDS["loading"])
        make(self, *arguments, **keywords)

    world.World.__init__ = load

def pytest_xdist_make_scheduler(config, log):
    if os.environ["SCHEDULER"] == "load":
        from xdist.scheduler import LoadScheduling
        return LoadScheduling(config, log)
"""
SCALE = 0.05
REAL_WORKERS = 4
# A suite is one scene in the tests' fake world.
REAL = ("libero_spatial", "libero_object", "libero_goal", "libero_10")


def run_pytest() -> None:
    episodes = draw_episodes(REAL, 2, random.Random(0))
    seconds = {re.sub(r".*\[(.*)-seed(\d+)\]", r"\1-\2", e.node_id): e.seconds * SCALE for e in episodes}
    rows: list[tuple[str, ...]] = [("scheduler", "s", "over ours", "worlds loaded")]
    taken: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "sleeping.py").write_text(SLEEPING)
        (folder / "seconds.json").write_text(json.dumps({**seconds, "loading": LOADING * SCALE}))
        for kind in ("assets", "bddl_files", "init_files"):
            (folder / "data" / kind).mkdir(parents=True)
        # The first run of ours has no earlier times, the second has them.
        for scheduler in ("ours, nothing measured", "ours", "load", "worksteal", "loadscope"):
            notes = folder / f"notes {scheduler}"
            dist = scheduler if scheduler in ("worksteal", "loadscope") else "load"
            plugins = ["-p", "pytest_vla.testing", "-p", "sleeping"]
            command = [*plugins, f"--vla-suite={','.join(REAL)}", "--vla-seeds=0-1", "-q"]
            ended = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "pytest",
                    *command,
                    "--vla-model=sleeping:policy",
                    f"-n{REAL_WORKERS}",
                    f"--dist={dist}",
                ],
                cwd=folder,
                env={
                    **os.environ,
                    "PYTEST_VLA_DATA": str(folder / "data"),
                    "PYTHONPATH": str(folder),
                    "NOTES": str(notes),
                    "SCHEDULER": scheduler,
                },
                capture_output=True,
                text=True,
            )
            lines = [json.loads(line) for line in notes.read_text().splitlines()] if notes.exists() else []
            times = [time for _, time in lines]
            if sum(kind == "end" for kind, _ in lines) < len(episodes) - 5:
                sys.exit(f"{scheduler}: not all episodes were run:\n{ended.stdout}\n{ended.stderr}")
            taken[scheduler] = max(times) - min(times)
            loads = sum(kind == "load" for kind, _ in lines)
            rows.append((scheduler, f"{taken[scheduler]:.2f}", "", str(loads)))
    rows[1:] = [(name, time, f"{taken[name] / taken['ours']:.2f}x", loads) for name, time, _, loads in rows[1:]]
    table(
        f"for real: {len(episodes)} sleeping episodes of {len(REAL)} scenes on {REAL_WORKERS} workers, at {SCALE} of "
        f"their time (shortest possible: {shortest([*episodes], REAL_WORKERS) * SCALE:.2f} s)",
        rows,
    )


def main() -> None:
    simulate()
    if "--simulated" not in sys.argv[1:]:
        run_pytest()


if __name__ == "__main__":
    main()
