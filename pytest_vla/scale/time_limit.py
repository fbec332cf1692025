"""When a run that may take so long begins no more episodes. Pure but for a lock: who calls has the clock.

An episode is begun where the longest one that is known would still end in time. What has begun is never cut: failures
take longer than successes, so whoever cuts what runs at the end leaves out failures. The first episode that would come
too late ends it for all, since going on with short ones would choose by length too. So the number of episodes depends
on what ran before, and never on what comes next.
"""

import threading
from math import inf


class TimeLimit:
    """May be asked from any thread.

    Args:
        began: when the invocation began, seconds of the caller's clock.
        wall: seconds that it may take; None: any.
        work: likewise, of all workers together.
    """

    def __init__(self, began: float, wall: float | None = None, work: float | None = None) -> None:
        self._began, self._wall, self._work = began, wall, work
        self._seconds = min(inf if wall is None else wall, inf if work is None else work)
        self._up_at: float | None = None
        self._lock = threading.Lock()
        self.longest = 0.0
        """Seconds of the longest episode that is known; 0: none is."""

    @property
    def seconds(self) -> float:
        """How long the invocation may take."""
        return self._seconds

    @property
    def by_work(self) -> bool:
        """Whether it is the workers' time that ends first."""
        return self._wall is None or self._seconds < self._wall

    @property
    def is_up(self) -> bool:
        """Whether an episode was not begun any more."""
        return self._up_at is not None

    @property
    def took(self) -> float | None:
        """How long the invocation had taken when time was up; None: it is not."""
        return None if self._up_at is None else self._up_at - self._began

    def share(self, workers: int) -> None:
        """So many processes run episodes, each of which takes its part of the work's time."""
        if self._work is not None:
            self._seconds = min(inf if self._wall is None else self._wall, self._work / max(workers, 1))

    def learn(self, seconds: float) -> None:
        """An episode took so long: others may."""
        with self._lock:
            if 0.0 <= seconds < inf:
                self.longest = max(self.longest, seconds)

    def may_begin(self, now: float) -> bool:
        """Whether an episode is begun now. Once it is not, none is."""
        with self._lock:
            if self._up_at is None and now + self.longest > self._began + self._seconds:
                self._up_at = now
            return self._up_at is None

    def left(self, now: float) -> float:
        """Seconds until the invocation is to end."""
        return max(self._began + self._seconds - now, 0.0)
