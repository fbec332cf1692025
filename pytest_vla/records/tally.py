"""Of each item of a run the record that counts, and how the item ended with it, while the run goes on. Pure.

Which record counts is `pytest_vla.records.counting`'s. An ending goes with its record: an item whose first episode
failed has failed, however it ended when another plugin ran it again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pytest_vla.records.counting import UNKNOWN, Repeats, conditions_of, is_complete, takes_over
from pytest_vla.records.items import ERROR, FAILED, PASSED, RunItem, ending_of
from pytest_vla.records.record import Record

if TYPE_CHECKING:
    from pytest_vla.records.store import Earlier


@dataclass(frozen=True)
class Repetition:
    """What of a run does not count, when it has ended.

    Attributes:
        repeats: its complete records that do not count.
        mended: items of `RunTally.mended`.
        picked: see `pytest_vla.records.runs.Run`.
        earlier: the items for which a record of an earlier run counts.
        before: of a run that picked nothing, how many of its cases had come to an end in an earlier run, and how many
            of these otherwise.
    """

    repeats: Repeats = field(default_factory=Repeats)
    mended: frozenset[str] = frozenset()
    picked: str | None = None
    earlier: "tuple[Earlier, ...]" = ()
    before: tuple[int, int] = (0, 0)

    @property
    def records(self) -> dict[str, Record]:
        """By item, the record of an earlier run that counts."""
        return {each.node: each.record for each in self.earlier}

    @property
    def of_unknown_policy(self) -> bool:
        """Whether earlier records count of a policy of which nobody says whether it is the same still."""
        return any(conditions_of(each.record)["policy_digest"] == UNKNOWN for each in self.earlier)

    def judged(self, items: Sequence[RunItem]) -> tuple[RunItem, ...]:
        """The run's items, with the endings and outcomes that count."""
        earlier = {each.node: each for each in self.earlier}
        return tuple(_judged(item, earlier[item.node]) if item.node in earlier else item for item in items)

    def failed_at_first(self, items: Sequence[RunItem]) -> int:
        """How many of the run's items failed with the record that counts, and passed in this run with a later one."""
        judged = zip(items, self.judged(items), strict=True)
        passed = {before.node for before, after in judged if before.status == PASSED and after.failed}
        return len(passed | self.mended)


def _judged(item: RunItem, earlier: "Earlier") -> RunItem:
    # What broke now is told now; after the same episode, bit for bit, the test was changed and not the policy.
    status = item.status
    if status not in (None, ERROR) and not earlier.equal:
        status = earlier.status or _of_episode(earlier.record, status)
    return replace(item, status=status, outcome=earlier.record.outcome)


def _of_episode(record: Record, otherwise: str | None) -> str | None:
    """How a suite's own item ends after this episode, where it did not come to its end."""
    return FAILED if record.of_suite and ending_of(record.outcome, record.is_probe) == FAILED else otherwise


class RunTally:
    """Items are named by `Record.node`.

    Args:
        kept: of a run that is gone on with, the records that count so far, each with the status of its item; None: it
            has not ended.
    """

    def __init__(self, kept: Iterable[tuple[Record, str | None]] = ()) -> None:
        self.records: dict[str, Record] = {}
        """By item, the record that counts."""
        self.mended: set[str] = set()
        """Items that failed with the record that counts, and passed with a later one."""
        self._endings: dict[str, tuple[Record | None, str]] = {}
        for record, status in kept:
            self.records[record.node] = record
            if status is not None:
                self._endings[record.node] = record, status

    def keep(self, record: Record) -> None:
        """Take note of a record. It may not count."""
        before = self.records.get(record.node)
        if before is None or takes_over(record, before):
            self.records[record.node] = record

    def end(self, node: str, record: Record | None, status: str) -> str | None:
        """Take note of how an item ended, with the record of this attempt; None: it came without.

        Returns:
            The status that stands from now on; None: the one that was known stands.
        """
        counting, known = self.records.get(node), self._endings.get(node)
        if counting is None or known is None or known[0] is None or not is_complete(known[0].outcome):
            if record is not None and counting is not None and record is not counting:
                # The attempt whose record counts came to no end, as its process died after the episode.
                status = _of_episode(counting, status) or status
            self._endings[node] = counting if record is None else record, status
            return status
        # After the same episode, bit for bit, a test that ends otherwise was changed, and not the policy's luck.
        if record is counting or (record is not None and not record.of_suite and record.digest == counting.digest):
            self._endings[node] = counting, status
            return status
        if known[1] in (FAILED, ERROR) and status == PASSED:
            self.mended.add(node)
        return None
