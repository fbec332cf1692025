"""Upstream run beside us on this machine: everything must be equal bit for bit, whatever the machine."""

from pathlib import Path

import numpy as np
import pytest

from pytest_vla import World
from pytest_vla.plan.choices import INSTALLED
from pytest_vla.plan.task import with_protocol
from pytest_vla.sim.lazy_observation import Observation
from tests.support.data import libero_data
from tests.support.reference import job, run_upstream, smooth_actions
from tests.support.worlds import libero_task, readings, world_of

pytestmark = pytest.mark.slow


def test_episodes_with_pictures(tmp_path: Path) -> None:
    """With an init state, without one, after another episode; ours saved and restored on the way."""
    chosen = [
        ("libero_goal", "put_the_bowl_on_the_stove", 5, 12, 0),
        ("libero_10", "STUDY_SCENE1_pick_up_the_book_and_place_it_in_the_back_compartment_of_the_caddy", 3, 21, 7),
        ("libero_90", "KITCHEN_SCENE8_turn_off_the_stove", None, 33, 0),
    ]
    jobs = []
    for suite, name, index, seed, earlier in chosen:
        state = None if index is None else world_of(suite, name).init_states[index].tolist()
        task = libero_data() / "bddl_files" / suite / f"{name}.bddl"
        actions = [[0.0] * 6 + [-1.0]] * 10 + smooth_actions(seed, 90)
        given = {"cameras": 128, "frames": [0, 1, 60, 100], "earlier": earlier}
        jobs.append(job(task, seed=seed, init_state=state, actions=actions, **given))
    upstream = run_upstream(jobs, tmp_path)
    for number, (suite, name, _, seed, earlier) in enumerate(chosen):
        actions, state = jobs[number]["actions"], jobs[number]["init_state"]
        with World(with_protocol(libero_task(suite, name), textures=INSTALLED), image_size=(128, 128)) as world:
            if earlier:
                world.reset(scene_seed=seed + 1, settle=False)
                for action in actions[:earlier]:
                    world.step(action)
            observation = world.reset(init_state=state, scene_seed=seed, settle=False)
            for field in ("body_pos", "body_quat", "site_rgba"):
                assert np.array_equal(getattr(world.model, field), upstream[f"job{number}_{field}"]), field
            for step, action in enumerate([None, *actions]):
                if step == 40:
                    saved = world.save()
                    for other in actions[:3]:
                        world.step(other)
                    world.restore(saved)
                if action is not None:
                    observation = world.step(action)
                _same_step(upstream, number, step, world, observation)
                if step in jobs[number]["frames"]:
                    for camera, stored in (("agentview", "agentview"), ("robot0_eye_in_hand", "wrist")):
                        expected = upstream[f"job{number}_{stored}_{step}"][::-1]
                        assert np.array_equal(observation[f"{camera}_image"], expected), (name, step, camera)


def _same_step(upstream: dict[str, np.ndarray], number: int, step: int, world: World, observation: Observation) -> None:
    for field, value in {**readings(world, observation), "success": world.success()}.items():
        assert np.array_equal(value, upstream[f"job{number}_{field}"][step]), (number, field, step)


@pytest.mark.parametrize("part", range(4))
def test_resets_draw_upstreams_scenes(part: int, tmp_path: Path) -> None:
    """One task of every distinct scene: fixtures, objects and joints of `seed(s); reset()`, and two steps after it."""
    from pytest_vla.scene.cache import scene_key
    from pytest_vla.scene.problem import parse_problem

    tasks = {scene_key(parse_problem(path)): path for path in sorted((libero_data() / "bddl_files").glob("*/*.bddl"))}
    assert len(tasks) == 32
    paths = sorted(tasks.values())[part::4]
    # With cameras, as policies run it: making a renderer forwards the simulation, which old versions remember.
    given = [
        {"seed": 100 + number, "actions": smooth_actions(number, 2), "cameras": 32} for number in range(len(paths))
    ]
    jobs = [job(path, **each) for path, each in zip(paths, given, strict=True)]
    upstream = run_upstream(jobs, tmp_path)
    for number, path in enumerate(paths):
        world = world_of(path.parent.name, path.stem)
        observation = world.reset(scene_seed=100 + number, settle=False)
        for field in ("body_pos", "body_quat", "site_rgba"):
            assert np.array_equal(getattr(world.model, field), upstream[f"job{number}_{field}"]), (path.stem, field)
        _same_step(upstream, number, 0, world, observation)
        for step, action in enumerate(jobs[number]["actions"], 1):
            _same_step(upstream, number, step, world, world.step(action))
