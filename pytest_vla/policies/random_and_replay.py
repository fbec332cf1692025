"""Policies without weights: ``--vla-model=random``, which every policy has to beat, and ``replay:WHERE``."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.choices import RELATIVE
from pytest_vla.policies.base import Episode, Observation, Policy, RecordedStart, Session
from pytest_vla.policies.demonstrations import SUFFIXES, Demonstration, missing_text, open_demonstrations, without_h5py
from pytest_vla.policies.fit import ACTION_SIZE, OPENS, Traits
from pytest_vla.records.trajectory import trajectory_file
from pytest_vla.util.arrays import Unfit, read_npz


def random_policy(episode: Episode) -> Session:
    """Begin an episode of actions drawn anew each step, uniform in [-1, 1], gripper included."""

    def act(observation: Observation) -> NDArray[Any]:
        return episode.rng.uniform(-1.0, 1.0, episode.action_size).astype(np.float64)

    return act


_EXECUTED = Traits(gripper=OPENS)
"""No evaluator converts what an episode has executed already, or what is drawn for the robot itself."""

random_policy.traits = _EXECUTED  # type: ignore[attr-defined]

EXPECTED = (
    "expected *.npz with actions (n, 7), LIBERO's demonstrations (*.hdf5), or the folder of a run such as .vla/RUN"
)


def replay_policy(path: Path) -> Policy:
    """Make a policy that plays back recorded actions, one per step, and ignores observations.

    Args:
        path: an ``*.npz`` with ``actions`` (n, 7), played in every episode; the folder of a run, from which each case
            gets its own actions; or an ``*.hdf5`` of LIBERO's demonstrations, of which seed k plays ``data/demo_k``
            from its own start.

    Raises:
        VlaError: the path cannot be used. An episode ends with EpisodeError ``replay-missing`` (the run has no
            such case, or the file no such demonstration) or ``policy-exhausted`` (the episode continues after the last
            action).
    """
    check_replay(path)
    if path.is_dir():
        return _actions_by_case(path)
    if path.suffix in SUFFIXES:
        return _demonstrated(path)
    actions = _read_actions(path)
    return _playing(lambda episode: actions)


def check_replay(path: Path) -> None:
    """Check that a path can be played back, without reading it. Raises VlaError."""
    if not path.exists():
        raise VlaError(f"--vla-model=replay:{path}: there is no such file or folder; {EXPECTED}")
    if not path.is_dir() and path.suffix not in (".npz", *SUFFIXES):
        raise VlaError(f"--vla-model=replay:{path}: {EXPECTED}")
    if path.suffix in SUFFIXES:
        without_h5py()


def _playing(actions_of: Callable[[Episode], NDArray[Any]]) -> Policy:
    def begin(episode: Episode) -> Session:
        remaining = iter(actions_of(episode))
        used = 0

        def act(observation: Observation) -> NDArray[Any]:
            nonlocal used
            action = next(remaining, None)
            if action is None:
                raise EpisodeError("policy-exhausted", f"{used} recorded actions are used up, and the episode goes on")
            used += 1
            return np.asarray(action)

        return act

    begin.traits = _EXECUTED  # type: ignore[attr-defined]
    return begin


def _demonstrated(path: Path) -> Policy:
    file = open_demonstrations(path)
    last: tuple[int, Demonstration] | None = None

    def read(task: str, seed: int) -> Demonstration:
        nonlocal last
        if task != file.task:
            raise EpisodeError("replay-missing", f"{path} has demonstrations of {file.task} (data.bddl_file_name)")
        if seed not in file.numbers:
            raise EpisodeError("replay-missing", f"{path} has no data/demo_{seed}: it has {missing_text(file)}")
        if last is None or last[0] != seed:
            try:
                last = seed, file.read(seed)
            except VlaError as error:
                raise EpisodeError("replay-unfit", str(error)) from error
        return last[1]

    def start(case: Case) -> RecordedStart:
        found = read(case.task, case.seed)
        return RecordedStart(
            f"{path}: {found.name}", found.states, found.joints, found.bodies, float(found.actions[0, -1])
        )

    policy = _playing(lambda episode: read(episode.task, episode.seed).actions)
    policy.start = start  # type: ignore[attr-defined]
    return policy


def _actions_by_case(folder: Path) -> Policy:
    from pytest_vla.records.load import open_run

    with open_run(str(folder.absolute()), folder.absolute().parent) as (store, runs):
        if len(runs) > 1:
            raise VlaError(f"--vla-model=replay:{folder}: the folder has {len(runs)} runs; {EXPECTED}")
        files = store.results / runs[0].name
        records = list(store.records(runs[0].name))
    arrays = {record.case: record.arrays for record in records}
    # What its actions are, so that they are executed as they were.
    controls = {str(record.protocol.get("control", RELATIVE)) for record in records if record.arrays}
    if len(controls) > 1:
        raise VlaError(f"--vla-model=replay:{folder}: some episodes ran with poses and some with changes; {EXPECTED}")
    if not arrays:
        raise VlaError(f"--vla-model=replay:{folder}: the run has no records")

    def actions_of(episode: Episode) -> NDArray[Any]:
        name = arrays.get(episode.case_id)
        if name is None:
            raise EpisodeError("replay-missing", f"{folder} has no actions of {episode.case_id}")
        try:
            return _read_actions(trajectory_file(files, name))
        except VlaError as error:
            raise EpisodeError("replay-missing", str(error)) from error

    policy = _playing(actions_of)
    policy.traits = replace(_EXECUTED, action_convention=controls.pop() if controls else None)  # type: ignore[attr-defined]
    return policy


def _read_actions(file: Path) -> NDArray[np.float64]:
    try:
        actions = read_npz(file, ["actions"])["actions"]
    except Unfit as error:
        raise VlaError(f"{file}: expected an npz file with actions (n, {ACTION_SIZE}): {error}") from error
    if actions.ndim != 2 or not actions.shape[1] or actions.dtype.kind not in "fiu":
        raise VlaError(f"{file}: actions are {actions.dtype} {actions.shape}, expected numbers (n, {ACTION_SIZE})")
    return np.asarray(actions, dtype=np.float64)
