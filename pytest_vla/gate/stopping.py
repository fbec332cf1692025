"""When a sequential gate would stop: simulated in whole rounds, with the p values by which it does."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pytest_vla.gate.choices import Verdict
from pytest_vla.gate.verdicts import Terms
from pytest_vla.gate.wealth import running_p

SIMULATIONS = 200
"""Mean numbers of pairs are found within about a tenth, and shares of runs within 7 points (two standard errors)."""

_MOST_DRAWN = 100_000
"""Units in all simulations, that a plan is told at once: of long runs, which differ less, there are fewer."""


class Kind(NamedTuple):
    """What tests take of a unit: its pairs that were lost, those that were gained, and all."""

    lost: int
    gained: int
    pairs: int


class Stops(NamedTuple):
    """What becomes of sequential gates.

    Attributes:
        pairs: that they take on average.
        share: of them that say what is right.
    """

    pairs: float
    share: float


def simulated_stops(
    tasks: Sequence[Mapping[Kind, float]],
    right: Sequence[Verdict],
    rounds: int,
    terms: Terms,
    groups: int,
    generator: np.random.Generator,
) -> Stops:
    """When a group stops of which no regression is asked for.

    Args:
        tasks: of each the probability of each kind of unit.
        right: the verdicts that are right.
        rounds: that there are at most.
        terms: of the gate.
        groups: how many there are, see `pytest_vla.gate.planning.plan_group`.
        generator: of the simulations.
    """
    kinds = sorted({kind for task in tasks for kind in task})
    means = np.array([(kind.gained - kind.lost) / kind.pairs for kind in kinds])
    runs = min(SIMULATIONS, max(_MOST_DRAWN // (rounds * len(tasks)), 20))
    drawn = []
    for task in tasks:
        shares = np.array([task.get(kind, 0.0) for kind in kinds])
        drawn.append(means[generator.choice(len(kinds), (runs, rounds), p=shares / shares.sum())])
    x, margin = np.stack(drawn, axis=-1), terms.margin / 100
    worse = groups * running_p(x, "regression", terms.beyond) <= terms.alpha
    better = groups * running_p(x, "better") <= terms.alpha
    within = running_p(x, "no worse", margin) <= terms.alpha if margin < 1.0 else np.ones(x.shape[:2], bool)
    stops = worse | better | within
    at = np.where(stops[:, -1], stops.argmax(axis=1), rounds - 1)
    place = np.arange(runs), at
    verdicts = np.select(
        [worse[place], better[place], within[place]], ["regression", "better", "no worse"], "undecided"
    )
    per_round = sum(share * kind.pairs for task in tasks for kind, share in task.items())
    return Stops(float((at + 1).mean() * per_round), float(np.isin(verdicts, list(right)).mean()))
