"""A recorded episode taken again shows what its policy was shown, bit for bit."""

import dataclasses
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.episode.resimulate import resimulate
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import with_protocol
from pytest_vla.policies.base import Episode, Observation
from pytest_vla.policies.fit import Traits, check_fit, traits_of
from pytest_vla.policies.random_and_replay import replay_policy
from pytest_vla.policies.view import axis_angle_of_6d, policy_view
from pytest_vla.records.trajectory import load_trajectory
from pytest_vla.show.restored import restored_task, restored_variation
from pytest_vla.vary.registry import find_variation
from tests.support.dataset_runs import PLATE, RUN, STOVE, RecordingPoses, record_run
from tests.support.slow import slow

STEPS = 7


# It has something that moves by itself, and costs of its own.
MOVING = "L1-put_the_bottle_on_the_plate"


@pytest.mark.parametrize(
    ("suite", "tasks", "labels"),
    [
        slow("tabletop", (STOVE, PLATE), ("",)),
        slow("tabletop", (STOVE,), ("camera.azimuth-L2", "noise.dropped-L3")),
        ("tabletop", (PLATE,), ("robot.joints-L2+noise.glass-L1+action.noise-L3",)),
        slow("tabletop_safety", (MOVING,), ("",)),
    ],
    ids=["as it is", "varied", "joint", "moving"],
)
def test_what_the_policy_was_shown_comes_again(
    suite: str, tasks: tuple[str, ...], labels: tuple[str, ...], tmp_path: Path
) -> None:
    cases = [(task, seed, label) for label in labels for task in tasks for seed in (0, 4)]
    told = record_run(tmp_path, cases, STEPS, suite=suite)
    with closing(WorldPool(False)) as pool:
        # Not in the order in which they ran: nothing is to depend on what a world did before.
        for record, seen in reversed(told.values()):
            assert (record.outcome, len(seen)) == ("failure", STEPS)
            trajectory = load_trajectory(tmp_path / RUN / str(record.arrays))
            task = restored_task(record, None)
            variation = restored_variation(task, record)
            world = pool(task, variation if variation is not None and variation.changes_world else None)
            moments = resimulate(world, record, trajectory, variation)
            # Without strict: what follows the last action nobody was shown.
            for number, (shown, moment) in enumerate(zip(seen, moments, strict=False)):
                view = policy_view(moment.observation, task.protocol)
                assert (moment.step, moment.drift) == (number, 0.0)
                assert np.array_equal(view["state"], shown.state)
                assert np.array_equal(view["agentview_image"], shown.agentview)
                assert np.array_equal(view["robot0_eye_in_hand_image"], shown.wrist)
                assert np.array_equal(np.clip(shown.action, -1, 1), trajectory.actions[number])
    for _, seen in told.values():
        assert np.ptp([each.state for each in seen], axis=0).max() > 0.01, "the arm moves"


def test_poses_are_recorded_and_come_again(tmp_path: Path) -> None:
    """Under absolute control: the record says so, actions are not clipped, and a run of it is played back as it was."""
    ((record, seen),) = record_run(tmp_path, [(STOVE, 0, "")], STEPS, policy=RecordingPoses()).values()
    assert (record.outcome, record.protocol["control"]) == ("failure", "absolute")
    assert record.metrics["clipped_actions"] == 0
    trajectory = load_trajectory(tmp_path / RUN / str(record.arrays))
    assert np.array_equal(trajectory.actions, [each.action for each in seen])
    assert np.abs(trajectory.actions).max() > 1.5
    policy = replay_policy(tmp_path / RUN)
    assert traits_of(policy).action_convention == "absolute"
    with closing(WorldPool(False)) as pool:
        task = restored_task(record, None)
        assert task.protocol.control == "absolute"
        drifts = [moment.drift for moment in resimulate(pool(task), record, trajectory, None)]
        assert drifts == [0.0] * (STEPS + 1)
        case = Case("tabletop", STOVE, 0)
        assert task.protocol.max_steps == STEPS
        own = dataclasses.replace(task, protocol=dataclasses.replace(task.protocol, control="relative"))
        assert run_episode(case, own, policy, pool, Conditions("replay")).record.digest == record.digest
        changed = run_episode(
            case, own, RecordingPoses(), pool, Conditions("mine"), variation=find_variation(own, "action.noise-L1", 0)
        )
    assert (changed.record.outcome, changed.record.reason) == ("error", "world-unusable")


