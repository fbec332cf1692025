"""``pytest-vla report``: what the records of runs say of models, the language and variations, without a rollout.

In JSON: ``schema``; ``models``, see `pytest_vla.reports.sections.section_table`, with the keys of
`pytest_vla.reports.language.json.model_table`, ``looking``, `pytest_vla.reports.looking.looking_table`, and
``robustness``, `pytest_vla.reports.robustness.json.robustness_table`; beside it ``alpha`` and ``intervals`` of the
language, ``looking`` and ``robustness``: how numbers were made; ``libero_pro`` and ``libero_plus``: lists of
`pytest_vla.suites.libero_pro.report.pro_table` and `pytest_vla.suites.libero_plus.report.plus_table`; ``notes``: known
defects of the benchmarks that are in the numbers, as texts.
"""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError

if TYPE_CHECKING:
    from pytest_vla.reports.loaded import Loaded
    from pytest_vla.reports.sections import Section

# What the command needs is imported when it runs: --help has to come at once.

FORMATS = ("terminal", "json", "png")
ENDINGS = {".json": "json", ".txt": "terminal", "": "terminal"}
"""Of files, and what is written into them where nothing else is said."""

ALGORITHMS = ("fastdtw", "exact")
SCHEMA = 1
"""Of the JSON; raised whenever a key changes its meaning or goes away."""


