"""The world moves on while the policy thinks: which actions are executed, and what is recorded."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.episode.apply_metrics import with_metrics
from pytest_vla.episode.rollout import Conditions, run_episode
from pytest_vla.episode.world_pool import OwnWorld
from pytest_vla.errors import VlaError
from pytest_vla.metrics.selection import by_model
from pytest_vla.plan.case import Case
from pytest_vla.plan.choices import (
    CLIENTS,
    LATE,
    NO_LATENCY,
    SKIP,
    WAIT,
    Realtime,
    latency_rule,
    parse_latency,
    steps_late,
)
from pytest_vla.plan.task import Task
from pytest_vla.policies.base import Answer, Wishes
from pytest_vla.policies.fit import Traits
from pytest_vla.records.counting import conditions_of, key_of
from pytest_vla.testing import PointWorld, World, point_suite
from pytest_vla.vary.registry import find_variation
from tests.support.point_episodes import CASE, a_task, run

HZ = 20
FIRST, GRIP = 0.01, 0.5
"""The first action of the first chunk, along y; and the gripper in all."""


def numbered(*lengths: int, seconds: list[float] | None = None) -> Any:
    """A policy whose action i of chunk c (from 1) goes c hundredths and i ten-thousandths along y.

    Its chunks have these lengths, and the last one from then on; `seconds` of its answers likewise.
    """

    def begin(episode: Any) -> Any:
        number = 0

        def answer(observation: Any) -> Any:
            nonlocal number
            number += 1
            length = lengths[min(number, len(lengths)) - 1]
            chunk = np.zeros((length, 7))
            chunk[:, 1], chunk[:, 6] = FIRST * number + FIRST / 100 * np.arange(length), GRIP
            if seconds is None:
                return chunk
            return Answer(chunk, seconds=seconds[min(number, len(seconds)) - 1])

        return answer

    return begin


def told(actions: Any) -> list[str]:
    """Each action as ``chunk.place``, or ``-`` where the arm holds."""
    assert (actions[:, [0, 2, 3, 4, 5]] == 0).all()
    numbers = [round(10_000 * along) for along in actions[:, 1]]
    return [f"{number // 100}.{number % 100}" if number else "-" for number in numbers]


def played(policy: Any, steps: int, late: int, client: str = SKIP, **options: Any) -> list[str]:
    ended = run(policy, max_steps=steps, realtime=Realtime(late / HZ, client), **options)
    assert ended.steps == steps
    holds = [each == "-" for each in told(ended.trajectory.actions)]
    assert ended.record.metrics.get("held_steps", 0) == sum(holds)
    return told(ended.trajectory.actions)


def chunk(number: int, first: int = 0, end: int = 8) -> list[str]:
    return [f"{number}.{place}" for place in range(first, end)]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("length", "replan"), [(1, None), (8, None), (8, 3), (3, 8)])
def test_without_latency_all_clients_execute_whole_chunks(client: str, length: int, replan: int | None) -> None:
    taken = min(replan or length, length)
    expected = [f"{1 + step // taken}.{step % taken}" for step in range(18)]
    assert played(numbered(length), 18, 0, client, replan=replan) == expected


@pytest.mark.parametrize("client", [LATE, SKIP, "blend"])
def test_single_actions_are_asked_for_as_soon_as_one_has_come(client: str) -> None:
    assert played(numbered(1), 5, 1, client) == ["-", "1.0", "2.0", "3.0", "4.0"]
    assert played(numbered(1), 11, 3, client) == [*"---", "1.0", *"--", "2.0", *"--", "3.0", "-"]


def test_a_client_that_waits_asks_when_it_has_nothing_left() -> None:
    assert played(numbered(1), 6, 1, WAIT) == ["-", "1.0", "-", "2.0", "-", "3.0"]
    assert played(numbered(8), 15, 3, WAIT) == [*"---", *chunk(1), *"---", "2.0"]
    assert played(numbered(8), 12, 3, WAIT, replan=4) == [*"---", *chunk(1, 0, 4), *"---", "2.0", "2.1"]


def test_the_next_chunk_is_asked_for_ahead() -> None:
    # Asked at step 8, of which the answer is ready at step 11, when the first chunk has been executed.
    assert played(numbered(8), 20, 3, LATE) == [*"---", *chunk(1), *chunk(2), "3.0"]
    assert played(numbered(8), 20, 3, SKIP) == [*"---", *chunk(1), *chunk(2, 3), *chunk(3, 3, 7)]
    assert played(numbered(8), 12, 1, LATE, replan=4) == ["-", *chunk(1, 0, 4), *chunk(2, 0, 4), *chunk(3, 0, 3)]
    assert played(numbered(8), 12, 1, SKIP, replan=4) == ["-", *chunk(1, 0, 4), *chunk(2, 1, 5), *chunk(3, 1, 4)]
    # Two actions are executed sooner than the answer comes: the rest of the chunk is played on.
    assert played(numbered(8), 9, 3, LATE, replan=2) == [*"---", *chunk(1, 0, 3), *chunk(2, 0, 3)]
    assert played(numbered(8), 9, 3, SKIP, replan=2) == [*"---", *chunk(1, 0, 3), *chunk(2, 3, 6)]


def test_of_a_chunk_that_is_stale_the_last_action_is_left() -> None:
    assert played(numbered(8, 2), 13, 3, SKIP) == [*"---", *chunk(1), "2.1", "-"]


def test_blended_actions_are_three_tenths_the_chunk_before() -> None:
    ended = run(numbered(8), max_steps=9, realtime=Realtime(1 / HZ, "blend"), replan=4)
    along = ended.trajectory.actions[:, 1] * 10_000
    # The first chunk has actions 100 to 107; the second begins at 201, over 104 to 107.
    blended = [0.3 * (104 + step) + 0.7 * (201 + step) for step in range(4)]
    assert along == pytest.approx([0, 100, 101, 102, 103, *blended])


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.integers(0, 7),
    st.one_of(st.none(), st.integers(1, 9)),
    st.sampled_from([WAIT, LATE, SKIP]),
)
def test_what_is_executed_is_of_a_chunk_in_order_or_a_hold(
    lengths: list[int], late: int, replan: int | None, client: str
) -> None:
    found = played(numbered(*lengths), 40, late, client, replan=replan)
    assert found[:late] == ["-"] * late
    assert found[late] == "1.0"
    places: dict[int, list[int]] = {}
    order = []
    for each in found:
        if each != "-":
            number, place = map(int, each.split("."))
            places.setdefault(number, []).append(place)
            order.append(number)
    assert order == sorted(order)
    assert list(places) == list(range(1, len(places) + 1)), "no answer is left out"
    for number, taken in places.items():
        length = lengths[min(number, len(lengths)) - 1]
        assert taken == list(range(taken[0], taken[-1] + 1))
        assert taken[-1] < length
        assert taken[0] == 0 if client != SKIP else taken[0] <= min(late, length - 1)
        if client == WAIT or late == 0:
            assert len(taken) <= (replan or length)
    if late == 0:
        assert "-" not in found


@given(st.integers(1, 9), st.one_of(st.none(), st.integers(1, 9)), st.sampled_from(CLIENTS))
def test_no_latency_is_the_same_as_no_option(length: int, replan: int | None, client: str) -> None:
    plain = run(numbered(length), replan=replan).record
    none = run(numbered(length), replan=replan, realtime=Realtime(0.0, client)).record
    assert none.digest == plain.digest
    if client == SKIP:
        assert conditions_of(none) == conditions_of(plain)
        assert (none.metrics, none.timings.keys()) == (plain.metrics, plain.timings.keys())


def test_the_policy_is_told_how_late_its_answers_are() -> None:
    told_late = []

    def begin(episode: Any) -> Any:
        told_late.append(episode.late)
        return lambda observation: [0, FIRST, 0, 0, 0, 0, GRIP]

    for latency in (NO_LATENCY, Realtime(0.12), Realtime(None)):
        run(begin, max_steps=3, realtime=latency)
    assert told_late == [0, 3, None]


def test_steps_of_a_latency_are_rounded_up_but_not_for_rounding_errors() -> None:
    assert [steps_late(seconds, HZ) for seconds in (0, 0.001, 0.05, 0.051, 0.15, 0.55, 0.35)] == [0, 1, 1, 2, 3, 11, 7]
    assert [steps_late(round(0.05 * step, 2), HZ) for step in range(100)] == list(range(100))


def test_measured_answers_are_as_late_as_they_took_by_the_policys_own_clock() -> None:
    ended = run(numbered(4, seconds=[0.1, 0.05, 0.2]), max_steps=12, realtime=Realtime(None, LATE))
    # The second question is asked two steps ahead, since the first answer took that long, and comes one step early.
    assert told(ended.trajectory.actions) == [*"--", *chunk(1, 0, 3), *chunk(2, 0, 4), *"--", "3.0"]
    assert ended.record.provenance["realtime"] == "measured, late"
    assert (ended.record.timings["answer"], ended.record.timings["answer_p90"]) == (0.15, 0.2)


def test_drawing_is_not_thinking(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("pytest_vla.episode.rollout.perf_counter", lambda: now)
    picture = World.picture

    def drawn(self: World, camera: str) -> Any:
        nonlocal now
        now += 1.0
        return picture(self, camera)

    def answer(observation: Any) -> Any:
        nonlocal now
        now += 0.1
        assert observation["agentview_image"] is not None
        return np.tile([0, FIRST, 0, 0, 0, 0, 1.0], (20, 1))

    monkeypatch.setattr(World, "picture", drawn)
    ended = run(lambda episode: answer, realtime=Realtime(None))
    assert ended.record.timings["answer"] == pytest.approx(0.1)
    assert ended.record.metrics["held_steps"] == 2


def test_the_arm_holds_its_pose_and_keeps_the_gripper() -> None:
    def begin(episode: Any) -> Any:
        return lambda observation: [0.3, 0, 0, 0, 0, 0, 5.0]

    ended = run(begin, max_steps=5, realtime=Realtime(0.05, WAIT))
    moves, settle = [0.3, 0, 0, 0, 0, 0, 1.0], list(a_task().protocol.settle_action)
    assert ended.trajectory.actions.tolist() == [settle, moves, [0.0] * 6 + [1.0], moves, [0.0] * 6 + [1.0]]
    assert ended.record.metrics["clipped_actions"] == 2, "what is held is no action of the policy"
    begin.traits = Traits(action_convention="absolute")  # type: ignore[attr-defined]
    poses = run(begin, max_steps=4, realtime=Realtime(0.05, WAIT)).trajectory.actions
    # The point is at (0, 0, 1).
    assert poses == pytest.approx(np.array([[0, 0, 1, 0, 0, 0, -1], *3 * [[0.3, 0, 0, 0, 0, 0, 5]]]))


class Clinging(PointWorld):
    def hold(self, last: Any) -> Any:
        return [0.25, 0.0] if last is None else last


def test_a_suites_own_world_says_how_it_holds() -> None:
    def actions(world: type[PointWorld]) -> Any:
        task = point_suite(world=world).tasks[0]
        task = replace(task, protocol=replace(task.protocol, max_steps=4))
        conditions = Conditions("mine", realtime=Realtime(0.05, WAIT))
        case = Case(task.suite, task.name, 0)
        begin = lambda episode: lambda seen: [0.5, 0]  # noqa: E731
        return run_episode(case, task, begin, lambda task, _: OwnWorld(task), conditions)

    assert actions(PointWorld).trajectory.actions.tolist() == [[0, 0], [0.5, 0], [0, 0], [0.5, 0]]
    assert actions(Clinging).trajectory.actions.tolist() == [[0.25, 0], [0.5, 0], [0.5, 0], [0.5, 0]]

    class Odd(PointWorld):
        def hold(self, last: Any) -> Any:
            return [0.0]

    broken = actions(Odd).record
    assert (broken.outcome, broken.reason) == ("error", "world-protocol")


def test_an_answer_counts_for_metrics_while_its_actions_are_executed() -> None:
    def begin(episode: Any) -> Any:
        def answer(observation: Any) -> Any:
            actions = np.tile([0, FIRST, 0, 0, 0, 0, 1.0], (8, 1))
            return Answer(actions, samples=np.stack([actions * scale for scale in (0, 1)]))

        return answer

    ended = run(begin, max_steps=20, realtime=Realtime(3 / HZ), wishes=Wishes(samples=2))
    assert [step for step, _ in ended.answers] == [0, 11, 16]
    assert [answer.samples.shape[1] for _, answer in ended.answers if answer.samples is not None] == [8, 5, 5]
    held = run(begin, max_steps=20, realtime=Realtime(3 / HZ, WAIT), wishes=Wishes(samples=2))
    assert with_metrics(held, ["execution_variability"]).record.metrics["execution_variability"] > 0


def test_a_variation_adds_latency() -> None:
    def played_with(task: Task, realtime: Realtime, label: str) -> tuple[Any, list[str]]:
        variation = find_variation(task, label, 0)
        world = World(task, variation)
        conditions = Conditions("mine", realtime=realtime)
        case = replace(CASE, variation=label)
        ended = run_episode(case, task, numbered(8), lambda *_: world, conditions, variation=variation)
        return ended.record, told(ended.trajectory.actions)

    task = a_task(20)
    # 200 ms are four steps.
    record, actions = played_with(task, NO_LATENCY, "action.latency-L3")
    assert actions == played(numbered(8), 20, 4)
    assert record.variation["parameters"] == {"milliseconds": 200.0, "steps": 4}
    assert (record.variation["level"], "realtime" in record.provenance) == (3, False)
    record, actions = played_with(task, Realtime(0.05, WAIT), "action.latency-L3")
    assert actions == played(numbered(8), 20, 5, WAIT)
    assert record.provenance["realtime"] == "0.05 s, wait"
    with pytest.raises(VlaError, match="the first answer comes after 16 steps, and an episode has 16"):
        find_variation(a_task(16), "action.latency-L5", 0)


def test_episodes_of_different_latency_are_different_cases() -> None:
    latencies = [NO_LATENCY, Realtime(0.1), Realtime(0.1, WAIT), Realtime(None)]
    records = [run(numbered(8), realtime=each, run=str(each)).record for each in latencies]
    assert len({key_of(record) for record in records}) == 4
    assert [name for name, _ in by_model(records)] == [
        "mine (no latency)",
        "mine (realtime 0.1 s, skip)",
        "mine (realtime 0.1 s, wait)",
        "mine (realtime measured, skip)",
    ]


@pytest.mark.parametrize(
    ("text", "latency", "usual"),
    [
        ("0", NO_LATENCY, "0"),
        ("150ms", Realtime(0.15), "0.15"),
        (".05s:skip", Realtime(0.05), "0.05"),
        ("0.000001:late", Realtime(0.000001, LATE), "0.000001:late"),
        ("measured:wait", Realtime(None, WAIT), "measured:wait"),
        (" 2 ", Realtime(2.0), "2"),
    ],
)
def test_a_latency_is_read_and_written(text: str, latency: Realtime, usual: str) -> None:
    assert parse_latency(text) == latency
    assert latency_rule(text) == usual
    assert parse_latency(usual) == latency


WRONG = ("-1", "", "nan", "inf", "1e3", "0.1:", "0.1:naive", "fast", "1m", "0,1", "999999", "\u0663")


@pytest.mark.parametrize("text", WRONG)
def test_what_is_no_latency_is_refused(text: str) -> None:
    with pytest.raises(VlaError, match="is not a latency: expected seconds of 0 or more"):
        parse_latency(text)
