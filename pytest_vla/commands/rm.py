"""``pytest-vla rm``: removes runs, with their records and their files."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import declare_results

if TYPE_CHECKING:
    from pytest_vla.records.runs import Run
    from pytest_vla.records.store import Store

# Heavy imports are inside the functions, so that --help is fast.

Ask = Callable[[str], str]


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options and its help text."""
    parser.epilog = (
        "A run that is still running is not removed, nor is one whose records are counted by another run, such as a "
        "run with --lf. Files outside of the results folder are never touched."
    )
    parser.add_argument(
        "which",
        metavar="RUN",
        nargs="+",
        help="runs to remove: a run's name or the beginning of it, or last, the newest",
    )
    declare_removal(parser)


def run(options: argparse.Namespace) -> None:
    """Remove the named runs. Raises VlaError: no such run, a run must be kept, or the user did not agree."""
    from pytest_vla.records.removal import refusals, refused
    from pytest_vla.records.store import open_store

    with open_store(options.results, create=False) as store:
        runs = list({run.name: run for run in map(store.run, options.which)}.values())
        if against := refusals(store, runs, elsewhere=options.elsewhere):
            raise refused(against)
        remove(store, runs, options, input if sys.stdin.isatty() else None)


def declare_removal(parser: argparse.ArgumentParser) -> None:
    """Declare the options that ``rm`` and ``prune`` share."""
    parser.add_argument("--dry-run", action="store_true", help="list the runs, and remove nothing")
    parser.add_argument("--yes", action="store_true", help="remove without asking")
    parser.add_argument(
        "--elsewhere",
        action="store_true",
        help="also remove unfinished runs of other machines, which may still be running there",
    )
    declare_results(parser)


def remove(store: "Store", runs: "Sequence[Run]", options: argparse.Namespace, ask: Ask | None) -> None:
    """Remove runs after the user agrees, and print the freed space.

    Args:
        store: the store of the runs.
        runs: the runs to remove.
        options: the options of `declare_removal`.
        ask: asks the user a question, or None if standard input is no terminal.

    Raises:
        VlaError: the user did not agree, or a run cannot be removed.
    """
    from pytest_vla.records.removal import remove_runs, size_of
    from pytest_vla.util.text import counted, printable

    if not (options.yes or options.dry_run) and ask is None:
        raise VlaError("standard input is not a terminal, so the command cannot ask. Use --yes")
    sizes = [size_of(store, run) for run in runs]
    print("\n".join(map(printable, _listed(runs, sizes))))
    total = f"{counted(len(runs), 'run')}, about {_size(sum(sizes))}"
    if options.dry_run:
        print(f"would remove {total}")
        return
    if not options.yes and ask is not None and not agrees(ask, f"Remove {total} permanently?"):
        raise VlaError("nothing was removed")
    freed = remove_runs(store, runs, elsewhere=options.elsewhere)
    print(f"removed {total}; the results folder is {_size(freed)} smaller")


def _listed(runs: "Sequence[Run]", sizes: Sequence[int]) -> Iterator[str]:
    from pytest_vla.reports.runs import status_of
    from pytest_vla.reports.text import aligned
    from pytest_vla.util.text import printable

    rows = [
        (
            run.name,
            datetime.fromisoformat(run.started).astimezone().strftime("%Y-%m-%d %H:%M"),
            printable(run.model),
            f"{run.done}/{run.planned}",
            status_of(run),
            _size(size),
        )
        for run, size in zip(runs, sizes, strict=True)
    ]
    yield from aligned(rows, len(rows[0]), width=None)


def agrees(ask: Ask, question: str) -> bool:
    """Whether the user answers yes."""
    try:
        return ask(f"{question} [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _size(number: int) -> str:
    for unit, limit in (("bytes", 10**3), ("kB", 10**6), ("MB", 10**9)):
        if number < limit:
            return f"{number} {unit}" if unit == "bytes" else f"{number * 1000 / limit:.1f} {unit}"
    return f"{number / 10**9:.1f} GB"


COMMAND = Command(declare, run)
