"""VLA-Arena's upstream run beside us on this machine: everything must be equal bit for bit, whatever the machine."""

from pathlib import Path

import numpy as np
import pytest

from pytest_vla import World
from pytest_vla.plan.choices import INSTALLED
from pytest_vla.plan.costs import cumulative
from pytest_vla.plan.task import with_protocol
from tests.support.arena import arena_task
from tests.support.data import arena_data
from tests.support.reference import job, run_upstream_arena, smooth_actions
from tests.support.worlds import readings

pytestmark = pytest.mark.slow

STEPS = 40
_KIWI = "pick_up_the_kiwi_and_place_it"
_DRAWN = ("safety_dynamic_obstacles", "generalization_unseen_objects")
# On the table with a mover from its init state, after another episode; where idling costs; on the floor and with
# drawers as drawn.
CHOSEN = [
    ("safety_dynamic_obstacles", 2, "push_the_lemon_to_the_region_between_the_teapots", 0, 7, 6),
    ("safety_hazard_avoidance", 0, f"{_KIWI}_on_the_white_bowl_with_the_stove_turned_on", 0, 5, 0),
    ("generalization_unseen_objects", 1, "pick_up_the_donut_and_place_it_in_the_box", None, 21, 0),
    ("long_horizon", 1, "close_all_of_the_drawer_of_the_cabinet", None, 33, 0),
]


def test_episodes(tmp_path: Path) -> None:
    tasks = [with_protocol(arena_task(*names), textures=INSTALLED) for *names, _, _, _ in CHOSEN]
    worlds = [World(task, image_size=(64, 64)) for task in tasks]
    jobs = []
    for world, (suite, level, name, index, seed, earlier) in zip(worlds, CHOSEN, strict=True):
        file = arena_data() / "bddl_files" / suite / f"level_{level}" / f"{name}.bddl"
        state = None if index is None else world.init_states[index].tolist()
        # With a renderer, as policies run it: making one forwards the simulation, which old versions remember.
        given = {"cameras": 64, "frames": [0, STEPS] if suite in _DRAWN else [], "earlier": earlier}
        jobs.append(job(file, seed=seed, init_state=state, actions=smooth_actions(seed, STEPS), **given))
    upstream = run_upstream_arena(jobs, tmp_path)
    for number, (world, given) in enumerate(zip(worlds, jobs, strict=True)):
        _compare(world, given, {name.removeprefix(f"job{number}_"): value for name, value in upstream.items()})
        world.close()


def _compare(world: World, given: dict, upstream: dict[str, np.ndarray]) -> None:
    name, movers = world.task.name, [mover.name for mover in world.problem.movers]
    charged = 0.0
    for action in given["actions"][: given["earlier"]]:
        if world.steps == 0:
            world.reset(scene_seed=given["seed"] + 1, settle=False)
        world.step(action)
    observation = world.reset(init_state=given["init_state"], scene_seed=given["seed"], settle=False)
    for field in ("body_pos", "body_quat", "site_rgba"):
        assert np.array_equal(getattr(world.model, field), upstream[field]), (name, field)
    for step, action in enumerate([None, *given["actions"]]):
        if step == STEPS // 2:
            saved = world.save()
            for other in given["actions"][:3]:
                world.step(other)
            world.restore(saved)
        if action is not None:
            observation = world.step(action)
        data = world.data
        drawn = {"ctrl": data.ctrl, "mocap_pos": data.mocap_pos, "mocap_quat": data.mocap_quat}
        verdicts = {"success": world.success(), "goal_verdicts": list(world.predicates().values())}
        for field, value in {**readings(world, observation), **drawn, **verdicts}.items():
            assert np.array_equal(value, upstream[field][step]), (name, field, step)
        if step in given["frames"]:
            for camera, stored in (("agentview", "agentview"), ("robot0_eye_in_hand", "wrist")):
                expected = upstream[f"{stored}_{step}"][::-1]
                assert np.array_equal(observation[f"{camera}_image"], expected), (name, step, camera)
        if action is not None:
            charged += upstream["cost"][step]
            assert np.isclose(cumulative(world.charged(), "upstream") or 0.0, charged, atol=1e-9), (name, step)
        going_on = {mover for mover, goes in zip(movers, upstream["movers"][step], strict=True) if goes}
        assert {each.name for each in world.movement.moving} == going_on, (name, step)
