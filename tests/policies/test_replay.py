"""Recorded actions played back, from an npz file and from a run's records."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pytest_vla.episode.result import Rollout
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.base import Episode
from pytest_vla.policies.generators import noise_generator
from pytest_vla.policies.random_and_replay import random_policy, replay_policy
from pytest_vla.records.store import open_store
from pytest_vla.records.trajectory import save_trajectory
from pytest_vla.testing import World

ACTIONS = np.random.default_rng(1).uniform(-1, 1, (5, 7))


def an_episode(case_id: str = "a") -> Episode:
    return Episode(case_id, "s", "t", "do it", 0, noise_generator(0, case_id))


def roll(case: Case, policy: Any) -> Rollout:
    task = load_suite(case.suite).task(case.task)
    return run_episode(case, task, policy, World, Conditions("any", run="a-run"))


def test_an_npz_file_is_played_from_its_begin_in_every_episode(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", actions=ACTIONS)
    policy = replay_policy(tmp_path / "a.npz")
    for _ in range(2):
        act = policy(an_episode())
        assert np.array_equal([act({}) for _ in range(5)], ACTIONS)
        with pytest.raises(EpisodeError, match="policy-exhausted: 5 recorded actions are used up"):
            act({})


def test_a_run_is_played_case_by_case_to_the_same_digests(tmp_path: Path) -> None:
    cases = [Case("libero_goal", "turn_on_the_stove", seed) for seed in (0, 1, 13)]
    recorded = [roll(case, random_policy) for case in cases]
    folder = tmp_path / "a-run"
    with open_store(tmp_path, create=True) as store:
        store.begin("a-run", [case.node_id for case in cases], command="pytest", model="any")
        for index, ended in enumerate(recorded):
            save_trajectory(folder / f"{index}.npz", ended.trajectory)
            store.add(dataclasses.replace(ended.record, arrays=f"{index}.npz"))
    policy = replay_policy(folder)
    for case, ended in reversed(list(zip(cases, recorded, strict=True))):
        assert roll(case, policy).record.digest == ended.record.digest
    missing = roll(Case("libero_goal", "turn_on_the_stove", 2), policy)
    assert missing.record.reason == "replay-missing"
    assert "has no actions of libero_goal/turn_on_the_stove[seed2]" in str(missing.record.message)
    (folder / "1.npz").unlink()
    assert roll(cases[1], policy).record.reason == "replay-missing"


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"actions": ACTIONS[:, :0]}, r"actions are float64 \(5, 0\), expected numbers \(n, 7\)"),
        ({"actions": ACTIONS[0]}, r"float64 \(7,\)"),
        ({"other": ACTIONS}, "expected an npz file with actions"),
        ({"actions": np.array([[object()] * 7])}, "expected an npz file with actions"),
        ({"actions": np.array([["a"] * 7])}, "expected numbers"),
    ],
)
def test_an_npz_file_without_actions_is_refused(tmp_path: Path, arrays: dict[str, Any], complaint: str) -> None:
    np.savez(tmp_path / "a.npz", allow_pickle=True, **arrays)
    with pytest.raises(VlaError, match=complaint) as refused:
        replay_policy(tmp_path / "a.npz")
    assert str(tmp_path / "a.npz") in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.npz", b"no zip", "expected an npz file"),
        ("a.npz", b"", "expected an npz file"),
        ("a.csv", b"1,2", r"expected \*.npz with actions \(n, 7\), or the folder of a run"),
    ],
)
def test_a_file_that_cannot_be_played_is_refused(tmp_path: Path, name: str, content: bytes, complaint: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(VlaError, match=complaint):
        replay_policy(tmp_path / name)


def test_a_truncated_npz_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    np.savez_compressed(file, actions=np.random.default_rng(0).normal(size=(500, 7)))
    data = file.read_bytes()
    for size in (len(data) // 2, len(data) - 10, 30):
        file.write_bytes(data[:size])
        with pytest.raises(VlaError, match=r"a\.npz: expected an npz file with actions"):
            replay_policy(file)


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VlaError, match="there is no such file"):
        replay_policy(tmp_path / "a.npz")
    (tmp_path / "a-run").mkdir()
    with pytest.raises(VlaError, match=r"the folder .* has no results"):
        replay_policy(tmp_path / "a-run")
    with open_store(tmp_path, create=True) as store:
        store.begin("another", ["a"], command="pytest", model="any")
    with pytest.raises(VlaError, match="there is no run 'a-run' in"):
        replay_policy(tmp_path / "a-run")
    with open_store(tmp_path, create=False) as store:
        store.begin("a-run", ["a"], command="pytest", model="any")
    with pytest.raises(VlaError, match=f"{tmp_path.name}: the folder has 2 runs; expected .*the folder of a run"):
        replay_policy(tmp_path)
    with pytest.raises(VlaError, match="the run has no records"):
        replay_policy(tmp_path / "a-run")
