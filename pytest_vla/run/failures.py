"""Reports of failed items: which say that there is no policy, and which are a failed episode and nothing else.

With a gate a failed episode is *not done*, as pytest's own expected failures are skipped: whoever counts, stops at or
runs again what failed has nothing to do with it. How the item really ended goes on to the store.
"""

import copy
import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, NoReturn

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
    if not _is_failed_episode(report) or _says_more(report):
        return
    setattr(report, _WAS_FAILED, True)
    report.outcome = "skipped"
    # JUnit files and lines of -v have it.
    report.wasxfail = str(report.longrepr).splitlines()[0]


def _is_failed_episode(report: pytest.TestReport) -> bool:
    """Whether a report says that an episode of a suite failed, by the record that the report brings."""
    from pytest_vla.run.record_transport import record_on

    return _is_failure(report, record_on(report) if report.failed else None)


def _is_failure(report: pytest.TestReport, record: Record | None) -> bool:
    """Whether a report says that an episode of a suite failed; `record` is the episode's."""
    if not report.failed or report.when != "call":
        return False
    return record is not None and record.of_suite and record.outcome == "failure"


def _says_more(report: pytest.TestReport) -> bool:
    """Whether a report says more than that an episode failed: it was expected to fail, or cost too much."""
    return hasattr(report, "wasxfail") or hasattr(report, _IS_OVER_COST)


def as_it_ended(report: pytest.TestReport) -> pytest.TestReport:
    """A report with the outcome that its item had before it was excused."""
    if not is_not_done(report):
        return report
    found = copy.copy(report)
    found.outcome = "failed"
    del found.wasxfail
    return found


class FailedReports:
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
        if not report.failed:
            return
        self.without_policy |= str(report.longrepr).startswith((NO_POLICY, MISFIT))
        # As pytest counts them in `Session.testsfailed`.
        if not hasattr(report, "wasxfail"):
            self._of[name] += 1
            self.excused += _is_failure(report, record) and not _says_more(report)

    def of(self, name: str) -> int:
        """How often reports of an item failed."""
        return self._of[name]


# `os._exit` while a run goes on: a policy that calls it must not end pytest with code 0 and episodes missing.

FAILED = 1
"""The exit code in the place of 0."""


def watch_exit(before: Callable[[int, str], None]) -> Callable[[], None]:
    """Have `os._exit` in this process say so first, and never end it with code 0. Children that it forks are free.

    What native code does is not seen: a policy that may do such things runs with ``-n 1``, in a process of its own.

    Args:
        before: called with the code and with the place of the call, ``FILE:LINE``.

    Returns:
        What makes `os._exit` what it was.
    """
    real, ours = os._exit, os.getpid()

    def _exit(status: int) -> NoReturn:
        if os.getpid() != ours:
            real(status)
        caller = sys._getframe(1)
        try:
            before(status, f"{caller.f_code.co_filename}:{caller.f_lineno}")
        finally:
            # A system keeps eight bits of it.
            real(status if status % 256 else FAILED)

    def undo() -> None:
        for module in modules:
            module._exit = real

    # Where `os` has it from; a policy may have it from there too.
    modules: tuple[Any, ...] = tuple(filter(None, (os, sys.modules.get(os.name))))
    for module in modules:
        module._exit = _exit
    return undo
