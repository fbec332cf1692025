"""Where the things that a task is about were over an episode: from its recorded states, without physics."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.records.trajectory import load_trajectory, trajectory_file
from pytest_vla.show.restored import data_of, restored_task
from pytest_vla.show.runs import drawn_variation, seed_of
from pytest_vla.show.tasks import Drawing, as_drawn

if TYPE_CHECKING:
    from pytest_vla.episode.world_pool import WorldPool


def episode_objects(
    pool: "WorldPool", run: Run, record: Record, folder: Path, drawing: Drawing, rows: Sequence[int]
) -> dict[str, NDArray[np.float64]]:
    """By name, the path of each object, drawer, door or knob that the goal names: (len(rows), 3), m, world's frame.

    A suite's own world has none, and neither has an episode without states.

    Args:
        pool: of `pytest_vla.show.tasks.open_pool`.
        run: of the record.
        record: of an episode.
        folder: of its run.
        drawing: says where the data is.
        rows: of the trajectory.

    Raises:
        VlaError: its data is missing, or its variation cannot be made.
    """
    task = as_drawn(restored_task(record, data_of(run, drawing.data)), drawing, 1)
    if record.arrays is None or task.world is not None:
        return {}
    qpos = load_trajectory(trajectory_file(folder, record.arrays)).qpos[list(rows)]
    world: Any = pool(task, drawn_variation(task, record))
    world.reset(init_state=seed_of(record, "init_state"), scene_seed=seed_of(record, "scene"), settle=False)
    return _object_paths(world, qpos)


def _object_paths(world: Any, qpos: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    import mujoco

    from pytest_vla.episode.visibility import parts
    from pytest_vla.errors import VlaError

    if qpos.shape[1] != world.model.nq:
        raise VlaError(f"a recorded state has {qpos.shape[1]} numbers, expected {world.model.nq}")
    # Of a region that stands still the fixture's body says nothing new, but it is where things are to go.
    bodies = {part.name: min(part.bodies) for part in parts(world) if part.recognised}
    data = mujoco.MjData(world.model)
    paths = {name: np.empty((len(qpos), 3)) for name in bodies}
    for row, pose in enumerate(qpos):
        data.qpos[:] = pose
        mujoco.mj_kinematics(world.model, data)
        for name, body in bodies.items():
            # The centre of mass: a door's frame does not move.
            paths[name][row] = data.xipos[body]
    return paths
