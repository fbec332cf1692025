"""The gate in a run: the plan before the first episode, decisions during the run, and the verdict at its end.

When all episodes have ended, the gate's groups become items, such as ``gate::libero_goal[camera]``. They are reports
without a test behind them. pytest's plugins that print, count or write files get them; the plugins that remember failed
items to rerun them do not.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pytest_vla.errors import VlaError
from pytest_vla.gate.choices import REQUIRED
from pytest_vla.gate.min_success import NO_POLICY
from pytest_vla.run.context import RunContext
from pytest_vla.run.early_stop_file import write_decided
from pytest_vla.run.gate import GateConfig, GateOutcome, GateVerdicts, agree, judge_by, kept_of
from pytest_vla.run.nodes import Collected
from pytest_vla.run.resume import lf_option
from pytest_vla.run.stored import StoredRun
from pytest_vla.run.time_budget import InTime
from pytest_vla.util.text import counted, printable_lines

if TYPE_CHECKING:
    from pytest_vla.gate.verdicts import GateGroup, GateJudgement
    from pytest_vla.run.early_stopping import Deciding

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
            from pytest_vla.run.gate_summary import check_summaries

            check_summaries(context.settings.gate_summary)

    def agree(self, collected: Collected) -> None:
        """Make the plan of the comparison before the first episode. Raises UsageError."""
        gate = self.gate
        if gate is None or gate.agreed is not None or (collected.searches and not collected.cases):
            return
        try:
            if option := lf_option(self._context.config, collected.nodes):
                raise VlaError(
                    f"{option} selects items by their earlier outcomes, which would bias the comparison with the "
                    "baseline: leave it out, or run without --vla-baseline (-o vla_baseline=)"
                )
            self.gate = agree(gate, self._so_far.episodes_of(collected), self._context.settings.run_seed)
        except VlaError as error:
            raise pytest.UsageError(printable_lines(str(error))) from error

    def kept(self) -> dict[str, Any]:
        """Return the gate's plan as a new run's invocation keeps it."""
        return kept_of(self.gate)

    def begin(self) -> None:
        """Start a sequential gate with the records of earlier invocations. Raises VlaError."""
        gate, records = self.gate, self._so_far.tally.records
        if gate is None or gate.agreed is None or not gate.agreed.is_sequential:
            return
        from pytest_vla.run.early_stopping import Deciding

        self.deciding = Deciding(gate, self._so_far.episodes)
        if records:
            # What an earlier invocation wrote is not to be heeded before it is found again.
            write_decided(self._context.folder, {})
            self.decide({node: record.outcome for node, record in records.items()})

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
        # The table of all groups is printed once, below.
        said = group_reason(group, judgement)
    elif outcome == "skipped":
        # pytest's short summary has the reason alone.
        said = (PLACE, 0, f"Skipped: {group.name}: {group_reason(group, judgement)}")
    keywords: dict[str, Literal[1]] = {PLACE: 1, group.name: 1}
    properties = [("vla_verdict", group.verdict)]
    yield pytest.TestReport(nodeid, location, keywords, "passed", None, "setup")
    yield pytest.TestReport(nodeid, location, keywords, outcome, said, "call", user_properties=properties)
    yield pytest.TestReport(nodeid, location, keywords, "passed", None, "teardown", user_properties=properties)
