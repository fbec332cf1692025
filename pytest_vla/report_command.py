"""``pytest-vla report``: what the records of runs say of models and the language, without a rollout."""

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError

if TYPE_CHECKING:
    from pytest_vla.language.backends import Choice
    from pytest_vla.metrics.failure_types import Algorithm
    from pytest_vla.metrics.language import Subject
    from pytest_vla.metrics.language_paths import Paths
    from pytest_vla.records import Record
    from pytest_vla.reports.language import LanguageReport, ModelResults
    from pytest_vla.store import Run

# What the command needs is imported when it runs: --help has to come at once.

FORMATS = ("terminal", "json", "png")
ALGORITHMS = ("fastdtw", "exact")
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
        "score, of every model (its --vla-model text) and suite. Of one case with the same run seed the latest episode "
        "counts. png needs matplotlib: pip install 'pytest-vla[report]'."
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
    from pytest_vla.pride_command import csv_of
    from pytest_vla.reports.export import whole_file
    from pytest_vla.reports.language import report_lines, report_table

    endings = {".json": "json", ".png": "png"}
    format = options.format or endings.get(options.output.suffix.lower() if options.output else "", "terminal")
    if format == "png":
        from pytest_vla.reports.language_png import check_matplotlib

        check_matplotlib()
    loaded = load(options.which, options.results)
    report = make_report(loaded, options.alpha, csv_of(options.data), options.backend, options.failure_algorithm)
    if format == "png":
        from pytest_vla.reports.language_png import write_pictures

        for file in write_pictures(report, options.output or Path()):
            print(file)
        return
    text = json.dumps(report_table(report), indent=2) if format == "json" else "\n".join(report_lines(report))
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
) -> "LanguageReport":
    """Everything, from records.

    Args:
        loaded: the records.
        alpha: weight of S_K.
        csv: LIBERO-Para's; None: published similarities are not at hand.
        backend: of the similarities; None: the best that has all pairs of all models.
        algorithm: of the failure types; None: fastdtw where it is installed.

    Raises:
        VlaError: no record has a variation of the language, or what was asked for cannot be had.
    """
    from pytest_vla.language.backends import choose_backend
    from pytest_vla.language.missing import is_installed
    from pytest_vla.metrics.language import is_counted, pair_of, subjects
    from pytest_vla.reports.language import LanguageReport

    found = subjects(loaded.records)
    if not found:
        raise VlaError(
            f"nothing to report on language: none of {len(loaded.records)} records has another text than its task's. "
            "Run `pytest --vla-suite=libero_para --vla-model=...`, or `pytest-vla import libero-para DIR`"
        )
    texts = [
        record
        for subject in found
        for record in (*subject.paraphrases, *(each for some in subject.others.values() for each in some))
    ]
    pairs = list(dict.fromkeys(pair_of(record) for record in texts if is_counted(record)))
    choice = choose_backend(backend, csv, pairs) if pairs else None
    similarities = {}
    if choice is not None:
        compared = choice.backend.compare(pairs)
        similarities = {pair: (each.keyword, each.structural) for pair, each in zip(pairs, compared, strict=True)}
    notes = []
    if algorithm is None:
        algorithm = "fastdtw" if is_installed("fastdtw") else "exact"
        notes += ["fastdtw, the paper's DTW: it is not installed; exact DTW is taken"] * (algorithm == "exact")
    models = tuple(_results(each, loaded, alpha, choice, similarities, algorithm, notes) for each in found)
    return LanguageReport(
        backend=str(choice.backend) if choice else "",
        low_fidelity=choice is not None and choice.backend.low_fidelity,
        passed_over=choice.passed_over if choice else {},
        alpha=alpha,
        seed=SEED,
        models=models,
    )


def _results(
    subject: "Subject",
    loaded: Loaded,
    alpha: float,
    choice: "Choice | None",
    similarities: dict[tuple[str, str], tuple[float, float]],
    algorithm: "Algorithm",
    notes: Sequence[str],
) -> "ModelResults":
    import numpy as np

    from pytest_vla.metrics.language import benign_rate, is_counted, measure, measure_paraphrases, scored
    from pytest_vla.metrics.language_paths import listening_score, paraphrase_failures
    from pytest_vla.metrics.success import success_rate
    from pytest_vla.reports.language import ModelResults

    # Of each model its own, so that its numbers do not depend on what else is reported.
    generator = np.random.default_rng(SEED)
    backend = str(choice.backend) if choice else ""
    left_out = list(subject.left_out)
    varied = subject.varied
    counted_runs = {record.run for record in varied}
    runs = tuple(run for run in loaded.folders if run in counted_runs)
    left_out += [loaded.unfinished[run] for run in runs if run in loaded.unfinished]
    known = scored(subject.paraphrases, similarities, backend)
    paraphrases = measure_paraphrases(known, alpha, generator) if known.outcomes else None
    if paraphrases is None:
        left_out.append("PRIDE and the grids: there is no success and no failure under a paraphrase")
    others = {}
    for kind, records in subject.others.items():
        some = scored(records, similarities, backend)
        if some.outcomes:
            others[kind] = measure(some, alpha, generator)
    paths, troubles = _path_loader(loaded)
    failures = paraphrase_failures(subject.paraphrases, paths, algorithm, generator)
    counted = [record for record in subject.paraphrases if is_counted(record)]
    if failures is None:
        left_out.append("failure types: no episode has a trajectory (imported logs have none)")
    else:
        left_out += notes
        if failures.n < len(counted):
            left_out.append(f"failure types: {len(counted) - failures.n} episodes have no trajectory")
    heard, said = listening_score(subject, paths, generator)
    left_out += said
    if heard is None and not subject.probes:
        left_out.append("listening score: no episode has a probe (blank, nonsense or another task's text)")
    left_out += _told(troubles)
    return ModelResults(
        model=subject.model,
        suite=subject.suite,
        runs=runs,
        seeds=tuple(sorted({record.seed for record in varied})),
        benign=benign_rate(subject),
        counts=success_rate("varied", varied),
        paraphrases=paraphrases,
        others=others,
        failures=failures,
        listening=heard,
        left_out=tuple(left_out),
    )


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
