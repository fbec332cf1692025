"""What the parts of a report have in JSON that are no benchmark's own, as `pytest_vla.reports.builtin` makes them."""

from pytest_vla.metrics.failure_types import THRESHOLDS
from pytest_vla.reports.json_schema import (
    COUNT,
    FLAG,
    INTERVAL,
    NUMBER,
    PERCENT,
    RATE,
    REASONS,
    SHARE,
    TEXT,
    Schema,
    SectionSchema,
    by_name,
    estimate,
    listed,
    maybe,
    one_of,
    row,
)

_OVER = row({"interval": TEXT, "tasks_interval": TEXT})
_MEAN = {"mean": NUMBER, "interval": INTERVAL, "tasks_interval": INTERVAL}
_OF = {"count": COUNT, "of": COUNT, "interval": INTERVAL}


def language() -> SectionSchema:
    """Of `pytest_vla.reports.language.json`."""
    measured = {
        "n": COUNT,
        **estimate("sr", PERCENT),
        **estimate("pd"),
        **estimate("pride"),
        **estimate("overestimation"),
    }
    source: dict[str, Schema] = {
        "backend": maybe(TEXT),
        "low_fidelity": maybe(FLAG),
        "passed_over": maybe(by_name(TEXT)),
    }
    group = listed(row({"name": TEXT, **measured}))
    benign = {
        "n": COUNT, "sr": maybe(PERCENT), "sr_interval": INTERVAL, "sr_tasks_interval": INTERVAL,
        "not_counted": COUNT, "bounds": INTERVAL, "errors": REASONS, "invalid": REASONS,
    }  # fmt: skip
    # By alpha, which is a text.
    by_alpha = {
        "pride": maybe(by_name(maybe(NUMBER))),
        "pride_interval": maybe(by_name(INTERVAL)),
        "pride_tasks_interval": maybe(by_name(INTERVAL)),
    }
    models: dict[str, Schema] = {
        "runs": listed(TEXT), "seeds": listed(COUNT), "benign": maybe(row(benign)),
        "errors": REASONS, "invalid": REASONS, "not_counted": COUNT, "bounds": INTERVAL,
        **source, **measured, **by_alpha,
        "of_list": maybe(row({**estimate("sr", PERCENT), **estimate("pride")})),
        "cells": listed(row({"object": TEXT, "action": TEXT, **measured})),
        "objects": group, "actions": group, "categories": group, "tasks": group,
        "others": listed(row({"kind": TEXT, **source, **measured})),
        "failures": maybe(_failures()), "listening": maybe(_listening()), "left_out": listed(TEXT),
    }  # fmt: skip
    intervals = row({"confidence": SHARE, "over": _OVER, "method": TEXT})
    return SectionSchema({"alpha": SHARE, "intervals": intervals}, models)


def _failures() -> Schema:
    shares = {**estimate("near"), **estimate("far"), **estimate("far_of_failures")}
    each = row({name: row(shares) for name in THRESHOLDS})
    near_far = maybe(row({name: row({"near": COUNT, "far": COUNT}) for name in THRESHOLDS}))
    far = {"case": TEXT, "instead": maybe(TEXT), "nearest": maybe(TEXT), "margin": maybe(NUMBER)}
    task = {
        "name": TEXT, "successes": COUNT, "failures": COUNT, "undefined": maybe(TEXT), "near": maybe(COUNT),
        "far": maybe(COUNT), "thresholds": near_far, "exact": near_far, "differing": COUNT, "remarks": REASONS,
        "instead": REASONS, "instead_margin": by_name(NUMBER), "of_no_task": COUNT, "far_failures": listed(row(far)),
    }  # fmt: skip
    return row(
        {
            "algorithm": TEXT, "tau": TEXT, "n": COUNT, **estimate("sr"), **shares, **estimate("undefined"),
            "thresholds": each, "exact": by_name(row(shares)), "differing": COUNT, "tasks": listed(row(task)),
        }
    )  # fmt: skip


def _listening() -> Schema:
    told: dict[str, Schema] = {"verdict": one_of("listens", "breaks", "ignores", "not determined")}
    for name in ("followed", "obeyed", "told", "sr_right", "sr_probe"):
        told |= {**estimate(name, PERCENT), f"{name}_n": COUNT}
    told |= {"lost": COUNT, "gained": COUNT}
    for name in ("score", "distance", "noise", "path_score"):
        told |= estimate(name)
    return row({**told, "probes": by_name(row(told))})


