"""LIBERO-Para's tables of one's own models, and its printed numbers recomputed from its published files."""

import argparse
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from pytest_vla.errors import VlaError
from pytest_vla.language.published import (
    FILE,
    SUITE,
    Published,
    cell_counts,
    csv_of,
    find_csv,
    load_published,
    numbered_tasks,
)
from pytest_vla.metrics.failure_types import THRESHOLDS
from pytest_vla.metrics.language import (
    CellCorrelation,
    Paraphrases,
    cell_correlation,
    rate_difference,
    sweep_slope,
    types_of,
)
from pytest_vla.metrics.language_grounding import GroundingEstimate
from pytest_vla.metrics.language_paths import FailureTypeSummary, ModelResults
from pytest_vla.metrics.pride import (
    ACTION_TYPES,
    OBJECT_TYPES,
    ParaphraseOutcome,
    PrideGroup,
    group,
    grouped,
    pride_table,
)
from pytest_vla.metrics.selection import by_model, that_count
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.plan.manifests import given_folders
from pytest_vla.reports.blocks import rate_cell
from pytest_vla.reports.language import make_report
from pytest_vla.reports.loaded import Loaded, gpu_hours
from pytest_vla.reports.papers import Check, Note, Paper, PublishedPaper, Row, Rows, printed
from pytest_vla.reports.text import first_few
from pytest_vla.suites.libero_para.variations import (
    ParaEpisode,
    find_para_logs,
    log_name,
    published_outcomes,
    read_para_log,
)
from pytest_vla.util.text import counted

GOAL = "libero_goal"
"""The suite whose instructions are paraphrased."""

SEEDS = 5
"""How many seeds a rate of the paper is over."""

TENTH = 0.05
"""By how much a number that is printed to a tenth may be off."""

TypePair = tuple[str, str]
"""An object type and an action type."""


def own_rows(loaded: Loaded, options: argparse.Namespace) -> tuple[Rows, Sequence[Note]]:
    """Return tables and figures of the records' models, and notes; the failure types are by the paper's tau."""
    csv = csv_of(options.data)
    report = make_report(loaded, options.alpha, csv, options.backend, options.failure_algorithm, "paper")
    goal = _goal_rates(loaded)
    tables: dict[str, list[Row]] = defaultdict(list)
    left_out: list[Note] = []
    models = [each for each in (report.models if report is not None else ()) if each.suite == SUITE]
    found = {each.model: each.paraphrases for each in models if each.paraphrases is not None}
    tables["fig6"], more = _average_grid(found)
    left_out += more
    for name, of in _DISTANCES.items():
        tables[name] = _distance_grids(found, of)
    tables["11"], more = _hours(loaded)
    left_out += more
    for each in models:
        if each.paraphrases is None:
            continue
        # Nothing here is about whether a policy listens.
        left_out += [Note(text, each.model) for text in each.left_out]
        left_out += [Note(text, each.model, _TYPE_TABLES) for text in each.left_out_of_types]
        whole = each.paraphrases.overall
        tables["2"].append(_drop(each, goal.get(each.model) or each.benign))
        tables["3"].append((each.model, whole.sr, whole.pride, whole.overestimation))
        for name, row in _figure_rows(each.model, each.paraphrases):
            tables[name].append(row)
        if each.failures is not None:
            tables["4"].append(_types(each.model, each.failures))
            if _has_types(each.failures):
                levels = [each.failures.levels[name] for name in THRESHOLDS]
                tables["16"].append((each.model, *(one.near for one in levels), *(one.far for one in levels)))
            tables["fig19"] += _types_by_cell(each.model, each.failures, loaded)
            if each.failures.undefined.value:
                text = (
                    f"{each.failures.undefined.value:.1f}% of episodes are failures without a type, as their tasks "
                    "have too few successes to compare with"
                )
                left_out.append(Note(text, each.model, _TYPE_TABLES))
    return tables, left_out


_DISTANCES: Mapping[str, Callable[[Paraphrases, TypePair], float]] = {
    "fig5": lambda found, cell: found.cells[cell].pd.value,
    "fig10": lambda found, cell: found.words[cell][1],
    "fig11": lambda found, cell: found.words[cell][0],
}
"""What each grid of distances shows of a cell: PD, 1 - S_T, 1 - S_K."""


