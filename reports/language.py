"""The language: a section with success and PRIDE under paraphrases, failure types, and whether the policy listens."""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import ceil
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from pytest_vla.errors import UnloadedError, VlaError
from pytest_vla.language.backends import PUBLISHED, BackendChoice, Pair, choose_backend, published_backend
from pytest_vla.language.published import SUITE, cell_counts, csv_of, find_csv, load_published, numbered_tasks
from pytest_vla.metrics.clustered import CONFIDENCE, TASKS_LIKE_THESE, THESE_TASKS
from pytest_vla.metrics.failure_types import FEWEST_SUCCESSES, THRESHOLDS, USUAL_TAU, Algorithm, Tau, usual_algorithm
from pytest_vla.metrics.language import (
    OWN,
    LanguageGroup,
    Paraphrases,
    Scored,
    Subject,
    benign_rate,
    measure,
    measure_paraphrases,
    of_list,
    pair_of,
    scored,
    subjects,
)
from pytest_vla.metrics.language_grounding import OFTEN, SELDOM, GroundingEstimate, GroundingShare, Listening, Probe
from pytest_vla.metrics.language_paths import (
    MARGIN,
    FailureTypeSummary,
    LanguageReport,
    ModelResults,
    OtherChange,
    Source,
    TaskFailures,
    listening_score,
    text_failures,
)
from pytest_vla.metrics.pride import ACTION_TYPES, ALPHA, NONE, OBJECT_TYPES
from pytest_vla.metrics.rates import percent, percents, reasons_text
from pytest_vla.metrics.robustness import FEWEST_PAIRS
from pytest_vla.metrics.selection import is_counted
from pytest_vla.metrics.success import success_rate
from pytest_vla.plan.manifests import given_folders
from pytest_vla.records.load import open_run
from pytest_vla.records.record import Record
from pytest_vla.reports import blocks as b
from pytest_vla.reports import json_schema as j
from pytest_vla.reports.blocks import Block, Column, Heading, MarkedNumber, PageDrawing, Sentence, Table, estimate_text
from pytest_vla.reports.figures import draw_grid, file_names, new_figure, png_of
from pytest_vla.reports.html.svg import heat_cell, heat_table, overlay_blocks
from pytest_vla.reports.loaded import Loaded, path_loader, runs_of, unfinished_of, unread_lines
from pytest_vla.reports.sections import Section, tau_of
from pytest_vla.reports.text import aligned, printed, wrapped
from pytest_vla.util.live_line import told_when_slow
from pytest_vla.util.text import counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Compared:
    """S_K and S_T of the pairs of one score, all of one source."""

    source: Source
    similarities: Mapping[Pair, tuple[float, float]]


def comparer(prefer: str | None, csv: Path | None, *, loading: bool = True) -> Callable[[Sequence[Record]], Compared]:
    """Return a function that compares the texts of a score's records, at least one.

    Similarities that all of the records have, of one version, are taken as they are. A pair is compared once by each
    backend, however many scores it is in.

    Args:
        prefer: the only backend to use, or None for the best one.
        csv: LIBERO-Para's, or None to take published similarities from records only.
        loading: whether parsers and embedding models may be loaded.

    Raises, when it compares:
        VlaError: as `pytest_vla.language.backends.choose_backend`.
        UnloadedError: the best one would have to load what is not to be loaded.
    """
    known: dict[tuple[str, Pair], tuple[float, float]] = {}
    published = cache(load_published)

    def choose(pairs: Sequence[Pair]) -> BackendChoice:
        if prefer is not None or csv is None:
            return choose_backend(prefer, csv, pairs, loading=loading)
        backend = published_backend(published(csv))
        try:
            backend.compare(pairs)
        except VlaError as error:
            choice = choose_backend(None, None, pairs, loading=loading)
            return BackendChoice(choice.backend, {**choice.passed_over, PUBLISHED: str(error)})
        return BackendChoice(backend, {})

    def compare(records: Sequence[Record]) -> Compared:
        recorded = _recorded(records) if prefer in (None, PUBLISHED) else {}
        if len(recorded) == len(records) and len({by for by, _ in recorded.values()}) == 1:
            ((backend, _), *_) = recorded.values()
            found = {pair_of(records[index]): similarities for index, (_, similarities) in recorded.items()}
            return Compared(Source(backend, False, {}), found)
        pairs = list(dict.fromkeys(map(pair_of, records)))
        choice = choose(pairs)
        passed_over = dict(choice.passed_over)
        if recorded and PUBLISHED in passed_over:
            passed_over[PUBLISHED] += f"; {len(recorded)} of {len(records)} episodes have them in their records"
        text = str(choice.backend)
        new = [pair for pair in pairs if (text, pair) not in known]
        for pair, each in zip(new, choice.backend.compare(new) if new else (), strict=True):
            known[text, pair] = each.keyword, each.structural
        source = Source(text, choice.backend.low_fidelity, passed_over)
        return Compared(source, {pair: known[text, pair] for pair in pairs})

    return compare


def _recorded(records: Sequence[Record]) -> dict[int, tuple[str, tuple[float, float]]]:
    """Return the source, S_K and S_T of the records that have similarities, by their place."""
    found = {}
    for index, record in enumerate(records):
        has = record.variation.get("parameters", {})
        by, keyword, structural = has.get("similarity_by"), has.get("s_k"), has.get("s_t")
        # Published ones are up to 1.0000003.
        numbers = (each for each in (keyword, structural) if isinstance(each, int | float) and 0 <= each <= 1.001)
        if isinstance(by, str) and len([*numbers]) == 2:
            found[index] = (by, (float(keyword), float(structural)))
    return found


