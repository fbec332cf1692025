"""Does a policy listen? How far success and paths depend on the instruction, from twins that differ in it alone.

Twins are episodes of the same task, init state and seed: one with the right text, others with a probe in its stead.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_vla.metrics.dtw import exact_dtw, resample
from pytest_vla.metrics.statistics import wilson_interval

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Probe = Literal["nonsense", "other_task", "blank", "other_goal"]
"""Tokens without meaning; another task's instruction; no text; the instruction of another task, and its goal."""

PROBES: tuple[Probe, ...] = ("nonsense", "other_task", "blank", "other_goal")

REPLICATES = 2000
_CHUNK = 100


@dataclass(frozen=True)
class Run:
    """What one episode came to.

    Attributes:
        success: whether the task was done whose twin it is; None: that was not judged, since the goal was another.
        path: the end effector's, (n, 3), m; None where it is not known.
        followed: under another task's text, whether that task's goal was reached (for records that do not say: whether
            the path is that task's); None where it was not looked at.
        obeyed: under another task's text and goal, whether that goal was reached; None under any other.
    """

    success: bool | None
    path: "NDArray[np.float64] | None" = None
    followed: bool | None = None
    obeyed: bool | None = None


@dataclass(frozen=True)
class Twins:
    """Episodes of one task, init state and seed.

    Attributes:
        right: with the right text.
        probes: with others.
        again: with the right text once more, and other noise of the policy's; None where there is no such episode.
    """

    right: Run
    probes: Mapping[Probe, Run]
    again: Run | None = None


@dataclass(frozen=True)
class Estimate:
    """A number with its bootstrap interval; None of a single twin, and where too many resamples had no number."""

    value: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Share:
    """So many of so many, with Wilson's interval; None of nothing."""

    count: int
    of: int
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Listening:
    """What one probe, or all of them, tell. 0: the text does not matter; 1: without the right one nothing is left.

    Attributes:
        right: successes with the right text, each twin once.
        probe: successes with the probe, each pair once; of pairs in which both were judged, as the next three are.
        lost: pairs in which only the right text did it.
        gained: pairs in which only the probe did it.
        score: 1 - successes with the probe / successes with the right text: the share of success that hangs on the
            text. Below 0 where the probe does better. None where the right text never did it: nothing can be lost.
        distance: m: mean DTW between the paths of a pair, 50 points each; None without paths.
        noise: m: the same between two runs of the right text, once a pair; None without such runs.
        path_score: (distance - noise) / the larger one, over twins with both: the share of the paths' distance that
            noise does not explain, in [-1, 1]. None without such twins: a distance alone has no scale.
        followed: under another task's text, how often that task was done.
        obeyed: under another task's text and goal, how often that goal was reached.
    """

    right: Share
    probe: Share
    lost: int
    gained: int
    score: Estimate | None
    distance: Estimate | None
    noise: Estimate | None
    path_score: Estimate | None
    followed: Share
    obeyed: Share


@dataclass(frozen=True)
class _Pair:
    """One twin and one probe of it: the twin's number, both runs, and their distances where there are paths."""

    twin: int
    right: Run
    probe: Run
    distance: float | None
    noise: float | None


def listening(
    twins: Sequence[Twins], generator: "np.random.Generator", confidence: float = 0.95, replicates: int = REPLICATES
) -> tuple[Listening, Mapping[Probe, Listening]]:
    """The listening score over all pairs, and that of each probe that occurs.

    Intervals come from a paired bootstrap: whole twins are drawn, so that what they have in common (the init state, the
    run with the right text) does not count as evidence twice. The tasks are taken as given. Where every pair tells the
    same, such an interval has no width; how little few episodes tell is seen in the Wilson intervals beside it.

    Args:
        twins: at least one with a probe.
        generator: draws the resamples.
        confidence: of all intervals, in (0, 1).
        replicates: number of resamples.

    Raises:
        ValueError: no twin has a probe, a path is empty or not finite, or the confidence is out of range.
    """
    pairs: dict[Probe, list[_Pair]] = {probe: [] for probe in PROBES}
    for number, twin in enumerate(twins):
        noise = _distance(twin.right, twin.again)
        for probe, run in twin.probes.items():
            pairs[probe].append(_Pair(number, twin.right, run, _distance(twin.right, run), noise))
    if not any(pairs.values()):
        raise ValueError("listening: no twin has a probe: expected at least one")

    def told(group: Sequence[_Pair]) -> Listening:
        return _listening(group, len(twins), generator, confidence, replicates)

    each = {probe: told(group) for probe, group in pairs.items() if group}
    return told([pair for group in pairs.values() for pair in group]), each


