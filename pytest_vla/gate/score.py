"""Bounds of a difference of success, for "no worse than a margin": score bounds over these tasks.

A bound is one-sided; the lower and the upper one at alpha are together the interval of 1 - 2 alpha. They take no
profit from tasks that differ, and hold where tasks do: the null is of the mean over these tasks.

Both statistics are corrected for continuity by half an episode. Without it they call a policy no worse too often
where discordance is hardly more than the margin: of 52 pairs none is lost in 7% of runs where 5% are lost. With it the
exact error of the paired one stays below alpha for all of 10 to 240 pairs, margins of .01 to .3, discordance up to .6
and alpha of .01 to .1; a quarter is too little (``python benchmarks/gate.py`` enumerates it).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum, inf

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.gate.exact import UnitCounts, Way, counted_units, stratified_p, unit_sums
from pytest_vla.metrics.clustered import Interval, Unit, student_quantile, sums
from pytest_vla.metrics.differences import difference_of, mean_difference

CORRECTION = 0.5
"""Of a pair, or of an episode."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """A difference of success, new less baseline, with one bound each way.

    Attributes:
        value: -1..1.
        lower: it is below this in at most alpha of such runs; -1..1.
        upper: likewise above.
        trials: how many independent pairs would stray as far; of unpaired episodes, of the smaller side.
    """

    value: float
    lower: float
    upper: float
    trials: float


def paired_bounds(differences: Sequence[int], units: Sequence[Unit], alpha: float = 0.05) -> Bounds:
    """Tango's score bounds of the mean difference of pairs, over these tasks.

    Where units hold several pairs there are as many as would stray as far if they were independent, never more than
    there are, and Student's t of as many units is in the place of the normal quantile. Source: Tango 1998, Statistics
    in Medicine 17, 891-908; the correction is of `CORRECTION`.

    Args:
        differences: (n,), each -1, 0 or 1: the new policy's success less the baseline's.
        units: (n,), the task and the seed of each pair.
        alpha: of each bound, in (0, .5).

    Raises:
        ValueError: there is no pair, lengths differ, a difference is none of -1, 0 and 1, or alpha is out of range.
    """
    gained, lost, trials, freedom = _effective(counted_units(differences, units))
    quantile = student_quantile(freedom, 1 - 2 * alpha)
    lower, upper = tango_bounds(gained, lost, trials, quantile)
    return Bounds((gained - lost) / trials, float(lower), float(upper), trials)


def paired_p(differences: Sequence[int], units: Sequence[Unit], margin: float) -> float:
    """One-sided p that success did not fall by `margin` or more: below alpha where the lower bound is above -margin.

    Args:
        differences: as `paired_bounds`.
        units: likewise.
        margin: in [0, 1).

    Raises:
        ValueError: as `paired_bounds`.
    """
    return counted_paired_p(counted_units(differences, units), margin)


def counted_paired_p(counts: UnitCounts, margin: float) -> float:
    """`paired_p` of so many units of each kind."""
    gained, lost, trials, freedom = _effective(counts)
    return _upper_tail(float(tango_statistic(gained, lost, trials, -margin, CORRECTION)), freedom)


def tango_statistic(
    gained: ArrayLike, lost: ArrayLike, pairs: ArrayLike, difference: ArrayLike, correction: float = 0.0
) -> Floats:
    """Tango's score statistic, in standard errors, that the true difference is above `difference`; broadcasts.

    Args:
        gained: pairs in which only the new policy succeeded; no whole number where it is of effective pairs.
        lost: pairs in which only the baseline did.
        pairs: all of them.
        difference: -1..1.
        correction: in pairs.
    """
    b, c, n, d = (np.asarray(each, float) for each in (gained, lost, pairs, difference))
    # The share of lost pairs that is likeliest where the difference is d: the larger root of A q^2 + B q + C.
    second, third = -b - c + (2 * n - b + c) * d, -c * d * (1 - d)
    share = (np.sqrt(np.maximum(second * second - 8 * n * third, 0.0)) - second) / (4 * n)
    variance = n * np.maximum(2 * share + d * (1 - d), 0.0)
    found: Floats = (b - c - n * d - correction) / np.sqrt(np.maximum(variance, 1e-12))
    return found


def tango_bounds(
    gained: ArrayLike, lost: ArrayLike, pairs: ArrayLike, quantile: ArrayLike, correction: float = CORRECTION
) -> tuple[Floats, Floats]:
    """Lower and upper bound at so many standard errors; broadcasts. Tango's own are those with a correction of 0."""
    b, c, n, z = np.broadcast_arrays(*(np.asarray(each, float) for each in (gained, lost, pairs, quantile)))
    lower = _last(lambda d: tango_statistic(b, c, n, d, correction) >= z, (b - c) / n)
    upper = -_last(lambda d: tango_statistic(c, b, n, d, correction) >= z, (c - b) / n)
    return lower, upper


