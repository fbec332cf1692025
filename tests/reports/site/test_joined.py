"""The runs that a trend line joins, and the notes on the other runs."""

from collections.abc import Sequence
from typing import Any

import pytest

from pytest_vla.reports.runs import FEW_BY_TIME, STOPPED_BY_TIME
from pytest_vla.reports.site.entries import DRAWN, Entry, Result
from pytest_vla.reports.site.page import JoinedRuns, TrendPoint, difference, lines_of
from tests.support.sites import CONDITIONS, entry_of, part_of, result_of


def lines(*runs: Result | Entry) -> list[list[JoinedRuns]]:
    """Return the lines of runs, each run a day after the one before."""
    entries = [run if isinstance(run, Entry) else entry_of(day, run) for day, run in enumerate(runs, 1)]
    return lines_of([TrendPoint(entry, entry.results[0]) for entry in entries])


def days(found: Sequence[Sequence[JoinedRuns]]) -> list[list[int]]:
    return [[int(joined.point.entry.name[-2:]) for joined in line] for line in found]


def told(found: Sequence[Sequence[JoinedRuns]]) -> list[str]:
    return [joined.text for line in found for joined in line if joined.text]


def under(**conditions: str | None) -> dict[str, str]:
    found: dict[str, Any] = CONDITIONS | {name.replace("__", "."): text for name, text in conditions.items()}
    return {name: text for name, text in found.items() if text is not None}


def test_equal_runs_of_other_policies_are_joined() -> None:
    found = lines(result_of(), result_of(policies=("17006338",)), result_of(policies=()))
    assert days(found) == [[1, 2, 3]]
    assert told(found) == []
    assert not any(joined.is_hollow or joined.is_break for joined in found[0])


def test_parts_end_no_line_of_whole_runs() -> None:
    found = lines(result_of(), part_of(3), result_of(), part_of(1), part_of(3))
    assert days(found) == [[1, 3], [2, 5], [4]]
    assert [joined.is_hollow for line in found for joined in line] == [False, False, True, True, True]
    assert told(found) == [
        "run-02 is not joined to run-01: 10 tasks before, 3 here",
        "run-04 is not joined to run-03: 10 tasks before, 1 here",
    ]
    assert not any(joined.is_break for line in found for joined in line)


def test_conditions_break_a_line_and_a_new_one_begins() -> None:
    longer = result_of(conditions=under(protocol__max_steps="400"))
    found = lines(result_of(), result_of(), longer, longer)
    assert days(found) == [[1, 2], [3, 4]]
    (why,) = told(found)
    assert why == (
        "run-03 is not joined to run-02: step budget (protocol.max_steps): 300 before, 400 here: more steps "
        "allow more successes"
    )
    assert [joined.is_break for line in found for joined in line] == [False, False, True, False]


def test_a_part_under_other_conditions_breaks_the_line_of_that_part_only() -> None:
    found = lines(result_of(), part_of(3), part_of(3, conditions=under(provenance__mujoco="3.8.1")), result_of())
    assert days(found) == [[1, 4], [2], [3]]
    assert [joined.is_break for line in found for joined in line] == [False, False, False, True]


def test_a_grown_suite_breaks_its_line() -> None:
    grown = result_of(tasks=12, of_tasks=12, variations=12, selection="grown")
    found = lines(result_of(), grown)
    assert told(found) == ["run-02 is not joined to run-01: 10 tasks before, 12 here"]
    assert found[1][0].is_break


def test_runs_that_were_cut_short_stand_alone() -> None:
    stopped = entry_of(2, planned=101, done=100, status="stopped")
    decided = entry_of(3, planned=100, done=60, decided=40)
    by_time = [
        entry_of(day, planned=101, done=100, status=status) for day, status in ((5, STOPPED_BY_TIME), (6, FEW_BY_TIME))
    ]
    found = lines(entry_of(1), stopped, decided, entry_of(4), *by_time)
    assert days(found) == [[1, 4], [2], [3], [5], [6]]
    assert told(found) == [
        "run-02 is not joined: 100 of 101 episodes: the first episodes are not a sample of all",
        "run-03 is not joined: 60 of 100 episodes: a sequential gate skipped the others, so its rate is biased",
        "run-05 is not joined: 100 of 101 episodes, a balanced sample (stopped by a time limit)",
        "run-06 is not joined: 100 of 101 episodes, few for its workers (stopped by a time limit)",
    ]
    assert [line[0].is_hollow for line in found] == [False, True, True, True, True]


def test_a_part_after_a_run_that_was_cut_short_is_compared_with_whole_ones() -> None:
    found = lines(entry_of(1), entry_of(2, done=3), entry_of(3, part_of(3)))
    assert "run-03 is not joined to run-01: 10 tasks before, 3 here" in told(found)


SELECTIONS = [
    ({"selection": "b"}, "different tasks, or different variations of them"),
    ({"selection": "b", "tasks": 1}, "10 tasks before, 1 here"),
    ({"selection": "b", "variations": 1}, "10 variations before, 1 here"),
    # What was run says more than what it ran under.
    ({"selection": "b", "tasks": 3, "conditions": under(scene="00")}, "10 tasks before, 3 here"),
]


@pytest.mark.parametrize(("changes", "why"), SELECTIONS)
def test_of_other_tasks_the_number_is_said(changes: dict[str, Any], why: str) -> None:
    assert difference(result_of(), result_of(**changes)) == why


def of_conditions(before: dict[str, str], here: dict[str, str]) -> str:
    return difference(result_of(conditions=before), result_of(conditions=here))


def test_the_gates_table_says_what_is_compared() -> None:
    # Refuses although only one side says it.
    assert of_conditions(under(), under(replan="4")).startswith("replan length (replan): unknown before, 4 here")
    # Has to be known of both.
    assert of_conditions(under(scene=None), under()) == ""
    # Only rounds, is of costs, or is of a later version.
    for name in ("provenance__numpy", "charged", "of_tomorrow"):
        assert of_conditions(under(**{name: "1"}), under(**{name: "2"})) == ""
    # What seeds draw differs by itself.
    assert of_conditions(under(scene=DRAWN), under()) == ""


def test_what_tasks_have_for_themselves_is_not_shown_as_a_digest() -> None:
    why = of_conditions(under(goal="#1234"), under(goal="#5678"))
    assert why == "success rule (goal): differs for some tasks: a different goal is a different task"


def test_many_differences_are_three_and_how_many_more() -> None:
    here = {"protocol.max_steps": "400", "provenance.mujoco": "3.8.1", "scene": "0" * 200, "replan": "4", "goal": "g"}
    why = of_conditions({**CONDITIONS, "goal": "f"}, here)
    assert [each.partition(" (")[0] for each in why.split("; ")] == [
        *("MuJoCo", "step budget", "success rule"),
        "and 2 more",
    ]
    assert of_conditions(CONDITIONS, {**CONDITIONS, "scene": "0" * 200}).count("0") < 100