def _listening(
    pairs: Sequence[_Pair], twins: int, generator: "np.random.Generator", confidence: float, replicates: int
) -> Listening:
    def estimate(rows: Sequence[tuple[int, float, float]], ratio: _Ratio) -> Estimate | None:
        return _bootstrap(rows, ratio, twins, generator, confidence, replicates)

    judged = [
        (pair.twin, pair.probe.success, pair.right.success)
        for pair in pairs
        if pair.probe.success is not None and pair.right.success is not None
    ]
    distances = [(p.twin, p.distance, p.noise) for p in pairs if p.distance is not None and p.noise is not None]
    return Listening(
        right=_share({pair.twin: pair.right.success for pair in pairs}.values(), confidence),
        probe=_share([probe for _, probe, _ in judged], confidence),
        lost=sum(right and not probe for _, probe, right in judged),
        gained=sum(probe and not right for _, probe, right in judged),
        score=estimate([(twin, float(probe), float(right)) for twin, probe, right in judged], _lost_share),
        distance=estimate([(p.twin, p.distance, 1.0) for p in pairs if p.distance is not None], _mean),
        noise=estimate([(p.twin, p.noise, 1.0) for p in pairs if p.noise is not None], _mean),
        path_score=estimate(distances, _excess_share),
        followed=_share([pair.probe.followed for pair in pairs], confidence),
        obeyed=_share([pair.probe.obeyed for pair in pairs], confidence),
    )


def _share(outcomes: Iterable[bool | None], confidence: float) -> Share:
    """Of those that are known."""
    known = [outcome for outcome in outcomes if outcome is not None]
    return Share(sum(known), len(known), wilson_interval(sum(known), len(known), confidence) if known else None)


def _distance(run: Run, other: Run | None) -> float | None:
    """Exact DTW between the whole paths, 50 points each, m; None where one is missing."""
    if other is None or run.path is None or other.path is None:
        return None
    return float(exact_dtw(resample(run.path)[None], resample(other.path)).distances[0])


def _mean(
    total: "NDArray[np.float64]", number: "NDArray[np.float64]"
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    return total, number


def _lost_share(
    probe: "NDArray[np.float64]", right: "NDArray[np.float64]"
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    return right - probe, right


def _excess_share(
    distance: "NDArray[np.float64]", noise: "NDArray[np.float64]"
) -> "tuple[NDArray[np.float64], NDArray[np.float64]]":
    import numpy as np

    larger = np.maximum(distance, noise)
    # Of nothing but equal paths nothing is explained by the text.
    return distance - noise, np.where(larger > 0.0, larger, 1.0)


_Ratio = Callable[["NDArray[np.float64]", "NDArray[np.float64]"], "tuple[NDArray[np.float64], NDArray[np.float64]]"]


def _bootstrap(
    rows: Sequence[tuple[int, float, float]],
    ratio: _Ratio,
    twins: int,
    generator: "np.random.Generator",
    confidence: float,
    replicates: int,
) -> Estimate | None:
    """A ratio made of two sums over rows (twin, a, b), and its percentile interval over resampled twins."""
    import numpy as np

    if not 0.0 < confidence < 1.0:
        raise ValueError(f"listening: confidence {confidence}: expected a number between 0 and 1")
    sums = np.zeros((twins, 2))
    for twin, *values in rows:
        sums[twin] += values
    sums = sums[sorted({twin for twin, _, _ in rows})]
    if not len(sums):
        return None
    top, bottom = ratio(*sums.sum(axis=0)[:, None])
    if bottom[0] <= 0.0:
        return None
    value = float(top[0] / bottom[0])
    if len(sums) == 1:
        return Estimate(value, None)
    resampled = []
    for start in range(0, replicates, _CHUNK):
        drawn = generator.integers(len(sums), size=(min(_CHUNK, replicates - start), len(sums)))
        tops, bottoms = ratio(*np.moveaxis(sums[drawn].sum(axis=1), 1, 0))
        resampled.append(tops[bottoms > 0.0] / bottoms[bottoms > 0.0])
    found = np.concatenate(resampled)
    tail = (1.0 - confidence) / 2.0
    if len(found) < (1.0 - tail) * replicates:
        return Estimate(value, None)
    low, high = np.quantile(found, (tail, 1.0 - tail))
    return Estimate(value, (float(low), float(high)))
