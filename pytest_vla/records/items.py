"""The items of a run and their status in pytest: failed items, and items left to run. Pure."""

from dataclasses import dataclass
from typing import Any

PASSED, SKIPPED, FAILED, ERROR = STATUSES = ("passed", "skipped", "failed", "error")
"""An item's status, the worst of its phases: skipped includes expected failures, error is outside of the call."""

SHARED = "shared"
"""The status of an item whose episode several tests share; the tests have the results."""


DECIDED = "decided"
"""The status of an item that was skipped because a sequential gate had decided its group."""


@dataclass(frozen=True)
class RunItem:
    """One item of a run.

    Attributes:
        node: its node id.
        episode: whether it runs an episode.
        status: one of `STATUSES`, known after its teardown, or `SHARED` or `DECIDED`; None if it has not ended.
        of_suite: whether it is a suite's own item and no test of the user's; None if it has no record.
        outcome: the outcome of its record that counts within the run; None if it has no record.
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
        """Whether it failed only because the policy did not solve the task, which is a measured result."""
        return self.status == FAILED and self.outcome == "failure" and bool(self.of_suite)

    @property
    def is_error(self) -> bool:
        """Whether it or its episode ended as an error."""
        return self.status == ERROR or (self.status not in (None, SHARED) and self.outcome == "error")

    @property
    def is_left(self) -> bool:
        """Whether a resumed run runs it, again or for the first time."""
        return self.status is None or self.is_error or (self.failed and not self.is_failed_episode)


def ending_of(outcome: str | None, is_probe: bool) -> str | None:
    """Return the status of a suite's own item after an episode with this outcome, or None if it has to run again."""
    if outcome == "failure" and is_probe:
        return PASSED
    return {"success": PASSED, "failure": FAILED, "invalid": SKIPPED}.get(str(outcome))


class Endings:
    """Merges the reports of an item's phases into one status."""

    def __init__(self) -> None:
        self._so_far: dict[str, str] = {}
        # Attempts that are run again; their teardown may still be reported.
        self._again: set[str] = set()

    def add(self, report: Any) -> str | None:
        """Add a report of pytest's, and return the item's status with its last report, else None."""
        worst = self._so_far.pop(report.nodeid, PASSED)
        if report.outcome not in ("passed", "skipped", "failed"):
            # Such as a rerun: start over.
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
        """Return the status of an attempt that another plugin runs again, or None if the report is not about one."""
        if not Endings.is_rerun(report) or report.when not in ("setup", "call", "teardown"):
            return None
        return FAILED if report.when == "call" else ERROR

    def before_teardown(self, report: Any) -> str | None:
        """Return the status of an item whose call is over or missing, after `add`, or None if the call is not over.

        It is used if the teardown, which may draw a video, is cut short.
        """
        is_over = report.when == "call" or (report.when == "setup" and not report.passed)
        return self._so_far.get(report.nodeid) if is_over else None
