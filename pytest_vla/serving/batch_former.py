"""Form batches: keep the questions that wait for a policy, and decide which of them go to it next.

Two servers use it: the desk of a run (`pytest_vla.serving.batch_server`), whose workers share memory with it, and the
policy's thread behind the websocket server (`pytest_vla.serving.websocket`). How long an incomplete batch waits for
more questions is a rule of its own (`Dispatch`).
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Generic, Protocol, TypeVar

import numpy as np

from pytest_vla.serving.simulated import AtLeast, Load, simulate_in_parts

# The rule that decides when a batch is due, independent of threads, sockets and clocks.
#
# A batch that is sent as soon as the device is free is small, since workers think between two questions and return
# one after the other. A batch that waits for all workers leaves the device idle while all of them think. The best
# size is in between. It depends on how long a call of each size takes, on how long workers think and how much that
# varies, on their number, and on the cores that they share. The rule measures these, and tries sizes on a simulated
# run beside the real one (`pytest_vla.serving.simulated`): the size with the highest rate is used. A batch does not
# wait for sessions that are unlikely to ask: those that are late, have ended or have just begun.

# The time of a policy's call by its number of questions, measured during the run.

_CALL_TIMES_FORGETS = 0.004  # The share of their weight that older measurements lose with each call.
_LEAST_WEIGHT = 0.1  # A measurement with less weight is too old to count (some hundred calls).
_OUTLIER = 3.0  # A call that takes this many times the estimate is ignored, unless the next of its size does too.


class CallTimes:
    """The times of a policy's calls by batch size, updated during a run. All times in seconds."""

    def __init__(self) -> None:
        # By size: how much its measurements weigh, and their mean.
        self._measured: dict[int, tuple[float, float]] = {}
        self._knots: tuple[Sequence[int], Sequence[float], float] | None = None
        # Sizes whose last call took much longer than expected, and was not counted.
        self._suspects: set[int] = set()

    def took(self, size: int, seconds: float) -> None:
        """Record the time of a call with `size` questions."""
        if self._measured and size not in self._suspects and seconds > _OUTLIER * self.seconds(size):
            # For example the first call of a shape, which may compile, or one that the machine delayed.
            self._suspects.add(size)
            return
        self._suspects.discard(size)
        kept = {each: (weight * (1 - _CALL_TIMES_FORGETS), mean) for each, (weight, mean) in self._measured.items()}
        self._measured = {
            each: known
            for each, known in kept.items()
            if each == size or (known[0] >= _LEAST_WEIGHT and not _is_disproved(each, known, size, seconds))
        }
        known = self._measured.get(size, (0.0, 0.0))
        weight, mean = (0.0, 0.0) if _is_disproved(size, known, size, seconds) else known
        # The last ten or so of a size.
        weight = min(weight, 10.0) + 1.0
        self._measured[size] = (weight, mean + (seconds - mean) / weight)
        self._knots = None

    def seconds(self, size: int) -> float:
        """Estimate the time of a call with `size` questions; 0 without measurements.

        The estimate interpolates between measured sizes, and extrapolates with the overall slope. It need not
        increase: devices have preferred sizes.
        """
        if not self._measured:
            return 0.0
        if self._knots is None:
            self._knots = _knots(self._measured)
        sizes, times, slope = self._knots
        if size > sizes[-1]:
            return times[-1] + slope * (size - sizes[-1])
        if size < sizes[0]:
            # With one measured size the slope is unknown: it is worth trying whether smaller batches are faster.
            fallen = times[0] - slope * (sizes[0] - size) if len(sizes) > 1 else 0.0
            return max(fallen, times[0] * size / sizes[0])
        return float(np.interp(size, sizes, times))


def call_times_of(calls: Mapping[int, tuple[int, float]]) -> CallTimes:
    """Return the call times of counted calls.

    Args:
        calls: by size, the number of calls and their mean in seconds.
    """
    times = CallTimes()
    times._measured = {
        size: (float(count), mean)
        for size, (count, mean) in calls.items()
        if count and not any(_is_disproved(size, (count, mean), other, took) for other, (_, took) in calls.items())
    }
    return times


def _is_disproved(size: int, known: tuple[float, float], other: int, seconds: float) -> bool:
    """Whether a single measurement is too slow for its size, given another of `seconds`: it included a compilation."""
    weight, mean = known
    return weight <= 1.0 and mean > _OUTLIER * seconds * max(1.0, size / other)


def _knots(measured: Mapping[int, tuple[float, float]]) -> tuple[Sequence[int], Sequence[float], float]:
    """Return sizes, their times, and the overall slope, which is not below 0."""
    sizes = sorted(measured)
    times = [measured[size][1] for size in sizes]
    weights = np.array([measured[size][0] for size in sizes])
    centred = np.array(sizes) - np.average(sizes, weights=weights)
    spread = float(np.sum(weights * centred**2))
    slope = float(np.sum(weights * centred * np.array(times))) / spread if spread > 0 else 0.0
    return sizes, times, max(0.0, slope)


