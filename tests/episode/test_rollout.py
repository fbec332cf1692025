"""The episode loop on a world without a simulator: who is asked when, how an episode ends, what is recorded."""

import contextlib
import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pytest_vla.episode.rollout import Conditions, Rollout, run_episode
from pytest_vla.errors import EpisodeError, VlaError
from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.plan.task import Task
from pytest_vla.policies.base import Answer, Episode, Wishes
from pytest_vla.policies.random import random_policy
from pytest_vla.records.explain import explain
from pytest_vla.records.record import parse_record, record_line
from pytest_vla.records.trajectory import digest_of
from pytest_vla.scene.variation import Variation
from pytest_vla.testing import World
from tests.support.waiting import HANG, LIMITS

CASE = Case("libero_goal", "turn_on_the_stove", 0)
SLOW = np.array([0.5, 0.1, 0, 0, 0, 0, -1.0])


def a_task(max_steps: int = 20, image_transform: str = "rotate_180") -> Task:
    task = load_suite("libero_goal").task("turn_on_the_stove")
    protocol = dataclasses.replace(task.protocol, max_steps=max_steps, image_transform=image_transform)
    return dataclasses.replace(task, protocol=protocol)


def a_policy(answer: Callable[..., Any]) -> Any:
    """A policy whose sessions answer with `answer(observation)`."""
    return lambda episode: answer


def run(policy: Any, world: World | None = None, *, case: Case = CASE, max_steps: int = 20, **options: Any) -> Rollout:
    task = a_task(max_steps)
    conditions = Conditions("mine", **options)
    return run_episode(case, task, policy, lambda task, variation: world or World(task, variation), conditions)


def test_success_ends_the_episode_at_the_step_that_did_it() -> None:
    ended = run(a_policy(lambda observation: SLOW))
    # 0.025 m a step: beyond 0.2 m after nine steps.
    assert (ended.record.outcome, ended.steps, ended.record.success_step) == ("success", 9, 9)
    assert ended.success
    assert ended.record.literals == {"(beyond point_1 line_1)": ((0, False), (9, True)), "(is point_1)": ((0, True),)}
    assert ended.record.held == {"(beyond point_1 line_1)": True, "(is point_1)": True}
    assert ended.record.reason is None


def test_a_suite_may_pin_the_init_state() -> None:
    task, world = a_task(), World(a_task())
    pinned = dataclasses.replace(task, protocol=dataclasses.replace(task.protocol, init_state=3))
    case = dataclasses.replace(CASE, seed=7)
    record = run_episode(case, pinned, a_policy(lambda o: SLOW), lambda task, changed: world, Conditions("mine")).record
    assert world.resets == [(3, 7, True)]
    assert (record.seeds["init_state"], record.seeds["scene"], record.protocol["init_state"]) == (3, 7, 3)


def test_success_within_a_chunk_ends_the_episode_there() -> None:
    assert run(a_policy(lambda observation: np.tile(SLOW, (20, 1)))).steps == 9


def test_failure_is_the_step_budget_used_up() -> None:
    ended = run(a_policy(lambda observation: SLOW * 0), max_steps=7)
    assert (ended.record.outcome, ended.steps, ended.record.success_step) == ("failure", 7, None)
    assert not ended.success
    assert ended.record.held == {"(beyond point_1 line_1)": False, "(is point_1)": True}
    assert ended.record.eef_pos == (0.0, 0.0, 1.0)


def test_success_at_the_last_step_counts() -> None:
    assert run(a_policy(lambda observation: SLOW), max_steps=9).success
    assert not run(a_policy(lambda observation: SLOW), max_steps=8).success


@pytest.mark.parametrize(
    ("replan", "chunk", "asked_at"),
    [(None, 1, [0, 1, 2, 3, 4, 5, 6]), (None, 3, [0, 3, 6]), (2, 3, [0, 2, 4, 6]), (5, 3, [0, 3, 6]), (1, 3, range(7))],
)
def test_the_session_is_asked_again_when_the_chunk_is_used(replan: int | None, chunk: int, asked_at: Any) -> None:
    world, asked = World(a_task()), []

    def answer(observation: Any) -> Any:
        asked.append(world.steps)
        return np.tile(SLOW * 0, (chunk, 1))

    ended = run(a_policy(answer), world, max_steps=7, replan=replan)
    assert asked == list(asked_at)
    assert ended.steps == 7, "a chunk does not run past the budget"
    assert ended.record.replan == replan


