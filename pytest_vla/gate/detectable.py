"""The smallest drop that a run would find, told before its first episode: simulated from the baseline's own episodes.

As `pytest_vla.gate.planning` simulates gates, of just the cases that the run has, and in a second: all simulated runs
are judged at once, units of several pairs by the score test alone, whose p is nearly always the larger of the two.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf

import numpy as np
from numpy.typing import NDArray

from pytest_vla.gate.baseline import Baseline
from pytest_vla.gate.comparable import matched
from pytest_vla.gate.manifest import planned_baseline
from pytest_vla.gate.planning import Group, groups_of_cases, kept_and_gone, success_of
from pytest_vla.gate.score import CORRECTION, tango_statistic
from pytest_vla.gate.stopping import Kind
from pytest_vla.gate.verdicts import Terms
from pytest_vla.plan.case import Case

POWER = 0.8
"""The share of runs in which a drop is to be found."""

SIMULATIONS = 1000
"""Of each drop: the share is found within 2.5 points (two standard errors)."""

Floats = NDArray[np.float64]


def smallest_drops(
    baseline: Baseline,
    cases: Iterable[Case] | Mapping[str, Case],
    run_seed: int,
    terms: Terms,
    generator: np.random.Generator,
) -> dict[str, int | None]:
    """By group the smallest drop that the run would call a regression in four of five runs, as `smallest_drop`.

    Args:
        baseline: with which it is compared.
        cases: that are to run, as `pytest_vla.gate.manifest.planned_baseline` takes them.
        run_seed: under which.
        terms: of the gate.
        generator: of the simulations.

    Returns:
        Nothing where no case is in both: of other seeds no pairs are simulated.
    """
    found = matched(baseline, planned_baseline(cases, run_seed))
    groups = groups_of_cases((pair.baseline for pair in found.pairs), terms.by)
    generators = generator.spawn(len(groups))
    return {
        group.name: smallest_drop(group, terms, len(groups), each)
        for group, each in zip(groups, generators, strict=True)
    }


def smallest_drop(group: Group, terms: Terms, groups: int, generator: np.random.Generator) -> int | None:
    """In whole points of success; None: not even the loss of all that the baseline does would be found so often.

    Args:
        group: of the baseline's episodes; the run has the same.
        terms: of the gate.
        groups: how many there are, as `pytest_vla.gate.planning.plan_group` has it.
        generator: of the simulations.
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
        return float(are_regressions(kinds, np.asarray(counts, float), terms, groups).mean()) >= POWER

    low, high = 0, int(100 * rate)
    if not high or not is_found(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_found(middle) else (middle, high)
    return high


def are_regressions(kinds: Sequence[Kind], counts: Floats, terms: Terms, groups: int) -> NDArray[np.bool_]:
    """Which gates say so, each on so many units of each kind (gates, kinds), as `pytest_vla.gate.planning.gate_on`."""
    margin = terms.margin / 100
    if margin >= 1.0:
        return np.zeros(len(counts), bool)
    lost_of, gained_of, size_of = (np.array([kind[place] for kind in kinds], float) for place in range(3))
    lost, gained, n = counts @ lost_of, counts @ gained_of, counts @ size_of
    if (size_of == 1).all():
        from scipy.special import bdtr

        worth, freedom = np.ones(len(counts)), np.full(len(counts), inf)
        p_worse = bdtr(gained, (gained + lost).astype(int), 0.5)
    else:
        worth, freedom = _worth(counts, gained_of - lost_of, size_of, lost + gained), np.maximum(counts.sum(1) - 1, 1)
        fell = tango_statistic(lost * worth, gained * worth, n * worth, 0.0, CORRECTION)
        p_worse = _upper_tail(fell, freedom)
    above = tango_statistic(gained * worth, lost * worth, n * worth, -margin, CORRECTION)
    found: NDArray[np.bool_] = (groups * p_worse <= terms.alpha) & (_upper_tail(above, freedom) > terms.alpha)
    return found


def _worth(counts: Floats, totals: Floats, sizes: Floats, differing: Floats) -> Floats:
    """What a pair is worth in each gate, as `pytest_vla.gate.score` has it: units of a kind have a sum and a size."""
    n = counts @ sizes
    value, size = counts @ totals / n, counts @ (sizes * sizes) / n
    strays = differing - n * value * value
    of_units = (counts * (totals - sizes * value[:, None]) ** 2).sum(1)
    found: Floats = np.minimum(1.0, (strays + size) / (of_units + size * size))
    return found


def _upper_tail(statistic: Floats, freedom: Floats) -> Floats:
    from scipy.special import ndtr, stdtr

    found: Floats = np.where(np.isinf(freedom), ndtr(-statistic), stdtr(np.minimum(freedom, 1e9), -statistic))
    return found
