"""A whole episode with two 256x256 cameras and a policy that costs nothing, and memory: ours and upstream, in turn.

    python benchmarks/episode.py [SUITE TASK]

Upstream draws both pictures in every step and in every reset, as LIBERO's, openpi's and OpenVLA-OFT's loops do; ours
draws them when the policy looks, which a policy with chunks of eight actions does every eighth step. The ceiling is
what remains when everything but those pictures is free.
"""

import statistics
import sys
import time

import numpy as np
from upstream import Upstream, libero_data, resident_bytes, table

from pytest_vla import World, load_suite

STEPS = 200
REPLAN = 8
ROUNDS = 3
PICTURES = ("agentview_image", "robot0_eye_in_hand_image")


def our_episode(world: World, seed: int) -> tuple[float, float]:
    """Seconds of an episode, and of the pictures in it."""
    generator = np.random.default_rng(seed)
    drawing = 0.0
    start = time.perf_counter()
    observation = world.reset(init_state=0, scene_seed=0)
    for step in range(STEPS):
        if step % REPLAN == 0:
            looked = time.perf_counter()
            for name in PICTURES:
                observation[name]
            drawing += time.perf_counter() - looked
            chunk = generator.uniform(-0.3, 0.3, (REPLAN, 7))
            chunk[:, 6] = -1
        observation = world.step(chunk[step % REPLAN])
        world.success()
    return time.perf_counter() - start, drawing


def main() -> None:
    suite, name = sys.argv[1:3] if len(sys.argv) > 2 else ("libero_goal", "open_the_middle_drawer_of_the_cabinet")
    data = libero_data()
    task = str(data / "bddl_files" / suite / f"{name}.bddl")
    world = World(load_suite(suite).task(name), image_size=(256, 256))
    our_episode(world, 0)
    ours, drawings, theirs = [], [], []
    with Upstream() as upstream:
        state = world.init_states[0].tolist()
        opened = upstream("open", task=task, assets=str(data / "assets"), cameras=256, init_state=state)
        first = upstream("episode", n=1)
        for number in range(ROUNDS):
            theirs.append(upstream("episode", n=STEPS))
            for repeat in range(3):
                seconds, drawing = our_episode(world, 3 * number + repeat)
                ours.append(seconds)
                drawings.append(drawing)
        memory = upstream("memory")
    our, their, drawing = (statistics.median(values) for values in (ours, theirs, drawings))
    held, ceiling = resident_bytes(), f"{their / drawing:.1f}x"
    share = f"{held / memory:.0%} of upstream's"
    table(
        f"{suite}/{name}: an episode of 10 + {STEPS} steps, replan {REPLAN}, two 256x256 cameras "
        f"(medians of {len(ours)} and {len(theirs)})",
        [
            ("what", "ours", "upstream", "ratio", "wanted"),
            ("episode, s", f"{our:.2f}", f"{their:.2f}", f"{their / our:.1f}x", ">= 8x"),
            ("steps a second", f"{STEPS / our:.0f}", f"{STEPS / their:.1f}", "", ""),
            ("ceiling: only our pictures, s", f"{drawing:.2f}", "", ceiling, "about 9.6x on software GL"),
            ("resident memory with pictures, MB", f"{held / 1e6:.0f}", f"{memory / 1e6:.0f}", share, "<= 50%"),
            ("make an environment, s", "", f"{opened:.1f} (first episode of one step {first:.1f})", "", ""),
        ],
    )


if __name__ == "__main__":
    main()
