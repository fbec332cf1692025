"""Policies without weights: ``random``, which every policy has to beat, ``replay:WHERE``, and ``memoriser:RUN``."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.case import Case, parse_task_key, task_key_of
from pytest_vla.plan.choices import ABSOLUTE, RELATIVE
from pytest_vla.policies.base import Episode, Observation, Policy, RecordedStart, Session
from pytest_vla.policies.demonstrations import (
    SUFFIXES,
    Demonstration,
    DemonstrationFile,
    demonstration_files,
    is_named,
    kept_rows,
    missing_text,
    no_op_rows,
    open_demonstrations,
    without_h5py,
)
from pytest_vla.policies.fit import ACTION_SIZE, OPENS, Traits
from pytest_vla.records.trajectory import trajectory_file
from pytest_vla.util.arrays import Unfit, read_npz


def random_policy(episode: Episode) -> Session:
    """Begin an episode of actions drawn anew each step, uniform in their range, gripper included."""
    low, high = np.array(episode.action_bounds or ((-1.0, 1.0),) * episode.action_size).T

    def act(observation: Observation) -> NDArray[Any]:
        return np.asarray(episode.rng.uniform(low, high))

    return act


_EXECUTED = Traits(gripper=OPENS)
"""No evaluator converts what an episode has executed already, or what is drawn for the robot itself."""

random_policy.traits = _EXECUTED  # type: ignore[attr-defined]

EXPECTED = (
    "expected *.npz with actions (n, 7), LIBERO's demonstrations (*.hdf5, or their folder), or the folder of a run, "
    "such as .vla/RUN"
)


NO_OPS = "no_ops"
"""The argument of ``replay:FILE?no_ops=K``: leave out rows without motion, as `kept_rows` does."""


def read_no_ops(arguments: Sequence[tuple[str, str]], path: Path) -> int | None:
    """Return the argument ``no_ops``, or None without it. Raises VlaError: another argument, or not of such a file."""
    if wrong := next((name for name, _ in arguments if name != NO_OPS), None):
        raise VlaError(f"--vla-model=replay:{path}: {wrong} is no argument of replay. It takes {NO_OPS}")
    if not arguments:
        return None
    if not demonstration_files(path):
        raise VlaError(f"--vla-model=replay:{path}: {NO_OPS} is for demonstrations in a file *.hdf5")
    return no_op_rows(arguments[0][1], NO_OPS)


def replay_policy(path: Path, no_ops: int | None = None) -> Policy:
    """Make a policy that plays back recorded actions, one per step, and ignores observations.

    After the last one it stands still with the gripper as it is, until the episode ends.

    Args:
        path: an ``*.npz`` with ``actions`` (n, 7), played in every episode; the folder of a run, from which each case
            gets its own actions; or an ``*.hdf5`` of LIBERO's demonstrations, of which seed k plays ``data/demo_k``
            from its own start, or a folder with such a file for each task.
        no_ops: of demonstrations, leave out the rows without motion, but keep so many after each change of the gripper
            (`kept_rows`); None plays all.

    Raises:
        VlaError: the path cannot be used. An episode ends with EpisodeError ``replay-missing`` (the run has no
            such case, or the file no such demonstration) or ``policy-exhausted`` (a world of its own continues after
            the last action: how it stands still is not known).
    """
    check_replay(path)
    if demonstration_files(path):
        return _demonstrated(path, no_ops)
    if path.is_dir():
        return _recorded_in(path)
    actions = _read_actions(path)
    return _playing(lambda episode: actions)


def check_replay(path: Path) -> None:
    """Check that a path can be played back, without reading it. Raises VlaError."""
    if not path.exists():
        raise VlaError(f"--vla-model=replay:{path}: there is no such file or folder; {EXPECTED}")
    if not path.is_dir() and path.suffix not in (".npz", *SUFFIXES):
        raise VlaError(f"--vla-model=replay:{path}: {EXPECTED}")
    if (path / "meta" / "info.json").is_file():
        raise VlaError(
            f"--vla-model=replay:{path}: a LeRobot data set has no states from which its episodes could begin; "
            f"{EXPECTED}. `pytest-vla doctor --demos` reads it"
        )
    if demonstration_files(path):
        without_h5py()


def memoriser_policy(folder: Path) -> Policy:
    """Make a policy that plays the actions of a run's unvaried episode of the same task and seed under any variation.

    It has neither eyes nor ears: what it reaches under a variation, memory alone reaches (the question of LIBERO-PRO).

    Raises:
        VlaError: it is no folder of a run, or the run has no unvaried episode. An episode ends with EpisodeError
            ``replay-missing`` if the run has none of its task and seed.
    """
    check_memoriser(folder)
    return _recorded_in(folder, is_memoriser=True)


def check_memoriser(folder: Path) -> None:
    """Check that a path is a folder, without reading it. Raises VlaError."""
    if not folder.is_dir():
        raise VlaError(f"--vla-model=memoriser:{folder}: there is no such folder; expected a run's, such as .vla/RUN")


def _playing(actions_of: Callable[[Episode], NDArray[Any]], action_convention: str | None = None) -> Policy:
    def begin(episode: Episode) -> Session:
        actions = actions_of(episode)
        place = 0

        def act(observation: Observation) -> NDArray[Any]:
            nonlocal place
            place += 1
            if place <= len(actions):
                return np.asarray(actions[place - 1])
            if len(actions) == 0 or actions.shape[1] != ACTION_SIZE or episode.action_bounds:
                told = f"{len(actions)} recorded actions are used up, and the episode goes on"
                raise EpisodeError("policy-exhausted", told)
            still = actions[-1] if action_convention == ABSOLUTE else [*(ACTION_SIZE - 1) * [0.0], actions[-1, -1]]
            return np.asarray(still, dtype=actions.dtype)

        return act

    begin.traits = replace(_EXECUTED, action_convention=action_convention)  # type: ignore[attr-defined]
    return begin


def _demonstrated(path: Path, no_ops: int | None) -> Policy:
    files = demonstration_files(path)
    opened = cache(open_demonstrations)
    if path.is_file():
        opened(path)
    last: tuple[object, Path, Demonstration] | None = None

    def file_of(task: str, level: str) -> DemonstrationFile:
        named = files if path.is_file() else [file for file in files if is_named(file, task)]
        found = [opened(file) for file in named]
        for file in found:
            if file.is_of(task, level):
                return file
        there = [f"{file.task}{f' at {file.level}' if file.level else ''}" for file in found]
        told = f"of {', '.join(there)} (data.bddl_file_name, or the file's name)" if there else "of other tasks"
        raise EpisodeError("replay-missing", f"{path} has demonstrations {told}")

    def read(task: str, level: str, seed: int) -> tuple[Path, Demonstration]:
        nonlocal last
        if last is None or last[0] != (task, level, seed):
            try:
                file = file_of(task, level)
                if seed not in file.numbers:
                    missing = f"{file.path} has no data/demo_{seed}: it has {missing_text(file)}"
                    raise EpisodeError("replay-missing", missing)
                found = file.read(seed)
                if no_ops is not None:
                    rows = kept_rows(found.actions, no_ops)
                    if not len(rows):
                        raise VlaError(f"{file.path}: {found.name}: no action in it moves the arm or the gripper")
                    found = replace(found, actions=found.actions[rows], states=found.states[rows])
                last = (task, level, seed), file.path, found
            except EpisodeError:
                raise
            except VlaError as error:
                raise EpisodeError("replay-unfit", str(error)) from error
        return last[1:]

    def start(case: Case) -> RecordedStart:
        file, found = read(case.task, case.task_level, case.seed)
        return RecordedStart(
            f"{file}: {found.name}", found.states, found.joints, found.bodies, float(found.actions[0, -1])
        )

    def actions_of(episode: Episode) -> NDArray[Any]:
        _, level = parse_task_key(task_key_of(episode.case_id, episode.suite)) or ("", "")
        return read(episode.task, level, episode.seed)[1].actions

    policy = _playing(actions_of)
    policy.start = start  # type: ignore[attr-defined]
    return policy


def _recorded_in(folder: Path, *, is_memoriser: bool = False) -> Policy:
    from pytest_vla.records.load import open_run

    option = f"--vla-model={'memoriser' if is_memoriser else 'replay'}:{folder}"
    with open_run(str(folder.absolute()), folder.absolute().parent) as (store, runs):
        if len(runs) > 1:
            raise VlaError(f"{option}: the folder has {len(runs)} runs; {EXPECTED}")
        files = store.results / runs[0].name
        records = list(store.records(runs[0].name))
    if not records:
        raise VlaError(f"{option}: the run has no records")
    if is_memoriser:
        records = [record for record in records if record.arrays and not record.variation]
        if not records:
            raise VlaError(f"{option}: the run has no unvaried episode with recorded actions to play")
    arrays: dict[object, str | None] = {record.case: record.arrays for record in records}
    # A benchmark's own suite may have the task under its own name.
    if is_memoriser:
        arrays = {(record.task, record.seed): record.arrays for record in records}
        arrays |= {(record.suite, record.task, record.seed): record.arrays for record in records}
    # What its actions are, so that they are executed as they were.
    controls = {str(record.protocol.get("control", RELATIVE)) for record in records if record.arrays}
    if len(controls) > 1:
        raise VlaError(f"{option}: some episodes ran with poses and some with changes; {EXPECTED}")

    def actions_of(episode: Episode) -> NDArray[Any]:
        wanted = (episode.task, episode.seed)
        keys: list[object] = [(episode.suite, *wanted), wanted] if is_memoriser else [episode.case_id]
        name = next((arrays[each] for each in keys if arrays.get(each) is not None), None)
        if name is None:
            about = f"{episode.task} with seed {episode.seed}, unvaried" if is_memoriser else episode.case_id
            raise EpisodeError("replay-missing", f"{folder} has no actions of {about}")
        try:
            return _read_actions(trajectory_file(files, name))
        except VlaError as error:
            raise EpisodeError("replay-missing", str(error)) from error

    return _playing(actions_of, controls.pop() if controls else None)


def _read_actions(file: Path) -> NDArray[np.float64]:
    try:
        actions = read_npz(file, ["actions"])["actions"]
    except Unfit as error:
        raise VlaError(f"{file}: expected an npz file with actions (n, {ACTION_SIZE}): {error}") from error
    if actions.ndim != 2 or not actions.shape[1] or actions.dtype.kind not in "fiu":
        raise VlaError(f"{file}: actions are {actions.dtype} {actions.shape}, expected numbers (n, {ACTION_SIZE})")
    return np.asarray(actions, dtype=np.float64)
