"""``pytest-vla``: looks at the records of earlier runs. Each command calls one function elsewhere."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pytest_vla.errors import VlaError

# What a command needs is imported when it runs: --help has to come at once.


@dataclass(frozen=True)
class Command:
    """``pytest-vla NAME``: what its help says, how its arguments are declared, and what it does."""

    name: str
    help: str
    declare: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command. Returns the exit code: 0, 1 (it could not be done) or 2 (it cannot be understood)."""
    parser = argparse.ArgumentParser(
        prog="pytest-vla",
        description="Look at the records of robot-policy tests. The tests themselves are run by pytest: "
        "`pytest --vla-suite=SUITE --vla-model=POLICY`; `pytest --help` has all --vla options.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True, title="commands")
    for command in COMMANDS:
        own = commands.add_parser(command.name, help=command.help, description=command.help)
        command.declare(own)
        own.set_defaults(run=command.run)
    options = parser.parse_args(arguments)
    try:
        options.run(options)
        sys.stdout.flush()
    except (VlaError, OSError) as error:
        return _refuse(error)
    except KeyboardInterrupt:
        return _refuse("interrupted")
    return 0


def _refuse(error: Exception | str) -> int:
    if isinstance(error, OSError):
        # Standard output is what cannot be written. Python would complain once more when it closes it.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    # A reader such as head has seen enough.
    if not isinstance(error, BrokenPipeError):
        print(f"pytest-vla: {error}", file=sys.stderr)
    return 1


def _declare_results(parser: argparse.ArgumentParser) -> None:
    from pytest_vla.store import DEFAULT_RESULTS

    parser.add_argument(
        "--results",
        metavar="DIR",
        type=Path,
        default=Path(DEFAULT_RESULTS),
        help=f"folder of all runs, pytest's --vla-results (default: {DEFAULT_RESULTS})",
    )


def _declare_runs(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Episodes are those done of those planned. The rate is over successes and failures of the suites' episodes "
        "(of your own tests, where there are no others), with its 95% Wilson interval; errors are not in it."
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    _declare_results(parser)


def _runs(options: argparse.Namespace) -> None:
    from pytest_vla.reports.runs import runs_json, runs_table
    from pytest_vla.store import open_store

    with open_store(options.results, create=False) as store:
        runs = store.runs()
    if not runs and not options.json:
        raise VlaError(f"no runs in {options.results} yet")
    print(runs_json(runs) if options.json else "\n".join(runs_table(runs)))


def _declare_export(parser: argparse.ArgumentParser) -> None:
    from pytest_vla.reports.export import FORMATS

    parser.epilog = (
        "One row an episode, the last one of each test item, in the order in which they ended. csv and parquet have a "
        "column for each value: outcome, steps, timings.wall, provenance.mujoco, protocol.max_steps, "
        "seeds.init_state, costs.NAME, metrics.NAME, eef_pos.x; literals are JSON text. In csv a text that a "
        "spreadsheet would run as a formula has an apostrophe before it. jsonl has the records as they are kept."
    )
    parser.add_argument(
        "which", metavar="RUN", nargs="?", default="last", help="a run's name or its beginning; last (default); all"
    )
    parser.add_argument(
        "--format", choices=FORMATS, help="default: what the ending of FILE says, or csv; parquet needs pyarrow"
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="written as a whole or not at all (default: standard output)"
    )
    _declare_results(parser)


def _export(options: argparse.Namespace) -> None:
    from pytest_vla.reports.export import FORMATS, check_format, export, whole_file
    from pytest_vla.store import open_store

    output = None if options.output in (None, "-") else Path(options.output)
    ending = output.suffix[1:].lower() if output else ""
    format = options.format or (ending if ending in FORMATS else "csv")
    if format == "parquet" and output is None:
        raise VlaError("parquet is no text: give a file with -o FILE.parquet")
    check_format(format)
    with open_store(options.results, create=False) as store:
        runs = reversed(store.runs()) if options.which == "all" else [store.run(options.which)]
        # Fixed now: a run that goes on gets more.
        episodes = [number for run in runs for number in store.episodes(run.name)]
        # Not sys.stdout.buffer: with PYTHONUNBUFFERED that one may write a part and be content.
        with whole_file(output) if output else open(sys.stdout.fileno(), "wb", closefd=False) as stream:
            export(lambda: store.lines(episodes), format, stream)


COMMANDS = (
    Command("runs", "the runs, newest first: how far they came, and their success rates", _declare_runs, _runs),
    Command("export", "the episodes of a run as a table for other programs", _declare_export, _export),
)

if __name__ == "__main__":
    sys.exit(main())
