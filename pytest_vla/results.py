"""Records on their way: from the process that ran an episode to the one that writes and shows them.

A worker writes the trajectory's file and hands the record over as one JSON string in the item's `user_properties`; the
controller (the only process, without xdist) writes the lines.
"""

import dataclasses
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vla.records import (
    EPISODES,
    Record,
    append_line,
    make_run_folder,
    parse_record,
    record_line,
    save_trajectory,
)

if TYPE_CHECKING:
    from pytest_vla.rollout import Rollout

PROPERTY = "vla_record"
"""The name of the user property that carries a record."""

RUN = pytest.StashKey[Path]()
"""The run's folder; made when the first episode has ended."""


def new_run(results: Path) -> Path:
    """The folder of a new run: named by the local time, with a suffix that keeps runs of one second apart."""
    return results / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"


def attach(item: pytest.Item, run: Path, rollout: "Rollout") -> "Rollout":
    """Write an episode's trajectory and put its record on the item. Returns the rollout with the file's name.

    Raises:
        OSError: the file cannot be written.
    """
    record = rollout.record
    if len(rollout.trajectory.qpos):
        make_run_folder(run)
        name = f"{record.suite}/{record.task}-seed{record.seed}.npz"
        save_trajectory(run / name, rollout.trajectory)
        record = dataclasses.replace(record, arrays=name)
    item.user_properties.append((PROPERTY, record_line(record)))
    return dataclasses.replace(rollout, record=record)


class Results:
    """The controller's plugin: writes a record when its episode has ended, and shows the rates at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._records: dict[str, Record] = {}
        self._written: set[int] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The record comes with the report of the phase in which the episode ran, and again with later ones."""
        for name, line in report.user_properties:
            if name == PROPERTY and hash(line) not in self._written:
                self._written.add(hash(line))
                self._write(str(line))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A table of rates; one line with -q, nothing with -qq, nothing where no episode ran."""
        verbosity = self._config.get_verbosity()
        if not self._records or verbosity < -1:
            return
        from pytest_vla.reports.terminal import summary_lines, summary_sentence

        records, file = list(self._records.values()), self._config.stash[RUN] / EPISODES
        if verbosity < 0:
            terminalreporter.write_line(summary_sentence(records))
            return
        terminalreporter.section("vla")
        for line in summary_lines(records):
            terminalreporter.write_line(line)
        terminalreporter.write_line(f"records: {_shown(file)}")

    def _write(self, line: str) -> None:
        run = self._config.stash[RUN]
        try:
            make_run_folder(run)
            append_line(run / EPISODES, line)
        except OSError as error:
            pytest.exit(f"cannot write records: {error}", returncode=pytest.ExitCode.INTERNAL_ERROR)
        record = parse_record(line)
        self._records[record.case] = record


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
