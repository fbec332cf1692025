"""Reports of failed items: which ones mean that the policy cannot be used, and which are only a failed episode.

In a run with a gate a failed episode is reported as *not done*, a skip to whoever does not know that. So ``--maxfail``,
``--lf`` and plugins that rerun failures ignore it. The store keeps the item's real outcome.
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
    """Add to the report of a suite's failed episode that it cost more than ``--vla-max-cost``."""
    text = printable_lines(context_of(item.config).findings.over_cost.get(item.nodeid, ""))
    if not text or not _is_failed_episode(report):
        return
    setattr(report, _IS_OVER_COST, True)
    if text not in str(report.longrepr):
        report.longrepr = f"{report.longrepr}\n{text}"


NOT_DONE = "not done"
"""What is said of a failed episode in a run with a gate."""

_WAS_FAILED = "vla_was_failed"
"""The attribute of a report with what it said as a failure; it crosses with the report from worker to controller."""


def is_not_done(report: pytest.TestReport) -> bool:
    """Whether `say_not_done` excused the report's episode."""
    return isinstance(getattr(report, _WAS_FAILED, None), str)


def say_not_done(report: pytest.TestReport) -> None:
    """Turn the report of an item into *not done* if it says only that an episode failed."""
    if not _is_failed_episode(report) or _says_more(report):
        return
    text = str(report.longrepr)
    setattr(report, _WAS_FAILED, text)
    report.outcome = "skipped"
    # As of a skip, for JUnit files and lines of -v. By `wasxfail` pytest-html and pytest-sugar would say in green that
    # the failure was expected.
    path, line, _ = report.location
    report.longrepr = (path, line or 0, f"Skipped: {text.splitlines()[0]}")
    report.sections.append((NOT_DONE, text))


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
    """Return a report with the outcome that its item had before it was excused."""
    if not is_not_done(report):
        return report
    found = copy.copy(report)
    found.outcome, found.longrepr = "failed", getattr(report, _WAS_FAILED)
    return found


MOST_SHOWN = 3
"""The failed episodes that pytest's section of failures has without -v."""

_CHARGE = " " * 4
"""How the lines of single charges begin."""


class FailedReports:
    """Counts the failed reports of an invocation."""

    def __init__(self) -> None:
        self.excused = 0
        """How many are of failed episodes and nothing else."""
        self.without_policy = False
        """Whether the policy could not be loaded, or did not fit."""
        self._of: Counter[str] = Counter()
        self._episodes: list[pytest.TestReport] = []

    def add(self, report: pytest.TestReport, name: str, record: Record | None) -> None:
        """Count a report.

        Args:
            report: of any phase and outcome.
            name: the name under which its item's outcome is recorded.
            record: the record of the item's episode, if it had one.
        """
        if not report.failed:
            return
        self.without_policy |= str(report.longrepr).startswith((NO_POLICY, MISFIT))
        # As pytest counts them in `Session.testsfailed`.
        if not hasattr(report, "wasxfail"):
            self._of[name] += 1
            if _is_failure(report, record) and not _says_more(report):
                self.excused += 1
                self._episodes.append(report)

    def of(self, name: str) -> int:
        """Return how many reports of an item failed."""
        return self._of[name]

    def fold(self) -> str:
        """Keep pytest's section of failures short: a failed episode is a result, and there may be hundreds.

        Files of results have the whole texts already.

        Returns:
            A line on what is not shown; empty if all is.
        """
        for report in self._episodes:
            lines = (line for line in str(report.longrepr).splitlines() if not line.startswith(_CHARGE))
            report.longrepr = "\n".join(line.removesuffix(":") for line in lines)
        for report in self._episodes[MOST_SHOWN:]:
            # pytest's mark of a failure that was shown before.
            report._pdbshown = True  # type: ignore[attr-defined]
        more = len(self._episodes) - MOST_SHOWN
        return (
            f"{MOST_SHOWN} of {len(self._episodes)} failed episodes are shown above; -v shows all" if more > 0 else ""
        )


# `os._exit` while a run goes on: a policy that calls it must not end pytest with code 0 and episodes missing.

FAILED = 1
"""The exit code in the place of 0."""


def watch_exit(before: Callable[[int, str], None]) -> Callable[[], None]:
    """Replace `os._exit` in this process: it reports the call, and never exits with code 0. Forked children are exempt.

    Exits from native code are not seen. Run such a policy with ``-n 1``, in a process of its own.

    Args:
        before: called with the exit code and the place of the call, ``FILE:LINE``.

    Returns:
        A function that restores `os._exit`.
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
