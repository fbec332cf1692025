"""What is counted of a run while it goes on, what reports bring, and which of their failures are the policy's."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_vla.plan.case import Case
from pytest_vla.records.record import record_line
from pytest_vla.run.failures import MISFIT, NO_POLICY, FailedReports
from pytest_vla.run.nodes import Collected
from pytest_vla.run.record_transport import PROPERTY, RecordReceiver, shown_properties
from pytest_vla.run.stored import RunState
from tests.support.records import record_of

ONE, OTHER = record_of(0, "success"), record_of(1, "success")


def case_of(number: int) -> Case:
    record = record_of(number)
    return Case(record.suite, record.task, record.seed)


def begun(collected: Collected, episodes: int) -> RunState:
    found = RunState()
    found.expect(collected)
    found.episodes = frozenset(record_of(number).node for number in range(episodes))
    return found


def test_an_episode_that_tests_share_runs_with_the_first_of_them() -> None:
    cases = {"a": case_of(0), "b": case_of(0), "c": case_of(1)}
    collected = Collected(["a", "other", "b", "c"], cases, {}, {"a": "class[0]", "b": "class[0]"})
    assert list(collected.alone) == ["a", "c"]
    so_far = begun(collected, 0)
    assert so_far.episodes_of(collected) == {"class[0]": case_of(0), "c": case_of(1)}
    assert [so_far.recorded_as(node) for node in collected.nodes] == ["a", "other", "b", "c"]


def test_repetitions_of_an_item_are_more_to_come_and_one_counts() -> None:
    names = {"x-1": ONE.node, "x-2": ONE.node, OTHER.node: OTHER.node}
    so_far = begun(Collected(list(names), {node: case_of(0) for node in names}, names), 2)
    assert (so_far.done, so_far.total, so_far.left) == (0, 3, 2)
    so_far.add(ONE, "x-1")
    so_far.add(replace(ONE, outcome="failure", started="9"), "x-2")
    assert (so_far.done, so_far.total, so_far.left) == (2, 3, 1)
    assert [record.outcome for record in so_far.new] == ["success"]


def test_what_earlier_invocations_kept_is_done_and_not_new() -> None:
    so_far = begun(Collected([OTHER.node], {OTHER.node: case_of(1)}), 2)
    error = replace(OTHER, outcome="error", reason="policy-raised")
    so_far.resume([(ONE, "passed"), (error, "error")], (OTHER.node,))
    assert (so_far.done, so_far.total, so_far.left, so_far.new) == (1, 2, 0, ())
    assert so_far.attempt_of(OTHER, 0) == 2, "after an error"
    assert so_far.attempt_of(OTHER, 2) == 3, "after two that left no record"
    assert so_far.attempt_of(replace(ONE, attempt=1), 0) == 1
    so_far.add(OTHER, OTHER.node)
    assert (so_far.done, so_far.total, so_far.new) == (2, 2, (OTHER,))


def report(when: str = "setup", outcome: str = "passed", longrepr: str = "", **more: Any) -> Any:
    properties = [("mine", 1), (PROPERTY, record_line(ONE))]
    about = {"nodeid": "a", "when": when, "outcome": outcome, "longrepr": longrepr, "user_properties": properties}
    return SimpleNamespace(**about, failed=outcome == "failed", **more)


def test_a_record_is_taken_off_the_first_report_that_brings_it() -> None:
    unpacking, reports = RecordReceiver(), [report("setup"), report("call"), report("teardown")]
    assert [unpacking.take(each) for each in reports] == [ONE, None, None]
    for each in reports:
        (mine, *ours) = each.user_properties
        assert mine == ("mine", 1)
        assert dict(ours) == shown_properties(ONE)
    again = report()
    again.user_properties = [(PROPERTY, record_line(replace(ONE, attempt=2)))]
    assert unpacking.take(again) == replace(ONE, attempt=2), "another attempt"
    assert unpacking.take(SimpleNamespace(nodeid="b", user_properties=[("mine", 1)])) is None  # type: ignore[arg-type]


def test_only_a_suite_s_failed_episode_excuses_a_failure() -> None:
    failure = replace(ONE, outcome="failure")
    failures = FailedReports()
    for when, outcome, record in (
        ("call", "passed", failure),
        ("call", "failed", failure),
        ("call", "failed", ONE),
        ("setup", "failed", failure),
        ("call", "failed", replace(failure, node="test_mine.py::test_own[a]")),
        ("call", "failed", None),
    ):
        failures.add(report(when, outcome), "a", record)
    failures.add(report("call", "failed", wasxfail="expected"), "a", failure)
    assert (failures.of("a"), failures.of("b"), failures.excused) == (5, 0, 1)


def test_a_few_failed_episodes_are_shown_without_their_charges() -> None:
    failures, failure = FailedReports(), replace(ONE, outcome="failure")
    lines = (
        "not done after 9 of 9 steps",
        "  does not hold  (on a b)",
        "  cost 2:",
        "     2  a met b",
        "  run it alone: x",
    )
    text = "\n".join(lines)
    several = [report("call", "failed", longrepr=text) for _ in range(5)]
    for each in several:
        failures.add(each, "a", failure)
    mine = report("call", "failed", longrepr=text)
    failures.add(mine, "b", None)
    short = SimpleNamespace(config=SimpleNamespace(option=SimpleNamespace(tbstyle="auto")), summary_errors=None)
    told = failures.fold(short)  # type: ignore[arg-type]
    assert told[0].startswith("3 of 5 failed episodes")
    assert [hasattr(each, "_pdbshown") for each in several] == [False] * 3 + [True] * 2
    assert str(several[0].longrepr).splitlines()[2:] == ["  cost 2", "  run it alone: x"]
    assert (mine.longrepr, hasattr(mine, "_pdbshown")) == (text, False), "a test of the user's is shown as ever"
    assert FailedReports().fold(short) == failures.fold(None) == ()  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "is_without"), [(NO_POLICY, True), (MISFIT, True), ("error timeout: ", False)])
def test_without_a_policy_there_is_nothing_to_go_on_with(text: str, is_without: bool) -> None:
    failures = FailedReports()
    failures.add(report("setup", "failed", f"{text}no weights"), "a", None)
    assert failures.without_policy is is_without
