"""``pytest-vla rm`` and ``pytest-vla prune``: runs that nobody needs any more, with their records and their files."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pytest_vla.errors import VlaError
from pytest_vla.run.arguments import age_of, declare_results, whole_number

if TYPE_CHECKING:
    from pytest_vla.records.runs import Run
    from pytest_vla.records.store import Store

# What the commands need is imported when they run: --help has to come at once.

_MOST = 999_999
Ask = Callable[[str], str]


def declare_rm(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``rm``."""
    parser.epilog = (
        "A run that is running is not removed, and neither is one whose records another run counts, as runs with --lf "
        "do. What stands outside of the results folder is never touched."
    )
    parser.add_argument(
        "which", metavar="RUN", nargs="+", help="a run's name or its beginning; last: the one that began last"
    )
    _declare_removal(parser)


def declare_prune(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``prune``."""
    parser.epilog = (
        "Removed is what all of the given options hold of: `prune --keep=20 --older-than=30d` removes runs that began "
        "more than 30 days ago and are not among the 20 newest. Runs that `pytest-vla rm` would refuse are kept, and "
        "told."
    )
    parser.add_argument(
        "--keep", metavar="N", type=whole_number("a number of runs", 0, _MOST), help="all but the newest N of all runs"
    )
    parser.add_argument(
        "--older-than", metavar="AGE", type=age_of, help="those that began longer ago: 90m, 12h, 30d, 8w"
    )
    parser.add_argument("--errors", action="store_true", help="those without any episode that came to its end")
    parser.add_argument("--unfinished", action="store_true", help="those that were stopped or killed before their end")
    _declare_removal(parser)


def rm(options: argparse.Namespace) -> None:
    """Remove the runs that are named. Raises VlaError: there is none of a name, one must not go, or nobody agreed."""
    from pytest_vla.records.removal import refusals, refused
    from pytest_vla.records.store import open_store

    with open_store(options.results, create=False) as store:
        runs = list({run.name: run for run in map(store.run, options.which)}.values())
        if against := refusals(store, runs, elsewhere=options.elsewhere):
            raise refused(against)
        _remove(store, runs, options, input if sys.stdin.isatty() else None)


def prune(options: argparse.Namespace) -> None:
    """Remove the runs that the options hold of. Raises VlaError: no option is given, or nobody agreed."""
    from pytest_vla.records.removal import refusals
    from pytest_vla.records.store import open_store
    from pytest_vla.util.text import printable

    if options.keep is None and options.older_than is None and not (options.errors or options.unfinished):
        raise VlaError("prune what? Give at least one of --keep=N, --older-than=AGE, --errors and --unfinished")
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
            _remove(store, runs, options, input if sys.stdin.isatty() else None)
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
    """The runs of which all that is asked for holds.

    Args:
        runs: all, the newest first.
        keep: all but so many, the newest; None: any.
        older_than: those that began more than so many seconds before `now`; None: any.
        errors: those without any episode that came to its end.
        unfinished: those that did not run all their items.
        now: with a time zone.
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


def _declare_removal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would be removed, and remove nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--elsewhere",
        action="store_true",
        help="also unfinished runs of other machines, of which nobody here can tell whether they still run",
    )
    declare_results(parser)


def _remove(store: "Store", runs: "Sequence[Run]", options: argparse.Namespace, ask: Ask | None) -> None:
    from pytest_vla.records.removal import remove_runs, size_of
    from pytest_vla.util.text import counted, printable

    if not (options.yes or options.dry_run) and ask is None:
        raise VlaError("nobody can be asked, as standard input is no terminal: say yes with --yes")
    sizes = [size_of(store, run) for run in runs]
    print("\n".join(map(printable, _listed(runs, sizes))))
    total = f"{counted(len(runs), 'run')}, about {_size(sum(sizes))}"
    if options.dry_run:
        print(f"would remove {total}")
        return
    if not options.yes and ask is not None and not _agrees(ask, total):
        raise VlaError("nothing was removed")
    freed = remove_runs(store, runs, elsewhere=options.elsewhere)
    print(f"removed {counted(len(runs), 'run')}: {_size(freed)} freed")


def _listed(runs: "Sequence[Run]", sizes: Sequence[int]) -> Iterator[str]:
    from pytest_vla.reports.runs import status_of

    rows = [
        (
            run.name,
            datetime.fromisoformat(run.started).astimezone().strftime("%Y-%m-%d %H:%M"),
            run.model,
            f"{run.done}/{run.planned}",
            status_of(run),
            _size(size),
        )
        for run, size in zip(runs, sizes, strict=True)
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()


def _agrees(ask: Ask, total: str) -> bool:
    try:
        return ask(f"Remove {total}, for good? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _size(number: int) -> str:
    for unit, limit in (("bytes", 10**3), ("kB", 10**6), ("MB", 10**9)):
        if number < limit:
            return f"{number} {unit}" if unit == "bytes" else f"{number * 1000 / limit:.1f} {unit}"
    return f"{number / 10**9:.1f} GB"
