"""Control steps and resets without pictures: ours, bare MuJoCo and upstream, in turn. `make bench` runs it.

python benchmarks/physics.py [SUITE TASK]
"""

import statistics
import sys
import time

import mujoco
import numpy as np
from upstream import Upstream, libero_data, table

from pytest_vla import World, load_suite
from pytest_vla.sim.library import copy_data

BLOCK = 20
ROUNDS = 40


def main() -> None:
    suite, name = sys.argv[1:3] if len(sys.argv) > 2 else ("libero_goal", "open_the_middle_drawer_of_the_cabinet")
    data = libero_data()
    world = World(load_suite(suite).task(name))
    world.reset(init_state=0, scene_seed=0)
    bare = mujoco.MjData(world.model)
    generator = np.random.default_rng(0)
    task = str(data / "bddl_files" / suite / f"{name}.bddl")
    seconds: dict[str, list[float]] = {key: [] for key in ("bare", "ours", "robosuite", "reset", "robosuite reset")}
    with Upstream() as upstream:
        state = world.init_states[0].tolist()
        upstream("open", task=task, assets=str(data / "assets"), cameras=0, init_state=state)
        upstream("reset")
        upstream("steps", n=BLOCK)
        for number in range(ROUNDS):
            if number % 10 == 0:
                # A new episode, so that neither side wanders off into states of its own.
                world.reset(init_state=0, scene_seed=0)
                upstream("reset")
                upstream("steps", n=10)
            actions = generator.uniform(-0.3, 0.3, (BLOCK, 7))
            actions[:, 6] = -1
            copy_data(bare, world.model, world.data)
            start = time.perf_counter()
            for action in actions:
                world.step(action)
            middle = time.perf_counter()
            for _ in range(BLOCK):
                mujoco.mj_step(world.model, bare, 25)
            end = time.perf_counter()
            seconds["ours"].append((middle - start) / BLOCK)
            seconds["bare"].append((end - middle) / BLOCK)
            seconds["robosuite"].append(upstream("steps", n=BLOCK) / BLOCK)
        for seed in range(20):
            start = time.perf_counter()
            world.reset(init_state=seed, scene_seed=seed, settle=False)
            seconds["reset"].append(time.perf_counter() - start)
            if seed % 4 == 0:
                seconds["robosuite reset"].append(upstream("reset"))

    def ratio(one: str, other: str) -> float:
        return statistics.median(a / b for a, b in zip(seconds[one], seconds[other], strict=True))

    def ms(key: str) -> str:
        return f"{statistics.median(seconds[key]) * 1e3:.2f}"

    resets = statistics.median(seconds["robosuite reset"]) / statistics.median(seconds["reset"])
    table(
        f"{suite}/{name}: medians of {ROUNDS} blocks of {BLOCK} control steps, taken in turn",
        [
            ("what", "ms", "ratio", "wanted"),
            ("25 bare mj_step of the same model", ms("bare"), "1", ""),
            ("our control step", ms("ours"), f"{ratio('ours', 'bare'):.2f}x bare", "<= 1.5x"),
            ("robosuite's env.step, no camera", ms("robosuite"), f"{ratio('robosuite', 'ours'):.2f}x ours", ">= 3.5x"),
            ("our warm reset, no settling", ms("reset"), "", "<= 20 ms"),
            ("upstream's reset + set_init_state, no camera", ms("robosuite reset"), f"{resets:.0f}x ours", ""),
        ],
    )


if __name__ == "__main__":
    main()
