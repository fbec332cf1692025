"""Time control steps and resets without pictures: ours, bare MuJoCo and upstream, in turn. `make bench` runs it.

python benchmarks/physics.py [SUITE TASK]      # beside upstream, whose environment `make reference` makes
python benchmarks/physics.py --profiles        # steps as robosuite 1.4.0 and 1.5.1 make them, beside bare MuJoCo
python benchmarks/physics.py --control         # steps with poses (absolute) beside steps with changes (relative)
"""

import statistics
import sys
import time
from collections.abc import Callable

import mujoco
import numpy as np
import numpy.typing as npt
from upstream import Upstream, libero_data, table

from pytest_vla import World, load_suite
from pytest_vla.sim.native import copy_data

BLOCK = 20
ROUNDS = 40
PROFILES = (
    ("libero_goal", "open_the_middle_drawer_of_the_cabinet"),
    ("libero_object", "pick_up_the_milk_and_place_it_in_the_basket"),
    ("vla_arena_long_horizon", "close_all_of_the_drawer_of_the_cabinet"),
    ("vla_arena_unseen_objects", "pick_up_the_donut_and_place_it_in_the_box"),
    ("vla_arena_dynamic_distractors", "pick_up_the_carrot_and_put_it_on_the_bowl"),
)


def block(
    world: World, bare: mujoco.MjData, actions: npt.NDArray[np.float64], clock: Callable[[], float]
) -> tuple[float, float]:
    """Return the seconds of a step of ours and of 25 bare ``mj_step`` from the same state, means of a block."""
    copy_data(bare, world.model, world.data)
    start = clock()
    for action in actions:
        world.step(action)
    middle = clock()
    for _ in range(BLOCK):
        mujoco.mj_step(world.model, bare, 25)
    return (middle - start) / BLOCK, (clock() - middle) / BLOCK


def drawn(generator: np.random.Generator) -> npt.NDArray[np.float64]:
    """Draw the actions of a block."""
    actions = generator.uniform(-0.3, 0.3, (BLOCK, 7))
    actions[:, 6] = -1
    return actions


def of_ratios(ones: list[float], others: list[float]) -> float:
    """Return the median ratio, block by block."""
    return statistics.median(one / other for one, other in zip(ones, others, strict=True))


def profile_row(suite: str, name: str) -> tuple[str, ...]:
    """Return a task's row of the table of profiles. Times are the thread's processor time."""
    world = World(next(task for task in load_suite(suite).tasks if task.name == name))
    bare, generator = mujoco.MjData(world.model), np.random.default_rng(0)
    ours, bares = list[float](), list[float]()
    for number in range(ROUNDS):
        if number % 10 == 0:
            world.reset(init_state=0, scene_seed=0)
        our, plain = block(world, bare, drawn(generator), time.thread_time)
        ours.append(our)
        bares.append(plain)
    bare_ms, ours_ms = (f"{statistics.median(each) * 1e3:.2f}" for each in (bares, ours))
    return f"{suite}/{name}", world.profile.robosuite, bare_ms, ours_ms, f"{of_ratios(ours, bares):.2f}x", "<= 1.5x"


def profiles() -> None:
    """Print the table of profiles."""
    libero_data()
    table(
        f"a step by profile: medians of {ROUNDS} blocks of {BLOCK} steps, processor time, in turn with 25 bare mj_step",
        [("scene", "robosuite", "bare ms", "ours ms", "ratio", "wanted"), *(profile_row(*task) for task in PROFILES)],
    )


def control() -> None:
    """Print the table of steps whose actions are poses, beside steps whose actions are changes of the pose.

    Both drive the arm about the same pose, in turn, from the same state.
    """
    libero_data()
    rows: list[tuple[str, ...]] = [("scene", "relative ms", "absolute ms", "ratio", "wanted")]
    for suite, name in PROFILES[:2]:
        world = World(load_suite(suite).task(name))
        observation = world.reset(init_state=0, scene_seed=0)
        before, generator = world.save(), np.random.default_rng(0)
        pose = np.concatenate([observation["controller_pos"], [np.pi, 0.0, 0.0, -1.0]])
        seconds: dict[str, list[float]] = {"relative": [], "absolute": []}
        for _ in range(ROUNDS):
            actions = drawn(generator)
            poses = pose + actions * [*[0.05] * 3, *[0.5] * 3, 0.0]
            for kind, given in (("relative", actions), ("absolute", poses)):
                world.restore(before)
                start = time.thread_time()
                for action in given:
                    world.step(action, kind)
                seconds[kind].append((time.thread_time() - start) / BLOCK)
        ms = [f"{1e3 * statistics.median(each):.3f}" for each in seconds.values()]
        rows.append((f"{suite}/{name}", *ms, f"{of_ratios(seconds['absolute'], seconds['relative']):.3f}x", "<= 1.05x"))
    table(f"a step by control: medians of {ROUNDS} blocks of {BLOCK} steps, processor time, in turn", rows)


def beside_upstream(suite: str, name: str) -> None:
    """Print the table of steps and resets, ours, bare MuJoCo's and upstream's."""
    data = libero_data()
    world = World(load_suite(suite).task(name))
    world.reset(init_state=0, scene_seed=0)
    bare, generator = mujoco.MjData(world.model), np.random.default_rng(0)
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
            our, plain = block(world, bare, drawn(generator), time.perf_counter)
            seconds["ours"].append(our)
            seconds["bare"].append(plain)
            seconds["robosuite"].append(upstream("steps", n=BLOCK) / BLOCK)
        for seed in range(20):
            start = time.perf_counter()
            world.reset(init_state=seed, scene_seed=seed, settle=False)
            seconds["reset"].append(time.perf_counter() - start)
            if seed % 4 == 0:
                seconds["robosuite reset"].append(upstream("reset"))
    median = {key: statistics.median(each) for key, each in seconds.items()}
    ms = {key: f"{1e3 * each:.2f}" for key, each in median.items()}
    step, beside = (of_ratios(seconds[one], seconds[other]) for one, other in (("ours", "bare"), ("robosuite", "ours")))
    resets = median["robosuite reset"] / median["reset"]
    table(
        f"{suite}/{name}: medians of {ROUNDS} blocks of {BLOCK} control steps, taken in turn",
        [
            ("what", "ms", "ratio", "wanted"),
            ("25 bare mj_step of the same model", ms["bare"], "1", ""),
            ("our control step", ms["ours"], f"{step:.2f}x bare", "<= 1.5x"),
            ("robosuite's env.step, no camera", ms["robosuite"], f"{beside:.2f}x ours", ">= 3.5x"),
            ("our warm reset, no settling", ms["reset"], "", "<= 20 ms"),
            ("upstream's reset + set_init_state, no camera", ms["robosuite reset"], f"{resets:.0f}x ours", ""),
        ],
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["--profiles"]:
        profiles()
    elif sys.argv[1:] == ["--control"]:
        control()
    else:
        given = sys.argv[1:3] if len(sys.argv) > 2 else ("libero_goal", "open_the_middle_drawer_of_the_cabinet")
        beside_upstream(*given)
