"""``pytest-vla import``: imports the logs of other evaluations as runs, so that they can be reported like own runs."""

import argparse
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_vla import extensions
from pytest_vla.entries import Command
from pytest_vla.errors import VlaError
from pytest_vla.util.text import printable

if TYPE_CHECKING:
    from pytest_vla.records.load import ImportedLog
    from pytest_vla.records.record import Record
    from pytest_vla.records.store import Store

# Heavy imports are inside the functions, so that --help is fast.

Entered = list[tuple[str, "list[Record]"]]
"""The names of a log's runs, with their records."""


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare a subcommand for each kind of log. Raises VlaError if an importer cannot be loaded."""
    from pytest_vla.run.arguments import declare_results, one_seed, some_text

    parser.epilog = (
        "A log becomes a run with one record for each episode. All logs of a folder are imported, or none. Use "
        "`pytest-vla report` for the tables. Logs have no trajectories, so metrics of paths are missing. Packages add "
        "kinds of logs by the hook pytest_vla_importers."
    )
    kinds = parser.add_subparsers(metavar="KIND", required=True, title="kinds of logs", dest="kind")
    for entry in extensions.importers().values():
        own = kinds.add_parser(entry.name, help=entry.about, description=entry.about)
        importer = _importer(entry)
        own.epilog = importer.help
        own.add_argument("folder", metavar="DIR", type=Path, help="a log, or a folder of logs")
        own.add_argument(
            "--model", metavar="NAME", type=some_text, help="name of the policy (default: from the folder's name)"
        )
        own.add_argument("--seed", metavar="N", type=one_seed, help="seed of the log (default: from its name)")
        importer.declare(own)
        declare_results(own)


def run(options: argparse.Namespace) -> None:
    """Read the logs, store them as runs, and print a summary. Raises VlaError if a log cannot be imported."""
    try:
        for line in _imported(options):
            print(printable(line))
    except VlaError as error:
        raise VlaError(printable(str(error))) from error


def _importer(entry: Any) -> Any:
    from pytest_vla.records.load import Importer

    found = extensions.load(entry)
    if not isinstance(found, Importer):
        whose = f"{entry.origin}: {entry.load}"
        raise VlaError(f"{whose} is {type(found).__name__}, expected pytest_vla.records.load.Importer")
    return found


def _imported(options: argparse.Namespace) -> Iterator[str]:
    """Import the logs, then yield the summary's lines."""
    from pytest_vla.records.store import open_store

    imported = _importer(extensions.importers()[options.kind]).read(options)
    logs = imported.logs
    _check_different(logs)
    with open_store(options.results, create=True) as store:
        known = {str(run.invocation.get("log_digest")): run for run in store.runs() if run.done}
        new = [log for log in logs if log.digest not in known]
        if not new:
            run = known[logs[0].digest]
            raise VlaError(
                f"{options.folder} is already in {store.results}, as run {run.name} of {run.model}: "
                f"`pytest-vla report {run.name}`"
            )
        entered = _enter(store, new, options.kind)
    for log in logs:
        if log.digest in known:
            yield f"{log.folder} is already in {options.results}, as run {known[log.digest].name}; skipped"
    for log in new:
        yield from _summary(log, entered[log.digest])
    yield from imported.told


def _check_different(logs: "Sequence[ImportedLog]") -> None:
    """Raise VlaError if two logs have the same episodes, of which only one would count."""
    digests: dict[str, Path] = {}
    subjects: dict[tuple[str, int], Path] = {}
    for log in logs:
        if (same := digests.setdefault(log.digest, log.folder)) is not log.folder:
            raise VlaError(f"{log.folder} is a copy of {same}. Remove one of them")
        if (same := subjects.setdefault((log.model, log.seed), log.folder)) is not log.folder:
            raise VlaError(
                f"{log.folder} and {same} are both {log.model}, seed {log.seed}, and only one of equal episodes "
                "counts. Import them one by one, with a different --seed or --model"
            )


def _summary(log: "ImportedLog", runs: Entered) -> Iterator[str]:
    from pytest_vla.util.text import counted

    for repeat, (name, records) in enumerate(runs):
        done = sum(each.outcome == "success" for each in records)
        tasks = counted(len({each.task_key for each in records}), "task")
        line = f"run {name}: {counted(len(records), 'episode')} of {tasks} by {log.model}, seed {log.seed}"
        line += f", number {repeat + 1} of each" if len(runs) > 1 else ""
        yield f"{line}, {done} successes"
    if log.remark:
        yield log.remark


def _enter(store: "Store", logs: "Sequence[ImportedLog]", kind: str) -> "dict[str, Entered]":
    """Store all logs or none; return, by digest, the names of each log's runs with their records."""
    from pytest_vla.run.constants import new_run_name

    entered: dict[str, Entered] = {}
    for log in logs:
        entered[log.digest] = [(name, make(name)) for make in log.runs for name in (new_run_name(),)]
    runs = [(log, name, records) for log in logs for name, records in entered[log.digest]]
    try:
        for log, name, records in runs:
            log_path = str(log.folder.resolve())
            invocation: dict[str, Any] = {"imported": kind, "log": log_path, "log_digest": log.digest}
            # --vla-resume reads these two keys before it refuses the run.
            invocation |= {"arguments": [], "folder": str(Path.cwd())}
            command = shlex.join(["pytest-vla", "import", kind, str(log.folder)])
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


COMMAND = Command(declare, run)
