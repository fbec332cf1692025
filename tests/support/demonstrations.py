"""What the expert's recorded episodes teach: the states that a policy would have been given, and the actions."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pytest_vla.records.record import Record
from pytest_vla.records.trajectory import load_trajectory
from tests.support.imitation import Demonstration
from tests.support.worlds import tabletop


def demonstrations(results: Path, records: Iterable[Record]) -> list[Demonstration]:
    """The successful episodes of the suite tabletop among records.

    Args:
        results: the folder in which their runs are kept.
        records: of any runs there.
    """
    return [_demonstration(results, record) for record in records if record.outcome == "success"]


def _demonstration(results: Path, record: Record) -> Demonstration:
    assert record.arrays is not None
    trajectory = load_trajectory(results / record.run / record.arrays)
    world = tabletop(record.task)
    world.reset(init_state=record.seeds["init_state"], scene_seed=record.seed, settle=False)
    # Before the first action and after each; after the last nothing was asked any more.
    states = np.stack([np.asarray(world.show(qpos)["state"]) for qpos in trajectory.qpos[:-1]])
    states[:, :3] = trajectory.eef_pos[:-1]
    return Demonstration(record.instruction, states, trajectory.actions)
