"""Makes the parts of a report that are no benchmark's own; `pytest_vla.reports.extension` names them."""

import argparse
from typing import Any

from pytest_vla.language.published import csv_of
from pytest_vla.metrics.discrimination import Sign
from pytest_vla.metrics.failure_types import USUAL_TAU, Tau
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.sections import Section, Subject

# What a part needs is imported when it is made: of most records there is only one.


def language(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Success, PRIDE, failure types and the listening score of paraphrases and other texts."""
    from pytest_vla.reports.language.json import model_table, report_table
    from pytest_vla.reports.language.make import make_report
    from pytest_vla.reports.language.text import report_lines
    from pytest_vla.reports.overlays import overlay

    report = make_report(
        loaded, options.alpha, csv_of(options.data), options.backend, options.failure_algorithm, tau_of(options)
    )
    if report is None:
        return None

    def pictures() -> dict[str, bytes]:
        from pytest_vla.reports.language.png import pictures

        return pictures(report)

    models = {(model.model, model.suite, model.protocol): model_table(model) for model in report.models}
    overlays = {
        (model.model, model.suite, model.protocol): [overlay("other words", model.failures.tasks)]
        for model in report.models
        if model.failures is not None
    }
    return Section(lambda: report_lines(report, options.full), report_table(report), models, pictures, overlays)


def robustness(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Success under variations, against benign twins."""
    from pytest_vla.reports.loaded import SEED
    from pytest_vla.reports.overlays import overlay
    from pytest_vla.reports.robustness.json import methods_table, robustness_table
    from pytest_vla.reports.robustness.make import make_robustness
    from pytest_vla.reports.robustness.text import robustness_lines

    found = make_robustness(loaded, options.failure_algorithm, tau_of(options))
    if not found:
        return None

    def pictures() -> dict[str, bytes]:
        from pytest_vla.reports.robustness.png import pictures

        return pictures(found)

    models = {(model.model, model.suite, model.protocol): {"robustness": robustness_table(model)} for model in found}
    overlays = {
        (model.model, model.suite, model.protocol): [overlay(each.dimension, each.tasks) for each in model.failures]
        for model in found
    }
    methods = {"robustness": methods_table(SEED)}
    return Section(lambda: robustness_lines(found, options.full), methods, models, pictures, overlays)


def further(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """The means of what others keep of episodes."""
    from pytest_vla.metrics.further import further
    from pytest_vla.reports.further import further_lines, further_table, methods_table

    found = further(loaded.records)
    if not found:
        return None
    models = {(model.model, model.suite, ""): {"metrics": further_table(model)} for model in found}
    return Section(lambda: further_lines(found, loaded), {"metrics": methods_table()}, models, dict)


def safety(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Cumulative cost beside success."""
    from pytest_vla.metrics.safety import SAFE, safety
    from pytest_vla.reports.safety.json import methods_table, row_table
    from pytest_vla.reports.safety.text import safety_lines

    found = safety(loaded.records)
    if not found:
        return None

    def pictures() -> dict[str, bytes]:
        from pytest_vla.reports.safety.png import pictures

        return pictures(found)

    models: dict[Subject, dict[str, list[Any]]] = {}
    for model in found:
        for row in model.rows:
            models.setdefault((model.model, row.suite, ""), {"safety": []})["safety"].append(row_table(row))
    return Section(lambda: safety_lines(found, SAFE, options.full), {"safety": methods_table(SAFE)}, models, pictures)


def looking(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Black pictures, and objects that are not there."""
    from pytest_vla.reports.looking import looking_lines, looking_table, make_looking, methods_table

    found = make_looking(loaded)
    if not found:
        return None
    models = {(model.model, model.suite, ""): {"looking": looking_table(model)} for model in found}
    return Section(lambda: looking_lines(found), {"looking": methods_table()}, models, dict)


def foretelling(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Whether metrics of uncertainty and quality foretell failure, and what stopping by them would have done."""
    from pytest_vla import extensions
    from pytest_vla.metrics.alarms import parse_rule
    from pytest_vla.metrics.naming import with_own_name
    from pytest_vla.reports.foretelling import (
        foretelling_lines,
        foretelling_table,
        make_foretold,
        methods_table,
        separation_table,
    )
    from pytest_vla.reports.warning import confidence_table, conformal_table, intervention_table

    # Programs that make a report by themselves may not know the option.
    text = getattr(options, "stop_when", None)
    rule = None if text is None else with_own_name(parse_rule(text), extensions.metrics())
    found = make_foretold(loaded, rule)
    if not found:
        return None
    models: dict[Subject, dict[str, Any]] = {}
    for model in found:
        models[(model.model, model.suite, model.budget)] = {
            "foretelling": foretelling_table(model),
            "separation": separation_table(model.separated),
            "conformal": conformal_table(model.alarms),
            "confidence": confidence_table(model.confidence),
            "stop_when": None if model.stopped is None else intervention_table(model.stopped),
        }
    return Section(lambda: foretelling_lines(found), {"foretelling": methods_table()}, models, dict)


def economy(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """How far the hand goes, beside the expert's."""
    from pytest_vla.reports.economy import economy_lines, economy_table, make_economy, methods_table

    found = make_economy(loaded)
    if not found:
        return None
    models = {(model.model, model.suite, ""): {"economy": economy_table(model)} for model in found}
    return Section(lambda: economy_lines(found), {"economy": methods_table()}, models, dict)


def labels(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Whether metrics go with people's labels of quality."""
    file = getattr(options, "labels", None)
    if file is None:
        return None
    from pytest_vla.reports.labels import labels_lines, labels_table, make_labels, methods_table

    sign: Sign = getattr(options, "rho", "metric")
    found = make_labels(loaded, file, sign)
    models = {(model.model, model.suite, ""): {"labels": labels_table(model)} for model in found.models}
    return Section(
        lambda: labels_lines(found), {"labels": {**methods_table(sign), "left_out": list(found.left_out)}}, models, dict
    )


def tau_of(options: argparse.Namespace) -> Tau:
    """``--tau``; programs that make a report by themselves may not know the option."""
    found: Tau = getattr(options, "tau", USUAL_TAU)
    return found
