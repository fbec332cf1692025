"""Episodes in LIBERO's own scenes: the plugin's way to run them changes nothing, and everything repeats."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla import World
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.kernels import in_force
from pytest_vla.plan.case import Case
from pytest_vla.plan.task import with_protocol
from pytest_vla.records.counting import INIT_STATE_DIGEST, PLACED
from pytest_vla.records.record import Record
from tests.support.data import data_root, needs_data
from tests.support.pictures import as_drawn
from tests.support.runs import records_of, run_names
from tests.support.traces import FOLDERS, MUJOCO, SAME_KERNELS, TEXTURES, load
from tests.support.worlds import libero_task

pytestmark = pytest.mark.usefixtures("own_processes")

SUITES = ("--vla-suite=libero_goal,libero_object", "--vla-tasks=turn_on_the_stove,milk", "--vla-seeds=0-1")
REVERSED = "def pytest_collection_modifyitems(items): items.reverse()\n"


def last_run(folder: Path) -> Path:
    return folder / ".vla" / run_names(folder / ".vla")[-1]


def run(pytester: pytest.Pytester, *arguments: str) -> dict[str, Record]:
    """The records of a run of two suites, by case."""
    data = f"--vla-data={data_root()}"
    result = pytester.runpytest_subprocess("-p", "no:hypothesispytest", *SUITES, data, *arguments)
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(["libero_goal * 2 * 0/2 *", "libero_object * 2 * 0/2 *", "all * 4 * 0/4 *0.0% *"])
    return {record.case: record for record in records_of(pytester.path / ".vla")}


@pytest.mark.slow
@needs_data
def test_records_repeat_whatever_the_workers_the_order_and_the_policys_name(pytester: pytest.Pytester) -> None:
    alone = run(pytester, "--vla-model=random", "-n0")
    digests = {case: record.digest for case, record in alone.items()}
    assert len(set(digests.values())) == 4
    assert {(record.outcome, record.reason) for record in alone.values()} == {("failure", None)}
    folder = last_run(pytester.path)

    def digests_of(records: Mapping[str, Record]) -> dict[str, str]:
        return {case: record.digest for case, record in records.items()}

    pytester.makeconftest(REVERSED)
    assert digests_of(run(pytester, f"--vla-model=replay:{folder}", "-n2")) == digests

    stove = alone["libero_goal/turn_on_the_stove[seed1]"]
    assert (stove.steps, stove.literals) == (300, {"(turnon flat_stove_1)": ((0, False),)})
    assert stove.seeds.items() > {"run": 0, "scene": 1, "init_state": 1, "init_states": 50}.items()
    assert stove.seeds.keys() == {"run", "scene", "init_state", "init_states", PLACED, INIT_STATE_DIGEST}
    assert stove.provenance["mujoco"] == MUJOCO
    assert (stove.provenance["kernels"], stove.protocol["textures"]) == (in_force(), "trained")
    assert stove.eef_pos is not None
    assert np.linalg.norm(np.subtract(stove.eef_pos, (-0.3, 0.0, 1.2))) < 1.0


class Pinned:
    """A world that starts from a given init state and scene seed, whatever the case says."""

    def __init__(self, world: Any, init_state: int, scene_seed: int) -> None:
        self._world, self._start = world, {"init_state": init_state, "scene_seed": scene_seed}

    def reset(self, init_state: int, scene_seed: int, settle: bool) -> Any:
        return self._world.reset(**self._start, settle=settle)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)


@needs_data
def test_an_episode_is_upstreams_and_its_policy_sees_what_checkpoints_were_trained_on() -> None:
    trace, meta = load(FOLDERS[MUJOCO], "libero_goal_0")
    task = with_protocol(libero_task(meta["suite"], Path(meta["bddl"]).stem), textures=TEXTURES[MUJOCO])
    actions = trace["traj_actions"][task.protocol.settle_steps :]
    last = 62 if SAME_KERNELS else 30
    seen: dict[str, Any] = {}

    def policy(episode: Any) -> Any:
        asked = 0

        def act(observation: Any) -> Any:
            nonlocal asked
            # Asked for the n-th time it sees the state after n-1 steps; frame k is that after step k, from 0.
            for camera, stored in (("agentview", "agentview"), ("robot0_eye_in_hand", "wrist")):
                if (name := f"image_{stored}_{asked - 1}") in trace:
                    seen[name] = observation[f"{camera}_image"]
            asked += 1
            return actions[asked - 1]

        return act

    world = Pinned(World(task), meta["init_index"], meta["seed"])
    short = dataclasses.replace(task, protocol=dataclasses.replace(task.protocol, max_steps=last))
    ended = run_episode(
        Case(task.suite, task.name, 0), short, policy, lambda task, changed: world, Conditions("golden")
    )
    assert (ended.record.outcome, ended.steps) == ("failure", last), ended.explanation
    for name in ("qpos", "qvel", "eef_pos"):
        # Row 0 is the state after settling, which is row 9 of the trace.
        ours, theirs = getattr(ended.trajectory, name), trace[f"traj_{name}"][9 : 10 + last]
        if SAME_KERNELS:
            assert np.array_equal(ours, theirs), name
        else:
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-9)
    if SAME_KERNELS:
        assert set(seen) == {f"image_{camera}_{frame}" for camera in ("agentview", "wrist") for frame in (0, 60)}
        for name, picture in seen.items():
            assert as_drawn(picture, trace[name][::-1, ::-1]), name
