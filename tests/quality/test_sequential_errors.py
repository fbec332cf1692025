"""How often the sequential gate errs as it is built: the order is drawn, groups stop by rounds, Holm corrects.

Simulated policies whose difference is known: at most alpha is promised, and three standard errors of so many runs are
for luck. Effects of tasks differ and average to the null. Where the seeds drift too, tasks that gain from the first
half of them lose from the other.
"""

from dataclasses import dataclass
from math import sqrt

import numpy as np
import pytest

from pytest_vla.gate.order import Order, PlannedCase, draw_order, generator_of
from pytest_vla.gate.sequential import GroupStatus, standings
from pytest_vla.gate.verdicts import Terms

TERMS = Terms(margin=10.0)


@dataclass(frozen=True)
class Design:
    """Runs of two policies.

    Attributes:
        groups: how many.
        tasks: of each.
        seeds: of each task.
        effect: half of the tasks gain so much and half lose it, beside the mean.
        discordance: the share of pairs that differ, at least.
        drift: which half gains is the other from the second half of the seeds.
        broken: the share of failures of the new policy that are errors instead.
    """

    groups: int
    tasks: int = 4
    seeds: int = 20
    effect: float = 0.15
    discordance: float = 0.3
    drift: bool = False
    broken: float = 0.0


def simulated(design: Design, mean: float, runs: int, required: str = "no-regression") -> list[dict[str, GroupStatus]]:
    """Where the groups of so many runs stand in the end; success falls by -mean in each group."""
    generator = np.random.default_rng(1)
    side = np.where(np.arange(design.tasks) % 2, 1.0, -1.0)[:, None]
    turned = np.where(design.drift & (np.arange(design.seeds) >= design.seeds // 2), -1.0, 1.0)
    effects = mean + design.effect * side * turned
    discordance = np.maximum(design.discordance, np.abs(effects))
    lost, gained = (discordance - effects) / 2, (discordance + effects) / 2
    shape = (design.groups, design.tasks, design.seeds)
    planned = [PlannedCase(f"g{g}", f"s/{t}", s, f"s/{t}[{g}-seed{s}]") for g, t, s in np.ndindex(*shape)]
    cases = [each.case for each in planned]
    found = []
    for run in range(runs):
        order = draw_order(planned, generator_of(run, cases))
        lot, both = generator.random(shape), generator.random(shape) < 0.7
        baseline = (lot < lost) | ((lot <= 1 - gained) & both)
        new = (lot > 1 - gained) | ((lot >= lost) & both)
        breaks = ~new & (generator.random(shape) < design.broken)
        found.append(stood(order, cases, baseline, new, breaks, required))
    return found


def stood(
    order: Order, cases: list[str], baseline: np.ndarray, new: np.ndarray, breaks: np.ndarray, required: str
) -> dict[str, GroupStatus]:
    words = np.array(["failure", "success"])
    of_baseline, of_new = words[baseline.astype(int).ravel()], words[new.astype(int).ravel()]
    of_new = np.where(breaks.ravel(), "error", of_new)
    sides = [dict(zip(cases, side.tolist(), strict=True)) for side in (of_baseline, of_new)]
    return standings(order, sides[0], sides[1], TERMS, required)


def most(runs: int) -> float:
    return 0.05 + 3 * sqrt(0.05 * 0.95 / runs)


def share_of(verdict: str, found: list[dict[str, GroupStatus]]) -> float:
    """Of runs in which any group is called that."""
    return float(np.mean([any(each.verdict == verdict for each in run.values()) for run in found]))


def test_a_quick_look() -> None:
    runs = simulated(Design(2), 0.0, 200)
    assert max(share_of("regression", runs), share_of("better", runs)) <= most(200)
    assert share_of("no worse", simulated(Design(1), -0.1, 200)) <= most(200)


def test_what_is_true_is_found() -> None:
    fallen = simulated(Design(2, effect=0.05, discordance=0.1), -0.3, 100)
    assert share_of("regression", fallen) > 0.95
    assert np.mean([run["g0"].rounds for run in fallen]) < 12
    same = simulated(Design(1, seeds=40, effect=0.0, discordance=0.02), 0.0, 100)
    assert share_of("no worse", same) > 0.9
    assert np.mean([run["g0"].rounds for run in same]) < 20


@pytest.mark.slow
@pytest.mark.parametrize(
    ("design", "runs"),
    [(Design(2, drift=True), 1000), (Design(5), 400), (Design(2, broken=0.1), 300)],
    ids=str,
)
def test_no_group_is_called_what_it_is_not(design: Design, runs: int) -> None:
    """Of runs in which no group is worse, any is called so; and of each group that falls by the margin, no worse."""
    worse = share_of("regression", simulated(design, 0.0, runs))
    fallen = simulated(design, -TERMS.margin / 100, runs)
    no_worse = float(np.mean([run["g0"].verdict == "no worse" for run in fallen]))
    print(f"{design}: regression {worse:.4f}, no worse {no_worse:.4f} of {runs}")
    assert max(worse, no_worse) <= most(runs)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [2, 5])
def test_nor_where_nothing_but_a_change_stops_it(groups: int) -> None:
    """Where better is asked for, a group that is no worse goes on: the most looks at either claim."""
    runs = 2000 // groups
    found = simulated(Design(groups), 0.0, runs, "better")
    worse, better = share_of("regression", found), share_of("better", found)
    print(f"{groups} groups: regression {worse:.4f}, better {better:.4f} of {runs}")
    assert max(worse, better) <= most(runs)
