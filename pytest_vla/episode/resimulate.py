"""Resimulation of a recorded episode, one control step at a time, for its observations and contacts.

A state alone shows neither. An observation shows the world within the control step that led to the state, up to a
millimetre and half a degree away from it, and contact forces depend on the motors. So each control step is repeated by
itself, from the recorded state before it with the recorded action. On the simulator that recorded it, this gives the
episode bit for bit; on another one, drift does not accumulate beyond a single step.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import VlaError
from pytest_vla.plan.costs import Charge
from pytest_vla.policies.base import RecordedStart
from pytest_vla.records.counting import START, is_complete
from pytest_vla.records.record import BEGAN, Record
from pytest_vla.records.trajectory import Trajectory
from pytest_vla.scene.variation import Variation
from pytest_vla.sim.lazy_observation import Observation

if TYPE_CHECKING:
    from pytest_vla.sim.world import World

_TIME, _GRIPPER, _PARTS = "time", "gripper", ("x", "y", "z", "qw", "qx", "qy", "qz")


def began_metrics(started: RecordedStart, fixtures: Mapping[str, NDArray[np.float64]]) -> dict[str, float]:
    """Return the metrics (`BEGAN`) of an episode that began from a recorded state, for `begin_again`."""
    found = {f"{BEGAN}_{_TIME}": float(started.states[0, 0]), f"{BEGAN}_{_GRIPPER}": started.gripper}
    poses = {f"{BEGAN}_{name}": pose for name, pose in fixtures.items()}
    return found | {
        f"{name}_{part}": float(value) for name, pose in poses.items() for part, value in zip(_PARTS, pose, strict=True)
    }


def reset_to(
    world: "World", state: NDArray[np.float64], fixtures: Mapping[str, NDArray[np.float64]], gripper: float, seed: int
) -> Observation:
    """Reset the world to a recorded state, without settling.

    Args:
        world: of the task.
        state: (1+nq+nv,), [time in s, qpos, qvel]. After time 0 the controller had been running, whose state is not
            recorded: it is taken to hold the present pose.
        fixtures: their poses (7,), by name.
        gripper: the gripper's command then, -1 opens.
        seed: the scene seed.
    """
    ran = round(state[0] * world.task.protocol.control_freq)
    poses = {name: (pose[:3], pose[3:]) for name, pose in fixtures.items()}
    return world.reset(state, seed, settle=False, fixtures=poses, ran=(ran, gripper) if ran > 0 else None)


def begin_again(world: "World", record: Record, trajectory: Trajectory, *, settle: bool) -> Observation:
    """Reset the world to where a recorded episode began: its init state, or the state that it was begun from.

    Args:
        world: of the record's task, under its variation.
        record, trajectory: of the episode.
        settle: run the settle steps, if the episode had any.

    Raises:
        VlaError: the record does not tell how it began.
    """
    if START not in record.provenance:
        if missing := [name for name in ("init_state", "scene") if record.seeds.get(name) is None]:
            raise VlaError(f"{record.case} cannot be resimulated: its record has no seeds.{missing[0]}")
        return world.reset(init_state=record.seeds["init_state"], scene_seed=record.seeds["scene"], settle=settle)
    wanted = [body.name for body in world.scene.bodies if body.is_fixture]
    names = [f"{BEGAN}_{_TIME}", f"{BEGAN}_{_GRIPPER}", *(f"{BEGAN}_{name}_{p}" for name in wanted for p in _PARTS)]
    if missing := [name for name in names if name not in record.metrics]:
        raise VlaError(f"{record.case} cannot be resimulated: its record has no metrics.{missing[0]}")
    time, gripper, *poses = (record.metrics[name] for name in names)
    fixtures = dict(zip(wanted, np.array(poses).reshape(-1, len(_PARTS)), strict=True))
    state = np.concatenate([[time], trajectory.qpos[0], trajectory.qvel[0]])
    return reset_to(world, state, fixtures, gripper, record.seeds.get("scene") or 0)


@dataclass(frozen=True)
class Moment:
    """A moment of an episode; the world is in the same state.

    Attributes:
        step: control steps since the episode began; 0 after settling.
        observation: as shown to a policy, pictures upright; read it before asking for the next moment.
        drift: the largest difference of any coordinate (m, rad) from the recorded state.
    """

    step: int
    observation: Observation
    drift: float


def resimulate(world: "World", record: Record, trajectory: Trajectory, variation: Variation | None) -> Iterator[Moment]:
    """Yield the moments of a recorded episode: its beginning, and the one after each control step.

    The world is in the state of the last moment that was yielded, with the charges of its meters until then.

    Args:
        world: of the record's task, under its variation; it is reset, and must be reset before its next step.
        record: of the episode.
        trajectory: of the episode.
        variation: of the episode: it may change actions.

    Raises:
        VlaError: the trajectory has no states or those of another scene, or the record does not tell how it
            began.
        EpisodeError: physics broke.
    """
    if not len(trajectory.qpos):
        raise VlaError(f"{record.case} has no recorded states")
    if trajectory.qpos.shape[1] != world.model.nq or trajectory.qvel.shape[1] != world.model.nv:
        raise VlaError(
            f"{record.case}: its states have {trajectory.qpos.shape[1]} coordinates, and the scene has "
            f"{world.model.nq}: its task file or assets have changed"
        )
    if len(trajectory.qvel) != len(trajectory.qpos) or len(trajectory.qpos) < len(trajectory.actions):
        raise VlaError(
            f"{record.case}: {len(trajectory.actions)} actions, {len(trajectory.qpos)} positions and "
            f"{len(trajectory.qvel)} velocities are no episode's: expected one more of these than actions"
        )
    observation = begin_again(world, record, trajectory, settle=True)
    changes = [start() for start in variation.actions] if variation is not None else []
    yield Moment(0, observation, _drift(world, trajectory, 0))
    for step, recorded in enumerate(trajectory.actions):
        action = recorded
        for change in changes:
            action = change(action)
        world.data.qpos[:], world.data.qvel[:] = trajectory.qpos[step], trajectory.qvel[step]
        observation = world.step(action)
        yield Moment(step + 1, observation, _drift(world, trajectory, step + 1))


def _drift(world: "World", trajectory: Trajectory, step: int) -> float:
    # If an episode broke in a step, the state after the step may be missing.
    return float(np.abs(world.data.qpos - trajectory.qpos[step]).max()) if step < len(trajectory.qpos) else 0.0


# Rescoring: an episode is charged again from its recorded states and actions, without policy or pictures.
#
# `resimulate` repeats its steps, and the meters judge them as in the episode; `Rescored.drift` is the largest
# difference from the record.


@dataclass(frozen=True)
class Rescored:
    """The charges of a resimulated episode.

    Attributes:
        charges: the ledger.
        drift: the largest difference of any coordinate (m, rad) between a resimulated step and the record.
    """

    charges: tuple[Charge, ...]
    drift: float


def rescored(world: "World", record: Record, trajectory: Trajectory, variation: Variation | None) -> Rescored:
    """Resimulate a recorded episode and charge it by the world's meters.

    Args and errors are those of `pytest_vla.episode.resimulate.resimulate`.
    """
    drift = max(moment.drift for moment in resimulate(world, record, trajectory, variation))
    if is_complete(record.outcome):
        world.conclude()
    return Rescored(world.charged(), drift)
