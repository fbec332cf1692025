"""The exact test of unpaired episodes: whether success fell, or rose, over these tasks.

It is conditional and stratified by task, and draws nothing: the whole distribution is summed up. Its null is that the
new policy and the baseline are alike in each task, so that which of the two an outcome belongs to says nothing. Where
tasks differ and it is their mean that is null, it errs to the safe side if each task has as many episodes of either
policy (``python benchmarks/gate.py`` counts it). Pairs: `pytest_vla.gate.bounded`.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pytest_vla.gate.bounded import Way
from pytest_vla.metrics.clustered import Unit

Floats = NDArray[np.float64]


def stratified_p(
    new: Sequence[int],
    new_units: Sequence[Unit],
    baseline: Sequence[int],
    baseline_units: Sequence[Unit],
    way: Way = "worse",
) -> float:
    """Compute the one-sided p of episodes that share no seeds: in each task, units are exchangeable.

    Given how often each task was done, and by how many units in how many episodes, which units are the new policy's is
    drawn by lot; the p is the share of lots in which it has as few successes, over all tasks. Where each unit is one
    episode, this is the exact conditional test of a common odds ratio (for one task, Fisher's exact test). Units are
    exchanged among those with as many episodes. Source: Gart 1970, Biometrika 57, 471-475.

    If a task has more episodes of one policy than of the other, and tasks differ in which policy does better, the null
    of a mean over tasks is not this one: `pytest_vla.gate.score.unpaired_change_p` has both.

    Args:
        new: (n,), each 0 or 1: success of the new policy's episodes.
        new_units: (n,), their tasks and seeds.
        baseline: (m,), each 0 or 1: success of the baseline's episodes.
        baseline_units: (m,), their tasks and seeds.
        way: what a small p supports.

    Returns:
        In (0, 1]; 1.0 if there is nothing to exchange.

    Raises:
        ValueError: a side has no episode, lengths differ, a success is neither 0 nor 1, or a unit is on both sides.
    """
    ours, theirs = unit_sums(new, new_units), unit_sums(baseline, baseline_units)
    if both := ours.keys() & theirs.keys():
        raise ValueError(
            f"stratified_p: {min(both, key=str)} is on both sides: expected other seeds (or pairs of them)"
        )
    strata: dict[Hashable, tuple[list[int], list[int]]] = {}
    for side, units in enumerate((ours, theirs)):
        for unit, (done, episodes) in units.items():
            strata.setdefault((unit[0], episodes), ([], []))[side].append(done)
    distribution, seen = np.ones(1), 0
    for mine, others in strata.values():
        # As many failures as the lot could have of the new policy's: a tail of few successes, or of few failures.
        distribution = np.convolve(distribution, _chosen(mine + others, len(mine)))
        seen += sum(mine)
    return _tail(distribution[::-1], len(distribution) - 1 - seen) if way == "worse" else _tail(distribution, seen)


def unit_sums(successes: Sequence[int], units: Sequence[Unit]) -> dict[Unit, tuple[int, int]]:
    """Return each unit's successes and episodes.

    Raises:
        ValueError: there is no success, lengths differ, or a success is not 0 or 1.
    """
    if not len(successes) or len(successes) != len(units):
        raise ValueError(f"{len(successes)} successes, {len(units)} units: expected as many, at least 1")
    if odd := [each for each in successes if each not in (0, 1)]:
        raise ValueError(f"{odd[:3]}: expected successes of 0 or 1")
    found: dict[Unit, tuple[int, int]] = {}
    for unit, success in zip(units, successes, strict=True):
        done, episodes = found.get(unit, (0, 0))
        found[unit] = done + int(success), episodes + 1
    return found


def _chosen(values: Sequence[int], number: int) -> Floats:
    """Return the probability of each sum (from 0) of `number` values that are chosen by lot.

    Any binomials with one rate, given that they sum to `number`, are the lot's hypergeometric counts; with this rate
    nothing under- or overflows.
    """
    counts = sorted(Counter(values).items())
    rate = number / len(values)
    ways: Any = np.ones((1, 1))
    *others, (last, many) = counts
    for value, count in others:
        picks, total = ways.shape
        grown = np.zeros((picks + count, total + value * count))
        for j, weight in enumerate(_binomial(count, rate)):
            grown[j : j + picks, value * j : value * j + total] += weight * ways
        ways = grown
    picks, total = ways.shape
    row = np.zeros(total + last * many)
    for j, weight in enumerate(_binomial(many, rate)):
        if 0 <= number - j < picks:
            row[last * j : last * j + total] += weight * ways[number - j]
    found: Floats = row / row.sum()
    return found


@lru_cache(maxsize=128)
def _binomial(n: int, rate: float) -> Floats:
    """Probabilities of 0..n, which no caller may change: plans ask for the same few by the thousand."""
    from scipy.special import gammaln, xlog1py, xlogy

    k = np.arange(n + 1)
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    found: Floats = np.exp(ways + xlogy(k, rate) + xlog1py(n - k, -rate))
    found.setflags(write=False)
    return found


def _tail(distribution: Floats, least: int) -> float:
    """Return the probability of `least` or more; small terms are added first."""
    return float(min(1.0, distribution[least:][::-1].sum() / distribution.sum()))
