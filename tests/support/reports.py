"""Runs of made records in the current folder, and what ``pytest-vla report`` says of them."""

import argparse
import dataclasses
import io
import json
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from pytest_vla.commands import report as report_command
from pytest_vla.records.record import Record
from pytest_vla.records.store import open_store
from pytest_vla.records.trajectory import Trajectory, save_trajectory
from pytest_vla.reports.json_schema import report_schema

RESULTS = Path(".vla")


def report(*arguments: str | Path) -> None:
    """The command; the JSON that it prints is as its schema says."""
    parser = argparse.ArgumentParser()
    report_command.declare(parser)
    options = parser.parse_args(list(map(str, arguments)))
    if options.format != "json" or options.output is not None or options.schema:
        report_command.run(options)
        return
    said = io.StringIO()
    try:
        with redirect_stdout(said):
            report_command.run(options)
    finally:
        print(said.getvalue(), end="")
    faults = faults_of(json.loads(said.getvalue()))
    assert not faults, faults


def models_of(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[dict[str, Any]]:
    capsys.readouterr()
    report("--format=json", *arguments)
    models: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["models"]
    return models


def faults_of(table: Any) -> list[str]:
    """What a report's JSON has that its schema does not allow: where, and why."""
    faults = Draft202012Validator(report_schema()).iter_errors(table)
    return [f"{'/'.join(map(str, each.absolute_path))}: {best_match([each]).message}" for each in faults]


def write(
    records: Iterable[Record | tuple[Record, Trajectory]], run: str = "a-run", planned: int | None = None
) -> None:
    """A run of these records, in the current folder; no two have the same digest."""
    with open_store(RESULTS, create=True) as store:
        found = [each if isinstance(each, tuple) else (each, None) for each in records]
        nodes = [record.node for record, _ in found] + [f"left[{number}]" for number in range(planned or 0)]
        store.begin(run, nodes, command="pytest", model=found[0][0].policy)
        for number, (record, trajectory) in enumerate(found):
            if trajectory is not None:
                record = dataclasses.replace(record, arrays=f"{record.suite}/{number}.npz", digest=f"{run}, {number}")
                save_trajectory(RESULTS / run / str(record.arrays), trajectory)
            store.add(dataclasses.replace(record, run=run))
        store.end(run, "finished")
