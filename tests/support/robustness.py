"""Success under variations of made records."""

from collections.abc import Sequence

import numpy as np

from pytest_vla.metrics.robustness import RobustnessCell, Varied, cells, twin_pairs, varied_models
from pytest_vla.metrics.robustness_curves import Curve, Harm, curves
from pytest_vla.records.record import Record
from tests.support.varied import varied


def one(records: Sequence[Record]) -> Varied:
    (found,) = varied_models(records)
    return found


def cells_of(records: Sequence[Record]) -> dict[tuple[str, str, int | None], RobustnessCell]:
    found = one(records)
    made = cells(found, twin_pairs(found)[0])
    return {(cell.dimension, cell.kind, cell.level): cell for cell in made}


def curves_of(records: Sequence[Record]) -> tuple[dict[str, Curve], Harm | None, tuple[str, ...]]:
    found = one(records)
    made, harm, notes = curves(found, twin_pairs(found)[0], np.random.default_rng(0))
    return {curve.dimension: curve for curve in made}, harm, notes


def run_of(label: str, outcomes: Sequence[bool], task: str = "a_task") -> list[Record]:
    """An episode of each seed."""
    return [varied(label, outcome, task, seed) for seed, outcome in enumerate(outcomes)]