def unpaired_bounds(
    new: Sequence[int],
    new_units: Sequence[Unit],
    baseline: Sequence[int],
    baseline_units: Sequence[Unit],
    alpha: float = 0.05,
) -> Bounds:
    """Score bounds of the difference of success of episodes that share no seeds, stratified by task.

    The difference is the mean of the tasks' differences, weighted as Mantel and Haenszel do: n m / (n + m), alike where
    all tasks have as many episodes. Its variance at a difference d is that of the rates that are likeliest where each
    task's difference is d or, of several tasks, that of the rates as they are, whichever is larger: the first alone
    errs in 9% of runs with 10 episodes of one policy, 60 of the other, and tasks that differ by .4 either way. Where
    units hold several episodes, each side has as many as would stray as far, and Student's t is in the place of the
    normal quantile. Source: Miettinen and Nurminen 1985, Statistics in Medicine 4, 213-226; corrected for continuity.

    Args:
        new: (n,), each 0 or 1.
        new_units: (n,), their tasks and seeds.
        baseline: (m,), likewise.
        baseline_units: (m,).
        alpha: of each bound, in (0, .5).

    Raises:
        ValueError: a side has no episode, lengths differ, a success is neither 0 nor 1, a task is on one side only, or
            alpha is out of range.
    """
    done, mine, theirs, others, freedom = _unpaired(new, new_units, baseline, baseline_units)
    quantile = np.asarray(student_quantile(freedom, 1 - 2 * alpha))
    value, lower, upper = stratified_bounds(done, mine, theirs, others, quantile)
    return Bounds(float(value), float(lower), float(upper), float(min(mine.sum(), others.sum())))


