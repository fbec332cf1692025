"""A model's language results for programs."""

from collections.abc import Mapping
from typing import Any

from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE
from pytest_vla.metrics.failure_types import THRESHOLDS
from pytest_vla.metrics.language import Measured
from pytest_vla.metrics.language_paths import Failures, Shares, TaskFailures
from pytest_vla.metrics.language_results import LanguageReport, ModelResults, Source
from pytest_vla.metrics.listening import Estimate, Listening, Probe, Share
from pytest_vla.metrics.rates import percent, percents
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.reports.language.text import OVER


def report_table(report: LanguageReport) -> dict[str, Any]:
    """What JSON has of the whole, its models aside."""
    return {
        "alpha": report.alpha,
        "intervals": {
            "confidence": CONFIDENCE,
            "over": {"interval": OVER, "tasks_interval": TASKS_LIKE_THESE},
            "method": "Wilson's, of as many episodes as would stray as far if they were independent, with Student's t; "
            "of the overestimation and the listening score the delta method",
        },
    }


def model_table(results: ModelResults) -> dict[str, Any]:
    """A model for JSON: percentages 0..100, distances 0..1, intervals [low, high] or null, alphas as texts.

    All keys are there of a model and suite with any other text; of one without, none of them. Those of the model itself
    are of paraphrases of LIBERO-Para's types alone; other changes of the text are in ``others``. ``of_list`` is success
    and PRIDE as if all of LIBERO-Para's list had been told, each cell weighed by its paraphrases; null elsewhere, and
    where a cell was not told. Where there is nothing, lists are empty, counts 0 and everything else is null; ``benign``
    is null where no twin was run. ``..._interval`` is over paraphrases like these, of these tasks,
    ``..._tasks_interval`` over tasks like these. ``errors`` and ``invalid`` are of all episodes under another text;
    ``not_counted`` and ``bounds`` (of `pytest_vla.metrics.rates.rate_table`) of paraphrases.
    """
    table: dict[str, Any] = {
        "model": results.model,
        "suite": results.suite,
        "runs": list(results.runs),
        "seeds": list(results.seeds),
        "benign": _benign_table(results.benign),
        "errors": dict(results.counts.errors),
        "invalid": dict(results.counts.invalid),
        "not_counted": 0 if results.rate is None else results.rate.not_counted,
        "bounds": None if results.rate is None else percents(results.rate.bounds),
        **_source_table(results.source),
    }
    found = results.paraphrases
    if found is None:
        table |= {"n": 0} | dict.fromkeys(_MEASURED)
    else:
        sweep = found.sweep
        if found.alpha not in sweep:
            sweep = dict(sorted({**sweep, found.alpha: found.overall.pride}.items()))
        table |= _measured_table(found.overall)
        table["pride"] = {str(alpha): None if each is None else each.value for alpha, each in sweep.items()}
        for key in ("interval", "tasks_interval"):
            table[f"pride_{key}"] = {str(a): None if each is None else getattr(each, key) for a, each in sweep.items()}
    table["of_list"] = None
    if results.of_list is not None:
        sr, pride = results.of_list
        table["of_list"] = {**_estimate_table("sr", sr), **_estimate_table("pride", pride)}
    cells: Mapping[tuple[str, str], Measured] = {} if found is None else found.cells
    table["cells"] = [{"object": name[0], "action": name[1], **_measured_table(cell)} for name, cell in cells.items()]
    for key in ("objects", "actions", "categories", "tasks"):
        groups: Mapping[str, Measured] = {} if found is None else getattr(found, key)
        table[key] = [{"name": name, **_measured_table(group)} for name, group in groups.items()]
    table["others"] = [
        {"kind": kind, **_source_table(each.source), **_measured_table(each.measured)}
        for kind, each in results.others.items()
    ]
    table["failures"] = None if results.failures is None else _failures_table(results.failures)
    table["listening"] = None if results.listening is None else _listening_table(*results.listening)
    table["left_out"] = list(results.left_out)
    return table


_NAMES = ("sr", "pd", "pride", "overestimation")
_MEASURED = tuple(key for name in _NAMES for key in (name, f"{name}_interval", f"{name}_tasks_interval"))


