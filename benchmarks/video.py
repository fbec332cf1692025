"""What a video costs beside its episode: drawing and encoding, by how many states are drawn.

    python benchmarks/video.py [SUITE TASK]

The episode is that of benchmarks/episode.py: random actions in chunks of eight, both pictures read once a chunk.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from upstream import table

from pytest_vla import World, load_suite
from pytest_vla.show.video import write_video

STEPS = 200
REPLAN = 8
ROUNDS = 3
PICTURES = ("agentview_image", "robot0_eye_in_hand_image")


def episode(world: World, seed: int) -> tuple[float, np.ndarray]:
    """Seconds of an episode, and its states."""
    generator = np.random.default_rng(seed)
    start = time.perf_counter()
    observation = world.reset(init_state=0, scene_seed=0)
    states = [world.data.qpos.copy()]
    for step in range(STEPS):
        if step % REPLAN == 0:
            for name in PICTURES:
                observation[name]
            chunk = generator.uniform(-0.3, 0.3, (REPLAN, 7))
        observation = world.step(chunk[step % REPLAN])
        states.append(world.data.qpos.copy())
    return time.perf_counter() - start, np.array(states)


def drawing(world: World, states: np.ndarray) -> float:
    """Seconds for the pictures alone."""
    world.reset(init_state=0, scene_seed=0, settle=False)
    start = time.perf_counter()
    for state in states:
        world.show(state)["agentview_image"]
    return time.perf_counter() - start


def main() -> None:
    suite, name = sys.argv[1:3] if len(sys.argv) > 2 else ("libero_goal", "open_the_middle_drawer_of_the_cabinet")
    world = World(load_suite(suite).task(name))
    episode(world, 0)
    runs = [episode(world, seed) for seed in range(ROUNDS)]
    whole = statistics.median(seconds for seconds, _ in runs)
    drawn = statistics.median(drawing(world, states) for _, states in runs)
    rows: list[tuple[str, ...]] = [("what", "s", "of the episode", "ms a frame", "MB", "s a second of video")]
    rows.append((f"episode of {STEPS} steps", f"{whole:.2f}", "1.00", "", "", ""))
    rows.append(
        (f"its {STEPS + 1} pictures", f"{drawn:.2f}", f"{drawn / whole:.2f}", f"{1e3 * drawn / STEPS:.1f}", "", "")
    )
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "episode.mp4"
        for every in (1, 2, 4):
            taken, frames = [], 0
            for _, states in runs:
                start = time.perf_counter()
                frames = write_video(world, states, file, init_state=0, scene_seed=0, ending="failure", every=every)
                taken.append(time.perf_counter() - start)
            seconds, length = statistics.median(taken), frames * every / 20
            what = f"video, every={every}, {length:.1f} s long"
            size = f"{file.stat().st_size / 1e6:.2f}"
            ratio, pace = f"{seconds / whole:.2f}", f"{seconds / length:.2f}"
            rows.append((what, f"{seconds:.2f}", ratio, f"{1e3 * seconds / frames:.1f}", size, pace))
    table(f"{suite}/{name}, {world.provenance()['renderer']}, 256x256 (medians of {ROUNDS})", rows)


if __name__ == "__main__":
    main()
