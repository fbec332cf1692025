"""The plugin of the process that keeps a run: what reports bring is counted, stored, shown and judged.

A record is written in these steps: `Results.pytest_runtest_logreport` takes the record off the report and calls
`Results.keep_record`; that calls `stored.StoredRun.write_record`; that hands it to `Writer.put` of
`pytest_vla.records.store`, which writes it into the store. (The process that ran the episode has put the record on
the report: `record_transport.attach_record`, called by the `rollout` fixture.)

Each part of the work is a module beside this one: `record_transport` (records on reports), `stored` (the store, and the
progress), `progress` (the live line), `failures` (failed reports), `time_budget` (the time
limit), `tracking` (trackers of experiments), `terminal` (printed lines). This module connects them.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_vla import extensions
from pytest_vla.errors import CRASHED, VlaError
from pytest_vla.gate.choices import REQUIRED
from pytest_vla.gate.min_success import NO_POLICY, against_others, judge, minimum_text, run_line, weigh
from pytest_vla.metrics.selection import observations
from pytest_vla.plan.case import Case
from pytest_vla.records.counting import is_complete
from pytest_vla.records.items import DECIDED, SKIPPED, Endings
from pytest_vla.records.record import Record
from pytest_vla.run.context import RunContext
from pytest_vla.run.early_stopping import was_decided, write_decided
from pytest_vla.run.failures import NOT_DONE, FailedReports, as_it_ended, is_not_done
from pytest_vla.run.gate import (
    GateConfig,
    GateOutcome,
    GateVerdicts,
    agree,
    check_summaries,
    gated_lines,
    judge_by,
    kept_of,
    write_summaries,
)
from pytest_vla.run.nodes import Collected, collected_of
from pytest_vla.run.record_transport import RecordReceiver
from pytest_vla.run.resume import picking_option
from pytest_vla.run.sharding import is_empty_shard, kept_of_shard
from pytest_vla.run.stored import Closed, StoredRun
from pytest_vla.run.terminal import RunReporter
from pytest_vla.run.time_budget import InTime, kept_order
from pytest_vla.run.tracking import make_tracking
from pytest_vla.run.utilisation import closing_lines, scarce_now
from pytest_vla.util.processes import uninterrupted
from pytest_vla.util.text import counted, printable_lines

if TYPE_CHECKING:
    from pytest_vla.gate.verdicts import GateGroup, GateJudgement
    from pytest_vla.run.early_stopping import Deciding
    from pytest_vla.run.progress import ProgressLine
    from pytest_vla.run.xdist.ray_workers import Incoming


# The gate in a run: the plan before the first episode, decisions during the run, and the verdict at its end.
#
# When all episodes have ended, the gate's groups become items, such as ``gate::libero_goal[camera]``. They are
# reports without a test behind them. pytest's plugins that print, count or write files get them; the plugins that
# remember failed items to rerun them do not.

PLACE = "gate"
"""What their ids begin with."""

_OTHERS = ("lfplugin", "nfplugin", "stepwiseplugin")
"""pytest's plugins that remember items."""

Outcome = Literal["passed", "failed", "skipped"]


