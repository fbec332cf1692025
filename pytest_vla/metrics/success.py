"""Success rates: over successes and failures; errors and invalid episodes are counted beside them, by reason."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from pytest_vla.metrics.statistics import wilson_interval


class Outcome(Protocol):
    """The fields of a record that a rate is made of."""

    @property
    def suite(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def reason(self) -> str | None: ...


class TaskOutcome(Outcome, Protocol):
    """An outcome that says its task too."""

    @property
    def task(self) -> str: ...


@dataclass(frozen=True)
class SuccessRate:
    """How a group of episodes came out.

    Attributes:
        name: of the group.
        episodes: all of them.
        successes: episodes that did the task.
        counted: successes and failures, the rate's denominator.
        interval: 95% Wilson interval of the rate; None where nothing was counted.
        errors: episodes in which policy or simulation broke, by reason.
        invalid: episodes with nothing to measure, by reason.
    """

    name: str
    episodes: int
    successes: int
    counted: int
    interval: tuple[float, float] | None
    errors: Mapping[str, int]
    invalid: Mapping[str, int]

    @property
    def rate(self) -> float | None:
        """Successes of those counted; None where nothing was counted."""
        return self.successes / self.counted if self.counted else None

    @property
    def not_counted(self) -> int:
        """How many are in no rate: errors and invalid episodes."""
        return self.episodes - self.counted

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The rate if all that was not counted had failed, and if all of it had succeeded; None where nothing was."""
        if not self.not_counted:
            return None
        return self.successes / self.episodes, (self.successes + self.not_counted) / self.episodes

    def reaches(self, minimum: float) -> bool:
        """Whether the rate is at least `minimum`; where nothing was counted, it is not."""
        return self.rate is not None and self.rate >= minimum


def success_rate(name: str, records: Sequence[Outcome]) -> SuccessRate:
    """The rate over one group of records."""
    count = Counter(record.outcome for record in records)
    counted = count["success"] + count["failure"]

    def reasons(outcome: str) -> dict[str, int]:
        return dict(sorted(Counter(str(r.reason) for r in records if r.outcome == outcome).items()))

    interval = wilson_interval(count["success"], counted) if counted else None
    return SuccessRate(name, len(records), count["success"], counted, interval, reasons("error"), reasons("invalid"))
