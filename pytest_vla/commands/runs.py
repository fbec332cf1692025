"""``pytest-vla runs``: lists the runs of a results folder."""

import argparse
import shutil
import sys

from pytest_vla.entries import Command
from pytest_vla.records.store import no_runs, open_store
from pytest_vla.reports.runs import runs_json, runs_table
from pytest_vla.run.arguments import declare_results


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "The episodes column has finished and planned episodes. The rate is successes / (successes + failures) of the "
        "suites' episodes, or of your own tests if there are no others, with a 95% interval over these tasks; errors "
        "are excluded. For intervals of varied episodes use `pytest-vla report RUN`."
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Print the runs. Raises VlaError if there are none."""
    with open_store(options.results, create=False) as store:
        runs = store.runs()
    if not runs and not options.json:
        raise no_runs(options.results)
    # Programs that read the table get a line for each run.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(runs_json(runs) if options.json else "\n".join(runs_table(runs, width)))


COMMAND = Command(declare, run)
