"""A control step as robosuite 1.4.0 makes it and as 1.5.1 does, each as a ratio to bare MuJoCo of the same scene.

python benchmarks/profiles.py
"""

import statistics
import time

import mujoco
import numpy as np
from upstream import libero_data, table

from pytest_vla import World, load_suite
from pytest_vla.sim.library import copy_data

BLOCK = 20
ROUNDS = 40
TASKS = (
    ("libero_goal", "open_the_middle_drawer_of_the_cabinet"),
    ("libero_object", "pick_up_the_milk_and_place_it_in_the_basket"),
    ("vla_arena_long_horizon", "close_all_of_the_drawer_of_the_cabinet"),
    ("vla_arena_unseen_objects", "pick_up_the_donut_and_place_it_in_the_box"),
    ("vla_arena_dynamic_distractors", "pick_up_the_carrot_and_put_it_on_the_bowl"),
)


def measured(suite: str, name: str) -> tuple[str, ...]:
    """A row of the table."""
    world = World(next(task for task in load_suite(suite).tasks if task.name == name))
    bare = mujoco.MjData(world.model)
    generator = np.random.default_rng(0)
    seconds: dict[str, list[float]] = {"bare": [], "ours": []}
    for number in range(ROUNDS):
        if number % 10 == 0:
            world.reset(init_state=0, scene_seed=0)
        actions = generator.uniform(-0.3, 0.3, (BLOCK, 7))
        actions[:, 6] = -1
        copy_data(bare, world.model, world.data)
        start = time.thread_time()
        for action in actions:
            world.step(action)
        middle = time.thread_time()
        for _ in range(BLOCK):
            mujoco.mj_step(world.model, bare, 25)
        end = time.thread_time()
        seconds["ours"].append((middle - start) / BLOCK)
        seconds["bare"].append((end - middle) / BLOCK)
    ratio = statistics.median(a / b for a, b in zip(seconds["ours"], seconds["bare"], strict=True))
    bare_ms, ours_ms = (f"{statistics.median(seconds[key]) * 1e3:.2f}" for key in ("bare", "ours"))
    return f"{suite}/{name}", world.profile.robosuite, bare_ms, ours_ms, f"{ratio:.2f}x", "<= 1.5x"


def main() -> None:
    libero_data()
    table(
        f"a step by profile: medians of {ROUNDS} blocks of {BLOCK} steps, processor time, in turn with 25 bare mj_step",
        [("scene", "robosuite", "bare ms", "ours ms", "ratio", "wanted"), *(measured(*task) for task in TASKS)],
    )


if __name__ == "__main__":
    main()
