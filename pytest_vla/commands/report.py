"""``pytest-vla report``: reports metrics from the records of runs, without rolling out episodes.

The JSON has ``schema``; ``models`` (see `pytest_vla.reports.sections.section_table`), with the keys that each section
declares for a model (``_MODELS`` of its module); how each section's numbers were made; benchmarks' own tables under
their names; ``notes``, the benchmarks' known defects that affect the numbers; and ``stopped`` if a time limit ended
runs: which, and whether each is a balanced sample. ``--schema`` prints the JSON Schema.
"""

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla import extensions
from pytest_vla.entries import Command
from pytest_vla.errors import VlaError

if TYPE_CHECKING:
    from pytest_vla.policies.base import Policy
    from pytest_vla.policies.spec import ModelSpec
    from pytest_vla.records.record import Record
    from pytest_vla.records.runs import Run
    from pytest_vla.reports.loaded import Loaded
    from pytest_vla.reports.sections import Named

# Heavy imports are inside the functions, so that --help is fast.

FORMATS = ("terminal", "json", "png", "svg", "html", "csv", "latex", "leaderboard")
IN_FOLDERS = ("png", "svg")
"""Formats with a file for each picture."""

ENDINGS = {
    ".json": "json",
    ".txt": "terminal",
    "": "terminal",
    ".html": "html",
    ".htm": "html",
    ".csv": "csv",
    ".tex": "latex",
}
"""The default format for each file ending."""

ALGORITHMS = ("fastdtw", "exact")
TAUS = ("leave-one-out", "paper")
SIGNS = ("metric", "paper")


