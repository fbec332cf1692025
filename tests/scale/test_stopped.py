"""What a run says that time has ended, where failures take four times as long as successes."""

from typing import Any

import pytest

from tests.support.stopped_runs import CUTTING, NAIVE, OURS, STAYING, Setting, Told, Way, orders, planned
from tests.support.stopped_runs import told as simulated

REPETITIONS = 60


@pytest.fixture(scope="module")
def drawn() -> Any:
    return orders(planned(), 20)


def told(drawn: Any, way: Way, **setting: Any) -> Told:
    return simulated(way, Setting(**{"workers": 8, "rate": 0.5} | setting), REPETITIONS, drawn)


def test_the_rate_of_what_ran_is_right_and_its_interval_holds(drawn: Any) -> None:
    ours = told(drawn, OURS, share=0.25)
    assert abs(ours.bias) < 0.5 + 3 * ours.error
    assert ours.coverage > 0.95 - 3 * (0.95 * 0.05 / REPETITIONS) ** 0.5


def test_many_workers_bring_no_easy_tasks_forward(drawn: Any) -> None:
    ours, staying = (told(drawn, way, workers=64, share=0.1, differ=True) for way in (OURS, STAYING))
    assert abs(ours.bias) < 0.5 + 3 * ours.error
    assert ours.coverage == 1.0, "half of the tasks are done always, and each has its share"
    assert staying.bias > 2.0, "where workers stay with their scenes they do"
    assert staying.loaded < ours.loaded


def test_cutting_what_runs_leaves_out_failures(drawn: Any) -> None:
    ours, cut = (told(drawn, way, share=0.05, differ=True) for way in (OURS, CUTTING))
    assert cut.bias > 1.0
    assert cut.bias > ours.bias + 1.0


def test_what_came_first_says_nothing_of_the_rest(drawn: Any) -> None:
    assert told(drawn, NAIVE, share=0.25).coverage < 0.6
