"""How limits are read and told, and where what is no episode comes."""

import argparse
import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_vla.plan.case import Case
from pytest_vla.records.runs import TimeLimitSample
from pytest_vla.run.arguments import hours_of
from pytest_vla.run.options import OPTIONS
from pytest_vla.run.settings import Settings
from pytest_vla.run.time_budget import (
    FIRST_TURN,
    BalancedOrder,
    BeginInTime,
    hours_text,
    longest_known,
    planned_of,
    time_line,
)
from pytest_vla.run.xdist.messages import Begin, MayBegin, wire
from pytest_vla.run.xdist.worker import FarSide
from pytest_vla.scale.order import TimeLimit

STOVE = Case("libero_goal", "turn_on_the_stove", 0)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    values = {each.attribute: each.default for each in OPTIONS if each.into is None}
    rest: dict[str, Any] = {"model_text": "m", "model_folder": tmp_path, "model_names": (), "given": ()}
    return Settings(**values, **rest, typed=frozenset())


@pytest.mark.parametrize(("text", "seconds"), [("8", 28800), ("0.5", 1800), (".5", 1800), ("90m", 5400), ("90s", 90)])
def test_hours(text: str, seconds: float) -> None:
    assert hours_of(text) == seconds
    assert hours_of(hours_text(seconds)) == seconds


@pytest.mark.parametrize(("typed", "shown"), [("0.0000001", "0.00036s"), (".333", "1198.8s"), ("7.123456", "25644.4s")])
def test_hours_that_are_no_round_number_are_shown_short(typed: str, shown: str) -> None:
    assert hours_text(hours_of(typed)) == shown
    assert hours_of(shown) == pytest.approx(hours_of(typed), rel=1e-5)


@pytest.mark.parametrize("text", ["", "0", "0.0", "-1", "8 hours", "inf", "nan", "0m", "1d", "1e3"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is not a time; write"):
        hours_of(text)


def test_kinds_of_variations_are_strata_and_own_tests_are_by_function(settings: Settings) -> None:
    varied = Case("libero_goal", "turn_on_the_stove", 0, "camera.distance-L2")
    own = "tests/test_mine.py::test_it[libero_goal-turn_on_the_stove-seed0]"
    found = planned_of([STOVE.node_id, varied.node_id, own], {own: STOVE}, settings)
    assert [each.kind for each in found] == [(), ("camera", "camera.distance", "-L2"), ()]
    assert found[0].scene == found[1].scene
    assert found[2].stratum == ("tests/test_mine.py::test_it", "/", "")
    assert found[2] == planned_of([own], {}, settings)[0], "the same where its case is not known any more"


def test_tests_without_an_episode_come_first_and_searches_last(settings: Settings) -> None:
    order = BalancedOrder([STOVE.node_id], {}, settings)
    search = "libero_goal::test_fuzz[turn_on_the_stove]"
    nodes = {"test_mine.py::test_one": None, STOVE.node_id: STOVE.node_id, "other": "unknown", search: None}
    places = {node: order.place(node, name) for node, name in nodes.items()}
    assert sorted(nodes, key=places.__getitem__) == list(nodes)
    assert places["test_mine.py::test_one"] == (FIRST_TURN, 0)


def test_the_longest_episode_of_the_suites_that_run() -> None:
    rows = [("a", "t", 0, 5.0), ("a", "t", 1, 9.0), ("b", "t", 0, 50.0)]
    assert longest_known(rows, ["a"], []) == 9.0
    assert longest_known(rows, ["a"], [12.0]) == 12.0
    assert longest_known([], [], []) == 0.0


def test_what_is_said_at_the_end() -> None:
    limit = TimeLimit(0.0, wall=7200.0)
    sample = TimeLimitSample("--vla-max-hours=2", 412, 2000, True, 40, 200, 0.206, 1.0, 8)
    told = time_line(sample, limit, "RESUME", 412, by_gate=False)
    assert told == (
        "vla: time limit reached (--vla-max-hours=2): 412 of 2000 episodes ran, a balanced sample: each of 200 tasks "
        "under one kind and level of variation has 20.6% of its episodes, give or take 1.0; resume with `RESUME`"
    )
    thin = TimeLimitSample("--vla-max-hours=2", 50, 1020, True, 10, 500, 0.05, 1.0, 8)
    assert (
        ", drawn evenly over 500 tasks under one kind and level of variation, some of which have none yet; resume"
        in (time_line(thin, limit, "RESUME", 50, by_gate=False))
    )
    few = time_line(dataclasses.replace(sample, done=20), limit, "RESUME", 20, by_gate=False)
    assert (
        ": 20 of 2000 episodes ran, few for 8 workers: the rate of so short a run can be off by points; resume" in few
    )
    assert "balanced" not in few
    mixed = TimeLimitSample("--vla-max-hours=2", 412, 2000, False, 40, 40, 0.206, 30.0, 8)
    assert "not a balanced sample: part of it ran in another order" in time_line(mixed, limit, "RESUME", 412, False)
    assert ", in the gate's order; resume" in time_line(mixed, limit, "RESUME", 412, True)
    searches = TimeLimitSample("--vla-max-hours=2", 0, 0, True, 0, 0, 0.0, 0.0, 1)
    assert "not all searches were begun" in time_line(searches, limit, "RESUME", 0, False)


class Channel:
    """Answers at once, as execnet's does in a thread of its own; closed: never."""

    def __init__(self, answers: list[bool]) -> None:
        self.answers, self.sent = answers, list[Any]()

    def setcallback(self, hear: Callable[[Any], None]) -> None:
        self.hear = hear

    def send(self, told: Any) -> None:
        self.sent.append(told)
        if self.answers:
            self.hear(wire(Begin(self.answers.pop(0))))

    def isclosed(self) -> bool:
        return not self.answers


def test_a_worker_on_another_machine_asks_over_its_connection(tmp_path: Path) -> None:
    channel = Channel([True, False])
    far = FarSide(channel, tmp_path, 0.0)
    assert far.may_begin()
    assert not far.may_begin()
    assert channel.sent == [wire(MayBegin()), wire(MayBegin())]
    with pytest.raises(OSError, match="the controller is gone"):
        far.may_begin()


def test_what_was_passed_over_once_is_over() -> None:
    answers = [True, True, False]
    hooks = BeginInTime(lambda: answers.pop(0))
    item = cast(pytest.Item, SimpleNamespace(getparent=lambda kind: None, iter_markers=lambda name: iter(())))
    assert [hooks.pytest_runtest_protocol(item) for _ in range(4)] == [None, None, True, True]
