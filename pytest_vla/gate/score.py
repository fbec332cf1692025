"""Score bounds, and score and exact tests of unpaired episodes, over these tasks.

A bound is one-sided; the lower and the upper one at alpha are together the interval of 1 - 2 alpha. They take no
profit from tasks that differ, and hold where tasks do: the null is of the mean over these tasks. The statistic is
corrected for continuity by half an episode. Pairs: `pytest_vla.gate.bounded`.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache
from math import fsum, inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.gate.bounded import Bounds, Way
from pytest_vla.metrics.clustered import Unit, student_quantile, sums

# The exact test of unpaired episodes: whether success fell, or rose, over these tasks.
#
# It is conditional and stratified by task, and draws nothing: the whole distribution is summed up. Its null is that
# the new policy and the baseline are alike in each task, so that which of the two an outcome belongs to says nothing.
# Where tasks differ and it is their mean that is null, it errs to the safe side if each task has as many episodes of
# either policy (``python benchmarks/gate.py`` counts it). Pairs: `pytest_vla.gate.bounded`.

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


CORRECTION = 0.5
"""Of an episode."""


def unpaired_bounds(
    new: Sequence[int],
    new_units: Sequence[Unit],
    baseline: Sequence[int],
    baseline_units: Sequence[Unit],
    alpha: float = 0.05,
) -> Bounds:
    """Compute score bounds of the difference of success of episodes that share no seeds, stratified by task.

    The difference is the mean of the tasks' differences, weighted as Mantel and Haenszel do: n m / (n + m), alike if
    all tasks have as many episodes. Its variance at a difference d is that of the rates that are likeliest if each
    task's difference is d or, for several tasks, that of the rates as they are, whichever is larger: the first alone
    errs in 9% of runs with 10 episodes of one policy, 60 of the other, and tasks that differ by .4 either way. If units
    hold several episodes, each side has as many as would stray as far, and Student's t is in the place of the normal
    quantile. Source: Miettinen and Nurminen 1985, Statistics in Medicine 4, 213-226; corrected for continuity.

    Args:
        new: (n,), each 0 or 1.
        new_units: (n,), their tasks and seeds.
        baseline: (m,), each 0 or 1.
        baseline_units: (m,), their tasks and seeds.
        alpha: of each bound, in (0, .5).

    Raises:
        ValueError: a side has no episode, lengths differ, a success is neither 0 nor 1, a task is on one side only, or
            alpha is out of range.
    """
    done, mine, theirs, others, freedom = _unpaired(new, new_units, baseline, baseline_units)
    quantile = np.asarray(student_quantile(freedom, 1 - 2 * alpha))
    value, lower, upper = stratified_bounds(done, mine, theirs, others, quantile)
    return Bounds(float(value), float(lower), float(upper))


def unpaired_p(
    new: Sequence[int],
    new_units: Sequence[Unit],
    baseline: Sequence[int],
    baseline_units: Sequence[Unit],
    margin: float,
    times: float = 1.0,
) -> float:
    """Return the one-sided p that success fell by `margin` or more, for episodes that share no seeds.

    A negative margin is a rise of so much. If `times` is given, the p is that of so many times as many episodes.
    """
    *found, freedom = _unpaired(new, new_units, baseline, baseline_units)
    done, mine, theirs, others = (times * each for each in found)
    return _upper_tail(float(stratified_statistic(done, mine, theirs, others, -margin, CORRECTION)), times * freedom)


def unpaired_change_p(
    new: Sequence[int],
    new_units: Sequence[Unit],
    baseline: Sequence[int],
    baseline_units: Sequence[Unit],
    way: Way = "worse",
    beyond: float = 0.0,
) -> float:
    """Return the one-sided p that success did not change by more than `beyond`, for episodes that share no seeds.

    Against no change it is the larger of the exact one and the score's, against `beyond` the score's. The exact one
    (`stratified_p`) is of policies that are alike in each task, whatever the numbers; the score's is of their mean over
    tasks, where tasks differ and one policy has more episodes. Arguments and errors are theirs.
    """
    if beyond >= 1.0:
        return 1.0
    one, other = (new, new_units), (baseline, baseline_units)
    score = unpaired_p(*other, *one, -beyond) if way == "worse" else unpaired_p(*one, *other, -beyond)
    return score if beyond else max(score, stratified_p(*one, *other, way))


def stratified_bounds(
    new: Floats, new_n: Floats, baseline: Floats, baseline_n: Floats, quantile: Floats
) -> tuple[Floats, Floats, Floats]:
    """Compute the weighted difference and its bounds (...,) from counts (..., tasks), at `quantile` standard errors."""
    value = stratified_difference(new, new_n, baseline, baseline_n)

    def is_above(d: Floats) -> NDArray[np.bool_]:
        return stratified_statistic(new, new_n, baseline, baseline_n, d, CORRECTION) >= quantile

    def is_below(d: Floats) -> NDArray[np.bool_]:
        return stratified_statistic(baseline, baseline_n, new, new_n, d, CORRECTION) >= quantile

    return value, _last(is_above, value), -_last(is_below, -value)


def stratified_difference(new: Floats, new_n: Floats, baseline: Floats, baseline_n: Floats) -> Floats:
    """Compute the mean of the tasks' differences, with Mantel and Haenszel's weights; counts (..., tasks)."""
    weights = new_n * baseline_n / (new_n + baseline_n)
    found: Floats = (weights * (new / new_n - baseline / baseline_n)).sum(-1) / weights.sum(-1)
    return found


def stratified_statistic(
    new: Floats, new_n: Floats, baseline: Floats, baseline_n: Floats, difference: ArrayLike, correction: float = 0.0
) -> Floats:
    """Compute the score statistic (standard errors) that the change is above `difference`; counts (..., tasks)."""
    d = np.asarray(difference, float)
    total, weights = new_n + baseline_n, new_n * baseline_n / (new_n + baseline_n)
    below = _likeliest(new, new_n, baseline, baseline_n, d[..., None])
    above = np.clip(below + d[..., None], 0.0, 1.0)
    variance = above * (1 - above) / new_n + below * (1 - below) / baseline_n
    # Of few episodes: their likeliest rates stray less than the true ones let them.
    likeliest = (weights * weights * variance * total / (total - 1)).sum(-1)
    ours, theirs = new / new_n, baseline / baseline_n
    # Where the differences of several tasks are not alike the rates themselves may stray more: the larger of both.
    strays = ours * (1 - ours) / np.maximum(new_n - 1, 1) + theirs * (1 - theirs) / np.maximum(baseline_n - 1, 1)
    variance = np.maximum(likeliest, (weights * weights * strays).sum(-1) if new.shape[-1] > 1 else 0.0)
    found = (stratified_difference(new, new_n, baseline, baseline_n) - d) * weights.sum(-1) - correction / 2
    statistic: Floats = found / np.sqrt(np.maximum(variance, 1e-12))
    return statistic


def _likeliest(x: Floats, n: Floats, y: Floats, m: Floats, d: Floats) -> Floats:
    """Return the baseline's likeliest rate if the new rate is d higher: the root of the likelihood's cubic."""
    third = n + m
    second = (n + 2 * m) * d - third - (x + y)
    first = (m * d - third - 2 * y) * d + (x + y)
    last = y * d * (1 - d)
    shift = second / (3 * third)
    q = shift**3 - first * second / (6 * third**2) + last / (2 * third)
    p = np.where(q >= 0, 1.0, -1.0) * np.sqrt(np.maximum(shift**2 - first / (3 * third), 1e-200))
    angle = (np.pi + np.arccos(np.clip(q / p**3, -1.0, 1.0))) / 3
    found: Floats = np.clip(2 * p * np.cos(angle) - shift, np.maximum(0.0, -d), np.minimum(1.0, 1.0 - d))
    return found


def _last(holds: Callable[[Floats], NDArray[np.bool_]], end: Floats) -> Floats:
    """Return the largest number in -1..end for which a monotone condition holds, or -1 if it never does."""
    low, high = np.full(np.shape(end), -1.0), np.asarray(end, float)
    for _ in range(45):
        middle = (low + high) / 2
        held = holds(middle)
        low, high = np.where(held, middle, low), np.where(held, high, middle)
    return low


def _worth_of(strays: float, size: float, totals: float) -> float:
    """Return the weight of one episode of a unit against an independent one, in (0, 1].

    The variance of one is divided by that between units, in each of which one more unit is counted whose errors are all
    1: if nothing strays each unit is worth one, and the more strays the less that matters.

    Args:
        strays: the sum of all squared errors.
        size: of a unit, as it is on average for a pair.
        totals: the sum of the squares of each unit's sum of errors.
    """
    return min(1.0, (strays + size) / (totals + size * size))


def _worth(errors: Sequence[float], units: Sequence[Unit]) -> tuple[float, float]:
    """`_worth_of` errors, and the degrees of freedom by which that is known."""
    totals, sizes = sums(errors, units), sums([1.0] * len(errors), units)
    if len(totals) == len(errors):
        return 1.0, inf
    size = fsum(each * each for each in sizes.values()) / len(errors)
    squares = (fsum(each * each for each in some) for some in (errors, totals.values()))
    return _worth_of(next(squares), size, next(squares)), max(len(totals) - 1, 1)


def _unpaired(
    new: Sequence[int], new_units: Sequence[Unit], baseline: Sequence[int], baseline_units: Sequence[Unit]
) -> tuple[Floats, Floats, Floats, Floats, float]:
    """Effective successes and episodes by task, of either side, and degrees of freedom."""
    tasks = list(dict.fromkeys(task for task, _ in new_units))
    if alone := set(tasks) ^ {task for task, _ in baseline_units}:
        raise ValueError(f"{min(alone)}: expected each task on both sides")
    found, freedoms = [], []
    for successes, units in ((new, new_units), (baseline, baseline_units)):
        unit_sums(successes, units)
        of = [task for task, _ in units]
        done, number = sums(successes, of), sums([1.0] * len(of), of)
        rates = {task: done[task] / number[task] for task in tasks}
        worth, freedom = _worth([success - rates[task] for success, task in zip(successes, of, strict=True)], units)
        found += [worth * np.array([count[task] for task in tasks]) for count in (done, number)]
        freedoms.append(max(freedom + 1 - len(tasks), 1.0))
    return found[0], found[1], found[2], found[3], sum(freedoms)


def _upper_tail(statistic: float, freedom: float) -> float:
    from scipy.special import ndtr, stdtr

    return float(ndtr(-statistic) if freedom == inf else stdtr(freedom, -statistic))
