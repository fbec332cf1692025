"""The shards of a selection: their plan, stored in each shard's run, the partition, and the file of durations.

The plan is in the run's invocation. Every shard keeps the whole selection, compressed, so that any of them knows the
others' items: a missing item has a name and a place, and the merged run has the order of one machine.
"""

import base64
import binascii
import hashlib
import json
import math
import zlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heapreplace
from itertools import accumulate
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.plan.choices import MOST_SHARDS
from pytest_vla.plan.durations import LONGEST_SECONDS
from pytest_vla.records.checks import parse_json
from pytest_vla.util.files import whole_file
from pytest_vla.util.text import printable

SHARD = "shard"
"""The key of a run's invocation under which it stands."""

BUDGETS = "step budgets"
"""What a shard's weights are called where no durations were measured."""

_LARGEST_PLAN = 1 << 30

_UNCOLLECTED, _MOST_FILES, _LONGEST = "uncollected", 20, 200


@dataclass(frozen=True)
class Uncollected:
    """The files that pytest could not collect and ran without: their tests are in no selection.

    Attributes:
        number: of files, or other collectors.
        files: node ids of some of them, each with the reason, in a line.
    """

    number: int = 0
    files: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, failures: Mapping[str, str]) -> "Uncollected":
        """Make it from the reasons by node id."""
        some = list(failures.items())[:_MOST_FILES]
        return cls(len(failures), tuple((printable(name)[:_LONGEST], printable(why)[:_LONGEST]) for name, why in some))

    def table(self) -> list[Any]:
        """Return the value as JSON has it."""
        return [self.number, *map(list, self.files)]


def read_uncollected(table: Any) -> Uncollected:
    """Read a value that `Uncollected.table` wrote, or None as an empty one. Raises VlaError if it is damaged."""
    if table is None:
        return Uncollected()
    number, *files = table if isinstance(table, list) and table else [None]
    pairs = [each for each in files if isinstance(each, list) and [*map(type, each)] == [str, str]]
    if type(number) is not int or len(pairs) < len(files) or len(files) != min(number, _MOST_FILES):
        raise VlaError("its list of uncollected files is damaged")
    return Uncollected(number, tuple((printable(name)[:_LONGEST], printable(why)[:_LONGEST]) for name, why in pairs))


@dataclass(frozen=True)
class ShardItem:
    """One item of the whole selection.

    Attributes:
        node: the id under which its end is recorded.
        episode: whether it is an episode.
        shared: whether several tests, which are other items of the selection, share its episode.
        shard: the one that runs it, from 1.
    """

    node: str
    episode: bool
    shared: bool
    shard: int


@dataclass(frozen=True)
class ShardPlan:
    """A selection, partitioned into shards.

    Attributes:
        count: number of shards.
        weights: the source of durations: `BUDGETS`, or the digest of a file of durations.
        items: of the whole selection, as a run of one machine has them in its store.
    """

    count: int
    weights: str
    items: tuple[ShardItem, ...]

    @cached_property
    def selection(self) -> str:
        """The sha256 (hex) of the selection, independent of its order: a plugin may shuffle items on each machine."""
        return _digest(sorted([each.node, each.episode, each.shared] for each in self.items))

    @cached_property
    def partition(self) -> str:
        """The sha256 (hex) of each item's shard."""
        return _digest(sorted([each.node, each.shard] for each in self.items))

    def of(self, number: int) -> tuple[ShardItem, ...]:
        """Return the items of a shard."""
        return tuple(each for each in self.items if each.shard == number)

    def table(self, number: int) -> dict[str, Any]:
        """Return the table for the run of a shard, as JSON has it; `with_uncollected` adds to it."""
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
    """The shard that a run is, as stored in it; see `ShardPlan.table`."""

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
        """The key that is equal for shards that belong together."""
        return self.count, self.selection, self.partition, self.weights

    def plan(self) -> ShardPlan:
        """Unpack the whole selection. Raises VlaError if it is damaged, or does not match its digests."""
        try:
            unpacking = zlib.decompressobj()
            text = unpacking.decompress(base64.b64decode(self.packed, validate=True), _LARGEST_PLAN)
            if not unpacking.eof:
                raise VlaError("it is cut off")
            rows = parse_json(text)
            items = tuple(_planned(row, self.count) for row in rows)
        except (VlaError, binascii.Error, zlib.error, TypeError, ValueError) as error:
            raise VlaError(f"its list of the whole selection cannot be read: {error}") from error
        plan = ShardPlan(self.count, self.weights, items)
        if (plan.selection, plan.partition) != (self.selection, self.partition):
            raise VlaError("its list of the whole selection does not match its digests")
        return plan