_KEPT = 256  # The number of latest thinking times.
_FEWEST = 8  # Thinking times before the first trial.
_FORGETS = 0.05
_LATE = 6.0  # Mean deviations after which a session counts as late.
_ROUNDS, _LEAST_QUESTIONS = 30, 300  # Questions in a trial: per worker, and the least in total.
_GAIN = 1.015  # The least ratio of rates for a change of the number.
_OFTEN, _SELDOM = 8, 128  # Calls between two plans, at first and later.
_DIFFERENT = 0.2  # Relative change of the workers' number or thinking time after which a new plan is due.
_PAUSE = 0.5  # Seconds between two plans, so that with quick calls the plans do not occupy a core.
_SEED = 0


class Dispatch:
    """The rule that decides until when a batch waits, with its measurements of sessions.

    All times are in seconds, by one monotonic clock. Thinking is measured by a clock of its own, which runs
    slower if more workers think than there are cores: a thinking time is thus the processor time that a worker
    needs, independent of the number of workers.

    Attributes:
        most: the most questions in a batch.
        times: the measured times of calls.
        questions: the number of questions that a batch waits for, as far as they are likely to come.
        thinking: the latest times between an answer and the next question.
        away: the latest times between an episode's last answer and the first question of the worker's next
            episode.
    """

    def __init__(self, most: int, cores: float = 0) -> None:
        """Start without sessions.

        Args:
            most: the most questions in a batch.
            cores: the number that the workers share; 0 if each has its own.
        """
        self.most, self._cores = most, cores
        self.times, self.questions = CallTimes(), 1
        self.thinking: deque[float] = deque(maxlen=_KEPT)
        self.away: deque[float] = deque(maxlen=_KEPT)
        # Thinking times, limited to the time that a session is waited for.
        self._usual: deque[float] = deque(maxlen=_KEPT)
        # The begin of thinking by its clock, in the order of the answers.
        self._thinking: dict[Hashable, float] = {}
        self._late: dict[Hashable, float] = {}
        self._away: dict[Hashable, float] = {}
        self._clock = self._last = 0.0
        self._mean: float | None = None
        self._deviation = 0.0
        self._calls, self._due, self._often = 0, 0, _OFTEN
        # The number of workers and their mean thinking time at the last plan.
        self._planned_for = (0, 0.0)
        # The number of sessions in an episode, updated when the device is free.
        self._playing = 0
        self._trials: Iterator[None] | None = None
        self._not_before = 0.0

    def asked(self, session: Hashable, now: float) -> None:
        """Record that a session asks, again or for the first time."""
        self._advance(now)
        if (since := self._away.pop(session, None)) is not None:
            self.away.append(self._clock - since)
            return
        since = self._taken(session)
        if since is None:
            return
        took = self._clock - since
        if self._mean is None:
            self._mean, self._deviation = took, took / 4
        self.thinking.append(took)
        # A long absence counts as just late, so that it does not change the expectation for other sessions.
        took = min(took, self._latest)
        self._usual.append(took)
        off = took - self._mean
        self._mean += _FORGETS * off
        self._deviation += _FORGETS * (abs(off) - self._deviation)

    def answered(self, session: Hashable, now: float) -> None:
        """Record that a session has its answer."""
        self._advance(now)
        self._thinking[session] = self._clock

    def ended(self, session: Hashable, now: float) -> None:
        """Record that a session's episode has ended; its worker may ask in another episode."""
        self._advance(now)
        since = self._taken(session)
        if since is not None:
            self._away[session] = since

    def gone(self, session: Hashable, now: float) -> None:
        """Record that a session will not ask any more."""
        self._advance(now)
        for each in (self._thinking, self._late, self._away):
            each.pop(session, None)

    def took(self, size: int, seconds: float) -> None:
        """Record the time of a call with `size` questions."""
        self.times.took(size, seconds)
        self._calls += 1

    def until(self, waiting: int, now: float) -> float:
        """Return until when a batch should wait for more questions; to be called again after every event.

        Args:
            waiting: the number of questions that are ready.
            now: the current time.

        Returns:
            A moment; if it is not after `now`, the batch is due.
        """
        self._advance(now)
        self._drop_late()
        self._playing = waiting + len(self._thinking)
        if waiting >= min(self.questions, self._playing, self.most):
            return now
        # At that moment the first of the awaited sessions is late.
        first = next(iter(self._thinking.values()))
        return now + max(first + self._latest - self._clock, 1e-4) / self._pace

    def plan(self) -> bool:
        """Try batch sizes for a millisecond or so if that is due; to be called while the device is busy.

        Returns:
            Whether there is more to try.
        """
        if self._trials is None:
            if not self._is_due():
                return False
            self._trials = self._try()
        if next(self._trials, self) is self:
            self._trials = None
            return False
        return True

    @property
    def _pace(self) -> float:
        thinkers = len(self._thinking) + len(self._away)
        return min(1.0, self._cores / thinkers) if self._cores and thinkers else 1.0

    @property
    def _latest(self) -> float:
        """The time after its answer at which a session counts as late."""
        if self._mean is None:
            return 0.0
        return self._mean + _LATE * max(self._deviation, self._mean / 10, 1e-4)

    def _taken(self, session: Hashable) -> float | None:
        """Remove a session from those that think, and return since when it thought, or None if it did not."""
        return self._thinking.pop(session, self._late.pop(session, None))

    def _advance(self, now: float) -> None:
        self._clock += max(0.0, now - self._last) * self._pace
        self._last = max(now, self._last)

    def _drop_late(self) -> None:
        while self._thinking:
            session, since = next(iter(self._thinking.items()))
            if since + self._latest > self._clock:
                return
            self._late[session] = self._thinking.pop(session)

    def _is_due(self) -> bool:
        if len(self.thinking) < _FEWEST or self._playing < 2 or self._last < self._not_before:
            return False
        if self._calls >= self._due:
            return True
        changed = zip((self._playing, self._mean or 0.0), self._planned_for, strict=True)
        other = any(abs(now - before) > _DIFFERENT * before for now, before in changed)
        return other and self._calls >= self._due - self._often + _OFTEN

    def _try(self) -> Iterator[None]:
        workers, mean = self._playing, self._mean or 0.0
        calls = [self.times.seconds(size) for size in range(self.most + 1)]
        load = Load(calls.__getitem__, self.most, tuple(self._usual), cores=self._cores)
        questions = max(_LEAST_QUESTIONS, _ROUNDS * workers)
        rates = {}
        for number in candidates(workers, self.most, self.questions):
            rng = np.random.default_rng(_SEED)
            foreseen = yield from simulate_in_parts(load, workers, AtLeast(number, workers), rng, questions=questions)
            rates[number] = foreseen.questions_per_second
        best = max(rates, key=lambda number: rates[number])
        present = min(self.questions, workers, self.most)
        if rates[best] > _GAIN * rates.get(present, 0.0):
            # Times of sizes without recent calls are guesses: plan again soon, with measurements.
            self.questions, self._often = best, _OFTEN
        self._planned_for, self._not_before = (workers, mean), self._last + _PAUSE
        self._due = self._calls + self._often
        self._often = min(2 * self._often, _SELDOM)


