"""What a run says that time has ended, where failures take four times as long as successes."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

REPETITIONS = 150
OURS, CUT, NAIVE = 0, 1, 3


@pytest.fixture(scope="module")
def stopped() -> ModuleType:
    spec = importlib.util.spec_from_file_location("stopped", Path(__file__).parents[2] / "benchmarks" / "stopped.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["stopped"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def drawn(stopped: ModuleType) -> list[list[int]]:
    found: list[list[int]] = stopped.orders(stopped.planned(), 20)
    return found


def told(stopped: ModuleType, drawn: list[list[int]], way: int, share: float) -> Any:
    return stopped.told(stopped.WAYS[way], 0.5, share, REPETITIONS, drawn)


def test_the_rate_of_what_ran_is_right_and_its_interval_holds(stopped: ModuleType, drawn: list[list[int]]) -> None:
    ours = told(stopped, drawn, OURS, 0.25)
    # The mean of 150 rates of 480 episodes strays by 0.2 points.
    assert abs(ours.bias) < 0.5 + 3 * 0.2
    assert ours.coverage > 0.95 - 3 * (0.95 * 0.05 / REPETITIONS) ** 0.5


def test_cutting_what_runs_leaves_out_failures(stopped: ModuleType, drawn: list[list[int]]) -> None:
    ours, cut = (told(stopped, drawn, way, 0.05) for way in (OURS, CUT))
    assert cut.bias > 1.0
    assert cut.bias > ours.bias + 1.0


def test_what_came_first_says_nothing_of_the_rest(stopped: ModuleType, drawn: list[list[int]]) -> None:
    assert told(stopped, drawn, NAIVE, 0.25).coverage < 0.6