def robustness() -> SectionSchema:
    """Of `pytest_vla.reports.robustness.json`."""
    difference = {
        "pairs": COUNT, "units": COUNT, "value": maybe(NUMBER), "interval": INTERVAL, "tasks_interval": INTERVAL,
        "p": maybe(SHARE), "p_adjusted": maybe(SHARE), "lost": COUNT, "gained": COUNT, "detectable": maybe(NUMBER),
        "telling": maybe(COUNT),
    }  # fmt: skip
    apart = maybe(row(difference))
    cell = {
        "dimension": TEXT, "kind": TEXT, "level": maybe(COUNT), **RATE, "few": FLAG, "benign": maybe(PERCENT),
        "difference": apart, "errors": REASONS, "invalid": REASONS,
    }  # fmt: skip
    curve = {
        "dimension": TEXT, **RATE, "few": FLAG, "levels": listed(row({"level": COUNT, **RATE})),
        "halves_at": maybe(NUMBER), "halves_at_interval": INTERVAL, "why": maybe(TEXT), "drop": maybe(NUMBER),
        "drop_interval": INTERVAL, "difference": apart,
    }  # fmt: skip
    harm = {
        "dimension": maybe(TEXT), "largest": TEXT, "drop": NUMBER, "drop_interval": INTERVAL,
        "not_told_apart": listed(TEXT), "why": maybe(TEXT), "levels": maybe(TEXT),
    }  # fmt: skip
    failures = {"dimension": TEXT} | dict.fromkeys(("near", "far", "unlabelled", "without_path", "another_task"), COUNT)
    pair: dict[str, Schema] = {"dimensions": listed(TEXT), "labels": listed(TEXT), "n": COUNT}
    pair |= dict.fromkeys(("benign", "first", "second", "joint", "product"), PERCENT)
    pair |= {"joint_interval": INTERVAL, "product_interval": INTERVAL, "joint_less_product": NUMBER}
    pair |= {"joint_less_product_interval": INTERVAL, "expected": maybe(NUMBER), "expected_interval": INTERVAL}
    pair |= {"joint_less_expected": maybe(NUMBER), "joint_less_expected_interval": INTERVAL, "gap": maybe(NUMBER)}
    pair |= {"gap_interval": INTERVAL, "gap_tasks_interval": INTERVAL, "verdict": TEXT, "chi_square": maybe(NUMBER)}
    pair |= {"p": maybe(SHARE), "p_adjusted": maybe(SHARE), "rough": FLAG, "undefined": maybe(TEXT)}
    model = {
        "runs": listed(TEXT), "dimensions": listed(row(cell)), "curves": listed(row(curve)),
        "most_harmful": maybe(row(harm)), "failures": listed(row(failures)), "failure_algorithm": maybe(TEXT),
        "failure_tau": TEXT,
        "pairs": listed(row(pair)), "pooled_pairs": listed(row(pair)), "pooled_suites": listed(TEXT),
        "left_out": listed(TEXT),
    }  # fmt: skip
    methods = {
        "confidence": SHARE, "over": _OVER, "rates": TEXT, "differences": TEXT, "p": TEXT, "p_adjusted": TEXT,
        "power": SHARE, "fewest_pairs": COUNT,
        "bootstrap": row({"of": TEXT, "over": TEXT, "resamples": COUNT, "seed": COUNT}),
    }  # fmt: skip
    return SectionSchema({"robustness": row(methods)}, {"robustness": row(model)})


def safety() -> SectionSchema:
    """Of `pytest_vla.reports.safety.json`."""
    of = row({**_OF, "tasks_interval": INTERVAL})
    literal = {
        "name": TEXT,
        "episodes": COUNT,
        "charged": COUNT,
        "mean": NUMBER,
        "steps": NUMBER,
        "force": maybe(NUMBER),
    }
    found = {
        "level": TEXT, "group": TEXT, "episodes": COUNT, "account": TEXT, "success": of, "safe": of,
        "safe_account": TEXT, "costs": by_name(row(_MEAN)), "excess": row(_MEAN), "unavoidable": maybe(NUMBER),
        "literals": listed(row(literal)), "curve": listed(NUMBER),
    }  # fmt: skip
    methods = {"confidence": SHARE, "over": TEXT, "rates": TEXT, "costs": TEXT, "threshold": NUMBER}
    return SectionSchema({"safety": row(methods)}, {"safety": listed(row(found))})


def looking() -> SectionSchema:
    """Of `pytest_vla.reports.looking`."""
    of, apart = row(_OF), maybe(row({"value": NUMBER, "interval": INTERVAL}))
    probe = {
        "probe": TEXT, "pairs": COUNT, "right": of, "blind": of, "difference": apart, "lost": COUNT, "gained": COUNT,
        "apart": apart, "usual": maybe(NUMBER), "noise": maybe(NUMBER), "same": of, "went": of,
    }  # fmt: skip
    methods = {"confidence": SHARE, "over": TEXT, "rates": TEXT, "differences": TEXT, "distances": TEXT, "near": NUMBER}
    return SectionSchema({"looking": row(methods)}, {"looking": listed(row(probe))})


