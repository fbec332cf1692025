"""``pytest-vla import``: imports the logs of other evaluations as runs, so that they can be used like own runs."""

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_vla import extensions
from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.util.text import printable

if TYPE_CHECKING:
    from pytest_vla.records.load import ImportedLog
    from pytest_vla.records.record import Record

# Heavy imports are inside the functions, so that --help is fast.

_MOST_FILES = 20_000  # Of a folder.


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options, and those of all importers. Raises VlaError if an importer cannot be loaded."""
    from pytest_vla.records.load import importer_of
    from pytest_vla.run.arguments import declare_results, one_seed, some_text

    entries = extensions.importers()
    formats = "; ".join(f"{name}: {entry.about}" for name, entry in entries.items())
    parser.epilog = (
        f"Formats, found by content: {formats}. A log becomes a run with one record for each episode, and is stored "
        "whole or not at all; the files of one command become one run, and each log below a folder one of its own. "
        "Use `pytest-vla report`, `gate`, `baseline` and "
        "`plan` on it, or give them the file itself. Logs have no trajectories, so metrics of paths are missing. "
        "Packages add formats by the hook pytest_vla_importers."
    )
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="a log, or a folder of logs")
    parser.add_argument("--format", metavar="NAME", choices=[*entries], help="the format (default: found by content)")
    parser.add_argument(
        "--model", metavar="NAME", type=some_text, help="name of the policy (default: from the name of file or folder)"
    )
    parser.add_argument(
        "--evaluator",
        metavar="NAME|FILE.toml",
        type=some_text,
        help="the evaluator that wrote the log: one of --vla-evaluator (default: found by content, else unknown)",
    )
    parser.add_argument(
        "--suite", metavar="NAME", type=some_text, help="the suite, if the log does not say it (default: by its tasks)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=one_seed, help="for LIBERO-Para: the log's seed (default: from its folder's name)"
    )
    parser.add_argument(
        "--allow-unfinished", action="store_true", help="import the episodes that ended of a log that breaks off"
    )
    for entry in entries.values():
        importer_of(entry).declare(parser)
    declare_results(parser)


def run(options: argparse.Namespace) -> None:
    """Read the logs, store them as runs, and print a summary. Raises VlaError if a log cannot be imported."""
    try:
        for line in _imported(options):
            print(printable(line))
    except VlaError as error:
        raise VlaError("\n".join(map(printable, str(error).split("\n")))) from error


def _imported(options: argparse.Namespace) -> Iterator[str]:
    """Import the logs, and yield the summary's lines."""
    from pytest_vla.records.load import formats_of

    folders = [path for path in options.files if path.is_dir() and not (options.format or formats_of(path))]
    if not folders:
        yield from _one_run(options)
        return
    if len(folders) < len(options.files):
        raise VlaError(
            "files of one command become one run, and each log below a folder one of its own: import them apart"
        )
    for folder in folders:
        yield from _below(folder, options)


def _below(folder: Path, options: argparse.Namespace) -> Iterator[str]:
    """Import each log below a folder as a run of its own, and name the other files.

    Raises:
        VlaError: there is no log, or some could not be imported; the others were.
    """
    from pytest_vla.records.load import formats_of
    from pytest_vla.util.text import counted

    others: list[str] = []
    wrong: list[str] = []
    logs = 0
    for path in _files(folder):
        try:
            if not formats_of(path):
                others.append(os.path.relpath(path, folder))
                continue
            logs += 1
            yield from _one_run(argparse.Namespace(**{**vars(options), "files": [path]}), skips=True)
        except VlaError as error:
            wrong.append(str(error))
    if others:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        verb = "is no log" if len(others) == 1 else "are no logs"
        yield f"{folder}: {counted(len(others), 'file')} {verb}: {', '.join(others[:5])}{more}"
    if not logs and not wrong:
        raise VlaError(f"{folder}: no file in it is a log. Formats: {', '.join(extensions.importers())}")
    if wrong:
        verb = "was" if len(wrong) == 1 else "were"
        raise VlaError("\n".join([f"{folder}: {counted(len(wrong), 'file')} {verb} not imported:", *wrong]))


