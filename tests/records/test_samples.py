"""What a run says of being ended by time, read as what others wrote."""

import dataclasses
from typing import Any

import pytest

from pytest_vla.records.counting import Repeats
from pytest_vla.records.runs import SAMPLE, Count, Run, TimeLimitSample, sample_of, sample_table

FOUND = TimeLimitSample("--vla-max-hours=2", 40, 200, True, 2, 2, 0.2, 0.5, 8)


def run_of(sample: Any, status: str = "stopped", done: int = 40) -> Run:
    counts = (Count("suite", True, False, False, False, "success", None, done),)
    about: dict[str, Any] = {"host": "here", "pid": 1, "process": None, "picked": None, "repeats": Repeats()}
    kept = {} if sample is None else {SAMPLE: sample}
    return Run("a", "2026-01-01T00:00:00Z", None, status, "pytest", "m", kept, planned=200, counts=counts, **about)


def test_what_was_kept_is_read() -> None:
    assert sample_of(run_of(sample_table(FOUND))) == FOUND
    assert FOUND.text == "stopped by time (--vla-max-hours=2): a balanced sample of 40 of 200 episodes"
    assert dataclasses.replace(FOUND, balanced=False).text.endswith("40 of 200 episodes, not a balanced sample")


@pytest.mark.parametrize(
    ("done", "workers", "is_few"), [(40, 1, False), (39, 1, True), (255, 64, True), (256, 64, False)]
)
def test_few_episodes_are_not_called_a_balanced_sample(done: int, workers: int, is_few: bool) -> None:
    sample = dataclasses.replace(FOUND, done=done, planned=2000, workers=workers)
    assert sample.is_few is is_few
    assert sample.stands_for_all is not is_few
    assert ("a balanced sample" in sample.text) is not is_few
    assert sample.text.endswith("few for 1 worker" if workers == 1 else f"few for {workers} workers") is is_few


def test_a_run_that_has_gone_on_says_nothing() -> None:
    assert sample_of(run_of(None)) is None
    assert sample_of(run_of(sample_table(FOUND), status="running")) is None
    assert sample_of(run_of(sample_table(FOUND), done=200)) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("by", 1),
        ("balanced", 1),
        ("off", -1),
        ("off", float("nan")),
        ("tasks", True),
        ("share", "1"),
        ("strata", None),
        ("workers", None),
    ],
)
def test_what_cannot_be_read_says_nothing(name: str, value: object) -> None:
    assert sample_of(run_of({**sample_table(FOUND), name: value})) is None
    assert sample_of(run_of([])) is None


def test_numbers_of_episodes_are_the_stores_and_texts_are_harmless() -> None:
    found = sample_of(run_of({**sample_table(FOUND), "done": 99, "by": "\x1b[2J" + "x" * 200}))
    assert found is not None
    assert found.done == 40
    assert "\x1b" not in found.by
    assert len(found.by) == 80
