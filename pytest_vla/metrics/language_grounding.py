"""Language grounding: whether a policy follows its instruction, and how much success and paths depend on it.

Twins are episodes with the same task, init state and seed: one with the right text, others with a probe instead. To
follow the language means to do what another text says: that is `followed` and, if the goal is changed too, `obeyed`.
Losing success without the right text is not enough: a policy that any unusual text breaks loses all success and follows
no text.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING, Literal

from pytest_vla.metrics.clustered import (
    FEWEST_TASKS,
    Interval,
    Numbers,
    linearised_intervals,
    no_narrower,
    rate_interval,
)
from pytest_vla.metrics.dtw import exact_dtw, resample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Probe = Literal["nonsense", "other_task", "blank", "other_goal"]
"""Tokens without meaning; another task's instruction; no text; the instruction of another task, and its goal."""

PROBES: tuple[Probe, ...] = ("nonsense", "other_task", "blank", "other_goal")

FEWEST_SUCCESSES = 5
"""With the right text; of fewer, what is lost of them has no interval."""

SELDOM, OFTEN = 0.25, 0.5
"""Of its success with the right text: so much of what other texts say is done at most by who does not listen, and at
least by who does."""

Verdict = Literal["listens", "breaks", "ignores", "not determined"]
"""``listens``: it does what another text says more often than `OFTEN`. ``breaks``: it does so less often than `SELDOM`,
and loses more than `SELDOM` of its success under other texts. ``ignores``: likewise, and loses less. By the ends of
intervals; where these leave it open it is not determined."""


@dataclass(frozen=True)
class GroundingEpisode:
    """The result of one episode.

    Attributes:
        success: whether the original task was done; None if not judged, because the goal was changed.
        path: the end effector's, (n, 3), m, or None if unknown.
        followed: under another task's text, whether that task's goal was reached (for records without this fact:
            whether the path is that task's); None if not checked.
        obeyed: under another task's text and goal, whether that goal was reached; None under any other text.
    """

    success: bool | None
    path: "NDArray[np.float64] | None" = None
    followed: bool | None = None
    obeyed: bool | None = None


@dataclass(frozen=True)
class Twins:
    """Episodes with the same task, init state and seed.

    Attributes:
        right: the episode with the right text.
        probes: the episodes with other texts.
        again: a second episode with the right text, under another policy seed, or None.
        unit: the task and the seed, shared by twins under several run seeds; None if they are independent of all
            others.
    """

    right: GroundingEpisode
    probes: Mapping[Probe, GroundingEpisode]
    again: GroundingEpisode | None = None
    unit: tuple[str, Hashable] | None = None


@dataclass(frozen=True)
class GroundingEstimate:
    """A number with its interval over these tasks, and that over tasks like these; None where none can be given."""

    value: float
    interval: Interval | None
    tasks_interval: Interval | None = None


@dataclass(frozen=True)
class GroundingShare:
    """A count out of a total, with the intervals of their rate over these tasks and over tasks like these."""

    count: int
    of: int
    interval: Interval | None
    tasks_interval: Interval | None = None


@dataclass(frozen=True)
class Listening:
    """The results for one probe, or for all of them.

    Attributes:
        followed: under another task's text, how often that task was done.
        obeyed: under another task's text and goal, how often that goal was reached.
        told: `followed` and `obeyed` together.
        right: successes with the right text, each twin once.
        probe: successes with the probe, each pair once; this and the next three are over pairs with both judged.
        lost: pairs in which only the right text succeeded.
        gained: pairs in which only the probe succeeded.
        score: 1 - successes with the probe / successes with the right text: the share of success that is lost without
            the right text, from 0 (none) to 1 (all). Below 0 if the probe does better. None if the right text never
            succeeded, so that nothing can be lost. It does not show that the policy follows the text: a policy that
            breaks loses as much as one that does what it is told instead.
        distance: m: mean DTW between the paths of a pair, 50 points each, without an interval; None without paths. The
            probe's path is cut at the length of its twin's, as is the second run's in `noise`.
        noise: m: the same between two runs with the right text, once per pair; None without such runs.
        path_score: (distance - noise) / the larger one, over twins with both: the share of the paths' distance that
            noise does not explain, in [-1, 1]. None without such twins, because a distance alone has no scale.
    """

    followed: GroundingShare
    obeyed: GroundingShare
    told: GroundingShare
    right: GroundingShare
    probe: GroundingShare
    lost: int
    gained: int
    score: GroundingEstimate | None
    distance: GroundingEstimate | None
    noise: GroundingEstimate | None
    path_score: GroundingEstimate | None

    @property
    def verdict(self) -> Verdict:
        """The verdict on whether the policy follows its instruction, from its behaviour under other tasks' texts."""
        success = self.right.count / self.right.of if self.right.of else 0.0
        if self.told.interval is None or not success:
            return "not determined"
        if self.told.interval[0] > OFTEN * success:
            return "listens"
        if self.told.interval[1] >= SELDOM * success or self.score is None or self.score.interval is None:
            return "not determined"
        low, high = self.score.interval
        return "breaks" if low > SELDOM else "ignores" if high < SELDOM else "not determined"


