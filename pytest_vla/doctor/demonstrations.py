"""Demonstrations that a policy is compared with: made by the expert, or read from a file or a data set."""

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import pytest_vla
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.episode.start import begin
from pytest_vla.episode.trace import Trace
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.errors import VlaError
from pytest_vla.expert.policy import EXPERT
from pytest_vla.plan.case import Case
from pytest_vla.plan.choices import ABSOLUTE, RELATIVE
from pytest_vla.plan.data_roots import find_task_file, task_roots
from pytest_vla.plan.manifests import Suite
from pytest_vla.plan.task import Task, with_protocol
from pytest_vla.policies.base import RecordedStart
from pytest_vla.policies.fit import ACTION_SIZE
from pytest_vla.policies.load import load_policy
from pytest_vla.policies.view import policy_view
from pytest_vla.scale.node_facts import code_digest
from pytest_vla.util.arrays import read_cached, write_cached
from pytest_vla.util.files import cache_folder
from pytest_vla.versions import installed_versions

Array = NDArray[np.float64]

SCENE, WRIST, STATE = "agentview_image", "robot0_eye_in_hand_image", "state"


@dataclass(frozen=True)
class RecordedDemonstration:
    """A demonstrated episode.

    Attributes:
        name: where it is from, for messages: ``FILE: data/demo_3``, or ``expert: tabletop/TASK[seed3]``.
        task: the suite's task that was demonstrated.
        instruction: as it was recorded.
        actions: (n, 7) as executed: relative poses of robosuite's OSC_POSE and the gripper, -1 opens; or as recorded,
            if that is something else.
        seed: of the suite's case whose start it has, or None.
        start: the recorded start, or None if it begins as the suite's case `seed` does, or its start is not known.
        qpos: (n, nq) the simulator's positions before each action, or None if they are not known.
        recorded: returns what was recorded before the action of a row: pictures (H, W, 3) uint8 as they were recorded,
            by our names of observations (`SCENE`, `WRIST`), and ``state`` (k,); None if nothing was.
    """

    name: str
    task: Task
    instruction: str
    actions: Array
    seed: int | None = None
    start: RecordedStart | None = None
    qpos: Array | None = None
    recorded: Callable[[int], Mapping[str, NDArray[Any]]] | None = None

    @property
    def case(self) -> Case:
        """The case of an episode of its task."""
        return Case(self.task.suite, self.task.name, self.seed or 0, task_level=self.task.task_level)


def expert_demonstrations(
    suite: Suite, count: int, *, told: Callable[[str], None] = lambda line: None
) -> tuple[RecordedDemonstration, ...]:
    """Return successful episodes of the expert, spread over a suite's tasks.

    Args:
        suite: the suite, with the tasks to demonstrate.
        count: how many demonstrations; fewer if the expert fails too often.
        told: called with a line about each next episode.

    Raises:
        VlaError: the suite's data is not there, or the expert cannot do any of the tasks.
    """
    found: list[RecordedDemonstration] = []
    refused = ""
    with closing(WorldPool(allow_versions=True)) as pool:
        for number in range(2 * max(count, len(suite.tasks))):
            if len(found) == count:
                break
            task, seed = suite.tasks[number % len(suite.tasks)], number // len(suite.tasks)
            case = Case(task.suite, task.name, seed, task_level=task.task_level)
            told(f"demonstration {len(found) + 1} of {count}, by the expert: {task.name}")
            way = _played(case, task, pool)
            if isinstance(way, str):
                refused = f"{case.id}: {way}"
                continue
            name, size = f"expert: {case.id}", task.protocol.action_size or ACTION_SIZE
            found.append(RecordedDemonstration(name, task, task.language, way[:, :size], seed, qpos=way[:, size:]))
    if not found:
        raise VlaError(
            f"the expert demonstrates none of {suite.name}'s tasks ({refused}): give demonstrations with --demos=PATH"
        )
    return tuple(found)


def _played(case: Case, task: Task, pool: WorldPool) -> Array | str:
    """Return the expert's actions and the simulator's positions before them, read from disk or made now; or why not.

    They are columns: (n, 7 + nq).

    Raises:
        SceneError: the task's file is not there.
    """
    content = find_task_file(task_roots(task), task).read_bytes()
    made_of = [_code(), sorted(installed_versions().items()), case.id, repr(task.protocol), content]
    file = cache_folder() / "demonstrations" / f"{hashlib.sha256(repr(made_of).encode()).hexdigest()[:32]}.npy"
    kept = read_cached(file, _MAX_BYTES)
    if kept is not None and kept.ndim == 2:
        return kept
    # The expert's actions are relative, also where an evaluator's policies give poses.
    played = with_protocol(task, control=RELATIVE) if task.protocol.control == ABSOLUTE else task
    policy: Any = load_policy(EXPERT.name)
    rollout = run_episode(case, played, policy, pool, Conditions(EXPERT.name, premises=False))
    if rollout.record.outcome != "success":
        return rollout.record.message or rollout.record.outcome
    way = rollout.trajectory
    found = np.hstack([way.actions, way.qpos[: len(way.actions)]]).astype(np.float64)
    write_cached(file, found)
    return found


_MAX_BYTES = 1 << 26


@functools.cache
def _code() -> str | None:
    """Return the digest of this package: with other code, the expert may act otherwise."""
    return code_digest(str(Path(pytest_vla.__file__).parent))


def our_observations(
    demonstration: RecordedDemonstration, rows: Sequence[int], pool: WorldPool
) -> list[dict[str, NDArray[Any]]]:
    """Return what the suite shows to a policy in the simulator's states before the actions of some rows.

    Raises:
        VlaError, EpisodeError: the states are not of the task's world.
    """
    task = demonstration.task
    trace = Trace(variation=None)
    trace.started = demonstration.start
    begin(trace, demonstration.case, task, pool, premises=False)
    world: Any = trace.world
    assert demonstration.qpos is not None
    return [as_shown(world.show(demonstration.qpos[row]), task) for row in rows]


def as_shown(observation: Mapping[str, NDArray[Any]], task: Task) -> dict[str, NDArray[Any]]:
    """Return copies of what a task's protocol shows to a policy."""
    view = policy_view(observation, task.protocol)
    return {name: np.array(view[name]) for name in view}
