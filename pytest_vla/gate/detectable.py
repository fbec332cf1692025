"""The smallest drop that a run would find, told before its first episode: simulated from the baseline's own episodes.

As `pytest_vla.gate.planning` simulates gates, of just the cases that the run has, and in a second.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from pytest_vla.gate.baseline import Baseline
from pytest_vla.gate.comparable import matched
from pytest_vla.gate.manifest import planned_baseline
from pytest_vla.gate.planning import Group, gates_on, groups_of_cases, kept_and_gone, success_of
from pytest_vla.gate.verdicts import Terms
from pytest_vla.plan.case import Case

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