def language_lines(records: Sequence[Record], run: Path, shown: str, width: int | None) -> list[str]:
    """Return the row of each suite with paraphrases, and the command that reports the whole run.

    Args:
        records: of the run, some of them varied.
        run: its folder.
        shown: the folder as the user would write it.
        width: of the terminal, or None for lines of any length.
    """
    found = [each for each in subjects(records) if any(map(is_counted, each.paraphrases))]
    data, lines = [], []
    if found:
        csv, needed = _find_csv(run)
        data = [f"--data={csv}"] if needed else []
        try:
            lines = _rows(found, csv, width)
        except VlaError as error:
            lines = wrapped(f"PRIDE: {error}", width, "")
    # Without trajectories a run has no folder.
    which = [shown] if run.is_dir() else [run.name, f"--results={Path(shown).parent}"]
    return [*printed(lines), f"Full report: `{shlex.join(['pytest-vla', 'report', *which, *data])}`"]


def _rows(found: Sequence[Subject], csv: Path | None, width: int | None) -> list[str]:
    scores = [[record for record in each.paraphrases if is_counted(record)] for each in found]
    rows: list[tuple[str, ...]] = [("model", "suite", "n", "SR", "PRIDE", "overestimation")]
    backends: dict[str, list[str]] = {}
    compared = _compared(scores, csv)
    for each, records, by in zip(found, scores, compared, strict=True):
        if by is None:
            continue
        known = scored(records, by.similarities, by.source.backend)
        m = measure(known, ALPHA)
        numbers = (estimate_text(number, ".1f") for number in (m.sr, m.pride, m.overestimation))
        rows.append((each.model, each.suite, str(m.n), *numbers))
        backends.setdefault(by.source.backend, []).append(each.suite)
    lines = []
    if backends:
        models = list(dict.fromkeys(row[0] for row in rows[1:]))
        # One model's name may be long: it has the line above.
        rows = [row[1:] if len(models) == 1 else row for row in rows]
        over = "over paraphrases like these, of these tasks"
        title = f"paraphrases by {', '.join(models)}, % [{CONFIDENCE:.0%} {over}]"
        lines += [*wrapped(title, width, ""), *aligned(rows, 1 if len(models) == 1 else 2, width=None)]
    for backend, suites in backends.items():
        of = f" ({', '.join(dict.fromkeys(suites))})" if len(backends) > 1 else ""
        lines += wrapped(f"PRIDE at alpha {ALPHA:g} by {backend}{of}", width, "")
    if left := [each.suite for each, by in zip(found, compared, strict=True) if by is None]:
        of = f" of {', '.join(dict.fromkeys(left))}" if backends else ""
        text = f"PRIDE{of}: not worked out here, as a parser would have to be loaded; the report does it, and keeps it"
        lines += wrapped(text, width, "")
    return lines


def _compared(scores: Sequence[Sequence[Record]], csv: Path | None) -> list[Compared | None]:
    """Return the similarities of each score, or None if a parser would have to be loaded. Raises VlaError."""
    # A parser brings torch and spaCy with it, which are not for a process that is about to end.
    compare = comparer(None, csv, loading=False)
    found: list[Compared | None] = []
    for records in scores:
        try:
            found.append(compare(records))
        except UnloadedError:
            found.append(None)
    return found


def _find_csv(run: Path) -> tuple[Path | None, bool]:
    """Return LIBERO-Para's CSV if the run found it, and whether the report's command has to name it."""
    try:
        with open_run(run.name, run.parent) as (_, runs):
            data = runs[0].invocation.get("settings", {}).get("data")
    except VlaError:
        data = None
    by_itself = os.environ.get("PYTEST_VLA_DATA")
    known = find_csv(Path(by_itself)) if by_itself else None
    found = (find_csv(folder) for folder in given_folders(Path(data) if data else None))
    csv = next((each for each in found if each is not None), None)
    return csv, csv is not None and csv != known


BAR = 40
"""Characters of 100%."""

OVER = "paraphrases like these, of these tasks"
"""What intervals of a language generalise over, unless they say otherwise."""

_COLUMNS = 5
_DTW = {"fastdtw": "fastdtw", "exact": "exact DTW"}
# Told apart by all kinds of colour vision: Okabe and Ito's palette.
_SUCCESS, _NEAR, _FAR, _MEAN = "#999999", "#E69F00", "#0072B2", "#000000"


def section(loaded: Loaded, options: argparse.Namespace) -> Section | None:
    """Return the section, or None if no text was varied."""
    csv, tau = csv_of(options.data), tau_of(options)
    report = make_report(loaded, options.alpha, csv, options.backend, options.failure_algorithm, tau)
    if report is None:
        return None
    models = {(model.model, model.suite, model.protocol): model_table(model) for model in report.models}
    return Section(
        lambda: language_blocks(report, options.full),
        report_table(report),
        models,
        lambda: pictures(report),
        "Language",
    )


def report_table(report: LanguageReport) -> dict[str, Any]:
    """Return the section's keys in JSON beside ``models``."""
    return j.written(_METHODS, report)


def model_table(results: ModelResults) -> dict[str, Any]:
    """Return the section's keys in JSON within a model: percentages 0..100, distances 0..1, alphas as texts."""
    return {"model": results.model, "suite": results.suite, **j.written(_MODELS, results)}


