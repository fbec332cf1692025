"""Makes the parts of a report that are on variations, of records."""

import sys

import numpy as np

from pytest_vla.metrics.composition import compositions
from pytest_vla.metrics.failure_types import Algorithm, usual_algorithm
from pytest_vla.metrics.robustness import cells, twin_pairs, varied_models
from pytest_vla.metrics.robustness_curves import curves
from pytest_vla.metrics.robustness_failures import dimension_failures
from pytest_vla.metrics.robustness_results import ModelRobustness
from pytest_vla.reports.loaded import SEED, Loaded, runs_of, unfinished_of
from pytest_vla.reports.paths import path_loader, unread_lines
from pytest_vla.util.live_line import told_when_slow
from pytest_vla.util.text import counted
from pytest_vla.vary.registry import evenness_of


def make_robustness(loaded: Loaded, algorithm: Algorithm | None = None) -> tuple[ModelRobustness, ...]:
    """Success under variations, of each model and suite that has any; see `pytest_vla.metrics.robustness`.

    Args:
        loaded: records of runs.
        algorithm: of the failure types; None: fastdtw where it is installed, else exact.

    Raises:
        VlaError: fastdtw is asked for and not installed.
    """
    algorithm = algorithm or usual_algorithm()
    paths, troubles = path_loader(loaded)
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
        failed = sum(record.outcome == "failure" for record in varied.episodes)
        with told_when_slow(f"failure types of {counted(failed, 'failure')}", sys.stderr):
            failures = dimension_failures(varied, paths, algorithm)
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
            )
        )
    return tuple(found)
