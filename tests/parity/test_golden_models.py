"""Compiled models and goal literals against upstream's (libero_model_hashes.json, libero_predicates)."""

import hashlib
import json
from pathlib import Path

import mujoco
import numpy as np
import pytest

from tests.support.data import golden, golden_root
from tests.support.slow import first_of_each
from tests.support.traces import MUJOCO
from tests.support.worlds import world_of

# Where the names and paths lie in their buffers follows from machine paths.
_PATH_ADDRESSES = {"mesh_pathadr", "tex_pathadr", "hfield_pathadr", "skin_pathadr"}
# The hashes are 3.8.1's. Other versions cut hulls into other polygons, and have addresses of other types.
_OF_THE_VERSION = {
    *("mesh_polyadr", "mesh_polymap", "mesh_polymapadr", "mesh_polymapnum", "mesh_polynormal", "mesh_polynum"),
    *("mesh_polyvert", "mesh_polyvertadr", "mesh_polyvertnum", "tex_adr", "mat_metallic", "mat_roughness"),
}
# Set where textures are drawn as checkpoints saw them.
_OURS = {"tex_colorspace"}


def _hashed_tasks() -> list[str]:
    root = golden_root()
    return list(json.loads((root / "libero_model_hashes.json").read_text())["arrays"]) if root else ["absent/absent"]


@pytest.mark.parametrize("name", first_of_each(_hashed_tasks(), lambda name: name.split("/")[0]))
def test_every_model_array_is_upstreams(name: str) -> None:
    expected = json.loads(golden("libero_model_hashes.json").read_text())["arrays"][name]
    world = world_of(*name.split("/"))
    world.reset(init_state=0, scene_seed=5, settle=False)
    for field, value in expected["opt"].items():
        assert np.array_equal(getattr(world.model.opt, field), value), field
    compared = 0
    left_out = _PATH_ADDRESSES | _OURS | (set() if MUJOCO == "3.8.1" else _OF_THE_VERSION)
    for field, stored in expected.items():
        if field == "opt" or field in left_out or (MUJOCO != "3.8.1" and not hasattr(world.model, field)):
            continue
        array = np.ascontiguousarray(getattr(world.model, field))
        assert [list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()[:16]] == stored, field
        compared += 1
    assert compared > 200


def _predicate_files() -> list[str]:
    root = golden_root()
    return sorted(path.stem for path in (root / "libero_predicates").glob("*.npz")) if root else ["absent"]


@pytest.mark.parametrize("name", first_of_each(_predicate_files(), lambda name: name.rsplit("_", 1)[0]))
def test_every_goal_literal_is_judged_as_upstream_does(name: str) -> None:
    with np.load(golden("libero_predicates") / f"{name}.npz") as file:
        stored = dict(file)
    world = world_of(name.rsplit("_", 1)[0], Path(str(stored["bddl"])).stem)
    world.reset(init_state=0, settle=False)
    world.model.body_pos[:], world.model.body_quat[:] = stored["body_pos"], stored["body_quat"]
    literals = [f"({' '.join(literal)})" for literal in json.loads(str(stored["goal"]))]
    for qpos, success, verdicts in zip(stored["qpos"], stored["success"], stored["per_predicate"], strict=True):
        world.data.qpos[:], world.data.qvel[:] = qpos, 0
        mujoco.mj_forward(world.model, world.data)
        assert world.predicates() == dict(zip(literals, verdicts.tolist(), strict=True))
        assert world.success() == success
