"""Makes the parts of a report that are on variations, of records."""

import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pytest_vla.metrics.composition import compositions, pooled_compositions
from pytest_vla.metrics.failure_types import USUAL_TAU, Algorithm, Tau, usual_algorithm
from pytest_vla.metrics.robustness import Varied, cells, grouped, twin_pairs, varied_models
from pytest_vla.metrics.robustness_curves import curves
from pytest_vla.metrics.robustness_results import ModelRobustness, dimension_failures
from pytest_vla.reports.loaded import SEED, Loaded, runs_of, unfinished_of
from pytest_vla.reports.paths import path_loader, unread_lines
from pytest_vla.util.live_line import told_when_slow
from pytest_vla.util.text import counted
from pytest_vla.vary.registry import evenness_of


def make_robustness(
    loaded: Loaded, algorithm: Algorithm | None = None, tau: Tau = USUAL_TAU
) -> tuple[ModelRobustness, ...]:
    """Success under variations, of each model and suite that has any; see `pytest_vla.metrics.robustness`.

    Args:
        loaded: records of runs.
        algorithm: of the failure types; None: fastdtw where it is installed, else exact.
        tau: how their threshold is made.

    Raises:
        VlaError: fastdtw is asked for and not installed.
    """
    algorithm = algorithm or usual_algorithm()
    paths, troubles = path_loader(loaded)
    found: list[ModelRobustness] = []
    models = varied_models(loaded.records)
    for varied in models:
        # Of each model its own, so that its numbers do not depend on what else is reported.
        generator = np.random.default_rng(SEED)
        pairs, unpaired = twin_pairs(varied)
        by_level, harm, mixed = curves(varied, pairs, generator)
        joint, incomplete = compositions(varied)
        runs = runs_of(varied.episodes, loaded)
        left_out = (*varied.left_out, *unfinished_of(varied.episodes, loaded), *unpaired, *mixed, *incomplete)
        left_out += evenness_of(str(record.variation.get("label")) for record in varied.episodes)
        measured = cells(varied, pairs)
        failed = sum(record.outcome == "failure" for record in varied.episodes)
        with told_when_slow(f"failure types of {counted(failed, 'failure')}", sys.stderr):
            failures = dimension_failures(varied, paths, algorithm, tau)
        left_out += tuple(unread_lines(troubles))
        found.append(
            ModelRobustness(
                varied.model,
                varied.suite,
                runs,
                measured,
                by_level,
                harm,
                joint,
                left_out,
                varied.protocol,
                failures,
                algorithm,
                tau=tau,
            )
        )
    return _with_pooled(found, models)


def _with_pooled(found: Sequence[ModelRobustness], models: Sequence[Varied]) -> tuple[ModelRobustness, ...]:
    """The results with the pairs of dimensions over all suites of each model, if several suites have any."""
    pooled: dict[int, ModelRobustness] = {}
    together = [index for index, each in enumerate(found) if each.pairs]
    for indices in grouped(together, lambda index: (found[index].model, found[index].protocol)).values():
        if len(indices) > 1:
            pairs = pooled_compositions([models[index] for index in indices])
            suites = tuple(found[index].suite for index in indices)
            pooled |= {index: replace(found[index], pooled=pairs, pooled_suites=suites) for index in indices}
    return tuple(pooled.get(index, each) for index, each in enumerate(found))
