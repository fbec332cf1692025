"""Campaigns: tasks in turn, whoever is free; time that is over; what is given back."""

from pytest_vla.fuzz.campaign import drive
from pytest_vla.fuzz.journal import Line
from tests.support.campaigns import TASKS, ManyHands, campaign


def test_all_tasks_are_searched_in_turn_by_all_hands() -> None:
    one, hands, lines = campaign(), ManyHands(4), list[Line]()
    drive(one, hands, lines.append)
    assert one.is_done
    assert hands.most == 4
    for task, seen in one.seen.items():
        assert seen.proposed + seen.guided == 12, task
        assert [dict(each.cause) for each in seen.found] == [{"action.delay": (("steps", 1),)}]
    scenes = [line.task for line in lines if line.job.what == "scene"]
    half = scenes[:12]
    assert 4 <= half.count(TASKS[0].id) <= 8
    assert lines[-1].episodes == hands.episodes


def test_what_nobody_did_is_done_again() -> None:
    one, hands, lines = campaign(), ManyHands(3, drops=True), list[Line]()
    drive(one, hands, lines.append)
    assert one.is_done
    assert len(hands.given) > len(lines)
    assert all(seen.proposed + seen.guided == 12 for seen in one.seen.values())


def test_when_its_time_is_over_what_is_being_done_is_finished_and_nothing_begun() -> None:
    one, hands, lines = campaign(None), ManyHands(3), list[Line]()
    drive(one, hands, lines.append, lambda: len(lines) >= 20)
    assert 20 <= len(lines) <= 20 + 3
    assert not hands.out
    assert not one.is_done
    again = campaign(None)
    assert again.go_on(lines) == lines[-1].episodes
    for task, seen in again.seen.items():
        before = one.seen[task]
        assert (seen.proposed, seen.guided, seen.found) == (before.proposed, before.guided, before.found)
        # That a failure is one that is known is found out once more.
        assert seen.pending + seen.again == before.pending + before.again
