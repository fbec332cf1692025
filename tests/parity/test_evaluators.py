"""Published evaluators run beside us: what the policy gets and what the world does is equal, step by step."""

import pytest

from pytest_vla import World
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.plan.case import Case
from pytest_vla.plan.evaluators import load_evaluator
from pytest_vla.plan.task import with_protocol
from tests.support import seeing
from tests.support.evaluators import (
    BLIND_STEPS,
    EVALUATORS,
    TASKS,
    Seen,
    blind_digests,
    compare_scenes,
    scenes,
    stands,
)
from tests.support.worlds import libero_task


def test_the_scenes_of_a_stream_are_upstreams() -> None:
    compare_scenes("libero_10/KITCHEN_SCENE3_turn_on_the_stove_and_put_the_moka_pot_on_it", (0, 1, 9, 10, 49))


def test_one_episode_has_its_scene_without_those_before_it() -> None:
    task = "libero_goal/open_the_middle_drawer_of_the_cabinet"
    with World(load_evaluator("openvla").task(libero_task(*task.split("/")))) as world:
        world.reset(init_state=9, scene_seed=9, settle=False)
        assert stands(world).startswith(scenes()[task]["openvla"][9])


@pytest.mark.parametrize("name", [name for name in EVALUATORS if name != "vla-eval"])
def test_blind_episodes_are_upstreams(name: str) -> None:
    """Executed actions and joint positions of 40 steps, as upstream's loop has them (evaluator_loops.json)."""
    expected = blind_digests(name)
    evaluator = load_evaluator(name)
    for suite, stem in TASKS:
        task = with_protocol(evaluator.task(libero_task(suite, stem)), max_steps=BLIND_STEPS)
        pool = WorldPool(allow_versions=False)
        for episode in range(2):
            case = Case(task.suite, task.name, episode)
            policy = Seen(name, task, is_blind=True)
            rollout = run_episode(case, task, policy, pool, Conditions("seen", replan=evaluator.replan, premises=False))
            assert rollout.trajectory is not None, rollout.record.message
            found = seeing.digest(rollout.trajectory.actions, rollout.trajectory.qpos).hex()[:16]
            assert found == expected[f"{suite}/{stem}"][episode], (name, stem, episode)
        pool.close()