def shard_of(invocation: Mapping[str, Any]) -> ShardOf | None:
    """Read the shard from a run's invocation, or return None if it is none. Raises VlaError if it is damaged."""
    table = invocation.get(SHARD)
    if table is None:
        return None
    if not isinstance(table, dict):
        raise VlaError("its shard entry is not a table")
    numbers = [table.get(name) for name in ("number", "count", "items")]
    texts = [table.get(name) for name in ("selection", "partition", "weights", "plan")]
    if not all(type(each) is int for each in numbers) or not all(isinstance(each, str) for each in texts):
        raise VlaError("its shard entry is damaged")
    number, count, items = map(int, numbers)  # type: ignore[arg-type]
    if not 1 <= number <= count <= MOST_SHARDS or items < 0:
        raise VlaError(f"its shard entry has shard {number} of {count}")
    selection, partition, weights, packed = map(str, texts)
    uncollected = read_uncollected(table.get(_UNCOLLECTED))
    return ShardOf(number, count, items, selection, partition, weights, packed, uncollected)


def with_uncollected(table: Mapping[str, Any], failures: Mapping[str, str]) -> dict[str, Any]:
    """Return the table for the run of a shard, with the reasons (by node id) of files that could not be collected."""
    return {**table, **({_UNCOLLECTED: Uncollected.of(failures).table()} if failures else {})}


def _planned(row: Any, count: int) -> ShardItem:
    node, episode, shared, shard = row
    if not (isinstance(node, str) and type(episode) is type(shared) is bool and type(shard) is int):
        raise VlaError("a line of it is damaged")
    if not 1 <= shard <= count:
        raise VlaError(f"{node} is in shard {shard} of {count}")
    return ShardItem(node, episode, shared, shard)