_TYPE_TABLES = ("4", "16", "fig19")
"""What notes on failure types are about."""


def _figure_rows(model: str, found: Paraphrases) -> Iterator[tuple[str, Row]]:
    if found.object_gap is not None:
        yield "fig7", (model, found.object_gap.preserved, found.object_gap.paraphrased, found.object_gap.difference)
    yield "fig13", (model, *found.sweep.values(), sweep_slope(found))
    points = [(cell.pd.value, cell.sr.value) for cell in found.cells.values()]
    if (correlation := cell_correlation(points)) is not None:
        yield "fig16", (model, correlation.r, correlation.p, correlation.n)
        for kinds, cell in found.cells.items():
            yield "fig16.points", (model, *kinds, cell.pd.value, cell.sr.value)


def _average_grid(models: Mapping[str, Paraphrases]) -> tuple[list[Row], list[Note]]:
    """Return the success of each cell, averaged over the models that have it, and a note on cells that some lack."""
    rates: dict[TypePair, list[float]] = {}
    for found in models.values():
        for cell, each in found.cells.items():
            rates.setdefault(cell, []).append(each.sr.value)
    if not rates:
        return [], []
    few = sum(len(some) < len(models) for some in rates.values())
    text = f"{counted(few, 'cell')} averaged over a part of the models only, as others have no episode there"
    grid = _grid(f"mean of {counted(len(models), 'model')}", {cell: fmean(some) for cell, some in rates.items()})
    return grid, [Note(text, tables=("fig6",))] * bool(few)


def _distance_grids(models: Mapping[str, Paraphrases], of: Callable[[Paraphrases, TypePair], float]) -> list[Row]:
    """Return a grid of distances for each set of texts: models that had the same texts have one in common."""
    grids: dict[tuple[tuple[TypePair, float], ...], list[str]] = {}
    for model, found in models.items():
        grids.setdefault(tuple((cell, round(of(found, cell), 9)) for cell in found.cells), []).append(model)
    return [row for values, names in grids.items() for row in _grid(first_few(names, 2), dict(values))]


def _grid(name: str, values: Mapping[TypePair, float]) -> list[Row]:
    """Return a row for each action type, with a number for each object type."""
    return [(name, action, *(values.get((kind, action)) for kind in OBJECT_TYPES)) for action in ACTION_TYPES]


def _types_by_cell(model: str, failures: FailureTypeSummary, loaded: Loaded) -> Iterator[Row]:
    """Yield the shares of near and far failures for each object type and each action type, by tau = max."""
    types = {record.case: types_of(record) for record in loaded.records if record.suite == SUITE}
    ends: dict[tuple[str, str], Counter[str]] = {}
    for task in failures.tasks:
        levels = ("",) * task.failures if task.types.judgement is None else task.types.judgement.levels["max"]
        for case, end in (
            *((case, "SR") for case in task.success_cases),
            *zip(task.failure_cases, levels, strict=True),
        ):
            for axis, kind in zip(("object", "action"), types.get(case, ("", "")), strict=True):
                ends.setdefault((axis, kind), Counter())[end] += 1
    for axis, kinds in (("object", OBJECT_TYPES), ("action", ACTION_TYPES)):
        for kind in kinds:
            if some := ends.get((axis, kind)):
                near, far, whole = some["near"], some["far"], some.total() / 100
                share = 100 * far / (near + far) if near + far else None
                known = (near / whole, far / whole) if near + far or not some[""] else (None, None)
                yield model, axis, kind, some["SR"] / whole, *known, share


def _hours(loaded: Loaded) -> tuple[list[Row], list[Note]]:
    """Return the GPU hours of each model's episodes, and a note on those of whom they are not known."""
    rows: list[Row] = []
    unknown = []
    for (model, suite), some in by_model(loaded.records).items():
        if suite == SUITE:
            hours = gpu_hours(some, loaded)
            if hours is None:
                unknown.append(model)
            else:
                rows.append((model, len(some), hours))
    why = "no GPU hours, as the run's --vla-device names no device, or a server or a log has the policy"
    return rows, [Note(why, model, ("11",)) for model in unknown]


