"""The test of paired success over these tasks, its p values and its bounds: Gaffke's test of a bounded mean.

Pairs of one task and seed are one unit, and units are independent. The test weighs the units by lot (exponential
weights, as the Bayesian bootstrap does) together with one unit that was not seen and goes the other way. Its p is the
share of lots in which the seen units do not outweigh the unseen one. Where each unit is one pair, the test against no
change is McNemar's exact test, one-sided. Where all of n units lose everything, the p is 1 / 2^n. Sources: Gaffke 2005,
Mathematical Methods of Statistics 14, 451-467; Learned-Miller and Thomas 2020, arXiv:1905.06208.

How far the unseen unit goes is the `Reach` of the test:

- ``no worse`` takes it to lose all of its pairs: units of n pairs that all end as before may hide one that loses all n.
- ``regression`` and ``better`` take it to go the other way in `SHARE` of its pairs. Where fewer than about twenty units
  have many pairs, it goes less far (`FEW`), since no test could otherwise find what ten starts lose in common. It
  never goes less far than the unit that changed most.

``python benchmarks/gate.py --only starts`` counts false claims and power of 3 to 50 units of 1 to 50 pairs, beside the
plain test that flips the signs of units. If both policies are alike in each unit, or if there are twenty units, at most
about alpha of the claims are false (6%). With 5 to 15 units of 10 to 50 pairs up to 30% are, if up to one unit in five
gains everything while all others lose more than a tenth. A test that held there would be blind to every such loss.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pytest_vla.metrics.clustered import Interval, Unit
from pytest_vla.metrics.differences import difference_of, mean_difference

Way = Literal["worse", "better"]
"""What a small p speaks for: the new policy succeeds less often than the baseline, or more often."""
WAYS: tuple[Way, ...] = get_args(Way)

SHARE = 0.8
"""Of its pairs the unseen unit changes. By simulation: with .6 claims err in up to 9% of runs, with 1 in 4%."""

FEW = 2.0
"""Of fewer units: standard deviations of as many pairs that all differ by chance, times (units / 10)^1.5 above ten."""

_TENS = 10.0

_ONE, _MANY = (121, 10.0), (21, 4.0)
"""Of the contour integral: a gate's p is found to ten digits, those of many at once, which are simulated, to 0.2%."""

_HALVINGS = 16

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bounds:
    """A difference of success, new less baseline, with one bound each way.

    Attributes:
        value: -1..1.
        lower: the true difference is below this in at most alpha of such runs; -1..1.
        upper: the true difference is above this in at most alpha of such runs; -1..1.
    """

    value: float
    lower: float
    upper: float


class UnitCounts(NamedTuple):
    """Paired episodes as the tests take them.

    Attributes:
        lost: pairs in which only the baseline succeeded.
        gained: pairs in which only the new policy did.
        units: how many units there are by the sum of differences and the number of pairs of a unit; numbers that are
            not whole are multiples of what was seen (`pytest_vla.gate.episodes_needed`).
    """

    lost: float
    gained: float
    units: Mapping[tuple[int, int], float]


def counted_units(differences: Sequence[int], units: Sequence[Unit]) -> UnitCounts:
    """Count the units of each kind.

    Args:
        differences: (n,), each -1, 0 or 1: the new policy's success less the baseline's.
        units: (n,), the task and the seed of each pair.

    Raises:
        ValueError: there is no pair, lengths differ, or a difference is none of -1, 0 and 1.
    """
    n = len(differences)
    if not n or n != len(units):
        raise ValueError(f"{n} differences, {len(units)} units: expected as many, at least 1")
    if odd := [each for each in differences if each not in (-1, 0, 1)]:
        raise ValueError(f"{odd[:3]}: expected differences of -1, 0 or 1")
    sums: dict[Unit, tuple[int, int]] = {}
    for unit, difference in zip(units, differences, strict=True):
        total, size = sums.get(unit, (0, 0))
        sums[unit] = total + int(difference), size + 1
    counts: dict[tuple[int, int], float] = {}
    for kind in sums.values():
        counts[kind] = counts.get(kind, 0) + 1
    return UnitCounts(differences.count(-1), differences.count(1), counts)


