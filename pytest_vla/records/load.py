"""Opening the runs that a text names, with the same names and errors in all commands; and the types of importers."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.records.names import ALL_RUNS
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.records.store import STORE, Store, no_runs, open_store

Opened = tuple[Store, tuple[Run, ...]]
"""A store, and those of its runs that are meant, the oldest first."""


def is_run_folder(path: Path) -> bool:
    """Whether it is a run's own folder, in a results folder."""
    return path.is_dir() and (path.resolve().parent / STORE).is_file()


@contextmanager
def open_run(text: str, results: Path) -> Iterator[Opened]:
    """Open the store of a run, or of all runs of a folder.

    Args:
        text: a run's name or its beginning, ``last``, a run's folder, or a results folder for all of its runs; ``all``
            or empty for all runs of `results`.
        results: the folder in which runs are found by name.

    Raises:
        VlaError: there is no such run or no run at all, or the records cannot be read.
    """
    folder, name = _place(text, results)
    with ExitStack() as stack:
        try:
            store = stack.enter_context(open_store(folder, create=False))
            runs = (store.run(name),) if name else tuple(reversed(store.runs()))
        except VlaError as error:
            if name and Path(name).is_dir():
                raise VlaError(
                    f"the folder {name} has no results: neither it nor its parent has {STORE}. Give a results "
                    "folder, such as .vla, or a run's name"
                ) from error
            raise
        if not runs:
            raise no_runs(folder)
        yield store, runs


def open_runs(texts: Sequence[str], results: Path) -> Iterator[Opened]:
    """Open several runs as `open_run` does, one after the other, each place once; no text means all of `results`."""
    places: dict[tuple[Path, str], str] = {}
    for text in texts or [""]:
        places.setdefault(_place(text, results), text)
    for text in places.values():
        with open_run(text, results) as opened:
            yield opened


def _place(text: str, results: Path) -> tuple[Path, str]:
    """Return the results folder, and the run's name in it, which is empty for all of its runs."""
    path = Path(text)
    if text in ("", ALL_RUNS):
        return results, ""
    if (path / STORE).is_file():
        return path, ""
    if (path.is_dir() or path.parent != Path()) and (path.resolve().parent / STORE).is_file():
        # An imported run has no folder, but its name is accepted as a path.
        return path.resolve().parent, path.resolve().name
    return results, text


# The types of importers for `pytest-vla import`.


@dataclass(frozen=True)
class ImportedLog:
    """A log of other evaluation software, as read by an importer.

    Attributes:
        folder: the log's folder.
        model: the policy's name.
        seed: the log's seed.
        digest: sha256 (hex) of its content; a log is imported once.
        runs: functions that return a run's records, given its name; further runs repeat the cases under other run
            seeds.
        remark: a line on assumptions about things that the log does not state, or empty.
    """

    folder: Path
    model: str
    seed: int
    digest: str
    runs: tuple[Callable[[str], list[Record]], ...]
    remark: str = ""


@dataclass(frozen=True)
class Imported:
    """The result of an importer: its logs, and in `told` lines about all of them."""

    logs: tuple[ImportedLog, ...]
    told: tuple[str, ...] = ()


@dataclass(frozen=True)
class Importer:
    """A reader of one kind of logs.

    Attributes:
        read: reads logs, given the command's options: ``folder``, ``model`` and ``seed`` (each None if not given), and
            those of `declare`. Raises VlaError.
        declare: adds further options.
        help: a description of the log, for the command's help.
    """

    read: Callable[[argparse.Namespace], Imported]
    declare: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    help: str = ""
