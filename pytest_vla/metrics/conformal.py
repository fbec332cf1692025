"""A threshold for an alarm that cuts few successes: split conformal prediction, and its coverage on held-out seeds.

The score of an episode is the largest value that its metric holds for so many steps. The threshold is a quantile of the
scores of successes alone, so that no failure has to be seen: of one more success, exchangeable with these, the alarm
rings with a probability of at most alpha (Vovk, Gammerman and Shafer 2005, Algorithmic Learning in a Random World, ch.
2; Lei et al. 2018, Journal of the American Statistical Association 113, 1094-1111, Theorem 2.2). Xu et al. 2025 (arXiv
2503.08558, FAIL-Detect) do so for robot policies, with a band over time. The promise is over successes, on average over
tasks, and of no single task.

Episodes that share a task and a seed (several run seeds, or variations) are a cluster: exchangeable are the clusters,
and not the episodes. Each cluster counts once, whatever it holds, shared evenly by its successes, and the promise is of
a success of a further cluster (Lee, Barber and Willett, arXiv 2306.06342; Dunn, Wasserman and Ramdas 2023, Journal of
the American Statistical Association 118, 2491-2502). Episodes that were taken for independent cut 12% to 20% for 10%.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pytest_vla.errors import VlaError
from pytest_vla.metrics.alarms import Intervention, Rule, intervention
from pytest_vla.metrics.foretelling import Watched

ALPHA = 0.10
"""Of successes, at most so many are to be cut."""


@dataclass(frozen=True)
class Conformal:
    """A threshold of one metric and what it does on seeds that it was not made of.

    Attributes:
        metric: its name.
        alpha: the share of successes that may be cut.
        calibrating: successes that the threshold was made of.
        clusters: tasks and seeds that these are of.
        threshold: in the metric's unit; None: there are too few of these for this alpha.
        held_out: what stopping beyond the threshold does on the other seeds; its ``cut`` is to be alpha or less. None:
            there is no threshold, or no episode of other seeds.
    """

    metric: str
    alpha: float
    calibrating: int
    clusters: int
    threshold: float | None
    held_out: Intervention | None


def conformal_threshold(
    scores: ArrayLike, alpha: float = ALPHA, clusters: Sequence[Hashable] | None = None
) -> float | None:
    """Return the score up to which clusters of a share of (K + 1)(1 - alpha) of K lie; None: it is beyond the largest.

    Of n scores that are each a cluster it is the ceil((n + 1)(1 - alpha))-th smallest.

    Args:
        scores: (n,), of successes.
        alpha: 0..1, neither.
        clusters: (n,), what each shares with others, such as its task and seed; None: each is one by itself.

    Raises:
        VlaError: a score is nan, or alpha is out of range.
    """
    if not 0.0 < alpha < 1.0:
        raise VlaError(f"alpha {alpha}: expected a share above 0 and below 1")
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    if ordered.ndim != 1 or np.isnan(ordered).any():
        raise VlaError(f"scores {ordered.shape}: expected (n,) numbers")
    if clusters is None or not len(ordered):
        weights, number = np.ones(len(ordered)), len(ordered)
    else:
        _, members, sizes = np.unique(_numbered(clusters), return_inverse=True, return_counts=True)
        weights, number = (
            1.0 / sizes[members[np.argsort(np.asarray(scores, dtype=np.float64), kind="stable")]],
            len(sizes),
        )
    # 0.9 * 10 is a little more than 9 to a processor.
    reached = np.flatnonzero(np.cumsum(weights) >= (number + 1) * (1.0 - alpha) - 1e-9)
    return float(ordered[reached[0]]) if len(reached) else None


def _numbered(clusters: Sequence[Hashable]) -> list[int]:
    numbers: dict[Hashable, int] = {}
    return [numbers.setdefault(each, len(numbers)) for each in clusters]


def fewest_successes(alpha: float) -> int:
    """Of how many clusters of successes there is a threshold for this alpha."""
    return math.ceil((1.0 - alpha) / alpha - 1e-9)


def score(series: ArrayLike, steps: int = 1) -> float:
    """The largest value that a series (n,) has for so many control steps one after the other; -inf: it has none.

    nan, of which nothing is known, ends a spell.
    """
    values = np.asarray(series, dtype=np.float64)
    if len(values) < steps:
        return -math.inf
    least = np.lib.stride_tricks.sliding_window_view(values, steps).min(axis=1)
    least = least[~np.isnan(least)]
    return float(least.max()) if least.size else -math.inf


def conformal(episodes: Sequence[Watched], metric: str, alpha: float = ALPHA, steps: int = 1) -> Conformal:
    """The threshold by every second seed's successes, and what it does on the other seeds.

    Args:
        episodes: of one policy and suite.
        metric: with a series in some of them.
        alpha: as `conformal_threshold`.
        steps: for which a value has to hold.

    Raises:
        VlaError: alpha is out of range.
    """
    known = [episode for episode in episodes if metric in episode.series]
    seeds = sorted({episode.unit[1] for episode in known}, key=_in_order)
    chosen = set(seeds[::2])
    of_chosen = [episode for episode in known if episode.unit[1] in chosen and not episode.failed]
    # Its last step is not counted: an alarm then stops nothing.
    units = [episode.unit for episode in of_chosen]
    scores = [score(episode.series[metric][:-1], steps) for episode in of_chosen]
    threshold, number = conformal_threshold(scores, alpha, units), len(set(units))
    if threshold is None or math.isinf(threshold):
        return Conformal(metric, alpha, len(of_chosen), number, None, None)
    others = [episode for episode in known if episode.unit[1] not in chosen]
    return Conformal(
        metric, alpha, len(of_chosen), number, threshold, intervention(others, Rule(metric, ">", threshold, steps))
    )


def _in_order(seed: object) -> tuple[int, str]:
    """Seeds by number; of a seed with what is varied by its text."""
    number = seed[0] if isinstance(seed, tuple) else seed
    return (number if isinstance(number, int) else 0, str(seed))
