"""Who of the sessions that were answered will ask again, and how long it pays for a batch to wait for them."""

from collections.abc import Hashable

_FORGETS_RETURNS = 0.1
_FORGETS_COSTS = 0.05
_LATE = 6.0  # Mean deviations after which one that was expected is no longer waited for.
_LEAST_DEVIATION = 1e-4


class Returns:
    """Who was answered and will ask again, when, and how long it pays to wait for them. All times in seconds.

    A batch of n costs a fixed time and something for each question. One more question in it saves the fixed time of
    another batch and costs those that wait their time: waiting w for j more pays while n w < j times the fixed time.
    """

    def __init__(self) -> None:
        self._answered: dict[Hashable, float] = {}
        # How long sessions were away.
        self._mean: float | None = None
        self._deviation = 0.0
        # Of batches, the older the less: how many, sums of size, seconds, size squared, and size times seconds.
        self._sums: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0)
        self._last = 0.0

    def answered(self, session: Hashable, now: float) -> None:
        """A session has its answer; None: one whose return is not waited for."""
        if session is not None:
            self._answered[session] = now

    def asked(self, session: Hashable, now: float) -> None:
        """A session asks, again or for the first time."""
        answered = self._answered.pop(session, None)
        if answered is None:
            return
        took = now - answered
        if self._mean is None:
            self._mean, self._deviation = took, took / 2
        # Who was long away, as for another scene, counts as one that was late: the others are as quick as before.
        off = min(took, self._latest) - self._mean
        self._mean += _FORGETS_RETURNS * off
        self._deviation += _FORGETS_RETURNS * (abs(off) - self._deviation)

    def forget(self, session: Hashable) -> None:
        """A session has ended, and will not ask again."""
        self._answered.pop(session, None)

    def took(self, size: int, seconds: float) -> None:
        """A batch of so many questions took so long."""
        new = (1.0, size, seconds, size * size, size * seconds)
        self._sums = tuple((1 - _FORGETS_COSTS) * old + more for old, more in zip(self._sums, new, strict=True))
        self._last = seconds

    @property
    def _latest(self) -> float:
        """How long after its answer a session is waited for."""
        assert self._mean is not None
        return self._mean + _LATE * max(self._deviation, self._mean / 10, _LEAST_DEVIATION)

    @property
    def fixed(self) -> float:
        """What a batch costs beside its questions: by least squares, and no more than the last one took in all."""
        weight, sizes, seconds, squares, products = self._sums
        if not weight:
            return 0.0
        spread = weight * squares - sizes * sizes
        # Batches of one size do not tell.
        each = max(0.0, (weight * products - sizes * seconds) / spread) if spread > 1e-6 * squares * weight else 0.0
        return min(max(0.0, (seconds - each * sizes) / weight), self._last)

    def worth_waiting(self, size: int, room: int, since: float, now: float) -> float:
        """Until when a batch should wait for more.

        Args:
            size: questions that it has.
            room: how many more it may have.
            since: when it could have gone: its first question was there, and the policy idle.
            now: the time.

        Returns:
            A moment, no later than `since` and a batch's time; `now` or earlier: it should go.
        """
        if self._mean is None:
            return now
        fixed, latest = self.fixed, self._latest
        until = now
        expected = sorted(answered for answered in self._answered.values() if answered + latest > now)
        for more, answered in enumerate(expected[:room], 1):
            if size * (answered + self._mean - now) < more * fixed:
                until = min(answered + latest, now + more * fixed / size)
        return min(until, since + fixed)