def unpaired_p(
    new: Sequence[int],
    new_units: Sequence[Unit],
    baseline: Sequence[int],
    baseline_units: Sequence[Unit],
    margin: float,
    times: float = 1.0,
) -> float:
    """One-sided p that success did not fall by `margin` or more, as `paired_p`, of episodes that share no seeds.

    Where `times` is given it is that of so many times as many like these.
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
) -> float:
    """One-sided p that success changed, of episodes that share no seeds: the larger of the exact one and the score's.

    The exact one (`stratified_p`) is of policies that are alike in each task, whatever the numbers; the score's of
    their mean over tasks, where tasks differ and one policy has more episodes. Arguments and errors are theirs.
    """
    exact = stratified_p(new, new_units, baseline, baseline_units, way)
    if way == "worse":
        return max(exact, unpaired_p(baseline, baseline_units, new, new_units, 0.0))
    return max(exact, unpaired_p(new, new_units, baseline, baseline_units, 0.0))


def stratified_bounds(
    new: Floats, new_n: Floats, baseline: Floats, baseline_n: Floats, quantile: Floats, correction: float = CORRECTION
) -> tuple[Floats, Floats, Floats]:
    """The weighted difference and its bounds (...,), of counts (..., tasks), at so many standard errors."""
    value = stratified_difference(new, new_n, baseline, baseline_n)

    def is_above(d: Floats) -> NDArray[np.bool_]:
        return stratified_statistic(new, new_n, baseline, baseline_n, d, correction) >= quantile

    def is_below(d: Floats) -> NDArray[np.bool_]:
        return stratified_statistic(baseline, baseline_n, new, new_n, d, correction) >= quantile

    return value, _last(is_above, value), -_last(is_below, -value)


def stratified_difference(new: Floats, new_n: Floats, baseline: Floats, baseline_n: Floats) -> Floats:
    """The mean of the tasks' differences, with Mantel and Haenszel's weights; counts (..., tasks)."""
    weights = new_n * baseline_n / (new_n + baseline_n)
    found: Floats = (weights * (new / new_n - baseline / baseline_n)).sum(-1) / weights.sum(-1)
    return found


def stratified_statistic(
    new: Floats, new_n: Floats, baseline: Floats, baseline_n: Floats, difference: ArrayLike, correction: float = 0.0
) -> Floats:
    """The score statistic, in standard errors, that the true difference is above `difference`; counts (..., tasks)."""
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


def tasks_bounds(differences: Sequence[int], units: Sequence[Unit], alpha: float = 0.05) -> Interval | None:
    """Lower and upper bound of the mean difference over tasks like these; None of too few tasks.

    What reports show as the interval over tasks like these (`pytest_vla.metrics.differences`), at 1 - 2 alpha.

    Raises:
        ValueError: as `paired_bounds`.
    """
    return difference_of(mean_difference(differences, units), 1 - 2 * alpha).tasks_interval


def _likeliest(x: Floats, n: Floats, y: Floats, m: Floats, d: Floats) -> Floats:
    """The baseline's likeliest rate where the new policy's is d above: the root of the likelihood's cubic."""
    third = n + m
    second = (n + 2 * m) * d - third - (x + y)
    first = (m * d - third - 2 * y) * d + (x + y)
    last = y * d * (1 - d)
    shift = second / (3 * third)
    q = shift**3 - first * second / (6 * third**2) + last / (2 * third)
    p = np.where(q >= 0, 1.0, -1.0) * np.sqrt(np.maximum(shift**2 - first / (3 * third), 1e-300))
    angle = (np.pi + np.arccos(np.clip(q / p**3, -1.0, 1.0))) / 3
    found: Floats = np.clip(2 * p * np.cos(angle) - shift, np.maximum(0.0, -d), np.minimum(1.0, 1.0 - d))
    return found


def _last(holds: Callable[[Floats], NDArray[np.bool_]], end: Floats) -> Floats:
    """The largest number in -1..end for which it holds, of what holds up to some number; -1 where it never does."""
    low, high = np.full(np.shape(end), -1.0), np.asarray(end, float)
    for _ in range(45):
        middle = (low + high) / 2
        held = holds(middle)
        low, high = np.where(held, middle, low), np.where(held, high, middle)
    return low


def _effective(counts: UnitCounts) -> tuple[float, float, float, float]:
    """Effective gained, lost and all pairs, and degrees of freedom."""
    lost, gained, units = counts
    n = sum(size * number for (_, size), number in units.items())
    number_of_units = sum(units.values())
    if number_of_units == n:
        return gained, lost, n, inf
    value = (gained - lost) / n
    size = sum(size * size * number for (_, size), number in units.items()) / n
    totals = fsum(number * (total - size * value) ** 2 for (total, size), number in units.items())
    worth = _worth_of(gained + lost - n * value * value, size, totals)
    return gained * worth, lost * worth, n * worth, max(number_of_units - 1, 1)


def _worth_of(strays: float, size: float, totals: float) -> float:
    """How much of an independent one each is worth, in (0, 1].

    The variance of one is divided by that between units, in each of which one more unit is counted whose errors are
    all 1: where nothing strays each unit is worth one, and the more strays the less that matters.

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
