"""How long a run would have taken with other numbers of workers, foreseen by what its policy's processes saw."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_vla.serving.forecast import foresee, load_of
from pytest_vla.serving.seen import Seen
from pytest_vla.serving.simulated import Foreseen, Load

TOLERANCE = 0.2
"""By how much of itself what was measured may differ from what was foreseen for it."""

GAIN = 0.05
"""Of a run's time, that an advice is worth."""

ALIKE = 0.02
"""Of a run's time: of numbers of workers that differ by less the smallest is advised."""

_LONGEST = 8000
"""Questions of a run that is simulated to its end; of a longer one its middle is."""

_SEED = 0


@dataclass(frozen=True)
class Outlook:
    """What was measured, and what is foreseen.

    Attributes:
        measured: questions a second while every worker had an episode.
        foreseen: likewise, by the simulation.
        seconds: by number of workers, of all episodes.
    """

    measured: float
    foreseen: float
    seconds: Mapping[int, float]

    @property
    def agrees(self) -> bool:
        """Whether the simulation gives what was measured, so that it may be believed for other numbers too."""
        return abs(self.foreseen - self.measured) <= TOLERANCE * self.measured


def outlook(seen: Sequence[Seen], most: int, workers: int, episodes: int, others: Collection[int]) -> Outlook:
    """What is foreseen for the workers of a run, and for other numbers of them.

    Args:
        seen: by each device's process, while every worker had an episode; not empty.
        most: questions in a call.
        workers: of the run.
        episodes: of the run, with each of which one worker is busy.
        others: numbers of workers.
    """
    loads = [_share(load_of(each, most), len(seen)) for each in seen]
    measured = sum(each.questions / each.seconds for each in seen)
    rate = sum(each.questions_per_second for each in _foreseen(loads, workers, None))
    questions = sum(each.questions for each in seen) / max(sum(each.episodes for each in seen), 1)
    to_end = episodes if episodes * questions <= _LONGEST else None
    times = {}
    for number in sorted({workers, *others}):
        found = _foreseen(loads, number, to_end)
        if to_end is None:
            times[number] = episodes * questions / sum(each.questions_per_second for each in found)
        else:
            times[number] = max(each.seconds for each in found)
    return Outlook(measured, rate, times)


def _share(load: Load, devices: int) -> Load:
    """What one of several devices has of the cores."""
    return replace(load, cores=load.cores / devices)


def _foreseen(loads: Sequence[Load], workers: int, episodes: int | None) -> list[Foreseen]:
    """Of each device, with the workers and episodes that it has of all."""
    found = []
    for number, load in enumerate(loads):
        some = _part(workers, number, len(loads))
        own = None if episodes is None else _part(episodes, number, len(loads))
        if some and own != 0:
            found.append(foresee(load, some, np.random.default_rng(_SEED), episodes=own))
    return found


def _part(whole: int, number: int, parts: int) -> int:
    return whole // parts + (number < whole % parts)


def other_numbers(workers: int, cores: int, most: int) -> tuple[int, ...]:
    """The numbers of workers that are worth a look beside that of a run, `most` at most."""
    found = {workers // 2, round(1.5 * workers), 2 * workers, cores, 2 * cores, 3 * cores}
    return tuple(sorted(number for number in found if 1 <= number <= most and number != workers))


def advised(outlook: Outlook, workers: int, elapsed: float, start: float) -> tuple[int, float] | None:
    """A better number of workers, and what share of the run's time it would take about; None: there is none.

    Args:
        outlook: of the run.
        workers: of the run.
        elapsed: seconds of the whole run.
        start: seconds that one more worker takes to start, of all cores together.
    """
    if not outlook.agrees:
        return None
    own = outlook.seconds[workers]
    ratios = {
        number: (elapsed + (seconds / own - 1) * min(own, elapsed) + (number - workers) * start) / elapsed
        for number, seconds in outlook.seconds.items()
        if number != workers
    }
    best = min(ratios.values(), default=1.0)
    if best > 1 - GAIN:
        return None
    number = min(number for number, ratio in ratios.items() if ratio <= best + ALIKE)
    return number, ratios[number]
