"""Opening the runs that a text names, with the same names and errors in all commands; and the types of importers."""

import argparse
import hashlib
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_vla import extensions
from pytest_vla.entries import ImporterEntry
from pytest_vla.errors import VlaError
from pytest_vla.records.names import ALL_RUNS, new_run_name
from pytest_vla.records.record import Record
from pytest_vla.records.runs import Run
from pytest_vla.records.store import STORE, Store, no_runs, open_store
from pytest_vla.util.text import printable

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
            or empty for all runs of `results`; a log file of another evaluator, which is imported.
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
    if path.is_file() and path.name != STORE:
        return results, logged_run(path, results)
    if (path.is_dir() or path.parent != Path()) and (path.resolve().parent / STORE).is_file():
        # An imported run has no folder, but its name is accepted as a path.
        return path.resolve().parent, path.resolve().name
    return results, text


# Importers for `pytest-vla import`, and for log files in the place of runs.


@dataclass(frozen=True)
class ImportedLog:
    """A log of other evaluation software, as read by an importer.

    Attributes:
        path: the log's file or folder.
        model: the policy's name.
        seed: the log's seed, or None if it has several.
        digest: sha256 (hex) of its content; a log is imported once.
        runs: functions that return a run's records, given its name; further runs repeat the cases under other run
            seeds.
        remark: lines about assumptions and about things that the log does not state, or empty.
    """

    path: Path
    model: str
    seed: int | None
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
        read: reads logs, given the command's options: ``files`` (paths), ``model``, ``suite``, ``evaluator`` and
            ``seed`` (each None if not given), ``allow_unfinished``, and those of `declare`. Raises VlaError.
        recognises: whether a file or folder is such a log, by its content; a damaged one is, too.
        declare: adds further options.
    """

    read: Callable[[argparse.Namespace], Imported]
    recognises: Callable[[Path], bool] = lambda path: False
    declare: Callable[[argparse.ArgumentParser], None] = lambda parser: None


_READ_WHOLE = 256 * 1024 * 1024
"""The bytes up to which a log is known by its content; larger ones are recordings, which their importer knows."""

EnteredRuns = dict[str, list[tuple[str, list[Record]]]]
"""By a log's digest, the names of its runs, with their records."""


def importer_of(entry: ImporterEntry) -> Importer:
    """Return the importer that an entry names. Raises VlaError if it cannot be loaded, or is none."""
    found = extensions.load(entry)
    if not isinstance(found, Importer):
        whose = f"{entry.origin}: {entry.load}"
        raise VlaError(f"{whose} is {type(found).__name__}, expected pytest_vla.records.load.Importer")
    return found


def formats_of(path: Path) -> list[str]:
    """Return the names of the importers that recognise a file or a folder. Raises VlaError if it cannot be read."""
    return [name for name, entry in extensions.importers().items() if importer_of(entry).recognises(path)]


def format_of(path: Path) -> str:
    """Return the name of the importer that recognises a file or a folder. Raises VlaError: none does, or several do."""
    found = formats_of(path)
    if len(found) == 1:
        return found[0]
    shown = printable(str(path))
    if not path.exists():
        raise VlaError(f"there is no {shown}")
    known = ", ".join(extensions.importers())
    if found:
        raise VlaError(f"{shown} is recognised as {' and as '.join(found)}. Use --format=NAME")
    raise VlaError(f"{shown} is not recognised as a log. Formats: {known}. --format=NAME reads it as one of them")


def is_log(path: Path) -> bool:
    """Whether it is a log file of another evaluator, which stands for a run."""
    return path.is_file() and bool(formats_of(path))


def logged_run(path: Path, results: Path) -> str:
    """Return the name of the run that a log file is, and import it if it is not in the results yet.

    Raises:
        VlaError: it is not recognised, or it needs options to be imported.
    """
    about = path.stat()
    key = path.resolve(), about.st_size, about.st_mtime_ns, results.resolve()
    if key not in _runs_of_logs:
        name = _known_run(path, results) if about.st_size <= _READ_WHOLE else ""
        _runs_of_logs[key] = name or _entered_run(path, results)
    return _runs_of_logs[key]


def _known_run(path: Path, results: Path) -> str:
    """Return the run's name if the file was imported before, as with options that it needs, or an empty text."""
    if not (results / STORE).is_file():
        return ""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    with open_store(results, create=False) as store:
        return next((run.name for run in store.runs() if run.invocation.get("log_digest") == digest and run.done), "")


def _entered_run(path: Path, results: Path) -> str:
    """Import a log without options, and return the run's name. Raises VlaError if it needs some."""
    kind = format_of(path)
    importer = importer_of(extensions.importers()[kind])
    parser = argparse.ArgumentParser()
    importer.declare(parser)
    given: dict[str, Any] = {
        "allow_unfinished": False,
        "files": [path],
        "model": None,
        "suite": None,
        "evaluator": None,
        "seed": None,
    }
    try:
        (log,) = importer.read(argparse.Namespace(**{**vars(parser.parse_args([])), **given})).logs
    except VlaError as error:
        raise VlaError(f"{error}\n(`pytest-vla import {shlex.quote(str(path))}` imports it with options)") from error
    with open_store(results, create=True) as store:
        known = {str(run.invocation.get("log_digest")): run.name for run in store.runs() if run.done}
        return known.get(log.digest) or enter_logs(store, [log], kind)[log.digest][0][0]


# Of this process: a gate asks several times.
_runs_of_logs: dict[tuple[Path, int, int, Path], str] = {}


def enter_logs(store: Store, logs: Sequence[ImportedLog], kind: str) -> EnteredRuns:
    """Store all logs or none."""
    entered: EnteredRuns = {}
    for log in logs:
        entered[log.digest] = [(name, make(name)) for make in log.runs for name in (new_run_name(),)]
    runs = [(log, name, records) for log in logs for name, records in entered[log.digest]]
    try:
        for log, name, records in runs:
            log_path = str(log.path.resolve())
            invocation: dict[str, Any] = {"imported": kind, "log": log_path, "log_digest": log.digest}
            # --vla-resume reads these two keys before it refuses the run.
            invocation |= {"arguments": [], "folder": str(Path.cwd())}
            command = shlex.join(["pytest-vla", "import", str(log.path)])
            store.begin(name, [each.node for each in records], command=command, model=log.model, invocation=invocation)
        # All records in one transaction.
        store.add_all([record for _, _, records in runs for record in records])
    except BaseException:
        for _, name, _ in runs:
            store.discard(name)
        raise
    for _, name, records in runs:
        store.mark(name, {each.node: "passed" if each.outcome == "success" else "failed" for each in records})
        store.end(name, "finished")
    return entered
