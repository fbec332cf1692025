"""Records on their way: from the process that ran an episode to the one that writes and shows them.

A worker writes the trajectory's file and hands the record over as one JSON string in the item's `user_properties`; the
controller (the only process, without xdist) writes the lines.
"""

import dataclasses
import hashlib
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_vla.collection import SELECTION
from pytest_vla.plan import parse_node_id
from pytest_vla.records import (
    EPISODES,
    Record,
    append_line,
    make_run_folder,
    parse_record,
    record_line,
    save_trajectory,
)
from pytest_vla.suite import load_suite

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
        # Several tests of the user's own may run the same case; each keeps its file.
        own = "" if record.of_suite else f"-{hashlib.sha256(record.node.encode()).hexdigest()[:12]}"
        name = f"{record.suite}/{record.task}-seed{record.seed}{own}.npz"
        save_trajectory(run / name, rollout.trajectory)
        record = dataclasses.replace(record, arrays=name)
    item.user_properties.append((PROPERTY, record_line(record)))
    return dataclasses.replace(rollout, record=record)


class Results:
    """The controller's plugin: writes a record when its episode has ended, shows the rates, and judges the run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._records: dict[str, Record] = {}
        self._lines: dict[int, Record] = {}
        self._failed_episodes = 0
        self._verdict: tuple[str, ...] = ()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The record comes with the report of the phase in which the episode ran, and again with later ones."""
        for name, line in report.user_properties:
            if name != PROPERTY:
                continue
            if hash(line) not in self._lines:
                self._lines[hash(line)] = self._write(str(line))
            record = self._lines[hash(line)]
            if report.failed and report.when == "call" and record.of_suite and record.outcome == "failure":
                self._failed_episodes += 1
        # xdist reports an item whose worker died in a phase of this name, which pytest's types do not know.
        if str(report.when) == "???":
            self._write_lost(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """With a wanted success rate, that and not the failed episodes decides over the run."""
        settings = self._config.stash[SELECTION].settings
        records = [record for record in self._records.values() if record.of_suite]
        if settings.min_success is None or self._config.option.collectonly:
            return
        # In the ini file it is for runs of suites, and the project's other tests are run as ever.
        if not (settings.min_success_typed or self._config.stash[SELECTION].named or records):
            return
        others = session.testsfailed - self._failed_episodes
        stopped = bool(session.shouldstop or session.shouldfail)
        self._verdict, passed = judge(records, settings.min_success, others, stopped)
        # Interrupted, a usage error, nothing collected: that stays.
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = pytest.ExitCode.OK if passed else pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A table of rates; one line with -q, nothing with -qq, nothing where no episode ran. The verdict always."""
        verbosity = self._config.get_verbosity()
        if self._records and verbosity >= -1:
            self._show_rates(terminalreporter, verbosity)
        elif self._verdict and verbosity >= 0:
            terminalreporter.section("vla")
        for line in self._verdict:
            terminalreporter.write_line(line)

    def _show_rates(self, terminalreporter: pytest.TerminalReporter, verbosity: int) -> None:
        from pytest_vla.reports.terminal import summary_lines, summary_sentence

        records = [record for record in self._records.values() if record.of_suite]
        own: dict[str, list[Record]] = {}
        for record in self._records.values():
            if not record.of_suite:
                own.setdefault(record.node.partition("[")[0], []).append(record)
        if verbosity < 0:
            if records:
                terminalreporter.write_line(summary_sentence(records))
            if own:
                terminalreporter.write_line(summary_sentence([r for rs in own.values() for r in rs], "vla, own tests"))
            return
        terminalreporter.section("vla")
        for line in summary_lines(records, own):
            terminalreporter.write_line(line)
        terminalreporter.write_line(f"records: {_shown(self._config.stash[RUN] / EPISODES)}")

    def _write_lost(self, report: pytest.TestReport) -> None:
        """An episode whose worker was killed is an error that counts as one, and not one that is missing."""
        case = parse_node_id(report.nodeid)
        if case is None:
            return
        from pytest_vla.rollout import lost_episode

        settings = self._config.stash[SELECTION].settings
        task = load_suite(case.suite, data=settings.data).task(case.task)
        message = report.longreprtext.strip() or "its worker died"
        run = self._config.stash[RUN].name
        record = lost_episode(case, task, message, model=str(settings.model), replan=settings.replan, run=run)
        self._write(record_line(record))

    def _write(self, line: str) -> Record:
        run = self._config.stash[RUN]
        try:
            make_run_folder(run)
            append_line(run / EPISODES, line)
        except OSError as error:
            pytest.exit(f"cannot write records: {error}", returncode=pytest.ExitCode.INTERNAL_ERROR)
        record = parse_record(line)
        # By item and not by case: tests of the user's own may run one case several times.
        self._records[record.node] = record
        return record


def judge(records: Sequence[Record], minimum: float, others: int, stopped: bool) -> tuple[tuple[str, ...], bool]:
    """The verdict over a run: the lines that say it, and whether the run passes.

    Args:
        records: of the suites' own items.
        minimum: the success rate that each suite has to reach.
        others: how many reports failed beside failed episodes: errors, and tests of the user's own.
        stopped: whether the run ended before all its items had run.
    """
    from pytest_vla.metrics.success import suite_rates
    from pytest_vla.reports.terminal import verdict_line

    rates = suite_rates(records)
    lines = [verdict_line(rate, minimum) for rate in rates]
    if not rates:
        lines.append("--vla-min-success: no episode of a suite ran: failed")
    if others:
        lines.append(f"failed all the same: {others} beside the failed episodes (errors, other tests)")
    if stopped:
        lines.append("failed all the same: the run was stopped before its end")
    return tuple(lines), bool(rates) and all(rate.reaches(minimum) for rate in rates) and not others and not stopped


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
