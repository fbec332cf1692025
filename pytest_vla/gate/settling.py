"""How many episodes a new comparison takes, where a group is undecided.

The run that is undecided is not to be continued until it says something: each further look at it is a further chance to
err. Followed up to three times, "about so many more" made 7 to 13% false regressions at an alpha of 5%
(``python benchmarks/gate.py --only advice``). What is advised is a new comparison of a size that is fixed beforehand,
or a sequential gate.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import ceil

import numpy as np

from pytest_vla.gate.detectable import smallest_drop
from pytest_vla.gate.evidence import Sample
from pytest_vla.gate.planning import MOST_PAIRS, POWERS, fresh_pairs, group_of_sample
from pytest_vla.gate.score import unpaired_p
from pytest_vla.gate.verdicts import Group, Terms

SEED = 0
"""Of the simulations: the same group is told the same."""


def fresh_of(group: Group, terms: Terms, groups: int) -> int | None:
    """Return how many episodes a new comparison takes that is decided in four of five runs, if it goes on like a group.

    Args:
        group: that is undecided.
        terms: of the gate.
        groups: how many the gate has.

    Returns:
        Pairs; of unpaired episodes those of either side. None: the group has nothing to go by, or it takes more than
        `pytest_vla.gate.planning.MOST_PAIRS`.
    """
    if group.verdict != "undecided" or group.sample is None:
        return None
    is_paired = group.sample.new_units == group.sample.baseline_units
    return (_fresh_paired if is_paired else _fresh_unpaired)(group.sample, terms, groups)


def drop_of(group: Group, terms: Terms, names: Sequence[str]) -> int | None:
    """Return the smallest drop (points) that the pairs of an undecided group find in four of five runs.

    If no episode broke, it is the number that `pytest_vla.gate.detectable.smallest_drops` has before the first episode.

    Args:
        group: that is undecided.
        terms: of the gate.
        names: of all groups of the gate, in order.

    Returns:
        None: not even the loss of everything is found so often, or episodes are not pairs.
    """
    if group.sample is None or group.sample.new_units != group.sample.baseline_units:
        return None
    return _drop(group.sample, terms, len(names), names.index(group.name))


@lru_cache(maxsize=128)
def _drop(sample: Sample, terms: Terms, groups: int, place: int) -> int | None:
    generator = np.random.default_rng(SEED).spawn(groups)[place]
    return smallest_drop(group_of_sample(sample, is_of_baseline=True), terms, groups, generator)


@lru_cache(maxsize=128)
def _fresh_paired(sample: Sample, terms: Terms, groups: int) -> int | None:
    return fresh_pairs(sample, terms, groups, np.random.default_rng(SEED))


def _fresh_unpaired(sample: Sample, terms: Terms, groups: int) -> int | None:
    from scipy.special import ndtr, ndtri

    ours, theirs = (sample.new, sample.new_units), (sample.baseline, sample.baseline_units)

    def least(alpha: float) -> float:
        """A p that small lies as many standard errors above the alpha's as four of five runs reach."""
        return float(ndtr(ndtri(alpha) - ndtri(POWERS[0])))

    def settles(times: float) -> bool:
        if terms.margin >= 100.0 or unpaired_p(*ours, *theirs, terms.margin / 100, times) <= least(terms.alpha):
            return True
        ways = (theirs, ours, -terms.beyond), (ours, theirs, 0.0)
        return any(unpaired_p(*one, *other, at, times) <= least(terms.alpha / groups) for one, other, at in ways)

    return _fewest(len(sample.new), settles)


def _fewest(number: int, settles: Callable[[float], bool]) -> int | None:
    """Return the fewest episodes of which it is settled, from some multiple of `number` on."""
    low, high = 0, number
    while not settles(high / number):
        if high >= MOST_PAIRS:
            return None
        low, high = high, min(2 * high, MOST_PAIRS)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if settles(middle / number) else (middle, high)
    return max(ceil(high), 1)
