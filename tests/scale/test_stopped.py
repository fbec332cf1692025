"""What a run says that time has ended, where failures take four times as long as successes."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

REPETITIONS = 60


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
def drawn(stopped: ModuleType) -> Any:
    return stopped.orders(stopped.planned(), 20)


def told(stopped: ModuleType, drawn: Any, way: str, **setting: Any) -> Any:
    return stopped.told(
        getattr(stopped, way), stopped.Setting(**{"workers": 8, "rate": 0.5} | setting), REPETITIONS, drawn
    )


def test_the_rate_of_what_ran_is_right_and_its_interval_holds(stopped: ModuleType, drawn: Any) -> None:
    ours = told(stopped, drawn, "OURS", share=0.25)
    assert abs(ours.bias) < 0.5 + 3 * ours.error
    assert ours.coverage > 0.95 - 3 * (0.95 * 0.05 / REPETITIONS) ** 0.5


def test_many_workers_bring_no_easy_tasks_forward(stopped: ModuleType, drawn: Any) -> None:
    ours, staying = (told(stopped, drawn, way, workers=64, share=0.1, differ=True) for way in ("OURS", "STAYING"))
    assert abs(ours.bias) < 0.5 + 3 * ours.error
    assert ours.coverage == 1.0, "half of the tasks are done always, and each has its share"
    assert staying.bias > 2.0, "where workers stay with their scenes they do"
    assert staying.loaded < ours.loaded


def test_cutting_what_runs_leaves_out_failures(stopped: ModuleType, drawn: Any) -> None:
    ours, cut = (told(stopped, drawn, way, share=0.05, differ=True) for way in ("OURS", "CUTTING"))
    assert cut.bias > 1.0
    assert cut.bias > ours.bias + 1.0


def test_what_came_first_says_nothing_of_the_rest(stopped: ModuleType, drawn: Any) -> None:
    assert told(stopped, drawn, "NAIVE", share=0.25).coverage < 0.6
