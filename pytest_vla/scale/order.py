"""An order of episodes in which strata have their shares at any time, so that a stopped run is a valid sample. Pure.

A stratum is the finest group with a rate: a task under one kind and level of variation. Its n episodes come in a drawn
order, at times (k + u) / n, k = 0..n-1, of a clock that runs from 0 to 1: whenever it is stopped, the stratum has its
share to within one episode, and each of its episodes is included with the same chance (systematic sampling; Cochran
1977, Sampling Techniques, chapter 8). The offsets u of the strata are a lattice of the golden ratio over the strata by
suite and variation, with a drawn start: so suites, dimensions and kinds have their shares too, long before each stratum
has its first episode.

A benign episode that is the twin of varied ones comes at the time of the first of these, so that pairs are complete.

Within a round, a slice of the clock, episodes come by scene, the scenes in an order drawn for it: so one process alone,
or one of a few, loads fewer. Free workers are given them in this order.
"""

import hashlib
import random
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, sqrt

EPISODES_A_SCENE = 2
"""Of a round. Loading one costs 0.6 s, which one process then pays for every other episode; more would save little, and
leave tasks out of a run that time ends in its first round. Of many workers each has another scene in any case."""

FEWEST_ROUNDS = 20
"""Of a run, unless a round has less than an episode of each stratum: what is left of the last one is not balanced."""

_GOLDEN = (sqrt(5) - 1) / 2


@dataclass(frozen=True)
class PlannedEpisode:
    """An episode that is to run.

    Attributes:
        node: its id.
        suite, task: of the case.
        kind: of the variation, coarse before fine, such as ``("camera", "camera.distance", "-L2")``; empty if benign.
        seed: of the case.
        scene: key of the loaded scene, which other episodes may share.
    """

    node: str
    suite: str
    task: str
    kind: tuple[str, ...]
    seed: int
    scene: str

    @property
    def stratum(self) -> tuple[str, ...]:
        """The key of its stratum."""
        return (self.suite, *self.kind, "/", self.task)


@dataclass(frozen=True)
class Balance:
    """The deviation of a part of a run from a balanced sample of all of it.

    Attributes:
        done, planned: numbers of episodes.
        tasks, strata: their numbers; benign episodes that are twins of varied ones are in none.
        share: of the strata's episodes that ran.
        off: episodes by which the worst stratum deviates from its share.
    """

    done: int
    planned: int
    tasks: int
    strata: int
    share: float
    off: float


def balanced_rounds(planned: Iterable[PlannedEpisode], seed: int) -> tuple[tuple[str, ...], ...]:
    """Return all node ids, by round, in the order in which one process runs them.

    Args:
        planned: the episodes of the whole run, in any order; the ids differ.
        seed: of the draws.
    """
    episodes = sorted(planned, key=lambda each: each.node)
    if not episodes:
        return ()
    lot = _lot(seed, [each.node for each in episodes])
    times = _times(episodes, lot)
    rounds = round_count(episodes)
    found: list[list[PlannedEpisode]] = [[] for _ in range(rounds)]
    for each in episodes:
        found[int(times[each.node] * rounds)].append(each)
    return tuple(tuple(each.node for each in _by_scene(some, times, lot)) for some in found if some)


def round_count(episodes: Sequence[PlannedEpisode]) -> int:
    """Return the number of rounds: few enough to reuse scenes, and enough for a run to end near the end of one."""
    of_scenes: dict[str, int] = {}
    for each in episodes:
        of_scenes[each.scene] = of_scenes.get(each.scene, 0) + 1
    # What is one episode's alone is loaded for it whenever it comes.
    shared = sum(number > 1 for number in of_scenes.values())
    most = max(len(episodes) / FEWEST_ROUNDS, min(len({each.stratum for each in episodes}), len(episodes) / 2))
    size = min(max(EPISODES_A_SCENE * shared, 1), most)
    return max(round(len(episodes) / max(size, 1)), 1)


def balance_of(planned: Iterable[PlannedEpisode], done: Iterable[str]) -> Balance:
    """Compute how balanced a part of a run is.

    Args:
        planned: the episodes of the whole run.
        done: node ids of those that ran.
    """
    episodes, ran = list(planned), set(done)
    twins = _twins(episodes)
    alone = [each for each in episodes if each.node not in twins]
    share = sum(each.node in ran for each in alone) / len(alone) if alone else 0.0
    sizes: dict[tuple[str, ...], list[int]] = {}
    for each in alone:
        size = sizes.setdefault(each.stratum, [0, 0])
        size[0] += each.node in ran
        size[1] += 1
    off = max((abs(number - share * of) for number, of in sizes.values()), default=0.0)
    tasks = len({(each.suite, each.task) for each in alone})
    return Balance(sum(each.node in ran for each in episodes), len(episodes), tasks, len(sizes), share, off)


