"""Short runs of the built-in suite, kept in a results folder, with what the policy itself was shown and did."""

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.transform import Rotation

from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.base import Episode
from pytest_vla.policies.fit import Traits
from pytest_vla.records.record import Record
from pytest_vla.records.store import open_store
from pytest_vla.records.trajectory import digest_of, save_trajectory
from pytest_vla.vary.registry import find_variation

STOVE, PLATE = "turn_on_the_stove", "put_the_bowl_on_the_plate"
RUN = "20260101-recorded"
STEPS = 6
"""Of each episode of the run that tests of data sets share."""


class Seen(NamedTuple):
    """What a policy was shown before a control step, and what it did."""

    state: np.ndarray
    agentview: np.ndarray
    wrist: np.ndarray
    action: np.ndarray


class Kept(NamedTuple):
    """A results folder, and by case each record with what its policy saw and did."""

    results: Path
    told: dict[str, tuple[Record, list[Seen]]]


class Recording:
    """A policy that keeps its inputs and its actions, by the episode's case."""

    def __init__(self) -> None:
        self.seen: dict[str, list[Seen]] = {}

    def __call__(self, episode: Episode) -> Any:
        """Actions are drawn, some of them out of range; the first ones go down, so that something is touched."""
        seen = self.seen.setdefault(episode.case_id, [])

        def act(observation: Any) -> np.ndarray:
            if episode.seed == 3 and len(seen) == 2:
                raise RuntimeError("no more")
            action = np.append(episode.rng.uniform(-1.2, 1.2, 6), 1.0)
            action[2] = -1.0
            pictures = (observation["agentview_image"].copy(), observation["robot0_eye_in_hand_image"].copy())
            seen.append(Seen(observation["state"].copy(), *pictures, action))
            return action

        return act


class RecordingPoses(Recording):
    """The same with absolute actions: from where the controller has the hand, down and turning."""

    traits = Traits(action_convention="absolute")

    def __call__(self, episode: Episode) -> Any:
        seen = self.seen.setdefault(episode.case_id, [])

        def act(observation: Any) -> np.ndarray:
            turn = Rotation.from_rotvec([0.0, 0.0, 0.1]) * Rotation.from_matrix(observation["controller_mat"])
            action = np.array([*observation["controller_pos"] - [0.0, 0.01, 0.03], *turn.as_rotvec(), 1.0])
            pictures = (observation["agentview_image"].copy(), observation["robot0_eye_in_hand_image"].copy())
            seen.append(Seen(observation["state"].copy(), *pictures, action))
            return action

        return act


def record_run(
    results: Path,
    cases: Sequence[tuple[str, int, str]],
    steps: int,
    run: str = RUN,
    changes: Mapping[int, Mapping[str, Any]] = MappingProxyType({}),
    suite: str = "tabletop",
    policy: Recording | None = None,
) -> dict[str, tuple[Record, list[Seen]]]:
    """Run episodes and keep them as a run of a results folder.

    Args:
        results: the folder.
        cases: task, seed and variation's label of each; seed 3 breaks in its third step.
        steps: at most.
        run: its name.
        changes: by seed, what the records say otherwise.
        suite: a built-in one; its tasks are named by `Task.key`.
        policy: that acts; by default one of relative actions.

    Returns:
        By case the record, and what the policy itself saw and did.
    """
    policy, found = policy or Recording(), {}
    tasks = [load_suite(suite).task(task) for task, _, _ in cases]
    with closing(WorldPool(False)) as pool, open_store(results, create=True) as store:
        chosen = [
            Case(suite, task.name, seed, label, task.task_level)
            for task, (_, seed, label) in zip(tasks, cases, strict=True)
        ]
        store.begin(run, [case.node_id for case in chosen], command="", model="recording", invocation={})
        for case, task in zip(chosen, tasks, strict=True):
            variation = find_variation(task, case.variation, case.seed) if case.variation else None
            short = dataclasses.replace(task, protocol=dataclasses.replace(task.protocol, max_steps=steps))
            ended = run_episode(case, short, policy, pool, Conditions("recording", run=run), variation=variation)
            arrays = f"{suite}/{case.parameter_id}.npz"
            save_trajectory(results / run / arrays, ended.trajectory, ended.record.outcome)
            record = dataclasses.replace(ended.record, **{"arrays": arrays, **changes.get(case.seed, {})})
            digest = digest_of(record.outcome, record.steps, record.literals, ended.trajectory)
            record = dataclasses.replace(record, digest=digest)
            store.add(record)
            found[case.id] = (record, policy.seen[case.id])
        store.end(run, "finished")
    return found