def make_report(
    loaded: Loaded,
    alpha: float,
    csv: Path | None,
    backend: str | None,
    algorithm: Algorithm | None,
    tau: Tau = USUAL_TAU,
) -> LanguageReport | None:
    """Return all results on the language, or None if no record has a variation of it.

    Args:
        loaded: the records.
        alpha: weight of S_K.
        csv: LIBERO-Para's, or None without published similarities.
        backend: of all similarities, or None for the best one that has all pairs of a score.
        algorithm: of the failure types, or None for fastdtw if it is installed.
        tau: how their threshold is made.

    Raises:
        VlaError: a requested backend or algorithm is not available.
    """
    found = subjects(loaded.records)
    if not found:
        return None
    remarks = []
    if algorithm is None:
        algorithm = usual_algorithm()
        remarks += ["fastdtw, the paper's DTW: it is not installed; exact DTW is taken"] * (algorithm == "exact")
    compare = _slow_comparer(comparer(backend, csv), backend)
    models = tuple(_results(each, loaded, alpha, compare, algorithm, tau, remarks) for each in found)
    return LanguageReport(alpha=alpha, models=models)


def _slow_comparer(
    compare: Callable[[Sequence[Record]], Compared], backend: str | None
) -> Callable[[Sequence[Record]], Compared]:
    """Return `compare` with a line on standard error if it takes long: parsers and models are loaded."""

    def told(records: Sequence[Record]) -> Compared:
        pairs = len({pair_of(record) for record in records})
        by = f" by {backend}" if backend is not None else ""
        what = f"comparing {counted(pairs, 'pair')} of texts{by}; what is worked out is kept"
        with told_when_slow(what, sys.stderr):
            return compare(records)

    return told


def _results(
    subject: Subject,
    loaded: Loaded,
    alpha: float,
    compare: Callable[[Sequence[Record]], Compared],
    algorithm: Algorithm,
    tau: Tau,
    remarks: Sequence[str],
) -> ModelResults:
    left_out = list(subject.left_out)
    varied = subject.varied
    runs = runs_of(varied, loaded)
    left_out += unfinished_of(varied, loaded)
    paraphrases, source, of_whole_list, others = None, None, None, {}
    if measured := [record for record in subject.paraphrases if is_counted(record)]:
        compared = compare(measured)
        source = compared.source
        known = scored(measured, compared.similarities, source.backend)
        paraphrases = measure_paraphrases(known, alpha)
        own = sum(record.variation.get("parameters", {}).get("texts") == OWN for record in measured)
        if own:
            left_out.append(f"{counted(own, 'episode')} with texts of your own, which are not in LIBERO-Para's list")
        elif subject.suite == SUITE:
            of_whole_list = of_list(known, alpha, cell_counts(), len(numbered_tasks()))
            left_out += _no_total(known, of_whole_list is None)
    else:
        left_out.append("PRIDE and the grids: there is no success and no failure under a paraphrase")
    for kind, records in subject.others.items():
        if measured := [record for record in records if is_counted(record)]:
            compared = compare(measured)
            known = scored(measured, compared.similarities, compared.source.backend)
            others[kind] = OtherChange(compared.source, measure(known, alpha))
    paths, troubles = path_loader(loaded)
    reworded = [record for record in subject.reworded if is_counted(record)]
    with told_when_slow(f"failure types of {counted(len(reworded), 'episode')}", sys.stderr):
        failures = text_failures(reworded, paths, algorithm, tau)
    of_types = [*_without_path(reworded, 0 if failures is None else failures.n)]
    of_types += remarks if failures is not None else []
    heard, of_listening = listening_score(subject, paths)
    if heard is None and not subject.probes:
        why = "listening score: no episode has a probe (blank, nonsense, another task's text or its goal)"
        of_listening = (*of_listening, why)
    left_out += unread_lines(troubles)
    return ModelResults(
        model=subject.model,
        suite=subject.suite,
        runs=runs,
        seeds=tuple(sorted({record.seed for record in varied})),
        benign=benign_rate(subject),
        counts=success_rate("varied", varied),
        paraphrases=paraphrases,
        of_list=of_whole_list,
        source=source,
        others=others,
        failures=failures,
        listening=heard,
        left_out=tuple(left_out),
        left_out_of_types=tuple(of_types),
        left_out_of_listening=of_listening,
        protocol=subject.protocol,
        rate=success_rate("paraphrases", subject.paraphrases) if subject.paraphrases else None,
    )


def _no_total(known: Scored, is_part: bool) -> Iterator[str]:
    """Yield a line if only a part of LIBERO-Para's list was run: a mean over a part is no total."""
    told, listed = len(set(known.texts)), sum(cell_counts().values())
    if told < listed:
        instead = ", and there is none as some of its 43 cells or ten tasks are missing" if is_part else ""
        yield f"{told:,} of LIBERO-Para's {listed:,} paraphrases were told: means over them are no total{instead}"


def _without_path(records: Sequence[Record], number: int) -> Iterator[str]:
    """Yield a line if the failure types of some episodes are unknown, as only `number` of them have a path."""
    if not records:
        yield "failure types: there is no success and no failure under another text, probes aside"
    elif number < len(records):
        imported = sum("imported" in record.provenance for record in records)
        none = len(records) - number
        have = "has" if none == 1 else "have"
        share = f"{none} of {len(records)} episodes {have} no" if number else "no episode has a"
        logs = f" ({imported} {'is' if imported == 1 else 'are'} imported, and logs have none)" if imported else ""
        yield f"failure types: {share} trajectory{logs}"


# In JSON all keys are there for a model and suite with any other text. Those of the model itself are about paraphrases
# of LIBERO-Para's types; other changes of the text are in `others`. `..._interval` is over paraphrases like these, of
# these tasks, `..._tasks_interval` over tasks like these.

_METHODS: j.Keys = {
    "alpha": j.SHARE,
    "intervals": j.row(
        {
            "confidence": j.SHARE.always(CONFIDENCE),
            "over": j.row({"interval": j.TEXT.always(OVER), "tasks_interval": j.TEXT.always(TASKS_LIKE_THESE)}).always(
                None
            ),
            "method": j.TEXT.always(
                "Wilson's, of as many episodes as would stray as far if they were independent, with Student's t; "
                "of the overestimation and the listening score the delta method"
            ),
        }
    ).always(None),
}
_MEASURED: j.Keys = {
    "n": j.COUNT, **j.estimate("sr", j.PERCENT), **j.estimate("pd"), **j.estimate("pride"),
    **j.estimate("overestimation"),
}  # fmt: skip
_SOURCE: j.Keys = {
    "backend": j.maybe(j.TEXT),
    "low_fidelity": j.maybe(j.FLAG),
    "passed_over": j.maybe(j.by_name(j.TEXT)),
}