class Kinds(NamedTuple):
    """Kinds of units: the sums of their pairs' differences and their numbers of pairs, each (kinds,)."""

    totals: Floats
    sizes: Floats


def changed_p(counts: UnitCounts, way: Way, beyond: float = 0.0) -> float:
    """Return the one-sided p that success did not change by more than `beyond`, 0..1, that way.

    Returns:
        In [0, 1]; 1.0 where no unit goes that way, and where `beyond` is 1.
    """
    return float(changed_ps(*_arrays(counts), way, beyond)[0])


def no_worse_p(counts: UnitCounts, margin: float) -> float:
    """Return the one-sided p that success fell by `margin` or more; 0.0 where `margin` is 1."""
    return float(no_worse_ps(*_arrays(counts), margin)[0])


def changed_ps(kinds: Kinds, counts: ArrayLike, way: Way, beyond: float = 0.0) -> Floats:
    """Return `changed_p` of several gates at once.

    Args:
        kinds: of units.
        counts: (gates, kinds), how many units of each kind a gate has.
        way: as `changed_p`.
        beyond: as `changed_p`.

    Returns:
        (gates,).
    """
    numbers = np.asarray(counts, float)
    if beyond >= 1.0:
        return np.ones(len(numbers))
    turned = kinds if way == "better" else Kinds(-kinds.totals, kinds.sizes)
    return _above_p(turned, numbers, beyond, _reach(turned, numbers, is_change=True))


def no_worse_ps(kinds: Kinds, counts: ArrayLike, margin: float) -> Floats:
    """Return `no_worse_p` of several gates at once, as `changed_ps`. What is shown to be better is no worse."""
    numbers = np.asarray(counts, float)
    if margin >= 1.0:
        return np.zeros(len(numbers))
    found = _above_p(kinds, numbers, -margin, _reach(kinds, numbers, is_change=False))
    return np.minimum(found, changed_ps(kinds, numbers, "better"))


def paired_bounds(differences: Sequence[int], units: Sequence[Unit], alpha: float = 0.05) -> Bounds:
    """Return the mean difference of pairs with a bound each way, over these tasks.

    Bounds agree with the p values: success is shown to have fallen by more than a margin if the upper bound is below
    minus the margin, and shown not to have fallen by it if the lower bound is above.

    Args:
        differences: as `counted_units`.
        units: as `counted_units`.
        alpha: of each bound, in (0, .5).

    Raises:
        ValueError: as `counted_units`, or alpha is out of range.
    """
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha {alpha}: expected a number between 0 and .5")
    counts = counted_units(differences, units)
    kinds, numbers = _arrays(counts)
    value = sum(differences) / len(differences)
    lower = _lower_bound(kinds, numbers, alpha, value)
    upper = -_lower_bound(Kinds(-kinds.totals, kinds.sizes), numbers, alpha, -value)
    return Bounds(value, lower, upper)


def tasks_bounds(differences: Sequence[int], units: Sequence[Unit], alpha: float = 0.05) -> Interval | None:
    """Return the lower and upper bound of the mean difference over tasks like these; None of too few tasks.

    What reports show as the interval over tasks like these (`pytest_vla.metrics.differences`), at 1 - 2 alpha.

    Raises:
        ValueError: there is no pair, or lengths differ.
    """
    return difference_of(mean_difference(differences, units), 1 - 2 * alpha).tasks_interval


def _arrays(counts: UnitCounts) -> tuple[Kinds, Floats]:
    found = np.array([(*kind, number) for kind, number in counts.units.items()], float)
    return Kinds(found[:, 0], found[:, 1]), found[None, :, 2]