PICTURES = 200
"""The default number of episodes with pictures on a page."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    from pytest_vla.commands.pride import alpha_of
    from pytest_vla.metrics.pride import ALPHA
    from pytest_vla.run.arguments import declare_results, rule_text

    further = "; ".join(
        f"{entry.about} ({entry.name}{', on request' * entry.on_request})" for entry in extensions.sections()
    )
    parser.epilog = (
        f"Sections, for each model (its --vla-model text) and suite: {further}. For each case the first complete "
        "record counts (docs: What counts). JSON has only the keys with data: a model without other instructions has "
        "no language section. png needs matplotlib: pip install 'pytest-vla[report]'; svg needs nothing."
    )
    parser.add_argument(
        "which",
        metavar="RUN|DIR",
        nargs="*",
        help="a run's name or the beginning of it, a run's folder, a results folder, another evaluator's log, last or "
        "all (default: all)",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        help="format to write; csv and latex have the tables, png and svg the pictures, leaderboard is what the "
        "leaderboard of --paper takes (default: by the ending of FILE, or terminal)",
    )
    parser.add_argument(
        *("-o", "--output"),
        metavar="FILE",
        type=Path,
        help="file to write, whole or not at all: .html, .json, .txt, .csv, .tex; a folder for png and svg (default: "
        "the current one), or for one csv or latex file a table or one leaderboard file a model (default: standard "
        "output)",
    )
    parser.add_argument(
        "--section",
        metavar="NAME",
        action="append",
        help="sections to make, separated by commas, or all (default: all that are not on request, as listed below)",
    )
    parser.add_argument(
        "--published",
        metavar="NAME",
        help="compare the run with a published number, such as pi05; adds --section=evaluators (default: none)",
    )
    papers = ", ".join(name for name, entry in extensions.papers().items() if entry.has_models)
    parser.add_argument(
        "--paper",
        metavar="NAME",
        help=f"print a paper's tables and figures, with the runs' models beside the published ones: {papers}; adds "
        "--section=paper (default: none)",
    )
    parser.add_argument(
        "--table",
        metavar="N",
        help="for --paper: one of its tables or figures, such as 3 or fig7 (default: all, and which are missing)",
    )
    parser.add_argument(
        "--intervals", action="store_true", help="for --paper: with 95%% confidence intervals (default: without)"
    )
    parser.add_argument("--alpha", metavar="A", type=alpha_of, default=ALPHA, help=f"weight of S_K (default: {ALPHA})")
    parser.add_argument(
        "--backend", metavar="NAME", help="backend of the similarities (default: the best that has all pairs)"
    )
    parser.add_argument(
        "--failure-algorithm",
        choices=ALGORITHMS,
        help="DTW algorithm of the failure types (default: fastdtw, as in the paper, if it is installed, else exact)",
    )
    parser.add_argument(
        "--tau",
        choices=TAUS,
        default=TAUS[0],
        help="threshold of the failure types: leave-one-out compares each success with the others; paper compares it "
        "with all successes, as in LIBERO-Para's Tables 4 and 16 (default: leave-one-out)",
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
        help="print all rows of variations on a terminal (default: only the informative ones; JSON always has all)",
    )
    parser.add_argument(
        "--stop-when",
        metavar="RULE",
        type=rule_text,
        help="evaluate a rule for stopping episodes, such as 'token_entropy>0.3 for 5': how many failures it would "
        "have caught, and how many successes it would have cut (default: none; needs runs with --vla-metrics)",
    )
    parser.add_argument(
        "--rho",
        choices=SIGNS,
        default=SIGNS[0],
        help="for --labels: the sign of rho: metric, positive if a larger metric goes with a higher quality; paper, "
        "positive if a lower one does, as in Table III of arXiv 2507.17049 (default: metric)",
    )
    parser.add_argument(
        "--labels",
        metavar="FILE",
        type=Path,
        help="CSV of quality labels from `pytest-vla label`: report which metrics correlate with them, and how well "
        "two people agree (default: none)",
    )
    parser.add_argument(
        "--pictures",
        metavar="N",
        type=episode_number,
        help=f"for html: number of episodes with pictures of their start and end, failures first (default: {PICTURES})",
    )
    parser.add_argument(
        "--videos",
        metavar="none|failed[:N]|all[:N]",
        type=video_number,
        help="for html: episodes with a video, recorded or drawn now (default: none; default N: 20)",
    )
    parser.add_argument(
        "--schema",
        action="store_true",
        help="print the JSON Schema of --format=json, with the installed sections, and exit",
    )
    parser.add_argument(
        "--occlusion",
        metavar="none|failed[:N]|all[:N]",
        type=occlusion_number,
        default=(0, True),
        help="episodes with a map of where the policy looks: it is asked again with each patch of its first pictures "
        "covered; drawn in html, numbers in other formats (default: none; default N: 5)",
    )
    parser.add_argument("--vla-model", metavar="POLICY", help="for --occlusion: the policy to ask (default: the run's)")
    parser.add_argument(
        "--vla-device", metavar="DEVICE", help="for --occlusion: the policy's device, as for pytest (default: auto)"
    )
    declare_results(parser)


def episode_number(text: str) -> int:
    """Parse ``--pictures``. Raises ArgumentTypeError if the text is no whole number from 0."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a number of episodes, such as 200 or 0, found {text!r}")
    return int(text)