def _named(attribute: str) -> j.JsonKey:
    """Return the key of groups of paraphrases, by name."""
    keys = {"name": j.TEXT.of(lambda item: item[0]), **j.through(lambda item: item[1], _MEASURED)}
    return j.listed(j.row(keys)).of(
        lambda m: [] if m.paraphrases is None else getattr(m.paraphrases, attribute).items()
    )


def _by_alpha(get: Callable[[GroundingEstimate], Any]) -> Callable[[ModelResults], dict[str, Any] | None]:
    """Return a function that gives a value of PRIDE by alpha, which is a text."""

    def read(model: ModelResults) -> dict[str, Any] | None:
        found = model.paraphrases
        if found is None:
            return None
        sweep = {**found.sweep, **({} if found.alpha in found.sweep else {found.alpha: found.overall.pride})}
        return {str(alpha): None if each is None else get(each) for alpha, each in sorted(sweep.items())}

    return read


_BENIGN: j.Keys = {
    "n": j.COUNT.of("counted"), "sr": j.maybe(j.PERCENT).of(lambda rate: percent(rate.rate)),
    "sr_interval": j.INTERVAL.of(lambda rate: percents(rate.interval)),
    "sr_tasks_interval": j.INTERVAL.of(lambda rate: percents(rate.tasks_interval)),
    "not_counted": j.COUNT, "bounds": j.INTERVAL.of(lambda rate: percents(rate.bounds)), "errors": j.REASONS,
    "invalid": j.REASONS,
}  # fmt: skip
_SHARES: j.Keys = {**j.estimate("near"), **j.estimate("far"), **j.estimate("far_of_failures", get="far_share")}
_NEAR_FAR = j.row({"near": j.COUNT.of(lambda pair: pair[0]), "far": j.COUNT.of(lambda pair: pair[1])})


def _near_far(task: TaskFailures, exact: bool = False) -> dict[str, tuple[int, int]] | None:
    """Return near and far failures by threshold, or None if the types are undefined."""
    if task.types.judgement is None or task.types.exact is None:
        return None
    return {name: task.near_far(name, exact=exact) for name in THRESHOLDS}


def _at_most(place: int) -> Callable[[TaskFailures], int | None]:
    def read(task: TaskFailures) -> int | None:
        found = _near_far(task)
        return None if found is None else found["max"][place]

    return read


_BY_THRESHOLD = j.maybe(j.row({name: _NEAR_FAR.of(itemgetter(name)) for name in THRESHOLDS}))
_TASK: j.Keys = {
    "name": j.TEXT.of("task"), "successes": j.COUNT, "failures": j.COUNT,
    "undefined": j.maybe(j.TEXT).of("types.undefined"),
    "near": j.maybe(j.COUNT).of(_at_most(0)), "far": j.maybe(j.COUNT).of(_at_most(1)),
    "thresholds": _BY_THRESHOLD.of(_near_far),
    "exact": _BY_THRESHOLD.of(lambda task: _near_far(task, exact=True)),
    "differing": j.COUNT.of(lambda task: len(task.types.differing)), "remarks": j.REASONS,
    "instead": j.REASONS.of(lambda task: {name: len(margins) for name, margins in task.instead.items()}),
    "instead_margin": j.by_name(j.NUMBER).of("instead_margins"), "of_no_task": j.COUNT.of("nobodys"),
    "far_failures": j.listed(
        j.row(
            {
                "case": j.TEXT,
                **j.through(
                    "nearest",
                    {"instead": j.maybe(j.TEXT).of("task"), "nearest": j.maybe(j.TEXT), "margin": j.maybe(j.NUMBER)},
                ),
            }
        )
    ).of("far"),
}  # fmt: skip
_FAILURE_KEYS: j.Keys = {
    "algorithm": j.TEXT, "tau": j.TEXT, "n": j.COUNT, **j.estimate("sr"),
    **j.through(lambda found: found.levels["max"], _SHARES),
    **j.estimate("undefined"),
    "thresholds": j.row({n: j.row(_SHARES).of(itemgetter(n)) for n in THRESHOLDS}).of("levels"),
    "exact": j.by_name(j.row(_SHARES)), "differing": j.COUNT, "tasks": j.listed(j.row(_TASK)),
}  # fmt: skip


def _heard_share(name: str, attribute: str) -> dict[str, j.JsonKey]:
    def get(heard: Listening) -> GroundingEstimate | None:
        of: GroundingShare = getattr(heard, attribute)
        value = percent(of.count / of.of if of.of else None)
        # Without a value it has bounds all the same: none.
        return None if value is None else GroundingEstimate(value, percents(of.interval), percents(of.tasks_interval))

    return {**j.estimate(name, j.PERCENT, get), f"{name}_n": j.COUNT.of(f"{attribute}.of")}


