"""``pytest-vla prune``: removes runs that are old, broken or too many."""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pytest_vla.commands.rm import declare_removal, remove
from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import age_of, whole_number

if TYPE_CHECKING:
    from pytest_vla.records.runs import Run

# Heavy imports are inside the functions, so that --help is fast.

_MOST = 999_999


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "Removes the runs that match all given options: `prune --keep=20 --older-than=30d` removes runs that began "
        "more than 30 days ago and are not among the 20 newest. Runs that `pytest-vla rm` would refuse are kept and "
        "listed."
    )
    parser.add_argument(
        "--keep",
        metavar="N",
        type=whole_number("a number of runs", 0, _MOST),
        help="remove all runs except the newest N",
    )
    parser.add_argument(
        "--older-than", metavar="AGE", type=age_of, help="remove runs that began longer ago: 90m, 12h, 30d, 8w"
    )
    parser.add_argument("--errors", action="store_true", help="remove runs without any complete episode")
    parser.add_argument(
        "--unfinished", action="store_true", help="remove runs that were stopped or killed before their end"
    )
    declare_removal(parser)


def run(options: argparse.Namespace) -> None:
    """Remove the runs that match all given options. Raises VlaError: no option is given, or the user did not agree."""
    from pytest_vla.records.removal import refusals
    from pytest_vla.records.store import open_store
    from pytest_vla.util.text import printable

    if options.keep is None and options.older_than is None and not (options.errors or options.unfinished):
        raise VlaError("which runs? Give at least one of --keep=N, --older-than=AGE, --errors and --unfinished")
    with open_store(options.results, create=False) as store:
        runs = select_runs(
            store.runs(),
            keep=options.keep,
            older_than=options.older_than,
            errors=options.errors,
            unfinished=options.unfinished,
            now=datetime.now(UTC),
        )
        against = refusals(store, runs, elsewhere=options.elsewhere)
        for name, why in against.items():
            print(printable(f"kept: {name}: {why}"))
        runs = [run for run in runs if run.name not in against]
        if runs:
            remove(store, runs, options, input if sys.stdin.isatty() else None)
        else:
            print("nothing to remove")


def select_runs(
    runs: "Sequence[Run]",
    *,
    keep: int | None,
    older_than: float | None,
    errors: bool,
    unfinished: bool,
    now: datetime,
) -> "list[Run]":
    """Return the runs that match all given conditions.

    Args:
        runs: all runs, the newest first.
        keep: skip this many of the newest runs, or None to skip none.
        older_than: select runs that began more than this many seconds before `now`, or None for any age.
        errors: select runs without any finished episode only.
        unfinished: select runs that did not run all their items only.
        now: a time with a time zone.
    """
    from pytest_vla.records.counting import is_complete

    found = list(runs[keep or 0 :])
    if older_than is not None:
        limit = now - timedelta(seconds=older_than)
        found = [run for run in found if datetime.fromisoformat(run.started) < limit]
    if errors:
        found = [run for run in found if not any(is_complete(count.outcome) for count in run.counts)]
    if unfinished:
        found = [run for run in found if run.status != "finished"]
    return found


COMMAND = Command(declare, run)
