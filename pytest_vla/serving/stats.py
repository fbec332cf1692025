"""What a policy's process saw of a run: how long calls take, how long workers are away, and what waited for what."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from pytest_vla.errors import WireError

LONGEST_LINE = 4096
"""Bytes that are written to a pipe in one piece."""


@dataclass(frozen=True)
class ServingStats:
    """Since the first question. All times in seconds.

    Attributes:
        seconds: of wall time.
        busy: in calls of the policy's `act`.
        questions: that were answered.
        calls: by how many questions were in a call: how many calls there were, and the mean time of the latest.
        waited: of all questions together, from their coming until their call began.
        thinking: of sessions between an answer and the next question, recent ones: processor time, as far as more
            workers thought at once than there are cores.
        away: as `thinking`, from the last answer of a session to the first question of the same worker's next one.
        episodes: sessions that have ended.
        workers: that are connected.
        cores: on which workers think; 0: not known.
    """

    seconds: float = 0.0
    busy: float = 0.0
    questions: int = 0
    calls: Mapping[int, tuple[int, float]] = field(default_factory=dict)
    waited: float = 0.0
    thinking: tuple[float, ...] = ()
    away: tuple[float, ...] = ()
    episodes: int = 0
    workers: int = 0
    cores: int = 0

    def table(self) -> dict[str, Any]:
        """For JSON; `seen_of` reads it."""
        calls = [[size, count, round(mean, 6)] for size, (count, mean) in sorted(self.calls.items())]
        short = {name: [round(each, 5) for each in getattr(self, name)] for name in ("thinking", "away")}
        return {**asdict(self), "calls": calls, **short}


def seen_of(table: object) -> ServingStats:
    """What `ServingStats.table` made. Raises WireError where it did not."""
    try:
        assert isinstance(table, dict)
        given = {each.name: table[each.name] for each in fields(ServingStats)}
        given["calls"] = {int(size): (int(count), float(mean)) for size, count, mean in given["calls"]}
        given |= {name: tuple(map(float, given[name])) for name in ("thinking", "away")}
        return ServingStats(**given)
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise WireError(f"nothing that a policy's process saw: {type(error).__name__}: {error}") from error


def seen_line(seen: ServingStats) -> bytes:
    """What `read_seen` reads: a line of at most `LONGEST_LINE` bytes. Of many sizes of calls it has the frequent ones.

    Raises:
        ValueError: samples alone are too long.
    """
    calls = sorted(seen.calls.items(), key=lambda each: each[1][0], reverse=True)
    while True:
        table = replace(seen, calls=dict(calls)).table()
        line = json.dumps({"seen": table}, separators=(",", ":")).encode() + b"\n"
        if len(line) <= LONGEST_LINE:
            return line
        if not calls:
            raise ValueError(f"{len(seen.thinking)} and {len(seen.away)} samples make a line of {len(line)} bytes")
        calls = calls[: len(calls) // 2]


def read_seen(line: bytes) -> ServingStats | None:
    """What a line of `seen_line` says; None where it is another."""
    if not line.startswith(b"{"):
        return None
    try:
        return seen_of(json.loads(line)["seen"])
    except (KeyError, TypeError, ValueError, WireError):
        return None


def seen_since(later: ServingStats, earlier: ServingStats) -> ServingStats:
    """What was seen between two times: counts and times are differences, everything else is the later one's.

    Where the process was started again meanwhile, it is all that the later one says.
    """
    if later.seconds < earlier.seconds or later.questions < earlier.questions:
        return later
    before = {size: count for size, (count, _) in earlier.calls.items()}
    calls = {size: (count - before.get(size, 0), mean) for size, (count, mean) in later.calls.items()}
    sums = ("seconds", "busy", "questions", "waited", "episodes")
    return replace(
        later,
        calls={size: each for size, each in calls.items() if each[0] > 0},
        **{name: getattr(later, name) - getattr(earlier, name) for name in sums},
    )


@dataclass(frozen=True)
class DeviceUse:
    """How much of a run's time its parts are busy.

    Attributes:
        device: share of the time, 0 to 1; of several their mean.
        cores: share of them that thinks, 0 to 1, by the processor time of questions and episodes; None: not known.
        batch: questions in a call, mean.
        call: seconds of a call, mean.
    """

    device: float
    cores: float | None
    batch: float
    call: float


FEWEST_CALLS = 5
"""Of which shares of the time are told."""


def use_of(seen: Sequence[ServingStats]) -> DeviceUse | None:
    """What the processes of a run's devices saw in the same time, together; None where that is too little to say."""
    some = [each for each in seen if each.seconds > 0]
    calls = sum(count for each in some for count, _ in each.calls.values())
    if calls < FEWEST_CALLS:
        return None
    cores = max(each.cores for each in some)
    thought = sum(each.questions * mean(each.thinking) + each.episodes * mean(each.away) for each in some)
    is_known = bool(cores) and any(each.thinking for each in some)
    busy, seconds = sum(each.busy for each in some), sum(each.seconds for each in some)
    return DeviceUse(
        device=min(busy / seconds, 1.0),
        cores=min(thought * len(some) / seconds / cores, 1.0) if is_known else None,
        batch=sum(each.questions for each in some) / calls,
        call=busy / calls,
    )


def mean(samples: Sequence[float]) -> float:
    """0 where there is none."""
    return sum(samples) / len(samples) if samples else 0.0
