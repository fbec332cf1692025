"""Exact tests of whether success fell, or rose, over these tasks.

Both are conditional and stratified by task, and neither draws: the whole distribution is summed up. Their null is that
the new policy and the baseline are alike in each task, so that which of the two an outcome belongs to says nothing.
Where tasks differ and it is their mean that is null, `sign_flip_p` of single pairs errs to the safe side, since what
differs between tasks only lessens how far a sum strays; so does `stratified_p` where a task has as many episodes of
either policy (``python benchmarks/gate.py`` counts both).
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from pytest_vla.metrics.clustered import Unit

Way = Literal["worse", "better"]
"""What a small p speaks for: the new policy succeeds less often than the baseline, or more often."""
WAYS: tuple[Way, ...] = get_args(Way)

Floats = NDArray[np.float64]


def sign_flip_p(differences: Sequence[int], units: Sequence[Unit], way: Way = "worse") -> float:
    """One-sided p of paired episodes: in each unit, either way is as likely.

    The pairs of a unit are flipped together, and all flips are equally likely: the p is the share of flips whose sum
    lies as far out. Where each unit is one pair this is McNemar's exact test, one-sided: a binomial one on discordant
    pairs. Source: Fisher 1935, The Design of Experiments, section 21; for pairs Fagerland et al. 2013, BMC Medical
    Research Methodology 13:91.

    Of units of several pairs the null is that their sums are symmetric. A mean of 0 that is made of many small losses
    and a rare large gain is called worse too often as long as the gain is rarely seen (one unit of ten gains five
    pairs, five of ten lose one: in 25% of runs of 10 units, 8% of 50); `pytest_vla.gate.wealth.running_p` is not.

    Args:
        differences: (n,), each -1, 0 or 1: the new policy's success less the baseline's.
        units: (n,), the task and the seed of each pair.
        way: what a small p speaks for.

    Returns:
        In (0, 1]; 0.0 where it is below what a float holds; 1.0 where no unit differs.

    Raises:
        ValueError: there is no pair, lengths differ, or a difference is none of -1, 0 and 1.
    """
    return counted_flip_p(counted_units(differences, units), way)


class UnitCounts(NamedTuple):
    """What tests take of paired episodes.

    Attributes:
        lost: pairs in which only the baseline succeeded.
        gained: pairs in which only the new policy did.
        units: by the sum of differences and the number of pairs of a unit, how many such units there are; numbers that
            are not whole are multiples of what was seen (`pytest_vla.gate.settling`).
    """

    lost: float
    gained: float
    units: Mapping[tuple[int, int], float]


def counted_units(differences: Sequence[int], units: Sequence[Unit]) -> UnitCounts:
    """How many units of which kind there are. Raises ValueError: as `sign_flip_p`."""
    n = len(differences)
    if not n or n != len(units):
        raise ValueError(f"{n} differences, {len(units)} units: expected as many, at least 1")
    if odd := [each for each in differences if each not in (-1, 0, 1)]:
        raise ValueError(f"{odd[:3]}: expected differences of -1, 0 or 1")
    sums: Counter[Unit] = Counter()
    for unit, difference in zip(units, differences, strict=True):
        sums[unit] += int(difference)
    sizes = Counter(units)
    counts = Counter((sums[unit], size) for unit, size in sizes.items())
    return UnitCounts(differences.count(-1), differences.count(1), counts)


def counted_flip_p(counts: UnitCounts, way: Way = "worse") -> float:
    """`sign_flip_p` of so many units of each kind, in whole numbers."""
    sizes: Counter[int] = Counter()
    fell = 0
    for (total, _), units in counts.units.items():
        number = round(units)
        fell += number * (-total if way == "worse" else total)
        if total:
            sizes[abs(total)] += number
    reach = sum(size * number for size, number in sizes.items())
    # A sum of flips is twice what is flipped up, less all there is.
    distribution = np.ones(1)
    for size, number in sorted(sizes.items()):
        distribution = _strided(distribution, _binomial(number, 0.5), size)
    return _tail(distribution, (reach + fell) // 2)


def stratified_p(
    new: Sequence[int],
    new_units: Sequence[Unit],
    baseline: Sequence[int],
    baseline_units: Sequence[Unit],
    way: Way = "worse",
) -> float:
    """One-sided p of episodes that share no seeds: in each task, units are exchangeable between the two policies.

    Given how often each task was done, and by how many units in how many episodes, which units are the new policy's is
    drawn by lot; the p is the share of lots in which it has as few successes, over all tasks. Where each unit is one
    episode, this is the exact conditional test of a common odds ratio (of one task, Fisher's exact test). Units are
    exchanged among those with as many episodes. Source: Gart 1970, Biometrika 57, 471-475.

    Where a task has more episodes of one policy than of the other, and tasks differ in which of the two does better,
    the null of a mean over tasks is not this one: `pytest_vla.gate.score.unpaired_change_p` has both.

    Args:
        new: (n,), each 0 or 1: success of the new policy's episodes.
        new_units: (n,), their tasks and seeds.
        baseline: (m,), likewise.
        baseline_units: (m,).
        way: what a small p speaks for.

    Returns:
        In (0, 1]; 1.0 where there is nothing to exchange.

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
    """Of each unit its successes and its episodes. Raises ValueError: none, lengths differ, or not each 0 or 1."""
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
    """How likely each sum is of so many values chosen by lot; by sum, from 0.

    Any binomials of one rate, given that they sum to `number`, are the lot's hypergeometric counts; with the rate that
    there is, nothing under- or overflows.
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


def _strided(distribution: Floats, weights: Floats, stride: int) -> Floats:
    """The distribution of a sum with `stride` times another number."""
    if stride == 1:
        return np.convolve(distribution, weights)
    grown = np.zeros(len(distribution) + stride * (len(weights) - 1))
    for k in np.flatnonzero(weights):
        grown[stride * k : stride * k + len(distribution)] += weights[k] * distribution
    return grown


def _tail(distribution: Floats, least: int) -> float:
    """The share at `least` or above; the small ones are added first."""
    return float(min(1.0, distribution[least:][::-1].sum() / distribution.sum()))
