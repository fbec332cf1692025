"""Records on their way: from the process that ran an episode to the one that keeps and shows them.

A worker writes the trajectory's file and hands the record over as one JSON string in the item's `user_properties`; the
controller (the only process, without xdist) puts it into the store.
"""

import dataclasses
import hashlib
import os
import shlex
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vla.collection import SELECTION
from pytest_vla.errors import VlaError
from pytest_vla.plan import Case
from pytest_vla.records import Record, parse_record, record_line, save_trajectory
from pytest_vla.resume import RESUMPTION, invocation_of
from pytest_vla.suite import load_suite, suite_names
from pytest_vla.verdict import judge

if TYPE_CHECKING:
    from pytest_vla.durations import Estimate
    from pytest_vla.progress import Progress
    from pytest_vla.rollout import Rollout
    from pytest_vla.store import Store

PROPERTY = "vla_record"
"""The name of the user property that carries a record."""

RUN = pytest.StashKey[Path]()
"""The run's folder; made when the first episode has ended."""

STDERR = pytest.StashKey[int]()
"""A duplicate of the terminal's stderr, where there is a wall limit and no worker to take over from."""

RERUNS = 1
"""How often an episode is run again whose worker died."""


def new_run_name() -> str:
    """The name of a new run: the local time, with a suffix that keeps runs of one second apart."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"


def attach(item: pytest.Item, run: Path, rollout: "Rollout") -> "Rollout":
    """Write an episode's trajectory and put its record on the item. Returns the rollout with the file's name.

    Raises:
        OSError: the file cannot be written.
    """
    record = rollout.record
    if len(rollout.trajectory.qpos):
        # Several tests of the user's own may run the same case; each keeps its file.
        own = "" if record.of_suite else f"-{hashlib.sha256(record.node.encode()).hexdigest()[:12]}"
        name = f"{record.suite}/{record.task}-seed{record.seed}{own}.npz"
        save_trajectory(run / name, rollout.trajectory)
        record = dataclasses.replace(record, arrays=name)
    item.user_properties.append((PROPERTY, record_line(record)))
    return dataclasses.replace(rollout, record=record)


class Results:
    """The controller's plugin: keeps a record when its episode has ended, shows how the run goes, and judges it."""

    def __init__(self, config: pytest.Config, arguments: Sequence[str]) -> None:
        """Nothing is written before the first episode is known.

        Args:
            config: with `SELECTION`, `RUN` and `RESUMPTION` in its stash.
            arguments: the paths and ids that the user gave to pytest, as they were typed.
        """
        self._config, self._arguments = config, arguments
        self._selection, self._run = config.stash[SELECTION], config.stash[RUN]
        self._resumption = config.stash[RESUMPTION]
        self.estimates: dict[str, Estimate] = {}
        """By node id, how long each episode of this invocation is likely to take."""
        self._store: Store | None = None
        self._planned: frozenset[str] = frozenset()
        self._kept: dict[str, Record] = {}
        self._new: dict[str, Record] = {}
        self._lines: dict[str, int] = {}
        self._crashes: Counter[str] = Counter()
        self._failed_episodes = 0
        self._verdict: tuple[str, ...] = ()
        self._progress: Progress | None = None

    def begin(self, cases: Mapping[str, Case], workers: int) -> None:
        """The episodes of this invocation are known: note the run, and say what is to come.

        Args:
            cases: by node id.
            workers: how many processes run them.
        """
        settings = self._selection.settings
        if self._store is not None or settings.model is None or self._config.getoption("collectonly"):
            return
        if not cases and self._resumption is None:
            return
        from pytest_vla.store import open_store

        try:
            self._store = open_store(settings.results, create=True)
            if self._resumption is None:
                self._store.begin(
                    self._run.name,
                    tuple(cases),
                    command=shlex.join(["pytest", *map(str, self._config.invocation_params.args)]),
                    model=settings.model,
                    invocation=invocation_of(settings, self._arguments),
                )
            else:
                self._store.resume(self._run.name)
                records = self._store.records(self._run.name)
                self._kept = {record.node: record for record in records if record.node not in cases}
            self._planned = frozenset(self._store.planned(self._run.name))
            self.estimates = dict(zip(cases, self._estimate(tuple(cases.values()), self._store), strict=True))
        except VlaError as error:
            self._stop(error)
        self._say_what_comes(cases, workers)

    # After pytest has said how many items it collected.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without workers, the session knows its items."""
        cases = {item.nodeid: case for item in session.items if (case := case_of_item(item)) is not None}
        self.begin(cases, 1)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The record comes with the report of the phase in which the episode ran, and again with later ones."""
        line = next((str(value) for name, value in report.user_properties if name == PROPERTY), None)
        if line is None:
            return
        if self._lines.get(report.nodeid) != hash(line):
            self._lines[report.nodeid] = hash(line)
            self.keep(parse_record(line))
        record = self._new[report.nodeid]
        # Reports go on to JUnit files and the like, where a whole record would be in the way.
        shown = {"vla_case": record.case, "vla_outcome": record.outcome, "vla_steps": record.steps}
        others = [(name, value) for name, value in report.user_properties if name != PROPERTY]
        report.user_properties[:] = [*others, *shown.items()]
        if report.when == "call" and not record.of_suite and report.passed and self._store is not None:
            self._guarded(self._store.mark_passed, self._run.name, record.node)
        if report.failed and report.when == "call" and record.of_suite and record.outcome == "failure":
            self._failed_episodes += 1

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, Any] | None:
        """A rerun is a status of its own; where a line shows how the run goes, its episodes have no dots."""
        if report.outcome == "rerun":
            return "rerun", "R", ("RERUN", {"yellow": True})
        if self._progress is None or not self._progress.in_place or report.nodeid not in self._planned:
            return None
        if report.when != "call" and report.passed:
            return "", "", ""
        return "error" if report.when != "call" and report.failed else report.outcome, "", ""

    def crashed(self, node: str, case: Case, report: Any, *, hung: str | None, can_rerun: bool) -> bool:
        """An episode's worker died. The first time, the episode is to run again; then it is an error.

        Args:
            node: node id of the item.
            case: of the item.
            report: xdist's report of the crash; becomes that of a rerun.
            hung: where it hung, if it was ended for that; such an episode is not run again.
            can_rerun: whether the scheduler can.

        Returns:
            Whether to run it again.
        """
        self._crashes[node] += 1
        if hung is None and can_rerun and self._crashes[node] <= RERUNS:
            report.outcome = "rerun"
            return True
        from pytest_vla.rollout import CRASHED, TIMEOUT, Conditions, lost_episode

        settings = self._selection.settings
        message = hung or report.longreprtext.strip() or "its worker died"
        if self._crashes[node] > 1:
            message += f", for the {self._crashes[node]}. time"
        conditions = Conditions(
            str(settings.model),
            replan=settings.replan,
            run_seed=settings.run_seed,
            run=self._run.name,
            worker=report.node.gateway.id,
        )
        task = load_suite(case.suite, data=settings.data).task(case.task)
        reason = CRASHED if hung is None else TIMEOUT
        report.longrepr = f"error {reason}: {message}\n  run it alone: {settings.command(node)}"
        self.keep(lost_episode(case, task, conditions, reason=reason, message=message, node=node))
        return False

    def keep(self, record: Record) -> None:
        """Put a record into the store, and show how the run goes. Stops the session where it cannot be written."""
        record = dataclasses.replace(record, attempt=1 + min(self._crashes[record.node], RERUNS))
        if self._store is not None:
            self._guarded(self._store.add, record)
        # By item and not by case: tests of the user's own may run one case several times.
        self._new[record.node] = record
        self._show_progress(record.node)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """With a wanted success rate, that and not the failed episodes decides over the run."""
        self._end(session)
        settings = self._selection.settings
        if self._config.option.collectonly:
            return
        records = [record for record in self.records if record.of_suite]
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self._resumption and not self._resumption.left:
            session.exitstatus = pytest.ExitCode.OK
        others = session.testsfailed - self._failed_episodes
        stopped = bool(session.shouldstop or session.shouldfail)
        # In the ini file it is for runs of suites, and the project's other tests are run as ever.
        if settings.min_success is not None and (settings.min_success_typed or self._selection.named or records):
            self._verdict, passed = judge(records, settings.min_success, others, stopped)
        else:
            # What was kept of a run that is gone on with counts as if it had failed now.
            passed = not session.testsfailed and all(record.outcome != "failure" for record in self._kept.values())
        # Interrupted, a usage error, nothing collected: that stays.
        if session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            session.exitstatus = pytest.ExitCode.OK if passed else pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A table of rates; one line with -q, nothing with -qq, nothing where no episode ran. The verdict always."""
        verbosity = self._config.get_verbosity()
        lines: tuple[str, ...] = ()
        if self.records and verbosity >= -1:
            from pytest_vla.reports.terminal import closing_lines

            width = terminalreporter._tw.fullwidth if terminalreporter.isatty else None
            lines = closing_lines(self.records, self._run, self._planned, verbosity, width)
        if verbosity >= 0 and (lines or self._verdict):
            terminalreporter.section("vla")
        for line in (*lines, *self._verdict):
            terminalreporter.write_line(line)

    @property
    def records(self) -> tuple[Record, ...]:
        """The last record of each of the run's items."""
        return tuple({**self._kept, **self._new}.values())

    def _say_what_comes(self, cases: Mapping[str, Case], workers: int) -> None:
        from pytest_vla.progress import Progress
        from pytest_vla.reports.terminal import opening_line

        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        if reporter is None:
            return
        if self._config.get_verbosity() >= 0:
            model = str(self._selection.settings.model)
            resumed = None if self._resumption is None else (self._run.name, len(self._kept))
            reporter.ensure_newline()
            estimates = tuple(self.estimates.values())
            reporter.write_line(opening_line(tuple(cases.values()), model, workers, estimates, resumed))
        self._progress = Progress(reporter, {node: expected.seconds for node, expected in self.estimates.items()})
        self._show_progress(None)

    def _estimate(self, cases: Sequence[Case], store: "Store") -> "tuple[Estimate, ...]":
        from pytest_vla.durations import estimate

        settings = self._selection.settings
        measured = store.durations(str(settings.model))
        # A suite that was measured once may be gone.
        suites = {case.suite for case in cases} | ({suite for suite, *_ in measured} & set(suite_names()))
        max_steps = {name: load_suite(name, data=settings.data).protocol.max_steps for name in suites}
        return estimate(cases, measured, max_steps)

    def _show_progress(self, node: str | None) -> None:
        if self._progress is not None:
            self._progress.show(node, tuple(self._new.values()), len(self._kept), len(self._planned))

    def _end(self, session: pytest.Session) -> None:
        store, self._store = self._store, None
        if store is None:
            return
        try:
            if not self.records:
                # Such as a policy that could not be loaded: there is nothing to go on with.
                store.discard(self._run.name)
            else:
                finished = len(self.records) >= len(self._planned)
                store.end(self._run.name, "finished" if finished else "stopped")
        except VlaError as error:
            reporter = self._config.pluginmanager.getplugin("terminalreporter")
            if reporter is not None:
                reporter.ensure_newline()
                reporter.write_line(f"pytest-vla: {error}")
        finally:
            store.close()

    def _guarded(self, write: Any, *arguments: Any) -> None:
        try:
            write(*arguments)
        except VlaError as error:
            self._stop(error)

    def _stop(self, error: VlaError) -> None:
        pytest.exit(str(error), returncode=pytest.ExitCode.INTERNAL_ERROR)


def case_of_item(item: pytest.Item) -> Case | None:
    """The case that an item runs; None where it is no episode."""
    case = item.callspec.params.get("vla_case") if hasattr(item, "callspec") else None
    return case if isinstance(case, Case) else None