def video_number(text: str) -> tuple[int, bool]:
    """Parse ``--videos``. Raises ArgumentTypeError if the text has a different form."""
    from pytest_vla.reports.html.media import videos_of

    try:
        return videos_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def occlusion_number(text: str) -> tuple[int, bool]:
    """Parse ``--occlusion``. Raises ArgumentTypeError if the text has a different form."""
    from pytest_vla.reports.html.media import videos_of

    try:
        return videos_of(text, 5)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def run(options: argparse.Namespace) -> None:
    """Read the records, compute the sections, and write them. Raises VlaError, also if a section could not be made."""
    from pytest_vla.metrics.extra_metrics import hidden_notes
    from pytest_vla.reports.figures import check_matplotlib
    from pytest_vla.reports.loaded import load
    from pytest_vla.reports.sections import chosen_sections, make_sections
    from pytest_vla.util.text import counted

    if options.schema:
        from pytest_vla.reports.json_schema import report_schema

        print(json.dumps(report_schema(), indent=2))
        return
    for name, its_section in (("published", "evaluators"), ("paper", "paper")):
        if getattr(options, name) is not None:
            options.section = [*(options.section or ()), its_section]
    given = {
        "--table": options.table,
        "--intervals": options.intervals,
        "--section=paper": options.section == ["paper"],
    }
    if options.paper is None and (needs := next((name for name, each in given.items() if each), None)):
        raise VlaError(f"{needs} requires --paper")
    format = format_of(options.format, options.output)
    if options.paper is not None:
        from pytest_vla.reports.papers import chosen_tables, run_lines

        tables = chosen_tables(options.paper, options.table)[2]  # before the records are read, which may take long
    if format == "png":
        check_matplotlib()
    for name in ("pictures", "videos"):
        if format != "html" and getattr(options, name) is not None:
            raise VlaError(f"--{name} requires --format=html -o report.html; found {format}")
    if options.occlusion[0] and options.vla_model is not None:
        from pytest_vla.policies.load import check_model
        from pytest_vla.run.project import typed_model

        check_model(typed_model(options.vla_model, options.vla_device))
    try:
        loaded = load(options.which, options.results)
    except VlaError as error:
        if options.paper is None or options.which:
            raise
        raise VlaError(f"{error}\n{run_lines(tables)}") from error
    if format == "leaderboard":
        _write_leaderboard(loaded, options)
        return
    refused: dict[str, None] = {}
    if options.occlusion[0] and format != "html":
        options.policy_of = _policies(options, loaded.folders, refused)
    named, troubles = make_sections(loaded, options, format)
    troubles = [*troubles, *refused]
    if format == "html":
        _write_page(loaded, named, troubles, options)
        return
    sections = [section for _, section in named]
    hidden = [*hidden_notes(loaded.records)]
    if not (sections or troubles):
        if hidden:
            raise VlaError(f"nothing to report from the records that count. {'. '.join(hidden)}")
        if options.section:
            wanted = ",".join(entry.name for entry in chosen_sections(options))
            raise VlaError(
                f"nothing to report: {counted(len(loaded.records), 'record')}{_broken(loaded.records)}, with nothing "
                f"for --section={wanted}"
            )
        raise VlaError(
            f"nothing to report: none of {counted(len(loaded.records), 'record')} has a variation, another text than "
            f"its task's or an added metric{_broken(loaded.records)}. Run "
            "`pytest --vla-suite=... --vla-model=... --vla-vary=...` or "
            "`--vla-suite=libero_para`, or `pytest-vla import LOG`"
        )
    try:
        if sections and format in ("csv", "latex"):
            _write_tables(named, format, options.output)
        elif sections:
            _write(named, loaded, format, options.output)
    except VlaError as error:
        raise VlaError("\n".join((*troubles, str(error)))) from error
    if troubles:
        raise VlaError("\n".join(troubles))


def _write_tables(named: "Sequence[Named]", format: str, output: Path | None) -> None:
    """Write all tables: into a file for each if the output is a folder, else one after another."""
    from pytest_vla.reports.export import csv_files, joined, latex_files, named_tables
    from pytest_vla.util.files import whole_file

    tables = [table for entry, section in named for table in named_tables(entry.name, section.blocks())]
    if not tables:
        raise VlaError(f"no section of this report has a table for {format}")
    files = csv_files(tables) if format == "csv" else latex_files(tables)
    if output is None or str(output) == "-":
        print(joined(files, format), end="")
        return
    if output.suffix.lower() in (".csv", ".tex") and not output.is_dir():
        with whole_file(output) as stream:
            stream.write(joined(files, format).encode(errors="backslashreplace"))
        return
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise VlaError(f"cannot make the folder {output}: {error.strerror}") from error
    for name, text in files.items():
        file = output / f"{name}.{'csv' if format == 'csv' else 'tex'}"
        with whole_file(file) as stream:
            stream.write(text.encode(errors="backslashreplace"))
        print(file)


