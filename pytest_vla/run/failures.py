"""Reports of failed items: which say that there is no policy, and which are a failed episode and nothing else.

With a gate a failed episode is *not done*, as pytest's own expected failures are skipped: whoever counts, stops at or
runs again what failed has nothing to do with it. How the item really ended goes on to the store.
"""

import copy
from collections import Counter

import pytest

from pytest_vla.records.record import Record
from pytest_vla.run.context import context_of
from pytest_vla.util.text import printable_lines

NO_POLICY = "the policy cannot be loaded: "
MISFIT = "the policy does not fit: "
"""How failures begin after which there is nothing to go on with."""

_IS_OVER_COST = "vla_over_cost"
"""The attribute of a report whose episode cost too much; it crosses with the report from worker to controller."""


def fail_over_cost(item: pytest.Item) -> None:
    """Fail an item that has passed so far and whose episode cost more than ``--vla-max-cost``."""
    text = context_of(item.config).findings.over_cost.get(item.nodeid, "")
    if text:
        pytest.fail(printable_lines(text), pytrace=False)


def say_over_cost(report: pytest.TestReport, item: pytest.Item) -> None:
    """Have the report of a failed episode of a suite say, too, that it cost more than ``--vla-max-cost``."""
    text = printable_lines(context_of(item.config).findings.over_cost.get(item.nodeid, ""))
    if not text or not _is_failed_episode(report):
        return
    setattr(report, _IS_OVER_COST, True)
    if text not in str(report.longrepr):
        report.longrepr = f"{report.longrepr}\n{text}"


NOT_DONE = "not done"
"""What is said of a failed episode in a run with a gate."""

_WAS_FAILED = "vla_was_failed"
"""The attribute of a report that says so; it crosses with the report from worker to controller."""


def is_not_done(report: pytest.TestReport) -> bool:
    """Whether the report is of an episode that `say_not_done` excused."""
    return getattr(report, _WAS_FAILED, False) is True


def say_not_done(report: pytest.TestReport) -> None:
    """Have a report say, where it is of a failed episode and nothing else, that it is not done."""
    if not report.failed or report.when != "call" or hasattr(report, "wasxfail") or hasattr(report, _IS_OVER_COST):
        return
    if not _is_failed_episode(report):
        return
    setattr(report, _WAS_FAILED, True)
    report.outcome = "skipped"
    # JUnit files and lines of -v have it.
    report.wasxfail = str(report.longrepr).splitlines()[0]


def _is_failed_episode(report: pytest.TestReport) -> bool:
    """Whether the report is of an episode of a suite that failed, and of nothing else."""
    from pytest_vla.run.handover import record_on

    record = record_on(report) if report.failed and report.when == "call" else None
    return record is not None and record.of_suite and record.outcome == "failure"


def as_it_ended(report: pytest.TestReport) -> pytest.TestReport:
    """A report with the outcome that its item had before it was excused."""
    if not is_not_done(report):
        return report
    found = copy.copy(report)
    found.outcome = "failed"
    del found.wasxfail
    return found


class Failures:
    """Counts the failed reports of an invocation."""

    def __init__(self) -> None:
        self.excused = 0
        """How many are of failed episodes and nothing else."""
        self.without_policy = False
        """Whether the policy could not be loaded, or did not fit."""
        self._of: Counter[str] = Counter()

    def add(self, report: pytest.TestReport, name: str, record: Record | None) -> None:
        """Take note of a report.

        Args:
            report: of any phase and outcome.
            name: what its item's ending is recorded as.
            record: of the item's episode, where it had one.
        """
        self.without_policy |= report.failed and str(report.longrepr).startswith((NO_POLICY, MISFIT))
        # As pytest counts them in `Session.testsfailed`.
        if report.failed and not hasattr(report, "wasxfail"):
            self._of[name] += 1
            self.excused += (
                report.when == "call"
                and record is not None
                and record.of_suite
                and record.outcome == "failure"
                and not hasattr(report, _IS_OVER_COST)
            )

    def of(self, name: str) -> int:
        """How often reports of an item failed."""
        return self._of[name]
