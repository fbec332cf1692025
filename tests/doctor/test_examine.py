"""The examination of real worlds: the expert's demonstrations, recorded ones, closed loop, and what is refused."""

import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pytest_vla
from pytest_vla.doctor.answers import DemonstrationWindow, made_relative
from pytest_vla.doctor.demonstrations import SCENE, STATE, RecordedDemonstration, expert_demonstrations
from pytest_vla.doctor.examine import (
    ExaminationSettings,
    asked_every,
    demonstrations_of,
    diagnose,
    exchange,
    replay,
    run_closed_loop,
    windows_of,
    with_closed_loop,
)
from pytest_vla.doctor.findings import (
    CLOSED_LOOP,
    RECORDED_OTHERWISE,
    UNKNOWN,
    WELL,
    WORLD,
    ClosedLoop,
    Diagnosis,
    DoctorFinding,
    Examination,
)
from pytest_vla.episode.world_pool import WorldPool
from pytest_vla.errors import VlaError
from pytest_vla.plan.manifests import Suite, load_suite
from pytest_vla.policies.base import RecordedStart
from pytest_vla.policies.load import load_policy
from pytest_vla.policies.random_and_replay import random_policy
from pytest_vla.util.files import cache_folder
from tests.support import demonstration_files
from tests.support.knowing import KnowingPolicy
from tests.support.miswired import BY_NAME

SHORT = ("close_the_bottom_drawer_of_the_cabinet", "turn_on_the_stove")


@pytest.fixture(scope="module")
def suite() -> Suite:
    """Two short tasks of tabletop."""
    tabletop = load_suite("tabletop")
    return replace(tabletop, tasks=tuple(task for task in tabletop.tasks if task.name in SHORT))


@pytest.fixture(scope="module")
def demonstrations(suite: Suite) -> tuple[RecordedDemonstration, ...]:
    return expert_demonstrations(suite, 2)


@pytest.fixture(scope="module")
def windows(demonstrations: tuple[RecordedDemonstration, ...]) -> list[DemonstrationWindow]:
    with closing(WorldPool(allow_versions=True)) as pool:
        return windows_of(demonstrations, 4, pool)


def codes_of(found: Examination) -> list[str]:
    return [each.code for each in found.diagnosis.findings]


def test_the_expert_demonstrates_each_task(demonstrations: tuple[RecordedDemonstration, ...], suite: Suite) -> None:
    assert [each.task.name for each in demonstrations] == [task.name for task in suite.tasks]
    for each in demonstrations:
        assert each.qpos is not None
        assert len(each.qpos) == len(each.actions)
        assert np.abs(each.actions).max() <= 1


