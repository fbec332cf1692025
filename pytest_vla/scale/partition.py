"""Which shard runs what. Pure, and a function of its arguments alone: any machine finds the same.

1. Scenes stay whole, and only one that is larger than a shard's share is cut, into pieces of about equal time. The
   longest piece goes first, each to the shard that has least so far: no shard has more than the mean and one piece.
2. Where that leaves a shard more than a tenth above the mean, as 17 equal scenes on 16 shards do, scenes are laid in a
   line which is cut into equal parts, at the end of a scene where one is near. Each cut splits one scene at most, so
   that a shard loads two scenes more, some seconds, and none waits for the longest.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from itertools import accumulate

TOLERANCE = 0.1
"""How far above the mean the longest shard may be before scenes are split that would fit into one."""


@dataclass(frozen=True)
class Unit:
    """What is not parted: an item, or the tests that share an episode.

    Attributes:
        name: tells it from the others.
        scene: items of one are best run by one machine.
        seconds: that it is likely to take, or whatever else they weigh; 0 or more, finite.
    """

    name: str
    scene: str
    seconds: float


def partition(units: Sequence[Unit], count: int) -> dict[str, int]:
    """By unit, its shard, 1 to `count`. The order of the units does not matter, and neither do scenes' names.

    Args:
        units: with different names.
        count: of shards; some are empty where there are fewer units.

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
    """The seconds of each shard, the first one first."""
    found: list[list[float]] = [[] for _ in range(count)]
    for unit in units:
        found[shards[unit.name] - 1].append(unit.seconds)
    return [math.fsum(seconds) for seconds in found]


_Piece = list[tuple[str, float]]
"""Names with their seconds."""


def _whole(scenes: Sequence[_Piece], count: int, share: float) -> list[_Piece]:
    """By shard, where scenes that fit into one are whole."""
    pieces = [piece for scene in scenes for piece in _cut(scene, share)]
    return _dealt(pieces, count)


def _cut(scene: _Piece, share: float) -> list[_Piece]:
    """A scene in as few pieces of about equal time as are about a share or less."""
    number = max(math.ceil(_seconds(scene) / share - 1e-9), 1) if share else 1
    return [scene] if number == 1 else _dealt([[each] for each in scene], number)


def _dealt(pieces: Sequence[_Piece], count: int) -> list[_Piece]:
    """Pieces in so many parts: the longest first, each to the part that has least."""
    parts: list[_Piece] = [[] for _ in range(count)]
    heap = [(0.0, number) for number in range(count)]
    # Sorting is stable: pieces of equal time keep their order, which is that of names.
    for piece in sorted(pieces, key=lambda piece: -_seconds(piece)):
        load, number = heap[0]
        parts[number] += piece
        heapreplace(heap, (load + _seconds(piece), number))
    return parts


def _on_a_line(scenes: Sequence[_Piece], count: int, share: float) -> list[_Piece]:
    """By shard, where all scenes lie in a line that is cut into equal parts."""
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
    """A line in one part more than there are cuts: what a cut goes through is where its middle is."""
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