def _write_leaderboard(loaded: "Loaded", options: argparse.Namespace) -> None:
    """Write what a paper's leaderboard takes: of one model into a file or to the output, or a file each in a folder."""
    from pytest_vla.reports.papers import leaderboard_files
    from pytest_vla.util.files import whole_file

    files, left_out = leaderboard_files(options.paper, loaded)
    for text in left_out:
        print(f"note: {text}", file=sys.stderr)
    output = options.output
    if output is not None and output.is_dir():
        places = {output / name: text for name, text in files.items()}
    elif len(files) > 1:
        names = ", ".join(files)
        raise VlaError(f"a leaderboard's file is of one model, and these runs have {names}. Name RUN, or -o FOLDER")
    elif output is None or str(output) == "-":
        print(*files.values(), end="")
        return
    else:
        places = dict.fromkeys([output], *files.values())
    for file, text in places.items():
        with whole_file(file) as stream:
            stream.write(text.encode())
        print(file)


def _broken(records: "Sequence[Record]") -> str:
    """Return the number of episodes without a result, by reason, or an empty text if all have one."""
    from pytest_vla.metrics.selection import is_counted
    from pytest_vla.util.text import printable

    reasons = Counter(record.reason or record.outcome for record in records if not is_counted(record))
    if not reasons:
        return ""
    listed = ", ".join(f"{number} {reason}" for reason, number in reasons.items())
    return f"; {sum(reasons.values())} of them ended as errors or invalid: {printable(listed)}"


def _write_page(
    loaded: "Loaded", named: "Sequence[Named]", troubles: "Sequence[str]", options: argparse.Namespace
) -> None:
    from pytest_vla.reports.html.media import MediaShown
    from pytest_vla.run.html_report import write_html

    most, of_failed = options.videos or (0, True)
    asked, of_those = options.occlusion
    pictures = PICTURES if options.pictures is None else options.pictures
    refused: dict[str, None] = {}
    policy_of = _policies(options, loaded.folders, refused)
    shown = MediaShown(pictures, most, of_failed, options.data, asked, of_those, policy_of)
    write_html(loaded, named, options.which, options.results, options.output, troubles, shown)
    if troubles or refused:
        raise VlaError("\n".join((*troubles, *refused)))


def _policies(
    options: argparse.Namespace, folders: "Mapping[str, Path]", refused: dict[str, None]
) -> "Callable[[Run, Record], Policy]":
    """Return a function that gives an episode's policy, or that of ``--vla-model``; each is loaded once, on demand.

    Args:
        options: the command's options.
        folders: by run's name, its folder.
        refused: gets the reasons why policies that runs name were not loaded.
    """
    loaded: dict[str, tuple[Policy, str | None]] = {}

    def spec_of(run: "Run") -> "ModelSpec":
        from pytest_vla.records.store import STORE
        from pytest_vla.run.project import typed_model, untyped_model

        if options.vla_model is not None:
            return typed_model(options.vla_model, options.vla_device)
        results = folders[run.name].parent
        doing = f"--occlusion would load the policy {run.model} of run {run.name}"
        try:
            return untyped_model(run.model, options.vla_device, (results, results / STORE), doing)
        except VlaError as error:
            refused[str(error)] = None
            raise

    def policy_of(run: "Run", record: "Record") -> "Policy":
        from pytest_vla.policies.load import digest_of, resolve_policy

        named = options.vla_model or run.model
        if named not in loaded:
            spec = spec_of(run)
            policy = resolve_policy(spec)
            loaded[named] = policy, digest_of(policy, spec)
        policy, digest = loaded[named]
        if options.vla_model is None and None not in (digest, record.policy_digest) and digest != record.policy_digest:
            raise VlaError(
                f"{named} has changed since run {run.name} (digest {str(digest)[:8]}, was "
                f"{str(record.policy_digest)[:8]}). Name the policy to ask with --vla-model"
            )
        return policy

    return policy_of


