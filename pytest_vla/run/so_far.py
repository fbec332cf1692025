"""How a run stands while it goes on: which episodes it has, which records count, what this invocation has done."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pytest_vla.plan.case import Case
from pytest_vla.records.record import Record
from pytest_vla.records.tally import Tally
from pytest_vla.run.collected import Collected

if TYPE_CHECKING:
    from pytest_vla.plan.durations import Estimate


class SoFar:
    """Counts in memory; nothing is read or written."""

    def __init__(self) -> None:
        self.estimates: dict[str, Estimate] = {}
        """By node id, how long each episode of this invocation is likely to take."""
        self.shared: dict[str, str] = {}
        """By the node ids of tests that share an episode, what that is recorded as."""
        self.names: dict[str, str] = {}
        """By the node ids of this invocation's items with an episode, those under which their endings are recorded."""
        self.episodes: frozenset[str] = frozenset()
        """As they are recorded, all of the run."""
        self.tally = Tally()
        self.kept = 0
        """How many of the run's episodes came to their end in earlier invocations."""
        self.decided: set[str] = set()
        """Episodes, as they are recorded, that are not to run any more, since a sequential gate has decided them."""
        self.skipped: set[str] = set()
        """Those of them that were skipped."""
        self.reruns: Counter[str] = Counter()
        """By node id, how often an episode was run again because its worker died."""
        self._further = 0
        # What has ended in this invocation: by node id, and as it is recorded.
        self._ended: set[str] = set()
        self._new: dict[str, None] = {}

    def expect(self, collected: Collected) -> None:
        """These items are this invocation's."""
        self.names.update({node: node for node in collected.cases} | dict(collected.names))
        self.shared.update(collected.shared)
        own = [name for node, name in self.names.items() if node not in self.shared]
        self._further = len(own) - len(set(own))

    def recorded_as(self, node: str) -> str:
        """What an item's ending is recorded as."""
        return self.names.get(node, node)

    @property
    def episode_names(self) -> dict[str, str]:
        """By the node ids of this invocation's items with an episode, what that episode is recorded as."""
        return self.names | self.shared

    def episodes_of(self, collected: Collected) -> dict[str, Case]:
        """The cases of some items, by what their episodes are recorded as, each once."""
        return {self.shared.get(node, self.names[node]): case for node, case in collected.cases.items()}

    def resume(self, kept: Iterable[tuple[Record, str | None]], episodes: tuple[str, ...]) -> None:
        """The run has these records, with the statuses of their items, and runs these episodes now."""
        found = list(kept)
        self.tally = Tally(found)
        self.kept = sum(record.node not in episodes for record, _ in found)

    def attempt_of(self, record: Record, reruns: int) -> int:
        """Which attempt a record is: after errors of earlier ones, and after as many that left none."""
        before = self.tally.records.get(record.node)
        errors = before.attempt if before is not None and before.outcome == "error" else 0
        return max(record.attempt + reruns, errors + 1)

    def add(self, record: Record, node: str) -> None:
        """An item's episode has ended."""
        self.tally.keep(record)
        self.decided.discard(record.node)
        self.skipped.discard(record.node)
        self._ended.add(node)
        self._new[record.node] = None

    @property
    def new(self) -> tuple[Record, ...]:
        """What counts of that which has ended in this invocation, each episode once."""
        return tuple(map(self.tally.records.__getitem__, self._new))

    @property
    def done(self) -> int:
        """How many have ended, with those of earlier invocations. An item that is run several times is so many."""
        return self.kept + len(self._ended)

    @property
    def total(self) -> int:
        """How many there are to end; of a shared episode there are more where its tests are run by several workers."""
        return max(len(self.episodes) + self._further - len(self.decided), self.done)

    @property
    def left(self) -> int:
        """Episodes without a record that were not skipped as decided."""
        return sum(node not in self.tally.records and node not in self.skipped for node in self.episodes)
