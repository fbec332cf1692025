"""A simulation of workers and the policy's device as a queue, without processes, clock or policy.

Workers think, that is, simulate and render; then they ask and wait for their answer. The device answers one
batch at a time, in a time that depends on the batch's size. Workers that think at the same moment share the
cores: if there are more workers than cores, each gets an equal share.
"""

import heapq
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

_EVENTS = 100  # Events per part of a simulation.
_BLOCK = 256  # The number of draws at once.


@dataclass(frozen=True)
class Load:
    """The load of a run on cores and device. All times in seconds.

    Attributes:
        call_seconds: returns the time of a call with so many questions.
        most: the most questions in a call.
        thinking: the processor times of a worker between an answer and the next question, to draw from.
        away: the processor times between an episode's last answer and the first question of the worker's next
            episode.
        questions: the mean number of questions per episode.
        cores: the number that workers share; 0 if each has its own.
    """

    call_seconds: Callable[[int], float]
    most: int
    thinking: Sequence[float]
    away: Sequence[float] = (0.0,)
    questions: float = math.inf
    cores: float = 0


@dataclass(frozen=True)
class Foreseen:
    """The result of a simulated run.

    Attributes:
        episodes_per_second, questions_per_second: rates of the whole run.
        busy: the share of time that the device spends in calls.
        cores_busy: the share of the cores that is busy; 0 if each worker has its own.
        mean_batch: the mean number of questions in a call.
        seconds: the duration of the run.
    """

    episodes_per_second: float
    questions_per_second: float
    busy: float
    cores_busy: float
    mean_batch: float
    seconds: float


class BatchRule(Protocol):
    """The interface of `pytest_vla.serving.batch_former.Dispatch` in a simulation. Sessions are worker numbers here."""

    def asked(self, session: int, now: float) -> None: ...
    def answered(self, session: int, now: float) -> None: ...
    def ended(self, session: int, now: float) -> None: ...
    def gone(self, session: int, now: float) -> None: ...
    def took(self, size: int, seconds: float) -> None: ...
    def until(self, waiting: int, now: float) -> float: ...


@dataclass
class AtLeast:
    """A static rule: a batch is due when it has `questions` questions, or all that may still come.

    With 1, any question is sent at once; with the number of workers, all go together; with half of it, two groups take
    turns.

    Attributes:
        questions: the number to wait for.
        workers: the number of workers with episodes left.
    """

    questions: int
    workers: int

    def asked(self, session: int, now: float) -> None: ...
    def answered(self, session: int, now: float) -> None: ...
    def ended(self, session: int, now: float) -> None: ...
    def took(self, size: int, seconds: float) -> None: ...

    def gone(self, session: int, now: float) -> None:
        """Record that a worker has no episode left."""
        self.workers -= 1

    def until(self, waiting: int, now: float) -> float:
        """Return `now` if the batch is due, else infinity."""
        return now if waiting >= min(self.questions, self.workers) else math.inf


def simulate(
    load: Load,
    workers: int,
    rule: BatchRule,
    rng: np.random.Generator,
    *,
    episodes: int | None = None,
    questions: int = 0,
) -> Foreseen:
    """Simulate a run.

    Args:
        load: the run's.
        workers: the number of workers.
        rule: decides when a batch is due.
        rng: draws times and lengths.
        episodes: the number of episodes of a complete run, at the end of which fewer and fewer workers are
            busy; None for the middle of a run.
        questions: without `episodes`, the number of questions after which the simulation ends, of which the
            first fifth is not counted; 0 for 4,000, or 60 per worker if that is more.
    """
    run = simulate_in_parts(load, workers, rule, rng, episodes=episodes, questions=questions)
    while True:
        try:
            next(run)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]


def simulate_in_parts(
    load: Load,
    workers: int,
    rule: BatchRule,
    rng: np.random.Generator,
    *,
    episodes: int | None = None,
    questions: int = 0,
) -> Generator[None, None, Foreseen]:
    """Simulate a run as `simulate` does, yielding every millisecond or so."""
    return _Run(load, workers, rule, rng, episodes, questions or max(4000, 60 * workers)).go()


