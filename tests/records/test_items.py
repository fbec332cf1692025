"""How an item ended, out of its reports; and what that means for the run."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_vla.records.items import ERROR, FAILED, PASSED, SKIPPED, STATUSES, Endings, RunItem

PHASES = ("setup", "call", "teardown")


def ending(*reports: tuple[str | None, str]) -> list[str | None]:
    """What is said after each report, given as phase and outcome."""
    endings = Endings()
    return [endings.add(SimpleNamespace(nodeid="a", when=when, outcome=outcome)) for when, outcome in reports]


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        (("passed", "passed", "passed"), PASSED),
        (("passed", "failed", "passed"), FAILED),
        (("passed", "passed", "failed"), ERROR),
        (("passed", "failed", "failed"), ERROR),
        (("passed", "skipped", "passed"), SKIPPED),
        (("passed", "skipped", "failed"), ERROR),
    ],
)
def test_the_worst_phase_counts_and_is_known_after_the_last(outcomes: tuple[str, str, str], status: str) -> None:
    assert ending(*zip(PHASES, outcomes, strict=True)) == [None, None, status]


def test_a_test_that_is_not_called_has_no_report_of_it() -> None:
    assert ending(("setup", "failed"), ("teardown", "passed")) == [None, ERROR]
    assert ending(("setup", "skipped"), ("teardown", "passed")) == [None, SKIPPED]


def test_a_crash_is_an_error_at_once() -> None:
    assert ending(("setup", "passed"), ("???", "failed")) == [None, ERROR]


@pytest.mark.parametrize("when", [*PHASES, "???"])
def test_a_rerun_begins_anew(when: str) -> None:
    again = (("setup", "passed"), ("call", "passed"), ("teardown", "passed"))
    assert ending(("setup", "passed"), ("call", "failed"), (when, "rerun"), *again)[-1] == PASSED


def test_items_are_told_apart() -> None:
    endings = Endings()
    reports = [("a", "setup", "failed"), ("b", "setup", "passed"), ("b", "teardown", "passed")]
    for node, when, outcome in reports:
        last = endings.add(SimpleNamespace(nodeid=node, when=when, outcome=outcome))
    assert last == PASSED


@given(
    st.none() | st.sampled_from(STATUSES),
    st.none() | st.tuples(st.booleans(), st.sampled_from(["success", "failure", "error", "invalid"])),
)
def test_what_has_passed_is_not_left_and_what_failed_is_unless_it_was_measured(
    status: str | None, record: tuple[bool, str] | None
) -> None:
    of_suite, outcome = record or (None, None)
    item = RunItem("a", True, status, of_suite, outcome)
    assert item.failed == (status in (FAILED, ERROR))
    if status is None:
        assert item.is_left
    elif item.failed:
        assert item.is_left != (status == FAILED and of_suite is True and outcome == "failure")
    else:
        assert item.is_left == (outcome == "error")