def _source_table(source: Source | None) -> dict[str, Any]:
    if source is None:
        return {"backend": None, "low_fidelity": None, "passed_over": None}
    return {
        "backend": source.backend,
        "low_fidelity": source.low_fidelity,
        "passed_over": dict(source.passed_over),
    }


def _measured_table(group: Measured) -> dict[str, Any]:
    table: dict[str, Any] = {"n": group.n}
    for name in _NAMES:
        table |= _estimate_table(name, getattr(group, name))
    return table


def _estimate_table(name: str, estimate: Estimate | None) -> dict[str, Any]:
    if estimate is None:
        return {name: None, f"{name}_interval": None, f"{name}_tasks_interval": None}
    return {
        name: estimate.value,
        f"{name}_interval": estimate.interval,
        f"{name}_tasks_interval": estimate.tasks_interval,
    }


def _benign_table(rate: SuccessRate | None) -> dict[str, Any] | None:
    if rate is None:
        return None
    table: dict[str, Any] = {"n": rate.counted, "sr": percent(rate.rate), "sr_interval": percents(rate.interval)}
    table |= {"sr_tasks_interval": percents(rate.tasks_interval)}
    table |= {"not_counted": rate.not_counted, "bounds": percents(rate.bounds)}
    return table | {"errors": dict(rate.errors), "invalid": dict(rate.invalid)}


def _failures_table(failures: Failures) -> dict[str, Any]:
    def shares(each: Shares) -> dict[str, Any]:
        return {
            **_estimate_table("near", each.near),
            **_estimate_table("far", each.far),
            **_estimate_table("far_of_failures", each.far_share),
        }

    return {
        "algorithm": failures.algorithm,
        "tau": failures.tau,
        "n": failures.n,
        **_estimate_table("sr", failures.sr),
        **shares(failures.levels["max"]),
        **_estimate_table("undefined", failures.undefined),
        "thresholds": {name: shares(each) for name, each in failures.levels.items()},
        "exact": {name: shares(each) for name, each in failures.exact.items()},
        "differing": failures.differing,
        "tasks": [_task_table(task) for task in failures.tasks],
    }


def _task_table(task: TaskFailures) -> dict[str, Any]:
    table: dict[str, Any] = {"name": task.task, "successes": task.successes, "failures": task.failures}
    table |= {"undefined": task.types.undefined, "near": None, "far": None, "thresholds": None, "exact": None}
    if task.types.judgement is not None and task.types.exact is not None:
        levels = {name: task.near_far(name) for name in THRESHOLDS}
        exact = {name: task.near_far(name, exact=True) for name in THRESHOLDS}
        table |= {"near": levels["max"][0], "far": levels["max"][1]}
        for key, some in (("thresholds", levels), ("exact", exact)):
            table[key] = {name: {"near": near, "far": far} for name, (near, far) in some.items()}
    return table | {
        "differing": len(task.types.differing),
        "remarks": dict(task.remarks),
        "instead": {name: len(margins) for name, margins in task.instead.items()},
        "instead_margin": dict(task.instead_margins),
        "of_no_task": task.nobodys,
        "far_failures": [
            {
                "case": each.case,
                "instead": each.nearest and each.nearest.task,
                "nearest": each.nearest and each.nearest.nearest,
                "margin": each.nearest and each.nearest.margin,
            }
            for each in task.far
        ],
    }


def _listening_table(overall: Listening, each: Mapping[Probe, Listening]) -> dict[str, Any]:
    def told(heard: Listening) -> dict[str, Any]:
        def share(name: str, of: Share) -> dict[str, Any]:
            bounds = {"interval": percents(of.interval), "tasks_interval": percents(of.tasks_interval)}
            known = {name: percent(of.count / of.of if of.of else None), f"{name}_n": of.of}
            return known | {f"{name}_{key}": interval for key, interval in bounds.items()}

        return {
            "verdict": heard.verdict,
            **share("followed", heard.followed),
            **share("obeyed", heard.obeyed),
            **share("told", heard.told),
            **share("sr_right", heard.right),
            **share("sr_probe", heard.probe),
            "lost": heard.lost,
            "gained": heard.gained,
            **_estimate_table("score", heard.score),
            **_estimate_table("distance", heard.distance),
            **_estimate_table("noise", heard.noise),
            **_estimate_table("path_score", heard.path_score),
        }

    return {**told(overall), "probes": {probe: told(heard) for probe, heard in each.items()}}
