"""The tally of a run in progress: for each item the record that counts, and the item's status with it. Pure.

`pytest_vla.records.counting` decides which record counts. A status belongs to its record: an item whose first episode
failed has failed, whatever the result of a rerun by another plugin.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_vla.records.counting import UNKNOWN, Repeats, conditions_of, is_complete, is_own_error, takes_over
from pytest_vla.records.items import ERROR, FAILED, PASSED, RunItem, ending_of
from pytest_vla.records.record import Record

if TYPE_CHECKING:
    from pytest_vla.records.store import Earlier


@dataclass(frozen=True)
class Repetition:
    """The records of an ended run that do not count.

    Attributes:
        repeats: its complete records that do not count.
        mended: the items of `RunTally.mended`.
        picked: `pytest_vla.records.runs.Run.picked`.
        earlier: the items for which a record of an earlier run counts.
        retried: the items whose record replaced an error of the policy's own.
        before: for a run that picked nothing, how many of its cases an earlier run had completed, and how many of these
            with another outcome.
    """

    repeats: Repeats = field(default_factory=Repeats)
    mended: frozenset[str] = frozenset()
    picked: str | None = None
    earlier: "tuple[Earlier, ...]" = ()
    before: tuple[int, int] = (0, 0)
    retried: frozenset[str] = frozenset()

    @property
    def records(self) -> dict[str, Record]:
        """The records of earlier runs that count, by item."""
        return {each.node: each.record for each in self.earlier}

    @property
    def of_unknown_policy(self) -> bool:
        """Whether some earlier record that counts has no policy digest, so that the policy may have changed since."""
        return any(conditions_of(each.record)["policy_digest"] == UNKNOWN for each in self.earlier)

    def judged(self, items: Sequence[RunItem]) -> tuple[RunItem, ...]:
        """Return the run's items, with the statuses and outcomes that count."""
        earlier = {each.node: each for each in self.earlier}
        return tuple(_judged(item, earlier[item.node]) if item.node in earlier else item for item in items)

    def failed_at_first(self, items: Sequence[RunItem]) -> int:
        """Return how many items failed with the record that counts, and passed in this run with a later record."""
        judged = zip(items, self.judged(items), strict=True)
        passed = {before.node for before, after in judged if before.status == PASSED and after.failed}
        return len(passed | self.mended)


def _judged(item: RunItem, earlier: "Earlier") -> RunItem:
    # A new error is kept. After an identical episode the new status is kept too: the test changed, not the policy.
    status = item.status
    if status not in (None, ERROR) and not earlier.equal:
        status = earlier.status or _of_episode(earlier.record, status)
    return replace(item, status=status, outcome=earlier.record.outcome)


def _of_episode(record: Record, otherwise: str | None) -> str | None:
    """Return the status of a suite's own item after a failed episode, or `otherwise`."""
    return FAILED if record.of_suite and ending_of(record.outcome, record.is_probe) == FAILED else otherwise


class RunTally:
    """The records and statuses of a run in progress, by `Record.node`.

    Args:
        kept: for a resumed run, the records that count so far, each with its item's status, or None if the item has not
            ended.
        retried: for a resumed run, the items whose record is a retry after the policy's own error.
    """

    def __init__(self, kept: Iterable[tuple[Record, str | None]] = (), retried: Iterable[str] = ()) -> None:
        self.records: dict[str, Record] = {}
        """By item, the record that counts."""
        self.retried = set(retried)
        """Items whose record that counts is a retry (`pytest_vla.records.counting.retries`)."""
        self.mended: set[str] = set()
        """Items that failed with the record that counts, and passed with a later one."""
        self._endings: dict[str, tuple[Record | None, str]] = {}
        for record, status in kept:
            self.records[record.node] = record
            if record.retried:
                self.retried.add(record.node)
            if status is not None:
                self._endings[record.node] = record, status

    def keep(self, record: Record) -> None:
        """Add a record, which may not count."""
        before = self.records.get(record.node)
        if before is None or takes_over(record, before):
            self.records[record.node] = record
        if (record.retried or (before is not None and is_own_error(before))) and is_complete(record.outcome):
            self.retried.add(record.node)

    def judged_outcome(self, node: str) -> str:
        """Return the outcome by which a verdict takes an item: of a retry, the error that it replaced."""
        return "error" if node in self.retried else self.records[node].outcome

    def end(self, node: str, record: Record | None, status: str) -> str | None:
        """Add the status of an item with the record of this attempt, if there is one.

        Returns:
            The status that counts from now on, or None if the earlier one still counts.
        """
        counting, known = self.records.get(node), self._endings.get(node)
        if counting is None or known is None or known[0] is None or not is_complete(known[0].outcome):
            if record is not None and counting is not None and record is not counting:
                # The attempt whose record counts came to no end, as its process died after the episode.
                status = _of_episode(counting, status) or status
            self._endings[node] = counting if record is None else record, status
            return status
        # After an identical episode a different status means that the test changed.
        if record is counting or (record is not None and not record.of_suite and record.digest == counting.digest):
            self._endings[node] = counting, status
            return status
        if known[1] in (FAILED, ERROR) and status == PASSED:
            self.mended.add(node)
        return None
