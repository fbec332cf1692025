"""Stored traces of upstream's VLA-Arena: physics, readings, movers, success.

Under the version of MuJoCo that made them, which is never the default: those run in test_simulators.py. Under any other
one the arm alone is upstream's, until it touches something.
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from pytest_vla import World
from pytest_vla.sim.lazy_observation import Observation
from pytest_vla.versions import installed_versions
from tests.support.arena import arena_task, golden_files, meta_of, read_golden
from tests.support.data import golden
from tests.support.traces import MUJOCO
from tests.support.worlds import readings

KERNELS = {"traces": "SkylakeX", "cost_traces": "Haswell", "traces_mujoco332": "Haswell"}
"""Which kernels multiplied where each folder's traces were made."""

_MADE_BY = {"3.8.1": ("traces", "cost_traces"), "3.3.2": ("traces_mujoco332",)}
_FOLDERS = _MADE_BY.get(MUJOCO, ())
_ARM = slice(0, 7)
# One on the floor, one with a mover, one where the arm soon touches something.
_ELSEWHERE = ("unseen_objects_L1", "dynamic_distractors_L2", "grasping_L2")


def _short(name: str) -> str:
    """pytest would number the ones that are longer."""
    return f"{name[:60]}{name[-6:]}"


def _same_kernels(name: str) -> bool:
    kernels = KERNELS[name.partition("/")[0]]
    # A waypoint's turn goes through numpy's sines, of which AVX-512 has its own.
    of_numpy = kernels == "Haswell" or not os.environ.get("NPY_DISABLE_CPU_FEATURES")
    return of_numpy and installed_versions().get("blas", "").count(kernels) == 2


def _readings(name: str, world: World, observation: Observation) -> dict[str, np.ndarray]:
    """What can be compared of a step."""
    found = {**readings(world, observation), "ctrl": world.data.ctrl}
    if name.startswith("traces/") and name.endswith(("_hit", "_atgoal")):
        # Two states were set, one after the other, and each puts what is observed one substep forward.
        found = {field: value for field, value in found.items() if field in ("qpos", "qvel", "ctrl")}
    return found


def _begun(name: str) -> tuple[World, dict[str, Any]]:
    """A world where a trace begins, and the trace."""
    trace = read_golden(golden(f"vla_arena/{name}.npz"))
    meta = meta_of(trace)
    world = World(arena_task(meta["suite"], meta["level"], meta["task"]))
    world.reset(init_state=trace["init_state"], scene_seed=meta["seed"], settle=False)
    return world, trace


def _steps(world: World, trace: dict[str, Any], restarted: bool = False) -> Iterator[tuple[int, Observation]]:
    """Steps a world by a trace's actions, each from the state before it in the trace where they are restarted."""
    for step, action in enumerate(trace["action"]):
        if restarted and step:
            world.data.qpos[:], world.data.qvel[:] = trace["qpos"][step - 1], trace["qvel"][step - 1]
        yield step, world.step(action)
        going_on = trace["active_movers"][step]
        world.freeze([name for name, goes in zip(trace["mover_names"].tolist(), going_on, strict=True) if not goes])


def _touches(world: World) -> bool:
    """Whether anything of the robot is in contact with something else."""
    model, geoms = world.model, world.data.contact.geom
    if not len(geoms):
        return False
    bodies = [model.body(body).name for body in model.geom_bodyid[geoms].ravel()]
    robot = np.array([name.startswith(world.profile.robot_parts) for name in bodies]).reshape(-1, 2)
    return bool((robot[:, 0] != robot[:, 1]).any())


def _off(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(found - expected).max())


@pytest.mark.skipif(not _FOLDERS, reason=f"no trace was made with mujoco {MUJOCO}")
@pytest.mark.parametrize("name", golden_files(*_FOLDERS), ids=_short)
def test_trace_repeats(name: str) -> None:
    """Bit for bit where the kernels are the same; else within rounding, which contact amplifies."""
    world, trace = _begun(name)
    mocap = [int(world.model.body(f"{mover}_main_mocap").mocapid[0]) for mover in trace["mover_names"].tolist()]
    exact, same, compared, touched = _same_kernels(name), True, 0, False
    for step, observation in _steps(world, trace):
        found = _readings(name, world, observation)
        touched = touched or _touches(world)
        poses = np.hstack([world.data.mocap_pos[mocap], world.data.mocap_quat[mocap]])
        expected = np.hstack([trace["mocap_pos"][step], trace["mocap_quat"][step]])
        if not np.array_equal(poses, expected):
            # The sines that numpy has for AVX-512 are not alike on all processors that have it.
            assert KERNELS[name.partition("/")[0]] != "Haswell", step
            assert _off(poses, expected) < 1e-14, step
            exact = same = False
        if exact:
            for field, value in found.items():
                assert np.array_equal(value, trace[field][step]), (field, step)
            assert world.success() == trace["success"][step], step
        elif same and not touched:
            for field, value in found.items():
                assert _off(value, trace[field][step]) < 1e-8, (field, step)
        compared += not touched
    assert compared >= 3
    if exact:
        return
    meta = meta_of(trace)
    world.reset(init_state=trace["init_state"], scene_seed=meta["seed"], settle=False)
    off = [_off(world.data.qpos, trace["qpos"][step]) for step, _ in _steps(world, trace, restarted=True)]
    assert np.median(off) < 1e-11
    assert np.quantile(off, 0.9) < 1e-8


@pytest.mark.skipif(bool(_FOLDERS), reason="this version has traces of its own")
@pytest.mark.parametrize(
    "name", [name for name in golden_files("cost_traces") if any(part in name for part in _ELSEWHERE)]
)
def test_the_arm_is_upstreams_until_it_touches_something(name: str) -> None:
    world, trace = _begun(name)
    compared = 0
    for step, observation in _steps(world, trace):
        if _touches(world):
            break
        found = _readings(name, world, observation)
        for field, value in found.items():
            expected = trace[field][step]
            if field in ("qpos", "qvel"):
                value, expected = value[_ARM], expected[_ARM]
            # The versions solve constraints in another order, and the robot's joints are solved with a mover's weld.
            assert _off(value, expected) < 1e-10, (field, step)
        compared += 1
    assert compared > 15