def test_a_seed_is_init_state_and_scene_seed() -> None:
    world = World(a_task())
    ended = run(a_policy(lambda observation: SLOW), world, case=dataclasses.replace(CASE, seed=57))
    assert world.resets == [(7, 57, True)]
    assert ended.record.seeds == {"run": 0, "scene": 57, "init_state": 7, "init_states": 50}


def test_a_goal_that_holds_at_the_start_is_invalid_and_nobody_is_asked() -> None:
    def begin(episode: Episode) -> Any:
        raise AssertionError("there is nothing to do")

    ended = run(begin, case=dataclasses.replace(CASE, seed=13))
    assert (ended.record.outcome, ended.record.reason, ended.steps) == ("invalid", "goal-holds-at-start", 0)
    assert len(ended.trajectory.qpos) == 1


def test_no_picture_is_drawn_that_nobody_reads() -> None:
    world = World(a_task())
    run(random_policy, world)
    assert world.pictures == 0
    run(a_policy(lambda observation: (observation["agentview_image"], np.tile(SLOW * 0, (5, 1)))[1]), world)
    assert world.pictures == 4


def test_the_policy_sees_the_mirror_image_of_upright() -> None:
    seen: list[Any] = []

    def answer(observation: Any) -> Any:
        assert "agentview_image" in observation
        assert "nothing" not in observation
        assert set(observation) == {"agentview_image", "robot0_eye_in_hand_image", "state", "robot0_eef_pos"}
        seen.append(observation["agentview_image"])
        assert observation["agentview_image"] is seen[0], "drawn once"
        return np.tile(SLOW * 0, (20, 1))

    world = World(a_task())
    run(a_policy(answer), world)
    upright = world.reset(0, 0, True)["agentview_image"]
    raw = upright[::-1]
    assert np.array_equal(seen[0], raw[::-1, ::-1])
    assert not np.array_equal(seen[0], upright)
    assert seen[0].flags.c_contiguous
    assert world.pictures == 2


def test_a_suite_without_transform_shows_upright() -> None:
    seen: list[Any] = []

    def answer(observation: Any) -> Any:
        seen.append(observation["agentview_image"])
        return SLOW

    policy = a_policy(answer)
    world = World(a_task())
    run_episode(CASE, a_task(1, "none"), policy, lambda task, changed: world, Conditions("mine"))
    assert np.array_equal(seen[0], world.reset(0, 0, True)["agentview_image"])


def test_the_episode_that_a_policy_gets() -> None:
    episodes: list[Episode] = []

    def begin(episode: Episode) -> Any:
        episodes.append(episode)
        return lambda observation: SLOW

    run(begin)
    run(begin)
    run(begin, case=dataclasses.replace(CASE, seed=1))
    run(begin, run_seed=1)
    first = episodes[0]
    assert (first.case_id, first.suite, first.task) == (CASE.id, "libero_goal", "turn_on_the_stove")
    assert (first.instruction, first.seed) == ("turn on the stove", 0)
    same, repeat, other_case, other_run = (episode.rng.random() for episode in episodes)
    assert same == repeat
    assert len({same, other_case, other_run}) == 3


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        (lambda o: np.zeros(6), "policy-shape", "(6,)"),
        (lambda o: np.zeros((2, 2, 7)), "policy-shape", "(2, 2, 7)"),
        (lambda o: np.zeros((0, 7)), "policy-shape", "(0, 7)"),
        (lambda o: np.zeros(()), "policy-shape", "()"),
        (lambda o: None, "policy-dtype", "NoneType"),
        (lambda o: [True] * 7, "policy-dtype", "bool"),
        (lambda o: [[1.0] * 7, [1.0] * 6], "policy-dtype", "no array"),
        (lambda o: np.array([[0.0] * 7, [0.0] * 6 + [np.nan]]), "policy-nan", "action 1 of the chunk of 2"),
        (lambda o: np.full(7, np.inf), "policy-nan", "inf"),
        (lambda o: 1 / 0, "policy-raised", "ZeroDivisionError: division by zero"),
        (lambda o: o["wrist_image"], "policy-raised", "no 'wrist_image'; it has agentview_image"),
    ],
)
def test_a_policy_that_breaks_is_an_error_with_a_code(answer: Any, reason: str, words: str) -> None:
    ended = run(a_policy(answer))
    assert (ended.record.outcome, ended.record.reason, ended.steps) == ("error", reason, 0)
    assert words in str(ended.record.message)


