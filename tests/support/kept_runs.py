"""Runs of the coloured world's episodes, kept in a results folder."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pytest_vla.plan.case import Case
from pytest_vla.plan.manifests import load_suite
from pytest_vla.records.record import Record
from pytest_vla.records.store import open_store
from pytest_vla.records.trajectory import Trajectory, save_trajectory
from pytest_vla.show.sheet import SheetCell
from tests.support.records import record_of

STOVE, BOWL = "turn_on_the_stove", "put_the_bowl_on_the_stove"


def keep(results: Path, run: str, model: str, *records: Record, **settings: Any) -> None:
    """A run with these records and a trajectory of each: the colours are step + 10 x seed."""
    with open_store(results, create=True) as store:
        nodes = [record.node for record in records]
        store.begin(run, nodes, command="", model=model, invocation={"settings": settings})
        for record in records:
            if record.arrays is not None:
                rows = np.arange(record.steps + 1.0)[:, None] + 10 * record.seed
                save_trajectory(results / run / record.arrays, Trajectory(rows, rows, rows, rows[1:]))
            store.add(dataclasses.replace(record, run=run))
        store.end(run, "finished")


def ended(task: str, seed: int, outcome: str, steps: int, **changes: Any) -> Record:
    case = Case("libero_goal", task, seed)
    seeds = {"run": 0, "scene": 70 + seed, "init_state": seed % 50, "init_states": 50}
    about = {"task": task, "case": case.id, "node": case.node_id, "steps": steps, "seeds": seeds}
    return record_of(seed, outcome, **({"arrays": f"libero_goal/{task}-seed{seed}.npz"} | about | changes))


def keep_two_runs(folder: Path) -> Path:
    """Two runs: of an expert (one episode broke before its first state), and at random (one task only)."""
    keep(
        *(folder, "20260101-one", "expert"),
        *(ended(STOVE, 1, "success", 7), ended(STOVE, 0, "success", 4)),
        ended(BOWL, 2, "error", 0, arrays=None, reason="world-broke"),
        ended(STOVE, 0, "failure", 9, node="test_mine.py::test_it[x]", arrays="libero_goal/x.npz"),
    )
    keep(folder, "20260102-two", "random", ended(STOVE, 0, "failure", 9))
    return folder


def write(
    run: str,
    records: list[Record],
    *,
    planned: int = 0,
    end: str = "finished",
    picked: str | None = None,
    command: str = "pytest",
    invocation: Mapping[str, Any] | None = None,
) -> None:
    """A run with so many further episodes that have not run; an empty `end`: it still runs, in this process."""
    with open_store(Path(".vla"), create=True) as store:
        nodes = [record.node for record in records] + [f"left[{number}]" for number in range(planned)]
        store.begin(run, nodes, command=command, model=records[0].policy, picked=picked, invocation=invocation)
        for record in records:
            store.add(dataclasses.replace(record, run=run))
        if end:
            store.end(run, end)


def described(cell: SheetCell | None) -> tuple[int, int, str, str] | None:
    """A fake picture's colour and camera, and the cell's texts: ``name: label``."""
    if cell is None:
        return None
    colour, camera, _ = cell.picture[0, 0]
    return int(colour), int(camera), ": ".join(filter(None, (cell.name, cell.label))), cell.tone


def tasks(*names: str) -> list[Any]:
    return [load_suite("libero_goal").task(name) for name in names]
