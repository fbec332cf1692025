"""What is known of models under variations: what a report of it shows, and which rows of it say something."""

from dataclasses import dataclass

from pytest_vla.metrics.composition import Composition
from pytest_vla.metrics.failure_types import USUAL_TAU, Tau
from pytest_vla.metrics.robustness import Cell
from pytest_vla.metrics.robustness_curves import Curve, Harm
from pytest_vla.metrics.robustness_failures import DimensionFailures

SEEN = 50
"""Points: a row that cannot show a change of so much, and whose interval holds 0, says nothing by itself."""


@dataclass(frozen=True)
class ModelRobustness:
    """What is known of one model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        runs: names of those that it was made from.
        cells: success by dimension, kind and level.
        curves: by dimension.
        harm: the largest drop; None without pairs.
        pairs: of dimensions, with their compositional gap.
        left_out: what is not in the numbers, and why.
        protocol: as the paper or as upstream's code has it, where the suite has both; else empty.
        failures: how it failed, of each dimension in which it did.
        algorithm: what tells near failures from far ones.
        tau: how its threshold is made.
        pooled: the pairs of dimensions over all suites of the model; empty if fewer than two suites have any.
        pooled_suites: the names of these suites.
    """

    model: str
    suite: str
    runs: tuple[str, ...]
    cells: tuple[Cell, ...]
    curves: tuple[Curve, ...]
    harm: Harm | None
    pairs: tuple[Composition, ...]
    left_out: tuple[str, ...]
    protocol: str = ""
    failures: tuple[DimensionFailures, ...] = ()
    algorithm: str = ""
    pooled: tuple[Composition, ...] = ()
    pooled_suites: tuple[str, ...] = ()
    tau: Tau = USUAL_TAU


def says_something(cell: Cell) -> bool:
    """Whether a row tells more than that there are too few episodes of it."""
    if cell.is_few:
        return False
    change = cell.difference
    if change is None:
        return True
    if change.interval is not None and not change.interval[0] <= 0 <= change.interval[1]:
        return True
    return change.detectable is not None and change.detectable <= SEEN
