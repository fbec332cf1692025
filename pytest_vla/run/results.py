"""The plugin of the process that keeps a run: what reports bring is counted, stored, shown and judged.

Each of these is a module beside this one: `handover` (records taken off reports), `so_far` (which count), `stored` (the
store), `progress` (the line), `failures` and `judging` (the verdict), `telling` (what is printed). Here they are wired.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from pytest_vla import extensions
from pytest_vla.errors import VlaError
from pytest_vla.plan.case import Case
from pytest_vla.records.items import Endings
from pytest_vla.records.record import Record
from pytest_vla.run.collected import Collected, collected_of
from pytest_vla.run.failures import Failures
from pytest_vla.run.handover import Unpacking
from pytest_vla.run.judging import judge_run
from pytest_vla.run.resume import RESUMPTION
from pytest_vla.run.selection import SELECTION
from pytest_vla.run.so_far import SoFar
from pytest_vla.run.stored import StoredRun
from pytest_vla.run.telling import Telling
from pytest_vla.util.interrupts import uninterrupted
from pytest_vla.util.text import printable_lines

if TYPE_CHECKING:
    from pytest_vla.run.progress import Progress

INTERRUPTED = "interrupted"
"""The outcome of a report of an item that Ctrl-C, or a KeyboardInterrupt, ended with its worker: it has not run."""


class Results:
    """The controller's plugin.

    Args:
        config: with `SELECTION`, `RUN` and `RESUMPTION` in its stash.
        arguments: the paths and ids that the user gave to pytest, as they were typed.
    """

    def __init__(self, config: pytest.Config, arguments: Sequence[str]) -> None:
        self._config = config
        self._selection, self._resumption = config.stash[SELECTION], config.stash[RESUMPTION]
        self.so_far = SoFar()
        self.reruns: Counter[str] = Counter()
        """By node id, how often an episode was run again because its worker died."""
        self._stored = StoredRun(config, arguments, self.so_far)
        self._telling = Telling(config)
        self._unpacking, self._endings, self._failures = Unpacking(), Endings(), Failures()
        self._progress: Progress | None = None
        # By node id, the record of the attempt that is going on.
        self._current: dict[str, Record] = {}
        self._verdict: tuple[str, ...] = ()

    def begin(self, collected: Collected, workers: int) -> None:
        """The items of this invocation are known: note the run, and say what is to come.

        Args:
            collected: the items.
            workers: how many processes run them.
        """
        if self._stored.is_open or self._selection.settings.model is None or self._config.getoption("collectonly"):
            return
        if not collected.cases and self._resumption is None:
            return
        self.so_far.expect(collected)
        with _stopped_by_errors():
            self._stored.begin(collected)
        self._telling.what_comes(collected, workers, self.so_far)
        if self._telling.reporter is not None:
            from pytest_vla.run.progress import Progress

            weights = {node: expected.seconds for node, expected in self.so_far.estimates.items()}
            self._progress = Progress(self._telling.reporter, weights)
            self._show_progress(None)

    def keep(self, record: Record, node: str) -> None:
        """Put a record into the store, and show how the run goes. Stops the session where it cannot be written.

        Args:
            record: of an episode that has ended.
            node: id of the item that ran it.
        """
        so_far = self.so_far
        record = dataclasses.replace(record, attempt=so_far.attempt_of(record, self.reruns[node]))
        if record.node not in so_far.episodes:
            # Its item was not known to run an episode, which no reason is to lose it.
            label = str(record.variation.get("label", ""))
            case = Case(record.suite, record.task, record.seed, label, record.task_level)
            self.begin(Collected([node], {node: case}, {node: record.node}), 1)
            so_far.episodes |= {record.node}
        if node not in so_far.shared:
            so_far.names[node] = record.node
        with _stopped_by_errors():
            self._stored.add(record)
        self._current[node] = record
        so_far.add(record, node)
        self._show_progress(node)
        for trouble in extensions.episode_finished(record):
            self._telling.once(trouble)

    def show_preparation(self, worker: str, what: str, ended: bool) -> None:
        """Show what a worker, or this process, is at before an episode can begin; from any thread."""
        if self._progress is not None:
            self._progress.prepare(worker, None if ended else what)

    @property
    def records(self) -> tuple[Record, ...]:
        """Of each of the run's items the record that counts."""
        return tuple((self.so_far.tally.records | self._stored.closed.repetition.records).values())

    # After pytest has said how many items it collected.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Without workers, the session knows its items."""
        self.begin(collected_of(session.items), 1)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """An item's phase has ended: a record may come with it, and with the last one how the item ended."""
        # Else an episode could be there of which it is not known that its item has ended.
        with uninterrupted():
            self._take(report)

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, Any] | None:
        """A rerun is a status of its own; where a line shows how the run goes, its episodes have no dots."""
        if report.outcome == "rerun":
            return "rerun", "R", ("RERUN", {"yellow": True})
        if report.outcome == INTERRUPTED:
            return "", "", ""
        if self._progress is None or not self._progress.in_place or report.nodeid not in self.so_far.names:
            return None
        if report.when != "call" and report.passed:
            return "", "", ""
        return "error" if report.when != "call" and report.failed else report.outcome, "", ""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """All that is to be kept is in the store, and the run is judged."""
        try:
            self._stored.end(self._failures.without_policy)
        except VlaError as error:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            self._telling.error(error)
        if not self._config.option.collectonly:
            about = (self._selection, self._resumption, self.records, self._stored.closed, self._failures)
            verdict = judge_run(session, *about)
            self._verdict, session.exitstatus = verdict.lines, verdict.exit_code

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """How the run went."""
        self._telling.summary(terminalreporter, self.records, self._stored.closed, self._verdict)

    def _take(self, report: pytest.TestReport) -> None:
        new = self._unpacking.take(report)
        if new is not None:
            self.keep(new, report.nodeid)
        if not self._stored.is_open:
            return
        name, record = self.so_far.recorded_as(report.nodeid), self._current.get(report.nodeid)
        self._failures.add(report, name, record)
        ended = self._endings.add(report)
        status = ended or self._endings.of_attempt(report) or self._endings.before_teardown(report)
        if status is not None:
            # Of a shared episode each test ends by itself.
            own = None if record is None or record.node != name else record
            stands = self.so_far.tally.end(name, own, status)
            if stands is not None:
                with _stopped_by_errors():
                    self._stored.note(name, stands)
        if ended is not None or self._endings.is_rerun(report):
            self._current.pop(report.nodeid, None)

    def _show_progress(self, node: str | None) -> None:
        if self._progress is not None:
            self._progress.show(node, self.so_far.new, self.so_far.done, self.so_far.total)


@contextmanager
def _stopped_by_errors() -> Iterator[None]:
    """What cannot be written ends the session."""
    try:
        yield
    except VlaError as error:
        pytest.exit(printable_lines(str(error)), returncode=pytest.ExitCode.INTERNAL_ERROR)
