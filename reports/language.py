"""A model's language results: for people as tables, for programs as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_vla.metrics.bootstrap import CONFIDENCE, RESAMPLES, Interval
from pytest_vla.metrics.failure_types import THRESHOLDS, Threshold
from pytest_vla.metrics.language import Measured, Paraphrases
from pytest_vla.metrics.language_paths import Failures, Shares, TaskFailures
from pytest_vla.metrics.listening import Estimate, Listening, Probe, Share
from pytest_vla.metrics.pride import ACTION_TYPES, NONE, OBJECT_TYPES
from pytest_vla.metrics.success import SuccessRate
from pytest_vla.reports.rates import interval_text, share_text

SCHEMA = 1
"""Of the JSON; raised whenever a key changes its meaning or goes away."""

BAR = 40
"""Characters of 100%."""

Rows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class ModelResults:
    """What is known of one model in one suite.

    Attributes:
        model: the policy's name.
        suite: the suite's.
        runs: names of those that it was made from.
        seeds: of the episodes under paraphrases.
        benign: success with the right text; None where no benign twin was run.
        counts: episodes under another text that are in no rate, by outcome and reason.
        paraphrases: None where there are none.
        others: success and distance under other changes of the text, by kind.
        failures: None where there are no paths.
        listening: overall and by probe; None where there are no probes.
        left_out: what is not in the numbers, and why.
    """

    model: str
    suite: str
    runs: tuple[str, ...]
    seeds: tuple[int, ...]
    benign: SuccessRate | None
    counts: SuccessRate
    paraphrases: Paraphrases | None
    others: Mapping[str, Measured]
    failures: Failures | None
    listening: tuple[Listening, Mapping[Probe, Listening]] | None
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class LanguageReport:
    """All of a report.

    Attributes:
        backend: name and version of what made the similarities; empty where no pair was compared.
        low_fidelity: whether that is a makeshift.
        passed_over: better backends, and why they were not taken.
        alpha: weight of S_K.
        seed: of the resamples.
        models: one for each model and suite.
    """

    backend: str
    low_fidelity: bool
    passed_over: Mapping[str, str]
    alpha: float
    seed: int
    models: tuple[ModelResults, ...]


# For programs


def report_table(report: LanguageReport) -> dict[str, Any]:
    """The report for JSON: percentages 0..100, distances 0..1, intervals [low, high] or null, alphas as texts."""
    return {
        "schema": SCHEMA,
        "backend": report.backend or None,
        "low_fidelity": report.low_fidelity,
        "passed_over": dict(report.passed_over),
        "alpha": report.alpha,
        "intervals": {
            "confidence": CONFIDENCE,
            "method": "bootstrap over paraphrases and seeds; Wilson's, over paraphrases, where a rate is at an end",
            "resamples": RESAMPLES,
            "seed": report.seed,
        },
        "models": [_model_table(model) for model in report.models],
    }


def _model_table(results: ModelResults) -> dict[str, Any]:
    table: dict[str, Any] = {
        "model": results.model,
        "suite": results.suite,
        "runs": list(results.runs),
        "seeds": list(results.seeds),
        "benign": _rate_table(results.benign),
        "errors": dict(results.counts.errors),
        "invalid": dict(results.counts.invalid),
        "backend": None,
        "n": 0,
    }
    if (found := results.paraphrases) is not None:
        sweep = found.sweep
        if found.alpha not in sweep:
            sweep = dict(sorted({**sweep, found.alpha: found.overall.pride}.items()))
        table |= {"backend": found.backend, **_measured_table(found.overall)}
        table["pride"] = {str(alpha): None if each is None else each.value for alpha, each in sweep.items()}
        table["pride_interval"] = {str(alpha): None if each is None else each.interval for alpha, each in sweep.items()}
        table["cells"] = [
            {"object": name[0], "action": name[1], **_measured_table(cell)} for name, cell in found.cells.items()
        ]
        for key in ("objects", "actions", "categories", "tasks"):
            groups: Mapping[str, Measured] = getattr(found, key)
            table[key] = [{"name": name, **_measured_table(group)} for name, group in groups.items()]
    table["others"] = [{"kind": kind, **_measured_table(group)} for kind, group in results.others.items()]
    table["failures"] = None if results.failures is None else _failures_table(results.failures)
    table["listening"] = None if results.listening is None else _listening_table(*results.listening)
    table["left_out"] = list(results.left_out)
    return table


def _measured_table(group: Measured) -> dict[str, Any]:
    table: dict[str, Any] = {"n": group.n}
    for name in ("sr", "pd", "pride", "overestimation"):
        table |= _estimate_table(name, getattr(group, name))
    return table


def _estimate_table(name: str, estimate: Estimate | None) -> dict[str, Any]:
    if estimate is None:
        return {name: None, f"{name}_interval": None}
    return {name: estimate.value, f"{name}_interval": estimate.interval}


def _rate_table(rate: SuccessRate | None) -> dict[str, Any] | None:
    if rate is None or rate.rate is None or rate.interval is None:
        return None
    low, high = rate.interval
    return {"n": rate.counted, "sr": 100 * rate.rate, "sr_interval": (100 * low, 100 * high)}


def _failures_table(failures: Failures) -> dict[str, Any]:
    def shares(each: Shares) -> dict[str, Any]:
        return {
            **_estimate_table("near", each.near),
            **_estimate_table("far", each.far),
            **_estimate_table("far_of_failures", each.far_share),
        }

    return {
        "algorithm": failures.algorithm,
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
    counts = _remark_counts(task)
    table: dict[str, Any] = {"name": task.task, "successes": task.successes, "failures": task.failures}
    table |= {"undefined": task.types.undefined, "near": None, "far": None, "thresholds": None, "exact": None}
    if task.types.judgement is not None and task.types.exact is not None:
        levels = {name: _near_far(task, name) for name in THRESHOLDS}
        exact = {name: _near_far(task, name, exact=True) for name in THRESHOLDS}
        table |= {"near": levels["max"][0], "far": levels["max"][1]}
        for key, some in (("thresholds", levels), ("exact", exact)):
            table[key] = {name: {"near": near, "far": far} for name, (near, far) in some.items()}
    return table | {
        "differing": len(task.types.differing),
        "remarks": counts,
        "instead": dict(task.instead),
        "of_no_task": task.nobodys,
    }


def _near_far(task: TaskFailures, threshold: Threshold, exact: bool = False) -> tuple[int, int]:
    judgement = task.types.exact if exact else task.types.judgement
    levels = () if judgement is None else judgement.levels[threshold]
    return levels.count("near"), levels.count("far")


def _remark_counts(task: TaskFailures) -> dict[str, int]:
    known = [remark for remark in task.types.remarks if remark is not None]
    return {remark: known.count(remark) for remark in sorted(set(known))}


def _listening_table(overall: Listening, each: Mapping[Probe, Listening]) -> dict[str, Any]:
    def told(heard: Listening) -> dict[str, Any]:
        def share(name: str, of: Share) -> dict[str, Any]:
            interval = None if of.interval is None else tuple(100 * bound for bound in of.interval)
            percent = 100 * of.count / of.of if of.of else None
            return {name: percent, f"{name}_interval": interval, f"{name}_n": of.of}

        return {
            **share("sr_right", heard.right),
            **share("sr_probe", heard.probe),
            **share("followed", heard.followed),
            "lost": heard.lost,
            "gained": heard.gained,
            **_estimate_table("score", heard.score),
            "distance": heard.distance,
            "noise": heard.noise,
            **_estimate_table("path_score", heard.path_score),
        }

    return {**told(overall), "probes": {probe: told(heard) for probe, heard in each.items()}}


# For people


def report_lines(report: LanguageReport) -> Iterator[str]:
    """The report for a terminal, line by line. Control characters are taken out."""
    for line in _lines(report):
        yield "".join(c if c.isprintable() else "?" for c in line).rstrip()


def _lines(report: LanguageReport) -> Iterator[str]:
    yield f"similarities by {report.backend or 'nothing: no pair was compared'}; alpha {report.alpha:g}"
    for name, why in report.passed_over.items():
        yield f"  not {name}: {why}"
    yield f"in brackets: {CONFIDENCE:.0%} intervals, bootstrap over paraphrases and seeds, {RESAMPLES} resamples"
    yield ""
    rows: list[tuple[str, ...]] = [("model", "suite", "seeds", "n", "SR", "PRIDE", "overestimation", "benign SR")]
    for model in report.models:
        head = (model.model, model.suite, ",".join(map(str, model.seeds)) or "-")
        benign = "-" if model.benign is None else f"{share_text(model.benign)} {interval_text(model.benign)}"
        overall = None if model.paraphrases is None else model.paraphrases.overall
        rows.append((*head, *(_measured_cells(overall) if overall else ("0", "-", "-", "-")), benign))
    yield f"Paraphrases, % ({report.backend or 'no similarities'})"
    yield from _aligned(rows, 3)
    for model in report.models:
        yield ""
        yield f"=== {model.model}, {model.suite} ==="
        if model.counts.errors or model.counts.invalid:
            reasons = {**model.counts.errors, **model.counts.invalid}
            listed = ", ".join(f"{number} {reason}" for reason, number in reasons.items())
            yield f"in no rate: {listed}"
        for text in model.left_out:
            yield f"note: {text}"
        if model.paraphrases is not None:
            yield from _paraphrase_lines(model.paraphrases)
        if model.others:
            yield ""
            yield f"Other changes of the text, % ({report.backend})"
            kinds: list[tuple[str, ...]] = [("kind", "n", "SR", "PRIDE", "overestimation", "PD")]
            kinds += [(name, *_measured_cells(each), f"{each.pd.value:.3f}") for name, each in model.others.items()]
            yield from _aligned(kinds, 1)
        if model.failures is not None:
            yield from _failure_lines(model.failures)
        if model.listening is not None:
            yield from _listening_lines(*model.listening)


def _paraphrase_lines(found: Paraphrases) -> Iterator[str]:
    for title, attribute, text in (("Success rate, %", "sr", "{:.1f}"), ("Mean distance PD", "pd", "{:.3f}")):
        yield ""
        yield f"{title} (episodes), objects x actions" + (f" ({found.backend})" if attribute == "pd" else "")
        yield from _grid(found, attribute, text)
    yield ""
    yield "Success rate by action type, %, all objects"
    yield from _bars(found.actions)
    if found.categories:
        yield ""
        yield "Success rate by category of the action, %, objects as they are"
        yield from _bars(found.categories)
    yield ""
    yield f"PRIDE by alpha, % ({found.backend})"
    alphas = list(found.sweep.items())
    body: list[tuple[str, ...]] = [
        ("alpha", *(f"{alpha:g}" for alpha, _ in alphas)),
        ("PRIDE", *(_number(each) for _, each in alphas)),
    ]
    for bound, name in enumerate(("from", "to")):
        body.append(
            (name, *("-" if e is None or e.interval is None else f"{e.interval[bound]:.1f}" for _, e in alphas))
        )
    yield from _aligned(body, 1)
    yield ""
    yield f"Tasks, % ({found.backend})"
    head = ("task", "n", "SR", "PRIDE", "overestimation")
    yield from _aligned([head, *((name, *_measured_cells(each)) for name, each in found.tasks.items())], 1)


def _grid(found: Paraphrases, attribute: str, text: str) -> Iterator[str]:
    def cell(group: Measured | None) -> str:
        return "-" if group is None else f"{text.format(getattr(group, attribute).value)} ({group.n})"

    rows: list[tuple[str, ...]] = [("", *OBJECT_TYPES, "all")]
    for action in ACTION_TYPES:
        cells = [cell(found.cells.get((kind, action))) for kind in OBJECT_TYPES]
        rows.append((action, *cells, cell(found.actions.get(action))))
    rows.append(("all", *(cell(found.objects.get(kind)) for kind in OBJECT_TYPES), cell(found.overall)))
    yield from _aligned(rows, 1)


def _bars(groups: Mapping[str, Measured]) -> Iterator[str]:
    rows = [
        (name, ("#" * round(BAR * each.sr.value / 100)).ljust(BAR, "."), _with_interval(each.sr), f"n={each.n}")
        for name, each in groups.items()
        if name != NONE or len(groups) > 1
    ]
    yield from _aligned(rows, 2)


def _failure_lines(failures: Failures) -> Iterator[str]:
    yield ""
    yield f"Failure types, % of {failures.n} episodes with a path ({failures.algorithm}): execution near, planning far"
    rows: list[tuple[str, ...]] = [("tau", "SR", "near", "far", "far of failures", "undefined")]
    by_dtw = [("", failures.levels)] + ([(" exact", failures.exact)] if failures.differing else [])
    for suffix, levels in by_dtw:
        for name, each in levels.items():
            share = "-" if each.far_share is None else _with_interval(each.far_share)
            cells = [_with_interval(one) for one in (failures.sr, each.near, each.far)]
            rows.append((f"{name}{suffix}", *cells, share, _with_interval(failures.undefined)))
    yield from _aligned(rows, 1)
    yield f"{failures.differing} failures have another label by exact DTW"
    yield ""
    yield "By task, counts at tau = max; a far failure did the task that it is nearest to, or none"
    counts: list[tuple[str, ...]] = [("task", "successes", "failures", "near", "far", "remarks", "did instead")]
    for task in failures.tasks:
        near, far = map(str, _near_far(task, "max")) if task.types.undefined is None else ("-", "-")
        remarks = [f"{number} {remark}" for remark, number in _remark_counts(task).items()]
        remarks += [f"undefined: {task.types.undefined}"] if task.types.undefined is not None else []
        instead = [f"{number} {'itself' if name == task.task else name}" for name, number in task.instead.items()]
        instead += [f"{task.nobodys} none"] if task.nobodys else []
        numbers = (str(task.successes), str(task.failures), near, far)
        counts.append((task.task, *numbers, ", ".join(remarks) or "-", ", ".join(instead) or "-"))
    yield from _aligned(counts, 1, left={5, 6})
    yield "slow: far as cut at the longest success, near as a whole; diverges-late: near until then, far afterwards"


def _listening_lines(overall: Listening, each: Mapping[Probe, Listening]) -> Iterator[str]:
    def share(of: Share) -> str:
        if of.interval is None:
            return "-"
        return "{}/{} [{:.1f}, {:.1f}]".format(of.count, of.of, *(100 * bound for bound in of.interval))

    def score(estimate: Estimate | None) -> str:
        if estimate is None:
            return "-"
        bounds = "" if estimate.interval is None else " [{:.2f}, {:.2f}]".format(*estimate.interval)
        return f"{estimate.value:.2f}{bounds}"

    def metres(value: float | None) -> str:
        return "-" if value is None else f"{value:.3f}"

    yield ""
    yield "Does it listen? 0: the text does not matter, 1: without the right one nothing is left"
    rows: list[tuple[str, ...]] = [
        ("text", "score", "right text, %", "this text, %", "path score", "DTW m", "noise m", "went the other way")
    ]
    for name, heard in (*each.items(), ("all", overall)):
        rates, paths = (share(heard.right), share(heard.probe)), (metres(heard.distance), metres(heard.noise))
        rows.append((name, score(heard.score), *rates, score(heard.path_score), *paths, share(heard.followed)))
    yield from _aligned(rows, 1)


def _measured_cells(group: Measured) -> tuple[str, str, str, str]:
    three = ["-" if each is None else _with_interval(each) for each in (group.sr, group.pride, group.overestimation)]
    return str(group.n), three[0], three[1], three[2]


def _number(estimate: Estimate | None) -> str:
    return "-" if estimate is None else f"{estimate.value:.1f}"


def _with_interval(estimate: Estimate) -> str:
    return f"{estimate.value:.1f}{_brackets(estimate.interval)}"


def _brackets(interval: Interval | None) -> str:
    return "" if interval is None else " [{:.1f}, {:.1f}]".format(*interval)


def _aligned(rows: Rows, names: int, left: set[int] | frozenset[int] = frozenset()) -> Iterator[str]:
    """Columns as wide as they have to be: names, the first so many, to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(
            text.ljust(width) if index < names or index in left else text.rjust(width)
            for index, (text, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
