"""Makes the parts of a report that are on variations, of records: robustness, LIBERO-PRO and LIBERO-Plus."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pytest_vla.errors import VlaError
from pytest_vla.metrics.composition import compositions
from pytest_vla.metrics.robustness import cells, twin_pairs, varied_models
from pytest_vla.metrics.robustness_curves import curves
from pytest_vla.metrics.selection import by_model, that_count
from pytest_vla.plan.manifests import load_suite
from pytest_vla.records.record import Record
from pytest_vla.reports.loaded import SEED, Loaded, runs_of, unfinished_of
from pytest_vla.reports.robustness.text import ModelRobustness
from pytest_vla.suites.libero_plus.metrics import by_protocol, plus_rates
from pytest_vla.suites.libero_plus.report import ModelPlus
from pytest_vla.suites.libero_plus.variations import unavailable
from pytest_vla.suites.libero_pro.metrics import DIMENSION, pro_tables
from pytest_vla.suites.libero_pro.report import ModelPro
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


def make_pro(loaded: Loaded) -> tuple[ModelPro, ...]:
    """LIBERO-PRO's tables, of each model with any of its variations; see `pytest_vla.suites.libero_pro.metrics`."""
    found = []
    models: dict[str, list[Record]] = {}
    for (model, _), some in by_model(loaded.records).items():
        models.setdefault(model, []).extend(that_count(some).records)
    for table in pro_tables(loaded.records):
        own = [record for record in models[table.model] if record.variation.get("dimension") == DIMENSION]
        unfinished = unfinished_of(own, loaded)
        undrawn: Counter[str] = Counter()
        for record in own:
            parameters = record.variation.get("parameters", {})
            undrawn.update({*parameters.get("unavailable", ()), *parameters.get("left_out", ())})
        found.append(ModelPro(table, (*table.left_out, *unfinished), undrawn))
    return tuple(found)


def make_plus(loaded: Loaded, data: Path | None) -> tuple[ModelPlus, ...]:
    """LIBERO-Plus's table, of each model and protocol; see `pytest_vla.suites.libero_plus.metrics`.

    Args:
        loaded: the records.
        data: where its list is looked for, beside the folders that are found by themselves.
    """
    found = []
    groups = by_protocol(loaded.records)
    for rates in plus_rates(loaded.records):
        own = groups[rates.model, rates.protocol]
        entries = {(record.suite, record.variation["parameters"]["name"]) for record in own}
        suites = dict.fromkeys(record.suite for record in own)
        left_out = (*rates.left_out, *unfinished_of(own, loaded))
        found.append(ModelPlus(rates, len(entries), _unavailable(suites, rates.protocol, data), left_out))
    return tuple(found)


def _unavailable(suites: Iterable[str], protocol: str, data: Path | None) -> dict[str, int] | None:
    try:
        tasks = [task for suite in suites for task in load_suite(suite, data=data).tasks]
        return dict(unavailable(tasks, protocol))
    except VlaError:
        # The list is nowhere, or not as it should be: pytest says so where it is to be run.
        return None