_HEARD: j.Keys = {
    "verdict": j.one_of("listens", "breaks", "ignores", "not determined"),
    **_heard_share("followed", "followed"), **_heard_share("obeyed", "obeyed"), **_heard_share("told", "told"),
    **_heard_share("sr_right", "right"), **_heard_share("sr_probe", "probe"),
    "lost": j.COUNT, "gained": j.COUNT,
    **j.estimate("score"), **j.estimate("distance"), **j.estimate("noise"), **j.estimate("path_score"),
}  # fmt: skip
_CELL: j.Keys = {
    "object": j.TEXT.of(lambda item: item[0][0]), "action": j.TEXT.of(lambda item: item[0][1]),
    **j.through(lambda item: item[1], _MEASURED),
}  # fmt: skip
_OTHER: j.Keys = {
    "kind": j.TEXT.of(lambda item: item[0]), **j.through(lambda item: item[1].source, _SOURCE),
    **j.through(lambda item: item[1].measured, _MEASURED),
}  # fmt: skip
_OVERALL = j.through(lambda model: None if model.paraphrases is None else model.paraphrases.overall, _MEASURED)
_MODELS: j.Keys = {
    "runs": j.listed(j.TEXT), "seeds": j.listed(j.COUNT), "benign": j.maybe(j.row(_BENIGN)),
    # Errors and invalid episodes are those of all episodes under another text.
    "errors": j.REASONS.of("counts.errors"), "invalid": j.REASONS.of("counts.invalid"),
    "not_counted": j.COUNT.of(lambda model: 0 if model.rate is None else model.rate.not_counted),
    "bounds": j.INTERVAL.of(lambda model: None if model.rate is None else percents(model.rate.bounds)),
    **j.through("source", _SOURCE),
    **_OVERALL, "n": j.COUNT.of(lambda model: 0 if model.paraphrases is None else model.paraphrases.overall.n),
    "pride": j.maybe(j.by_name(j.maybe(j.NUMBER))).of(_by_alpha(lambda each: each.value)),
    "pride_interval": j.maybe(j.by_name(j.INTERVAL)).of(_by_alpha(lambda each: each.interval)),
    "pride_tasks_interval": j.maybe(j.by_name(j.INTERVAL)).of(_by_alpha(lambda each: each.tasks_interval)),
    # As if all of LIBERO-Para's list had been told, each cell weighed by its paraphrases.
    "of_list": j.maybe(
        j.row({**j.estimate("sr", j.PERCENT, lambda pair: pair[0]), **j.estimate("pride", get=lambda pair: pair[1])})
    ),
    "cells": j.listed(j.row(_CELL)).of(lambda m: [] if m.paraphrases is None else m.paraphrases.cells.items()),
    "objects": _named("objects"), "actions": _named("actions"), "categories": _named("categories"),
    "tasks": _named("tasks"), "others": j.listed(j.row(_OTHER)).of(lambda model: model.others.items()),
    "failures": j.maybe(j.row(_FAILURE_KEYS)),
    "listening": j.maybe(
        j.row(
            {
                **j.through(lambda heard: heard[0], _HEARD),
                "probes": j.by_name(j.row(_HEARD)).of(lambda heard: heard[1]),
            }
        )
    ),
    "left_out": j.listed(j.TEXT).of(lambda model: model.all_left_out),
}  # fmt: skip

schema = partial(j.SectionSchema, _METHODS, _MODELS)
"""Gives the section's keys in JSON."""


def language_blocks(report: LanguageReport, full: bool = False) -> Iterator[Block]:
    """Yield the section's blocks.

    Args:
        report: all of it.
        full: whether grids are shown in which no cell has enough episodes for a rate.
    """
    yield Sentence(
        f"alpha {report.alpha:g}; in brackets {CONFIDENCE:.0%} intervals over {OVER}, and over their seeds where "
        "paraphrases recur under several; where each has but one, other seeds of theirs are not in them, as they are "
        "in intervals over these tasks",
        indent="",
    )
    by_backend: dict[str, list[ModelResults]] = {}
    for model in report.models:
        by_backend.setdefault(model.paraphrases.backend if model.paraphrases else "no similarities", []).append(model)
    for backend, models in by_backend.items():
        head = (*map(Column, ("model", "suite", "seeds")), *_MEASURED_COLUMNS, Column("benign SR", ".1f"))
        yield Table(f"Paraphrases, % ({backend})", head, tuple(map(_model_row, models)), "paraphrases", names=3)
    for model in report.models:
        protocol = f" as {model.protocol} has it" if model.protocol else ""
        title = f"{model.model}, {model.suite}{protocol}"
        yield Heading(title, (model.model, model.suite, model.protocol))
        if reasons := reasons_text(model.counts, bounds=False):
            yield Sentence(f"in no rate: {reasons}")
        for rate, of in ((model.rate, "paraphrases"), (model.benign, "benign twins")):
            if rate is not None and (reasons := reasons_text(rate)):
                yield Sentence(f"in no rate of {of}: {reasons}")
        yield from b.notes(model.all_left_out)
        if model.paraphrases is not None:
            yield from _source(model.source, "paraphrases")
            yield from _totals(model)
            yield from _paraphrases(model.paraphrases, full, title)
        for source in dict.fromkeys(each.source.backend for each in model.others.values()):
            yield from _others({kind: each for kind, each in model.others.items() if each.source.backend == source})
        if model.failures is not None:
            yield Heading(f"{title}: failure types", medium="page")
            yield from _failures(model.failures)
        if model.listening is not None:
            yield Heading(f"{title}: language grounding", medium="page")
            yield from _listening(*model.listening)
        if model.failures is not None:
            yield from overlay_blocks(title, {"other words": model.failures.tasks})


_DISTANCE = Column("PD", ".3f", is_brief=True)
_MEASURED_COLUMNS = (
    Column("n"),
    Column("SR", ".1f"),
    Column("PRIDE", ".1f"),
    Column("overestimation", ".1f"),
    Column("PD", ".3f", medium="page"),
)


def _measured(group: LanguageGroup) -> tuple[b.Cell, ...]:
    """Return the cells of `_MEASURED_COLUMNS`; too few episodes have no rate."""
    if group.n < FEWEST_PAIRS:
        return group.n, _count(group), None, None, group.pd
    return group.n, group.sr, group.pride, group.overestimation, group.pd