class _XVla:
    """Answers as X-VLA's server does: chunks of poses (10,) about the state that it is shown."""

    traits = Traits(action_size=10, action_convention="absolute", rotation="rotation_6d", gripper="0 opens, 1 closes")

    def __init__(self) -> None:
        self.states: list[np.ndarray] = []
        self.chunks: list[np.ndarray] = []

    def __call__(self, episode: Episode) -> Any:
        assert episode.action_size == 10
        return self.act

    def act(self, observation: Observation) -> np.ndarray:
        state = observation["state"].copy()
        self.states.append(state)
        rows = [[*state[:3] - [0, 0, 0.004 * k], *(1.001 * state[3:9]), 0.4 + 0.1 * k + 1e-9] for k in range(3)]
        self.chunks.append(np.array(rows))
        return self.chunks[-1]


def test_the_evaluator_of_x_vla_feeds_the_last_pose_back_and_converts_actions() -> None:
    policy, task = _XVla(), load_suite("tabletop").task(STOVE)
    changes = {"state": "controller_6d", "control": "absolute", "gripper": "one_closes", "action_precision": "float32"}
    task = with_protocol(task, max_steps=6, evaluator="x", **changes)
    assert check_fit(policy.traits, (task.suite, task.protocol)) == ()
    with closing(WorldPool(False)) as pool:
        first = pool(task)
        observation = first.reset(init_state=0, scene_seed=0)
        pose = [*observation["controller_pos"], *observation["controller_mat"].T[:2].ravel(), 0.0]
        ended = run_episode(Case("tabletop", STOVE, 0), task, policy, pool, Conditions("x"))
    assert (ended.record.outcome, ended.steps) == ("failure", 6), ended.record.message
    assert np.array_equal(policy.states[0], pose)
    # Of the chunk, not of what was executed; and the gripper stays 0.
    assert np.array_equal(policy.states[1], [*policy.chunks[0][-1][:9], 0.0])
    actions = ended.trajectory.actions
    assert actions.shape == (6, 7)
    # 0.5 + 1e-9 is 0.5 in single precision, in which the client compares it.
    assert actions[:, -1].tolist() == [-1.0, -1.0, 1.0] * 2
    assert np.array_equal(actions, actions.astype(np.float32))
    assert np.allclose(actions[:, 3:6], axis_angle_of_6d(np.array(pose[3:9])), atol=1e-4)


def test_a_state_alone_would_show_something_else(tmp_path: Path) -> None:
    ((record, seen),) = record_run(tmp_path, [(STOVE, 0, "")], STEPS).values()
    qpos = load_trajectory(tmp_path / RUN / str(record.arrays)).qpos
    with closing(WorldPool(False)) as pool:
        world = pool(restored_task(record, None))
        world.reset(init_state=record.seeds["init_state"], scene_seed=record.seeds["scene"], settle=False)
        apart = [np.abs(world.show(qpos[step], step)["state"] - seen[step].state).max() for step in range(1, STEPS)]
    assert max(apart) > 1e-4


def test_what_is_no_recorded_episode_is_refused(tmp_path: Path) -> None:
    ((record, _),) = record_run(tmp_path, [(STOVE, 0, "")], 2).values()
    trajectory = load_trajectory(tmp_path / RUN / str(record.arrays))
    nothing = dataclasses.replace(trajectory, qpos=trajectory.qpos[:0])
    narrow = dataclasses.replace(trajectory, qpos=trajectory.qpos[:, 1:])
    short = dataclasses.replace(trajectory, qpos=trajectory.qpos[:1], qvel=trajectory.qvel[:1])
    seedless = dataclasses.replace(record, seeds={"scene": 0})
    with closing(WorldPool(False)) as pool:
        world = pool(restored_task(record, None))
        for which, arrays, message in (
            (record, nothing, "has no recorded states"),
            (record, narrow, r"its states have \d+ coordinates, and the scene has \d+"),
            (record, short, "2 actions, 1 positions and 1 velocities are no episode's"),
            (seedless, trajectory, r"its record has no seeds\.init_state"),
        ):
            with pytest.raises(VlaError, match=message):
                next(resimulate(world, which, arrays, None))
