"""Stored traces of upstream (libero_traces, libero_success_traces): physics, readings, pictures, success."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla import World, load_suite
from pytest_vla.policies.view import policy_view
from pytest_vla.versions import installed_versions
from tests.support.data import data_root, golden, golden_root
from tests.support.worlds import readings, world_of

# The traces were made with OpenBLAS' SkylakeX kernels; with others they hold for the first steps, within rounding.
_SAME_KERNELS = installed_versions().get("blas", "").count("SkylakeX") == 2
_STEPS_ELSEWHERE, _TOLERANCE_ELSEWHERE = 50, 1e-9


def _stored(folder: str) -> list[str]:
    root = golden_root()
    return sorted(path.stem for path in (root / folder).glob("*.npz")) if root else ["absent"]


def _load(folder: str, name: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    with np.load(golden(folder) / f"{name}.npz") as file:
        arrays = dict(file)
    return arrays, json.loads(str(arrays["meta"]))


def _world(meta: dict[str, Any]) -> World:
    return world_of(meta["suite"], Path(meta["bddl"]).stem)


@pytest.mark.parametrize("name", _stored("libero_traces"))
def test_trace_repeats_bit_for_bit(name: str) -> None:
    trace, meta = _load("libero_traces", name)
    world = _world(meta)
    assert load_suite(meta["suite"], data=data_root()).tasks[meta["task_index"]] == world.task
    world.reset(init_state=meta["init_index"], scene_seed=meta["seed"], settle=False)
    assert np.array_equal(world.init_states[meta["init_index"]], trace["traj_init_state"])
    for field in (field for field in trace if field.startswith("model_")):
        assert np.array_equal(getattr(world.model, field.removeprefix("model_")), trace[field]), field
    steps = len(trace["traj_actions"]) if _SAME_KERNELS else _STEPS_ELSEWHERE
    pictures = 0
    for step, action in enumerate(trace["traj_actions"][:steps]):
        observation = world.step(action)
        for field, value in readings(world, observation).items():
            expected = trace[f"traj_{field}"][step]
            if _SAME_KERNELS:
                assert np.array_equal(value, expected), f"{field} at step {step}"
            else:
                np.testing.assert_allclose(value, expected, rtol=0, atol=_TOLERANCE_ELSEWHERE)
        assert world.success() == trace["traj_success"][step]
        for camera, stored in (("agentview", "agentview"), ("robot0_eye_in_hand", "wrist")):
            key = f"image_{stored}_{step - meta_settle(meta)}"
            if key in trace and _SAME_KERNELS:
                raw = trace[key]
                picture = observation[f"{camera}_image"]
                assert np.array_equal(picture, raw[::-1]), key
                # What checkpoints were trained on: raw turned by 180 degrees.
                seen_by_policy = policy_view(observation, "rotate_180")[f"{camera}_image"]
                assert np.array_equal(seen_by_policy, raw[::-1, ::-1]), key
                pictures += 1
    if _SAME_KERNELS:
        assert pictures == 2 * len(meta["frame_steps_after_settle"])


def meta_settle(meta: dict[str, Any]) -> int:
    """The trace's steps before the first numbered frame."""
    return load_suite(meta["suite"]).protocol.settle_steps


@pytest.mark.parametrize("name", _stored("libero_success_traces"))
def test_success_turns_at_upstreams_step(name: str) -> None:
    trace, meta = _load("libero_success_traces", name)
    world = _world(meta)
    world.reset(init_state=trace["init_state"], scene_seed=meta["seed"], settle=False)
    verdicts = []
    for action in trace["actions"]:
        world.step(action)
        verdicts.append(world.success())
    assert verdicts == trace["success"].tolist()
    assert True in verdicts