def candidates(workers: int, most: int, present: int = 1) -> list[int]:
    """Return the numbers of questions that a batch might wait for, including the present one."""
    shares = (0, 1 / 6, 1 / 4, 1 / 3, 1 / 2, 2 / 3, 3 / 4, 1)
    numbers = {max(1, round(share * workers)) for share in shares} | {2, workers - 1, present}
    return sorted({min(number, workers, most) for number in numbers if number >= 1})


class Waiting(Protocol):
    """An item that waits for the policy.

    Attributes:
        came: when it came, in seconds by the clock that `BatchFormer.take` is given.
    """

    @property
    def came(self) -> float: ...


T = TypeVar("T", bound=Waiting)


class BatchFormer(Generic[T]):
    """The questions that wait for one policy, oldest first.

    Questions form batches of at most `Dispatch.most`. An item that has to be alone takes its turn by age: it precedes
    the batch if it is older than all of the batch's questions, and also while an incomplete batch waits.
    """

    def __init__(self, rule: Dispatch) -> None:
        """Start empty; `rule` says how long an incomplete batch waits and how large a batch may be."""
        self._rule = rule
        self._together: deque[T] = deque()
        self._alone: deque[T] = deque()

    def __iter__(self) -> Iterator[T]:
        """Iterate over all that waits."""
        return chain(self._alone, self._together)

    @property
    def together(self) -> Iterable[T]:
        """The questions that may go together, oldest first."""
        return self._together

    def add(self, item: T, *, alone: bool = False) -> None:
        """Let an item wait; `alone` if it may be in no batch with others."""
        (self._alone if alone else self._together).append(item)

    def remove(self, item: T) -> None:
        """Let an item wait no longer; do nothing if it does not wait."""
        for queue in (self._alone, self._together):
            if item in queue:
                queue.remove(item)

    def take(self, now: float, *, at_once: bool = False) -> tuple[list[T], float | None]:
        """Remove and return the items that go to the policy now.

        Args:
            now: the current time.
            at_once: whether a batch goes without waiting for more questions.

        Returns:
            The questions of a batch, oldest first, or one item that has to be alone; empty if nothing goes yet. Then
            the moment at which an incomplete batch goes if nothing happens before, or None if there is no such batch.
        """
        if self._alone and (not self._together or self._alone[0].came <= self._together[0].came):
            return [self._alone.popleft()], None
        if not self._together:
            return [], None
        size = len(self._together)
        due = now if at_once or size >= self._rule.most else self._rule.until(size, now)
        if due <= now:
            return [self._together.popleft() for _ in range(min(size, self._rule.most))], None
        if self._alone:
            # The batch is not ready, and the policy would do nothing.
            return [self._alone.popleft()], None
        return [], due
