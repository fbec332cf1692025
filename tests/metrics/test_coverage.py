"""A quick look at the coverage of what is printed; `benchmarks/intervals.py` has all of it, and takes minutes.

Of a few hundred experiments a share is known to two or three points: the bounds leave room for five standard errors.
"""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

GRID = (0.1, 0.35, 0.6, 0.85)
REPETITIONS = 80


@pytest.fixture(scope="module")
def intervals() -> ModuleType:
    spec = importlib.util.spec_from_file_location("intervals", Path("benchmarks/intervals.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["intervals"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).parents[2])


@pytest.mark.parametrize(
    ("simulated", "arguments", "least"),
    [
        ("of_rates", (10, 2), 0.93),
        ("of_rates", (10, 5, 5), 0.93),
        ("of_rates", (6, 10, 1, 0.6), 0.9),
        ("of_differences", (10, 2), 0.93),
        ("of_differences", (10, 2, 5), 0.93),
        ("of_gaps", (10, 2), 0.93),
        ("of_tasks_language", (8, 10), 0.92),
        ("of_listening", (10, 2), 0.92),
    ],
)
def test_intervals_hold_the_truth_as_often_as_they_say(
    intervals: ModuleType, simulated: str, arguments: tuple[float, ...], least: float
) -> None:
    holds(intervals, getattr(intervals, simulated)(*arguments), least)


def test_those_over_paraphrases_do(intervals: ModuleType) -> None:
    holds(intervals, intervals.of_language(intervals.Told(20)), 0.92)


def holds(intervals: ModuleType, trial: object, least: float) -> None:
    found = intervals.coverage(intervals.Design("", trial, GRID), REPETITIONS)
    assert found
    for name, by_rate in found.items():
        mean, *_, given = intervals.summary(by_rate, REPETITIONS)
        assert given > 0.6, name
        assert mean >= least, name


def test_the_halving_level_too(intervals: ModuleType) -> None:
    design = intervals.Design("halves at", intervals.of_halving(10, 2, 1.8), (0.3, 0.5))
    mean, *_, given = intervals.summary(intervals.coverage(design, 60)["halves at"], 60)
    assert given > 0.8
    assert mean > 0.9


def test_paths_like_the_successes_are_mostly_near(intervals: ModuleType) -> None:
    """Of two successes nearly all count as far by the paper's tau; by leave-one-out it is one in n + 1."""
    assert intervals.far_share(2, "paper", 160) > 0.7
    assert intervals.far_share(2, "leave-one-out", 160, fewest=2) < 0.45
    assert intervals.far_share(8, "leave-one-out", 160) < 0.25
