"""Sheets of a world without a simulator, and runs to be shown."""

import sys
import types
from pathlib import Path
from typing import Any

import pytest

from pytest_vla.show import runs as run_sheets
from pytest_vla.show import tasks as task_sheets
from pytest_vla.show import variations as vary_sheets
from tests.support.coloured import ColouredWorld
from tests.support.kept_runs import keep_two_runs


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The coloured world in the simulator's place, and what was asked of the sheet."""
    module: Any = types.ModuleType("pytest_vla.sim.world")
    module.World = ColouredWorld
    monkeypatch.setitem(sys.modules, "pytest_vla.sim.world", module)
    ColouredWorld.forget()
    asked: dict[str, Any] = {}
    real = task_sheets.sheet

    def spy(rows: Any, **texts: Any) -> Any:
        asked.update(rows=rows, **texts)
        return real(rows, **texts)

    for module_of_sheets in (task_sheets, run_sheets, vary_sheets):
        monkeypatch.setattr(module_of_sheets, "sheet", spy)
    return asked


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A results folder with two runs, below the current folder."""
    monkeypatch.chdir(tmp_path)
    return keep_two_runs(tmp_path / ".vla")
