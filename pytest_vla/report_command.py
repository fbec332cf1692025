"""``pytest-vla report``: what the records of runs say of models, the language and variations, without a rollout."""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError

if TYPE_CHECKING:
    from pytest_vla.language.compared import Compared
    from pytest_vla.metrics.failure_types import Algorithm
    from pytest_vla.metrics.language import Subject
    from pytest_vla.metrics.language_paths import Paths
    from pytest_vla.records import Record
    from pytest_vla.reports.language import LanguageReport, ModelResults
    from pytest_vla.reports.robustness import ModelRobustness
    from pytest_vla.reports.sections import Section
    from pytest_vla.store import Run

# What the command needs is imported when it runs: --help has to come at once.

FORMATS = ("terminal", "json", "png")
ALGORITHMS = ("fastdtw", "exact")
SCHEMA = 1
"""Of the JSON; raised whenever a key changes its meaning or goes away."""

SEED = 0
"""Of the resamples."""


@dataclass(frozen=True)
class Loaded:
    """Records of runs, the oldest first, with the folders of their trajectories.

    Attributes:
        records: of all runs.
        folders: by run's name, its folder.
        unfinished: of runs that have not run all that was planned, what to say of them, by run's name.
    """

    records: tuple["Record", ...]
    folders: dict[str, Path]
    unfinished: dict[str, str]


