"""Success rates: over successes and failures; errors and invalid episodes are counted beside them, by reason."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from pytest_vla.errors import STOPPED
from pytest_vla.metrics.clustered import Interval, Unit, rate_intervals
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
    def task_key(self) -> str: ...


class SeededOutcome(TaskOutcome, Protocol):
    """An outcome that says what it began from too."""

    @property
    def seed(self) -> int: ...
    @property
    def run_seed(self) -> int: ...
    @property
    def init_state(self) -> int | None: ...
    @property
    def variation(self) -> Mapping[str, Any]: ...
    @property
    def protocol(self) -> Mapping[str, Any]: ...


Ended = TypeVar("Ended", bound=Outcome)


@dataclass(frozen=True)
class SuccessRate:
    """The success rate of a group of episodes.

    Attributes:
        name: the group's.
        episodes: all of them.
        successes: episodes that did the task.
        counted: successes and failures, the rate's denominator.
        interval: 95% interval of the rate, over these tasks: Wilson's, wider if several episodes share a task and
            start; None if nothing was counted, if all of it has one task and start, or if a rule chose what was counted
            (`is_chosen`).
        errors: episodes in which policy or simulation broke, by reason.
        invalid: episodes with nothing to measure, by reason.
        tasks_interval: 95% interval over tasks like these; None if they are too few, or unknown.
    """

    name: str
    episodes: int
    successes: int
    counted: int
    interval: Interval | None
    errors: Mapping[str, int]
    invalid: Mapping[str, int]
    tasks_interval: Interval | None = None

    @property
    def rate(self) -> float | None:
        """Successes of those counted; None where nothing was counted."""
        return self.successes / self.counted if self.counted else None

    @property
    def not_counted(self) -> int:
        """The number of episodes in no rate: errors and invalid episodes."""
        return self.episodes - self.counted

    @property
    def is_chosen(self) -> bool:
        """Whether a rule stopped episodes: those that are counted are no sample of all, and have no interval."""
        return STOPPED in self.invalid

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The rate if all that was not counted had failed, and if all of it had succeeded; None where nothing was."""
        if not self.not_counted:
            return None
        return self.successes / self.episodes, (self.successes + self.not_counted) / self.episodes

    def reaches(self, minimum: float, by_lower_end: bool = False) -> bool:
        """Whether the rate, or the lower end of its interval, is at least `minimum`; where there is none, it is not.

        Episodes that a rule stopped count as failures: the rule may have read them from the policy's own answers.
        """
        if by_lower_end:
            return self.interval is not None and self.interval[0] >= minimum
        return bool(self.counted) and self.successes / (self.counted + self.invalid.get(STOPPED, 0)) >= minimum


def success_rate(name: str, records: Sequence[Ended], unit: Callable[[Ended], Unit] | None = None) -> SuccessRate:
    """Compute the rate over one group of records.

    Args:
        name: the group's.
        records: with any outcome.
        unit: returns an episode's task and start, such as `unit_of`; None if unknown, so that all episodes are taken as
            independent.
    """
    counted = [record for record in records if record.outcome in ("success", "failure")]
    successes = [float(record.outcome == "success") for record in counted]
    done = int(sum(successes))

    def reasons(outcome: str) -> dict[str, int]:
        return dict(sorted(Counter(str(r.reason) for r in records if r.outcome == outcome).items()))

    interval, tasks_interval = wilson_interval(done, len(counted)) if counted else None, None
    if unit is not None and counted:
        interval, tasks_interval = rate_intervals(successes, [unit(record) for record in counted])
    invalid = reasons("invalid")
    if STOPPED in invalid:
        interval = tasks_interval = None
    return SuccessRate(name, len(records), done, len(counted), interval, reasons("error"), invalid, tasks_interval)


def unit_of(record: SeededOutcome) -> Unit:
    """Return what an episode shares its start with: its task and its init state, whatever else is varied.

    Seeds that begin from one init state are replicates within it, as run seeds are; which of them are the same
    observation `pytest_vla.records.counting` says. If the init state is not known, the seed stands for it. If the
    protocol pins it, it is part of the task, as no seed begins elsewhere: what its seeds and run seeds draw is
    independent given the task, and every variation is a unit by itself.
    """
    task = f"{record.suite}/{record.task_key}"
    if record.protocol.get("init_state") is not None:
        return task, (record.seed, record.variation.get("label", ""), record.run_seed)
    return task, start_within(record)


def start_within(record: SeededOutcome) -> int:
    """Return which of its task's starts an episode has: its init state, or its seed if that is pinned or not known."""
    is_pinned = record.protocol.get("init_state") is not None
    return record.seed if is_pinned or record.init_state is None else record.init_state


def fewest_to_reach(n: int, minimum: float, by_lower_end: bool = False) -> int | None:
    """Return the fewest successes out of n independent episodes that reach the minimum, or None if n do not.

    Args:
        n: at least 1.
        minimum: of the rate, 0..1.
        by_lower_end: whether the lower end of the rate's interval has to reach it instead.
    """

    def reached(successes: int) -> bool:
        return (wilson_interval(successes, n)[0] if by_lower_end else successes / n) >= minimum

    return bisect_left(range(n + 1), True, key=reached) if reached(n) else None


def episodes_to_reach(minimum: float) -> int | None:
    """Return the fewest episodes, all successes, whose lower end reaches a minimum, or None if no number does."""
    if minimum >= 1:
        return None
    enough = bisect_left(range(1, 10**9), minimum, key=lambda n: wilson_interval(n, n)[0])
    return enough + 1


def chance_to_reach(n: int, minimum: float, truth: float, by_lower_end: bool = False) -> float:
    """Compute the probability that n independent episodes reach a minimum if the true rate is `truth`."""
    from scipy.special import bdtrc

    fewest = fewest_to_reach(n, minimum, by_lower_end)
    if fewest is None:
        return 0.0
    return 1.0 if fewest == 0 else float(bdtrc(fewest - 1, n, truth))
