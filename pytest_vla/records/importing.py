"""What `pytest-vla import` takes from those who can read logs: runs of records, and what is to be said of them."""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_vla.records.record import Record


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
