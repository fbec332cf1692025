"""Recorded actions played back, from an npz file and from a run's records."""

import dataclasses
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla import World as RealWorld
from pytest_vla.episode.resimulate import resimulate
from pytest_vla.episode.result import Rollout
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.gate.baseline import baseline_of
from pytest_vla.gate.comparable import disagreements_of
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.policies.base import Episode
from pytest_vla.policies.demonstrations import STILL, kept_rows
from pytest_vla.policies.generators import noise_generator
from pytest_vla.policies.load import load_policy
from pytest_vla.policies.random_and_replay import memoriser_policy, random_policy, replay_policy
from pytest_vla.policies.spec import ModelSpec
from pytest_vla.records.counting import conditions_of
from pytest_vla.records.store import open_store
from pytest_vla.records.trajectory import save_trajectory
from pytest_vla.testing import World
from tests.support.demonstration_files import Recorded, recorded, write_demonstrations
from tests.support.worlds import tabletop

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
        # It stands still then, with the gripper as it is.
        for _ in range(2):
            assert act({}).tolist() == [*6 * [0.0], ACTIONS[-1, -1]]


def test_how_another_world_stands_still_is_not_known(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", actions=ACTIONS[:, :2])
    act = replay_policy(tmp_path / "a.npz")(an_episode())
    assert [len(act({})) for _ in range(5)] == [2] * 5
    with pytest.raises(EpisodeError, match="policy-exhausted"):
        act({})


def test_a_memoriser_plays_the_unvaried_episode(tmp_path: Path) -> None:
    """Of the same task and seed, of its suite if that has one; under any variation, and in a suite of another name."""
    (tmp_path / "a-run").mkdir()
    with open_store(tmp_path, create=True) as store:
        store.begin("a-run", ["a"], command="pytest", model="any")
        cases = [Case("libero_goal", "turn_on_the_stove", 0), Case("libero_goal", "turn_on_the_stove", 0, "camera")]
        cases += [Case("libero_10", "turn_on_the_stove", 0)]
        for index, case in enumerate(cases):
            record = roll(Case("libero_goal", case.task, 0), random_policy).record
            arrays = f"{index}.npz"
            np.savez(tmp_path / "a-run" / arrays, actions=np.full((3, 7), index / 10))
            store.add(
                dataclasses.replace(
                    record,
                    case=case.id,
                    suite=case.suite,
                    node=case.node_id,
                    arrays=arrays,
                    variation={"label": "camera"} if case.variation else {},
                )
            )
    policy = memoriser_policy(tmp_path / "a-run")
    for case, wanted in (
        (Case("libero_goal", "turn_on_the_stove", 0, "layout"), 0.0),
        (Case("libero_10", "turn_on_the_stove", 0), 0.2),
        (Case("another", "turn_on_the_stove", 0), None),
    ):
        act = policy(Episode(case.id, case.suite, case.task, "do it", 0, noise_generator(0, "a")))
        first, *_, last = [act({}) for _ in range(5)]
        assert first[0] in ((0.0, 0.2) if wanted is None else (wanted,))
        assert last.tolist() == [*6 * [0.0], first[-1]]
    with pytest.raises(EpisodeError, match="replay-missing"):
        policy(dataclasses.replace(an_episode(), task="another"))
    with pytest.raises(VlaError, match="memoriser"):
        memoriser_policy(tmp_path / "nowhere")


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
        ("a.csv", b"1,2", r"expected \*.npz with actions \(n, 7\), .*or the folder of a run"),
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


# Demonstrations in LIBERO's HDF5 layout, from their own start states.


@pytest.fixture(scope="module")
def demonstrated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Recorded]]:
    task = load_suite("tabletop").task("turn_on_the_stove")
    found = [
        recorded(task, 0),
        recorded(task, 1, settle=task.protocol.settle_steps),
        recorded(task, 2, cut=5, digits=6),
    ]
    return write_demonstrations(tmp_path_factory.mktemp("demos") / "a.hdf5", task.name, found), found