def _model_row(model: ModelResults) -> tuple[b.Cell, ...]:
    overall = None if model.paraphrases is None else model.paraphrases.overall
    measured = (0, None, None, None, None) if overall is None else _measured(overall)
    benign = None if model.benign is None else b.rate_cell(model.benign)
    return model.model, model.suite, ",".join(map(str, model.seeds)) or "-", *measured, benign


def _source(source: Source | None, what: str) -> Iterator[Sentence]:
    if source is not None and source.passed_over:
        yield Sentence(f"similarities of {what}: {source.backend}")
        for name, why in source.passed_over.items():
            yield Sentence(f"  not {name}: {why}", indent="    ")


def _others(others: Mapping[str, OtherChange]) -> Iterator[Block]:
    source = next(iter(others.values())).source.backend
    columns = (Column("kind"), *_MEASURED_COLUMNS[:-1], _DISTANCE)
    rows = tuple((kind, *_measured(each.measured)) for kind, each in others.items())
    yield Table(f"Other changes of the text, % ({source})", columns, rows, "others")
    for kind, each in others.items():
        yield from _source(each.source, kind)


def _totals(model: ModelResults) -> Iterator[Sentence]:
    """Yield intervals over tasks like these, and means over LIBERO-Para's whole list."""
    found = model.paraphrases
    if found is None:
        return
    by_task = [
        f"{name} {b.cell_text(each.tasks_interval, Column('', '.1f'))}"
        for name, each in (("SR", found.overall.sr), ("PRIDE", found.overall.pride))
        if each is not None and each.tasks_interval is not None
    ]
    if by_task:
        yield Sentence(f"over {TASKS_LIKE_THESE}: {', '.join(by_task)}")
    if model.of_list is not None:
        sr, pride = model.of_list
        text = f"as if all of LIBERO-Para's list had been told: SR {estimate_text(sr, '.1f')}"
        yield Sentence(text + ("" if pride is None else f", PRIDE {estimate_text(pride, '.1f')}"))


def _paraphrases(found: Paraphrases, full: bool, title: str) -> Iterator[Block]:
    if full or any(cell.n >= FEWEST_PAIRS for cell in (*found.cells.values(), *found.actions.values())):
        yield from _grids(found)
    else:
        episodes = counted(found.overall.n, "episode")
        yield Sentence(
            f"{episodes} in {counted(len(found.cells), 'cell')} of objects x actions: fewer than {FEWEST_PAIRS} "
            "in each, so that there are no rates; `pytest-vla report --full` shows them",
            is_apart=True,
        )
    if full or found.overall.n >= FEWEST_PAIRS:
        sweep = tuple(found.sweep.items())
        columns = (Column("alpha", "g"), Column("PRIDE", ".1f"))
        yield Table(f"PRIDE by alpha, % ({found.backend})", columns, sweep, "sweep")
        yield Heading(f"{title}: paraphrases by task", is_open=False, medium="page")
        rows = tuple((name, *_measured(each)) for name, each in found.tasks.items())
        yield Table(f"Tasks, % ({found.backend})", (Column("task"), *_MEASURED_COLUMNS), rows, "tasks")


def _grids(found: Paraphrases) -> Iterator[Block]:
    heat = (
        ("Success, %: what is said of the object, and of the action", "sr", 100, ".0f"),
        ("PRIDE: the same, weighed by how far the words are", "pride", 100, ".0f"),
        ("Mean distance of the words", "pd", 1, ".2f"),
    )
    for caption, attribute, most, form in heat:
        if found.cells:
            yield PageDrawing(partial(_heat, caption, found, attribute, most, form))
    yield _grid("Success rate, % (episodes), objects x actions", found, "sr", ".1f")
    yield _grid(f"Mean distance PD (episodes), objects x actions ({found.backend})", found, "pd", ".3f")
    columns = (*map(Column, ("object", "action")), *_MEASURED_COLUMNS)
    rows = tuple((*kinds, *_measured(cell)) for kinds, cell in found.cells.items())
    yield Table("Success by object and action", columns, rows, "cells", names=2, medium="files")
    yield _bars("action type", "Success rate by action type, %, all objects", found.actions, "actions")
    if found.categories:
        caption = "Success rate by category of the action, %, objects as they are"
        yield _bars("category", caption, found.categories, "categories")
    columns = (Column("object type"), *_MEASURED_COLUMNS)
    rows = tuple((name, *_measured(each)) for name, each in found.objects.items())
    yield Table("Success rate by object type, %, all actions", columns, rows, "objects", medium="page")


def _heat(caption: str, found: Paraphrases, attribute: str, most: int, form: str) -> Markup:
    """Draw a number of each action and object in a colour, up to `most`."""

    def drawn(kind: str, action: str) -> Markup:
        cell = found.cells.get((kind, action))
        value: GroundingEstimate | None = getattr(cell, attribute, None)
        if cell is None or value is None:
            return Markup("<td>-</td>")
        told = f"{kind} x {action}: {estimate_text(value, '.4g')}, {cell.n} episodes"
        return heat_cell(value.value / most, format(value.value, form), told)

    kinds = [*dict.fromkeys(kind for kind, _ in found.cells)]
    actions = dict.fromkeys(action for _, action in found.cells)
    rows = {action.replace("_", " "): [drawn(kind, action) for kind in kinds] for action in actions}
    return heat_table(caption, "action, by object", [kind.replace("_", " ") for kind in kinds], rows)


