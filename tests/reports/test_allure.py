"""Values of episodes for Allure, without Allure."""

import re
from dataclasses import replace

from pytest_vla.errors import ERROR_REASONS, INVALID_REASONS
from pytest_vla.plan.costs import Charge
from pytest_vla.records.explain import headline
from pytest_vla.run.allure_results import attachments, categories, environment, parameters, passing, steps
from tests.support.records import record_of


def matched(status: str, message: str) -> list[str]:
    """Return the names of the categories that match a result of this status and message."""
    return [
        each["name"]
        for each in categories()
        if status in each["matchedStatuses"] and re.fullmatch(each["messageRegex"], message)
    ]


def test_every_way_to_end_is_in_one_category() -> None:
    failed = f"Failed: {headline(record_of(0))}\n  does not hold"
    assert matched("failed", failed) == ["not done by the policy"]
    assert matched("broken", failed) == []
    for outcome, status, reasons in (("error", "broken", ERROR_REASONS), ("invalid", "skipped", INVALID_REASONS)):
        for code in reasons:
            record = replace(record_of(0, outcome), reason=code, message="as it is\nin two lines")
            assert matched(status, f"Failed: {headline(record)}\n  more") == [f"{outcome}: {code}"]


def test_steps_are_of_times_that_the_record_has() -> None:
    assert [*steps(record_of(0))] == [], "of a record without times"
    record = replace(
        record_of(0, "success"),
        timings={"wall": 4.0, "reset": 1.0, "policy": 2.0, "world": None, "metrics.way": 0.5},
        metrics={"way": 3.0},
        success_step=2,
    )
    reset, rollout, metric = steps(record)
    assert (reset.stop - reset.start, rollout.stop - rollout.start, metric.stop - metric.start) == (1000, 3000, 500)
    assert (reset.stop, rollout.stop) == (rollout.start, metric.start)
    assert rollout.parameters == {"control steps": "2", "policy": "2.000 s", "success after step": "2"}
    assert metric.parameters == {"way": "3"}
    broken = replace(record, outcome="error", steps=0)
    assert [each.status for each in steps(broken)] == ["broken", "passed"]


def test_texts_are_those_that_there_are() -> None:
    record = replace(record_of(0), costs=(Charge("force", 2.5, step=3, bodies=("vase", "hand")),))
    found = {each.name: each.text for each in attachments(record, record.instruction)}
    assert [*found] == ["goal", "costs", "record"]
    assert found["costs"].splitlines()[1] == ",force,2.5,3,,,vase hand,,"
    assert "holds from step 1, does not hold from step 2" in found["goal"]
    told = replace(record, instruction="switch on the stove", literals={}, costs=())
    assert [each.name for each in attachments(told, "turn on the stove")] == ["instruction", "record"]
    assert parameters(record)["cost"] == "2.5"
    assert passing(record).keys() == {"model", "run", "steps", "cost"}


def test_the_environment_has_all_that_differs() -> None:
    records = [record_of(0), replace(record_of(1), policy="other", provenance={"mujoco": "3.3.7", "scene": "ab"})]
    assert environment(records) == {
        "vla.model": "random, other", "vla.suite": "libero_goal", "vla.run": "a-run", "vla.mujoco": "3.8.1, 3.3.7"
    }  # fmt: skip
