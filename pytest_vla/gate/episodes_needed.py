"""How many episodes a new comparison needs if a group is undecided, and the smallest drop a run can show.

The undecided run must not be continued until it shows something: each further look at it is a further chance to err.
Followed up to three times, "about so many more" made 7 to 13% false regressions at an alpha of 5%
(``python benchmarks/gate.py --only advice``). The advice is a new comparison with a size that is fixed beforehand, or a
sequential gate.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import ceil

import numpy as np

from pytest_vla.gate.baseline import Baseline
from pytest_vla.gate.comparable import matched
from pytest_vla.gate.evidence import GroupOutcomes
from pytest_vla.gate.manifest import planned_baseline
from pytest_vla.gate.planning import (
    MOST_PAIRS,
    POWERS,
    PlanGroup,
    fresh_pairs,
    gates_on,
    group_of_sample,
    groups_of_cases,
    kept_and_gone,
    success_of,
)
from pytest_vla.gate.score import unpaired_p
from pytest_vla.gate.verdicts import GateGroup, Terms
from pytest_vla.plan.case import Case

# The smallest drop that a run would find, told before its first episode: simulated from the baseline's own episodes.
#
# As `pytest_vla.gate.planning` simulates gates, of just the cases that the run has, and in a second.

POWER = 0.8
"""The share of runs in which a drop is to be found."""

SIMULATIONS = 1000
"""Of each drop: the share is found within 2.5 points (two standard errors)."""


def smallest_drops(
    baseline: Baseline,
    cases: Iterable[Case] | Mapping[str, Case],
    run_seed: int,
    terms: Terms,
    generator: np.random.Generator,
) -> dict[str, int | None]:
    """Compute for each group the smallest drop that the run would find in four of five runs, as `smallest_drop`.

    Args:
        baseline: with which the run is compared.
        cases: that are to run, as `pytest_vla.gate.manifest.planned_baseline` takes them.
        run_seed: under which they run.
        terms: of the gate.
        generator: draws the simulations.

    Returns:
        By group name; empty if no case is in both, since unpaired episodes are not simulated.
    """
    found = matched(baseline, planned_baseline(cases, run_seed))
    groups = groups_of_cases((pair.baseline for pair in found.pairs), terms.by)
    generators = generator.spawn(len(groups))
    return {
        group.name: smallest_drop(group, terms, len(groups), each)
        for group, each in zip(groups, generators, strict=True)
    }


def smallest_drop(group: PlanGroup, terms: Terms, groups: int, generator: np.random.Generator) -> int | None:
    """Compute the smallest drop found in four of five runs, or None if not even a total loss is found so often.

    Args:
        group: of the baseline's episodes; the run has the same.
        terms: of the gate.
        groups: how many there are, as in `pytest_vla.gate.planning.plan_group`.
        generator: draws the simulations.

    Returns:
        Whole percentage points of success.
    """
    tasks, rate = kept_and_gone(group), success_of(group)
    kinds = tuple(sorted({kind for task in tasks for some in task for kind in some}))
    kept, gone = (np.array([[task[way].get(kind, 0.0) for kind in kinds] for task in tasks]) for way in (0, 1))
    seeds = [len(units) for units in group.tasks.values()]
    state = generator.bit_generator.state

    def is_found(drop: int) -> bool:
        # The same draws for each drop: what is found of one is found of a larger one.
        generator.bit_generator.state = state
        lost = min(drop / 100 / rate, 1.0)
        shares = (1 - lost) * kept + lost * gone
        counts = sum(
            generator.multinomial(number, each / each.sum(), SIMULATIONS)
            for number, each in zip(seeds, shares, strict=True)
        )
        rows, times = np.unique(counts, axis=0, return_counts=True)
        said = gates_on(kinds, rows.astype(float), terms, groups)
        return float(times @ (said == "regression")) / SIMULATIONS >= POWER

    low, high = 0, int(100 * rate)
    if not high or not is_found(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high


SEED = 0
"""Of the simulations: the same group is told the same."""


def fresh_of(group: GateGroup, terms: Terms, groups: int) -> int | None:
    """Return how many episodes decide a new comparison in four of five runs, if it is like an undecided group.

    Args:
        group: the undecided group.
        terms: of the gate.
        groups: how many the gate has.

    Returns:
        Pairs, or for unpaired episodes those of either side. None if the group has no data, or if more than
        `pytest_vla.gate.planning.MOST_PAIRS` are needed.
    """
    if group.verdict != "undecided" or group.sample is None:
        return None
    is_paired = group.sample.new_units == group.sample.baseline_units
    return (_fresh_paired if is_paired else _fresh_unpaired)(group.sample, terms, groups)


def drop_of(group: GateGroup, terms: Terms, names: Sequence[str]) -> int | None:
    """Return the smallest drop (points) that the pairs of an undecided group find in four of five runs.

    If no episode was an error or invalid, it is the number that `smallest_drops` computes before the first episode.

    Args:
        group: the undecided group.
        terms: of the gate.
        names: of all groups of the gate, in order.

    Returns:
        None if not even a total loss is found so often, or if episodes are not pairs.
    """
    if group.sample is None or group.sample.new_units != group.sample.baseline_units:
        return None
    return _drop(group.sample, terms, len(names), names.index(group.name))


@lru_cache(maxsize=128)
def _drop(sample: GroupOutcomes, terms: Terms, groups: int, place: int) -> int | None:
    generator = np.random.default_rng(SEED).spawn(groups)[place]
    return smallest_drop(group_of_sample(sample, is_of_baseline=True), terms, groups, generator)


@lru_cache(maxsize=128)
def _fresh_paired(sample: GroupOutcomes, terms: Terms, groups: int) -> int | None:
    return fresh_pairs(sample, terms, groups, np.random.default_rng(SEED))


def _fresh_unpaired(sample: GroupOutcomes, terms: Terms, groups: int) -> int | None:
    from scipy.special import ndtr, ndtri

    ours, theirs = (sample.new, sample.new_units), (sample.baseline, sample.baseline_units)

    def least(alpha: float) -> float:
        """Return the p that lies as many standard errors beyond alpha as four of five runs reach."""
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
