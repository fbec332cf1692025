"""Occlusion maps of recorded episodes: the first moment is simulated again, and the policy is asked again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.episode.resimulate import resimulate
from pytest_vla.errors import VlaError
from pytest_vla.plan.task import Task
from pytest_vla.policies.base import Episode, Observation, Policy
from pytest_vla.policies.fit import POSE_6D_SIZE, gives_6d, traits_of
from pytest_vla.policies.generators import globals_put_back, noise_generator, reseed, seed_globals
from pytest_vla.policies.session import ask_session, begin_session, close_session, own_replan
from pytest_vla.policies.view import policy_view
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.records.trajectory import load_trajectory, trajectory_file
from pytest_vla.show.restored import data_of, restored_task, restored_variation

if TYPE_CHECKING:
    from pytest_vla.episode.world_pool import WorldPool


# Occlusion maps: how much a policy's first answer changes if a patch of a picture is covered (LIBERO-Plus, App. G).
#
# Each question repeats the episode's first one in a new session, with the same instruction, state and noise, and one
# patch of one picture in plain grey. A policy with its own random numbers varies by itself; this variation is measured
# by asking twice with nothing covered.

GRID = 8
"""Patches in a row, and in a column."""

GREY = 128

_IMAGE = "_image"


@dataclass(frozen=True)
class Occlusion:
    """The occlusion map of one picture.

    Attributes:
        camera: the camera's name.
        picture: (H, W, 3) uint8, upright: the first picture that the policy received.
        changes: (GRID, GRID): for each patch the distance of the answer from the answer with nothing covered: the
            Euclidean distance of actions, averaged over the steps that are executed.
        floor: the distance between two answers with nothing covered; 0 if the policy repeats its answer.
    """

    camera: str
    picture: NDArray[np.uint8]
    changes: NDArray[np.float64]
    floor: float


def occlusions(policy: Policy, task: Task, record: Record, observation: Observation) -> tuple[Occlusion, ...]:
    """Return a map of each picture that the policy reads; empty if it reads no picture.

    Args:
        policy: a policy that answers one episode at a time and does not read the simulator's state.
        task: the record's task.
        record: the episode's record.
        observation: the first observation of the episode.

    Raises:
        VlaError: the policy reads the simulator's state.
        EpisodeError: the policy raises, or its answer is invalid.
    """
    if getattr(policy, "privileged", False):
        raise VlaError("the policy reads the simulator's state, which no patch can cover")
    shown = {name: np.array(observation[name]) for name in observation}
    read: set[str] = set()
    with globals_put_back():
        first = _answer(policy, task, record, _Reading(shown, read))
        again = _answer(policy, task, record, shown)
        floor = _apart(first, again)
        return tuple(
            Occlusion(
                name.removesuffix(_IMAGE),
                shown[name],
                np.array(
                    [
                        [_apart(first, _answer(policy, task, record, _covered(shown, name, at))) for at in row]
                        for row in _patches(shown[name])
                    ]
                ),
                floor,
            )
            for name in sorted(read)
        )


def _answer(policy: Policy, task: Task, record: Record, shown: Observation) -> NDArray[np.float64]:
    """Return the steps of the policy's first answer that an episode would execute."""
    run_seed, is_6d = record.seeds.get("run", 0), gives_6d(traits_of(policy), task.protocol)
    size = POSE_6D_SIZE if is_6d else task.protocol.action_size
    noise = noise_generator(run_seed, record.case)
    replan = record.replan or own_replan(policy)
    episode = Episode(
        *(record.case, record.suite, record.task, record.instruction, record.seed),
        noise,
        action_size=size,
        action_bounds=task.protocol.action_bounds,
        replan=replan,
    )
    seed_globals([noise])
    session = begin_session(policy, episode)
    try:
        reseed(noise, run_seed, record.case, 0)
        seed_globals([noise])
        actions = ask_session(session, policy_view(shown, task.protocol), size).actions
    finally:
        close_session(session)
    return actions[: replan or len(actions)]


def _apart(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    steps = min(len(one), len(other))
    return float(np.linalg.norm(one[:steps] - other[:steps], axis=1).mean())


def _patches(picture: NDArray[np.uint8]) -> list[list[tuple[slice, slice]]]:
    tall, wide = (np.linspace(0, size, GRID + 1).round().astype(int) for size in picture.shape[:2])
    return [
        [(slice(tall[row], tall[row + 1]), slice(wide[column], wide[column + 1])) for column in range(GRID)]
        for row in range(GRID)
    ]


def _covered(shown: Mapping[str, NDArray[Any]], name: str, at: tuple[slice, slice]) -> Observation:
    picture = shown[name].copy()
    picture[at] = GREY
    return {**shown, name: picture}


class _Reading(Mapping[str, NDArray[Any]]):
    """An observation that records which pictures are read."""

    def __init__(self, shown: Mapping[str, NDArray[Any]], read: set[str]) -> None:
        self._shown, self._read = shown, read

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name.endswith(_IMAGE):
            self._read.add(name)
        return self._shown[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shown)

    def __len__(self) -> int:
        return len(self._shown)


def episode_occlusions(
    pool: "WorldPool", run: Run, record: Record, folder: Path, data: Path | None, policy: Policy
) -> tuple[Occlusion, ...]:
    """Return a map of each picture that the policy reads at the start of a recorded episode.

    Args:
        pool: the worlds, from `pytest_vla.show.tasks.open_pool`.
        run: the record's run.
        record: the episode's record.
        folder: the run's folder.
        data: the folder of ``--data``, or None.
        policy: the policy to ask.

    Raises:
        VlaError: the episode cannot be restored, its suite has its own world, or the policy cannot be asked.
    """
    task = restored_task(record, data_of(run, data))
    if task.world is not None:
        raise VlaError(f"{record.suite} has its own world, which cannot be restored to an episode's start")
    if record.arrays is None:
        raise VlaError(f"{record.case} has no states")
    variation = restored_variation(task, record)
    world = pool(task, variation if variation is not None and variation.changes_world else None)
    trajectory = load_trajectory(trajectory_file(folder, record.arrays))
    begun = next(resimulate(world, record, trajectory, variation))
    return occlusions(policy, task, record, begun.observation)