class _Run:
    """One simulation. Thinking is on a clock that runs slower, the more workers share the cores."""

    def __init__(
        self, load: Load, workers: int, rule: BatchRule, rng: np.random.Generator, episodes: int | None, questions: int
    ) -> None:
        self._load, self._rule, self._rng = load, rule, rng
        self._thinking, self._away = _drawn(load.thinking, rng), _drawn(load.away, rng)
        self._cores = load.cores or math.inf
        self._most_questions, self._unbegun = questions, episodes
        self._now = self._clock = self._thought = self._busy = 0.0
        # When a worker's thinking ends, by the slower clock.
        self._ends: list[tuple[float, int]] = []
        self._left = [0] * workers
        self._waiting: list[int] = []
        self._calls = self._answered = self._ended = 0
        for worker in range(workers):
            # Workers start one after the other, as processes do.
            self._begin(worker, float(rng.uniform(0.0, 1.0)) * next(self._away))

    def go(self) -> Generator[None, None, Foreseen]:
        load, rule = self._load, self._rule
        events = 0
        inside: list[int] = []
        free, wake, began = math.inf, math.inf, 0.0
        counted: tuple[float, ...] = (0.0,) * 6
        warm = 0 if self._unbegun is not None else self._most_questions // 5
        while self._ends or inside or self._waiting:
            events += 1
            if events % _EVENTS == 0:
                yield
            thinkers = len(self._ends)
            pace = min(1.0, self._cores / thinkers) if thinkers else 1.0
            thought = self._now + (self._ends[0][0] - self._clock) / pace if self._ends else math.inf
            moment = min(thought, free, wake)
            if moment == math.inf:
                # The rule waits for a question that will not come.
                moment = self._now
                wake = moment
            self._clock += (moment - self._now) * pace
            self._thought += (moment - self._now) * min(thinkers, self._cores)
            self._now = moment
            if moment == free:
                rule.took(len(inside), moment - began)
                self._busy += moment - began
                self._answered += len(inside)
                for worker in inside:
                    self._answer(worker)
                inside, free = [], math.inf
                if warm and self._answered >= warm:
                    warm, counted = 0, self._totals()
                if self._unbegun is None and self._answered >= self._most_questions:
                    break
            elif moment == thought:
                worker = heapq.heappop(self._ends)[1]
                rule.asked(worker, moment)
                self._waiting.append(worker)
            if not inside and self._waiting:
                forced = moment == wake and not self._ends
                wake = rule.until(len(self._waiting), moment)
                if wake <= moment or len(self._waiting) >= load.most or forced:
                    inside, self._waiting = self._waiting[: load.most], self._waiting[load.most :]
                    began, free, wake = moment, moment + load.call_seconds(len(inside)), math.inf
                    self._calls += 1
            else:
                wake = math.inf
        return self._foreseen(counted)

    def _answer(self, worker: int) -> None:
        self._left[worker] -= 1
        self._rule.answered(worker, self._now)
        if self._left[worker] > 0:
            self._think(worker, next(self._thinking))
            return
        self._ended += 1
        self._rule.ended(worker, self._now)
        self._begin(worker, next(self._away))

    def _begin(self, worker: int, seconds: float) -> None:
        if self._unbegun is not None:
            if not self._unbegun:
                self._rule.gone(worker, self._now)
                return
            self._unbegun -= 1
        mean = self._load.questions
        if mean == math.inf:
            self._left[worker] = 1 << 60
        else:
            # The lengths vary: successes end early.
            self._left[worker] = max(1, round(mean * float(self._rng.uniform(0.6, 1.4))))
        self._think(worker, seconds)

    def _think(self, worker: int, seconds: float) -> None:
        heapq.heappush(self._ends, (self._clock + max(seconds, 0.0), worker))

    def _totals(self) -> tuple[float, ...]:
        return (self._now, self._busy, self._thought, self._calls, self._answered, self._ended)

    def _foreseen(self, before: Sequence[float]) -> Foreseen:
        seconds, busy, thought, calls, answered, ended = (
            after - earlier for after, earlier in zip(self._totals(), before, strict=True)
        )
        seconds = max(seconds, 1e-9)
        # Without an end, episodes are estimated from questions: few may have ended.
        episodes = ended if self._unbegun is not None else answered / self._load.questions
        cores = thought / (seconds * self._cores) if self._cores != math.inf else 0.0
        batch = answered / calls if calls else 0.0
        return Foreseen(episodes / seconds, answered / seconds, busy / seconds, cores, batch, seconds)


def _drawn(times: Sequence[float], rng: np.random.Generator) -> Iterator[float]:
    """Yield times drawn with replacement, without end."""
    of = np.asarray(times, float)
    while True:
        yield from of[rng.integers(len(of), size=_BLOCK)].tolist()
