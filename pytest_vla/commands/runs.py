"""``pytest-vla runs``: lists the runs of a results folder."""

import argparse

from pytest_vla.entries import Command
from pytest_vla.records.store import no_runs, open_store
from pytest_vla.reports.runs import runs_json, runs_table
from pytest_vla.run.arguments import declare_results


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "Episodes are those done of those planned. The rate is over successes and failures of the suites' episodes "
        "(of your own tests, where there are no others), with its 95% interval over these tasks; errors are not in it. "
        "Of varied episodes `pytest-vla report RUN` has the interval."
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Print the runs. Raises VlaError if there are none."""
    with open_store(options.results, create=False) as store:
        runs = store.runs()
    if not runs and not options.json:
        raise no_runs(options.results)
    print(runs_json(runs) if options.json else "\n".join(runs_table(runs)))


COMMAND = Command(declare, run)
