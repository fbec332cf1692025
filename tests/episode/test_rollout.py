"""The episode loop on a world without a simulator: who is asked when, how an episode ends, what is recorded."""

import contextlib
import dataclasses
import time
from typing import Any

import numpy as np
import pytest

from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.plan.task import Task, with_protocol
from pytest_vla.policies.base import Answer, Episode, Wishes
from pytest_vla.policies.random_and_replay import random_policy
from pytest_vla.policies.tokens import TokenStatistics
from pytest_vla.records.explain import explain
from pytest_vla.records.record import parse_record, record_line
from pytest_vla.records.trajectory import digest_of
from pytest_vla.testing import World
from tests.support.point_episodes import CASE, SLOW, a_policy, a_task, run
from tests.support.waiting import HANG, LIMITS


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
        assert {"agentview_image", "robot0_eye_in_hand_image", "state", "robot0_eef_pos"} <= set(observation)
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


def test_a_policy_knows_how_much_of_a_chunk_is_executed() -> None:
    told = []

    def policy(episode: Episode) -> Any:
        told.append(episode.replan)
        return lambda observation: np.tile(SLOW, (4, 1))

    run(policy)
    run(policy, replan=2)
    policy.replan = 3  # type: ignore[attr-defined]
    run(policy)
    assert told == [None, 2, 3]


def a_statistics(**changed: Any) -> TokenStatistics:
    values = {"first": [0.5], "second": [0.4], "squares": [0.42], "entropy": [0.9], "vocabulary": 4}
    return TokenStatistics(**{**values, **changed})  # type: ignore[arg-type]


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
        (Answer(SLOW, token_statistics=a_statistics(first=[2.0])), "policy-shape"),
        (Answer(SLOW, token_statistics=a_statistics(first=[np.nan])), "policy-nan"),
        (Answer(SLOW, token_statistics=a_statistics(second=["no"])), "policy-dtype"),
        (Answer(SLOW, token_statistics=a_statistics(second=[0.4, 0.2])), "policy-shape"),
        (Answer(SLOW, token_statistics=a_statistics(second=[0.6])), "policy-shape"),
        (Answer(SLOW, token_statistics=a_statistics(squares=[0.1])), "policy-shape"),
        (Answer(SLOW, token_statistics=a_statistics(entropy=[1.5])), "policy-shape"),
        (Answer(SLOW, token_statistics=a_statistics(vocabulary=1)), "policy-shape"),
        (Answer(SLOW, token_statistics=a_statistics(vocabulary=4.5)), "policy-shape"),
        (Answer(SLOW, token_statistics={"first": [0.5]}), "policy-dtype"),  # type: ignore[arg-type]
        (Answer(SLOW, None, np.array([0.5, 0.5]), a_statistics()), "policy-shape"),
        (Answer(np.zeros(3)), "policy-shape"),
        (Answer(SLOW, seconds=-0.1), "policy-dtype"),
        (Answer(SLOW, seconds=float("nan")), "policy-dtype"),
        (Answer(SLOW, seconds="0.1"), "policy-dtype"),  # type: ignore[arg-type]
    ],
)
def test_what_is_given_beside_actions_is_checked(answer: Answer, reason: str) -> None:
    assert run(a_policy(lambda observation: answer)).record.reason == reason


# When an episode has succeeded.


class Blinking(World):
    """A world whose goal holds after the given steps only."""

    def __init__(self, holds: set[int]) -> None:
        super().__init__(a_task())
        self._holds = holds

    def success(self) -> bool:
        return self.steps in self._holds


@pytest.mark.parametrize(
    ("rule", "holds", "outcome", "steps", "first"),
    [
        ("first", {3, 4, 5}, "success", 3, None),
        ("held:3", {3, 5, 6, 7, 8}, "success", 7, 3),
        ("held:3", {3, 4, 6, 7}, "failure", 20, 3),
        ("end", {3, 20}, "success", 20, 3),
        ("end", {20}, "success", 20, None),
        ("end", {3, 19}, "failure", 20, 3),
    ],
)
def test_success_is_first_or_lasts(rule: str, holds: set[int], outcome: str, steps: int, first: int | None) -> None:
    task = with_protocol(a_task(), success=rule)
    world = Blinking(holds)
    record = run_episode(CASE, task, a_policy(lambda seen: SLOW), lambda *_: world, Conditions("mine")).record
    assert (record.outcome, record.steps) == (outcome, steps)
    assert record.metrics.get("first_success_step") == first
    assert record.protocol.get("success", "first") == rule


def test_a_gripper_of_minus_one_is_refused_where_zero_closes() -> None:
    task = with_protocol(a_task(), gripper="one_opens", evaluator="openvla")
    made = lambda task, variation: World(task, variation)  # noqa: E731
    record = run_episode(CASE, task, a_policy(lambda seen: SLOW), made, Conditions("mine")).record
    assert (record.outcome, record.reason) == ("error", "policy-range")
    opening = np.array([0.5, 0.1, 0, 0, 0, 0, 1.0])
    rollout = run_episode(CASE, task, a_policy(lambda seen: opening), made, Conditions("mine"))
    assert rollout.trajectory is not None
    assert set(rollout.trajectory.actions[:, 6]) == {-1.0}


def test_a_prompt_is_beside_the_instruction() -> None:
    seen = []
    task = with_protocol(a_task(), prompt="In: {instruction}?")
    policy = lambda episode: seen.append(episode) or (lambda observation: SLOW)  # noqa: E731
    run_episode(CASE, task, policy, lambda task, variation: World(task, variation), Conditions("mine"))
    assert (seen[0].instruction, seen[0].prompt) == ("turn on the stove", "In: turn on the stove?")