def replayed(file: Path, seed: int, task: str = "turn_on_the_stove", **how: Any) -> Rollout:
    case = Case("tabletop", task, seed)
    of = load_suite("tabletop").task(task)
    return run_episode(case, of, replay_policy(file), RealWorld, Conditions("replay:a.hdf5", run="a-run"), **how)


def test_a_demonstration_is_replayed_from_its_own_start(demonstrated: tuple[Path, list[Recorded]]) -> None:
    file, found = demonstrated
    ended, original = replayed(file, 0), found[0].ended
    assert original is not None
    assert original.success
    assert ended.record.digest == original.record.digest
    assert ended.record.metrics["drift_mm"] == ended.record.metrics["drift_max_mm"] == 0.0
    drift = ended.trajectory.series["drift_mm"]
    assert (drift[:-1] == 0).all()
    assert np.isnan(drift[-1])
    # After the settle steps: the controller's state then, and the solver's warm start, are not in the file.
    assert replayed(file, 1).record.metrics["drift_max_mm"] < 0.1
    # Without its first rows, and with the fixtures' poses in six digits as MuJoCo writes them.
    ended = replayed(file, 2)
    assert ended.success == found[2].ended.success  # type: ignore[union-attr]
    assert ended.record.metrics["drift_max_mm"] < 0.1


def test_a_replayed_start_is_in_the_record_and_not_comparable(demonstrated: tuple[Path, list[Recorded]]) -> None:
    file, found = demonstrated
    ended = replayed(file, 0).record
    assert ended.provenance["start"] == "a recorded state"
    assert "init_state" not in ended.seeds
    own = found[0].ended
    assert own is not None
    assert "start" in conditions_of(ended).keys() - conditions_of(own.record).keys()
    assert ended.seeds["init_state_digest"] != own.record.seeds["init_state_digest"]
    before, now = (baseline_of([dataclasses.replace(each, policy="a")]).cases[0] for each in (own.record, ended))
    told = {each.name: each.effect for each in disagreements_of([(before, now, ["provenance.start"])])}
    assert told == {"provenance.start": "refuses"}


@pytest.mark.parametrize("seed", [0, 2])
def test_a_replayed_episode_is_resimulated_bit_for_bit(demonstrated: tuple[Path, list[Recorded]], seed: int) -> None:
    ended = replayed(demonstrated[0], seed)
    world = tabletop("turn_on_the_stove")
    assert max(moment.drift for moment in resimulate(world, ended.record, ended.trajectory, None)) == 0.0
    less = {name: value for name, value in ended.record.metrics.items() if name != "began_time"}
    with pytest.raises(VlaError, match=r"metrics\.began_time"):
        next(resimulate(world, dataclasses.replace(ended.record, metrics=less), ended.trajectory, None))


def test_fixtures_stand_where_the_demonstration_had_them(demonstrated: tuple[Path, list[Recorded]]) -> None:
    file, found = demonstrated
    # Demonstration 0 under another seed: the scene seed places fixtures elsewhere.
    moved = write_demonstrations(file.with_name("moved.hdf5"), "turn_on_the_stove", {5: found[0]})
    ended = replayed(moved, 5)
    assert ended.record.digest == found[0].ended.record.digest  # type: ignore[union-attr]


def test_a_replay_that_fails_tells_the_drift_and_ends(demonstrated: tuple[Path, list[Recorded]]) -> None:
    file, found = demonstrated
    wrong = dataclasses.replace(found[0], actions=found[0].actions * [-1, 1, 1, 1, 1, 1, 1])
    ended = replayed(write_demonstrations(file.with_name("wrong.hdf5"), "turn_on_the_stove", [wrong]), 0)
    assert ended.outcome == "failure"
    assert ended.steps == len(wrong.actions)
    assert ended.record.metrics["drift_max_mm"] > 50
    assert "mm from the recorded states" in ended.explanation