def _goal_rates(loaded: Loaded) -> dict[str, SuccessRate]:
    """Return each model's success in LIBERO-Goal without a variation."""
    found = {}
    for (model, suite), some in by_model(loaded.records).items():
        benign = [record for record in that_count(some).records if suite == GOAL and not record.variation]
        if benign:
            found[model] = success_rate(GOAL, benign, unit_of)
    return found


def _drop(model: ModelResults, benign: SuccessRate | None) -> Row:
    before, after = (None if rate is None else rate_cell(rate) for rate in (benign, model.rate))
    if not isinstance(before, GroundingEstimate) or not isinstance(after, GroundingEstimate):
        return model.model, before, after
    return model.model, before, after, rate_difference(after, before)


def _types(model: str, failures: FailureTypeSummary) -> Row:
    shares = failures.levels["max"]
    known = (shares.near, shares.far, shares.far_share) if _has_types(failures) else ()
    return model, failures.sr, *known


def _has_types(failures: FailureTypeSummary) -> bool:
    """Whether some failure has a type: of failures without one, 0% near and 0% far would be no finding."""
    return not failures.undefined.value or failures.levels["max"].far_share is not None


# What it prints, recomputed.


def _object_gaps(published: PublishedPaper, _: Path | None) -> Iterator[Check]:
    for model, row in published.tables["fig7"].numbers():
        if isinstance(row["preserved"], int | float):
            found = printed(row, "preserved") - printed(row, "paraphrased")
            yield Check(f"{model}: difference", printed(row, "difference"), found, 3 * TENTH)


def _correlations(published: PublishedPaper, data: Path | None) -> Iterator[Check]:
    """Correlate the cells of a published log, if there is one of a model of the figure."""
    logs = _logs(_csv(data))
    for name, row in published.tables["fig16"].numbers():
        for model, (seeds, tasks, _, found) in logs.items():
            if name.lower() == model.lower() and found is not None:
                check = Check(f"{name}: r", printed(row, "r"), found.r, 0.00005)
                why = f"the log has {tasks} of 10 tasks and {seeds} of {SEEDS} seeds, and gives {found.r:.4f}"
                whole = (seeds, tasks) == (SEEDS, len(numbered_tasks()))
                yield check if whole else replace(check, found=None, why=why)


def _drops(published: PublishedPaper, _: Path | None) -> Iterator[Check]:
    for model, row in published.tables["2"].numbers():
        yield Check(f"{model}: drop", printed(row, "drop"), printed(row, "Para") - printed(row, "Goal"), 3 * TENTH)


def _overestimations(published: PublishedPaper, data: Path | None) -> Iterator[Check]:
    """Recompute the overestimations from the printed rates, and a model's numbers from its log as far as that goes."""
    for model, row in published.tables["3"].numbers():
        found = PrideGroup(1, printed(row, "SR"), 0.2, printed(row, "PRIDE")).overestimation
        # Of SR and PRIDE that are each off by half a tenth.
        yield Check(f"{model}: overestimation", printed(row, "overestimation"), found, 0.2 + TENTH)
    try:
        logs = _logs(_csv(data))
    except VlaError as error:
        yield Check("SR and PRIDE from a log", None, None, why=str(error))
        return
    for model, (seeds, tasks, of_log, _) in logs.items():
        whole = (seeds, tasks) == (SEEDS, len(numbered_tasks()))
        numbers = {"SR": of_log.sr, "PRIDE": of_log.pride, "overestimation": of_log.overestimation}
        for name, row in published.tables["3"].numbers():
            for column, value in numbers.items() if name.lower() == model.lower() else ():
                part = f"the log has {tasks} of 10 tasks and {seeds} of {SEEDS} seeds, and gives {value:.2f}"
                check = Check(f"{name}: {column} from its log", printed(row, column), value, TENTH)
                yield check if whole else replace(check, found=None, why=part)


