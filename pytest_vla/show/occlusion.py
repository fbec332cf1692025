"""Occlusion maps of recorded episodes: their first moment, taken again, and the policy asked again."""

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.episode.again import taken_again
from pytest_vla.episode.occlusion import Occlusion, occlusions
from pytest_vla.errors import VlaError
from pytest_vla.policies.base import Policy
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.records.trajectory import load_trajectory, trajectory_file
from pytest_vla.show.restored import data_of, restored_task, restored_variation

if TYPE_CHECKING:
    from pytest_vla.episode.world_pool import WorldPool


def episode_occlusions(
    pool: "WorldPool", run: Run, record: Record, folder: Path, data: Path | None, policy: Policy
) -> tuple[Occlusion, ...]:
    """A map of each picture that the policy reads.

    Args:
        pool: of `pytest_vla.show.tasks.open_pool`.
        run: of the record.
        record: of an episode.
        folder: of its run.
        data: of ``--data``.
        policy: that is asked.

    Raises:
        VlaError: the episode cannot be begun again, its suite has a world of its own, or the policy cannot be asked.
    """
    task = restored_task(record, data_of(run, data))
    if task.world is not None:
        raise VlaError(f"{record.suite} has a world of its own, which is not taken back to an episode's begin")
    if record.arrays is None:
        raise VlaError(f"{record.case} left no states")
    variation = restored_variation(task, record)
    world = pool(task, variation if variation is not None and variation.changes_world else None)
    trajectory = load_trajectory(trajectory_file(folder, record.arrays))
    begun = next(taken_again(world, record, trajectory, variation))
    return occlusions(policy, task, record, begun.observation)
