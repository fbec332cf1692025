"""Absolute control: poses under robosuite's ``use_delta = False`` after settling, and its controller's own pose.

The golden was made by upstream (`make reference`): actions, every tenth state, and the digest of all readings. With
PYTEST_VLA_UPDATE_GOLDEN=1 the live test writes it anew.
"""

import hashlib
import os
from pathlib import Path

import numpy as np
import pytest

from pytest_vla.plan.choices import PRECISIONS
from pytest_vla.plan.task import with_protocol
from tests.support.data import libero_data
from tests.support.golden import UPDATE
from tests.support.reference import job, run_upstream, smooth_poses
from tests.support.traces import MUJOCO, SAME_KERNELS
from tests.support.worlds import readings, world_of

GOLDEN = Path(__file__).with_name("golden") / "absolute.npz"
STEPS, SETTLE, EVERY = 100, 10, 10
TASKS = (
    ("libero_goal", "put_the_bowl_on_the_stove", 5),
    ("libero_spatial", "pick_up_the_black_bowl_on_the_stove_and_place_it_on_the_plate", 11),
    ("libero_object", "pick_up_the_milk_and_place_it_in_the_basket", 0),
    ("libero_10", "STUDY_SCENE1_pick_up_the_book_and_place_it_in_the_back_compartment_of_the_caddy", 3),
    ("libero_10", "KITCHEN_SCENE3_turn_on_the_stove_and_put_the_moka_pot_on_it", 7),
    ("libero_90", "LIVING_ROOM_SCENE2_pick_up_the_butter_and_put_it_in_the_basket", 20),
)
FIELDS = ("qpos", "qvel", "eef_pos", "eef_quat", "gripper_qpos", "controller_pos", "controller_mat")
EARLY, ELSEWHERE = 30, 1e-7  # Steps and tolerance where numbers are multiplied by other kernels.


def rows_of(number: int, actions: np.ndarray, precision: str) -> dict[str, np.ndarray]:
    """Ours, for the same actions: each field (1 + number of actions, ...)."""
    suite, name, init_state = TASKS[number]
    world, found = world_of(suite, name), {field: list[np.ndarray]() for field in FIELDS}
    own = world.task
    assert world.switch(with_protocol(own, action_precision=precision))
    try:
        for step, action in enumerate([None, *actions]):
            if action is None:
                observation = world.reset(init_state=init_state, scene_seed=number, settle=False)
            else:
                observation = world.step(action, "relative" if step <= SETTLE else "absolute")
            now = readings(world, observation)
            for field in FIELDS:
                found[field].append(np.array(now[field] if field in now else observation[field]))
    finally:
        assert world.switch(own)
    return {field: np.array(rows) for field, rows in found.items()}


def precision_of(number: int) -> str:
    """Of a task's actions: X-VLA's and lerobot's loops give them in single precision, vla-eval's in double."""
    return PRECISIONS[number % 2]


def digest_of(rows: dict[str, np.ndarray]) -> str:
    return hashlib.sha256(
        b"".join(np.ascontiguousarray(rows[name], dtype="<f8").tobytes() for name in FIELDS)
    ).hexdigest()


@pytest.mark.slow
@pytest.mark.study
def test_a_hundred_poses_are_bitwise_upstreams(tmp_path: Path) -> None:
    jobs = []
    for seed, (suite, name, init_state) in enumerate(TASKS):
        world = world_of(suite, name)
        observation = world.reset(init_state=init_state, scene_seed=seed)
        poses = smooth_poses(seed, STEPS, observation["controller_pos"], observation["controller_mat"])
        actions = [list(world.task.protocol.settle_action)] * SETTLE + poses
        path = libero_data() / "bddl_files" / suite / f"{name}.bddl"
        state = world.init_states[init_state].tolist()
        jobs.append(
            job(path, seed=seed, init_state=state, actions=actions, absolute_from=SETTLE, dtype=precision_of(seed))
        )
    upstream = run_upstream(jobs, tmp_path)
    kept: dict[str, np.ndarray] = {"mujoco": np.array(MUJOCO)}
    for number, (_, name, _) in enumerate(TASKS):
        actions = np.array(jobs[number]["actions"])
        rows = rows_of(number, actions, precision_of(number))
        theirs = {field: upstream[f"job{number}_{field}"] for field in FIELDS}
        for field in FIELDS:
            assert np.array_equal(rows[field], theirs[field]), (name, field)
        kept |= {f"{number}_actions": actions, f"{number}_qpos": theirs["qpos"][::EVERY]}
        kept[f"{number}_digest"] = np.array(digest_of(theirs))
    if os.environ.get(UPDATE):
        GOLDEN.parent.mkdir(exist_ok=True)
        np.savez_compressed(GOLDEN, allow_pickle=False, **kept)


@pytest.mark.parametrize("number", range(len(TASKS)), ids=[name for _, name, _ in TASKS])
def test_poses_repeat_upstreams_states(number: int) -> None:
    with np.load(GOLDEN) as file:
        golden = {field: file[f"{number}_{field}"] for field in ("actions", "qpos", "digest")}
        if str(file["mujoco"]) != MUJOCO:
            pytest.skip(f"the golden is of MuJoCo {file['mujoco']}")
    rows = rows_of(number, golden["actions"], precision_of(number))
    if SAME_KERNELS:
        assert np.array_equal(rows["qpos"][::EVERY], golden["qpos"])
        assert digest_of(rows) == str(golden["digest"])
    else:
        few = EARLY // EVERY
        np.testing.assert_allclose(rows["qpos"][::EVERY][:few], golden["qpos"][:few], rtol=0, atol=ELSEWHERE)


def test_single_precision_rounds_the_turn_otherwise() -> None:
    with np.load(GOLDEN) as file:
        actions = file["1_actions"][: SETTLE + 20].astype(np.float32).astype(np.float64)
    single, double = (rows_of(1, actions, precision)["qpos"] for precision in ("float32", "float64"))
    assert 0 < np.abs(single - double).max() < 1e-5