def test_a_demonstration_that_does_not_fit_is_refused(demonstrated: tuple[Path, list[Recorded]]) -> None:
    file, found = demonstrated
    missing, other = replayed(file, 9).record, replayed(file, 0, "put_the_bowl_on_the_plate").record
    assert missing.reason == other.reason == "replay-missing"
    assert "3 demonstrations, demo_0 to demo_2" in str(missing.message)
    assert "demonstrations of turn_on_the_stove" in str(other.message)

    def reason(changed: Recorded) -> tuple[str | None, str]:
        made = write_demonstrations(file.with_name("unfit.hdf5"), "turn_on_the_stove", [changed])
        record = replayed(made, 0).record
        return record.reason, str(record.message)

    first = found[0]
    for changed, told in (
        (dataclasses.replace(first, states=first.states[:, :-1]), "numbers a state"),
        (dataclasses.replace(first, xml=first.xml.replace("robot0_joint1", "joint1")), "joint1 and not robot0_joint1"),
        (dataclasses.replace(first, xml=first.xml.replace("_main", "_other")), "no body of"),
        (dataclasses.replace(first, states=first.states[:-1]), "data/demo_0/states"),
    ):
        code, message = reason(changed)
        assert code == "replay-unfit", message
        assert told in message


def test_a_policy_of_ones_own_may_bring_its_start() -> None:
    def policy(episode: Episode) -> Any:
        return lambda observation: np.zeros(7)

    policy.start = lambda case: "here"  # type: ignore[attr-defined]
    case, task = Case("tabletop", "turn_on_the_stove", 0), load_suite("tabletop").task("turn_on_the_stove")
    assert run_episode(case, task, policy, World, Conditions("a")).record.reason == "policy-protocol"
    policy.start = lambda case: 1 / 0  # type: ignore[attr-defined]
    assert run_episode(case, task, policy, World, Conditions("a")).record.reason == "policy-raised"


def as_regenerated(file: Path) -> Path:
    """What the regenerating scripts of OpenVLA and VLA-Arena write of a file: neither its task nor its model."""
    with h5py.File(file, "a") as root:
        data = root["data"]
        for name in ("bddl_file_name", "env_args", "problem_info"):
            del data.attrs[name]
        for group in data.values():
            for name in ("model_file", "num_samples", "init_state"):
                del group.attrs[name]
            group["obs/robot0_eye_in_hand_rgb"] = group["obs/agentview_rgb"][()]
    return file


def test_a_regenerated_file_is_replayed_with_the_fixtures_of_its_seed(
    demonstrated: tuple[Path, list[Recorded]], tmp_path: Path
) -> None:
    _, found = demonstrated
    file = as_regenerated(write_demonstrations(tmp_path / "turn_on_the_stove_demo.hdf5", "x", found[:1]))
    ended, original = replayed(file, 0), found[0].ended
    assert original is not None
    assert ended.success
    assert np.array_equal(ended.trajectory.qpos, original.trajectory.qpos)
    assert any(name.startswith("began_") and name.endswith("_qw") for name in ended.record.metrics), "as they stood"
    world = tabletop("turn_on_the_stove")
    assert max(moment.drift for moment in resimulate(world, ended.record, ended.trajectory, None)) == 0.0


