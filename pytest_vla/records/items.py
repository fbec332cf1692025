"""The items of a run and how each ended in pytest's eyes: what fails a run, and what is left of it. Pure."""

from dataclasses import dataclass
from typing import Any

PASSED, SKIPPED, FAILED, ERROR = STATUSES = ("passed", "skipped", "failed", "error")
"""How an item ended, the worst of its phases: skipped is also an expected failure, error is outside of the call."""

SHARED = "shared"
"""Stands in the place of an ending where an item is the one episode of several tests: how it went is theirs to say."""


DECIDED = "decided"
"""Stands there where an item was skipped since a sequential gate had decided its group: it has not run."""


@dataclass(frozen=True)
class RunItem:
    """One item of a run.

    Attributes:
        node: its id.
        episode: whether it runs one.
        status: one of `STATUSES`, known after its teardown, or `SHARED` or `DECIDED`; None: it has not ended.
        of_suite: whether it is a suite's own and no test of the user's; None where it has no record.
        outcome: of its record that counts within the run; None where it has none.
    """

    node: str
    episode: bool
    status: str | None
    of_suite: bool | None = None
    outcome: str | None = None

    @property
    def failed(self) -> bool:
        """Whether pytest counts it as failed or as an error."""
        return self.status in (FAILED, ERROR)

    @property
    def is_failed_episode(self) -> bool:
        """Whether it failed because the policy did not do the task, and for nothing else: that has been measured."""
        return self.status == FAILED and self.outcome == "failure" and bool(self.of_suite)

    @property
    def is_error(self) -> bool:
        """Whether it or its episode ended as an error."""
        return self.status == ERROR or (self.status not in (None, SHARED) and self.outcome == "error")

    @property
    def is_left(self) -> bool:
        """Whether the run, when it is gone on with, runs it again or for the first time."""
        return self.status is None or self.is_error or (self.failed and not self.is_failed_episode)


def ending_of(outcome: str | None, is_probe: bool) -> str | None:
    """How a suite's own item ends after an episode of this outcome, whose test is the episode; None: it has to run."""
    if outcome == "failure" and is_probe:
        return PASSED
    return {"success": PASSED, "failure": FAILED, "invalid": SKIPPED}.get(str(outcome))


class Endings:
    """Makes one status out of the reports of an item's phases."""

    def __init__(self) -> None:
        self._so_far: dict[str, str] = {}
        # Attempts that are run again, and of which a teardown may still be reported.
        self._again: set[str] = set()

    def add(self, report: Any) -> str | None:
        """Take note of a report of pytest's. Returns the item's status with its last report, else None."""
        worst = self._so_far.pop(report.nodeid, PASSED)
        if report.outcome not in ("passed", "skipped", "failed"):
            # Such as a rerun: all begins anew.
            if report.when in ("setup", "call"):
                self._again.add(report.nodeid)
            return None
        if report.nodeid in self._again and report.when == "teardown":
            return None
        self._again.discard(report.nodeid)
        status = ERROR if report.outcome == "failed" and report.when != "call" else str(report.outcome)
        worst = max(worst, status, key=STATUSES.index)
        if report.when in ("setup", "call"):
            self._so_far[report.nodeid] = worst
            return None
        # A teardown, or the crash of a worker.
        return worst

    @staticmethod
    def is_rerun(report: Any) -> bool:
        """Whether the item is run again after this report."""
        return bool(report.outcome == "rerun")

    @staticmethod
    def of_attempt(report: Any) -> str | None:
        """The status of an attempt that another plugin runs again; None: it is no report of one, or came to no end."""
        if not Endings.is_rerun(report) or report.when not in ("setup", "call", "teardown"):
            return None
        return FAILED if report.when == "call" else ERROR

    def before_teardown(self, report: Any) -> str | None:
        """The status of an item whose call is over, or that has none, after its `add`; None: it is not.

        It counts where the teardown, in which a video may be drawn, is cut short.
        """
        is_over = report.when == "call" or (report.when == "setup" and not report.passed)
        return self._so_far.get(report.nodeid) if is_over else None
