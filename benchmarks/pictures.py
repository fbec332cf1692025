"""What a picture costs: tabletop beside a plain robosuite scene with the same arm, on one core.

    python benchmarks/pictures.py

robosuite's own Lift stands for "plain": a table, a cube, the Panda. All are drawn 256x256 by the same code.
"""

import dataclasses
import os
import statistics
import time
from collections.abc import Iterator

import mujoco
from upstream import table

from pytest_vla import World, load_suite
from pytest_vla.quiet import quiet_robosuite
from pytest_vla.sim.cameras import Cameras

SIDE = 256
ROUNDS = 31
PLAIN = "Lift as it is"
VIEWS = ("agentview", "robot0_eye_in_hand")


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


def main() -> None:
    # Software GL draws with as many threads as the process has cores, and settles on that when the first world draws.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
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