def test_an_exception_says_where_it_was_raised() -> None:
    def begin(episode: Episode) -> Any:
        raise ImportError("no torch")

    ended = run(begin)
    assert ended.record.reason == "policy-raised"
    assert f"at the episode's begin: ImportError: no torch ({__file__}:" in str(ended.record.message)


def _exits(observation: Any) -> Any:
    raise SystemExit(3)


class _Unspeakable(RuntimeError):
    def __str__(self) -> str:
        raise ValueError("no text")


def _unspeakable(observation: Any) -> Any:
    raise _Unspeakable


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (_exits, "SystemExit: 3"),
        (lambda o: pytest.skip("not today"), "Skipped: not today"),
        (lambda o: pytest.fail("Timeout >5.0s"), "Failed: Timeout >5.0s"),
        (_unspeakable, "_Unspeakable: (its text raises ValueError)"),
    ],
)
def test_whatever_a_policy_raises_leaves_a_record(answer: Any, words: str) -> None:
    ended = run(a_policy(answer))
    assert (ended.record.outcome, ended.record.reason) == ("error", "policy-raised")
    assert words in str(ended.record.message)
    assert "Traceback (most recent call last)" in ended.details


@pytest.mark.parametrize("error", [KeyboardInterrupt(), pytest.exit.Exception("enough")])
def test_an_interrupt_ends_the_run_and_not_the_episode(error: BaseException) -> None:
    def answer(observation: Any) -> Any:
        raise error

    with pytest.raises(type(error)):
        run(a_policy(answer))


def test_the_place_of_an_error_is_the_users_own_line() -> None:
    def answer(observation: Any) -> Any:
        return observation["no such thing"]

    line = answer.__code__.co_firstlineno + 1
    ended = run(a_policy(answer))
    assert f"({__file__}:{line})" in str(ended.record.message)
    assert "view.py" in ended.details


def test_a_policy_that_returns_no_session_is_told_the_protocol() -> None:
    ended = run(lambda episode: SLOW)
    assert ended.record.reason == "policy-protocol"
    assert "this one returned ndarray" in str(ended.record.message)


@pytest.mark.parametrize(
    ("component", "reason", "words"),
    [(5, "physics-nan", "bad acceleration at step 3"), (4, "world-raised", "ZeroDivisionError: a defect of ours")],
)
def test_a_world_that_breaks_is_an_error_and_what_was_seen_is_kept(component: int, reason: str, words: str) -> None:
    bad = np.zeros(7)
    bad[component] = 1.0
    ended = run(a_policy(lambda observation: np.array([SLOW, SLOW, SLOW, bad, SLOW])))
    assert (ended.record.outcome, ended.record.reason, ended.steps) == ("error", reason, 3)
    assert words in str(ended.record.message)
    assert ended.trajectory.actions.shape == (3, 7)
    assert ended.trajectory.qpos.shape == (4, 3)


def test_a_world_that_cannot_be_built_is_an_error() -> None:
    def open_world(task: Task, variation: Variation | None) -> World:
        raise VlaError("plate.xml: not found")

    ended = run_episode(CASE, a_task(), random_policy, open_world, Conditions("random"))
    assert (ended.record.outcome, ended.record.reason) == ("error", "world-unusable")
    assert ended.record.message == "plate.xml: not found"
    assert ended.record.eef_pos is None
    assert ended.trajectory.actions.shape == (0, 7)
    assert "numpy" in ended.record.provenance


