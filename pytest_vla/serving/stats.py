"""Statistics of a policy's process during a run: times of calls, thinking times of workers, and waiting times."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

from pytest_vla.errors import WireError

LONGEST_LINE = 4096
"""The most bytes that are written to a pipe atomically."""


@dataclass(frozen=True)
class ServingStats:
    """The statistics since the first question. All times in seconds.

    Attributes:
        seconds: wall time.
        busy: time in calls of the policy's `act`.
        questions: the number of answered questions.
        calls: by batch size, the number of calls and the mean time of the latest ones.
        waited: the waiting time of all questions together, from arrival to the begin of the call.
        thinking: recent times of sessions between an answer and the next question; processor time if more
            workers thought at once than there are cores.
        away: recent times from the last answer of a session to the first question of the same worker's next
            session, measured as `thinking`.
        episodes: the number of sessions that have ended.
        workers: the number of connected workers.
        cores: the number of cores that workers think on; 0 if not known.
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
        """Return the statistics for JSON; `seen_of` reads them."""
        calls = [[size, count, round(mean, 6)] for size, (count, mean) in sorted(self.calls.items())]
        short = {name: [round(each, 5) for each in getattr(self, name)] for name in ("thinking", "away")}
        return {**asdict(self), "calls": calls, **short}


def seen_of(table: object) -> ServingStats:
    """Read the result of `ServingStats.table`. Raises WireError if it is not one."""
    try:
        assert isinstance(table, dict)
        given = {each.name: table[each.name] for each in fields(ServingStats)}
        given["calls"] = {int(size): (int(count), float(mean)) for size, count, mean in given["calls"]}
        given |= {name: tuple(map(float, given[name])) for name in ("thinking", "away")}
        return ServingStats(**given)
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise WireError(f"nothing that a policy's process saw: {type(error).__name__}: {error}") from error


def seen_line(seen: ServingStats) -> bytes:
    """Return a line of at most `LONGEST_LINE` bytes for `read_seen`, with the most frequent batch sizes that fit.

    Raises:
        ValueError: the samples alone are too long.
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
    """Read a line of `seen_line`, or return None for any other line."""
    if not line.startswith(b"{"):
        return None
    try:
        return seen_of(json.loads(line)["seen"])
    except (KeyError, TypeError, ValueError, WireError):
        return None


def seen_since(later: ServingStats, earlier: ServingStats) -> ServingStats:
    """Return the statistics between two times: differences of counts and times, the later values of all else.

    If the process was restarted in between, the later statistics are returned.
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
    """The utilisation of a run's devices and cores.

    Attributes:
        device: the share of time that a device is busy, 0 to 1; the mean over devices.
        cores: the share of the cores that is busy, 0 to 1, from the processor times of questions and episodes,
            or None if not known.
        batch: the mean number of questions in a call.
        call: the mean seconds of a call.
    """

    device: float
    cores: float | None
    batch: float
    call: float


FEWEST_CALLS = 5
"""The fewest calls for which utilisation is reported."""


def use_of(seen: Sequence[ServingStats]) -> DeviceUse | None:
    """Compute the utilisation from statistics of all devices over the same time, or None with too few calls."""
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
    """Compute the mean, 0 for no samples."""
    return sum(samples) / len(samples) if samples else 0.0