def test_rows_without_motion_are_left_out_on_request(demonstrated: tuple[Path, list[Recorded]], tmp_path: Path) -> None:
    _, found = demonstrated
    first = found[0]
    still = np.tile([*6 * [0.0], first.actions[0, -1]], (10, 1))
    states = np.concatenate([np.tile(first.states[:1], (10, 1)), first.states])
    waits = dataclasses.replace(first, actions=np.concatenate([still, first.actions]), states=states)
    file = write_demonstrations(tmp_path / "a.hdf5", "turn_on_the_stove", [waits])
    spec = ModelSpec(f"replay:{file}?no_ops=8", tmp_path)
    case, of = Case("tabletop", "turn_on_the_stove", 0), load_suite("tabletop").task("turn_on_the_stove")
    ended = run_episode(case, of, load_policy(spec), RealWorld, Conditions("any", run="a-run"))
    assert ended.record.digest == first.ended.record.digest  # type: ignore[union-attr]
    for text, error in (
        ("no_ops=many", "no_ops=many: expected how many rows"),
        ("noops=4", "noops is no argument of replay. It takes no_ops"),
    ):
        with pytest.raises(VlaError, match=error):
            load_policy(ModelSpec(f"replay:{file}?{text}", tmp_path))
    np.savez(tmp_path / "a.npz", actions=ACTIONS)
    with pytest.raises(VlaError, match=r"no_ops is for demonstrations in a file \*\.hdf5"):
        load_policy(ModelSpec(f"replay:{tmp_path / 'a.npz'}?no_ops=4", tmp_path))


def test_a_file_of_another_level_is_refused(demonstrated: tuple[Path, list[Recorded]], tmp_path: Path) -> None:
    _, found = demonstrated
    (tmp_path / "level_1").mkdir()
    name = "turn_on_the_stove,_slowly"
    file = as_regenerated(write_demonstrations(tmp_path / "level_1" / f"{name}_demo.hdf5", "x", found[:1]))
    start = replay_policy(file).start  # type: ignore[attr-defined]
    case = Case("vla_arena_long_horizon", "turn_on_the_stove_slowly", 0, task_level="L1")
    assert start(case).joints == ()
    with pytest.raises(EpisodeError, match="at L1"):
        start(dataclasses.replace(case, task_level="L0"))


def test_a_folder_has_a_file_for_each_task(demonstrated: tuple[Path, list[Recorded]], tmp_path: Path) -> None:
    _, found = demonstrated
    for level in ("level_0", "level_1"):
        (tmp_path / level).mkdir()
        write_demonstrations(tmp_path / level / "turn_on_the_stove_demo.hdf5", "turn_on_the_stove", found[:1])
    (tmp_path / "level_0" / "other_demo.hdf5").write_text("is not opened")
    ended = replayed(tmp_path, 0)
    assert ended.record.digest == found[0].ended.record.digest  # type: ignore[union-attr]
    start = replay_policy(tmp_path).start  # type: ignore[attr-defined]
    case = Case("vla_arena_long_horizon", "turn_on_the_stove", 0, task_level="L1")
    assert "level_1" in start(case).of
    for changed, code in (("another", "replay-missing"), ("other", "replay-unfit")):
        with pytest.raises(EpisodeError, match=code):
            start(dataclasses.replace(case, task=changed))
    (tmp_path / "set" / "meta").mkdir(parents=True)
    (tmp_path / "set" / "meta" / "info.json").write_text("{}")
    with pytest.raises(VlaError, match="a LeRobot data set has no states"):
        replay_policy(tmp_path / "set")


ROWS = st.lists(
    st.tuples(st.sampled_from([0.0, 5e-5, 2e-4]), st.sampled_from([-1.0, 1.0, 0.0])), min_size=1, max_size=40
)


@given(ROWS, st.integers(0, 6))
def test_the_filter_is_vla_arenas(rows: list[tuple[float, float]], after_change: int) -> None:
    """As its script goes through the rows, one after the other."""
    actions = np.array([[motion, *5 * [0.0], gripper] for motion, gripper in rows])
    changes = [n for n in range(1, len(rows)) if {rows[n - 1][1], rows[n][1]} == {-1.0, 1.0}]
    waits = {n for change in changes for n in range(change + 1, change + 1 + after_change)}
    kept = [
        n
        for n, (motion, gripper) in enumerate(rows)
        if motion >= STILL or (n and gripper != rows[n - 1][1]) or n in waits
    ]
    assert kept_rows(actions, after_change).tolist() == kept