def test_a_demonstration_is_made_once(
    demonstrations: tuple[RecordedDemonstration, ...], suite: Suite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The second time it is read from the cache, equal bit for bit; a file that others could write is not read."""

    def refused(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("an episode is run")

    monkeypatch.setattr("pytest_vla.doctor.demonstrations.run_episode", refused)
    for one, other in zip(demonstrations, expert_demonstrations(suite, 2), strict=True):
        assert one.name == other.name
        assert np.array_equal(one.actions, other.actions)
        assert np.array_equal(one.qpos, other.qpos)  # type: ignore[arg-type]
    shutil.copytree(cache_folder() / "demonstrations", tmp_path / "demonstrations")
    for file in (tmp_path / "demonstrations").iterdir():
        file.chmod(0o666)
    monkeypatch.setenv("PYTEST_VLA_CACHE", str(tmp_path))
    with pytest.raises(AssertionError):
        expert_demonstrations(suite, 1)


def test_what_is_shown_is_what_an_episode_shows(windows: list[DemonstrationWindow], suite: Suite) -> None:
    """The hand at the first question is where the suite's own episode has it after settling."""
    task = suite.tasks[0]
    (window,) = (each for each in windows if each.task.name == task.name)
    with pytest_vla.World(task) as world:
        observation = world.reset(init_state=0, scene_seed=0)
        # A policy gets pictures turned against the world's, which are upright. An observation is sampled within the
        # last substep, and what is shown here is where that ended.
        away = np.abs(window.shown[0][SCENE].astype(int) - observation[SCENE][:, ::-1])
        assert away.mean() < 0.5
        assert np.abs(window.shown[0][STATE] - observation[STATE]).max() < 1e-3


@pytest.mark.slow
def test_a_turned_picture_is_named_and_mended(
    windows: list[DemonstrationWindow], demonstrations: tuple[RecordedDemonstration, ...], suite: Suite
) -> None:
    policy = BY_NAME["turned"].wrap(KnowingPolicy(windows))
    found = diagnose(policy, demonstrations, suite=suite, episodes=1)
    assert codes_of(found)[0] == "VLA-D010"
    assert found.diagnosis.explained[1] > found.diagnosis.explained[0] + 0.1
    assert any("[::-1, ::-1]" in line for line in found.adapter)
    # The adapter is Python, and does to a picture what it says.
    given: dict[str, Any] = {"yours": lambda episode: lambda seen: seen[SCENE][0, 0, :1], "np": np}
    exec("\n".join(found.adapter), given)
    picture = windows[0].shown[0][SCENE]
    act = given["policy"](None)
    assert act({**windows[0].shown[0]})[0, 0] == picture[-1, -1, 0]
    assert found.closed_loop is not None
    assert len(found.closed_loop.today) == len(found.closed_loop.proposed) == 1


def test_the_expert_has_no_wiring_to_examine(suite: Suite, demonstrations: tuple[RecordedDemonstration, ...]) -> None:
    found = diagnose(load_policy("expert"), demonstrations[:1], suite=suite, episodes=1)
    assert codes_of(found) == [WELL]
    assert found.closed_loop is not None
    assert found.closed_loop.today == (True,)


def recorded(each: RecordedDemonstration, change: Any = lambda seen: seen) -> RecordedDemonstration:
    """A demonstration that recorded what the suite shows, or a change of it."""
    with closing(WorldPool(allow_versions=True)) as pool:
        (window,) = windows_of([each], 1, pool, most=10_000)
    return replace(each, recorded=lambda row: change(dict(window.shown[row])))


def test_demonstrations_play_back(demonstrations: tuple[RecordedDemonstration, ...]) -> None:
    with closing(WorldPool(allow_versions=True)) as pool:
        (played,) = replay(demonstrations[:1], pool, lambda line: None)
        assert (played.succeeded, played.count) == (1, 1)
        assert played.drift_mm < 0.01
        scaled = replace(demonstrations[0], actions=demonstrations[0].actions / [*([20.0] * 6), 1.0])
        found = {each.reading: each.succeeded for each in replay([scaled], pool, lambda line: None)}
    assert found["as recorded"] == 0
    assert found["with translation and rotation times 20"] == 1
    assert [*found][-1] == "with translation and rotation times 20"


def test_half_the_rate_is_played_to_its_end() -> None:
    """Every action of the recording lasts two steps, so that it takes twice as many as it has rows."""
    expert: Any = load_policy("expert")

    def slow(episode: Any) -> Any:
        session = expert(episode)
        return lambda seen: np.repeat(np.atleast_2d(getattr(answer := session(seen), "actions", answer))[:1], 2, axis=0)

    slow.traits, slow.privileged = expert.traits, True  # type: ignore[attr-defined]
    task = next(each for each in load_suite("tabletop").tasks if each.name == SHORT[0])
    played = demonstration_files.recorded(task, 0, policy=slow)
    assert played.ended is not None
    assert played.ended.record.outcome == "success"
    start = RecordedStart("a recording", played.states[::2], (), {}, float(played.actions[0, -1]))
    nq = played.ended.trajectory.qpos.shape[1]
    each = RecordedDemonstration(
        "a recording", task, task.language, played.actions[::2], start=start, qpos=start.states[:, 1 : 1 + nq]
    )
    with closing(WorldPool(allow_versions=True)) as pool:
        found = {one.reading: one for one in replay([each], pool, lambda line: None)}
    assert found["as recorded"].succeeded == 0
    assert found["as recorded"].drift_mm > 10
    assert found["each twice, at half the rate"].succeeded == 1
    assert found["each twice, at half the rate"].drift_mm < 0.01


def test_an_episode_that_ends_with_an_error_is_no_failure(demonstrations: tuple[RecordedDemonstration, ...]) -> None:
    def policy(episode: Any) -> Any:
        def act(seen: Any) -> Any:
            raise OSError("the server is gone")

        return act

    settings = ExaminationSettings("a policy", episodes=1)
    with closing(WorldPool(allow_versions=True)) as pool:
        ran = run_closed_loop(policy, demonstrations[:1], settings, pool, None, lambda line: None)
    assert (ran.today, ran.proposed, len(ran.errors)) == ((False,), (), 1)
    assert "the server is gone" in ran.errors[0]
    well = DoctorFinding(WELL, "", "", "likely")
    (finding,) = with_closed_loop(Diagnosis((well,), (0.9, 0.9), {}, {}, (), {}, 9), ran).findings
    assert (finding.code, finding.confidence) == (CLOSED_LOOP, "certain")
    assert ran.errors[0] in finding.evidence


@pytest.mark.slow
def test_pictures_that_were_recorded_upside_down_are_named(
    windows: list[DemonstrationWindow], demonstrations: tuple[RecordedDemonstration, ...], suite: Suite
) -> None:
    """A policy that learned them knows them through its own pictures, and not through the suite's."""

    def upside_down(seen: dict[str, Any]) -> dict[str, Any]:
        return {**seen, SCENE: seen[SCENE][::-1]}

    some = [recorded(each, upside_down) for each in demonstrations]
    learned = [replace(each, shown=tuple(upside_down(dict(seen)) for seen in each.shown)) for each in windows]
    found = diagnose(KnowingPolicy(learned), some, suite=suite)
    (compared,) = (each for each in found.compared if each.name == SCENE)
    assert (compared.reading, compared.difference) == ("upside down", 0)
    assert codes_of(found)[0] == RECORDED_OTHERWISE
    assert found.exchanged["recorded"] > 0.9 > 0.8 > found.exchanged["the suite's"]
    assert found.exchanged[f"recorded {SCENE} alone"] == found.exchanged["recorded"]
    assert "VLA-D011" in codes_of(found)
    # One that learned the suite's does not need them so.
    found = diagnose(KnowingPolicy(windows), some, suite=suite)
    assert RECORDED_OTHERWISE not in codes_of(found)
    assert any(SCENE in each for each in found.notes)


@pytest.mark.slow
def test_actions_that_the_world_does_not_accept_are_named(
    demonstrations: tuple[RecordedDemonstration, ...], suite: Suite
) -> None:
    scaled = replace(recorded(demonstrations[0]), actions=demonstrations[0].actions / [*([20.0] * 6), 1.0])
    found = diagnose(random_policy, [scaled], suite=suite)
    assert codes_of(found)[0] == WORLD


def test_poses_become_relative_actions() -> None:
    generator = np.random.default_rng(0)
    actions = generator.uniform(-0.5, 0.5, (5, 7))
    from scipy.spatial.transform import Rotation

    place, turn = np.array([0.1, 0.2, 1.0]), Rotation.from_rotvec([3.0, 0.1, 0.2])
    poses, at = [], (place, turn)
    for action in actions:
        at = (at[0] + 0.05 * action[:3], Rotation.from_rotvec(0.5 * action[3:6]) * at[1])
        poses.append([*at[0], *at[1].as_rotvec(), action[6]])
    assert np.allclose(made_relative(np.array(poses), place, turn.as_quat()), actions)


def test_without_recorded_states_nothing_is_exchanged(windows: list[DemonstrationWindow]) -> None:
    settings = ExaminationSettings("a policy")
    assert exchange(KnowingPolicy(windows), windows, [], 4, settings, lambda line: None) == ({}, [])


@pytest.mark.parametrize(
    ("replan", "remembers", "length", "wanted"),
    [
        (None, True, 1, (1, 1, True)),  # executes a chunk by itself
        (None, False, 1, (1, 4, False)),
        (2, True, 8, (2, 2, True)),  # averages what it answered before
        (None, False, 16, (16, 16, False)),
        (9, False, 8, (8, 8, False)),
        (None, True, 8, (8, 8, False)),  # from chunk to chunk
    ],
)
def test_a_policy_is_asked_as_often_as_in_a_run(
    replan: int | None,
    remembers: bool,
    length: int,
    wanted: tuple[int, int, bool],
    demonstrations: tuple[RecordedDemonstration, ...],
) -> None:
    def policy(episode: Any) -> Any:
        asked: list[int] = []

        def act(seen: Any) -> Any:
            asked.append(1)
            return np.full((length, 7), len(asked) / 10 * remembers)

        return act

    with closing(WorldPool(allow_versions=True)) as pool:
        settings = ExaminationSettings("a policy", replan=replan)
        assert asked_every(policy, demonstrations[0], settings, pool) == wanted


@pytest.mark.parametrize("remembers", [False, True])
def test_questions_are_spread_over_all_demonstrations(
    remembers: bool, demonstrations: tuple[RecordedDemonstration, ...]
) -> None:
    """As many of each, over its whole length; where the policy remembers, one after the other of fewer."""
    some = [replace(demonstrations[0], name=str(number)) for number in range(8)]
    with closing(WorldPool(allow_versions=True)) as pool:
        found = windows_of(some, 4, pool, most=64, remembers=remembers)
    steps = {int(step) for each in found for step in np.diff(each.rows)}
    last = (len(some[0].actions) - 1) // 4 * 4
    if remembers:
        assert len({each.rows for each in found}) == 1
        assert (steps, found[0].rows[0], len(found) >= 4) == ({4}, 0, True)
    else:
        assert [len(each.rows) for each in found] == [8] * 8
        assert {(each.rows[0], each.rows[-1]) for each in found} == {(0, last)}
        assert min(steps) >= 4


def test_cameras_without_demonstrations_are_refused(suite: Suite) -> None:
    with pytest.raises(VlaError, match="--demos"):
        demonstrations_of(None, suite, cameras="front:agentview")


def test_a_suite_and_a_place_are_checked_before_demonstrations_are_made() -> None:
    with pytest.raises(VlaError, match="check-policy"):
        diagnose(random_policy, suite="pusht")
    with pytest.raises(VlaError, match="--demos is empty"):
        diagnose(random_policy, "")


def test_a_place_without_demonstrations_is_named(suite: Suite, tmp_path: Path) -> None:
    with pytest.raises(VlaError, match="nowhere"):
        demonstrations_of(str(tmp_path / "nowhere"), suite)


def test_a_proposal_that_fails_where_today_succeeds_is_only_possible() -> None:
    gains = DoctorFinding("VLA-D010", "", "", "likely", numbers={"gain": 0.1})
    known = DoctorFinding("VLA-D014", "", "", "certain")
    diagnosis = Diagnosis((gains, known), (0.5, 0.6), {}, {}, (), {}, 9)
    found = with_closed_loop(diagnosis, ClosedLoop(("a", "b"), (True, True), (True, False)))
    assert [each.confidence for each in found.findings] == ["possible", "certain"]
    assert with_closed_loop(diagnosis, ClosedLoop(("a",), (False,), (False,))) == diagnosis


def test_what_all_episodes_refute_is_only_possible() -> None:
    """A gripper that closes too rarely, and a small gain, beside an input that has no effect at all."""
    rarely = DoctorFinding("VLA-D042", "", "", "certain", numbers={"closed": 0.0})
    exact = DoctorFinding("VLA-D014", "", "", "certain")
    diagnosis = Diagnosis((rarely, exact), (0.5, 0.6), {}, {}, (), {}, 9)
    found = with_closed_loop(diagnosis, ClosedLoop(("a", "b"), (True, True))).findings
    assert [each.confidence for each in found] == ["possible", "certain"]
    assert "2 of 2" in found[0].evidence
    assert with_closed_loop(diagnosis, ClosedLoop(("a", "b"), (True, False))) == diagnosis


def test_a_policy_that_succeeds_is_not_said_to_have_the_wrong_weights() -> None:
    unknown = DoctorFinding(UNKNOWN, "", "", "likely", ("check that the weights loaded",))
    diagnosis = Diagnosis((unknown,), (0.2, 0.2), {}, {}, (), {}, 9)
    (found,) = with_closed_loop(diagnosis, ClosedLoop(("a", "b"), (True, False))).findings
    assert (found.confidence, "1 of 2" in found.evidence) == ("possible", True)
    assert found.lines != unknown.lines
    assert with_closed_loop(diagnosis, ClosedLoop(("a", "b"), (False, False))) == diagnosis


def test_an_episode_that_breaks_is_a_finding_even_if_another_succeeds() -> None:
    diagnosis = Diagnosis((DoctorFinding(WELL, "", "", "likely"),), (0.6, 0.6), {}, {}, (), {}, 9)
    closed = ClosedLoop(("a", "b"), (True, False), errors=("as wired today, b: policy-raised: IndexError",))
    (found,) = with_closed_loop(diagnosis, closed).findings
    assert (found.code, found.confidence, "policy-raised" in found.evidence) == (CLOSED_LOOP, "certain", True)
