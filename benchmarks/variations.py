"""What variations cost: episodes under each kind as ratios to benign ones, and the compiling of changed scenes.

``python benchmarks/variations.py [--suite tabletop] [--task NAME] [--rounds 5]``. An episode here is a reset with
settling, 100 control steps and a picture of each camera every ten. Times are processor time of this process; benign and
varied episodes take turns, and medians are compared. Wanted: state variations at most 1.05, scene variations after the
first compile at most 1.1, compiling a scene with another set of objects at most 1.5.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence

import numpy as np

from pytest_vla.errors import VlaError
from pytest_vla.plan.case import init_state_of
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.world import World
from pytest_vla.vary.registry import find_variation, kinds

STEPS, EVERY = 100, 10


def episode(world: World, seed: int) -> float:
    """Seconds of processor time."""
    began = time.process_time()
    observation = world.reset(init_state_of(seed, world.init_state_count), scene_seed=seed)
    changes = [begin() for begin in world.variation.actions] if world.variation is not None else []
    action = np.array([0.2, 0.1, -0.1, 0.0, 0.0, 0.1, -1.0])
    for step in range(STEPS):
        if step % EVERY == 0:
            for camera in world.task.protocol.cameras:
                observation[f"{camera}_image"]
        executed = action
        for change in changes:
            executed = change(executed)
        observation = world.step(executed)
    return time.process_time() - began


def drawn(task: Task, label: str) -> tuple[Variation, int] | str:
    """A variation that the task can have, and its seed; why there is none."""
    why = ""
    for seed in range(5):
        try:
            found = find_variation(task, label, seed)
            assert found is not None
            with World(task, found) as world:
                world.reset(init_state_of(seed, world.init_state_count), scene_seed=seed)
            return found, seed
        except VlaError as error:
            why = str(error)
    return why


def compare(task: Task, label: str, rounds: int) -> str:
    """A line of the table."""
    made = drawn(task, label)
    if isinstance(made, str):
        return f"{label:32} none: {made[:70]}"
    variation, seed = made
    benign, varied = [], []
    with World(task) as plain, World(task, variation) as changed:
        for world in (plain, changed):
            episode(world, seed)
        for _ in range(rounds):
            benign.append(episode(plain, seed))
            varied.append(episode(changed, seed))
    ratio = statistics.median(varied) / statistics.median(benign)
    return f"{label:32} {1000 * statistics.median(benign):8.0f} {1000 * statistics.median(varied):8.0f} {ratio:7.3f}"


def compile_times(task: Task, labels: Sequence[str], rounds: int) -> list[str]:
    """Of scenes that no cache has, as ratios to the benign one."""
    lines = []
    for label in labels:
        made = drawn(task, label)
        if isinstance(made, str):
            continue
        seconds: dict[str, list[float]] = {"": [], label: []}
        for _ in range(rounds):
            for name, variation in (("", None), (label, made[0])):
                with tempfile.TemporaryDirectory() as empty:
                    os.environ["PYTEST_VLA_CACHE"] = empty
                    began = time.process_time()
                    World(task, variation).close()
                    seconds[name].append(time.process_time() - began)
                    del os.environ["PYTEST_VLA_CACHE"]
        plain, changed = (statistics.median(each) for each in seconds.values())
        lines.append(f"compile {label:24} {1000 * plain:8.0f} {1000 * changed:8.0f} {changed / plain:7.3f}")
    return lines


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description="What variations cost, as ratios to benign episodes.")
    parser.add_argument("--suite", default="tabletop")
    parser.add_argument("--task", default="put_the_bowl_on_the_plate")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--kinds", default="", help="only kinds whose names contain this")
    options = parser.parse_args()
    task = load_suite(options.suite).task(options.task)
    chosen = [kind for kind in kinds() if kind.dimension not in ("language", "noise") and options.kinds in kind.name]
    print(
        f"{options.suite}/{options.task}: {STEPS} steps, {STEPS // EVERY} pictures of each camera; processor time, ms"
    )
    print(f"{'':32} {'benign':>8} {'varied':>8} {'ratio':>7}")
    for kind in chosen:
        print(compare(task, kind.labels()[-1], options.rounds), flush=True)
    scenes = [kind.labels()[-1] for kind in chosen if kind.scene and not kind.published]
    for line in compile_times(task, scenes, min(options.rounds, 3)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
