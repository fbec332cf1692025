"""``pytest-vla export``: the episodes of runs as a table for other programs."""

import argparse
import sys
from pathlib import Path

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.records.load import open_run
from pytest_vla.reports.export import FORMATS, check_format, export
from pytest_vla.reports.loaded import counted_episodes
from pytest_vla.run.arguments import declare_results
from pytest_vla.util.files import whole_file


def declare(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.epilog = (
        "One row an episode, in the order in which they ended; rates are of those whose counts is true, the others are "
        "repeats (docs: What counts). csv and parquet have a column for each value: counts, outcome, steps, "
        "timings.wall, provenance.mujoco, protocol.max_steps, seeds.init_state, costs.NAME, metrics.NAME, eef_pos.x; "
        "literals are JSON text. In csv a text that a spreadsheet would run as a formula has an apostrophe before it. "
        "jsonl has the records as they are kept, and counts."
    )
    parser.add_argument(
        "which",
        metavar="RUN|DIR",
        nargs="?",
        default="last",
        help="a run's name or its beginning, its folder, or a results folder; last (default); all",
    )
    parser.add_argument(
        "--format", choices=FORMATS, help="default: what the ending of FILE says, or csv; parquet needs pyarrow"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="written as a whole or not at all (default: standard output)"
    )
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Write the table, whole or not at all. Raises VlaError: there is no such run, or the format cannot be had."""
    output = None if options.output in (None, "-") else Path(options.output)
    ending = output.suffix[1:].lower() if output else ""
    format = options.format or (ending if ending in FORMATS else "csv")
    if format == "parquet" and output is None:
        raise VlaError("parquet is no text: give a file with -o FILE.parquet")
    check_format(format)
    with open_run(options.which, options.results) as (store, runs):
        # Fixed now: a run that goes on gets more.
        episodes = counted_episodes(store, [run.name for run in runs])
        # Not sys.stdout.buffer: with PYTHONUNBUFFERED that one may write a part and be content.
        with whole_file(output) if output else open(sys.stdout.fileno(), "wb", closefd=False) as stream:
            export(lambda: store.lines([*episodes]), format, stream, [*episodes.values()])


COMMAND = Command(declare, run)
