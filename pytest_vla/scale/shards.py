"""What a run keeps that is one shard of several: which one, of what selection, and which shard runs what of it.

It stands in the run's invocation. The whole selection is kept by every shard, compressed, so that any of them says what
the others were to run: what is missing has a name and a place, and the merged run has the order of one machine.
"""

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.choices import MOST_SHARDS
from pytest_vla.records.checks import parse_json
from pytest_vla.util.text import printable

SHARD = "shard"
"""The key of a run's invocation under which it stands."""

BUDGETS = "step budgets"
"""What a shard's weights are called where no durations were measured."""

_LARGEST_PLAN = 1 << 30

_UNCOLLECTED, _MOST_FILES, _LONGEST = "uncollected", 20, 200


@dataclass(frozen=True)
class Uncollected:
    """What pytest could not collect, and went on without: its tests are in no selection.

    Attributes:
        number: how many files, or other collectors.
        files: node ids of some of them, each with why, in a line.
    """

    number: int = 0
    files: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, failures: Mapping[str, str]) -> "Uncollected":
        """Why, by node id."""
        some = list(failures.items())[:_MOST_FILES]
        return cls(len(failures), tuple((printable(name)[:_LONGEST], printable(why)[:_LONGEST]) for name, why in some))

    def table(self) -> list[Any]:
        """Can be written as JSON."""
        return [self.number, *map(list, self.files)]


def read_uncollected(table: Any) -> Uncollected:
    """What `Uncollected.table` wrote; nothing, where it is None. Raises VlaError: it is damaged."""
    if table is None:
        return Uncollected()
    number, *files = table if isinstance(table, list) and table else [None]
    pairs = [each for each in files if isinstance(each, list) and [*map(type, each)] == [str, str]]
    if type(number) is not int or len(pairs) < len(files) or len(files) != min(number, _MOST_FILES):
        raise VlaError("what it says of files that could not be collected is not as pytest-vla writes it")
    return Uncollected(number, tuple((printable(name)[:_LONGEST], printable(why)[:_LONGEST]) for name, why in pairs))


@dataclass(frozen=True)
class Planned:
    """One thing that the whole selection has.

    Attributes:
        node: what its ending is recorded as.
        episode: whether it is an episode.
        shared: whether it is the episode of several tests, which are others of the selection.
        shard: the one that runs it, from 1.
    """

    node: str
    episode: bool
    shared: bool
    shard: int


@dataclass(frozen=True)
class Plan:
    """A selection, shared out.

    Attributes:
        count: how many shards there are.
        weights: what said how long episodes take: `BUDGETS`, or the digest of a file of durations.
        items: of the whole selection, as a run of one machine has them in its store.
    """

    count: int
    weights: str
    items: tuple[Planned, ...]

    @cached_property
    def selection(self) -> str:
        """sha256 (hex) of what is selected. The order is not in it: a plugin may shuffle items on each machine."""
        return _digest(sorted([each.node, each.episode, each.shared] for each in self.items))

    @cached_property
    def partition(self) -> str:
        """sha256 (hex) of which shard runs what."""
        return _digest(sorted([each.node, each.shard] for each in self.items))

    def of(self, number: int) -> tuple[Planned, ...]:
        """What a shard runs."""
        return tuple(each for each in self.items if each.shard == number)

    def table(self, number: int) -> dict[str, Any]:
        """What the run of a shard keeps, beside what `with_uncollected` adds; can be written as JSON."""
        rows = [[each.node, each.episode, each.shared, each.shard] for each in self.items]
        packed = zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 9)
        return {
            "number": number,
            "count": self.count,
            "items": len(self.items),
            "own": len(self.of(number)),
            "selection": self.selection,
            "partition": self.partition,
            "weights": self.weights,
            "plan": base64.b64encode(packed).decode(),
        }


@dataclass(frozen=True)
class ShardOf:
    """What a run says of the shard that it is; see `Plan.table`."""

    number: int
    count: int
    items: int
    selection: str
    partition: str
    weights: str
    packed: str
    uncollected: Uncollected = Uncollected()

    @property
    def key(self) -> tuple[int, str, str, str]:
        """Equal for shards that belong together."""
        return self.count, self.selection, self.partition, self.weights

    def plan(self) -> Plan:
        """The whole selection. Raises VlaError: it is damaged, or another than its digests say."""
        try:
            unpacking = zlib.decompressobj()
            text = unpacking.decompress(base64.b64decode(self.packed, validate=True), _LARGEST_PLAN)
            if not unpacking.eof:
                raise VlaError("it is cut off")
            rows = parse_json(text)
            items = tuple(_planned(row, self.count) for row in rows)
        except (VlaError, binascii.Error, zlib.error, TypeError, ValueError) as error:
            raise VlaError(f"its list of the whole selection cannot be read: {error}") from error
        plan = Plan(self.count, self.weights, items)
        if (plan.selection, plan.partition) != (self.selection, self.partition):
            raise VlaError("its list of the whole selection is not the one of its digests")
        return plan


def shard_of(invocation: Mapping[str, Any]) -> ShardOf | None:
    """What a run's invocation says of its shard; None: it is none. Raises VlaError: it is damaged."""
    table = invocation.get(SHARD)
    if table is None:
        return None
    if not isinstance(table, dict):
        raise VlaError("what it says of its shard is no table")
    numbers = [table.get(name) for name in ("number", "count", "items")]
    texts = [table.get(name) for name in ("selection", "partition", "weights", "plan")]
    if not all(type(each) is int for each in numbers) or not all(isinstance(each, str) for each in texts):
        raise VlaError("what it says of its shard is not as pytest-vla writes it")
    number, count, items = map(int, numbers)  # type: ignore[arg-type]
    if not 1 <= number <= count <= MOST_SHARDS or items < 0:
        raise VlaError(f"it says to be shard {number} of {count}")
    selection, partition, weights, packed = map(str, texts)
    uncollected = read_uncollected(table.get(_UNCOLLECTED))
    return ShardOf(number, count, items, selection, partition, weights, packed, uncollected)


def with_uncollected(table: Mapping[str, Any], failures: Mapping[str, str]) -> dict[str, Any]:
    """What the run of a shard keeps, with what could not be collected: why, by node id."""
    return {**table, **({_UNCOLLECTED: Uncollected.of(failures).table()} if failures else {})}


def _planned(row: Any, count: int) -> Planned:
    node, episode, shared, shard = row
    if not (isinstance(node, str) and type(episode) is type(shared) is bool and type(shard) is int):
        raise VlaError("a line of it is none of ours")
    if not 1 <= shard <= count:
        raise VlaError(f"{node} is of shard {shard} of {count}")
    return Planned(node, episode, shared, shard)


def _digest(rows: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()