def declare(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    from pytest_vla.commands.pride import alpha_of
    from pytest_vla.metrics.pride import ALPHA
    from pytest_vla.run.arguments import declare_results

    parser.epilog = (
        "Success, PRIDE and overestimation over paraphrases, by cell, type and task, failure types and the listening "
        "score; what a policy does that does not see; success under variations by dimension, kind and level, against "
        "benign twins, robustness curves and the gap of two dimensions at once; the tables of LIBERO-PRO and "
        "LIBERO-Plus; of every model (its --vla-model text) and suite. Of each case the first complete record counts "
        "(README: What counts). JSON has the keys of what there is: a model that was told no other text has none of "
        "the language's. png needs matplotlib: pip install 'pytest-vla[report]'."
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
        help="written as a whole or not at all: .json, .txt (default: standard output); of png the folder (default: "
        "this one)",
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
    parser.add_argument(
        "--full",
        action="store_true",
        help="all rows of variations on a terminal, those too that say nothing by themselves (JSON has all)",
    )
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Reads the records, computes and writes. Raises VlaError."""
    from pytest_vla.metrics.selection import by_model, that_count
    from pytest_vla.records.premises import notes_after
    from pytest_vla.reports.figures import check_matplotlib, write_pictures
    from pytest_vla.reports.loaded import load
    from pytest_vla.reports.sections import section_lines, section_table
    from pytest_vla.reports.tables import wrapped
    from pytest_vla.util.files import whole_file
    from pytest_vla.util.text import counted

    format = format_of(options.format, options.output)
    if format == "png":
        check_matplotlib()
    loaded = load(options.which, options.results)
    sections = [section for make in SECTIONS if (section := make(loaded, options)) is not None]
    if not sections:
        raise VlaError(
            f"nothing to report: none of {counted(len(loaded.records), 'record')} has a variation or another text than "
            "its task's. Run `pytest --vla-suite=... --vla-model=... --vla-vary=...` or `--vla-suite=libero_para`, or "
            "`pytest-vla import libero-para DIR`"
        )
    if format == "png":
        drawn = {name: picture for section in sections for name, picture in section.pictures().items()}
        for file in write_pictures(drawn, options.output or Path()):
            print(file)
        return
    counting = (that_count(some).records for some in by_model(loaded.records).values())
    notes = notes_after(record for some in counting for record in some)
    if format == "json":
        text = json.dumps({"schema": SCHEMA, **section_table(sections), "notes": notes}, indent=2)
    else:
        told = [line for note in notes for line in wrapped(note)]
        text = "\n".join([*section_lines(sections), *[""] * bool(told), *told])
    if options.output is None or str(options.output) == "-":
        print(text)
        return
    with whole_file(options.output) as stream:
        stream.write(f"{text}\n".encode())


def format_of(named: str | None, output: Path | None) -> str:
    """One of `FORMATS`, of which the output, a file or a folder, can be written.

    Args:
        named: what the user says; None: what the file's ending says.
        output: None, or ``-``: standard output.

    Raises:
        VlaError: the ending says nothing, or there can be no such file or folder.
    """
    if output is None or (str(output) == "-" and named != "png"):
        return named or "terminal"
    ending = output.suffix.lower()
    if named == "png" or (named is None and ending == ".png"):
        if ending == ".png" and not output.is_dir():
            raise VlaError(f"-o {output}: the pictures are several: give their folder, --format=png -o FOLDER")
        _check_folder(output, "png are written into a folder")
        return "png"
    if output.is_dir():
        raise VlaError(f"-o {output} is a folder: give a file, or --format=png for pictures in it")
    if named is None and ending not in ENDINGS:
        known = ", ".join(each for each in ENDINGS if each)
        raise VlaError(f"-o {output}: nothing is known to be written as {ending}: expected {known}, or say --format")
    if not output.parent.is_dir():
        raise VlaError(f"cannot write {output}: there is no folder {output.parent}")
    if not output.exists():
        _check_folder(output.parent, f"cannot write {output}")
    return named or ENDINGS[ending]


def _check_folder(folder: Path, what: str) -> None:
    """Raises VlaError where no file can be made in a folder that is there, or would be made."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not there.is_dir():
        raise VlaError(f"{what}: {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise VlaError(f"{what}: the folder {there} cannot be written")


def _language(loaded: "Loaded", options: argparse.Namespace) -> "Section | None":
    from pytest_vla.commands.pride import csv_of
    from pytest_vla.reports.language.json import model_table, report_table
    from pytest_vla.reports.language.make import make_report
    from pytest_vla.reports.language.text import report_lines
    from pytest_vla.reports.sections import Section

    report = make_report(loaded, options.alpha, csv_of(options.data), options.backend, options.failure_algorithm)
    if report is None:
        return None

    def pictures() -> dict[str, bytes]:
        from pytest_vla.reports.language.png import pictures

        return pictures(report)

    models = {(model.model, model.suite, model.protocol): model_table(model) for model in report.models}
    return Section(lambda: report_lines(report, options.full), report_table(report), models, pictures)


def _robustness(loaded: "Loaded", options: argparse.Namespace) -> "Section | None":
    from pytest_vla.reports.loaded import SEED
    from pytest_vla.reports.robustness.json import methods_table, robustness_table
    from pytest_vla.reports.robustness.make import make_robustness
    from pytest_vla.reports.robustness.text import robustness_lines
    from pytest_vla.reports.sections import Section

    found = make_robustness(loaded)
    if not found:
        return None

    def pictures() -> dict[str, bytes]:
        from pytest_vla.reports.robustness.png import pictures

        return pictures(found)

    models = {(model.model, model.suite, model.protocol): {"robustness": robustness_table(model)} for model in found}
    return Section(lambda: robustness_lines(found, options.full), {"robustness": methods_table(SEED)}, models, pictures)


def _looking(loaded: "Loaded", options: argparse.Namespace) -> "Section | None":
    from pytest_vla.reports.looking import looking_lines, looking_table, make_looking, methods_table
    from pytest_vla.reports.sections import Section

    found = make_looking(loaded)
    if not found:
        return None
    models = {(model.model, model.suite, ""): {"looking": looking_table(model)} for model in found}
    return Section(lambda: looking_lines(found), {"looking": methods_table()}, models, dict)


def _pro(loaded: "Loaded", options: argparse.Namespace) -> "Section | None":
    from pytest_vla.reports.robustness.make import make_pro
    from pytest_vla.reports.sections import Section
    from pytest_vla.suites.libero_pro.report import pro_lines, pro_table

    found = make_pro(loaded)
    if not found:
        return None
    return Section(lambda: pro_lines(found), {"libero_pro": [pro_table(model) for model in found]}, {}, dict)


def _plus(loaded: "Loaded", options: argparse.Namespace) -> "Section | None":
    from pytest_vla.reports.robustness.make import make_plus
    from pytest_vla.reports.sections import Section
    from pytest_vla.suites.libero_plus.report import plus_lines, plus_table

    found = make_plus(loaded, options.data if options.data is not None and options.data.is_dir() else None)
    if not found:
        return None
    return Section(lambda: plus_lines(found), {"libero_plus": [plus_table(model) for model in found]}, {}, dict)


SECTIONS: "tuple[Callable[[Loaded, argparse.Namespace], Section | None], ...]" = (
    *(_robustness, _language, _looking, _pro, _plus),
)
"""Make the report's parts, in their order; None where the records have nothing of one."""