def test_an_interrupt_is_not_an_outcome() -> None:
    def interrupt(observation: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(a_policy(interrupt))


class Closing:
    def __init__(self, answer: Any, fault: Exception | None = None) -> None:
        self.closed, self.answer, self.fault = 0, answer, fault

    def __call__(self, observation: Any) -> Any:
        return self.answer()

    def close(self) -> None:
        self.closed += 1
        if self.fault:
            raise self.fault


@pytest.mark.parametrize("answer", [lambda: SLOW, lambda: None])
def test_a_session_is_closed_once_however_it_ended(answer: Any) -> None:
    session = Closing(answer)
    run(lambda episode: session)
    assert session.closed == 1


def test_a_session_that_cannot_be_closed_is_an_error() -> None:
    ended = run(lambda episode: Closing(lambda: SLOW, OSError("lost")))
    assert (ended.record.outcome, ended.record.reason) == ("error", "policy-raised")
    assert "at the episode's end: OSError: lost" in str(ended.record.message)


def test_what_broke_first_is_told() -> None:
    def answer() -> Any:
        raise RuntimeError("the real cause")

    session = Closing(answer, OSError("lost"))
    ended = run(lambda episode: session)
    assert "the real cause" in str(ended.record.message)
    assert session.closed == 1


def test_a_policys_own_code_is_kept() -> None:
    def answer(observation: Any) -> Any:
        raise EpisodeError("policy-timeout", "no answer in 5 s")

    assert run(a_policy(answer)).record.reason == "policy-timeout"


def test_the_trajectory_is_every_state_and_every_action() -> None:
    ended = run(a_policy(lambda observation: SLOW))
    trajectory = ended.trajectory
    assert trajectory.actions.tolist() == [SLOW.tolist()] * 9
    assert trajectory.qpos.shape == trajectory.qvel.shape == trajectory.eef_pos.shape == (10, 3)
    assert np.allclose(trajectory.qpos[:, 0], 0.025 * np.arange(10))
    assert np.array_equal(trajectory.eef_pos, trajectory.qpos)


def test_equal_episodes_have_equal_digests_and_others_do_not() -> None:
    def digest(scale: float, seed: int = 0, max_steps: int = 20) -> str:
        case = dataclasses.replace(CASE, seed=seed)
        return run(a_policy(lambda o: SLOW * scale), case=case, max_steps=max_steps).record.digest

    assert digest(1) == digest(1)
    assert len({digest(1), digest(1 + 1e-15), digest(1, seed=1), digest(1, max_steps=3)}) == 4


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "failure"},
        {"steps": 8},
        {"literals": {"(is point_1)": ((0, True),)}},
        {"name": "qpos"},
        {"name": "qvel"},
        {"name": "actions"},
    ],
)
def test_everything_that_an_episode_did_is_in_its_digest(change: dict[str, Any]) -> None:
    ended = run(a_policy(lambda o: SLOW))
    record, trajectory = ended.record, ended.trajectory
    if "name" in change:
        array = getattr(trajectory, change["name"]).copy()
        array[-1, 0] = np.nextafter(array[-1, 0], np.inf)
        trajectory = dataclasses.replace(trajectory, **{change["name"]: array})
    else:
        record = dataclasses.replace(record, **change)
    assert digest_of(record.outcome, record.steps, record.literals, trajectory) != ended.record.digest


def test_timings_and_names_are_not_in_the_digest() -> None:
    one, other = (run(a_policy(lambda o: SLOW), run=name) for name in ("a", "b"))
    assert one.record.digest == other.record.digest
    assert one.record.timings.keys() == {"wall", "reset", "policy", "world"}
    assert 0 < one.record.timings["world"] <= one.record.timings["wall"]


@pytest.mark.parametrize("seed", [0, 13, 1])
def test_a_record_is_a_line_of_builtin_types(seed: int) -> None:
    record = run(random_policy, case=dataclasses.replace(CASE, seed=seed), run="a-run").record
    line = record_line(record)
    assert "\n" not in line
    read = parse_record(line)
    assert record_line(read) == line
    assert (read.digest, read.eef_pos, read.provenance["scene"]) == (record.digest, record.eef_pos, "a point")


def test_an_explanation_tells_what_a_person_wants_to_know_first() -> None:
    record = run(a_policy(lambda observation: SLOW * 0), max_steps=7).record
    assert explain(record, "pytest x").splitlines() == [
        "not done after 7 of 7 steps",
        "  does not hold  (beyond point_1 line_1)",
        "  holds          (is point_1)",
        "  end effector at (0.000, 0.000, 1.000) m",
        "  run it alone: pytest x",
    ]
    broken = run(a_policy(lambda observation: np.zeros(3)), max_steps=7)
    assert explain(broken.record).startswith("error policy-shape after 0 of 7 steps: a session returns an action (7,)")
    assert repr(broken).startswith("<Rollout libero_goal/turn_on_the_stove[seed0]: error policy-shape")