def _grid(caption: str, found: Paraphrases, attribute: str, form: str) -> Table:
    def cell(group: LanguageGroup | None) -> b.Cell:
        if group is None:
            return None
        if attribute == "sr" and group.n < FEWEST_PAIRS:
            return _count(group)
        return MarkedNumber(getattr(group, attribute).value, f" ({group.n})")

    rows = [
        (action, *(cell(found.cells.get((kind, action))) for kind in OBJECT_TYPES), cell(found.actions.get(action)))
        for action in ACTION_TYPES
    ]
    rows.append(("all", *(cell(found.objects.get(kind)) for kind in OBJECT_TYPES), cell(found.overall)))
    columns = (Column(""), *(Column(kind, form) for kind in (*OBJECT_TYPES, "all")))
    return Table(caption, columns, tuple(rows), f"grid-{attribute}", is_digest=True, medium="terminal")


def _bars(head: str, caption: str, groups: Mapping[str, LanguageGroup], name: str) -> Table:
    measured = (replace(each, medium="page" if place > 1 else "all") for place, each in enumerate(_MEASURED_COLUMNS))
    columns = (Column(head), Column("", medium="terminal"), *measured)
    rows = tuple(
        (
            kind,
            "" if each.n < FEWEST_PAIRS else ("#" * round(BAR * each.sr.value / 100)).ljust(BAR, "."),
            *_measured(each),
        )
        for kind, each in groups.items()
        if kind != NONE or len(groups) > 1
    )
    return Table(caption, columns, rows, name, names=2)


def _failures(failures: FailureTypeSummary) -> Iterator[Block]:
    shares = tuple(Column(name, ".1f") for name in ("SR", "near", "far", "far of failures", "undefined"))
    by_dtw = [("", failures.levels)] + ([(" exact", failures.exact)] if failures.differing else [])
    yield Table(
        f"Failure types, % of {failures.n} episodes with a path ({failures.algorithm}): execution near, planning far",
        (Column("tau"), *shares),
        tuple(
            (f"{name}{suffix}", failures.sr, each.near, each.far, each.far_share, failures.undefined)
            for suffix, levels in by_dtw
            for name, each in levels.items()
        ),
        "failure-types",
    )
    if failures.algorithm != "exact":
        has = "has" if failures.differing == 1 else "have"
        yield Sentence(f"{counted(failures.differing, 'failure')} {has} another label by exact DTW")
    yield Table(
        "By task, counts at tau = max; a far failure did the task that it is nearest to, or none; in brackets the "
        f"median of 1 - distance to this task / distance to the next one; from {MARGIN:g} on it is named",
        (
            *map(Column, ("task", "successes", "failures", "near", "far")),
            Column("remarks", is_left=True),
            Column("did instead", is_left=True),
        ),
        tuple(map(_task_row, failures.tasks)),
        "failures",
    )
    yield Sentence(
        "slow: far as cut at the longest success, near as a whole; diverges-late: near until then, far afterwards"
    )
    if failures.tau == "paper":
        yield Sentence(
            "tau, as the paper has it: of the successes' distances to the mean of all of them, themselves included; "
            "with few successes most paths that are like theirs count as far"
        )
        return
    yield Sentence(
        "tau: of the successes' distances, each to the mean of the others; of paths that are like n successes one in n "
        f"+ 1 is far by chance; few-successes: not determined, as they are below {FEWEST_SUCCESSES}"
    )


def _task_row(task: TaskFailures) -> tuple[b.Cell, ...]:
    near, far = task.near_far("max") if task.types.undefined is None else (None, None)
    remarks = [f"{number} {remark}" for remark, number in task.remarks.items()]
    remarks += [f"undefined: {task.types.undefined}"] if task.types.undefined is not None else []
    instead = [
        f"{len(margins)} {'itself' if name == task.task else name} ({task.instead_margins[name]:.2f})"
        for name, margins in task.instead.items()
    ]
    instead += [f"{task.nobodys} none"] if task.nobodys else []
    numbers = (task.successes, task.failures, near, far)
    return (task.task, *numbers, ", ".join(remarks) or b.NONE, ", ".join(instead) or b.NONE)


_VERDICTS = {
    "listens": f"it listens: it does what another text says, above {OFTEN:g} times as often as the right one's task",
    "breaks": f"it does not listen: other texts break it, and what they say it does below {SELDOM:g} times as often as "
    "the right one's task",
    "ignores": "it does not listen: it does the task whatever it is told",
    "not determined": "whether it listens is not determined",
}


def _listening(overall: Listening, each: Mapping[Probe, Listening]) -> Iterator[Block]:
    share = Column("", ".1f", 100)
    yield Sentence(f"Language grounding. Intervals are over {THESE_TASKS}", is_apart=True)
    yield Sentence(_VERDICTS[overall.verdict])
    yield Sentence(f"told another task, it did that one in {b.cell_text(overall.followed, share)}")
    if overall.obeyed.of:
        yield Sentence(f"told another task with its goal, it did that one in {b.cell_text(overall.obeyed, share)}")
    all_of_them: dict[str, Listening] = {**{str(probe): heard for probe, heard in each.items()}, "all": overall}
    yield Table(
        "Success that is lost without the right text, 0: none, 1: all; lost is not listened to",
        (
            Column("text"),
            Column("verdict", is_left=True, medium="page"),
            Column("lost", ".2f"),
            Column("right text, %", ".1f", 100),
            Column("this text, %", ".1f", 100),
            Column("followed, %", ".1f", 100, medium="page"),
            Column("obeyed, %", ".1f", 100, medium="page"),
        ),
        tuple((name, e.verdict, e.score, e.right, e.probe, e.followed, e.obeyed) for name, e in all_of_them.items()),
        "listening",
    )
    if overall.distance is not None:
        yield Table(
            "Its paths; 0: as far apart as two runs of the right text, 1: all of their distance is the text's",
            (Column("text"), *(Column(name, ".2f") for name in ("path score", "DTW m", "noise m"))),
            tuple((name, e.path_score, e.distance, e.noise) for name, e in all_of_them.items()),
            "listening-paths",
        )


