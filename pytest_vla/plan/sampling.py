"""Which cases a sample has, where not all that are asked for are run. Pure: no simulator, no pytest."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_vla.plan.case import Case


@dataclass(frozen=True)
class Stratum:
    """What a sample is spread evenly over, in this order. What is empty is not told apart.

    Attributes:
        dimension: what is varied, such as ``camera``, or ``camera+light``.
        kind: how, within the dimension.
        level: how much, or which of a kind's several; where nothing is varied, the level of the task.
        task: its `Case.task_key`.
    """

    dimension: str = ""
    kind: str = ""
    level: str = ""
    task: str = ""


def of_task(case: Case) -> Stratum:
    """Where nothing is varied."""
    return Stratum(level=case.task_level, task=case.task_key)


def sample(
    cases: Sequence[Case], count: int, seed: int, stratum: Callable[[Case], Stratum] = of_task
) -> tuple[Case, ...]:
    """Cases that are spread evenly over dimensions first, then over kinds, levels and tasks; in the cases' order.

    One by one they are drawn from where there are fewest yet: the dimension, of its kinds, of that one's levels, of
    that one's tasks. Of several with as few it is the level, the task, and the task and seed that the dimension has
    least of. Then a task and seed goes before that another dimension has: its benign twin is run already, and
    dimensions are compared on the same episodes. The rest is by lot. What has fewer cases than its share gives all.

    A sample is part of every larger one that is drawn from the same cases by the same seed.

    Args:
        cases: to draw from.
        count: how many, at most.
        seed: of the lot.
        stratum: of a case.
    """
    if count >= len(cases):
        return tuple(cases)
    lot = random.Random(seed)
    strata, numbers = [stratum(case) for case in cases], [lot.random() for _ in cases]
    leaves: dict[tuple[str, str, str], list[int]] = {}
    for index, each in enumerate(strata):
        leaves.setdefault((each.dimension, each.kind, each.level), []).append(index)
    nodes = {node for leaf in leaves for node in (leaf[:1], leaf[:2], leaf)}
    number = {node: lot.random() for node in sorted(nodes)}
    nested: Counter[tuple[str, ...]] = Counter()
    levels: Counter[tuple[str, str]] = Counter()
    tasks: Counter[tuple[str, str]] = Counter()
    units: Counter[tuple[str, str, int]] = Counter()
    anywhere: set[tuple[str, int]] = set()

    def of_leaf(leaf: tuple[str, str, str]) -> tuple[float, ...]:
        dimension, _, level = leaf
        # A dimension's number before its kinds' counts: kinds are compared within one dimension only.
        first, second = ((nested[node], number[node]) for node in (leaf[:1], leaf[:2]))
        return (*first, *second, nested[leaf], levels[dimension, level], number[leaf])

    def of_case(index: int) -> tuple[float, ...]:
        each, case = strata[index], cases[index]
        if not each.task:
            return (numbers[index],)
        unit, dimension = (each.task, case.seed), each.dimension
        within = nested[dimension, each.kind, each.level, each.task]
        counts = within, tasks[dimension, each.task], units[dimension, *unit]
        return (*counts, unit not in anywhere, numbers[index])

    chosen = []
    for _ in range(count):
        leaf = min(leaves, key=of_leaf)
        index = min(leaves[leaf], key=of_case)
        chosen.append(index)
        leaves[leaf].remove(index)
        if not leaves[leaf]:
            del leaves[leaf]
        task, case_seed = strata[index].task, cases[index].seed
        nested.update([leaf[:1], leaf[:2], leaf, (*leaf, task)])
        levels[leaf[0], leaf[2]] += 1
        tasks[leaf[0], task] += 1
        units[leaf[0], task, case_seed] += 1
        anywhere.add((task, case_seed))
    return tuple(cases[index] for index in sorted(chosen))
