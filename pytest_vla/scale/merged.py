"""What a merged run keeps of the shards that it was made of, so that merging again adds only what is new."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.records.runs import Run
from pytest_vla.records.store import STORE, Store
from pytest_vla.scale.parts import Folder
from pytest_vla.scale.shards import Plan, Uncollected, read_uncollected

MERGED = "merged"
"""The key of a run's invocation under which it stands."""


@dataclass(frozen=True)
class MergedOf:
    """Of which shards a run was made.

    Attributes:
        count, selection, partition, weights: see `pytest_vla.scale.shards.Plan`.
        model: see `Run`.
        runs: by number of a shard, how many records of each of its runs, by name, the merged run has.
        uncollected: by number of a shard, what could not be collected when its last run began.
    """

    count: int
    selection: str
    partition: str
    weights: str
    model: str
    runs: Mapping[int, Mapping[str, int]]
    uncollected: Mapping[int, Uncollected] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Plan, model: str) -> "MergedOf":
        """Of nothing yet."""
        return cls(plan.count, plan.selection, plan.partition, plan.weights, model, {})

    def records(self, number: int) -> Mapping[str, int]:
        """How many records of each run of a shard are there."""
        return self.runs.get(number, {})

    def having(self, number: int, run: str, records: int) -> "MergedOf":
        """With so many records of a shard's run."""
        return dataclasses.replace(self, runs={**self.runs, number: {**self.records(number), run: records}})

    def with_uncollected(self, number: int, found: Uncollected) -> "MergedOf":
        """With what could not be collected for a shard's last run; nothing takes the place of what was."""
        known = {**self.uncollected, number: found}
        return dataclasses.replace(self, uncollected={number: each for number, each in known.items() if each.number})

    def is_of(self, folder: Folder) -> bool:
        """Whether a shard is of the same selection, shared out in the same way, with the same policy's name."""
        mine = (self.count, self.selection, self.partition, self.weights)
        return (mine, self.model) == (folder.last.of.key, folder.last.run.model)

    def has_some_of(self, folder: Folder) -> bool:
        """Whether it has records of one of the shard's runs."""
        known = self.records(folder.number)
        return any(part.run.name in known for part in folder.parts)

    def table(self) -> dict[str, Any]:
        """Can be written as JSON."""
        runs = {str(number): dict(found) for number, found in sorted(self.runs.items())}
        table = {**{name: getattr(self, name) for name in (*_NUMBERS, *_TEXTS)}, "runs": runs}
        lost = {str(number): found.table() for number, found in sorted(self.uncollected.items())}
        return {**table, **({"uncollected": lost} if lost else {})}


_NUMBERS = ("count",)
_TEXTS = ("selection", "partition", "weights", "model")


def merged_of(store: Store, run: Run) -> MergedOf | None:
    """What a run keeps of its shards; None: it was not made of any. Raises VlaError: it is damaged."""
    table = run.invocation.get(MERGED)
    if table is None:
        return None
    try:
        texts = [table[name] for name in _TEXTS]
        runs = {int(number): dict(found) for number, found in table["runs"].items()}
        lost = {int(number): read_uncollected(found) for number, found in table.get("uncollected", {}).items()}
        counts = [table["count"], *(count for found in runs.values() for count in found.values())]
        if not all(isinstance(text, str) for text in texts) or not all(type(n) is int and n >= 0 for n in counts):
            raise TypeError
    except (TypeError, KeyError, ValueError, AttributeError, VlaError) as error:
        told = f"{store.results / STORE}: what run {run.name} says of the shards that it was made of is damaged"
        raise VlaError(f"{told}: give another folder with -o") from error
    return MergedOf(table["count"], texts[0], texts[1], texts[2], texts[3], runs, lost)


def find_merged(store: Store, folders: Sequence[Folder]) -> tuple[Run, MergedOf] | None:
    """The run that was made of some of these shards, or that lacks all of them; None: there is none.

    Of several the one that has records of most of these shards, then the newest: who evaluates once more, with a store
    that has an earlier evaluation, gets a run beside it.
    """
    found: list[tuple[int, Run, MergedOf]] = []
    for run in store.runs():
        of = merged_of(store, run)
        if of is None or not all(map(of.is_of, folders)):
            continue
        some = sum(map(of.has_some_of, folders))
        if some or not any(folder.number in of.runs for folder in folders):
            found.append((some, run, of))
    if not found:
        return None
    # The store has the newest first, and the first of equals stands.
    _, run, of = max(found, key=lambda each: each[0])
    return run, of