class RunGate:
    """The gate of a run, a plugin of the process that keeps the run. It does nothing in a run without a gate.

    Args:
        context: the context of that process.
        stored: the run in the store.
        in_time: the run's time limit.

    Raises:
        VlaError: the file of ``--vla-gate-summary`` cannot be written.
    """

    def __init__(self, context: RunContext, stored: StoredRun, in_time: InTime) -> None:
        self._context, self._so_far, self._stored, self._in_time = context, context.so_far, stored, in_time
        self.gate = context.gate
        """What the run is compared with, and as soon as its items are known what was agreed."""
        self.deciding: Deciding | None = None
        """Of a sequential gate, what is decided by now."""
        self.gated: GateOutcome | None = None
        """How the run ended by it."""
        if self.gate is not None and context.settings.gate_summary:
            check_summaries(context.settings.gate_summary)

    def agree(self, collected: Collected) -> None:
        """Make the plan of the comparison before the first episode. Raises UsageError."""
        gate = self.gate
        if gate is None or gate.agreed is not None or (collected.searches and not collected.cases):
            return
        try:
            context = self._context
            if option := picking_option(context.config, collected.nodes, context.settings.results):
                raise VlaError(
                    f"{option} selects items by their earlier outcomes, which would bias the comparison with the "
                    "baseline: leave it out, or run without --vla-baseline (-o vla_baseline=)"
                )
            self.gate = agree(gate, self._so_far.episodes_of(collected), self._context.settings)
        except VlaError as error:
            raise pytest.UsageError(printable_lines(str(error))) from error

    def kept(self) -> dict[str, Any]:
        """Return the gate's plan as a new run's invocation keeps it."""
        return kept_of(self.gate)

    def begin(self) -> None:
        """Start a sequential gate with the records of earlier invocations. Raises VlaError."""
        gate, tally = self.gate, self._so_far.tally
        if gate is None or gate.agreed is None or not gate.agreed.is_sequential:
            return
        from pytest_vla.run.early_stopping import Deciding

        self.deciding = Deciding(gate, self._so_far.episodes)
        if tally.records:
            # What an earlier invocation wrote is not to be heeded before it is found again.
            write_decided(self._context.folder, {})
            self.decide({node: tally.judged_outcome(node) for node in tally.records})

    def decide(self, outcomes: Mapping[str, str]) -> Mapping[str, str]:
        """Add outcomes. Returns the reasons of all skipped items by node id if a group was decided, else nothing.

        Args:
            outcomes: by the node id under which an episode is recorded.

        Raises:
            VlaError: the file cannot be written.
        """
        if self.deciding is None or not self.deciding.add(outcomes):
            return {}
        skipped = self.deciding.skipped
        write_decided(self._context.folder, skipped)
        self._so_far.decided = {node for node in skipped if node not in self._so_far.tally.records}
        return skipped

    def turns(self, nodes: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return by node id the round of an item and 0; empty without a sequential gate."""
        if self.deciding is None:
            return {}
        names = {node: self._so_far.names[node] for node in nodes if node in self._so_far.names}
        turns = self.deciding.turns([*names.values()])
        return {node: (turns[name], 0) for node, name in names.items()}

    # When whoever else adds records has, and before anybody closes what reports go to.
    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Judge the gate, and report its groups as items."""
        gate = self.gate
        if gate is None or session.config.option.collectonly:
            return
        self._stored.settle()
        stopped = bool(session.shouldstop or session.shouldfail)
        judged, failed = self._judged(gate, session), 0
        if judged.judgement is not None:
            ours = session.config.pluginmanager.getplugin("vla-results")
            failed = report_groups(session, judged.judgement, gate.required, ours)
        self.gated = GateOutcome(gate, judged, failed, stopped)

    def _judged(self, gate: GateConfig, session: pytest.Session) -> GateVerdicts:
        so_far = self._so_far
        # A sequential gate looks at any time: what is not decided yet is undecided.
        is_looking = self.deciding is not None and self._in_time.has_ended(session)
        if not self._stored.is_open:
            has_policy = self._context.settings.model is not None
            return GateVerdicts(None, None, "no episode ran" if has_policy else NO_POLICY)
        if not so_far.episodes:
            return GateVerdicts(None, None, "no episode ran")
        if so_far.left and not is_looking:
            were = "was" if so_far.left == 1 else "were"
            left = f"{so_far.left} of {counted(len(so_far.episodes), 'episode')} {were} not run"
            return GateVerdicts(None, None, f"the gate was not judged: {left}")
        return judge_by(gate, self._context.folder, so_far.episodes, is_looking)


def report_groups(session: pytest.Session, judgement: "GateJudgement", required: str, ours: object) -> int:
    """Report the gate's groups as items. Returns how many failed.

    Args:
        session: the session, whose episodes have all ended.
        judgement: the gate's verdicts.
        required: a key of `REQUIRED`.
        ours: the plugin that takes reports of episodes; it does not get these reports.
    """
    manager = session.config.pluginmanager
    others = [plugin for plugin in map(manager.getplugin, _OTHERS) if plugin is not None]
    tell = manager.subset_hook_caller("pytest_runtest_logreport", [*others, ours])
    reporter = manager.getplugin("terminalreporter")
    if reporter is not None:
        # The last line of episodes says that it is the last; where a line shows how the run goes, they had no dots.
        reporter.currentfspath = None
        reporter.showfspath = reporter.showfspath or session.config.get_verbosity() == 0
    session.testscollected += len(judgement.groups)
    failed = 0
    for group in judgement.groups:
        location = (PLACE, None, group.name)
        nodeid = f"{PLACE}::{group.name}"
        session.config.hook.pytest_runtest_logstart(nodeid=nodeid, location=location)
        for report in _reports(nodeid, location, group, judgement, required):
            failed += report.failed
            tell(report=report)
        session.config.hook.pytest_runtest_logfinish(nodeid=nodeid, location=location)
    return failed


def outcome_of(group: "GateGroup", judgement: "GateJudgement", required: str) -> Outcome:
    """Return the outcome of a group's item; a group fails only if the gate as a whole does not meet its requirement."""
    met = REQUIRED[required]
    if judgement.verdict not in met and group.verdict not in met:
        return "failed"
    return "skipped" if group.verdict == "undecided" else "passed"


def _reports(
    nodeid: str, location: tuple[str, None, str], group: "GateGroup", judgement: "GateJudgement", required: str
) -> Iterator[pytest.TestReport]:
    from pytest_vla.reports.gates import group_reason

    outcome = outcome_of(group, judgement, required)
    said: str | tuple[str, int, str] | None = None
    if outcome == "failed":
        said = group_reason(group, judgement)
    elif outcome == "skipped":
        # pytest's short summary has the reason alone.
        said = (PLACE, 0, f"Skipped: {group.name}: {group_reason(group, judgement)}")
    keywords: dict[str, Literal[1]] = {PLACE: 1, group.name: 1}
    properties = [("vla_verdict", group.verdict)]
    yield pytest.TestReport(nodeid, location, keywords, "passed", None, "setup")
    judged = pytest.TestReport(nodeid, location, keywords, outcome, said, "call", user_properties=properties)
    # pytest's mark of a failure that was shown: the lines at the end have it, so the section of failures leaves it out.
    judged._pdbshown = True  # type: ignore[attr-defined]
    yield judged
    yield pytest.TestReport(nodeid, location, keywords, "passed", None, "teardown", user_properties=properties)


# Whether a run passes: by how all of its items ended, by a wanted success rate, by a gate, or by both of these.

_CUT_SHORT = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
"""Endings with which no run has passed, whatever its rates."""


@dataclass(frozen=True)
class RunVerdict:
    """The verdict's lines, and pytest's exit code."""

    lines: tuple[str, ...]
    exit_code: int


def judge_run(
    session: pytest.Session,
    context: RunContext,
    records: Sequence[Record],
    closed: Closed,
    failures: FailedReports,
    gated: GateOutcome | None = None,
) -> RunVerdict:
    """Judge the run by all of its items; a minimum success rate or a gate replaces the count of failed episodes.

    Args:
        session: pytest's, after its items have run.
        context: the run's context.
        records: for each of the run's items the record that counts.
        closed: the run in the store, after its end.
        failures: the failed reports of this invocation.
        gated: the end of a run with a gate, or None without a gate.
    """
    selection, resumption = context.selection, context.resumption
    settings, lines, code = selection.settings, tuple[str, ...](), session.exitstatus
    # Where no suite is asked for, the user's tests have all episodes that there are.
    all_own = settings.min_success_typed and not selection.named and not any(record.of_suite for record in records)
    records = observations([record for record in records if record.of_suite or all_own])
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and resumption and not resumption.left:
        code = pytest.ExitCode.OK
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and is_empty_shard(context):
        code = pytest.ExitCode.OK
    failed = [item for item in closed.repetition.judged(closed.items) if item.failed]
    # Of earlier invocations, and those that passed when they were run again, which does not count.
    unseen = [item for item in failed if not failures.of(item.node)]
    # Such as those that were not collected again, or whose worker died and left nobody to run them.
    unended = any(item.status is None for item in closed.items)
    if closed.sample is not None:
        # What ran stands for what did not; of nothing nothing can be said.
        episodes = [item for item in closed.items if item.episode]
        unended = bool(episodes) and not any(item.outcome for item in episodes)
    # In the ini file it is for runs of suites, and the project's other tests are run as ever.
    has_minimum = settings.min_success is not None and (settings.min_success_typed or selection.named or bool(records))
    # pytest's own number has also what cannot be collected, and what other plugins object to.
    others = session.testsfailed - failures.excused + sum(not item.is_failed_episode for item in unseen)
    if gated is not None:
        others -= gated.failed
    was_stopped = session.shouldstop or session.shouldfail if gated is None else gated.stopped
    stopped = bool(was_stopped or unended) or code in _CUT_SHORT
    minimum, by_lower_end = settings.min_success or (0.0, False)
    retried = closed.repetition.retried
    # Skipped or xfail(run=False): planned, ended, and without a record. What a sequential gate decided need not run.
    known = {record.node for record in records}
    skipped = sum(
        item.episode and item.outcome is None and item.status == SKIPPED and item.node not in known
        for item in closed.items
    )
    has_policy = settings.model is not None
    if gated is not None:
        undecided = _undecided_text(gated)
        asked = [f"--vla-baseline={gated.gate.name}{undecided}"]
        against = [gated.judged.against] * bool(gated.judged.against)
        told: list[str] = []
        if has_minimum:
            wanted = minimum_text(minimum, by_lower_end)
            told, below = weigh(records, minimum, by_lower_end, has_policy, retried, skipped)
            asked.append(wanted)
            against += [f"{wanted}: {'; '.join(below)}"] * bool(below)
        against += against_others(others, stopped, any(not record.of_suite for record in records))
        from pytest_vla.run.html_report import replays

        replay = replays(settings, session.config, closed.items, context.folder)
        verbosity = session.config.get_verbosity()
        last = run_line(asked, against, is_shown=not undecided)
        lines, passed = (*told, *gated_lines(gated, verbosity, replay), last), not against
    elif has_minimum and settings.shard is not None:
        wanted = minimum_text(minimum, by_lower_end)
        against = against_others(others, stopped, any(not record.of_suite for record in records))
        passed = not against
        already = f"; failed already: {'; '.join(against)}" if against else ""
        lines = (f"not judged: {wanted} applies to all shards together; run `pytest-vla merge`{already}",)
    elif has_minimum:
        lines, passed = judge(records, minimum, others, stopped, by_lower_end, has_policy, retried, skipped)
    else:
        passed = not (session.testsfailed or failed or unended)
    # Interrupted, a usage error, nothing collected: that stays.
    if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        code = pytest.ExitCode.OK if passed else pytest.ExitCode.TESTS_FAILED
    return RunVerdict(lines, code)


def _undecided_text(gated: GateOutcome) -> str:
    """Return ``: undecided`` for an undecided gate, so that ``passed`` is not read as no worse."""
    judgement = gated.judged.judgement
    return ": undecided" if judgement is not None and judgement.verdict == "undecided" else ""


INTERRUPTED = "interrupted"
"""The outcome of a report of an item that Ctrl-C, or a KeyboardInterrupt, ended with its worker: it has not run."""


class Results:
    """The plugin of the process that keeps the run: the controller of workers, or the only process.

    Args:
        context: of this process, which keeps the run.
        incoming: files that workers on other machines send, or None if there are no such workers.

    Raises:
        VlaError: what the gate says cannot be written where it is to be, or a tracker's package is missing.
    """

    def __init__(self, context: RunContext, incoming: "Incoming | None" = None) -> None:
        self._context, self._config, self._settings = context, context.config, context.settings
        self._so_far, self._incoming = context.so_far, incoming
        self._stored, self._telling = StoredRun(context), RunReporter(context)
        self._unpacking, self._endings, self._failures = RecordReceiver(), Endings(), FailedReports()
        self._progress: ProgressLine | None = None
        # Node ids of what has begun and not ended.
        self._running: dict[str, None] = {}
        # By node id, the record of the attempt that is going on.
        self._current: dict[str, Record] = {}
        self._in_time = InTime(context)
        self.gate = RunGate(context, self._stored, self._in_time)
        """What the run is compared with; a plugin of its own."""
        if self._settings.report is not None:
            from pytest_vla.run.html_report import check_report

            check_report(self._settings.report)
        self.tracking = make_tracking(context, self._telling.once)
        """The run in trackers of experiments; a plugin of its own. None if no tracker is asked for."""
        self._verdict: tuple[str, ...] = ()
        self._folded: tuple[str, ...] = ()

    def begin(self, collected: Collected, workers: int) -> None:
        """Enter the run into the store, and print what is to come: the items of this invocation are known.

        Args:
            collected: the items.
            workers: how many processes run them.
        """
        if self._stored.is_open or self._settings.model is None or self._config.getoption("collectonly"):
            return
        if not collected.cases and not collected.searches and self._context.resumption is None:
            return
        self._so_far.expect(collected)
        self.gate.agree(collected)
        if self.tracking is not None and collected.cases:
            self.tracking.begin([*self._so_far.episodes_of(collected).values()])
        with _stopped_by_errors():
            kept = {**self.gate.kept(), **kept_order(self._context), **kept_of_shard(self._context)}
            self._stored.begin(collected, kept, workers)
            self.gate.begin()
            self._in_time.begin(collected, workers)
            if self.tracking is not None:
                self.tracking.go_on(self._so_far.tally, self._stored.ended_before)
        self._telling.what_comes(collected, workers, self.gate.gate, self.gate.deciding)
        if self._telling.reporter is not None and (collected.cases or self._context.resumption is not None):
            from pytest_vla.run.progress import ProgressLine

            self._progress = ProgressLine(
                self._telling.reporter,
                self._so_far.expected(collected),
                workers,
                scarce=self._scarce,
                until=self._in_time.until,
            )
            self._show_progress(None)

    def keep_record(self, record: Record, node: str) -> None:
        """Write a record into the store, and show the progress. Stops the session if it cannot be written.

        Args:
            record: of an episode that has ended.
            node: id of the item that ran it.
        """
        so_far = self._so_far
        attempt = so_far.attempt_of(record, so_far.reruns[node])
        if attempt != record.attempt:
            record = dataclasses.replace(record, attempt=attempt)
        if record.node in so_far.crashed and is_complete(record.outcome) and not record.retried:
            record = dataclasses.replace(record, retried=CRASHED)
        if self._incoming is not None and record.arrays is not None:
            with _stopped_by_errors():
                arrays = self._incoming.place(record.worker, record.arrays)
            if arrays != record.arrays:
                record = dataclasses.replace(record, arrays=arrays)
        if record.node not in so_far.episodes:
            # Its item was not known to run an episode, which no reason is to lose it.
            label = str(record.variation.get("label", ""))
            case = Case(record.suite, record.task, record.seed, label, record.task_level)
            self.begin(Collected([node], {node: case}, {node: record.node}), 1)
            so_far.episodes |= {record.node}
        if node not in so_far.shared:
            so_far.names[node] = record.node
        with _stopped_by_errors():
            # Whoever is told of an episode is to find it in the store.
            self._stored.write_record(record, at_once=extensions.are_told_of_episodes())
        self._current[node] = record
        so_far.add(record, node)
        self._in_time.learn(record)
        if self._progress is not None:
            self._progress.learn(node, record)
        with _stopped_by_errors():
            skipped = self.gate.decide({record.node: so_far.tally.judged_outcome(record.node)})
        if skipped and self._progress is not None:
            self._progress.leave_out(skipped)
        self._show_progress(node)
        for trouble in extensions.episode_finished(record):
            self._telling.once(trouble)

    def say_once(self, text: str) -> None:
        """Print a line of its own, unless it was printed before; from any thread."""
        self._telling.once(text)

    def show_preparation(self, worker: str, what: str, ended: bool) -> None:
        """Show a preparation of a worker, or of this process, before an episode; from any thread."""
        if self._progress is not None:
            self._progress.prepare(worker, None if ended else what)

    def places(self, nodes: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Return by node id an item's round and its place there; empty if the run has no such order.

        A run with a sequential gate has such an order, and a run with a time limit.
        """
        places = self._in_time.places(nodes)
        return self.gate.turns(nodes) if places is None else places

    @property
    def records(self) -> tuple[Record, ...]:
        """Return the record that counts, for each of the run's items."""
        return tuple((self._so_far.tally.records | self._stored.closed.repetition.records).values())

    # After pytest has said how many items it collected.
    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Begin the run: without workers, the session knows its items."""
        self.begin(collected_of(session.items), 1)
        if self.gate.deciding is not None:
            session.items[:] = self.gate.deciding.in_order(session.items, self._so_far.names)
        else:
            self._in_time.put_in_order(session)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Note which episode begins."""
        self._running[nodeid] = None
        if not self._config.pluginmanager.hasplugin("dsession"):
            self._stored.mark_running(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        """Note that it has ended."""
        self._running.pop(nodeid, None)
        self._stored.mark_running(None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the record that a report brings, and how its item ended: each phase of an item has a report."""
        # Else an episode could be there of which it is not known that its item has ended.
        with uninterrupted():
            record = self._unpacking.take(report)
            if record is not None:
                self.keep_record(record, report.nodeid)
            if self._stored.is_open:
                self._take_ending(report)

    def pytest_report_teststatus(self, report: Any) -> tuple[str, str, Any] | None:
        """Give pytest the statuses *rerun* and *not done*; while the progress line is shown, episodes have no dots."""
        if report.outcome == "rerun":
            return "rerun", "R", ("RERUN", {"yellow": True})
        if report.outcome == INTERRUPTED:
            return "", "", ""
        has_line = self._progress is not None and self._progress.in_place and report.nodeid in self._so_far.names
        if is_not_done(report):
            return (NOT_DONE, "", "") if has_line else (NOT_DONE, "n", (NOT_DONE.upper(), {"yellow": True}))
        if not has_line:
            return None
        if report.when != "call" and report.passed:
            return "", "", ""
        return "error" if report.when != "call" and report.failed else report.outcome, "", ""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write what is left into the store, and judge the run."""
        try:
            sample = self._in_time.sample if self._in_time.has_ended(session) else None
            if not (session.shouldstop or session.shouldfail):
                # Neither pytest nor this plugin ended it: Ctrl-C did, or a SIGINT from anywhere.
                self._stored.note_interrupt(self._running)
            self._stored.end(self._failures.without_policy, sample)
        except VlaError as error:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            self._telling.error(error)
        if not self._config.option.collectonly:
            about = (self.records, self._stored.closed, self._failures)
            verdict = judge_run(session, self._context, *about, self.gate.gated)
            ended = self._in_time.lines(self._stored.closed.sample, self.gate.deciding is not None)
            self._verdict, session.exitstatus = (*ended, *verdict.lines), verdict.exit_code
            self._write_summaries(session)
            self._write_report(session)
            self._end_tracking(session)
            if self._config.get_verbosity() <= 0:
                self._folded = self._failures.fold(self._telling.reporter)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print how the run went."""
        lines = closing_lines(self._context.findings.utilisation, len(self._so_far.new))
        about = (self.records, self._stored.closed, self._verdict)
        self._telling.summary(terminalreporter, *about, lines, self._folded)

    def _write_summaries(self, session: pytest.Session) -> None:
        settings = self._settings
        if self.gate.gated is None or not settings.gate_summary:
            return
        from pytest_vla.run.html_report import replays

        replay = replays(settings, self._config, self._stored.closed.items, self._context.folder)
        try:
            write_summaries(settings.gate_summary, self.gate.gated, replay, self._verdict[-1])
        except VlaError as error:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            self._telling.error(error)

    def _write_report(self, session: pytest.Session) -> None:
        settings = self._settings
        if settings.report is None:
            return
        from pytest_vla.run.html_report import NO_REPORT, report_run

        if not self._stored.closed.items:
            self._verdict += (f"{NO_REPORT} no episode was run, so {settings.report} was not written",)
            return
        try:
            report_run(self._context.folder, settings.report, settings.data, settings.report_pictures)
            self._verdict += (f"report: {settings.report}",)
        except VlaError as error:
            session.exitstatus = pytest.ExitCode.INTERNAL_ERROR
            # With what the run ends with: a line above a long summary is not seen.
            self._verdict += (f"{NO_REPORT} {error}",)

    def _end_tracking(self, session: pytest.Session) -> None:
        """Send the run's end to the trackers; an error of a tracker does not change the exit code."""
        if self.tracking is None or not self._stored.closed.items:
            return
        from pytest_vla.run.tracking import run_ending, run_files

        settings, run, closed = self._settings, self._context.folder, self._stored.closed
        ending = run_ending(self.records, closed.items, self._verdict, self.gate.gated, int(session.exitstatus), run)
        files = run_files(run, settings.data, settings.report, self._telling.once)
        self._verdict += self.tracking.end(ending, files)

    def _take_ending(self, report: pytest.TestReport) -> None:
        name, record = self._so_far.recorded_as(report.nodeid), self._current.get(report.nodeid)
        self._failures.add(report, name, record)
        report = as_it_ended(report)
        ended = self._endings.add(report)
        status = ended or self._endings.of_attempt(report) or self._endings.before_teardown(report)
        if status == SKIPPED and was_decided(report):
            status = DECIDED
            self._so_far.skipped.add(name)
        if status is not None:
            # Of a shared episode each test ends by itself.
            own = None if record is None or record.node != name else record
            stands = self._so_far.tally.end(name, own, status)
            if stands is not None:
                with _stopped_by_errors():
                    self._stored.write_status(name, stands)
        if ended is not None or self._endings.is_rerun(report):
            self._current.pop(report.nodeid, None)

    def _scarce(self) -> str:
        return scarce_now(self._context.findings.utilisation)

    def _show_progress(self, node: str | None) -> None:
        if (utilisation := self._context.findings.utilisation) is not None:
            utilisation.look(self._so_far.total - self._so_far.done)
        if self._progress is not None:
            self._progress.show(node, lambda: self._so_far.new, self._so_far.done, self._so_far.total)


@contextmanager
def _stopped_by_errors() -> Iterator[None]:
    """End the session if the block cannot write something."""
    try:
        yield
    except VlaError as error:
        pytest.exit(printable_lines(str(error)), returncode=pytest.ExitCode.INTERNAL_ERROR)
