"""Reports of failed items: which ones mean that the policy cannot be used, and which are only a failed episode.

In a run with a gate a failed episode is reported as *not done*, a skip to whoever does not know that. So ``--maxfail``,
``--lf`` and plugins that rerun failures ignore it. The store keeps the item's real outcome.
"""

import copy
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import pytest

from pytest_vla.records.record import Record
from pytest_vla.run.context import context_of
from pytest_vla.util.text import counted, printable_lines

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
"""The failed episodes, and the broken ones, that pytest's sections have without -v."""

MOST_LISTED = 10
"""With more failed and broken episodes than these, pytest's list at the end, below the results, has none of them."""

_DEFAULT_LISTS = "fE"

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
        self._broken: list[tuple[pytest.TestReport, str]] = []

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
            elif record is not None and record.of_suite and record.outcome == "error" and report.when != "teardown":
                self._broken.append((report, record.reason or record.outcome))

    def of(self, name: str) -> int:
        """Return how many reports of an item failed."""
        return self._of[name]

    def fold(self, reporter: pytest.TerminalReporter | None) -> tuple[str, ...]:
        """Keep pytest's sections and its list at the end short: a failed episode is a result; there may be hundreds.

        Other plugins have the whole texts already, and the reporter's `stats` stay as they are for them.

        Args:
            reporter: pytest's; None if there is none.

        Returns:
            Lines on what is not shown, and how it is; empty if all is.
        """
        if reporter is None:
            return ()
        failed, broken = self._episodes, [report for report, _ in self._broken]
        is_listed = len(failed) + len(broken) <= MOST_LISTED or _asks_for_lists(reporter.config)
        if not is_listed:
            _leave_out(reporter, "short_test_summary", [*failed, *broken])
        rest = Counter[str]()
        if is_short := reporter.config.option.tbstyle == "auto":
            for report in failed:
                lines = (line for line in str(report.longrepr).splitlines() if not line.startswith(_CHARGE))
                report.longrepr = "\n".join(line.removesuffix(":") for line in lines)
            for report in (*failed[MOST_SHOWN:], *broken[MOST_SHOWN:]):
                # pytest's mark of a failure that was shown before; its section of errors does not know it.
                report._pdbshown = True  # type: ignore[attr-defined]
            _leave_out(reporter, "summary_errors", broken[MOST_SHOWN:])
            rest.update(reason for _, reason in self._broken[MOST_SHOWN:])
        told, reasons = [], ", ".join(f"{number} {reason}" for reason, number in rest.most_common())
        for what, flag, number in (("failed", "-rf", len(failed)), ("broken", "-rE", len(broken))):
            if is_short and number > MOST_SHOWN:
                others = f" (not shown: {reasons})" * (what == "broken")
                how = "-v shows all" if is_listed else f"{flag} lists all, -v shows them in full"
                told.append(f"{MOST_SHOWN} of {number} {what} episodes are shown above{others}; {how}")
            elif number and not is_listed:
                told.append(f"{counted(number, f'{what} episode')} not listed below: {flag} lists them")
        return tuple(told)


def _asks_for_lists(config: pytest.Config) -> bool:
    """Whether the user says by ``-r`` what pytest lists at the end, even if that is its default."""
    lasting = [*config.getini("addopts"), *shlex.split(os.environ.get("PYTEST_ADDOPTS", ""))]
    given = (*lasting, *map(str, config.invocation_params.args))
    return config.option.reportchars != _DEFAULT_LISTS or any(re.match("-[vqslx]*r", text) for text in given)


def _leave_out(reporter: pytest.TerminalReporter, section: str, reports: Sequence[pytest.TestReport]) -> None:
    """Have pytest print a section, a method of the reporter's, without these reports."""
    write, hidden = getattr(reporter, section), set(map(id, reports))

    def write_rest() -> None:
        whole = dict(reporter.stats)
        try:
            for key in whole.keys() & {"failed", "error"}:
                reporter.stats[key] = [report for report in whole[key] if id(report) not in hidden]
            write()
        finally:
            reporter.stats.update(whole)

    setattr(reporter, section, write_rest)


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