def _reach(kinds: Kinds, counts: Floats, *, is_change: bool) -> Floats:
    """Return how many pairs the unseen unit changes, (gates,)."""
    largest = np.where(counts > 0, np.abs(kinds.totals), 0.0).max(-1)
    # The number of pairs of a unit, as it is on average for a pair.
    size = counts @ (kinds.sizes * kinds.sizes) / np.maximum(counts @ kinds.sizes, 1e-300)
    if is_change:
        grown = np.maximum(counts.sum(-1) / _TENS, 1.0) ** 1.5
        size = np.minimum(SHARE * size, FEW * np.sqrt(size) * grown)
    found: Floats = np.maximum(np.maximum(largest, size), 1.0)
    return found


def _above_p(kinds: Kinds, counts: Floats, null: float, reach: Floats) -> Floats:
    """Return the p (gates,) that the mean difference is at most `null`, in (-1, 1).

    It is P(sum of E_i r_i <= E_0 reach (1 + null)) with independent exponential E, where r_i is by how much the unit i
    is above the null. With M(s) the moment generating function of the difference it is the integral of -M(s) / s over
    a line left of 0, here through about the saddle point, where the integrand falls fastest.
    """
    # A kind that a gate has none of is nowhere.
    above = np.where(counts > 0, kinds.totals - null * kinds.sizes, 0.0)
    against = reach * (1.0 + null)
    # Only ratios matter.
    scale = max(float(np.abs(above).max()), 1e-9)
    above, against = above / scale, against / scale
    is_ever = above.max(-1) > 1e-12
    lowest = -1.0 / np.maximum(against, (-above).max(-1))

    def slope(s: Floats) -> Floats:
        found: Floats = (counts * above / (1 - s[:, None] * above)).sum(-1) - against / (1 + s * against) - 1 / s
        return found

    # On a logistic scale between the nearest pole and 0.
    low, high = np.full(len(counts), -34.0), np.full(len(counts), 34.0)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_right = slope(lowest / (1 + np.exp(-middle))) < 0
        low, high = np.where(is_right, low, middle), np.where(is_right, middle, high)
    at = lowest / (1 + np.exp(-(low + high) / 2))
    curve = (counts * (above / (1 - at[:, None] * above)) ** 2).sum(-1) + (against / (1 + at * against)) ** 2 + at**-2
    nodes, width = _ONE if len(counts) == 1 else _MANY
    x = np.linspace(0.0, width, nodes)
    weights = np.where((x == 0.0) | (x == width), 0.5, 1.0) * (x[1] - x[0]) * np.cosh(x)
    step = curve**-0.5
    s = at[:, None] + 1j * step[:, None] * np.sinh(x)
    logs = -np.log(1 + s * against[:, None]) - np.log(-s)
    for place in np.flatnonzero(above.any(0)):
        logs -= counts[:, place, None] * np.log(1 - s * above[:, place, None])
    found: Floats = (np.exp(logs).real @ weights) * step / np.pi
    return np.where(is_ever, np.clip(found, 0.0, 1.0), 1.0)


def _lower_bound(kinds: Kinds, counts: Floats, alpha: float, value: float) -> float:
    """Return the largest difference that the mean is shown to be above; -1 where there is none."""
    from scipy.optimize import brentq

    is_change = float(changed_ps(kinds, counts, "better")[0]) <= alpha
    reach = _reach(kinds, counts, is_change=is_change)

    def excess(null: float) -> float:
        return log(max(float(_above_p(kinds, counts, null, reach)[0]), 1e-300) / alpha)

    least, most = (0.0, value) if is_change else (-1.0 + 1e-9, min(value, 0.0))
    # At the mean itself nothing is shown, but what rounding shows.
    if excess(least) >= 0.0:
        return 0.0 if is_change else -1.0
    return float(brentq(excess, least, most, xtol=1e-10)) if excess(most) > 0.0 else most