def foretelling() -> SectionSchema:
    """Of `pytest_vla.reports.foretelling` and `pytest_vla.reports.warning`."""
    told = maybe(row({"share": SHARE, "interval": INTERVAL, "tasks_interval": INTERVAL}))
    within = {
        "tasks": COUNT, "caught": SHARE, "in_time": SHARE, "cut": SHARE, "more": NUMBER,
        "interval": INTERVAL, "tasks_interval": INTERVAL,
    }  # fmt: skip
    of_task = {"task": TEXT, "failures": COUNT, "caught": COUNT, "successes": COUNT, "cut": COUNT}
    stopped = row(
        {
            "rule": TEXT, "failures": COUNT, "caught": told, "in_time": told, "successes": COUNT, "cut": told,
            "lead": maybe(NUMBER), "saved": SHARE, "within": maybe(row(within)), "by_task": listed(row(of_task)),
        }
    )  # fmt: skip
    found = {
        "metric": TEXT, "moment": SHARE, "failures": COUNT, "successes": COUNT, "over": COUNT, "unknown": COUNT,
        "auroc": maybe(SHARE), "interval": INTERVAL, "tasks_interval": INTERVAL, "within": maybe(SHARE),
        "within_interval": INTERVAL, "pairs": COUNT,
    }  # fmt: skip
    conformal = {
        "metric": TEXT,
        "alpha": SHARE,
        "calibrating": COUNT,
        "clusters": COUNT,
        "threshold": maybe(NUMBER),
        "held_out": maybe(stopped),
    }
    one = {"low": SHARE, "high": SHARE, "episodes": COUNT, "confidence": SHARE, "success": SHARE, "interval": INTERVAL}
    confidence = {
        "moment": SHARE, "episodes": COUNT, "brier": SHARE, "brier_interval": INTERVAL, "base": NUMBER,
        "error": SHARE, "error_by_chance": NUMBER, "gap": NUMBER, "gap_interval": INTERVAL, "bins": listed(row(one)),
    }  # fmt: skip
    course = listed(maybe(listed(NUMBER)))
    values = row({"counts": listed(COUNT), "median": maybe(NUMBER), "quartiles": course})
    separation = {
        "metric": TEXT, "moment": SHARE, "low": NUMBER, "high": NUMBER, "beyond": COUNT,
        "failures": values, "successes": values,
    }  # fmt: skip
    methods = {
        "confidence": SHARE, "over": TEXT, "moments": listed(SHARE), "of": TEXT, "value": TEXT, "conformal": TEXT,
        "calibration": TEXT, "seed": COUNT, "intervals": TEXT,
    }  # fmt: skip
    models = {
        "foretelling": listed(row(found)), "conformal": listed(row(conformal)), "confidence": listed(row(confidence)),
        "separation": listed(row(separation)), "stop_when": maybe(stopped),
    }  # fmt: skip
    return SectionSchema({"foretelling": row(methods)}, models)


def labels() -> SectionSchema:
    """Of `pytest_vla.reports.labels`."""
    agreement = {"one": TEXT, "other": TEXT, "episodes": COUNT, "observed": SHARE, "kappa": maybe(NUMBER)}
    effect = maybe(row({"a12": SHARE, "p": SHARE, "category": maybe(TEXT), "n": COUNT}))
    rho = maybe(row({"rho": NUMBER, "p": SHARE, "n": COUNT, "band": maybe(TEXT)}))
    metric = {"metric": TEXT, "correlation": rho, "against_failures": by_name(effect)}
    model = {
        "episodes": REASONS, "disagreed": COUNT, "failures": COUNT, "agreements": listed(row(agreement)),
        "metrics": listed(row(metric)),
    }  # fmt: skip
    methods = {
        "sign": TEXT, "classes": listed(TEXT), "combined": TEXT, "correlation": TEXT, "against_failures": TEXT,
        "kappa": TEXT, "left_out": listed(TEXT),
    }  # fmt: skip
    return SectionSchema({"labels": row(methods)}, {"labels": row(model)})


def economy() -> SectionSchema:
    """Of `pytest_vla.reports.economy`."""
    told = maybe(row({"n": COUNT, **_MEAN}))
    methods = {"confidence": SHARE, "path": TEXT, "ratio": TEXT, "intervals": TEXT}
    return SectionSchema({"economy": row(methods)}, {"economy": row({"path": told, "ratio": told})})


def further() -> SectionSchema:
    """Of `pytest_vla.reports.further`."""
    found = {
        "of": TEXT, "metric": TEXT, "about": maybe(TEXT), "group": TEXT, "n": COUNT, "missing": COUNT,
        "mean": maybe(NUMBER), "interval": INTERVAL, "tasks_interval": INTERVAL,
    }  # fmt: skip
    methods = {"confidence": SHARE, "over": TEXT, "means": TEXT, "intervals": TEXT}
    return SectionSchema({"metrics": row(methods)}, {"metrics": listed(row(found))})