def _count(group: LanguageGroup) -> GroundingShare:
    """Return the successes out of fewer than `FEWEST_PAIRS` episodes, in the place of a rate."""
    return GroundingShare(round(group.n * group.sr.value / 100), group.n, None)


def pictures(report: LanguageReport) -> dict[str, bytes]:
    """Return the pictures as PNG by name: ``sweep``, and ``...-grids`` and ``...-paths`` for each model."""
    return {name: png_of(figure) for name, figure in _figures(report)}


def _figures(report: LanguageReport) -> Iterator[tuple[str, "Figure"]]:
    known = [(model, model.paraphrases) for model in report.models if model.paraphrases is not None]
    if known:
        yield "sweep", _sweep(known)
    names = file_names([(each.model, "-".join(filter(None, (each.suite, each.protocol)))) for each in report.models])
    for model, name in zip(report.models, names, strict=True):
        if model.paraphrases is not None:
            yield f"{name}-grids", _grids_figure(model, model.paraphrases)
        if model.failures is not None:
            yield f"{name}-paths", _paths(model, model.failures)


def _sweep(models: Sequence[tuple[ModelResults, Paraphrases]]) -> "Figure":
    figure = new_figure(7, 4.5)
    axes = figure.add_subplot()
    backends = list(dict.fromkeys(found.backend for _, found in models))
    for model, found in models:
        name = f"{model.model}, {model.suite}" + (f" ({found.backend})" if len(backends) > 1 else "")
        known = [(alpha, each) for alpha, each in found.sweep.items() if each is not None]
        alphas = [alpha for alpha, _ in known]
        (line,) = axes.plot(alphas, [each.value for _, each in known], marker="o", label=name)
        bounds = [(alpha, *each.interval) for alpha, each in known if each.interval is not None]
        if bounds:
            where, low, high = zip(*bounds, strict=True)
            axes.fill_between(where, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        axes.axhline(found.overall.sr.value, color=line.get_color(), linestyle=":", linewidth=1)
    axes.set(xlabel="alpha, weight of S_K", ylabel="PRIDE, %", xlim=(0, 1))
    axes.set_title(
        f"PRIDE by alpha, {CONFIDENCE:.0%} intervals; dotted: success rate" + f"\n{backends[0]}" * (len(backends) == 1),
        fontsize=9,
    )
    axes.legend(fontsize=8)
    return figure


def _grids_figure(model: ModelResults, found: Paraphrases) -> "Figure":
    figure = new_figure(13, 6)
    for place, (title, attribute, text, top, colours) in enumerate(
        [("Success rate, %", "sr", "{:.0f}", 100, "viridis"), ("Mean distance PD", "pd", "{:.2f}", None, "magma")]
    ):
        axes = figure.add_subplot(1, 2, place + 1)
        values = {
            (action, kind): (getattr(cell, attribute).value, cell.n) for (kind, action), cell in found.cells.items()
        }
        cells = {names: (value, f"{text.format(value)} ({n})") for names, (value, n) in values.items()}
        limits = {"cmap": colours, "vmin": 0, "vmax": top, "aspect": "auto"}
        image = draw_grid(axes, ACTION_TYPES, OBJECT_TYPES, cells, **limits)
        axes.set(title=title, xlabel="objects", ylabel="actions")
        figure.colorbar(image, ax=axes)
    figure.suptitle(f"{model.model}, {model.suite}: {found.overall.n} episodes, in brackets by cell; {found.backend}")
    return figure


def _paths(model: ModelResults, failures: FailureTypeSummary) -> "Figure":
    from matplotlib.lines import Line2D

    columns = min(_COLUMNS, len(failures.tasks))
    rows = ceil(len(failures.tasks) / columns)
    figure = new_figure(3.2 * columns + 0.5, 3.2 * rows + 1)
    for place, task in enumerate(failures.tasks):
        axes = figure.add_subplot(rows, columns, place + 1)
        _draw_paths(axes, task)
    names = {"success": _SUCCESS, "near failure": _NEAR, "far failure": _FAR, "mean success": _MEAN}
    handles = [Line2D([], [], color=colour, label=name) for name, colour in names.items()]
    handles.append(Line2D([], [], color=_FAR, linestyle=":", label="failure without a label"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8)
    figure.suptitle(
        f"{model.model}, {model.suite}: the end effector from above, the robot below; labels by "
        f"{_DTW[failures.algorithm]}, tau = max",
        fontsize=9,
    )
    return figure


def _draw_paths(axes: "Axes", task: TaskFailures) -> None:
    judgement = task.types.judgement
    levels = ("",) * task.failures if judgement is None else judgement.levels["max"]
    for path in task.success_paths:
        _draw(axes, path, color=_SUCCESS, alpha=0.3, linewidth=0.6)
    if task.types.reference is not None:
        _draw(axes, task.types.reference.mean_path, color=_MEAN, linewidth=1.5)
    for path, level in zip(task.failure_paths, levels, strict=True):
        colour, style = _NEAR if level == "near" else _FAR, "-" if level else ":"
        _draw(axes, path, color=colour, linestyle=style, alpha=0.6, linewidth=0.8)
    counts = f"{task.successes} successes, {task.failures} failures"
    axes.set_title(f"{task.task}\n{counts}", fontsize=6)
    # As who stands behind the robot sees it: x is ahead, y to the left.
    axes.invert_xaxis()
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel("y, m", fontsize=6)
    axes.set_ylabel("x, m", fontsize=6)
    axes.tick_params(labelsize=6)


def _draw(axes: "Axes", path: "NDArray[Any]", **style: Any) -> None:
    axes.plot(path[:, 1], path[:, 0], **style)