@dataclass(frozen=True)
class _Pair:
    """One twin and one probe of it: its number and unit, both runs, and their distances where there are paths."""

    twin: int
    unit: Hashable
    right: GroundingEpisode
    probe: GroundingEpisode
    distance: float | None
    noise: float | None


def listening(twins: Sequence[Twins], confidence: float = 0.95) -> tuple[Listening, Mapping[Probe, Listening]]:
    """Compute the results for all pairs, and for each probe that occurs.

    Twins with one task and seed form a cluster, so that their common parts (the init state, the run with the right
    text) are not counted as evidence twice.

    Args:
        twins: at least one with a probe.
        confidence: of all intervals, in (0, 1).

    Raises:
        ValueError: no twin has a probe, a path is empty or not finite, or the confidence is out of range.
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"listening: confidence {confidence}: expected a number between 0 and 1")
    pairs: dict[Probe, list[_Pair]] = {probe: [] for probe in PROBES}
    for number, twin in enumerate(twins):
        noise = _distance(twin.right, twin.again)
        unit = number if twin.unit is None else twin.unit
        for probe, run in twin.probes.items():
            pairs[probe].append(_Pair(number, unit, twin.right, run, _distance(twin.right, run), noise))
    if not any(pairs.values()):
        raise ValueError("listening: no twin has a probe: expected at least one")
    each = {probe: _listening(group, confidence) for probe, group in pairs.items() if group}
    return _listening([pair for group in pairs.values() for pair in group], confidence), each


def _listening(pairs: Sequence[_Pair], confidence: float) -> Listening:
    judged = [pair for pair in pairs if pair.probe.success is not None and pair.right.success is not None]
    right, probe = ([float(bool(run.success)) for run in some] for some in _runs(judged))
    distances = [pair.distance for pair in pairs if pair.distance is not None]
    noises = [pair.noise for pair in pairs if pair.noise is not None]
    both = [pair for pair in pairs if pair.distance is not None and pair.noise is not None]
    return Listening(
        followed=_share(pairs, [pair.probe.followed for pair in pairs], confidence),
        obeyed=_share(pairs, [pair.probe.obeyed for pair in pairs], confidence),
        told=_share(pairs, [_does_as_told(pair.probe) for pair in pairs], confidence),
        right=_share(*_each_once(pairs), confidence),
        probe=_share(judged, [pair.probe.success for pair in judged], confidence),
        lost=sum(one > other for one, other in zip(right, probe, strict=True)),
        gained=sum(one < other for one, other in zip(right, probe, strict=True)),
        score=_lost_share(judged, right, probe, confidence),
        distance=_mean(distances),
        noise=_mean(noises),
        path_score=_excess_share(
            both, [pair.distance or 0.0 for pair in both], [pair.noise or 0.0 for pair in both], confidence
        ),
    )


def _does_as_told(run: GroundingEpisode) -> bool | None:
    return run.followed if run.obeyed is None else run.obeyed


def _runs(pairs: Sequence[_Pair]) -> tuple[list[GroundingEpisode], list[GroundingEpisode]]:
    return [pair.right for pair in pairs], [pair.probe for pair in pairs]


def _each_once(pairs: Sequence[_Pair]) -> tuple[list[_Pair], list[bool | None]]:
    """Return one pair for each twin, with the result under the right text."""
    once = list({pair.twin: pair for pair in pairs}.values())
    return once, [pair.right.success for pair in once]


def _share(pairs: Sequence[_Pair], outcomes: Sequence[bool | None], confidence: float) -> GroundingShare:
    """Compute the share over the known outcomes."""
    known = [(pair, done) for pair, done in zip(pairs, outcomes, strict=True) if done is not None]
    success, some = [float(done) for _, done in known], [pair for pair, _ in known]
    if not known:
        return GroundingShare(0, 0, None)
    tasks = _tasks(some)
    interval = rate_interval(success, [pair.unit for pair in some], confidence=confidence)
    by_task = None if tasks is None else rate_interval(success, tasks, confidence=confidence)
    return GroundingShare(int(sum(success)), len(known), interval, no_narrower(by_task, interval))


def _tasks(pairs: Sequence[_Pair]) -> list[str] | None:
    """Return the task of each episode, or None if tasks are unknown or too few."""
    tasks = [pair.unit[0] for pair in pairs if isinstance(pair.unit, tuple)]
    return tasks if len(tasks) == len(pairs) and len(set(tasks)) >= FEWEST_TASKS else None


def _distance(run: GroundingEpisode, other: GroundingEpisode | None) -> float | None:
    """Return the exact DTW from a path to another one, 50 points each, in m; None if one is missing.

    The other path counts as far as the first one is long. An episode under a probe goes on until its steps are used up
    if the task is not done, and a policy that stands still by then would otherwise be far from its own twin.
    """
    if other is None or run.path is None or other.path is None:
        return None
    return float(exact_dtw(resample(run.path)[None], resample(other.path[: len(run.path)])).distances[0])


def _mean(values: Sequence[float]) -> GroundingEstimate | None:
    """Without an interval: it is the scale of the path score, which has one."""
    return GroundingEstimate(sum(values) / len(values), None) if values else None


def _lost_share(
    pairs: Sequence[_Pair], right: Sequence[float], probe: Sequence[float], confidence: float
) -> GroundingEstimate | None:
    if not any(right):
        return None

    def lost(means: "NDArray[np.float64]") -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        import numpy as np

        with_right, with_probe = means.tolist()
        return np.array([1 - with_probe / with_right]), np.array([[with_probe / with_right**2, -1 / with_right]])

    value = 1 - sum(probe) / sum(right)
    if sum(right) < FEWEST_SUCCESSES:
        return GroundingEstimate(value, None)
    return _estimate(pairs, value, [right, probe], lost, confidence, lambda each: min(each, 1.0), added=1)


def _excess_share(
    pairs: Sequence[_Pair], distances: Sequence[float], noises: Sequence[float], confidence: float
) -> GroundingEstimate | None:
    if not pairs:
        return None
    distance, noise = sum(distances), sum(noises)

    def logarithm(means: "NDArray[np.float64]") -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
        import numpy as np

        return np.log(means[:1] / means[1:]), np.array([[1.0, -1.0]]) / means

    if min(distance, noise) > 0:
        value = _excess(log(distance / noise))
        return _estimate(pairs, value, [distances, noises], logarithm, confidence, _excess)
    # Of nothing but equal paths nothing is explained by the text; without noise all of it is.
    return GroundingEstimate(float(distance > 0) - float(noise > 0), None)


def _excess(logarithm: float) -> float:
    """(distance - noise) / the larger one, from the logarithm of their ratio."""
    return 1 - exp(-logarithm) if logarithm >= 0 else exp(logarithm) - 1


def _estimate(
    pairs: Sequence[_Pair],
    value: float,
    columns: Sequence[Sequence[float]],
    number: Numbers,
    confidence: float,
    back: Callable[[float], float],
    added: int = 0,
) -> GroundingEstimate:
    """Return a value with intervals of `number`, transformed back by a rising function."""
    import numpy as np

    rows, tasks = np.array(columns, np.float64).T, _tasks(pairs)

    def interval(clusters: Sequence[Hashable] | None) -> Interval | None:
        found = None if clusters is None else linearised_intervals(rows, clusters, number, added, confidence)
        return None if found is None else (back(found[0][0]), back(found[0][1]))

    return GroundingEstimate(value, interval([pair.unit for pair in pairs]), interval(tasks))
