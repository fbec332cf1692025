"""The use of device and cores while a policy's processes serve a run's workers, sampled as episodes end."""

import time
from collections import deque
from collections.abc import Callable, Sequence

from pytest_vla.run.constants import START_SECONDS
from pytest_vla.serving.stats import DeviceUse, ServingStats, seen_since, use_of

RECENT_SECONDS = 10.0
"""Of the live line."""

TOLD_SECONDS, ADVISED_SECONDS = 5.0, 20.0
"""With every worker at an episode, from which on the end says what was measured, and advises."""

ADVISED_ROUNDS = 2
"""Episodes of each worker, on the average, in that time: of fewer, their lengths may be anything."""


class Utilisation:
    """Samples of the statistics of a policy's processes.

    Attributes:
        workers: the number of workers.
        most: the maximal number of questions in a call.
        room: the number of workers that fit into the memory, or None if not known.
    """

    def __init__(
        self,
        seen: Callable[[], tuple[ServingStats, ...]],
        workers: int,
        most: int,
        room: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start the run's clock.

        Args:
            seen: returns the statistics of each process so far.
            workers: the number of workers.
            most: the maximal number of questions in a call.
            room: the number of workers that fit into the memory, or None if not known.
            clock: returns seconds, monotonic.
        """
        self._seen, self._clock, self._began = seen, clock, clock()
        self.workers, self.most, self.room = workers, most, room
        # Samples of the live line, the last one the newest: none but the first is older than it has to be.
        self._samples: deque[tuple[ServingStats, ...]] = deque()
        self._first: tuple[ServingStats, ...] | None = None
        self._last: tuple[ServingStats, ...] | None = None

    def look(self, left: int) -> None:
        """Take a sample.

        Args:
            left: the number of the run's episodes that have not ended.
        """
        sample = self._seen()
        if not any(each.questions for each in sample):
            return
        self._samples.append(sample)
        while len(self._samples) > 2 and _seconds(sample) - _seconds(self._samples[1]) >= RECENT_SECONDS:
            self._samples.popleft()
        # At the start workers load their worlds, at the end some have nothing to do.
        if self._first is None and sum(each.episodes for each in sample) >= self.workers:
            self._first = sample
        if left >= self.workers:
            self._last = sample

    def recent(self) -> DeviceUse | None:
        """Return the use over about the last `RECENT_SECONDS`, or None if too little is known."""
        if len(self._samples) < 2:
            return None
        return use_of(_between(self._samples[0], self._samples[-1]))

    def steady(self) -> tuple[ServingStats, ...]:
        """Return the statistics of the time in which every worker had an episode; empty if there was none."""
        if self._first is None or self._last is None or _seconds(self._last) <= _seconds(self._first):
            return ()
        return _between(self._first, self._last)

    @property
    def elapsed(self) -> float:
        """Seconds since the start of the run."""
        return self._clock() - self._began


def _seconds(sample: Sequence[ServingStats]) -> float:
    return max((each.seconds for each in sample), default=0.0)


def _between(first: Sequence[ServingStats], last: Sequence[ServingStats]) -> tuple[ServingStats, ...]:
    return tuple(seen_since(later, earlier) for earlier, later in zip(first, last, strict=True))


def scarce_now(utilisation: Utilisation | None) -> str:
    """Return the present bottleneck in a few words, or an empty text if too little is known.

    Args:
        utilisation: the run's samples, or None if its policy has no processes of its own.
    """
    if utilisation is None:
        return ""
    from pytest_vla.reports.terminal import scarce_text

    return scarce_text(utilisation.recent())


def closing_lines(utilisation: Utilisation | None, episodes: int) -> tuple[str, ...]:
    """Return lines on the bottleneck of this run, and on a better number of workers, if known.

    Args:
        utilisation: the run's samples, or None if its policy has no processes of its own.
        episodes: the number of episodes that ended in this invocation.
    """
    if utilisation is None:
        return ()
    steady = utilisation.steady()
    use = use_of(steady)
    if use is None or _seconds(steady) < TOLD_SECONDS:
        return ()
    from pytest_vla.reports.terminal import advice_text, measured_text

    advice = _advice(utilisation, steady, episodes)
    return (measured_text(use, steady), *([] if advice is None else [advice_text(*advice)]))


def _advice(utilisation: Utilisation, steady: Sequence[ServingStats], episodes: int) -> tuple[int, float] | None:
    """Return a better number of workers and its share of the run's time, or None if none is known."""
    cores, workers = max(each.cores for each in steady), utilisation.workers
    if _seconds(steady) < ADVISED_SECONDS or not cores or not all(each.thinking for each in steady):
        return None
    if sum(each.episodes for each in steady) < ADVISED_ROUNDS * workers:
        return None
    # The simulation brings numpy, which this process may do without until then.
    from pytest_vla.serving.throughput import advised, other_numbers, outlook

    most = episodes if utilisation.room is None else min(episodes, max(utilisation.room, workers))
    others = other_numbers(workers, cores, most)
    if not others:
        return None
    found = outlook(steady, utilisation.most, workers, episodes, others)
    return advised(found, workers, utilisation.elapsed, START_SECONDS / cores)
