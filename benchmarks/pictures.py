"""What a picture costs: of everything, and of what is seen; tabletop beside a plain robosuite scene.

    python benchmarks/pictures.py

The first table draws in turn as robosuite does and as we do, at moments of an episode, a chunk apart: under random
actions the hand stays high, where its camera sees most; under the expert's it goes to things, as a policy's does that
is able. In the second, robosuite's own Lift stands for "plain": a table, a cube, a Panda. All is 256x256, on one core.
"""

import dataclasses
import os
import statistics
import time
from collections.abc import Iterator

import mujoco
import numpy as np
import numpy.typing as npt
from upstream import libero_data, table

from pytest_vla import World, load_suite
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.expert.policy import expert_policy
from pytest_vla.plan.case import Case
from pytest_vla.plan.task import Task
from pytest_vla.scene.robosuite_import import quiet_robosuite
from pytest_vla.sim.cameras import Cameras

Array = npt.NDArray[np.float64]

SIDE = 256
ROUNDS = 31
PLAIN = "Lift as it is"
VIEWS = ("agentview", "robot0_eye_in_hand")
SEEN = (
    ("tabletop", 0), ("libero_goal", 0), ("libero_goal", 7), ("libero_spatial", 0), ("libero_object", 2),
    ("libero_10", 0), ("libero_10", 2), ("libero_10", 8), ("libero_90", 40),
)  # fmt: skip
MOMENTS, REPLAN, SEEN_ROUNDS = 20, 8, 3


@dataclasses.dataclass(frozen=True)
class Scene:
    """A model as it is to be drawn; its context is made when its settings are."""

    name: str
    data: mujoco.MjData
    cameras: Cameras


def seconds(scene: Scene, view: str) -> float:
    start = time.perf_counter()
    scene.cameras.picture(scene.data, view)
    return time.perf_counter() - start


def scenes(world: World) -> Iterator[Scene]:
    yield Scene("tabletop", world.data, Cameras(world.model, SIDE, SIDE))
    with quiet_robosuite():
        import robosuite
    settings = {"has_renderer": False, "has_offscreen_renderer": False, "use_camera_obs": False}
    for name in (PLAIN, "Lift without multisampling", "Lift with shadows"):
        lift = robosuite.make("Lift", robots="Panda", **settings)
        lift.reset()
        model, data = lift.sim.model._model, lift.sim.data._data
        if name == "Lift without multisampling":
            model.vis.quality.offsamples = 0
        if name == "Lift with shadows":
            model.light_castshadow[:] = True
        yield Scene(name, data, Cameras(model, SIDE, SIDE))


def random_actions() -> Array:
    generator = np.random.default_rng(0)
    chunks = np.column_stack([generator.uniform(-0.5, 0.5, (MOMENTS, 6)), np.full(MOMENTS, -1.0)])
    return np.repeat(chunks, REPLAN, axis=0)


def experts_actions(world: World, task: Task) -> Array:
    case = Case(task.suite, task.name, 0)
    rollout = run_episode(case, task, expert_policy, lambda *_: world, Conditions("expert"))
    return rollout.trajectory.actions


def of_what_is_seen(world: World, actions: Array) -> dict[str, list[float]]:
    """Seconds of a picture of everything, and of what is seen, by camera: medians of a round, means of the moments."""
    readings = world._readings
    cameras = readings._drawing()
    taken: dict[str, list[list[float]]] = {view: [] for view in VIEWS}
    world.reset(0)
    for number, action in enumerate(actions):
        world.step(action)
        if number % REPLAN:
            continue
        data = readings._seen()
        for view in VIEWS:
            rounds, pictures = [], []
            for _ in range(SEEN_ROUNDS):
                rounds.append([0.0, 0.0])
                for way, cameras.draws_all in enumerate((True, False)):
                    start = time.perf_counter()
                    pictures.append(cameras.picture(data, view))
                    rounds[-1][way] = time.perf_counter() - start
            assert all(np.array_equal(picture, pictures[-1]) for picture in pictures[1:]), "the pictures differ"
            taken[view].append([statistics.median(times) for times in zip(*rounds, strict=True)])
    return {view: [statistics.mean(times) for times in zip(*each, strict=True)] for view, each in taken.items()}


def seen_table() -> None:
    rows: list[tuple[str, ...]] = [("suite", "actions", "camera", "ms, everything", "ms, seen", "ratio", "wanted")]
    libero_data()
    for suite, index in SEEN:
        task = load_suite(suite).tasks[index]
        with World(task, image_size=(SIDE, SIDE)) as world:
            of = {"random": random_actions(), "expert": experts_actions(world, task)}
            for name, actions in of.items():
                found = of_what_is_seen(world, actions)
                found["both"] = [sum(times) for times in zip(*found.values(), strict=True)]
                for view, (everything, seen) in found.items():
                    wanted = {"robot0_eye_in_hand": ">= 1.5x", "both": ">= 1.25x"}.get(view, "")
                    shown = f"{1e3 * everything:.1f}", f"{1e3 * seen:.1f}", f"{everything / seen:.2f}x"
                    rows.append((f"{suite}/{index}", name, view, *shown, wanted))
    table(f"a {SIDE}x{SIDE} picture every {REPLAN} steps, the same pixels, on one core", rows)


def main() -> None:
    # Software GL draws with as many threads as the process has cores, and settles on that when the first world draws.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    seen_table()
    world = World(load_suite("tabletop").tasks[0])
    world.reset(0)
    drawn = list(scenes(world))
    times: dict[tuple[str, str], list[float]] = {(scene.name, view): [] for scene in drawn for view in VIEWS}
    # In turn, so that all meet the same load; the first round uploads textures.
    for number in range(ROUNDS + 1):
        for scene in drawn:
            for view in VIEWS:
                taken = seconds(scene, view)
                if number:
                    times[scene.name, view].append(taken)
    rows: list[tuple[str, ...]] = [("scene", "camera", "ms, fastest", "ms, median", "of Lift's")]
    for (name, view), all_taken in times.items():
        ratio = statistics.median(one / plain for one, plain in zip(all_taken, times[PLAIN, view], strict=True))
        fastest, median = 1e3 * min(all_taken), 1e3 * statistics.median(all_taken)
        rows.append((name, view, f"{fastest:.1f}", f"{median:.1f}", f"{ratio:.2f}"))
    table(f"one {SIDE}x{SIDE} picture on one core, {drawn[0].cameras.renderer}, {ROUNDS} rounds", rows)


if __name__ == "__main__":
    main()
