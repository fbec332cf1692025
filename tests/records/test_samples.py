"""What a run says of being ended by time, read as what others wrote."""

import dataclasses
from typing import Any

import pytest

from pytest_vla.records.counting import Repeats
from pytest_vla.records.runs import Count, Run
from pytest_vla.records.samples import SAMPLE, Sample, sample_of, sample_table

FOUND = Sample("--vla-max-hours=2", 4, 20, True, 2, 2, 0.2, 0.5)


def run_of(sample: Any, status: str = "stopped", done: int = 4) -> Run:
    counts = (Count("suite", True, False, False, "success", None, done),)
    about: dict[str, Any] = {"host": "here", "pid": 1, "process": None, "picked": None, "repeats": Repeats()}
    kept = {} if sample is None else {SAMPLE: sample}
    return Run("a", "2026-01-01T00:00:00Z", None, status, "pytest", "m", kept, planned=20, counts=counts, **about)


def test_what_was_kept_is_read() -> None:
    assert sample_of(run_of(sample_table(FOUND))) == FOUND
    assert FOUND.text == "stopped by time (--vla-max-hours=2): a balanced sample of 4 of 20 episodes"
    assert dataclasses.replace(FOUND, balanced=False).text.endswith("4 of 20 episodes, no balanced sample")


def test_a_run_that_has_gone_on_says_nothing() -> None:
    assert sample_of(run_of(None)) is None
    assert sample_of(run_of(sample_table(FOUND), status="running")) is None
    assert sample_of(run_of(sample_table(FOUND), done=20)) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("by", 1), ("balanced", 1), ("off", -1), ("off", float("nan")), ("tasks", True), ("share", "1"), ("strata", None)],
)
def test_what_cannot_be_read_says_nothing(name: str, value: object) -> None:
    assert sample_of(run_of({**sample_table(FOUND), name: value})) is None
    assert sample_of(run_of([])) is None


def test_numbers_of_episodes_are_the_stores_and_texts_are_harmless() -> None:
    found = sample_of(run_of({**sample_table(FOUND), "done": 99, "by": "\x1b[2J" + "x" * 200}))
    assert found is not None
    assert found.done == 4
    assert "\x1b" not in found.by
    assert len(found.by) == 80
