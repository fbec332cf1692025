"""What a picture costs: tabletop beside a plain robosuite scene with the same arm, on one core.

    python benchmarks/pictures.py

robosuite's own Lift stands for "plain": a table, a cube, the Panda. All are drawn 256x256 by the same code.
"""

import os
import statistics
import time

import mujoco
from upstream import table

from pytest_vla import World, load_suite
from pytest_vla.quiet import quiet_robosuite
from pytest_vla.sim.cameras import Cameras

SIDE = 256
ROUNDS = 31
VIEWS = ("agentview", "robot0_eye_in_hand")


def milliseconds(model: mujoco.MjModel, data: mujoco.MjData, camera: str) -> float:
    """The median of a picture's time, the first two left out."""
    cameras = Cameras(model, SIDE, SIDE)
    times = []
    for _ in range(ROUNDS + 2):
        start = time.perf_counter()
        cameras.picture(data, camera)
        times.append(time.perf_counter() - start)
    cameras.close()
    return 1e3 * statistics.median(times[2:])


def main() -> None:
    # Software GL draws with as many threads as the process has cores, and settles on that when the first world draws.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    world = World(load_suite("tabletop").tasks[0])
    observation = world.reset(0)
    observation["agentview_image"]
    with quiet_robosuite():
        import robosuite
    lift = robosuite.make(
        "Lift", robots="Panda", has_renderer=False, has_offscreen_renderer=False, use_camera_obs=False
    )
    lift.reset()
    model, data = lift.sim.model._model, lift.sim.data._data
    measured = {("tabletop", view): milliseconds(world.model, world.data, view) for view in VIEWS}
    measured |= {("Lift as it is", view): milliseconds(model, data, view) for view in VIEWS}
    samples, model.vis.quality.offsamples = model.vis.quality.offsamples, 0
    measured |= {("Lift without multisampling", view): milliseconds(model, data, view) for view in VIEWS}
    model.vis.quality.offsamples = samples
    model.light_castshadow[:] = True
    measured |= {("Lift with shadows", view): milliseconds(model, data, view) for view in VIEWS}
    rows: list[tuple[str, ...]] = [("scene", "camera", "ms a picture", "of Lift's")]
    for (scene, view), taken in measured.items():
        rows.append((scene, view, f"{taken:.1f}", f"{taken / measured['Lift as it is', view]:.2f}"))
    table(f"one {SIDE}x{SIDE} picture on one core, {world.provenance()['renderer']} (medians of {ROUNDS})", rows)


if __name__ == "__main__":
    main()