def _times(episodes: Sequence[PlannedEpisode], lot: random.Random) -> dict[str, float]:
    """Return the time of each node id, 0..1."""
    twins = _twins(episodes)
    # Strata of a task have its seeds in one order: a varied episode comes soon after others of its seed.
    units = sorted({(each.suite, each.task, each.seed) for each in episodes})
    place_of = {unit: lot.random() for unit in units}
    strata: dict[tuple[str, ...], list[tuple[float, float, str]]] = {}
    for each in episodes:
        place = place_of[each.suite, each.task, each.seed], lot.random(), each.node
        if each.node not in twins:
            strata.setdefault(each.stratum, []).append(place)
    # Tasks of a kind by lot: their names say which scene they share.
    drawn = {stratum: (stratum[:-1], lot.random()) for stratum in sorted(strata)}
    start = lot.random()
    times: dict[str, float] = {}
    for number, stratum in enumerate(sorted(strata, key=drawn.__getitem__)):
        offset = (start + number * _GOLDEN) % 1.0
        some = sorted(strata[stratum])
        times |= {node: (k + offset) / len(some) for k, (_, _, node) in enumerate(some)}
    return times | {twin: min(times[node] for node in of) for twin, of in twins.items()}


def _twins(episodes: Sequence[PlannedEpisode]) -> dict[str, list[str]]:
    """Return, by node id of a benign episode, the varied episodes that it is the twin of, if there are any."""
    varied: dict[tuple[str, str, int], list[str]] = {}
    for each in episodes:
        if each.kind:
            varied.setdefault((each.suite, each.task, each.seed), []).append(each.node)
    benign = [each for each in episodes if not each.kind]
    units = {each.node: (each.suite, each.task, each.seed) for each in benign}
    return {node: varied[unit] for node, unit in units.items() if unit in varied}


def _by_scene(episodes: Sequence[PlannedEpisode], times: dict[str, float], lot: random.Random) -> list[PlannedEpisode]:
    places = {scene: lot.random() for scene in sorted({each.scene for each in episodes})}
    return sorted(episodes, key=lambda each: (places[each.scene], times[each.node], each.node))


def _lot(seed: int, names: Sequence[str]) -> random.Random:
    """Return a generator from the seed and the selection, the same in every process."""
    text = "\n".join([str(seed), *names])
    # Python promises the numbers of `random` for all versions, and of nothing else.
    return random.Random(int.from_bytes(hashlib.sha256(text.encode(errors="surrogateescape")).digest()))


# When a run that may take so long begins no more episodes. Pure but for a lock: who calls has the clock.
#
# An episode is begun where the longest one that is known would still end in time. What has begun is never cut:
# failures take longer than successes, so whoever cuts what runs at the end leaves out failures. The first episode
# that would come too late ends it for all, since going on with short ones would choose by length too. So the number
# of episodes depends on what ran before, and never on what comes next.


class TimeLimit:
    """The time limit of an invocation. Thread-safe.

    Args:
        began: when the invocation began, seconds of the caller's clock.
        wall: seconds that it may take, or None for no limit.
        work: seconds that all workers together may take, or None for no limit.
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
        """The seconds that the invocation may take."""
        return self._seconds

    @property
    def by_work(self) -> bool:
        """Whether the limit on the workers' time ends first."""
        return self._wall is None or self._seconds < self._wall

    @property
    def is_up(self) -> bool:
        """Whether the limit has kept an episode from starting."""
        return self._up_at is not None

    @property
    def took(self) -> float | None:
        """The seconds that the invocation had taken when time was up, or None if it is not up."""
        return None if self._up_at is None else self._up_at - self._began

    def share(self, workers: int) -> None:
        """Divide the limit on the workers' time among this many processes."""
        if self._work is not None:
            self._seconds = min(inf if self._wall is None else self._wall, self._work / max(workers, 1))

    def learn(self, seconds: float) -> None:
        """Account for the duration of an episode that ended; others may take as long."""
        with self._lock:
            if 0.0 <= seconds < inf:
                self.longest = max(self.longest, seconds)

    def may_begin(self, now: float) -> bool:
        """Whether an episode may begin now. After the first refusal all are refused."""
        with self._lock:
            if self._up_at is None and now + self.longest > self._began + self._seconds:
                self._up_at = now
            return self._up_at is None

    def left(self, now: float) -> float:
        """Return the seconds until the invocation has to end."""
        return max(self._began + self._seconds - now, 0.0)