def _write(named: "Sequence[Named]", loaded: "Loaded", format: str, output: Path | None) -> None:
    from pytest_vla.reports.figures import write_pictures
    from pytest_vla.reports.sections import notes_of, report_table, section_lines
    from pytest_vla.reports.text import WIDTH, terminal_width, wrapped
    from pytest_vla.util.files import whole_file

    sections = [section for _, section in named]
    if format in IN_FOLDERS:
        if format == "svg":
            drawn = _svg_files(named)
        else:
            drawn = {name: picture for section in sections for name, picture in section.pictures().items()}
        for file in write_pictures(drawn, output or Path(), format):
            print(file)
        return
    if format == "json":
        text = json.dumps(report_table(sections, loaded), indent=2)
    else:
        width = terminal_width() if output is None else WIDTH
        told = [line for note in notes_of(loaded) for line in wrapped(note, width)]
        text = "\n".join([*section_lines(sections, width), *[""] * bool(told), *told])
    if output is None or str(output) == "-":
        print(text)
        return
    with whole_file(output) as stream:
        stream.write(f"{text}\n".encode())


def _svg_files(named: "Sequence[Named]") -> dict[str, bytes]:
    """Return the drawings of a page that are SVG, by the names of their files."""
    import re

    from pytest_vla.reports.blocks import PageDrawing
    from pytest_vla.reports.html.parts import page_style
    from pytest_vla.reports.html.svg import standalone

    found: dict[str, bytes] = {}
    for entry, section in named:
        drawings = [block for block in section.blocks() if isinstance(block, PageDrawing)]
        for number, block in enumerate(drawings, 1):
            # A block may have several, side by side.
            parts = re.findall(r"<svg .*?</svg>", str(block.draw()), re.DOTALL)
            for part, drawn in enumerate(parts, 1):
                name = (block.name or f"{entry.name}-{number}") + f"-{part}" * (len(parts) > 1)
                found[name] = standalone(drawn, page_style())
    return found


def format_of(named: str | None, output: Path | None) -> str:
    """Return the one of `FORMATS` to write, after checking that the output can be written.

    Args:
        named: the user's choice, or None to infer it from the file's ending.
        output: a file or a folder; None or ``-`` for standard output.

    Raises:
        VlaError: the ending is unknown, or the file or folder cannot be written.
    """
    if output is None or (str(output) == "-" and named not in IN_FOLDERS):
        return named or "terminal"
    ending = output.suffix.lower()
    if named in IN_FOLDERS or (named is None and ending[1:] in IN_FOLDERS):
        format = named or ending[1:]
        if ending == f".{format}" and not output.is_dir():
            raise VlaError(f"-o {output}: there are several pictures. Give a folder: --format={format} -o FOLDER")
        _check_folder(output, "pictures are written into a folder")
        return format
    if named == "leaderboard" and output.is_dir():
        _check_folder(output, "a leaderboard's files are written into a folder")
        return named
    if named in ("csv", "latex") and (output.is_dir() or ending not in ENDINGS or not ending):
        _check_folder(output, f"{named} with a folder has a file for each table")
        return named
    if output.is_dir():
        raise VlaError(f"-o {output} is a folder. Give a file, or --format=png to write pictures into it")
    if named is None and ending not in ENDINGS:
        known = ", ".join(each for each in ENDINGS if each)
        raise VlaError(f"-o {output}: unknown ending {ending}. Expected {known}, or --format")
    if not output.parent.is_dir():
        raise VlaError(f"cannot write {output}: there is no folder {output.parent}")
    if not output.exists():
        _check_folder(output.parent, f"cannot write {output}")
    return named or ENDINGS[ending]


def _check_folder(folder: Path, what: str) -> None:
    """Raise VlaError if no file can be created in a folder that exists or would be created."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not there.is_dir():
        raise VlaError(f"{what}: {there} is no folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise VlaError(f"{what}: no permission to write in {there}")


COMMAND = Command(declare, run)