def _files(folder: Path) -> list[Path]:
    """Return the files below a folder, and folders that are logs, without hidden ones and links.

    Raises:
        VlaError: there are too many.
    """
    from pytest_vla.records.load import formats_of

    files: list[Path] = []
    for at, folders, names in os.walk(folder):
        logs = [name for name in folders if name[0] != "." and formats_of(Path(at, name))]
        folders[:] = sorted(name for name in folders if name[0] != "." and name not in logs)
        shown = (Path(at, name) for name in sorted([*logs, *names]) if name[0] != ".")
        files += (path for path in shown if path.exists() and not path.is_symlink())
        if len(files) > _MOST_FILES:
            raise VlaError(f"{folder}: more than {_MOST_FILES:,} files. Import the folders below it one by one")
    return files


def _one_run(options: argparse.Namespace, *, skips: bool = False) -> Iterator[str]:
    """Import the files as one run, then yield the summary's lines; with `skips`, known ones raise nothing."""
    from pytest_vla.records.load import enter_logs, importer_of
    from pytest_vla.records.store import open_store

    kind = options.format or _format_of(options.files)
    imported = importer_of(extensions.importers()[kind]).read(options)
    logs = imported.logs
    _check_different(logs)
    with open_store(options.results, create=True) as store:
        known = {str(run.invocation.get("log_digest")): run for run in store.runs() if run.done}
        new = [log for log in logs if log.digest not in known]
        if not new and not skips:
            run = known[logs[0].digest]
            raise VlaError(
                f"{options.files[0]} is already in {store.results}, as run {run.name} of {run.model}: "
                f"`pytest-vla report {run.name}`, or `pytest-vla rm {run.name}` to import it with other options"
            )
        entered = enter_logs(store, new, kind) if new else {}
    for log in logs:
        if log.digest in known:
            yield f"{log.path} is already in {options.results}, as run {known[log.digest].name}; skipped"
    for log in new:
        yield from _summary(log, entered[log.digest])
    yield from imported.told


def _format_of(files: Sequence[Path]) -> str:
    from pytest_vla.records.load import format_of

    found = {path: format_of(path) for path in files}
    if len({*found.values()}) > 1:
        told = ", ".join(f"{path} is {name}" for path, name in found.items())
        raise VlaError(f"the files of one command become one run, and have one format: {told}. Import them one by one")
    return found[files[0]]


def _check_different(logs: "Sequence[ImportedLog]") -> None:
    """Raise VlaError if two logs have the same episodes, of which only one would count."""
    digests: dict[str, Path] = {}
    subjects: dict[tuple[str, int | None], Path] = {}
    for log in logs:
        if (same := digests.setdefault(log.digest, log.path)) is not log.path:
            raise VlaError(f"{log.path} is a copy of {same}. Remove one of them")
        if (same := subjects.setdefault((log.model, log.seed), log.path)) is not log.path:
            raise VlaError(
                f"{log.path} and {same} are both {log.model}, seed {log.seed}, and only one of equal episodes "
                "counts. Import them one by one, with a different --seed or --model"
            )


def _summary(log: "ImportedLog", runs: "list[tuple[str, list[Record]]]") -> Iterator[str]:
    from pytest_vla.util.text import counted

    for repeat, (name, records) in enumerate(runs):
        done = sum(each.outcome == "success" for each in records)
        tasks = counted(len({(each.suite, each.task_key) for each in records}), "task")
        line = f"run {name}: {counted(len(records), 'episode')} of {tasks} by {log.model}"
        line += "" if log.seed is None else f", seed {log.seed}"
        line += f", number {repeat + 1} of each" if len(runs) > 1 else ""
        yield f"{line}, {done} successes"
    yield from log.remark.split("\n") if log.remark else ()


COMMAND = Command(declare, run)