def test_a_wall_limit_leaves_whole_rows_wherever_it_hits() -> None:
    for number in range(200):
        ended = run(a_policy(lambda observation: SLOW * 0), max_steps=10**6, timeout=0.003 + number * 1e-5)
        assert (ended.record.outcome, ended.record.reason) == ("error", "timeout")
        steps, trajectory = ended.steps, ended.trajectory
        assert trajectory.actions.shape == (steps, 7)
        rows = len(trajectory.qpos)
        assert trajectory.qvel.shape[0] == trajectory.eef_pos.shape[0] == rows
        assert rows == steps + 1 or (rows, steps) == (0, 0)
        assert record_line(ended.record)


def test_a_policy_that_hides_a_wall_limit_is_a_timeout_all_the_same() -> None:
    def hiding(observation: Any) -> Any:
        try:
            asked.append(1)
            time.sleep(HANG)
        except BaseException as error:
            raise RuntimeError("a retry went wrong") from error

    def swallowing(observation: Any) -> Any:
        with contextlib.suppress(BaseException):
            asked.append(1)
            time.sleep(HANG)
        return SLOW * 9

    asked: list[int] = []
    for answer in (hiding, swallowing):
        asked.clear()
        for seconds in LIMITS:
            record = run(a_policy(answer), timeout=seconds).record
            assert (record.outcome, record.reason) == ("error", "timeout")
            assert f"no end within {seconds:g} s; stopped at " in str(record.message)
            if asked:
                break
        assert f"in {answer.__name__} (--vla-timeout)" in str(record.message)


def a_suite_that(out_of_range: str) -> Task:
    task = a_task()
    return dataclasses.replace(task, protocol=dataclasses.replace(task.protocol, out_of_range=out_of_range))


WILD = np.array([[0.5, 0, 0, 0, 0, 0, -1.0], [0.5, 0, 1.25, 0, 0, 0, -1.0]])


def test_actions_out_of_range_are_clipped_where_the_suite_says_so() -> None:
    ended = run_episode(CASE, a_suite_that("clip"), a_policy(lambda o: WILD), World, Conditions("mine"))
    assert ended.success
    assert np.array_equal(ended.trajectory.actions[:2], WILD.clip(-1, 1))
    assert ended.record.metrics == {"clipped_actions": ended.steps // 2, "largest_action": 1.25}


def test_actions_out_of_range_are_an_error_where_the_suite_says_so() -> None:
    ended = run_episode(CASE, a_suite_that("error"), a_policy(lambda o: WILD), World, Conditions("mine"))
    assert (ended.record.outcome, ended.record.reason, ended.steps) == ("error", "policy-range", 0)
    assert "action 1 of the chunk of 2 is not in [-1, 1]: [0.5, 0.0, 1.25," in str(ended.record.message)


def test_what_is_wished_for_beside_actions_is_kept_with_its_step() -> None:
    def policy(episode: Episode) -> Any:
        assert episode.wishes == Wishes(samples=3, token_probabilities=True)

        def act(observation: Any) -> Answer:
            chunk = np.tile(SLOW, (4, 1))
            return Answer(chunk, np.stack([chunk] * episode.wishes.samples), np.array([0.5, 1.0]))

        return act

    ended = run(policy, wishes=Wishes(3, True))
    assert [step for step, _ in ended.answers] == [0, 4, 8]
    assert {answer.samples.shape for _, answer in ended.answers if answer.samples is not None} == {(3, 4, 7)}
    assert ended.record.digest == run(a_policy(lambda o: np.tile(SLOW, (4, 1)))).record.digest
    assert run(a_policy(lambda o: SLOW)).answers == ()


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Answer(SLOW, samples=np.zeros((3, 7))), "policy-shape"),
        (Answer(SLOW, samples=np.full((3, 1, 7), np.nan)), "policy-nan"),
        (Answer(SLOW, token_probabilities=np.array([1.5])), "policy-shape"),
        (Answer(SLOW, token_probabilities=np.array(["high"])), "policy-dtype"),
        (Answer(np.zeros(3)), "policy-shape"),
    ],
)
def test_what_is_given_beside_actions_is_checked(answer: Answer, reason: str) -> None:
    assert run(a_policy(lambda observation: answer)).record.reason == reason
