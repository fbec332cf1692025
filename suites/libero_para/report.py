"""LIBERO-Para's tables of one's own models, and its printed numbers recomputed from its published files."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

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
from pytest_vla.metrics.language_paths import FailureTypeSummary, ModelResults
from pytest_vla.metrics.pride import ParaphraseOutcome, PrideGroup, group, grouped, pride_table
from pytest_vla.metrics.rates import percent
from pytest_vla.metrics.selection import by_model, that_count
from pytest_vla.metrics.success import SuccessRate, success_rate, unit_of
from pytest_vla.plan.manifests import given_folders
from pytest_vla.reports.blocks import Cell, rate_cell
from pytest_vla.reports.language import make_report
from pytest_vla.reports.loaded import Loaded
from pytest_vla.reports.papers import Check, Paper, PublishedPaper, Row, Rows, printed
from pytest_vla.suites.libero_para.variations import (
    ParaEpisode,
    find_para_logs,
    log_name,
    published_outcomes,
    read_para_log,
)

GOAL = "libero_goal"
"""The suite whose instructions are paraphrased."""

SEEDS = 5
"""How many seeds a rate of the paper is over."""

TENTH = 0.05
"""By how much a number that is printed to a tenth may be off."""


def own_rows(loaded: Loaded, options: argparse.Namespace) -> tuple[Rows, Sequence[str]]:
    """Return Tables 2, 3, 4 and 16 of the records' models, and notes; the failure types are by the paper's tau."""
    csv = csv_of(options.data)
    report = make_report(loaded, options.alpha, csv, options.backend, options.failure_algorithm, "paper")
    goal = _goal_rates(loaded)
    tables: dict[str, list[Row]] = {"2": [], "3": [], "4": [], "16": []}
    left_out = []
    for each in report.models if report is not None else ():
        if each.suite != SUITE or each.paraphrases is None:
            continue
        # Nothing here is about whether a policy listens.
        left_out += [f"{each.model}: {text}" for text in each.left_out if not text.startswith("listening score")]
        whole = each.paraphrases.overall
        tables["2"].append(_drop(each, goal.get(each.model) or each.benign))
        tables["3"].append((each.model, whole.sr, whole.pride, whole.overestimation))
        if each.failures is not None:
            tables["4"].append(_types(each.model, each.failures))
            levels = [each.failures.levels[name] for name in THRESHOLDS]
            tables["16"].append((each.model, *(one.near for one in levels), *(one.far for one in levels)))
            if each.failures.undefined.value:
                left_out.append(f"{each.model}: {each.failures.undefined.value:.1f}% of episodes have no failure type")
    return tables, left_out


def _goal_rates(loaded: Loaded) -> dict[str, SuccessRate]:
    """Return each model's success in LIBERO-Goal without a variation."""
    found = {}
    for (model, suite), some in by_model(loaded.records).items():
        benign = [record for record in that_count(some).records if suite == GOAL and not record.variation]
        if benign:
            found[model] = success_rate(GOAL, benign, unit_of)
    return found


def _drop(model: ModelResults, benign: SuccessRate | None) -> Row:
    before, after = None if benign is None else percent(benign.rate), percent(model.rate.rate if model.rate else None)
    drop = None if before is None or after is None else after - before
    goal: Cell = None if benign is None else rate_cell(benign)
    return model.model, goal, None if model.rate is None else rate_cell(model.rate), drop


def _types(model: str, failures: FailureTypeSummary) -> Row:
    shares = failures.levels["max"]
    return model, failures.sr, shares.near, shares.far, shares.far_share


# What it prints, recomputed.


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
    for model, (seeds, tasks, of_log) in logs.items():
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


def _logs(csv: Path) -> dict[str, tuple[int, int, PrideGroup]]:
    """Return by model the number of seeds and tasks, and the scores, of the logs beside the CSV.

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
        found[model] = len({seed for seed, _ in logs}), len({each.task for each in episodes}), table.overall
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
        "figures": _distances,
    },
)
