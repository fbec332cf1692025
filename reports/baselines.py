"""A baseline's content and its changes: as lines for people, and as a table for programs."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_vla.errors import VlaError
from pytest_vla.gate.baseline import (
    Baseline,
    CaseResult,
    Layers,
    baseline_of,
    counting_of,
    differences,
    distinct_cases,
    layers_of,
)
from pytest_vla.gate.baseline_file import Changes, read_baseline
from pytest_vla.gate.comparable import Pair, lines_of, row_of
from pytest_vla.metrics.rates import interval_text, judged_apart, left_out_text, rate_table, share_text
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.records.load import is_log, open_runs
from pytest_vla.records.names import DEFAULT_RESULTS, LAST_RUN
from pytest_vla.records.runs import Run, is_alive, sample_of
from pytest_vla.reports.loaded import load
from pytest_vla.reports.text import aligned, first_few, note_lines, printed, wrapped
from pytest_vla.util.text import counted


def baseline_named(text: str, results: Path, *, allow_unfinished: bool = False) -> Baseline:
    """Return the baseline in a file, or that of a run (or of another evaluator's log) if there is no such file.

    Raises:
        VlaError: there is neither a file nor a run of that name, or it cannot be read.
    """
    path = Path(text)
    if (path.is_file() or path.suffix == ".json") and not is_log(path):
        return read_baseline(path)
    return baseline_of_runs([text], results, allow_unfinished=allow_unfinished, allow_broken=True)[0]


def baseline_of_runs(
    texts: Sequence[str],
    results: Path,
    model: str | None = None,
    *,
    allow_unfinished: bool = False,
    allow_broken: bool = False,
    own_process: bool = False,
    allow_decided: bool = False,
) -> tuple[Baseline, list[str]]:
    """Return the baseline that runs make, and notes about it.

    Args:
        texts: runs, as `pytest_vla.records.load` knows them; the last run if empty.
        results: the folder of all runs.
        model: which of several, or None if the runs have one model.
        allow_unfinished: whether a run counts that did not run all planned episodes.
        allow_broken: whether episodes may have broken; the caller then reports how that changes its numbers.
        own_process: whether a run may be this process's, which judges the run before it stores its end.
        allow_decided: whether the gate may have stopped a run early; the caller then judges the run by rounds.

    Raises:
        VlaError: there is no such run, or a baseline of it would mislead.
    """
    texts = texts or [LAST_RUN]
    runs: dict[str, Run] = {}
    elsewhere: dict[str, str] = {}
    for store, some in open_runs(texts, results):
        folder = store.results
        is_usual = folder.resolve() == Path(DEFAULT_RESULTS).resolve()
        runs |= {run.name: run for run in some}
        elsewhere |= {run.name: "" if is_usual else f" {shlex.quote(f'--vla-results={folder}')}" for run in some}
    records = load(texts, results).records
    counting = counting_of(records, model)
    baseline = baseline_of(records, model)
    against = _against([*runs.values()], baseline.runs, elsewhere, own_process, allow_decided)
    broken = [record for record in counting.records if record.outcome == "error"]
    if broken and not allow_broken:
        reasons = ", ".join(sorted({str(record.reason) for record in broken}))
        again = f"Run them again: pytest --vla-resume={broken[-1].run}{elsewhere.get(broken[-1].run, '')}"
        if counting.retried:
            again = f"{counting.retried} ended by a retry, which is no result: mend the policy, and start a new run"
        against.append(f"{counted(len(broken), 'episode')} broke ({reasons}), so their results are unknown. {again}")
    if against and not allow_unfinished:
        raise VlaError("\n".join([*against, "Use --allow-unfinished to continue with the episodes that ran."]))
    return baseline, [*note_lines([*against, *counting.left_out])]


def _against(
    named: Sequence[Run],
    counting: Sequence[str],
    elsewhere: Mapping[str, str],
    own_process: bool,
    allow_decided: bool,
) -> list[str]:
    """Return the reasons why a baseline would have less than it seems.

    Args:
        named: the runs that the user named.
        counting: names of the runs whose records are in the baseline.
        elsewhere: by run, the option for its results folder, after a blank; empty for the usual folder.
        own_process, allow_decided: see `baseline_of_runs`.

    Raises:
        VlaError: the baseline would mislead in any case.
    """
    found = []
    for run in named:
        if run.done and run.name not in counting:
            # The run has another model, or its cases count in another run.
            continue
        if is_alive(run) and not (own_process and run.pid == os.getpid()):
            raise VlaError(f"run {run.name} is still running (process {run.pid}): wait for its end, or stop it")
        if run.decided and not allow_decided:
            found.append(
                f"run {run.name}: a sequential gate skipped {run.decided} of {run.planned} episodes because of the "
                "outcomes of the others, so the rest is biased. Run all episodes (--vla-gate=fixed)"
            )
        if run.is_unfinished:
            sample = sample_of(run)
            has = f"has {run.done} of {run.planned} episodes" if sample is None else f"was {sample.text}"
            found.append(f"run {run.name} {has}: pytest --vla-resume={run.name}{elsewhere[run.name]} runs the rest")
    if all(run.picked for run in named):
        told = ", ".join(f"{run.name} ({run.picked})" for run in named)
        raise VlaError(
            f"{told}: only episodes selected by their earlier outcome, so this is no baseline of the policy. Name the "
            "run of all episodes too, or run all episodes"
        )
    return found


SCHEMA = 1
"""Version of the JSON; raised whenever a key changes its meaning or is removed."""

_SHOWN = 10
_NOT_SHOWN = ("charged", "goal", "instruction", "scene", "run_seed", "init_state")


def baseline_lines(baseline: Baseline) -> Iterator[str]:
    """Model, runs, rates by suite (benign and varied episodes apart) with intervals over these tasks, conditions."""
    layers = layers_of(baseline.cases)
    tasks = len(layers.tasks)
    of = f"{counted(len(baseline.cases), 'case')} of {counted(tasks, 'task')}"
    lines = [
        f"model: {_policy_text(baseline)}",
        f"cases: {of}, {_run_seeds_text(baseline.cases)}",
        f"runs: {', '.join(baseline.runs)}; {baseline.made_by}",
    ]
    if all(baseline.began):
        lines.append(f"began: {' to '.join(text[:16].replace('T', ' ') for text in baseline.began)} UTC")
    rows: list[tuple[str, ...]] = [("suite", "success", "rate", "95% interval", "not in the rate")]
    rows += [
        (rate.name, f"{rate.successes}/{rate.counted}", share_text(rate), interval_text(rate), left_out_text(rate))
        for some in _by_suite(baseline.cases).values()
        for rate in _rates(some).values()
    ]
    if not any(row[-1] for row in rows[1:]):
        rows = [row[:-1] for row in rows]
    lines += aligned(rows, 1, {4})
    if probes := sum(case.is_probe for case in baseline.cases):
        lines.append(f"in no rate: {counted(probes, 'probe')}")
    if given := sum(case.is_given and not case.is_probe for case in baseline.cases):
        lines.append(f"in no rate: {counted(given, 'given case')} (--vla-cases)")
    lines += [line for text in _conditions_lines(layers, baseline.cases) for line in wrapped(text)]
    return printed(lines)


def baseline_table(baseline: Baseline) -> dict[str, Any]:
    """Return for JSON ``schema``, ``suites`` and the fields of a `Baseline`, with the number of ``cases``.

    ``suites`` by name: ``tasks`` and ``cases`` (how many), ``rates`` (``benign`` and ``varied``, or ``all`` if no task
    is varied, each a `pytest_vla.metrics.rates.rate_table`) and ``conditions`` that most of its tasks have.
    """
    layers = layers_of(baseline.cases)
    return {
        "schema": SCHEMA,
        "model": baseline.model,
        "policy_digest": baseline.policy_digest,
        "made_by": baseline.made_by,
        "runs": baseline.runs,
        "began": baseline.began,
        "cases": len(baseline.cases),
        "suites": {
            suite: {
                "tasks": sum(name == suite for name, _ in layers.tasks),
                "cases": len(some),
                "rates": {name or "all": rate_table(rate) for name, rate in _rates(some).items()},
                "conditions": layers.suites[suite],
            }
            for suite, some in _by_suite(baseline.cases).items()
        },
    }


def change_lines(changes: Changes) -> Iterator[str]:
    """Return a line for each change; empty if only names of runs and times differ."""
    before, after, agreement = changes.before, changes.after, changes.agreement
    lines = []
    if _policy_text(before) != _policy_text(after):
        lines.append(f"policy: {_policy_text(before)} before, {_policy_text(after)} now")
    for change, keys in (("added", agreement.only_new), ("removed", agreement.only_baseline)):
        if keys:
            lines.append(f"{change}: {counted(len(keys), 'case')}: {first_few([key[0] for key in keys], _SHOWN)}")
    for change, pairs in (("fail now", changes.lost), ("succeed now", changes.gained)):
        if pairs:
            lines.append(f"{change}: {counted(len(pairs), 'case')}: {first_few([pair.case for pair in pairs], _SHOWN)}")
    if changes.otherwise:
        ended = first_few([_ended_text(pair) for pair in changes.otherwise], _SHOWN)
        lines.append(f"different outcome: {counted(len(changes.otherwise), 'case')}: {ended}")
    if changes.moved:
        lines.append(f"same outcome, different trajectory: {counted(changes.moved, 'case')}")
    lines += lines_of(agreement.disagreements)
    rates = [
        {rate.name: rate for some in _by_suite(each.cases).values() for rate in _rates(some).values()}
        for each in (before, after)
    ]
    for name in dict.fromkeys([*rates[0], *rates[1]]):
        one, other = (_share_text(each.get(name)) for each in rates)
        if one != other:
            lines.append(f"{name}: {one} before, {other} now")
    return (line for text in printed(lines) for line in wrapped(text))


def _by_suite(cases: Sequence[CaseResult]) -> dict[str, list[CaseResult]]:
    found: dict[str, list[CaseResult]] = {}
    for case in cases:
        found.setdefault(case.suite, []).append(case)
    return {suite: found[suite] for suite in sorted(found)}


def _rates(cases: Sequence[CaseResult]) -> dict[str, SuccessRate]:
    """Return the rates by group of `judged_apart`, each named by suite and group."""
    suite = cases[0].suite
    cases = distinct_cases(cases)
    return {
        group: success_rate(f"{suite}, {group}" if group else suite, some, unit_of)
        for group, some in judged_apart(cases).items()
    }


def _share_text(rate: SuccessRate | None) -> str:
    return "none" if rate is None else f"{rate.successes}/{rate.counted} = {share_text(rate)}"


def _policy_text(baseline: Baseline) -> str:
    known = baseline.policy_digest
    return f"{baseline.model} ({'of unknown content' if known is None else f'policy {known[:8]}'})"


def kept_lines(baseline: Baseline) -> list[str]:
    """Return what is said when a baseline is saved that has one run seed; no line where it has several.

    The numbers: ``python benchmarks/gate.py --only kept``, 100 starts of a policy that does 90%.
    """
    if len({case.run_seed for case in baseline.cases}) > 1:
        return []
    return wrapped(
        "note: one run seed. If the policy draws, a lucky baseline makes false regressions in every later run: with "
        "--vla-regression=any 1 of 40 baselines does in 29% of runs or more, and with three run seeds in 14%; by the "
        "default, a loss beyond the margin, in 1%. Save runs of several --vla-run-seed together, and do not keep the "
        "best of several runs"
    )


def _run_seeds_text(cases: Sequence[CaseResult]) -> str:
    seeds = sorted({case.run_seed for case in cases})
    return f"run seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"


def _conditions_lines(layers: Layers, cases: Sequence[CaseResult]) -> Iterator[str]:
    yield from _told(layers.common, "")
    for suite, conditions in layers.suites.items():
        yield from _told(differences(conditions, layers.common), f" of {suite}")
    differing: dict[str, int] = {}
    for case in cases:
        for name in case.own:
            differing[name] = differing.get(name, 0) + 1
    for name, number in sorted(differing.items()):
        yield f"otherwise than most of the task: {row_of(name).about} ({name}) of {counted(number, 'case')}"


def _told(conditions: Mapping[str, Any], of: str) -> Iterator[str]:
    """Yield the conditions that a compared run must share, then those that only warn."""
    for title, warns in (("conditions", False), ("versions", True)):
        names = [name for name in conditions if name not in _NOT_SHOWN and (row_of(name).effect == "warns") == warns]
        if names:
            told = (f"{name.partition('.')[2] or name} {_value(conditions[name])}" for name in names)
            yield f"{title}{of}: {', '.join(told)}"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "/".join(map(str, value))
    return "none" if value is None else str(value)


def _ended_text(pair: Pair) -> str:
    one, other = (f"{side.outcome} {side.reason or ''}".rstrip() for side in (pair.baseline, pair.new))
    return f"{pair.case} {one} before, {other} now"
