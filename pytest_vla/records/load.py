"""The runs that a text names, opened to be read: the same texts, and the same errors, wherever runs are asked for."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_vla.errors import VlaError
from pytest_vla.records.record import Record
from pytest_vla.records.runs import ALL_RUNS, Run
from pytest_vla.records.store import STORE, Store, no_runs, open_store

Opened = tuple[Store, tuple[Run, ...]]
"""A store, and those of its runs that are meant, the oldest first."""


def is_run_folder(path: Path) -> bool:
    """Whether it is a run's own folder, in a results folder."""
    return path.is_dir() and (path.resolve().parent / STORE).is_file()


@contextmanager
def open_run(text: str, results: Path) -> Iterator[Opened]:
    """A run by what it is called, or all runs of a folder, with the store that is open meanwhile.

    Args:
        text: a run's name or its beginning, ``last``, a run's folder, or a results folder: all of its runs; ``all`` or
            empty: all of `results`.
        results: the folder where runs are looked for by their names.

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
                    f"the folder {name} has no results: there is no {STORE} in it, nor where it lies; give a results "
                    "folder, such as .vla, or a run's name"
                ) from error
            raise
        if not runs:
            raise no_runs(folder)
        yield store, runs


def open_runs(texts: Sequence[str], results: Path) -> Iterator[Opened]:
    """Several as `open_run`, one after the other, each place once; no text: all of `results`."""
    places: dict[tuple[Path, str], str] = {}
    for text in texts or [""]:
        places.setdefault(_place(text, results), text)
    for text in places.values():
        with open_run(text, results) as opened:
            yield opened


def _place(text: str, results: Path) -> tuple[Path, str]:
    """The results folder, and the run's name in it; empty: all of its runs."""
    path = Path(text)
    if text in ("", ALL_RUNS):
        return results, ""
    if (path / STORE).is_file():
        return path, ""
    if (path.is_dir() or path.parent != Path()) and (path.resolve().parent / STORE).is_file():
        # An imported run has no folder, and is named like one.
        return path.resolve().parent, path.resolve().name
    return results, text


# What `pytest-vla import` takes from those who can read logs: runs of records, and what is to be said of them.


@dataclass(frozen=True)
class ImportedLog:
    """A log of other evaluation software that was read.

    Attributes:
        folder: where it is.
        model: the policy's name.
        seed: of all of it.
        digest: sha256 (hex) of its content: one log is imported once.
        runs: make, of the name of a run, that run's records; further runs are of the same cases, under other run seeds.
        remark: a line on what the log does not say and was taken for granted; empty: there is none.
    """

    folder: Path
    model: str
    seed: int
    digest: str
    runs: tuple[Callable[[str], list[Record]], ...]
    remark: str = ""


@dataclass(frozen=True)
class Imported:
    """What an importer read. `told`: lines on all of the logs."""

    logs: tuple[ImportedLog, ...]
    told: tuple[str, ...] = ()


@dataclass(frozen=True)
class Importer:
    """Reads logs of one sort.

    Attributes:
        read: of the command's options: ``folder``, ``model`` and ``seed`` (each None where it was not given), and what
            `declare` adds. Raises VlaError.
        declare: adds further options.
        help: what a log is, for the command's help.
    """

    read: Callable[[argparse.Namespace], Imported]
    declare: Callable[[argparse.ArgumentParser], None] = lambda parser: None
    help: str = ""
