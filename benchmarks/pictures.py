"""What a picture costs: tabletop beside a plain robosuite scene, and what is seen beside everything, on one core.

    python benchmarks/pictures.py

robosuite's own Lift stands for "plain": a table, a cube, the Panda. All are drawn 256x256 by the same code. What a
picture of everything costs, as robosuite draws it, is measured in turn with what one of what can be seen costs, at
moments of an episode whose actions are random.
"""

import dataclasses
import os
import statistics
import time
from collections.abc import Iterator

import mujoco
import numpy as np
from upstream import libero_data, table

from pytest_vla import World, load_suite
from pytest_vla.quiet import quiet_robosuite
from pytest_vla.sim.cameras import Cameras

SIDE = 256
ROUNDS = 31
PLAIN = "Lift as it is"
VIEWS = ("agentview", "robot0_eye_in_hand")
SEEN = (
    ("tabletop", 0),
    ("libero_goal", 0),
    ("libero_spatial", 0),
    ("libero_object", 2),
    ("libero_10", 0),
    ("libero_90", 40),
)
MOMENTS, STEPS_BETWEEN, SEEN_ROUNDS = 9, 25, 3


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


def of_what_is_seen(world: World) -> dict[str, tuple[float, float]]:
    """Seconds of pictures of everything, and of what is seen, by camera: medians of a round, mean over the moments."""
    generator, readings = np.random.default_rng(0), world._readings
    cameras = readings._drawing()
    taken: dict[str, list[tuple[float, float]]] = {view: [] for view in VIEWS}
    world.reset(0)
    for moment in range(MOMENTS):
        for _ in range(STEPS_BETWEEN if moment else 0):
            world.step(np.append(generator.uniform(-0.5, 0.5, 6), -1.0))
        data = readings._seen()
        for view in VIEWS:
            rounds: list[list[float]] = []
            pictures = []
            for _ in range(SEEN_ROUNDS):
                rounds.append([])
                for cameras.draws_all in (True, False):
                    start = time.perf_counter()
                    pictures.append(cameras.picture(data, view))
                    rounds[-1].append(time.perf_counter() - start)
            assert all(np.array_equal(picture, pictures[-1]) for picture in pictures[1:]), "the pictures differ"
            taken[view].append(
                (statistics.median(all_ for all_, _ in rounds), statistics.median(seen for _, seen in rounds))
            )
    return {
        view: (statistics.mean(a for a, _ in each), statistics.mean(s for _, s in each)) for view, each in taken.items()
    }


def seen_table() -> None:
    rows: list[tuple[str, ...]] = [("suite", "camera", "ms, everything", "ms, what is seen", "ratio", "wanted")]
    for suite, index in SEEN:
        if suite != "tabletop":
            os.environ.setdefault("PYTEST_VLA_DATA", str(libero_data()))
        with World(load_suite(suite).tasks[index], image_size=(SIDE, SIDE)) as world:
            found = of_what_is_seen(world)
        name = f"{suite}/{index}"
        found["both"] = (sum(all_ for all_, _ in found.values()), sum(seen for _, seen in found.values()))
        for view, (all_, seen) in found.items():
            wanted = {"robot0_eye_in_hand": ">= 1.5", "both": ">= 1.25"}.get(view, "")
            rows.append((name, view, f"{1e3 * all_:.1f}", f"{1e3 * seen:.1f}", f"{all_ / seen:.2f}", wanted))
    table(f"{SIDE}x{SIDE} pictures of everything and of what is seen, the same pixels, on one core", rows)


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
