"""While a run goes on: of each item the record that counts, and how the item ended with it."""

import dataclasses
from typing import Any

import pytest

from pytest_vla.records.items import ERROR, FAILED, PASSED, SKIPPED, RunItem
from pytest_vla.records.record import Record
from pytest_vla.records.store import Earlier
from pytest_vla.records.tally import Repetition, RunTally
from tests.support.records import record_of

OWN = "test_mine.py::test_bowl[turn_on_the_stove-seed0]"
NODE = record_of(0).node


def own(outcome: str, digest: str, **changes: Any) -> Record:
    return record_of(0, outcome, node=OWN, digest=digest, **changes)


def ended(tally: RunTally, record: Record, status: str) -> str | None:
    tally.keep(record)
    return tally.end(record.node, record, status)


def test_an_ending_goes_with_the_record_that_counts() -> None:
    tally = RunTally()
    first = record_of(0, "failure", digest="1")
    assert ended(tally, first, FAILED) == FAILED
    assert ended(tally, record_of(0, "success", digest="2"), PASSED) is None
    assert tally.records == {NODE: first}
    assert tally.mended == {NODE}
    assert tally.end(NODE, first, ERROR) == ERROR, "its own teardown"


def test_an_error_gives_way_with_its_ending() -> None:
    tally = RunTally()
    assert ended(tally, record_of(0, "error"), ERROR) == ERROR
    second = record_of(0, "success", digest="2")
    assert ended(tally, second, PASSED) == PASSED
    assert ended(tally, record_of(0, "error"), ERROR) is None
    assert (tally.records, tally.mended) == ({NODE: second}, set())


def test_an_attempt_that_left_no_record_gives_way_too() -> None:
    tally = RunTally()
    assert tally.end(OWN, None, ERROR) == ERROR, "such as a fixture of the user's that raised"
    assert ended(tally, own("success", "1"), PASSED) == PASSED
    assert tally.end(OWN, None, ERROR) is None
    assert tally.end("test_mine.py::test_plain", None, FAILED) == FAILED
    assert tally.end("test_mine.py::test_plain", None, PASSED) == PASSED, "of other tests the last ending stands"


def test_a_users_test_that_ends_otherwise_after_the_same_episode_was_mended() -> None:
    tally = RunTally()
    ended(tally, own("success", "1"), FAILED)
    assert ended(tally, own("success", "2"), PASSED) is None, "a policy that draws had more luck"
    assert tally.mended == {OWN}
    assert ended(tally, own("success", "1"), PASSED) == PASSED, "the assertion is another, or its files are"


def test_a_run_that_is_gone_on_with_keeps_what_counted() -> None:
    kept = own("success", "1")
    tally = RunTally([(kept, FAILED), (record_of(0, "error"), ERROR), (record_of(1, "failure"), None)])
    assert ended(tally, own("success", "2"), PASSED) is None
    assert ended(tally, record_of(0, "success"), PASSED) == PASSED
    assert tally.records[OWN] == kept
    assert tally.mended == {OWN}


@pytest.mark.parametrize(("outcome", "status"), [("failure", FAILED), ("success", PASSED)])
def test_where_the_process_died_after_the_episode_the_item_ends_as_the_episode_did(outcome: str, status: str) -> None:
    tally = RunTally()
    tally.keep(record_of(0, outcome, digest="1"))
    other = "success" if outcome == "failure" else "failure"
    again = PASSED if other == "success" else FAILED
    found = ended(tally, record_of(0, other, digest="2"), again)
    assert found == (status if outcome == "failure" else again)
    assert tally.records[NODE].outcome == outcome


def test_of_repeats_side_by_side_the_ending_of_the_one_that_began_first_stands() -> None:
    tally = RunTally()
    assert ended(tally, record_of(0, "success", digest="2", started="2026-02"), PASSED) == PASSED
    first = record_of(0, "failure", digest="1", started="2026-01")
    assert ended(tally, first, FAILED) == FAILED
    assert tally.records == {NODE: first}


def earlier(outcome: str, status: str | None, equal: bool = False, **changes: Any) -> Earlier:
    return Earlier(NODE, record_of(0, outcome, "earlier", **changes), status, equal)


@pytest.mark.parametrize(
    ("now", "before", "judged"),
    [
        ((PASSED, "success"), earlier("failure", FAILED), (FAILED, "failure")),
        ((FAILED, "failure"), earlier("success", PASSED), (PASSED, "success")),
        ((PASSED, "success"), earlier("failure", None), (FAILED, "failure")),
        ((ERROR, "error"), earlier("failure", FAILED), (ERROR, "failure")),
        ((PASSED, "success"), earlier("success", FAILED, equal=True), (PASSED, "success")),
        ((PASSED, "success"), earlier("success", FAILED), (FAILED, "success")),
        ((None, None), earlier("failure", FAILED), (None, "failure")),
        ((PASSED, "success"), earlier("invalid", SKIPPED), (SKIPPED, "invalid")),
    ],
)
def test_items_of_a_picked_run_are_judged_by_what_counts(
    now: tuple[str | None, str | None], before: Earlier, judged: tuple[str | None, str]
) -> None:
    item, other = RunItem(NODE, True, now[0], True, now[1]), RunItem("b", True, PASSED, True, "success")
    found, same = Repetition(picked="--lf", earlier=(before,)).judged([item, other])
    assert (found.status, found.outcome) == judged
    assert same == other


def test_what_failed_at_first_is_counted_once() -> None:
    items = [RunItem(NODE, True, PASSED, True, "success"), RunItem("b", True, PASSED, True, "success")]
    assert Repetition().failed_at_first(items) == 0
    assert Repetition(mended=frozenset({NODE}), earlier=(earlier("failure", FAILED),)).failed_at_first(items) == 1
    assert Repetition(mended=frozenset({"b"}), earlier=(earlier("failure", FAILED),)).failed_at_first(items) == 2


def test_a_policy_of_which_nobody_says_what_it_is_made_of_is_told() -> None:
    assert Repetition(earlier=(earlier("failure", FAILED),)).of_unknown_policy
    known = dataclasses.replace(earlier("failure", FAILED).record, policy_digest="aa")
    assert not Repetition(earlier=(Earlier(NODE, known, FAILED, False),)).of_unknown_policy
    assert not Repetition().of_unknown_policy
