"""What a policy's process saw of a run: how long calls take, how long workers are away, and what waited for what."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from pytest_vla.errors import WireError


@dataclass(frozen=True)
class Seen:
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


def seen_of(table: object) -> Seen:
    """What `Seen.table` made. Raises WireError where it did not."""
    try:
        assert isinstance(table, dict)
        given = {each.name: table[each.name] for each in fields(Seen)}
        given["calls"] = {int(size): (int(count), float(mean)) for size, count, mean in given["calls"]}
        given |= {name: tuple(map(float, given[name])) for name in ("thinking", "away")}
        return Seen(**given)
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        raise WireError(f"nothing that a policy's process saw: {type(error).__name__}: {error}") from error
