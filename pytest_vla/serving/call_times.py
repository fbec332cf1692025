"""How long a policy's call takes, by how many questions are in it: a table that is measured as it goes."""

from collections.abc import Mapping, Sequence

import numpy as np

_FORGETS = 0.004  # Of what was measured before, at each call.
_LEAST_WEIGHT = 0.1  # Below which a measurement is too old to count: some hundred calls.
_OUTLIER = 3.0  # Times what was expected; a call that took longer was disturbed, until one of its size does again.


class CallTimes:
    """A table that is kept up to date. All times in seconds."""

    def __init__(self) -> None:
        # By size: how much its measurements weigh, and their mean.
        self._measured: dict[int, tuple[float, float]] = {}
        self._knots: tuple[Sequence[int], Sequence[float], float] | None = None
        # Sizes whose last call took much longer than expected, and was not counted.
        self._suspects: set[int] = set()

    def took(self, size: int, seconds: float) -> None:
        """A call with so many questions took so long."""
        if self._measured and size not in self._suspects and seconds > _OUTLIER * self.seconds(size):
            # As the first call of a shape, which may compile, or one that the machine held up.
            self._suspects.add(size)
            return
        self._suspects.discard(size)
        kept = {each: (weight * (1 - _FORGETS), mean) for each, (weight, mean) in self._measured.items()}
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
        """What a call with so many questions is likely to take; 0 where none was measured.

        Between sizes that were measured it is drawn straight, and beyond them with the slope of all. It need not rise:
        devices have sizes that they like.
        """
        if not self._measured:
            return 0.0
        if self._knots is None:
            self._knots = _knots(self._measured)
        sizes, times, slope = self._knots
        if size > sizes[-1]:
            return times[-1] + slope * (size - sizes[-1])
        if size < sizes[0]:
            # Of one size alone nobody knows: that less takes less is worth a try, as that more takes no more.
            fallen = times[0] - slope * (sizes[0] - size) if len(sizes) > 1 else 0.0
            return max(fallen, times[0] * size / sizes[0])
        return float(np.interp(size, sizes, times))


def call_times_of(calls: Mapping[int, tuple[int, float]]) -> CallTimes:
    """The table of calls that were counted.

    Args:
        calls: by size, how many there were, and their mean in seconds.
    """
    times = CallTimes()
    times._measured = {
        size: (float(count), mean)
        for size, (count, mean) in calls.items()
        if count and not any(_is_disproved(size, (count, mean), other, took) for other, (_, took) in calls.items())
    }
    return times


def _is_disproved(size: int, known: tuple[float, float], other: int, seconds: float) -> bool:
    """Whether what was measured once can be no work of that size, as another took `seconds`: it was compiled then."""
    weight, mean = known
    return weight <= 1.0 and mean > _OUTLIER * seconds * max(1.0, size / other)


def _knots(measured: Mapping[int, tuple[float, float]]) -> tuple[Sequence[int], Sequence[float], float]:
    """Sizes, their times, and the slope of all, which is not below 0."""
    sizes = sorted(measured)
    times = [measured[size][1] for size in sizes]
    weights = np.array([measured[size][0] for size in sizes])
    centred = np.array(sizes) - np.average(sizes, weights=weights)
    spread = float(np.sum(weights * centred**2))
    slope = float(np.sum(weights * centred * np.array(times))) / spread if spread > 0 else 0.0
    return sizes, times, max(0.0, slope)
