"""Published evaluators' loops run live beside us, with pictures, on upstream's LIBERO (`make evaluators`)."""

from pathlib import Path

import numpy as np
import pytest

from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.plan.case import Case
from pytest_vla.plan.choices import INSTALLED
from pytest_vla.plan.evaluators import load_evaluator
from pytest_vla.plan.task import with_protocol
from tests.support.evaluators import (
    EVALUATORS,
    STREAMS,
    TASKS,
    Seen,
    blind_digests,
    blind_jobs,
    compare_scenes,
    golden_of,
    scene_digests,
    scenes,
)
from tests.support.reference import run_loops
from tests.support.worlds import libero_task, world_of

pytestmark = [pytest.mark.slow, pytest.mark.study]

EPISODES, STEPS = 3, 60


@pytest.mark.parametrize("part", range(4))
def test_all_scenes_with_movable_fixtures_are_upstreams(part: int) -> None:
    """The golden's episodes of the 25 different scenes of LIBERO's 88 tasks that place cabinet, stove or rack anew."""
    assert len(scenes()) == 25
    for task in sorted(scenes())[part::4]:
        assert [len(scenes()[task][name]) for name in STREAMS] == [50, 50]
        compare_scenes(task)


@pytest.mark.parametrize("name", STREAMS)
def test_the_golden_of_scenes_is_upstreams(name: str, tmp_path: Path) -> None:
    task = "libero_goal/open_the_middle_drawer_of_the_cabinet"
    for found, expected in zip(scene_digests(task, name, tmp_path), scenes()[task][name], strict=True):
        assert found.startswith(expected)


@pytest.mark.parametrize("name", [name for name in EVALUATORS if name != "vla-eval"])
def test_the_golden_of_blind_episodes_is_upstreams(name: str, tmp_path: Path) -> None:
    assert golden_of(blind_jobs(name), tmp_path) == blind_digests(name)


@pytest.mark.parametrize("name", EVALUATORS)
def test_episodes_are_the_evaluators_own(name: str, tmp_path: Path) -> None:
    """Three tasks, three episodes, 60 steps: pictures, state, executed action, positions and success."""
    evaluator = load_evaluator(name)
    tasks = [with_protocol(evaluator.task(libero_task(*each)), textures=INSTALLED, max_steps=STEPS) for each in TASKS]
    if "openvla" in name:
        # What TensorFlow makes of a picture is tested elsewhere: here both policies get the turned picture.
        tasks = [with_protocol(task, image_transform="rotate_180") for task in tasks]
    jobs = [
        {
            "evaluator": name,
            "suite": suite,
            "task": stem,
            "language": task.language,
            "states": world_of(suite, stem).init_states[:EPISODES].tolist(),
            "episodes": EPISODES,
            "steps": STEPS,
        }
        for (suite, stem), task in zip(TASKS, tasks, strict=True)
    ]
    upstream = run_loops(jobs, tmp_path)
    for number, task in enumerate(tasks):
        for episode in range(EPISODES):
            theirs = {
                key: upstream[f"job{number}_{episode}_{key}"]
                for key in ("pictures", "state", "action", "qpos", "success")
            }
            policy, pool = Seen(name, task), WorldPool(allow_versions=False)
            case = Case(task.suite, task.name, episode)
            rollout = run_episode(case, task, policy, pool, Conditions("seen", replan=evaluator.replan, premises=False))
            where = (name, task.name, episode)
            assert rollout.record.outcome in ("success", "failure"), (where, rollout.record.message)
            assert rollout.trajectory is not None
            executed = theirs["action"] if name == "x-vla" else np.clip(theirs["action"], -1, 1)
            assert np.array_equal(rollout.trajectory.actions, executed), where
            # lerobot's environment has another Python and numpy, whose sums round otherwise.
            assert np.abs(rollout.trajectory.qpos - theirs["qpos"]).max() <= (1e-12 if name == "lerobot" else 0), where
            assert (rollout.record.outcome == "success") == bool(theirs["success"][-1]), where
            # torch's arccosine in single precision, and numpy's, differ in the last place.
            away = np.abs(np.array(policy.states) - theirs["state"]).max()
            assert away <= (2.4e-7 * 2 if name == "lerobot" else 0), where
            assert np.array_equal(np.array(policy.pictures), theirs["pictures"]), where
            pool.close()