def declare(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    from pytest_vla.arguments import declare_results
    from pytest_vla.metrics.pride import ALPHA
    from pytest_vla.pride_command import alpha_of

    parser.epilog = (
        "Success, PRIDE and overestimation over paraphrases, by cell, type and task, failure types and the listening "
        "score; success under variations by dimension, kind and level, against benign twins, robustness curves and the "
        "gap of two dimensions at once; of every model (its --vla-model text) and suite. Of one case with the same run "
        "seed the latest episode counts. png needs matplotlib: pip install 'pytest-vla[report]'."
    )
    parser.add_argument(
        "which",
        metavar="RUN|DIR",
        nargs="*",
        help="a run's name or its beginning, last, a run's folder, or a results folder: all of its runs (default: all)",
    )
    parser.add_argument("--format", choices=FORMATS, help="default: what the ending of FILE says, or terminal")
    parser.add_argument(
        *("-o", "--output"),
        metavar="FILE",
        type=Path,
        help="written as a whole or not at all (default: standard output); of png the folder (default: this one)",
    )
    parser.add_argument("--alpha", metavar="A", type=alpha_of, default=ALPHA, help=f"weight of S_K (default: {ALPHA})")
    parser.add_argument("--backend", metavar="NAME", help="of the similarities (default: the best that has all pairs)")
    parser.add_argument(
        "--failure-algorithm",
        choices=ALGORITHMS,
        help="DTW of the failure types (default: fastdtw, the paper's, where it is installed, else exact)",
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=Path,
        help="folder with LIBERO-Para's libero_para_metadata.csv, or the file (default: PYTEST_VLA_DATA)",
    )
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Reads the records, computes and writes. Raises VlaError."""
    from pytest_vla.reports.export import whole_file
    from pytest_vla.reports.figures import check_matplotlib, write_pictures
    from pytest_vla.reports.sections import section_lines, section_table

    endings = {".json": "json", ".png": "png"}
    format = options.format or endings.get(options.output.suffix.lower() if options.output else "", "terminal")
    if format == "png":
        check_matplotlib()
    loaded = load(options.which, options.results)
    sections = [section for make in SECTIONS if (section := make(loaded, options)) is not None]
    if not sections:
        raise VlaError(
            f"nothing to report: none of {len(loaded.records)} records has a variation or another text than its "
            "task's. Run `pytest --vla-suite=... --vla-model=... --vla-vary=...` or `--vla-suite=libero_para`, or "
            "`pytest-vla import libero-para DIR`"
        )
    if format == "png":
        drawn = {name: picture for section in sections for name, picture in section.pictures().items()}
        for file in write_pictures(drawn, options.output or Path()):
            print(file)
        return
    if format == "json":
        text = json.dumps({"schema": SCHEMA, **section_table(sections)}, indent=2)
    else:
        text = "\n".join(section_lines(sections))
    if options.output is None or str(options.output) == "-":
        print(text)
        return
    with whole_file(options.output) as stream:
        stream.write(f"{text}\n".encode())


def load(texts: Sequence[str], results: Path) -> Loaded:
    """The records of runs.

    Args:
        texts: as in the help; none: all runs of `results`.
        results: the folder where runs are looked for by their names.

    Raises:
        VlaError: there is no such run, or the records cannot be read.
    """
    from pytest_vla.store import STORE, open_store

    # Of which folder which runs; without a name all of it.
    chosen: dict[tuple[Path, str], None] = {}
    for text in texts or [str(results)]:
        path = Path(text)
        if (path / STORE).is_file() or not texts:
            chosen[path, ""] = None
        elif path.is_dir() and (path.resolve().parent / STORE).is_file():
            chosen[path.resolve().parent, path.resolve().name] = None
        else:
            chosen[results, text] = None
    found: dict[tuple[Path, str], tuple[Run, Path, tuple[Record, ...]]] = {}
    for folder, name in chosen:
        with open_store(folder, create=False) as store:
            for run in [store.run(name)] if name else reversed(store.runs()):
                found[folder.resolve(), run.name] = (run, folder / run.name, tuple(store.records(run.name)))
    ordered = sorted(found.values(), key=lambda each: each[0].started)
    return Loaded(
        tuple(record for _, _, records in ordered for record in records),
        {run.name: folder for run, folder, _ in ordered},
        {
            run.name: f"run {run.name} has {run.done} of {run.planned} episodes: the others are not in it"
            for run, _, _ in ordered
            if run.done < run.planned
        },
    )


def make_report(
    loaded: Loaded, alpha: float, csv: Path | None, backend: str | None, algorithm: "Algorithm | None"
) -> "LanguageReport | None":
    """All of the language; None where no record has a variation of it.

    Args:
        loaded: the records.
        alpha: weight of S_K.
        csv: LIBERO-Para's; None: published similarities are not at hand.
        backend: of all similarities; None: of each score the best that has all of its pairs.
        algorithm: of the failure types; None: fastdtw where it is installed.

    Raises:
        VlaError: what was asked for cannot be had.
    """
    from pytest_vla.language.compared import comparer
    from pytest_vla.language.missing import is_installed
    from pytest_vla.metrics.language import subjects
    from pytest_vla.reports.language import LanguageReport

    found = subjects(loaded.records)
    if not found:
        return None
    notes = []
    if algorithm is None:
        algorithm = "fastdtw" if is_installed("fastdtw") else "exact"
        notes += ["fastdtw, the paper's DTW: it is not installed; exact DTW is taken"] * (algorithm == "exact")
    compare = comparer(backend, csv)
    models = tuple(_results(each, loaded, alpha, compare, algorithm, notes) for each in found)
    return LanguageReport(alpha=alpha, seed=SEED, models=models)


def make_robustness(loaded: Loaded) -> "tuple[ModelRobustness, ...]":
    """Success under variations, of each model and suite that has any; see `pytest_vla.metrics.robustness`."""
    import numpy as np

    from pytest_vla.metrics.composition import compositions
    from pytest_vla.metrics.robustness import cells, twin_pairs, varied_models
    from pytest_vla.metrics.robustness_curves import curves
    from pytest_vla.reports.robustness import ModelRobustness

    found = []
    for varied in varied_models(loaded.records):
        # Of each model its own, so that its numbers do not depend on what else is reported.
        generator = np.random.default_rng(SEED)
        pairs, unpaired = twin_pairs(varied)
        by_level, harm, mixed = curves(varied, pairs, generator)
        joint, incomplete = compositions(varied, generator)
        runs = _runs_of(varied.episodes, loaded)
        unfinished = (loaded.unfinished[run] for run in runs if run in loaded.unfinished)
        left_out = (*varied.left_out, *unfinished, *unpaired, *mixed, *incomplete)
        measured = cells(varied, pairs, generator)
        found.append(ModelRobustness(varied.model, varied.suite, runs, measured, by_level, harm, joint, left_out))
    return tuple(found)


def _language(loaded: Loaded, options: argparse.Namespace) -> "Section | None":
    from pytest_vla.pride_command import csv_of
    from pytest_vla.reports.language import report_lines
    from pytest_vla.reports.language_json import model_table, report_table
    from pytest_vla.reports.sections import Section

    report = make_report(loaded, options.alpha, csv_of(options.data), options.backend, options.failure_algorithm)
    if report is None:
        return None

    def pictures() -> dict[str, bytes]:
        from pytest_vla.reports.language_png import pictures

        return pictures(report)

    models = {(model.model, model.suite): model_table(model) for model in report.models}
    return Section(lambda: report_lines(report), report_table(report), models, pictures)


def _robustness(loaded: Loaded, options: argparse.Namespace) -> "Section | None":
    from pytest_vla.reports.robustness import methods_table, robustness_lines, robustness_table
    from pytest_vla.reports.sections import Section

    found = make_robustness(loaded)
    if not found:
        return None

    def pictures() -> dict[str, bytes]:
        from pytest_vla.reports.robustness_png import pictures

        return pictures(found)

    models = {(model.model, model.suite): {"robustness": robustness_table(model)} for model in found}
    return Section(lambda: robustness_lines(found), {"robustness": methods_table(SEED)}, models, pictures)


SECTIONS: "tuple[Callable[[Loaded, argparse.Namespace], Section | None], ...]" = (_language, _robustness)
"""Make the report's parts, in their order; None where the records have nothing of one."""


def _results(
    subject: "Subject",
    loaded: Loaded,
    alpha: float,
    compare: "Callable[[Sequence[Record]], Compared]",
    algorithm: "Algorithm",
    notes: Sequence[str],
) -> "ModelResults":
    import numpy as np

    from pytest_vla.metrics.language import benign_rate, measure, measure_paraphrases, scored
    from pytest_vla.metrics.language_paths import listening_score, text_failures
    from pytest_vla.metrics.selection import is_counted
    from pytest_vla.metrics.success import success_rate
    from pytest_vla.reports.language import ModelResults, OtherChange

    # Of each model its own, so that its numbers do not depend on what else is reported.
    generator = np.random.default_rng(SEED)
    left_out = list(subject.left_out)
    varied = subject.varied
    runs = _runs_of(varied, loaded)
    left_out += [loaded.unfinished[run] for run in runs if run in loaded.unfinished]
    paraphrases, source, others = None, None, {}
    if counted := [record for record in subject.paraphrases if is_counted(record)]:
        compared = compare(counted)
        source = compared.source
        known = scored(counted, compared.similarities, source.backend)
        paraphrases = measure_paraphrases(known, alpha, generator)
    else:
        left_out.append("PRIDE and the grids: there is no success and no failure under a paraphrase")
    for kind, records in subject.others.items():
        if counted := [record for record in records if is_counted(record)]:
            compared = compare(counted)
            known = scored(counted, compared.similarities, compared.source.backend)
            others[kind] = OtherChange(compared.source, measure(known, alpha, generator))
    paths, troubles = _path_loader(loaded)
    reworded = [record for record in subject.reworded if is_counted(record)]
    failures = text_failures(reworded, paths, algorithm, generator)
    left_out += _without_path(reworded, 0 if failures is None else failures.n)
    left_out += notes if failures is not None else []
    heard, said = listening_score(subject, paths, generator)
    left_out += said
    if heard is None and not subject.probes:
        left_out.append("listening score: no episode has a probe (blank, nonsense, another task's text or its goal)")
    left_out += _told(troubles)
    return ModelResults(
        model=subject.model,
        suite=subject.suite,
        runs=runs,
        seeds=tuple(sorted({record.seed for record in varied})),
        benign=benign_rate(subject),
        counts=success_rate("varied", varied),
        paraphrases=paraphrases,
        source=source,
        others=others,
        failures=failures,
        listening=heard,
        left_out=tuple(left_out),
    )


def _without_path(records: "Sequence[Record]", number: int) -> Iterator[str]:
    """What to say of episodes of which failure types are not known, where so many have a path."""
    if not records:
        yield "failure types: there is no success and no failure under another text, probes aside"
    elif number < len(records):
        imported = sum("imported" in record.provenance for record in records)
        share = f"{len(records) - number} of {len(records)} episodes have no" if number else "no episode has a"
        yield f"failure types: {share} trajectory" + f" ({imported} are imported, and logs have none)" * bool(imported)


def _runs_of(records: "Sequence[Record]", loaded: Loaded) -> tuple[str, ...]:
    counted = {record.run for record in records}
    return tuple(run for run in loaded.folders if run in counted)


def _path_loader(loaded: Loaded) -> "tuple[Paths, dict[Path, str]]":
    """What gives a record's path, and the files that could not be read, with why."""
    from functools import cache

    import numpy as np

    from pytest_vla.records import load_trajectory

    troubles: dict[Path, str] = {}

    @cache
    def read(file: Path) -> "np.ndarray | None":
        try:
            path = load_trajectory(file).eef_pos
        except VlaError as error:
            troubles[file] = str(error)
            return None
        if len(path) and path.ndim == 2 and path.shape[1] == 3 and np.isfinite(path).all():
            return path
        troubles[file] = f"{file}: its path is empty or not finite"
        return None

    def paths(record: "Record") -> "np.ndarray | None":
        return None if record.arrays is None else read(loaded.folders[record.run] / record.arrays)

    return paths, troubles


def _told(troubles: dict[Path, str]) -> Iterator[str]:
    if troubles:
        first = next(iter(troubles.values()))
        yield f"{len(troubles)} trajectories that cannot be read, such as {first}"
