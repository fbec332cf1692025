"""Makes the parts of a report that are on variations, of records."""

import numpy as np

from pytest_vla.metrics.composition import compositions
from pytest_vla.metrics.robustness import cells, twin_pairs, varied_models
from pytest_vla.metrics.robustness_curves import curves
from pytest_vla.metrics.robustness_results import ModelRobustness
from pytest_vla.reports.loaded import SEED, Loaded, runs_of, unfinished_of
from pytest_vla.vary.registry import evenness_of


def make_robustness(loaded: Loaded) -> tuple[ModelRobustness, ...]:
    """Success under variations, of each model and suite that has any; see `pytest_vla.metrics.robustness`."""
    found = []
    for varied in varied_models(loaded.records):
        # Of each model its own, so that its numbers do not depend on what else is reported.
        generator = np.random.default_rng(SEED)
        pairs, unpaired = twin_pairs(varied)
        by_level, harm, mixed = curves(varied, pairs, generator)
        joint, incomplete = compositions(varied)
        runs = runs_of(varied.episodes, loaded)
        left_out = (*varied.left_out, *unfinished_of(varied.episodes, loaded), *unpaired, *mixed, *incomplete)
        left_out += evenness_of(str(record.variation.get("label")) for record in varied.episodes)
        measured = cells(varied, pairs)
        found.append(
            ModelRobustness(
                varied.model, varied.suite, runs, measured, by_level, harm, joint, left_out, varied.protocol
            )
        )
    return tuple(found)