def _digest(rows: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()


# Which shard runs what. Pure, and a function of its arguments alone: any machine finds the same.
#
# 1. Scenes stay whole, and only one that is larger than a shard's share is cut, into pieces of about equal time. The
#    longest piece goes first, each to the shard that has least so far: no shard has more than the mean and one piece.
# 2. Where that leaves a shard more than a tenth above the mean, as 17 equal scenes on 16 shards do, scenes are laid
#    in a line which is cut into equal parts, at the end of a scene where one is near. Each cut splits one scene at
#    most, so that a shard loads two scenes more, some seconds, and none waits for the longest.

TOLERANCE = 0.1
"""How far above the mean the longest shard may be before scenes are split that would fit into one."""


@dataclass(frozen=True)
class Unit:
    """The smallest part of a partition: an item, or the tests that share an episode.

    Attributes:
        name: unique among the units.
        scene: items with one scene are best run by one machine.
        seconds: its likely duration, or any other weight; 0 or more, finite.
    """

    name: str
    scene: str
    seconds: float


def partition(units: Sequence[Unit], count: int) -> dict[str, int]:
    """Return the shard (1 to `count`) of each unit, independent of the units' order and of scenes' names.

    Args:
        units: with different names.
        count: of shards; some are empty if there are fewer units.

    Raises:
        ValueError: there is no shard, a name is there twice, or seconds are negative or not finite.
    """
    ordered = sorted(units, key=lambda unit: unit.name)
    if count < 1:
        raise ValueError(f"{count} shards: expected 1 or more")
    if len({unit.name for unit in ordered}) < len(ordered):
        raise ValueError("two units have the same name")
    if not all(0 <= unit.seconds < math.inf for unit in ordered):
        raise ValueError("seconds of a unit are negative or not finite")
    # What takes no time at all is shared out by number.
    weighs = any(unit.seconds for unit in ordered)
    scenes: dict[str, list[tuple[str, float]]] = {}
    for unit in ordered:
        scenes.setdefault(unit.scene, []).append((unit.name, unit.seconds if weighs else 1.0))
    pieces = list(scenes.values())
    share = math.fsum(seconds for piece in pieces for _, seconds in piece) / count
    whole = _whole(pieces, count, share)
    if not whole or _longest(whole) <= share * (1 + TOLERANCE):
        return _named(whole)
    cut = _on_a_line(pieces, count, share)
    return _named(cut if _longest(cut) < _longest(whole) else whole)


def loads(units: Sequence[Unit], shards: Mapping[str, int], count: int) -> list[float]:
    """Return the seconds of each shard, the first one first."""
    found: list[list[float]] = [[] for _ in range(count)]
    for unit in units:
        found[shards[unit.name] - 1].append(unit.seconds)
    return [math.fsum(seconds) for seconds in found]


_Piece = list[tuple[str, float]]
"""Names with their seconds."""


def _whole(scenes: Sequence[_Piece], count: int, share: float) -> list[_Piece]:
    """Return the units of each shard, with scenes whole that fit into one."""
    pieces = [piece for scene in scenes for piece in _cut(scene, share)]
    return _dealt(pieces, count)


def _cut(scene: _Piece, share: float) -> list[_Piece]:
    """Cut a scene into the fewest pieces of about equal time that are about a share or less."""
    number = max(math.ceil(_seconds(scene) / share - 1e-9), 1) if share else 1
    return [scene] if number == 1 else _dealt([[each] for each in scene], number)


def _dealt(pieces: Sequence[_Piece], count: int) -> list[_Piece]:
    """Deal pieces into parts: the longest first, each to the part with the least time."""
    parts: list[_Piece] = [[] for _ in range(count)]
    heap = [(0.0, number) for number in range(count)]
    # Sorting is stable: pieces of equal time keep their order, which is that of names.
    for piece in sorted(pieces, key=lambda piece: -_seconds(piece)):
        load, number = heap[0]
        parts[number] += piece
        heapreplace(heap, (load + _seconds(piece), number))
    return parts


def _on_a_line(scenes: Sequence[_Piece], count: int, share: float) -> list[_Piece]:
    """Return the units of each shard, with all scenes in a line that is cut into equal parts."""
    line = [each for scene in scenes for each in scene]
    ends = list(accumulate(map(_seconds, scenes)))
    near = share * TOLERANCE / 2
    cuts = []
    for cut in (share * number for number in range(1, count)):
        after = bisect_right(ends, cut)
        end = min(ends[max(after - 1, 0) : after + 1], key=lambda end: abs(end - cut))
        cuts.append(end if abs(end - cut) <= near else cut)
    return _parted(line, cuts)


def _parted(line: _Piece, cuts: Sequence[float]) -> list[_Piece]:
    """Cut a line into parts; a unit that a cut goes through belongs to the part with its middle."""
    parts: list[_Piece] = [[] for _ in range(len(cuts) + 1)]
    begin = 0.0
    for name, seconds in line:
        parts[bisect_right(cuts, begin + seconds / 2)].append((name, seconds))
        begin += seconds
    return parts


def _seconds(piece: _Piece) -> float:
    return math.fsum(seconds for _, seconds in piece)


def _longest(shards: Sequence[_Piece]) -> float:
    return max(map(_seconds, shards))


def _named(shards: Sequence[_Piece]) -> dict[str, int]:
    return {name: number for number, shard in enumerate(shards, 1) for name, _ in shard}


# Measured durations in a file of their own, by which all shards of a selection are shared out alike.
#
# A store changes while shards run, and no two machines have the same: by its durations each would share out
# otherwise, and episodes would be lost or run twice. What is in a file stays, and its digest is kept with each
# shard's run.

_KIND = "pytest_vla_durations"
_SCHEMA = 1
_LARGEST = 1 << 28

Row = tuple[str, str, int, float]
"""Suite, `Case.task_key`, seed and mean seconds of an episode."""


@dataclass(frozen=True)
class Durations:
    """The durations of episodes, each case once, in the order of cases."""

    rows: tuple[Row, ...]

    @property
    def digest(self) -> str:
        """The sha256 (hex) of the rows, independent of the file's layout."""
        return hashlib.sha256(json.dumps(self.rows, separators=(",", ":")).encode()).hexdigest()


def mean_durations(measured: Iterable[Row]) -> Durations:
    """Compute the mean of each case, rounded to milliseconds, without values that are no time (`LONGEST_SECONDS`)."""
    by_case: defaultdict[tuple[str, str, int], list[float]] = defaultdict(list)
    for suite, task, seed, seconds in measured:
        if 0 <= seconds <= LONGEST_SECONDS:
            by_case[suite, task, seed].append(seconds)
    means = {case: round(math.fsum(times) / len(times), 3) for case, times in by_case.items()}
    return Durations(tuple((*case, means[case]) for case in sorted(means)))


def write_durations(file: Path, durations: Durations, policy: str) -> None:
    """Write durations whole or not at all, a line per case. Raises VlaError."""
    lines = ",\n".join(f"  {json.dumps(row)}" for row in durations.rows)
    text = f'{{"{_KIND}": {_SCHEMA}, "policy": {json.dumps(policy)}, "episodes": [\n{lines}\n]}}\n'
    with whole_file(file) as stream:
        stream.write(text.encode())


def read_durations(file: Path) -> Durations:
    """Read a file that `write_durations` wrote. Raises VlaError that names the file and how to make one."""
    try:
        if file.stat().st_size > _LARGEST:
            raise VlaError(f"it is larger than {_LARGEST >> 20} MiB")
        table = parse_json(file.read_bytes())
        if not isinstance(table, dict) or table.get(_KIND) != _SCHEMA or not isinstance(table.get("episodes"), list):
            raise VlaError(f'expected a table with "{_KIND}": {_SCHEMA} and "episodes"')
        return mean_durations(_row(number, each) for number, each in enumerate(table["episodes"], 1))
    except OSError as error:
        raise VlaError(f"{file}: {error.strerror or error}; {_CURE}") from error
    except (VlaError, UnicodeDecodeError) as error:
        raise VlaError(f"{file} is not a durations file: {error}; {_CURE}") from error


_CURE = "`pytest-vla durations --model=POLICY -o FILE` writes one from the runs of a results folder"


def _row(number: int, row: object) -> Row:
    if isinstance(row, list) and len(row) == 4:
        suite, task, seed, seconds = row
        fits = isinstance(suite, str) and isinstance(task, str) and type(seed) is int
        if fits and type(seconds) in (int, float) and 0 <= seconds <= LONGEST_SECONDS:
            return suite, task, seed, float(seconds)
    raise VlaError(f"episode {number} of it: expected [suite, task, seed, seconds], 0 to {LONGEST_SECONDS:g}")
