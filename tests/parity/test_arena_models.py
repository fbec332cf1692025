"""VLA-Arena's compiled models and drawn placements against upstream's (golden/vla_arena)."""

from functools import cache, partial
from typing import Any

import mujoco
import numpy as np
import pytest

from pytest_vla.scene.cache import CompiledScene, compiled_scene
from pytest_vla.scene.compose import compose
from pytest_vla.scene.placement import draw_placement, plan_placement
from pytest_vla.scene.scene import SceneSpec
from pytest_vla.scene.workspaces import workspace
from pytest_vla.sim.start_states import place_fixtures, place_objects, site_positions
from tests.support.arena import arena_problem, arena_roots, golden_files, meta_of, read_golden
from tests.support.data import arena_data, golden

# The fingers' joints are no part of a placement.
_ARM = slice(0, 7)


@cache
def _compiled(suite: str, level: int, task: str) -> CompiledScene:
    return compiled_scene(arena_problem(suite, level, task), arena_roots())


def _names(model: mujoco.MjModel, kind: Any, count: int) -> list[str]:
    return [mujoco.mj_id2name(model, kind, index) or "" for index in range(count)]


def _unlike(model: mujoco.MjModel, stored: dict[str, Any]) -> list[str]:
    """The names of upstream's arrays that the model does not have bit for bit."""
    kinds = mujoco.mjtObj
    wrong = [
        name
        for name, kind, count in (
            ("body_names", kinds.mjOBJ_BODY, model.nbody),
            ("joint_names", kinds.mjOBJ_JOINT, model.njnt),
            ("site_names", kinds.mjOBJ_SITE, model.nsite),
            ("actuator_names", kinds.mjOBJ_ACTUATOR, model.nu),
        )
        if _names(model, kind, count) != stored[name].tolist()
    ]
    geoms = stored["cgeom_id"]
    if [model.geom(int(index)).name for index in geoms] != stored["cgeom_names"].tolist():
        wrong.append("cgeom_names")
    for name, array in stored.items():
        if name.startswith("model_"):
            found = getattr(model, name.removeprefix("model_"))
        elif name.startswith("cgeom_") and name not in ("cgeom_id", "cgeom_names"):
            found = getattr(model, f"geom_{name.removeprefix('cgeom_')}")[geoms]
        else:
            continue
        if not np.array_equal(found, array):
            wrong.append(name)
    return wrong


def _place(model: mujoco.MjModel, scene: SceneSpec, problem: Any, seed: int) -> np.ndarray:
    """Places fixtures in the model, and gives qpos with the drawn objects."""
    draw = partial(site_positions, model, mujoco.MjData(model))
    placement = draw_placement(plan_placement(problem, scene), seed, draw)
    place_fixtures(model, scene, placement)
    qpos = np.array(model.qpos0)
    place_objects(model, qpos, scene, placement, np.array(workspace(problem.name, "").rest_joints))
    return qpos


def _check_model(name: str) -> None:
    stored = read_golden(golden(f"vla_arena/{name}.npz"))
    meta = meta_of(stored)
    compiled = _compiled(meta["suite"], meta["level"], meta["task"])
    problem = arena_problem(meta["suite"], meta["level"], meta["task"])
    model = compiled.model
    poses = model.body_pos.copy(), model.body_quat.copy()
    try:
        if "seed" in meta:
            _place(model, compiled.scene, problem, meta["seed"])
        assert _unlike(model, stored) == []
    finally:
        model.body_pos[:], model.body_quat[:] = poses


@pytest.mark.parametrize("name", golden_files("traces"))
def test_every_model_array_is_upstreams(name: str) -> None:
    _check_model(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", golden_files("cost_traces", "predicates"))
def test_every_model_array_of_further_tasks_is_upstreams(name: str) -> None:
    _check_model(name)


def _drawn() -> list[str]:
    path = golden_files("traces")
    if path == ["absent/absent"]:
        return ["absent"]
    with np.load(golden("vla_arena/resets.npz")) as file:
        return sorted({name.partition("|")[0] for name in file.files})


@pytest.mark.slow
def test_resets_draw_what_upstream_draws() -> None:
    compared = 0
    with np.load(golden("vla_arena/resets.npz")) as stored:
        # Every third, by turns of suites and levels; a whole round takes minutes.
        for name in _drawn()[::3]:
            suite, level, task = name.split("/", 2)
            problem = arena_problem(suite, int(level.removeprefix("level_")), task)
            composition = compose(problem, arena_roots())
            model = mujoco.MjModel.from_xml_string(composition.xml)
            fixtures = sorted(body.root_body for body in composition.scene.bodies if body.is_fixture)
            joints = plan_placement(problem, composition.scene).joints
            # Upstream draws joints once more at each further reset of an environment; ours is always a new one's first.
            compiled = model.body_pos.copy(), model.body_quat.copy()
            for seed in (0,) if joints else (0, 1, 2):
                model.body_pos[:], model.body_quat[:] = compiled
                qpos, expected = _place(model, composition.scene, problem, seed), stored[f"{name}|{seed}|qpos"]
                assert np.array_equal(qpos[_ARM], expected[_ARM]), name
                assert np.array_equal(qpos[9:], expected[9:]), name
                poses = [np.concatenate([model.body(body).pos, model.body(body).quat]) for body in fixtures]
                assert np.array_equal(np.array(poses).ravel(), stored[f"{name}|{seed}|fixture_pose"].ravel()), name
                compared += 1
    assert compared > 60


@pytest.mark.slow
def test_all_170_tasks_compile_to_the_size_of_their_init_vectors() -> None:
    files = sorted((arena_data() / "bddl_files").glob("*/level_*/*.bddl"))
    sizes = {}
    with np.load(arena_data() / "init_states.npz") as init:
        for file in files:
            suite, level, _ = file.parts[-3:]
            problem = arena_problem(suite, int(level[-1]), file.stem)
            model = mujoco.MjModel.from_xml_string(compose(problem, arena_roots()).xml)
            sizes[f"{suite}/{level}/{file.stem}"] = 1 + model.nq + model.nv
        assert sizes == {name: init[name].size for name in init.files}
    assert len(sizes) == 170