def _csv(data: Path | None) -> Path:
    found = next(filter(None, map(find_csv, given_folders(data))), None)
    if found is None:
        raise VlaError(f"needs {FILE} of LIBERO-Para: give its checkout by --data or PYTEST_VLA_DATA")
    return found


def _logs(csv: Path) -> dict[str, tuple[int, int, PrideGroup, CellCorrelation | None]]:
    """Return by model the number of seeds and tasks, the scores and the correlation, of the logs beside the CSV.

    Raises:
        VlaError: there is none, or one cannot be read.
    """
    published = load_published(csv)
    models: dict[str, list[tuple[int | None, Sequence[ParaEpisode]]]] = {}
    for folder in find_para_logs(csv.parent):
        model, seed = log_name(folder)
        models.setdefault(model, []).append((seed, read_para_log(folder)))
    found = {}
    for model, logs in models.items():
        episodes = [each for _, some in logs for each in some]
        table = pride_table(published_outcomes(episodes, published, "published"))
        correlation = cell_correlation([(cell.pd, cell.sr) for cell in table.cells.values()])
        seeds, tasks = {seed for seed, _ in logs}, {each.task for each in episodes}
        found[model] = len(seeds), len(tasks), table.overall, correlation
    return found


def _failure_types(published: PublishedPaper, _: Path | None) -> Iterator[Check]:
    for model, row in published.tables["4"].numbers():
        near, far = printed(row, "near"), printed(row, "far")
        # The share's derivatives by near and by far sum to at most 100 / (near + far).
        within = 100 * TENTH / (near + far) + TENTH
        yield Check(f"{model}: far of failures", printed(row, "far of failures"), 100 * far / (near + far), within)
        yield Check(f"{model}: success, near and far", 100.0, printed(row, "SR") + near + far, 3 * TENTH)


def _thresholds(published: PublishedPaper, _: Path | None) -> Iterator[Check]:
    rates = dict(published.tables["4"].numbers())
    for model, row in published.tables["16"].numbers():
        for side in ("near", "far"):
            yield Check(
                f"{model}: {side} max, of Table 4", printed(row, f"{side} max"), printed(rates[model], side), 0.0
            )
        for name in THRESHOLDS:
            found = printed(row, f"near {name}") + printed(row, f"far {name}")
            yield Check(f"{model}: failures at {name}", 100 - printed(rates[model], "SR"), found, 3 * TENTH)


def _cells(_: PublishedPaper, data: Path | None) -> Iterator[Check]:
    rows = load_published(_csv(data)).rows
    for cell, count in cell_counts().items():
        if count:
            yield Check(" + ".join(cell), count, sum((row.object_type, row.action_type) == cell for row in rows))
    yield Check("all", sum(cell_counts().values()), len(rows))


def _distances(published: PublishedPaper, data: Path | None) -> Iterator[Check]:
    """Recompute the printed mean distances of cells, and the one text whose distance is printed otherwise."""
    found = load_published(_csv(data))
    numbers = published.figures
    for (name, figure), value in zip(numbers.items(), _figures(found), strict=True):
        why = "the CSV has one inserted node over 7 + 8" if "Table 10" in name else ""
        yield Check(name, figure, value, 0.005 if not why else 0.0005, why)


def _figures(published: Published) -> tuple[float, float, float]:
    outcomes = [
        ParaphraseOutcome(
            True, row.keyword, row.structural, row.object_type, row.action_type, row.original, "published"
        )
        for row in published.rows
    ]
    habitual = "same_polarity_habitual"
    cells = grouped(outcomes, lambda each: (each.object_type, each.action_type))
    words = [each for each in outcomes if (each.object_type, each.action_type) == (habitual, "hint")]
    carefully = published.by_key["none", "addition_deletion", 0, 2]
    return cells[habitual, "question_directive"].pd, group(words, alpha=1.0).pd, 1 - carefully.structural


PAPER = Paper(
    Path(__file__).with_name("published.toml"),
    own_rows,
    {
        "2": _drops,
        "3": _overestimations,
        "4": _failure_types,
        "8": _cells,
        "16": _thresholds,
        "fig7": _object_gaps,
        "fig16": _correlations,
        "figures": _distances,
    },
)
